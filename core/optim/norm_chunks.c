/* SPDX-License-Identifier: Apache-2.0 */
#include "core/optim/norm_chunks.h"

#include "core/device/device.h"

uint64_t cadre_norm_chunks(uint64_t count)
{
    return count / CADRE_NORM_CHUNK + (count % CADRE_NORM_CHUNK != 0);
}
