/* SPDX-License-Identifier: Apache-2.0 */
/* What a device module provides (kind "device" of core/base/module.h). */
#ifndef CADRE_DEVICE_MODULE_H
#define CADRE_DEVICE_MODULE_H

#include "core/base/memory.h"
#include "core/device/device.h"

/* Which GPU a device is. */
struct cadre_device_identity {
    char name[96]; /* the driver's, truncated to fit */
    char pci[32]; /* its address, "0000:65:00.0"; of a MIG instance that of its GPU */
};

struct cadre_device_module {
    uint32_t ops_bytes; /* sizeof(struct cadre_device_ops) it was compiled with */
    /* As cadre_device_open. Errors: CADRE_E_UNSUPPORTED with the reason: no driver, a
     * driver too old, no device, no kernels for its architecture. */
    cadre_status (*open)(const struct cadre_device_config *config,
                         struct cadre_device **out, struct cadre_error *err);
    /* The number of devices; at least 1 on success. Errors: as `open`. [any thread] */
    cadre_status (*count)(int *count, struct cadre_error *err);
    /* Append a line about each device and library, for `cadre doctor`; a line that
     * begins with "no: " reports what cannot be used and why. [any thread] */
    void (*describe)(struct cadre_text *out);
    /* cadre_device_identify_cuda. Errors: as `open`. */
    cadre_status (*identify)(int index, struct cadre_device_identity *out);
};

/* The lines of the CUDA module, or one "no: " line that says why it does not open.
 * [any thread] */
void cadre_device_describe_cuda(struct cadre_text *out);

/* How many GPUs this process sees, 0 where the CUDA module does not open or finds none.
 * [any thread] */
int cadre_device_count_cuda(void);

/* The GPU that a device of this index is (struct cadre_device_config). False where the
 * module does not open or CUDA does not tell; *out is then empty. [any thread] */
bool cadre_device_identify_cuda(int index, struct cadre_device_identity *out);

#endif
