/* SPDX-License-Identifier: Apache-2.0 */
/* Code that an ini file brings with it: folders and files of plugins that it names. An
 * ini file from another person is a program then, and the run says so. */
#ifndef CADRE_RUN_NAMED_CODE_H
#define CADRE_RUN_NAMED_CODE_H

#include "core/config/options.h"
#include "core/plugin/stack.h"

/* Before any plugin is opened. Where a file (not the command line or the environment)
 * set strategy.plugin_path, or a path in strategy.stack, one line on stderr says which
 * file names what. Errors: CADRE_E_INVALID if run.trust is off. [any thread] */
cadre_status cadre_named_code_check(const struct cadre_options *options,
                                    const struct cadre_stack *stack,
                                    struct cadre_error *err);

#endif
