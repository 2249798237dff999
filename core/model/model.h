/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer: a parameter table, and units that a schedule drives.
 *
 * Units in order: 0 is the embedding, 1..L are the blocks, L+1 is the head (final norm,
 * projection, loss). A unit's forward, input-backward and weight-backward are lists of
 * device ops on one micro-batch; the caller owns every buffer and says when. Backward
 * BOTH is INPUT then WEIGHT with the same kernels, so splitting it changes no bit. Norm
 * gradients belong to INPUT.
 *
 * GPT-2 form: LayerNorm, learned positions, GELU-tanh, biases (Radford et al. 2019).
 * Llama form: RMSNorm, RoPE, SwiGLU, grouped-query attention (Touvron et al. 2023).
 * Names and shapes of parameters are Hugging Face's, so GPT-2 keeps Conv1D's (in, out)
 * and Llama keeps Linear's (out, in). Letters: core/tensor/shape.h. */
#ifndef CADRE_MODEL_MODEL_H
#define CADRE_MODEL_MODEL_H

#include <stdbool.h>

#include "core/device/device.h"
#include "core/tensor/shape.h"

enum cadre_arch {
    CADRE_ARCH_GPT2,
    CADRE_ARCH_LLAMA,
};

struct cadre_model_config {
    enum cadre_arch arch;
    int64_t layers, channels, heads, kv_heads, hidden, context, vocab;
    int64_t classes; /* 0: language-model head; else a classification head on the last
                        token */
    bool tied; /* the LM head is the embedding (ignored for a classification head) */
    double norm_eps, rope_theta;
    int64_t head_rows; /* rows that the LM head scores at once; 0: all */
    uint32_t dtype; /* of parameters and activations; gradients: the wide one */
};

/* How tensor parallelism may cut a parameter. */
enum cadre_split_kind {
    CADRE_SPLIT_NONE, /* replicated */
    CADRE_SPLIT_COLUMN, /* along its output features */
    CADRE_SPLIT_QKV, /* packed q, k, v: each third along its output features */
    CADRE_SPLIT_ROW, /* along its input features */
    CADRE_SPLIT_VOCAB, /* along dimension 0, the vocabulary */
};

enum cadre_init_kind {
    CADRE_INIT_ZERO,
    CADRE_INIT_ONE,
    CADRE_INIT_NORMAL,
};

/* One use of a weight, with a gradient of its own: a tied head is an entry with
 * `tied_to` set, whose data is its owner's (or a copy of it on another stage) and which
 * has no optimizer state and no place in checkpoints. */
struct cadre_param {
    char name[96];
    struct cadre_shape shape; /* logical: of one rank, as in a checkpoint */
    struct cadre_shape local; /* of this rank's part under tensor parallelism */
    uint32_t unit;
    int32_t tied_to; /* index of the owner, -1: owns itself */
    bool decay; /* weight decay applies: 2 or more dimensions */
    enum cadre_split_kind split;
    int32_t split_dim; /* the dimension that `split` cuts, -1 for NONE */
    bool norm; /* belongs to a norm, whose gradient adds over the rows it saw */
    enum cadre_init_kind init;
    double init_std;
    void *data; /* (local) dtype; read on every op call, NULL while detached */
};

struct cadre_model {
    struct cadre_model_config config;
    int tp_rank, tp_size; /* 0 and 1 without tensor parallelism */
    /* Sequence parallelism (Korthikanti et al. 2022): outside of attention and MLP each
     * tensor rank holds its own rows of an activation. False after create. */
    bool rows_cut;
    int64_t heads, kv_heads, hidden; /* local */
    int64_t vocab_begin, vocab; /* local slice of the embedding and the LM head */
    uint32_t n_units; /* layers + 2 */
    uint32_t n_params;
    struct cadre_param *params; /* ordered by unit; the order of forward use */
};

/* Build the table (no storage). tp_size must divide heads, kv_heads, hidden and, for an
 * LM head, vocab (beside a classification head the embedding is not split); the error
 * names the key and both numbers. [any thread, deterministic] Errors: CADRE_E_INVALID,
 * CADRE_E_RESOURCE. */
cadre_status cadre_model_create(const struct cadre_model_config *config, int tp_rank,
                                int tp_size, struct cadre_model **out,
                                struct cadre_error *err);
void cadre_model_destroy(struct cadre_model *model);

/* Index of a parameter by name, -1 when there is none. */
int32_t cadre_model_find(const struct cadre_model *model, const char *name);

/* Elements of all owned parameters (logical): the "number of parameters". */
uint64_t cadre_model_count(const struct cadre_model *model);

/* Fill elements [begin, begin + count) of the flat local part of parameter `index` with
 * its initial values, keyed by (seed, name, logical element), into host memory `out` of
 * the model's wide dtype. The same logical element has the same bits however it is cut.
 * Many elements are made by as many threads as the caller has cores. [any thread] */
void cadre_model_init_range(const struct cadre_model *model, uint32_t index,
                            uint64_t seed, uint64_t begin, uint64_t count, void *out);

/* Logical flat index of local flat element `element` of a parameter. */
uint64_t cadre_param_logical(const struct cadre_param *param, int tp_rank, int tp_size,
                             uint64_t element);

/* The first of the N rows of an activation that tensor rank `rank` holds where rows are
 * cut; rank tp_size has N. */
int64_t cadre_model_row(const struct cadre_model *model, int64_t N, int rank);
/* Of N rows, those this rank holds between units: all of them unless rows are cut. */
int64_t cadre_model_rows(const struct cadre_model *model, int64_t N);

/* Elements of an activation of N rows between units, as this rank holds it. */
uint64_t cadre_model_activation_count(const struct cadre_model *model, int64_t N);

/* Points where a partial result may have to be completed over the tensor axis. `in` and
 * `out` are distinct buffers unless no one claims the joint. Where rows are cut, the
 * forward of *_IN and the backward of *_OUT gather rows, EMBED_OUT and HEAD_IN too. */
enum cadre_joint {
    CADRE_JOINT_EMBED_OUT, /* forward: sum of vocabulary slices */
    CADRE_JOINT_ATTN_IN, /* backward: sum of dX */
    CADRE_JOINT_ATTN_OUT, /* forward: sum of row-split products; bias is added after */
    CADRE_JOINT_MLP_IN, /* backward: sum of dX */
    CADRE_JOINT_MLP_OUT, /* forward: as ATTN_OUT */
    CADRE_JOINT_HEAD_IN, /* backward: sum of dX */
    CADRE_JOINT_LOSS_MAX, /* forward: (rows, 1) maximum */
    /* forward: (rows, 2) as two planes, sums of exponentials then picked logits */
    CADRE_JOINT_LOSS_SUM,
};

/* What a joint does with its (rows, channels) values; a rank's own rows are those of
 * cadre_model_row. */
enum cadre_joint_form {
    CADRE_JOINT_WHOLE, /* out = sum (or maximum) of in */
    CADRE_JOINT_SCATTER, /* out (own rows) = sum of in */
    CADRE_JOINT_GATHER, /* out = in (own rows) of all ranks */
};

/* What the caller supplies to a unit on one micro-batch. */
struct cadre_pass {
    struct cadre_device *device;
    int64_t batch, time;
    const int32_t *tokens; /* (B, T) device; embedding unit */
    const int32_t *targets; /* (B, T) LM, or (B) class labels; device; head unit */
    double loss_seed; /* d(total loss)/d(row loss): 1 / global count of targets */
    double *loss_rows; /* (B*T) or (B) f64, device; written by the head's forward */
    void *saved; /* cadre_unit_saved_bytes: kept from forward to the end of backward */
    void *early; /* NULL: in `saved`; else cadre_unit_early_bytes of it lie here and are
                    kept to the end of INPUT alone */
    void *douts; /* cadre_unit_douts_bytes: kept from INPUT to WEIGHT */
    void *scratch; /* cadre_unit_scratch_bytes: contents last one call */
    bool both; /* WEIGHT follows INPUT at once, with the same buffers */
    void *hook_arg;
    /* Where a gradient goes: *dst (local shape, wide dtype) and *beta 0 or 1; then it
     * exists. NULL dst is not allowed. Called in unit order of computation, once per
     * parameter and pass. A weight and its bias get the same beta. */
    cadre_status (*grad_begin)(void *arg, uint32_t param, void **dst, int *beta);
    cadre_status (*grad_end)(void *arg, uint32_t param);
    /* NULL: no joint is split. Fills out from in for the joints that need it in this
     * direction and is not called for the others. */
    cadre_status (*joint)(void *arg, enum cadre_joint joint, bool backward,
                          enum cadre_joint_form form, const void *in, void *out,
                          int64_t rows, int64_t channels);
};

/* Bytes of the buffers in cadre_pass for a unit, each a multiple of 64. */
size_t cadre_unit_saved_bytes(const struct cadre_model *, uint32_t unit, int64_t B,
                              int64_t T);
size_t cadre_unit_early_bytes(const struct cadre_model *, uint32_t unit, int64_t B,
                              int64_t T);
size_t cadre_unit_douts_bytes(const struct cadre_model *, uint32_t unit, int64_t B,
                              int64_t T);
size_t cadre_unit_scratch_bytes(const struct cadre_model *, uint32_t unit, int64_t B,
                                int64_t T);

/* Run one unit on the device's current stream. Tokens and targets must lie in the
 * vocabulary (targets may be -1: ignored); 1 <= time <= context.
 * [local] [stream] Errors: CADRE_E_INVALID batch or time out of range; what the device,
 * the hooks and the joint return; buffers are then undefined.
 *
 * x (N, C) is the unit's input (NULL for the embedding), y (N, C) its output (NULL for
 * the head, whose result is loss_rows and, in `saved`, what backward needs). x must
 * still hold its values in backward. Where rows are cut, x, y and their gradients are
 * (own rows, C). */
cadre_status cadre_unit_forward(const struct cadre_model *, uint32_t unit,
                                const struct cadre_pass *, const void *x, void *y);
/* dy (N, C): gradient of y (NULL for the head); dx (N, C): gradient of x (NULL for the
 * embedding); dx may be dy. */
cadre_status cadre_unit_backward_input(const struct cadre_model *, uint32_t unit,
                                       const struct cadre_pass *, const void *x,
                                       const void *dy, void *dx);
cadre_status cadre_unit_backward_weight(const struct cadre_model *, uint32_t unit,
                                        const struct cadre_pass *, const void *x);

/* After the head's forward and before backward: logits of its rows (N, V) or (B, K)
 * from `begin` on. *rows of them lie at *out, in `saved` or, computed anew, in
 * `scratch`: all that follow, or as many as the head has at once. [stream] */
cadre_status cadre_head_logits(const struct cadre_model *, const struct cadre_pass *,
                               int64_t begin, int64_t *rows, const void **out);

/* head_rows for micro-batches of `rows` rows, where config->head_rows is what was asked
 * for and its 0 means all rows, unless their logits take more than 1 GiB. 0 where
 * nothing is to be cut. Tensor ranks score all rows of their part of the vocabulary
 * each: there create refuses what was asked for. */
int64_t cadre_model_head_rows(const struct cadre_model_config *config, int64_t rows,
                              int tp_size);

/* FLOPs of forward plus backward per token, counted from the products of the model with
 * causal attention at context T (6 per weight of a product, 6 L C T for attention). */
double cadre_model_flops_per_token(const struct cadre_model *, int64_t T);

#endif
