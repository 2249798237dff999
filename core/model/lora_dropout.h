/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout whose mask is a function of (seed, layer, sample, position, element): the
 * same however samples, time and columns are divided, and again in backward. On devices
 * whose memory the host reaches. Private to core/model and its tests. */
#ifndef CADRE_MODEL_LORA_DROPOUT_H
#define CADRE_MODEL_LORA_DROPOUT_H

#include <stdint.h>

struct cadre_lora_dropout {
    uint64_t seed;
    const char *name; /* of the layer */
    double part; /* that is dropped, below 1; the rest is divided by 1 - part */
    uint32_t dtype;
    uint64_t first; /* number of the first of `batch` samples, of all of the run */
    int64_t batch, time, columns; /* the part at hand: (batch, time, columns) */
    int64_t position, length; /* its first position of `length` */
    int64_t column, width; /* its first column of `width` */
};

/* out (batch * time, columns) = x or zero; out may be x. [any thread] */
void cadre_lora_drop(const struct cadre_lora_dropout *dropout, const void *x,
                     void *out);

#endif
