/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.stack: which plugins, along which axes, over how many ranks each. */
#ifndef CADRE_PLUGIN_STACK_H
#define CADRE_PLUGIN_STACK_H

#include <cadre/types.h>

#include "core/base/error.h"

/* One plugin of the stack, in the order of the text. */
struct cadre_stack_entry {
    char name[32]; /* or a path */
    char path[1024];
    char axis[CADRE_AXIS_CHARS]; /* that it owns; empty: the one of its descriptor */
    int size; /* 0: '*' or no number */
};

#define CADRE_MAX_STACK 8
struct cadre_stack {
    int n; /* 0: single */
    struct cadre_stack_entry entry[CADRE_MAX_STACK];
};

/* Parse "pipeline:2, zero:2", "ddp:*", "single", "./my.so:4"; "ddp@site:2" names
 * another axis than the plugin's own, so that a plugin can be there twice. "single"
 * must be the only entry and takes no number above 1. Errors: CADRE_E_INVALID naming
 * strategy.stack and the part. */
cadre_status cadre_stack_parse(const char *text, struct cadre_stack *out,
                               struct cadre_error *err);

/* An entry as the text has it, with another size: "ddp@site:4". Returns what snprintf
 * does. */
int cadre_stack_print(const struct cadre_stack_entry *entry, int size, char *out,
                      size_t bytes);

#endif
