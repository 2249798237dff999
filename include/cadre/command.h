/* SPDX-License-Identifier: Apache-2.0 */
/* The command that a plugin may give: `cadre NAME ARGS` of a plugin NAME. */
#ifndef CADRE_COMMAND_H
#define CADRE_COMMAND_H

#include <cadre/types.h>

/* One call of it [main], outside any run: no instance, no rank and no service exist. An
 * empty argv or one with "--help" asks for the usage. `cadre doctor` calls {"doctor"}:
 * one line a finding, "no: reason" where something is not there. Everything here is the
 * host's and lives for the call. */
struct cadre_command {
    uint32_t struct_size;
    uint32_t argc;
    const char *const *argv; /* what follows the plugin's name; argv[argc] is NULL */
    void *h;
    /* Text for stdout, as it stands. CADRE_E_IO where it cannot be written. */
    cadre_status (*print)(void *h, const char *text);
    /* A question to the person at the terminal: 1 yes, 0 no or no answer, -1 there is
     * no terminal, and nobody was asked. */
    int (*ask)(void *h, const char *question);
    /* Record why it is refused, one line; returns status. CADRE_E_INVALID and
     * CADRE_E_UNSUPPORTED end the program with 2, others with 1. */
    cadre_status (*refuse)(void *h, cadre_status status, const char *text);
};

#endif
