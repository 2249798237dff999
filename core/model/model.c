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

#define MAX_LAYERS 16384
#define MAX_SIZE (1 << 20) /* channels, hidden, classes */
#define MAX_COUNT (1 << 26) /* vocab, context */
#define MAX_HEAD_SIZE (1 << 16)
#define MAX_IMAGE 16384 /* pixels of a side */
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

/* ---- checks ---- */

static cadre_status check_range(const char *key, int64_t value, int64_t low,
                                int64_t high, struct cadre_error *err)
{
    if (value >= low && value <= high)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID, "model.%s = %lld, expected %lld to %lld",
                      key, (long long)value, (long long)low, (long long)high);
}

static cadre_status check_multiple(const char *key, int64_t value, const char *of,
                                   int64_t divisor, struct cadre_error *err)
{
    if (value % divisor == 0)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "model.%s = %lld is not a multiple of %s = %lld; change one of them", key,
        (long long)value, of, (long long)divisor);
}

static cadre_status check_sizes(const struct cadre_model_config *config,
                                struct cadre_error *err)
{
    CADRE_TRY(check_range("layers", config->layers, 1, MAX_LAYERS, err));
    CADRE_TRY(check_range("channels", config->channels, 1, MAX_SIZE, err));
    CADRE_TRY(check_range("heads", config->heads, 1, config->channels, err));
    CADRE_TRY(check_range("kv_heads", config->kv_heads, 1, config->heads, err));
    CADRE_TRY(check_range("hidden", config->hidden, 1, MAX_SIZE, err));
    CADRE_TRY(check_range("context", config->context, 1, MAX_COUNT, err));
    CADRE_TRY(check_range("vocab", config->vocab, 1, MAX_COUNT, err));
    CADRE_TRY(check_range("classes", config->classes, 0, MAX_SIZE, err));
    CADRE_TRY(check_range("experts", config->experts, 0, CADRE_MAX_EXPERTS, err));
    CADRE_TRY(check_range("head_size", config->head_size, 0, MAX_HEAD_SIZE, err));
    if (config->head_size == 0)
        CADRE_TRY(check_multiple("channels", config->channels, "model.heads",
                                 config->heads, err));
    return check_multiple("heads", config->heads, "model.kv_heads", config->kv_heads,
                          err);
}

static cadre_status check_gpt2(const struct cadre_model_config *config,
                               struct cadre_error *err)
{
    const char *key = config->rotary.scaling != CADRE_ROTARY_PLAIN ? "rope_scaling"
                      : config->head_size != 0                     ? "head_size"
                      : config->qkv_bias                           ? "qkv_bias"
                      : config->qk_norm                            ? "qk_norm"
                                                                   : NULL;
    if (key)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.%s is set, but model.arch = gpt2 has no such choice; "
                          "leave it out or use llama",
                          key);
    if (config->kv_heads == config->heads)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "model.kv_heads = %lld differs from model.heads = %lld, but "
                      "model.arch = gpt2 has no grouped queries; use llama",
                      (long long)config->kv_heads, (long long)config->heads);
}

static bool is_positive(double value)
{
    return isfinite(value) && value > 0;
}

static cadre_status check_rotary(const struct cadre_rotary *rotary,
                                 struct cadre_error *err)
{
    if (!is_positive(rotary->theta))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.rope_theta = %g, expected a positive number",
                          rotary->theta);
    if (rotary->scaling == CADRE_ROTARY_PLAIN)
        return CADRE_OK;
    if (!is_positive(rotary->factor))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.rope_factor = %g, expected a positive number",
                          rotary->factor);
    if (rotary->scaling == CADRE_ROTARY_LINEAR ||
        (is_positive(rotary->low) && rotary->low < rotary->high &&
         isfinite(rotary->high) && rotary->original > 0))
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "model.rope_low = %g, model.rope_high = %g, model.rope_original = "
        "%lld: expected positive numbers, low below high",
        rotary->low, rotary->high, (long long)rotary->original);
}

static cadre_status check_llama(const struct cadre_model_config *config,
                                struct cadre_error *err)
{
    const int64_t head_size = head_size_of(config);
    if (head_size % 2 != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s = %lld is odd, but rotary embedding rotates pairs; "
                          "choose an even head size",
                          config->head_size ? "model.head_size"
                                            : "model.channels / model.heads",
                          (long long)head_size);
    if (config->qkv_bias && config->qk_norm)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.qkv_bias and model.qk_norm are both yes, but no "
                          "family of models has both; set one of them to no");
    if (config->qk_norm && config->exact_parts > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.qk_norm = yes with run.exact_parts = %lld: the "
                          "gradients of norms of heads are not summed in parts; set "
                          "run.exact_parts to 1",
                          (long long)config->exact_parts);
    return check_rotary(&config->rotary, err);
}

static cadre_status check_form(const struct cadre_model_config *config,
                               struct cadre_error *err)
{
    if (config->experts > 0 && config->arch != CADRE_ARCH_GPT2)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.experts = %lld, expected 0 with model.arch = llama; "
                          "experts have the form of gpt2",
                          (long long)config->experts);
    if (config->arch != CADRE_ARCH_GPT2 && config->arch != CADRE_ARCH_LLAMA)
        return cadre_fail(err, CADRE_E_INVALID, "model.arch: unknown form %d",
                          (int)config->arch);
    CADRE_TRY(config->arch == CADRE_ARCH_LLAMA ? check_llama(config, err)
                                               : check_gpt2(config, err));
    if (!(isfinite(config->norm_eps) && config->norm_eps > 0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.norm_eps = %g, expected a positive number",
                          config->norm_eps);
    if (config->dtype != CADRE_F32 && config->dtype != CADRE_F64 &&
        config->dtype != CADRE_BF16 && config->dtype != CADRE_F16)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "the model computes in f32, f64, bf16 or f16, not in %s",
                          cadre_dtype_name(config->dtype));
    return CADRE_OK;
}

static cadre_status check_image(const struct cadre_model_config *config,
                                struct cadre_error *err)
{
    const struct cadre_image_form *image = &config->image;
    if (!is_vit(config))
        return CADRE_OK;
    if (cadre_image_tokens(image) == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "model.patch = %lld does not divide images of %lld x %lld pixels with %lld "
            "channels (1 to %d), of at most %d pixels a side; choose another patch",
            (long long)image->patch, (long long)image->width, (long long)image->height,
            (long long)image->channels, CADRE_IMAGE_CHANNELS, MAX_IMAGE);
    if (config->arch != CADRE_ARCH_GPT2 || config->experts > 0 || config->classes < 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.arch = vit with %s; images need the form of vit, a "
                          "plain MLP and model.head = classify",
                          config->experts > 0   ? "model.experts"
                          : config->classes < 1 ? "model.head = lm"
                                                : "another form");
    for (int64_t c = 0; c < image->channels; c++)
        if (!isfinite(image->mean[c]) ||
            !(image->std[c] > 0 && isfinite(image->std[c])))
            return cadre_fail(err, CADRE_E_INVALID,
                              "data.mean and data.std of channel %lld: expected a "
                              "number and a positive one, found %g and %g",
                              (long long)c, image->mean[c], image->std[c]);
    if (config->context != cadre_image_tokens(image) || config->vocab != 2)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.context = %lld and model.vocab = %lld, but images of "
                          "%lld x %lld in patches of %lld make %lld tokens with the "
                          "class token, of 2 kinds; leave both keys out",
                          (long long)config->context, (long long)config->vocab,
                          (long long)image->width, (long long)image->height,
                          (long long)image->patch,
                          (long long)cadre_image_tokens(image));
    return CADRE_OK;
}

/* The parts must fit the model as that many tensor ranks would, and each rank's must be
 * a node of the tree that adds them. */
static cadre_status check_parts(const struct cadre_model_config *config, int tp_size,
                                struct cadre_error *err)
{
    const char *of = "run.exact_parts";
    const int64_t parts = config->exact_parts, own = parts / tp_size;
    if (parts <= 1)
        return CADRE_OK;
    if (config->experts > 0 || config->head_rows > 0)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "model.%s = %lld, expected 0 with run.exact_parts = %lld",
            config->experts > 0 ? "experts" : "head_rows",
            (long long)(config->experts > 0 ? config->experts : config->head_rows),
            (long long)parts);
    CADRE_TRY(check_multiple("heads", config->heads, of, parts, err));
    CADRE_TRY(check_multiple("kv_heads", config->kv_heads, of, parts, err));
    CADRE_TRY(check_multiple("hidden", config->hidden, of, parts, err));
    if (config->classes == 0)
        CADRE_TRY(check_multiple("vocab", config->vocab, of, parts, err));
    if (tp_size == 1 || (parts % tp_size == 0 && (own & (own - 1)) == 0))
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "run.exact_parts = %lld over %d tensor ranks, expected a power of "
        "two of parts on each, as those of a rank are added first; change "
        "one of them",
        (long long)parts, tp_size);
}

static cadre_status check_split(const struct cadre_model_config *config, int tp_rank,
                                int tp_size, struct cadre_error *err)
{
    const char *of = "the tensor-parallel size";
    if (tp_size < 1 || tp_rank < 0 || tp_rank >= tp_size)
        return cadre_fail(err, CADRE_E_INVALID, "tensor-parallel rank %d of %d",
                          tp_rank, tp_size);
    if (tp_size > 1 && config->experts > 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.experts = %lld, expected 0 with tensor parallelism: "
                          "experts are not sharded by columns",
                          (long long)config->experts);
    CADRE_TRY(check_multiple("heads", config->heads, of, tp_size, err));
    CADRE_TRY(check_multiple("kv_heads", config->kv_heads, of, tp_size, err));
    CADRE_TRY(check_multiple("hidden", config->hidden, of, tp_size, err));
    if (config->classes == 0)
        CADRE_TRY(check_multiple("vocab", config->vocab, of, tp_size, err));
    if (tp_size > 1 && config->classes == 0 && config->head_rows > 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.head_rows = %lld, expected 0 where the vocabulary is "
                          "split: every rank scores all rows of its own part",
                          (long long)config->head_rows);
    return CADRE_OK;
}

/* ---- the model ---- */

cadre_status cadre_model_create(const struct cadre_model_config *config, int tp_rank,
                                int tp_size, struct cadre_model **out,
                                struct cadre_error *err)
{
    struct cadre_model *model = NULL;
    cadre_status rc;
    CADRE_TRY_OR(check_sizes(config, err), fail);
    CADRE_TRY_OR(check_form(config, err), fail);
    CADRE_TRY_OR(check_image(config, err), fail);
    CADRE_TRY_OR(check_split(config, tp_rank, tp_size, err), fail);
    CADRE_TRY_OR(check_parts(config, tp_size, err), fail);
    CADRE_TRY_OR(cadre_lora_check(config, err), fail);

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

int64_t cadre_image_tokens(const struct cadre_image_form *image)
{
    const int64_t p = image->patch;
    if (p < 1 || image->channels < 1 || image->channels > CADRE_IMAGE_CHANNELS ||
        image->height < 1 || image->height > MAX_IMAGE || image->width < 1 ||
        image->width > MAX_IMAGE || image->height % p || image->width % p)
        return 0;
    return (image->height / p) * (image->width / p) + 1;
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
