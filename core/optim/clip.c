/* SPDX-License-Identifier: Apache-2.0 */
/* The global norm's chunks, and clipping. */
#include "core/optim/optimizer.h"

uint64_t cadre_norm_chunks(uint64_t count)
{
    return count / CADRE_NORM_CHUNK + (count % CADRE_NORM_CHUNK != 0);
}

double cadre_clip_scale(double clip, double norm)
{
    double scale = clip / (norm + 1e-6);
    return clip > 0 && scale < 1 ? scale : 1.0;
}
