/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer as a parameter table; its units are in unit.h.
 *
 * GPT-2 form: LayerNorm, learned positions, GELU-tanh, biases (Radford et al. 2019).
 * Llama form: RMSNorm, RoPE, SwiGLU, grouped-query attention (Touvron et al. 2023);
 * with qkv_bias that of Qwen 2 (Yang et al. 2024), with qk_norm that of Qwen 3 (2025).
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

/* Images in place of tokens, for the ViT form (Dosovitskiy et al. 2021): that of GPT-2
 * with patches projected, a class token and no mask. */
struct cadre_image_form {
    int64_t patch; /* side in pixels; 0: no images, and the rest is not used */
    int64_t channels, height, width;
    bool nhwc; /* how the bytes of a sample lie: the values of a pixel together */
    double mean[CADRE_IMAGE_CHANNELS], std[CADRE_IMAGE_CHANNELS]; /* of [0, 1] */
};

/* Low-rank adapters (Hu et al. 2021): beside the product with a frozen weight of a
 * block runs y += scale * B (A dropout(x)), A (rank, in), B (out, rank). Only they
 * train. */
struct cadre_lora_config {
    int64_t rank; /* 0: none, and all parameters train */
    uint32_t targets; /* bit i: the weight in row i of the form's table of a block */
    double alpha;
    bool rslora; /* Kalajdzievski 2023 */
    double scale; /* alpha / rank, or alpha / sqrt(rank) of rslora */
    double dropout; /* of x, in training; the mask is a function of seed and element */
    uint64_t seed;
};

/* Quantization-aware training, 8da4w: products of blocks read int8 tokens and int4
 * weights as values (core/tensor/fake_quantize.h); what trains is not quantised. */
struct cadre_qat_config {
    int64_t group; /* inputs of a weight's row that share a scale; 0: no quantization */
    bool stored; /* weights are such values already: tokens alone are quantised */
};

struct cadre_model_config {
    enum cadre_arch arch;
    struct cadre_image_form image; /* context is its patches and one, vocab 2 */
    int64_t layers, channels, heads, kv_heads, hidden, context, vocab;
    int64_t classes; /* 0: language-model head; else a classification head on the last
                        token */
    bool tied; /* the LM head is the embedding (ignored for a classification head) */
    double norm_eps;
    /* Llama form only, as the next three */
    struct cadre_rotary rotary;
    int64_t head_size; /* 0: channels / heads */
    bool qkv_bias; /* the products that make q, k and v have biases */
    bool qk_norm; /* each head of q and of k is normed before it turns */
    int64_t head_rows; /* rows that the LM head scores at once; 0: all */
    bool logit_sums; /* passes may ask the LM head for sums of logits: logit_rows */
    /* Experts of each block's MLP, of which a token takes one (Fedus et al. 2022); 0: a
     * plain MLP. GPT-2 form only. */
    int64_t experts;
    double expert_balance; /* weight of the balance loss in the gradient */
    /* Above 1: sums that tensor parallelism cuts are made of that many parts whatever
     * its size, so that the bits are those of every size: the products' inner
     * dimensions, the loss over the vocabulary, and the norms' gradients over the rows.
     * Needs a device that was opened `fixed`. */
    int64_t exact_parts;
    uint32_t dtype; /* of parameters and activations; gradients: the wide one */
    struct cadre_lora_config lora;
    struct cadre_qat_config qat;
};

enum cadre_init_kind {
    CADRE_INIT_ZERO,
    CADRE_INIT_ONE,
    CADRE_INIT_NORMAL,
    CADRE_INIT_UNIFORM, /* in (-init_std * sqrt(3), init_std * sqrt(3)) */
};

/* One use of a weight, with a gradient of its own: a tied head is an entry with
 * `tied_to` set, whose data is its owner's (or a copy of it on another stage) and which
 * has no optimizer state and no place in checkpoints. */
struct cadre_param {
    char name[96];
    struct cadre_shape shape; /* logical: the whole parameter, as in a checkpoint */
    struct cadre_shape local; /* of this rank's part under tensor parallelism */
    uint32_t unit;
    int32_t tied_to; /* index of the owner, -1: owns itself */
    bool decay; /* weight decay applies: 2 or more dimensions */
    uint32_t split;
    int32_t split_dim; /* the dimension that `split` shards, -1 for NONE */
    int32_t expert; /* of a block: which one it belongs to; -1: none */
    bool norm; /* of a norm: its gradient is a sum over the rows of this rank */
    bool head_norm; /* of a norm of heads: a sum over the heads of this rank */
    int32_t adapter; /* of a weight: its adapter's A, whose B follows; -1: none */
    int32_t adapts; /* of an adapter's A or B: the weight; -1: no adapter */
    bool frozen; /* never updated */
    /* Of an adapter: its gradient is a sum over tensor ranks, each having a term. */
    bool partial;
    enum cadre_init_kind init;
    double init_std;
    void *data; /* (local), dtype; read on every op call, NULL while detached */
};

struct cadre_model {
    struct cadre_model_config config;
    int tp_rank, tp_size; /* 0 and 1 without tensor parallelism */
    int64_t parts; /* of config.exact_parts, those of this rank; 0 where it is 0 or 1 */
    /* Sequence parallelism (Korthikanti et al. 2022): outside of attention and MLP each
     * tensor rank holds its own rows of an activation. False after create. */
    bool rows_sharded;
    /* Context parallelism: of the time of each sequence this rank has part `time_rank`
     * of `time_ranks` equal ones, and attention reads the keys of all. 0 and 1 after
     * create. */
    int time_rank, time_ranks;
    /* Experts over ranks: rank r of ep_size holds the r-th part of each block's. 0 and
     * 1 after create; ep_size divides config.experts. */
    int ep_rank, ep_size;
    int64_t heads, kv_heads, hidden; /* local */
    int64_t head_size;
    int64_t vocab_begin, vocab; /* local slice of the embedding and the LM head */
    uint32_t n_units; /* layers + 2 */
    uint32_t n_params;
    struct cadre_param *params; /* ordered by unit; the order of forward use */
};

/* gpt2, llama or vit, as in model.arch. */
const char *cadre_model_arch_name(const struct cadre_model_config *config);

/* int32 of a sample's inputs: its tokens, or an image's bytes, rounded up. */
int64_t cadre_model_inputs(const struct cadre_model_config *config, int64_t time);

/* Patches of an image and its class token, 0 where the sizes do not fit. */
int64_t cadre_image_tokens(const struct cadre_image_form *image);

/* Build the table (no storage). tp_size, and exact_parts, must divide heads, kv_heads,
 * hidden and, for an LM head, vocab (with a classification head the embedding is not
 * sharded); tp_size is 1, or leaves each rank a power of two of exact_parts. The error
 * names the key and both numbers. [any thread, deterministic] Errors: CADRE_E_INVALID,
 * CADRE_E_RESOURCE. */
cadre_status cadre_model_create(const struct cadre_model_config *config, int tp_rank,
                                int tp_size, struct cadre_model **out,
                                struct cadre_error *err);
void cadre_model_destroy(struct cadre_model *model);

/* Is the parameter's gradient a part of a sum over the tensor ranks? */
bool cadre_model_is_partial(const struct cadre_model *model, uint32_t param);

/* Index of a parameter by name, -1 when there is none. */
int32_t cadre_model_find(const struct cadre_model *model, const char *name);

/* Index of the first parameter of a unit. */
uint32_t cadre_model_first_param(const struct cadre_model *model, uint32_t unit);

/* Is it a weight of a product inside a block: not of embeddings and the head? */
bool cadre_model_is_block_matrix(const struct cadre_model *model, uint32_t param);

/* Does this rank hold the parameter, as far as experts are concerned? */
bool cadre_model_holds(const struct cadre_model *model, uint32_t param);

/* Elements of all owned parameters (logical): the "number of parameters". */
uint64_t cadre_model_count(const struct cadre_model *model);
/* Of those that the model does not freeze. */
uint64_t cadre_model_count_trained(const struct cadre_model *model);

/* The first of the N rows of an activation that tensor rank `rank` holds where rows are
 * sharded; N for rank tp_size. */
int64_t cadre_model_row(const struct cadre_model *model, int64_t N, int rank);
/* How many of N rows this rank holds between units: all unless rows are sharded. */
int64_t cadre_model_rows(const struct cadre_model *model, int64_t N);

/* Elements of an activation of N rows between units, as this rank holds it. */
uint64_t cadre_model_activation_count(const struct cadre_model *model, int64_t N);

#endif
