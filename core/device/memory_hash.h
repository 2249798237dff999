/* SPDX-License-Identifier: Apache-2.0 */
/* The hash (XXH64) of memory, wherever it lies: what the host cannot read goes through
 * a buffer. [local] */
#ifndef CADRE_DEVICE_MEMORY_HASH_H
#define CADRE_DEVICE_MEMORY_HASH_H

#include "core/device/device.h"

struct cadre_memory_hash {
    struct cadre_device *device; /* borrowed */
    char *stage; /* NULL: the device's memory is the host's */
};

/* Errors: CADRE_E_RESOURCE. */
cadre_status cadre_memory_hash_init(struct cadre_memory_hash *hash,
                                    struct cadre_device *device,
                                    struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_memory_hash_fini(struct cadre_memory_hash *hash);

/* *out = the hash of `bytes` bytes of the device's memory, or of the host's, in stream
 * order; data may be NULL where bytes is 0. Errors: those of the device. */
cadre_status cadre_memory_hash_of(const struct cadre_memory_hash *hash, bool on_host,
                                  const void *data, uint64_t bytes, uint64_t seed,
                                  uint64_t *out);

#endif
