/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer plugin of a run: what optim.name names if it is not built in. */
#ifndef CADRE_RUN_OPTIMIZER_PLUGIN_H
#define CADRE_RUN_OPTIMIZER_PLUGIN_H

#include "core/engine/layout/run_spec.h"

/* Load the plugin and put it behind the stack's, with its options, which are not
 * resolved yet. Does nothing for the core's own. [main] Errors: CADRE_E_INVALID no such
 * plugin, one that is no optimizer, or one that the stack names. */
cadre_status cadre_optimizer_plugin_add(struct cadre_run_spec *run,
                                        struct cadre_options *options,
                                        const char *plugin_path,
                                        struct cadre_error *err);

#endif
