/* SPDX-License-Identifier: Apache-2.0 */
/* mig.mode = average: the instances become data-parallel replicas of one run. */
#ifndef CADRE_RUN_REPLICAS_H
#define CADRE_RUN_REPLICAS_H

#include "core/engine/rank.h"

/* If the stack has mig in mode average, add ddp on mig's axis. The axis is then also
 * known by the name of ddp's own axis, so no other plugin can have one of that name.
 * The plugins of the stack are loaded and their options declared, but not resolved;
 * those of ddp are added. Errors: CADRE_E_INVALID. */
cadre_status cadre_replicas_add(struct cadre_run_spec *run,
                                struct cadre_options *options, const char *plugin_path,
                                struct cadre_error *err);

#endif
