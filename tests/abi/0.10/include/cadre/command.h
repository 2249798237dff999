/* SPDX-License-Identifier: Apache-2.0 */
/* The optional command of a plugin: `cadre NAME ARGS` calls that of the plugin NAME. */
#ifndef CADRE_COMMAND_H
#define CADRE_COMMAND_H

#include <cadre/types.h>

/* One call of the command [main], outside any run: there is no instance, rank or
 * service. If argv is empty or has "--help", print the usage. `cadre doctor` calls
 * {"doctor"}: print one line per finding, "no: reason" for what is missing. The host
 * owns all of this; it is valid during the call. */
struct cadre_command {
    uint32_t struct_size;
    uint32_t argc;
    const char *const *argv; /* after the plugin's name; argv[argc] is NULL */
    void *h;
    /* Writes text to stdout as it is; CADRE_E_IO if that fails. */
    cadre_status (*print)(void *h, const char *text);
    /* Asks the user at the terminal: 1 yes, 0 no or no answer, -1 there is no terminal.
     */
    int (*ask)(void *h, const char *question);
    /* Records the reason of a refusal, one line; returns status. The program exits with
     * 2 for CADRE_E_INVALID and CADRE_E_UNSUPPORTED, else with 1. */
    cadre_status (*refuse)(void *h, cadre_status status, const char *text);
};

#endif
