/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre mig ...`: look at MIG instances, plan them, and on demand make them. */
#ifndef MIG_COMMAND_H
#define MIG_COMMAND_H

#include <stdbool.h>

#include <cadre/command.h>

#include "plugins/mig/gpu.h"
#include "plugins/mig/layout.h"

/* The plugin's command: list, plan, apply and doctor. Nothing is changed on a GPU but
 * by `apply --admin`. [main] Errors: CADRE_E_INVALID for arguments,
 * CADRE_E_UNSUPPORTED where what was asked for is not there or does not fit,
 * CADRE_E_DEVICE where the GPU refused a step. */
cadre_status mig_command(const struct cadre_command *command);

/* What was asked for. The library is open, or says why it is not. */
struct mig_call {
    const struct cadre_command *command;
    struct mig_library library;
    bool json, admin, yes, replace, enable;
    int gpu; /* -1: not named */
    char wanted[512]; /* what is no flag, joined */
};

/* Formatted text to stdout; what is longer than a page is cut. */
cadre_status mig_say(const struct mig_call *call, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Formatted refusal. Returns status. */
cadre_status mig_refuse(const struct mig_call *call, cadre_status status,
                        const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* text with what JSON must have escaped, into out; returns out. */
const char *mig_json_text(const char *text, char *out, size_t bytes);

/* Look at the GPU that was named, else at the only one whose MIG mode is on, or the
 * only one there is. Errors: CADRE_E_INVALID where none was named of several,
 * CADRE_E_UNSUPPORTED where there is none. */
cadre_status mig_choose_gpu(const struct mig_call *call, struct mig_gpu *out);

/* Take all that lies on a GPU as gone, for --replace. */
void mig_forget_taken(struct mig_gpu *gpu);

/* Fit what was asked for, into what is free or, with --replace, into all. Errors:
 * CADRE_E_INVALID for a text that is not understood, CADRE_E_UNSUPPORTED where places
 * are not known or it does not fit, with the reason and what does. */
cadre_status mig_fit_wanted(const struct mig_call *call, const struct mig_gpu *gpu,
                            struct mig_wanted *wanted, struct mig_layout *out);

/* The commands. */
cadre_status mig_command_list(const struct mig_call *call);
cadre_status mig_command_doctor(const struct mig_call *call);
cadre_status mig_command_plan(const struct mig_call *call);
cadre_status mig_command_apply(const struct mig_call *call);

#endif
