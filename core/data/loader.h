/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: one rank's micro-batches, read ahead by its own thread.
 *
 * Micro-batch i of step s holds the global samples s * global_batch + i * micro_batch +
 * [0, micro_batch), in the data set's training order. So a batch depends only on (seed,
 * step, micro-batch), not on the number of ranks, and the cursor to resume from is the
 * step. */
#ifndef CADRE_DATA_LOADER_H
#define CADRE_DATA_LOADER_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/dataset.h"

/* The micro-batches a rank will ask for in each step, in this order: first + k * stride
 * for k in [0, n_microbatches). Only what is read ahead depends on it: any micro-batch
 * may be asked for. */
struct cadre_loader_config {
    const struct cadre_dataset *dataset; /* borrowed until destroy */
    int64_t global_batch; /* samples per optimizer step, all ranks */
    int64_t micro_batch; /* B: samples per micro-batch */
    int64_t first_microbatch;
    int64_t microbatch_stride;
    int64_t n_microbatches;
    uint64_t first_step; /* where reading ahead begins: 0, or the resumed step */
    int64_t prefetch; /* micro-batches read ahead; 0: no thread */
    /* Tokens [first_token, first_token + n_tokens) of each sample; n_tokens 0: all. */
    int64_t first_token, n_tokens;
};

/* The caller's memory, filled by cadre_loader_next; B = micro_batch, T = n_tokens, or
 * info.seq_len where that is 0. */
struct cadre_batch {
    int32_t *inputs; /* (B, T), of images (B, info.inputs) */
    int32_t *targets; /* (B, T), may be NULL */
    int32_t *labels; /* (B), may be NULL */
    int32_t *positions; /* (B, T), may be NULL; not where parts are asked for */
    double wait_s; /* written: time this call spent waiting for data */
};

struct cadre_loader;

/* Start reading ahead. The caller destroys *out. Errors: CADRE_E_INVALID sizes or an
 * empty train split, CADRE_E_RESOURCE memory or thread; *out is then untouched. */
cadre_status cadre_loader_create(const struct cadre_loader_config *config,
                                 struct cadre_loader **out, struct cadre_error *err);

/* Stops and joins the thread. NULL is accepted. */
void cadre_loader_destroy(struct cadre_loader *loader);

/* Copy micro-batch `microbatch` of step `step` into batch. Another order than
 * announced, or a repeated request, is allowed but not read ahead. [the rank's thread
 * only] Errors: those of cadre_dataset_sample; CADRE_E_INVALID micro-batch outside the
 * step. */
cadre_status cadre_loader_next(struct cadre_loader *loader, uint64_t step,
                               int64_t microbatch, struct cadre_batch *batch);

/* From step `step` on (from 0) the micro-batches are n from `first` on, with the stride
 * of before. What was read ahead is dropped. [the rank's thread only, between two
 * steps] Errors: CADRE_E_INVALID micro-batches outside the step, CADRE_E_RESOURCE no
 * thread. */
cadre_status cadre_loader_divide(struct cadre_loader *loader, uint64_t step,
                                 int64_t first, int64_t n);

/* Seconds spent waiting for data since create, all calls together. */
double cadre_loader_wait_s(const struct cadre_loader *loader);

#endif
