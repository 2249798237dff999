/* SPDX-License-Identifier: Apache-2.0 */
/* mig.mode = average: the instances become data-parallel replicas of one run. */
#ifndef CADRE_RUN_REPLICAS_H
#define CADRE_RUN_REPLICAS_H

#include "core/run/spec.h"

/* If the stack has mig in mode average, add ddp along mig's axis; no other plugin can
 * then have ddp's own axis. The plugins of the stack are loaded and their options
 * declared, but not resolved. Errors: CADRE_E_INVALID. */
cadre_status cadre_replicas_add(struct cadre_spec *spec, const char *plugin_path,
                                struct cadre_error *err);

#endif
