/* SPDX-License-Identifier: Apache-2.0 */
/* The chunks over which the global norm is summed. */
#ifndef CADRE_OPTIM_NORM_CHUNKS_H
#define CADRE_OPTIM_NORM_CHUNKS_H

#include <stdint.h>

/* Number of norm chunks of a parameter of `count` elements: chunks of CADRE_NORM_CHUNK
 * that restart at each parameter. */
uint64_t cadre_norm_chunks(uint64_t count);

#endif
