/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/memory_hash.h"

#include <stdlib.h>

#include "core/base/hash.h"

enum { STAGE_BYTES = 1 << 20 };

cadre_status cadre_memory_hash_init(struct cadre_memory_hash *hash,
                                    struct cadre_device *device,
                                    struct cadre_error *err)
{
    *hash = (struct cadre_memory_hash){.device = device};
    if (!device->ops->async)
        return CADRE_OK;
    hash->stage = cadre_calloc(STAGE_BYTES, 1);
    return hash->stage ? CADRE_OK : cadre_no_memory(err, "a buffer for hashes");
}

void cadre_memory_hash_fini(struct cadre_memory_hash *hash)
{
    free(hash->stage);
    hash->stage = NULL;
}

cadre_status cadre_memory_hash_of(const struct cadre_memory_hash *hash, bool on_host,
                                  const void *data, uint64_t bytes, uint64_t seed,
                                  uint64_t *out)
{
    struct cadre_device *device = hash->device;
    struct cadre_hash sum;
    cadre_hash_init(&sum, seed);
    if (on_host || !hash->stage) {
        cadre_hash_update(&sum, data, bytes);
    } else {
        for (uint64_t at = 0; at < bytes; at += STAGE_BYTES) {
            const uint64_t left = bytes - at;
            const size_t n = left < STAGE_BYTES ? (size_t)left : STAGE_BYTES;
            CADRE_TRY(
                device->ops->to_host(device, hash->stage, (const char *)data + at, n));
            cadre_hash_update(&sum, hash->stage, n);
        }
    }
    *out = cadre_hash_final(&sum);
    return CADRE_OK;
}
