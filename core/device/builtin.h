/* SPDX-License-Identifier: Apache-2.0 */
/* What of devices the program has built in; core/device/cpu implements it. */
#ifndef CADRE_DEVICE_BUILTIN_H
#define CADRE_DEVICE_BUILTIN_H

#include "core/device/device.h"

/* Open a CPU device with config->threads >= 1 workers. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_cpu_open(const struct cadre_device_config *config,
                            struct cadre_device **out, struct cadre_error *err);

/* As cadre_device_quiet. */
void cadre_cpu_quiet_blas(void);

#endif
