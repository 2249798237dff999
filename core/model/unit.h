/* SPDX-License-Identifier: Apache-2.0 */
/* The units of the model that a schedule drives.
 *
 * In order: 0 is the embedding, 1..L are the blocks, L+1 is the head (final norm,
 * projection, loss). A unit's forward, input backward and weight backward are lists of
 * device ops on one micro-batch; the caller owns every buffer and chooses the order.
 * Backward BOTH is INPUT then WEIGHT with the same kernels, so splitting it changes no
 * bit. Norm gradients belong to INPUT. */
#ifndef CADRE_MODEL_UNIT_H
#define CADRE_MODEL_UNIT_H

#include "core/model/kv_cache.h"
#include "core/model/model.h"

/* Points of redistribution over the tensor axis, where a partial result may have to be
 * completed. `in` and `out` are distinct buffers unless no plugin claims the
 * redistribution. Where rows are sharded, the forward of *_IN and the backward of *_OUT
 * gather rows, as do EMBED_OUT and HEAD_IN. */

/* What the caller passes to a unit on one micro-batch. */
struct cadre_pass {
    struct cadre_device *device;
    int64_t batch, time;
    int64_t
        most_rows; /* of a micro-batch on any rank that has experts; 0: batch*time */
    const int32_t *tokens; /* (B, cadre_model_inputs) device; embedding unit */
    /* (B, T) host memory: each row's position in its record, 0 where one begins, as
     * does every sequence; attention is within a record alone. NULL: sequences are
     * records. Not where the model has several time ranks. */
    const int32_t *positions;
    const int32_t *targets; /* (B, T) LM, or (B) class labels; device; head unit */
    double loss_seed; /* d(total loss)/d(row loss): 1 / global count of targets */
    /* (B) host: the same of the rows of each sequence, read by the head's backward; in
     * place of loss_seed unless NULL. LM head alone. */
    const double *loss_seeds;
    bool without_adapters; /* forward of the frozen model; no backward */
    double *loss_rows; /* (B*T) or (B) f64, device; written by the head's forward */
    /* (B*T) f64, device, by the same: the sum of a row's logits over the vocabulary, 0
     * for rows without a target. NULL, as it must be unless the model has logit_sums:
     * not wanted. */
    double *logit_rows;
    void *saved; /* cadre_unit_saved_bytes: kept from forward to the end of backward */
    void *saved_for_input; /* NULL: in `saved`; else cadre_unit_saved_for_input_bytes,
                              kept to the end of INPUT only */
    void *grad_outputs; /* cadre_unit_grad_outputs_bytes: kept from INPUT to WEIGHT */
    void *scratch; /* cadre_unit_scratch_bytes: contents last for one call */
    /* For dropout, which is off unless `training`: the number of the micro-batch's
     * first sequence among all of the run. */
    bool training;
    uint64_t sample;
    bool both; /* WEIGHT follows INPUT at once, with the same buffers */
    void *hook_arg;
    /* grad_begin returns where a gradient goes: *dst (local shape, wide dtype) and
     * *beta 0 or 1; grad_end: it is complete. NULL dst is not allowed. Called in unit
     * order of computation, once per parameter and pass. A weight and its bias get the
     * same beta where both are trained. */
    cadre_status (*grad_begin)(void *arg, uint32_t param, void **dst, int *beta);
    cadre_status (*grad_end)(void *arg, uint32_t param);
    /* NULL: none is. A product that would give gradients of frozen parameters alone may
     * be left out, with their grad_begin and grad_end. */
    bool (*is_frozen)(void *arg, uint32_t param);
    /* NULL: no redistribution. Fills out from in at the points that need it in this
     * direction; not called at the others. */
    cadre_status (*redistribute)(void *arg, uint32_t point, bool backward,
                                 uint32_t form, const void *in, void *out, int64_t rows,
                                 int64_t channels);
    /* NULL: none. The tokens of this pass follow those kept in it, whose keys attention
     * reads too; theirs are added behind. Forward alone; one time rank. */
    const struct cadre_kv_cache *kv_cache;
    /* Where the model has several time ranks. Forward: out = `in` of all ranks, `part`
     * elements each, in their order; backward: out (part) = the sum over the ranks of
     * the slices of `in` that are this rank's. See CADRE_POINT_ATTN_KV. */
    cadre_status (*exchange_keys)(void *arg, bool backward, const void *in, void *out,
                                  int64_t part);
    /* Where the model's ep_size is above 1, else not called. all (ranks, n) = every
     * rank's `mine`, which may be its place in all; host memory. */
    cadre_status (*exchange_counts)(void *arg, const int32_t *mine, int32_t *all,
                                    int64_t n);
    /* Elements [in_offsets[r], in_offsets[r + 1]) of `in` go to rank r, and those from
     * it to `offsets` of out; both have an entry more than ranks. */
    cadre_status (*redistribute_rows)(void *arg, uint32_t point, bool backward,
                                      const void *in, const uint64_t *in_offsets,
                                      void *out, const uint64_t *offsets);
};

/* Bytes of the buffers in cadre_pass for a unit, each a multiple of 64. */
size_t cadre_unit_saved_bytes(const struct cadre_model *, uint32_t unit, int64_t B,
                              int64_t T);
size_t cadre_unit_saved_for_input_bytes(const struct cadre_model *, uint32_t unit,
                                        int64_t B, int64_t T);
size_t cadre_unit_grad_outputs_bytes(const struct cadre_model *, uint32_t unit,
                                     int64_t B, int64_t T);
size_t cadre_unit_scratch_bytes(const struct cadre_model *, uint32_t unit, int64_t B,
                                int64_t T);

/* Run one unit on the device's current stream. Tokens and targets must lie in the
 * vocabulary (targets may be -1: ignored); 1 <= time, and the time of all ranks, or
 * behind a cache, <= context. [local] [stream]
 * Errors: CADRE_E_INVALID batch or time out of range, or backward with a cache; those
 * of the device, the hooks and the redistribution; buffers are then undefined.
 *
 * x (N, C) is the unit's input (NULL for the embedding), y (N, C) its output (NULL for
 * the head, whose result is loss_rows and, in `saved`, what backward needs). x must
 * still hold its values in backward. Where rows are sharded, x, y and their gradients
 * are (own rows, C). */
cadre_status cadre_unit_forward(const struct cadre_model *, uint32_t unit,
                                const struct cadre_pass *, const void *x, void *y);
/* dy (N, C): gradient of y (NULL for the head); dx (N, C): gradient of x (NULL for the
 * embedding); dx may be dy. */
cadre_status cadre_unit_backward_input(const struct cadre_model *, uint32_t unit,
                                       const struct cadre_pass *, const void *x,
                                       const void *dy, void *dx);
cadre_status cadre_unit_backward_weight(const struct cadre_model *, uint32_t unit,
                                        const struct cadre_pass *, const void *x);

#endif
