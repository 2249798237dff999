/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre top`: frames (frame.h) of a run on stdout, once or once a second until the run
 * has ended or the user ends it. On a terminal they are drawn over each other, in its
 * alternate screen. */
#ifndef CADRE_TOP_SHOW_H
#define CADRE_TOP_SHOW_H

#include <stdbool.h>

#include "core/base/memory.h"
#include "core/top/frame.h"

struct cadre_top_request {
    const char *dir; /* of a run, a sweep or a comparison */
    bool once; /* one frame */
    bool json; /* one frame, as JSON */
};

/* Append one frame: of the run in `dir`, of the only one at work where there are
 * several, or else a list of them. *over: the folder is a run's, and that has ended.
 * Errors: CADRE_E_INVALID; CADRE_E_RESOURCE. */
cadre_status cadre_top_draw(const struct cadre_top_request *request,
                            const struct cadre_top_look *look, struct cadre_text *out,
                            bool *over, struct cadre_error *err);

/* [main, no other threads] SIGINT, SIGTERM and SIGHUP end it, with the terminal as it
 * was, and are no error. Errors: those of cadre_top_draw of the first frame;
 * CADRE_E_IO. */
cadre_status cadre_top_show(const struct cadre_top_request *request,
                            struct cadre_error *err);

#endif
