/* SPDX-License-Identifier: Apache-2.0 */
/* Placement that is asked to average: its instances become replicas of one run. */
#ifndef CADRE_RUN_REPLICAS_H
#define CADRE_RUN_REPLICAS_H

#include "core/engine/rank.h"

/* Where the run has mig in mode average, add ddp to it, laid over mig's axis: the axis
 * then answers to the name of ddp's own too, so no other plugin can have one of that
 * name. The plugins of the stack are loaded and their options known, but not resolved;
 * those of ddp are added. Errors: CADRE_E_INVALID. */
cadre_status cadre_replicas_add(struct cadre_run_spec *run,
                                struct cadre_options *options, const char *plugin_path,
                                struct cadre_error *err);

#endif
