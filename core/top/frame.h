/* SPDX-License-Identifier: Apache-2.0 */
/* A frame of `cadre top`: a run at one moment (snapshot.h) as lines for a terminal, or
 * as JSON. */
#ifndef CADRE_TOP_FRAME_H
#define CADRE_TOP_FRAME_H

#include "core/base/memory.h"
#include "core/top/snapshot.h"

/* Of the JSON documents; raised where a key changes its meaning. */
#define CADRE_TOP_FORMAT 1

struct cadre_top_look {
    int columns; /* of the terminal: no line is longer */
    int rows; /* of the terminal, 0: any number; the frame has no more lines */
    bool colours; /* ANSI */
};

/* Append the frame: a header, a row a rank, what the bars mean, the stages of the last
 * step where there is a schedule, why ranks failed. */
void cadre_top_frame(const struct cadre_top_snapshot *snapshot,
                     const struct cadre_top_look *look, struct cadre_text *out);

/* Append the snapshot as one JSON object, a line break behind it. docs/watching.md has
 * its keys; what is not known is null. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_top_frame_json(const struct cadre_top_snapshot *snapshot,
                                  struct cadre_text *out);

#endif
