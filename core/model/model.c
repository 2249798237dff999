/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter table: names, shapes, shards and initial values, from a configuration.
 * Two small tables list the parameters of a block; their sizes are letters that are
 * looked up, so the GPT-2 and Llama forms are data, not code. */
#include "core/model/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/model/model_check.h"

#define INIT_STD 0.02

/* sizes of a dimension */
enum size {
    SIZE_NONE,
    SIZE_C, /* channels */
    SIZE_F, /* hidden */
    SIZE_Q, /* heads * head size */
    SIZE_KV, /* kv_heads * head size */
    SIZE_D, /* head size */
    SIZE_3C, /* packed q, k, v */
    SIZE_V, /* vocabulary */
    SIZE_T, /* context */
    SIZE_K, /* classes */
    SIZE_E, /* experts */
    SIZE_P, /* values of a patch */
};

struct row {
    const char *name; /* after the prefix of its unit */
    enum size rows, cols;
    uint32_t split;
    int split_dim;
    enum cadre_init_kind init;
    bool residual; /* projects onto the residual stream: smaller initial values */
    bool norm;
    enum { ALWAYS, QKV_BIAS, QK_NORM } where; /* which models have it */
};

#define NONE CADRE_SHARD_NONE, -1
#define COLUMN(dim) CADRE_SHARD_COLUMN, dim
#define ROW(dim) CADRE_SHARD_ROW, dim
#define QKV(dim) CADRE_SHARD_QKV, dim
#define VOCAB CADRE_SHARD_VOCAB, 0
#define NORMAL CADRE_INIT_NORMAL, false, false, ALWAYS
#define RESIDUAL CADRE_INIT_NORMAL, true, false, ALWAYS
#define ZERO CADRE_INIT_ZERO, false, false, ALWAYS
#define BIAS CADRE_INIT_ZERO, false, false, QKV_BIAS
#define NORM_W NONE, CADRE_INIT_ONE, false, true, ALWAYS
#define NORM_B NONE, CADRE_INIT_ZERO, false, true, ALWAYS
#define HEAD_NORM NONE, CADRE_INIT_ONE, false, false, QK_NORM

static const struct row gpt2_block[GPT2_BLOCK_PARAMS] = {
    [GPT2_LN1_W] = {"ln_1.weight", SIZE_C, SIZE_NONE, NORM_W},
    [GPT2_LN1_B] = {"ln_1.bias", SIZE_C, SIZE_NONE, NORM_B},
    [GPT2_QKV_W] = {"attn.c_attn.weight", SIZE_C, SIZE_3C, QKV(1), NORMAL},
    [GPT2_QKV_B] = {"attn.c_attn.bias", SIZE_3C, SIZE_NONE, QKV(0), ZERO},
    [GPT2_PROJ_W] = {"attn.c_proj.weight", SIZE_C, SIZE_C, ROW(0), RESIDUAL},
    [GPT2_PROJ_B] = {"attn.c_proj.bias", SIZE_C, SIZE_NONE, NONE, ZERO},
    [GPT2_LN2_W] = {"ln_2.weight", SIZE_C, SIZE_NONE, NORM_W},
    [GPT2_LN2_B] = {"ln_2.bias", SIZE_C, SIZE_NONE, NORM_B},
    [GPT2_FC_W] = {"mlp.c_fc.weight", SIZE_C, SIZE_F, COLUMN(1), NORMAL},
    [GPT2_FC_B] = {"mlp.c_fc.bias", SIZE_F, SIZE_NONE, COLUMN(0), ZERO},
    [GPT2_OUT_W] = {"mlp.c_proj.weight", SIZE_F, SIZE_C, ROW(0), RESIDUAL},
    [GPT2_OUT_B] = {"mlp.c_proj.bias", SIZE_C, SIZE_NONE, NONE, ZERO},
};

static const struct row llama_block[LLAMA_ROWS] = {
    [LLAMA_NORM1_W] = {"input_layernorm.weight", SIZE_C, SIZE_NONE, NORM_W},
    [LLAMA_Q_W] = {"self_attn.q_proj.weight", SIZE_Q, SIZE_C, COLUMN(0), NORMAL},
    [LLAMA_Q_B] = {"self_attn.q_proj.bias", SIZE_Q, SIZE_NONE, COLUMN(0), BIAS},
    [LLAMA_K_W] = {"self_attn.k_proj.weight", SIZE_KV, SIZE_C, COLUMN(0), NORMAL},
    [LLAMA_K_B] = {"self_attn.k_proj.bias", SIZE_KV, SIZE_NONE, COLUMN(0), BIAS},
    [LLAMA_V_W] = {"self_attn.v_proj.weight", SIZE_KV, SIZE_C, COLUMN(0), NORMAL},
    [LLAMA_V_B] = {"self_attn.v_proj.bias", SIZE_KV, SIZE_NONE, COLUMN(0), BIAS},
    [LLAMA_Q_NORM] = {"self_attn.q_norm.weight", SIZE_D, SIZE_NONE, HEAD_NORM},
    [LLAMA_K_NORM] = {"self_attn.k_norm.weight", SIZE_D, SIZE_NONE, HEAD_NORM},
    [LLAMA_O_W] = {"self_attn.o_proj.weight", SIZE_C, SIZE_Q, ROW(1), RESIDUAL},
    [LLAMA_NORM2_W] = {"post_attention_layernorm.weight", SIZE_C, SIZE_NONE, NORM_W},
    [LLAMA_GATE_W] = {"mlp.gate_proj.weight", SIZE_F, SIZE_C, COLUMN(0), NORMAL},
    [LLAMA_UP_W] = {"mlp.up_proj.weight", SIZE_F, SIZE_C, COLUMN(0), NORMAL},
    [LLAMA_DOWN_W] = {"mlp.down_proj.weight", SIZE_C, SIZE_F, ROW(1), RESIDUAL},
};

/* Names of our own: Hugging Face has no GPT-2 with experts. */
static const struct row gpt2_router = {"mlp.router.weight", SIZE_C, SIZE_E, NONE,
                                       NORMAL};
static const struct row gpt2_expert[GPT2_EXPERT_PARAMS] = {
    {"c_fc.weight", SIZE_C, SIZE_F, NONE, NORMAL},
    {"c_fc.bias", SIZE_F, SIZE_NONE, NONE, ZERO},
    {"c_proj.weight", SIZE_F, SIZE_C, NONE, RESIDUAL},
    {"c_proj.bias", SIZE_C, SIZE_NONE, NONE, ZERO},
};

static const struct row gpt2_wte = {"transformer.wte.weight", SIZE_V, SIZE_C, VOCAB,
                                    NORMAL};
static const struct row gpt2_wpe = {"transformer.wpe.weight", SIZE_T, SIZE_C, NONE,
                                    NORMAL};
static const struct row gpt2_norm_w = {"ln_f.weight", SIZE_C, SIZE_NONE, NORM_W};
static const struct row gpt2_norm_b = {"ln_f.bias", SIZE_C, SIZE_NONE, NORM_B};
static const struct row llama_wte = {"model.embed_tokens.weight", SIZE_V, SIZE_C, VOCAB,
                                     NORMAL};
static const struct row llama_norm_w = {"model.norm.weight", SIZE_C, SIZE_NONE, NORM_W};
/* Names of our own: the forms of Hugging Face's ViT are Linear's, with separate q, k,
 * v. Row 0 of the tokens is the bias of patches, row 1 the class token. */
static const struct row vit_embed[VIT_EMBED_PARAMS] = {
    [EMBED_WTE] = {"vit.tokens.weight", SIZE_V, SIZE_C, NONE, ZERO},
    [EMBED_WPE] = {"vit.positions.weight", SIZE_T, SIZE_C, NONE, NORMAL},
    [EMBED_PATCHES] = {"vit.patches.weight", SIZE_C, SIZE_P, NONE, NORMAL},
};
static const struct row score_bias = {"score.bias", SIZE_K, SIZE_NONE, NONE, ZERO};
static const struct row lm_head = {"lm_head.weight", SIZE_V, SIZE_C, VOCAB, NORMAL};
static const struct row score = {"score.weight", SIZE_K, SIZE_C, NONE, NORMAL};

static int64_t head_size_of(const struct cadre_model_config *config)
{
    return config->head_size ? config->head_size : config->channels / config->heads;
}

static int64_t size_of(const struct cadre_model_config *config, enum size size)
{
    switch (size) {
    case SIZE_C:
        return config->channels;
    case SIZE_F:
        return config->hidden;
    case SIZE_Q:
        return config->heads * head_size_of(config);
    case SIZE_D:
        return head_size_of(config);
    case SIZE_KV:
        return config->kv_heads * head_size_of(config);
    case SIZE_3C:
        return 3 * config->channels;
    case SIZE_V:
        return config->vocab;
    case SIZE_T:
        return config->context;
    case SIZE_K:
        return config->classes;
    case SIZE_E:
        return config->experts;
    case SIZE_P:
        return config->image.channels * config->image.patch * config->image.patch;
    case SIZE_NONE:
        break;
    }
    return 1;
}

/* ViTs are narrow more often than language models: the inputs of a product decide, as
 * in LeCun et al. 1998. They are the rows of Conv1D's weights, the columns of
 * Linear's. */
static double vit_std(const struct row *row, const struct cadre_param *param)
{
    if (row->rows == SIZE_T || row->rows == SIZE_K || param->shape.ndim < 2)
        return INIT_STD;
    return 1 / sqrt((double)param->shape.dim[row->cols == SIZE_P]);
}

/* Append one parameter; `prefix` is empty or ends with a dot. */
static void append(struct cadre_model *model, uint32_t unit, const char *prefix,
                   const struct row *row)
{
    const struct cadre_model_config *config = &model->config;
    struct cadre_param *param = &model->params[model->n_params++];
    bool whole = row->split == CADRE_SHARD_VOCAB && config->classes > 0;
    snprintf(param->name, sizeof param->name, "%s%s", prefix, row->name);
    param->shape.ndim = row->cols == SIZE_NONE ? 1 : 2;
    param->shape.dim[0] = (uint64_t)size_of(config, row->rows);
    if (row->cols != SIZE_NONE)
        param->shape.dim[1] = (uint64_t)size_of(config, row->cols);
    param->local = param->shape;
    param->unit = unit;
    param->tied_to = -1;
    param->expert = -1;
    param->adapter = -1;
    param->adapts = -1;
    param->decay = param->shape.ndim >= 2 && row->init == CADRE_INIT_NORMAL;
    param->split = whole ? CADRE_SHARD_NONE : row->split;
    param->split_dim = whole ? -1 : row->split_dim;
    if (param->split_dim >= 0)
        param->local.dim[param->split_dim] /= (uint64_t)model->tp_size;
    param->norm = row->norm;
    param->head_norm = row->where == QK_NORM;
    param->init = row->init;
    param->init_std = config->image.patch > 0 ? vit_std(row, param) : INIT_STD;
    if (row->residual)
        param->init_std /= sqrt(2.0 * (double)config->layers);
    if (row->init != CADRE_INIT_NORMAL)
        param->init_std = 0;
}

static bool has_row(const struct cadre_model_config *config, const struct row *row)
{
    return row->where == QKV_BIAS  ? config->qkv_bias
           : row->where == QK_NORM ? config->qk_norm
                                   : true;
}

uint32_t cadre_llama_place(const struct cadre_model_config *config, uint32_t row)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < row; i++)
        place += has_row(config, &llama_block[i]);
    return place;
}

static bool is_vit(const struct cadre_model_config *config)
{
    return config->image.patch > 0;
}

static uint32_t base_params(const struct cadre_model_config *config)
{
    if (config->experts > 0)
        return GPT2_EXPERTS + (uint32_t)config->experts * GPT2_EXPERT_PARAMS;
    return config->arch == CADRE_ARCH_GPT2 ? (uint32_t)GPT2_BLOCK_PARAMS
                                           : cadre_llama_place(config, LLAMA_ROWS);
}

static uint32_t block_params(const struct cadre_model_config *config)
{
    return base_params(config) + cadre_lora_params(config);
}

static void append_experts(struct cadre_model *model, uint32_t unit, const char *prefix)
{
    char name[80];
    if (model->config.experts == 0)
        return;
    append(model, unit, prefix, &gpt2_router);
    for (int32_t e = 0; e < model->config.experts; e++) {
        snprintf(name, sizeof name, "%smlp.experts.%d.", prefix, e);
        for (size_t i = 0; i < GPT2_EXPERT_PARAMS; i++) {
            append(model, unit, name, &gpt2_expert[i]);
            model->params[model->n_params - 1].expert = e;
        }
    }
}

static void append_blocks(struct cadre_model *model)
{
    bool gpt2 = model->config.arch == CADRE_ARCH_GPT2;
    const struct row *rows = gpt2 ? gpt2_block : llama_block;
    const size_t n = !gpt2                       ? LLAMA_ROWS
                     : model->config.experts > 0 ? GPT2_ROUTER_W
                                                 : GPT2_BLOCK_PARAMS;
    for (uint32_t layer = 0; layer < (uint32_t)model->config.layers; layer++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix,
                 is_vit(&model->config) ? "vit.h.%u."
                 : gpt2                 ? "transformer.h.%u."
                                        : "model.layers.%u.",
                 layer);
        for (size_t i = 0; i < n; i++)
            if (has_row(&model->config, &rows[i]))
                append(model, layer + 1, prefix, &rows[i]);
        append_experts(model, layer + 1, prefix);
        cadre_lora_append(model, layer + 1);
    }
}

static void append_head(struct cadre_model *model)
{
    const struct cadre_model_config *config = &model->config;
    uint32_t unit = model->n_units - 1;
    if (config->arch == CADRE_ARCH_GPT2) {
        append(model, unit, is_vit(config) ? "vit." : "transformer.", &gpt2_norm_w);
        append(model, unit, is_vit(config) ? "vit." : "transformer.", &gpt2_norm_b);
    } else {
        append(model, unit, "", &llama_norm_w);
    }
    if (config->classes > 0) {
        append(model, unit, "", &score);
        if (is_vit(config))
            append(model, unit, "", &score_bias);
        return;
    }
    append(model, unit, "", &lm_head);
    if (config->tied)
        model->params[model->n_params - 1].tied_to = EMBED_WTE;
}

static void fill(struct cadre_model *model)
{
    if (is_vit(&model->config)) {
        for (size_t i = 0; i < VIT_EMBED_PARAMS; i++)
            append(model, 0, "", &vit_embed[i]);
    } else if (model->config.arch == CADRE_ARCH_GPT2) {
        append(model, 0, "", &gpt2_wte);
        append(model, 0, "", &gpt2_wpe);
    } else {
        append(model, 0, "", &llama_wte);
    }
    append_blocks(model);
    append_head(model);
    for (uint32_t i = 0; model->config.lora.rank > 0 && i < model->n_params; i++)
        model->params[i].frozen = model->params[i].adapts < 0;
}

/* ---- the model ---- */

cadre_status cadre_model_create(const struct cadre_model_config *config, int tp_rank,
                                int tp_size, struct cadre_model **out,
                                struct cadre_error *err)
{
    struct cadre_model *model = NULL;
    cadre_status rc;
    CADRE_TRY_OR(cadre_model_check(config, tp_rank, tp_size, err), fail);

    size_t capacity = (size_t)config->layers * block_params(config) + 7;
    rc = CADRE_E_RESOURCE;
    model = cadre_calloc(1, sizeof *model);
    if (model)
        model->params = cadre_calloc(capacity, sizeof *model->params);
    if (!model || !model->params) {
        cadre_no_memory(err, "a table of %zu parameters", capacity);
        goto fail;
    }
    model->config = *config;
    model->tp_rank = tp_rank;
    model->tp_size = tp_size;
    model->parts = config->exact_parts > 1 ? config->exact_parts / tp_size : 0;
    model->time_ranks = 1;
    model->ep_size = 1;
    model->heads = config->heads / tp_size;
    model->kv_heads = config->kv_heads / tp_size;
    model->hidden = config->hidden / tp_size;
    model->head_size = head_size_of(config);
    model->vocab = config->classes > 0 ? config->vocab : config->vocab / tp_size;
    model->vocab_begin = config->classes > 0 ? 0 : tp_rank * model->vocab;
    model->n_units = (uint32_t)config->layers + 2;
    fill(model);
    *out = model;
    return CADRE_OK;
fail:
    cadre_model_destroy(model);
    return rc;
}

void cadre_model_destroy(struct cadre_model *model)
{
    if (!model)
        return;
    free(model->params);
    free(model);
}

bool cadre_model_is_partial(const struct cadre_model *model, uint32_t param)
{
    const struct cadre_param *p = &model->params[param];
    return p->partial || (p->head_norm && model->tp_size > 1) ||
           (p->norm && model->rows_sharded && model->parts == 0);
}

const char *cadre_model_arch_name(const struct cadre_model_config *config)
{
    return is_vit(config) ? "vit" : config->arch == CADRE_ARCH_LLAMA ? "llama" : "gpt2";
}

int64_t cadre_model_inputs(const struct cadre_model_config *config, int64_t time)
{
    const struct cadre_image_form *image = &config->image;
    return is_vit(config) ? (image->channels * image->height * image->width + 3) / 4
                          : time;
}

int32_t cadre_model_find(const struct cadre_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->n_params; i++)
        if (strcmp(model->params[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

bool cadre_model_is_block_matrix(const struct cadre_model *model, uint32_t param)
{
    const struct cadre_param *p = &model->params[param];
    return p->shape.ndim == 2 && p->unit > 0 && p->unit + 1 < model->n_units;
}

bool cadre_model_holds(const struct cadre_model *model, uint32_t param)
{
    const int32_t expert = model->params[param].expert;
    return expert < 0 ||
           expert / (model->config.experts / model->ep_size) == model->ep_rank;
}

uint64_t cadre_model_count(const struct cadre_model *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->n_params; i++)
        if (model->params[i].tied_to < 0)
            count += cadre_shape_count(&model->params[i].shape);
    return count;
}

uint64_t cadre_model_count_trained(const struct cadre_model *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->n_params; i++)
        if (model->params[i].tied_to < 0 && !model->params[i].frozen)
            count += cadre_shape_count(&model->params[i].shape);
    return count;
}

int64_t cadre_model_row(const struct cadre_model *model, int64_t N, int rank)
{
    return N * rank / model->tp_size;
}

int64_t cadre_model_rows(const struct cadre_model *model, int64_t N)
{
    if (!model->rows_sharded)
        return N;
    return cadre_model_row(model, N, model->tp_rank + 1) -
           cadre_model_row(model, N, model->tp_rank);
}

uint64_t cadre_model_activation_count(const struct cadre_model *model, int64_t N)
{
    return (uint64_t)(cadre_model_rows(model, N) * model->config.channels);
}

uint32_t cadre_model_first_param(const struct cadre_model *model, uint32_t unit)
{
    bool gpt2 = model->config.arch == CADRE_ARCH_GPT2;
    uint32_t embed = is_vit(&model->config) ? VIT_EMBED_PARAMS : gpt2 ? 2 : 1;
    return unit == 0 ? 0 : embed + (unit - 1) * block_params(&model->config);
}
