/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions (Su et al. 2021): pair i of a head turns by position * frequency(i).
 * Scalings are those of Hugging Face's rope_scaling, after modeling_rope_utils.py of
 * huggingface/transformers. */
#ifndef CADRE_TENSOR_ROTARY_H
#define CADRE_TENSOR_ROTARY_H

#include <stdbool.h>
#include <stdint.h>

/* In the order of model.rope_scaling. */
enum cadre_rotary_scaling {
    CADRE_ROTARY_PLAIN,
    CADRE_ROTARY_LINEAR, /* all frequencies over `factor` (Chen et al. 2023) */
    CADRE_ROTARY_LLAMA3, /* long waves over `factor`, short ones as they are, those
                            between in between (Llama 3.1) */
};

/* theta > 0; the others are read where the scaling has them, and are 0 elsewhere. */
struct cadre_rotary {
    double theta;
    enum cadre_rotary_scaling scaling;
    double factor;
    double low, high; /* llama3: original / wave length where long, short ones begin */
    int64_t original; /* llama3: the context that was trained before */
};

/* Radians per position of pair `i` of `pairs`. PLAIN: theta^(-i / pairs). */
double cadre_rotary_frequency(const struct cadre_rotary *rotary, int64_t i,
                              int64_t pairs);

/* Do they turn alike? */
bool cadre_rotary_equal(const struct cadre_rotary *a, const struct cadre_rotary *b);

#endif
