/* SPDX-License-Identifier: Apache-2.0 */
/* The global norm's chunks. */
#include "core/optim/optimizer.h"

uint64_t cadre_norm_chunks(uint64_t count)
{
    return count / CADRE_NORM_CHUNK + (count % CADRE_NORM_CHUNK != 0);
}
