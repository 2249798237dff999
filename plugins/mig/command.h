/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre mig ...`: list MIG instances, plan a layout, and make it on demand. */
#ifndef MIG_COMMAND_H
#define MIG_COMMAND_H

#include <stdbool.h>

#include <cadre/command.h>

#include "plugins/mig/gpu.h"
#include "plugins/mig/layout.h"

/* [main] The plugin's command: list, plan, apply and doctor. Only `apply --admin`
 * changes a GPU. Errors: CADRE_E_INVALID for arguments, CADRE_E_UNSUPPORTED where what
 * was requested does not exist or does not fit, CADRE_E_DEVICE where the GPU refused a
 * step. */
cadre_status mig_command(const struct cadre_command *command);

/* A parsed command. The library is open, or has the reason why it is not. */
struct mig_call {
    const struct cadre_command *command;
    struct mig_library library;
    bool json, admin, yes, replace, enable;
    int gpu; /* -1: not given */
    char wanted[512]; /* the arguments that are no flags, joined */
};

/* Formatted text to stdout; text longer than a page is truncated. */
cadre_status mig_say(const struct mig_call *call, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Formatted refusal. Returns status. */
cadre_status mig_refuse(const struct mig_call *call, cadre_status status,
                        const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Writes text, escaped for JSON, to out; returns out. */
const char *mig_json_text(const char *text, char *out, size_t bytes);

/* Query the GPU of --gpu, else the only one whose MIG mode is on, or the only one.
 * Errors: CADRE_E_INVALID where there are several and --gpu is missing,
 * CADRE_E_UNSUPPORTED where there is none. */
cadre_status mig_choose_gpu(const struct mig_call *call, struct mig_gpu *out);

/* Treat the GPU as empty, for --replace. */
void mig_forget_taken(struct mig_gpu *gpu);

/* Place WANTED on the free slices or, with --replace, on the whole GPU. Errors:
 * CADRE_E_INVALID for text that cannot be parsed, CADRE_E_UNSUPPORTED where places are
 * not known or it does not fit, with the reason and the nearest that fits. */
cadre_status mig_fit_wanted(const struct mig_call *call, const struct mig_gpu *gpu,
                            struct mig_wanted *wanted, struct mig_layout *out);

/* The commands. */
cadre_status mig_command_list(const struct mig_call *call);
cadre_status mig_command_doctor(const struct mig_call *call);
cadre_status mig_command_plan(const struct mig_call *call);
cadre_status mig_command_apply(const struct mig_call *call);

#endif
