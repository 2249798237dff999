/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that 8 bits stand for in the states of adamw8bit: dynamic tree
 * quantization, 7 decades of 10 with more fraction bits in each larger one (Dettmers et
 * al. 2022, section 1.3). */
#ifndef CADRE_OPTIM_CODES_H
#define CADRE_OPTIM_CODES_H

#include <stdbool.h>

#include "core/device/device.h"

/* The codes of numbers in [-1, 1], or of those in [0, 1], which have a fraction bit
 * more. 0 and 1 are codes; a middle belongs to the smaller of its two neighbours. */
void cadre_codes_fill(struct cadre_codes *codes, bool is_signed);

#endif
