/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the executor: executor.c is its memory, executor_pass.c runs units,
 * executor_sequential.c is the sequential schedule, executor_eval.c evaluates,
 * recheck.c computes a micro-batch twice, executor_pairs.c has the loss of pairs. */
#ifndef CADRE_ENGINE_EXECUTE_EXECUTOR_PRIVATE_H
#define CADRE_ENGINE_EXECUTE_EXECUTOR_PRIVATE_H

#include "core/engine/execute/accumulation.h"
#include "core/engine/execute/executor.h"
#include "core/engine/execute/recheck.h"
#include "core/engine/layout/forms.h"
#include "core/model/unit.h"

/* One micro-batch of one chunk. */
struct cadre_slot {
    bool busy;
    uint32_t microbatch;
    int64_t global_microbatch;
    int32_t *tokens, *targets; /* device; NULL where the chunk needs none */
    int32_t *positions; /* host; NULL unless samples are packed */
    double *loss_seeds; /* (B) host, of pairs from forward to backward; else NULL */
    char **x; /* per unit of the chunk: its input (N, C), NULL for the embedding; lent
                 for blocks while the slot is busy, as are the next two */
    char **saved; /* per unit; recomputed blocks share exec->resaved */
    char **saved_for_input; /* per unit; NULL: in saved */
    char **grad_outputs; /* per unit; shared unless backward is split */
};

/* Buffers of one size lent to slots; `free` are those not lent. */
struct cadre_buffer_pool {
    char **free;
    uint32_t n_free;
};

struct cadre_chunk_state {
    struct cadre_chunk plan;
    struct cadre_slot *slot;
    uint32_t forwards; /* micro-batches whose forward is done */
    uint32_t inputs, weights; /* and whose backward is, by part */
};

/* A batch on the host, being copied to the device. */
struct cadre_staging {
    int32_t *tokens; /* inputs of B samples, then (B, T) targets */
    cadre_device_event sent; /* once this happened, tokens may be overwritten */
};
enum { CADRE_STAGINGS = 2 };

/* Forward and backward of a micro-batch as a graph of the device. */
struct cadre_micro_graph {
    bool ran; /* without a graph: it ran once, so what it needs exists */
    bool kept;
    double seed; /* the loss seed it was captured with */
};

struct cadre_executor {
    struct cadre_executor_config config;
    int n_chunks;
    struct cadre_chunk_state *chunk;
    struct cadre_buffer_pool block_buffers; /* what one block of a micro-batch keeps */
    struct cadre_buffer_pool
        split_buffers; /* if splits_backward: see take_grad_outputs */
    bool splits_backward;
    struct cadre_accumulation accumulation;
    struct cadre_recheck recheck;
    char *resaved; /* saved buffer of a recomputed block */
    char *grad_outputs; /* grad_outputs buffer when backward is not split */
    char *scratch;
    char *recompute_out; /* output of a recomputed last block; never read */
    char *boundary_grad; /* gradient of the activation between units (N, C) */
    char *frozen_grad; /* space for gradients of frozen parameters; never read */
    double *loss_rows; /* device */
    double *loss_host; /* evaluation */
    double *logit_rows, *logit_host; /* of pairs, as loss_rows */
    int32_t *target_host; /* of pairs */
    struct cadre_staging staging[CADRE_STAGINGS]; /* the first alone unless pinned */
    int32_t *pageable; /* of staging, unless pinned */
    uint32_t staged; /* batches so far */
    uint64_t *shard_offsets; /* offsets of the current redistribution: one for each
                                tensor or time rank, then the end */
    size_t act_bytes; /* (N, C) of this rank's rows, padded */
    uint64_t step;
    bool forward_only; /* this step has no backward: a slot is free after its forward */
    bool batch_by_caller; /* the caller of a pass loads its batch and collects its loss
                           */
    bool no_graphs;
    struct cadre_micro_graph graph[2]; /* first micro-batch; others */
    /* of the current unit call, for the hooks */
    struct cadre_pass pass;
    uint32_t microbatch, unit;
};

/* Lend the slot memory for the activations of its chunk's blocks, and take it back.
 * false: the plan's live_blocks would be exceeded. */
bool cadre_executor_lend(struct cadre_executor *exec,
                         const struct cadre_chunk_state *chunk,
                         struct cadre_slot *slot);
void cadre_executor_return(struct cadre_executor *exec,
                           const struct cadre_chunk_state *chunk,
                           struct cadre_slot *slot);

/* Where backward is split, half of what a block keeps is needed by INPUT alone (its
 * input and saved_for_input), and INPUT produces about as much for WEIGHT
 * (grad_outputs). Both use the split buffers in turn: before INPUT of a block the slot
 * gets one for its grad_outputs, after INPUT the other is returned. One more buffer
 * than blocks is enough. Recomputed blocks keep their input. */
void cadre_executor_take_grad_outputs(struct cadre_executor *exec,
                                      const struct cadre_chunk_state *chunk,
                                      struct cadre_slot *slot, uint32_t unit);
void cadre_executor_drop_saved_for_input(struct cadre_executor *exec,
                                         const struct cadre_chunk_state *chunk,
                                         struct cadre_slot *slot, uint32_t unit);

/* The number of a micro-batch's first sample among all of the run. */
uint64_t cadre_executor_sample(const struct cadre_executor *exec,
                               const struct cadre_slot *slot);

/* Bytes of what passes from unit to unit, and between chunks. */
size_t cadre_executor_boundary_bytes(const struct cadre_executor *exec);

/* Where the gradient of a frozen parameter goes: two that a unit computes at once do
 * not overlap. */
char *cadre_executor_frozen_grad(const struct cadre_executor *exec, uint32_t param);

/* The rank's status page, NULL for none. */
static inline struct cadre_rank_page *
cadre_executor_page(const struct cadre_executor *exec)
{
    return exec->config.timeline ? exec->config.timeline->page : NULL;
}

/* The slot takes micro-batch `microbatch` of this rank. */
void cadre_executor_assign(const struct cadre_executor *exec, struct cadre_slot *slot,
                           uint32_t microbatch);
/* Copy its tokens and targets into the slot if the chunk needs them. */
cadre_status cadre_executor_load(struct cadre_executor *exec, struct cadre_slot *slot,
                                 struct cadre_error *why);
/* Sum the head's row losses into the core's array; does not wait. */
cadre_status cadre_executor_collect(struct cadre_executor *exec,
                                    const struct cadre_slot *slot);
/* Space for what is read of a micro-batch's pairs, if there are any; destroy frees it.
 */
cadre_status cadre_executor_make_pairs(struct cadre_executor *exec);
/* Space for a slot's loss seeds, to be freed. */
bool cadre_executor_make_seeds(const struct cadre_executor_config *config,
                               struct cadre_slot *slot);
/* The same of pairs, for which it waits: their figures or log-probabilities, and the
 * slot's loss seeds. */
cadre_status cadre_executor_collect_pairs(struct cadre_executor *exec,
                                          struct cadre_slot *slot,
                                          struct cadre_error *why);
/* d(step's loss)/d(loss of a row) */
double cadre_executor_seed(const struct cadre_executor *exec);

/* Raise a block event for exec->unit on the chain. */
cadre_status cadre_executor_raise(struct cadre_executor *exec, uint32_t kind,
                                  uint32_t chunk, int32_t next_unit, uint32_t flags);

/* Hooks of struct cadre_pass; arg is the executor. [collective: the ranks along the
 * axis of expert.shard] */
cadre_status cadre_executor_exchange_counts(void *arg, const int32_t *mine,
                                            int32_t *all, int64_t n);
cadre_status cadre_executor_redistribute_rows(void *arg, uint32_t point, bool backward,
                                              const void *in,
                                              const uint64_t *in_offsets, void *out,
                                              const uint64_t *offsets);

/* Make exec->pass that of `unit` on the slot's micro-batch. */
void cadre_executor_set_pass(struct cadre_executor *exec,
                             struct cadre_chunk_state *chunk, struct cadre_slot *slot,
                             uint32_t unit);

#endif
