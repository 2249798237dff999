/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of a block of a small model on this machine, as training computes it: what
 * probe.h's single operations leave out of it is in here. */
#ifndef CADRE_TRAIN_BLOCK_PROBE_H
#define CADRE_TRAIN_BLOCK_PROBE_H

#include <stdint.h>

#include "core/base/error.h"

struct cadre_block_shape {
    int64_t channels, heads, time, batch; /* GPT-2: an MLP of 4 channels, GELU */
};

/* *seconds: forward and both parts of backward of one block on one micro-batch in fp32;
 * the median of `repeats` medians, 1 to 16. So many
 * `ranks` do that at a time, each with a device of `kind` with `threads` threads; the
 * mean of theirs. [main] Errors: CADRE_E_INVALID, those of the device,
 * CADRE_E_RESOURCE. */
cadre_status cadre_block_probe(const char *kind, int threads, int ranks,
                               const struct cadre_block_shape *shape, int repeats,
                               double *seconds, struct cadre_error *err);

#endif
