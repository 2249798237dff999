/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/model_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/checkpoint.h"
#include "core/checkpoint/format/hf.h"

static bool is_set(const struct cadre_options *options, const char *name)
{
    return strcmp(cadre_options_source(options, name), "default") != 0;
}

static uint32_t dtype_of(enum cadre_config_precision precision)
{
    return precision == CADRE_CONFIG_FP64   ? CADRE_F64
           : precision == CADRE_CONFIG_BF16 ? CADRE_BF16
           : precision == CADRE_CONFIG_FP16 ? CADRE_F16
                                            : CADRE_F32;
}

/* What the scaling does not read is 0, as in a folder. */
static struct cadre_rotary rotary_of(const struct cadre_config_model *m)
{
    struct cadre_rotary rotary = {.theta = m->rope_theta};
    rotary.scaling = (enum cadre_rotary_scaling)m->rope_scaling;
    if (rotary.scaling != CADRE_ROTARY_PLAIN)
        rotary.factor = m->rope_factor;
    if (rotary.scaling == CADRE_ROTARY_LLAMA3) {
        rotary.low = m->rope_low;
        rotary.high = m->rope_high;
        rotary.original = m->rope_original;
    }
    return rotary;
}

static struct cadre_model_config from_config(const struct cadre_config *config)
{
    const struct cadre_config_model *m = &config->model;
    const bool llama = m->arch == CADRE_CONFIG_LLAMA;
    /* Llama's 8/3, rounded up to a multiple of 32 as its own models are */
    const int64_t usual =
        llama ? (m->channels * 8 / 3 + 31) / 32 * 32 : 4 * m->channels;
    return (struct cadre_model_config){
        .arch = llama ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2,
        .image.patch = m->arch == CADRE_CONFIG_VIT ? m->patch : 0,
        .layers = m->layers,
        .channels = m->channels,
        .heads = m->heads,
        .kv_heads = m->kv_heads ? m->kv_heads : m->heads,
        .hidden = m->hidden ? m->hidden : usual,
        .context = m->context,
        .vocab = m->vocab,
        .tied = m->tied == CADRE_CONFIG_AUTO ? !llama : m->tied == CADRE_CONFIG_YES,
        .norm_eps = m->norm_eps,
        .head_rows = m->head_rows,
        .experts = m->experts,
        .expert_balance = m->expert_balance,
        .exact_parts = config->run.exact_parts,
        .rotary = rotary_of(m),
        .head_size = m->head_size,
        .qkv_bias = m->qkv_bias,
        .qk_norm = m->qk_norm,
        .dtype = dtype_of(config->train.precision),
    };
}

/* A key that the user set must agree with the folder. */
static cadre_status check_agreement(const struct cadre_config_model *m,
                                    const struct cadre_options *options,
                                    const struct cadre_hf_config *hf,
                                    struct cadre_error *err)
{
    static const char *const archs[] = {"gpt2", "llama", "vit"};
    const bool llama = hf->arch == CADRE_HF_LLAMA;
    /* rotary positions are computed: fewer of them do */
    const int64_t context =
        llama && m->context < hf->context ? m->context : hf->context;
    const struct {
        const char *key;
        int64_t wanted, found;
    } sizes[] = {
        {"model.layers", m->layers, hf->layers},
        {"model.channels", m->channels, hf->channels},
        {"model.heads", m->heads, hf->heads},
        {"model.kv_heads", m->kv_heads, hf->kv_heads},
        {"model.hidden", m->hidden, hf->hidden},
        {"model.context", m->context, context},
        {"model.vocab", m->vocab, hf->vocab},
        {"model.head_size", m->head_size, hf->head_size},
        {"model.experts", m->experts, 0},
    };
    if (is_set(options, "model.arch") &&
        m->arch != (llama ? CADRE_CONFIG_LLAMA : CADRE_CONFIG_GPT2))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.arch = %s (%s), but model.init = %s has %s; leave the "
                          "key out or make them equal",
                          archs[m->arch], cadre_options_source(options, "model.arch"),
                          m->init, archs[llama]);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].wanted != 0 && sizes[i].wanted != sizes[i].found && /* 0: any */
            is_set(options, sizes[i].key))
            return cadre_fail(
                err, CADRE_E_INVALID,
                "%s = %lld (%s), but model.init = %s has %lld; leave the key "
                "out or make them equal",
                sizes[i].key, (long long)sizes[i].wanted,
                cadre_options_source(options, sizes[i].key), m->init,
                (long long)sizes[i].found);
    return CADRE_OK;
}

/* Of keys that are numbers or words. */
static cadre_status refuse_other(const struct cadre_config_model *m,
                                 const struct cadre_options *options, const char *key,
                                 const char *found, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s = %s (%s), but model.init = %s has %s; leave the key out or "
                      "make them equal",
                      key, cadre_options_raw(options, key),
                      cadre_options_source(options, key), m->init, found);
}

static cadre_status check_numbers(const struct cadre_config_model *m,
                                  const struct cadre_options *options,
                                  const struct cadre_hf_config *hf,
                                  struct cadre_error *err)
{
    const struct cadre_rotary *r = &hf->rotary;
    const bool llama = hf->arch == CADRE_HF_LLAMA;
    const bool scaled = r->scaling != CADRE_ROTARY_PLAIN;
    const bool llama3 = r->scaling == CADRE_ROTARY_LLAMA3;
    const struct {
        const char *key;
        double wanted, found;
        bool read;
    } numbers[] = {
        {"model.norm_eps", m->norm_eps, hf->norm_eps, true},
        {"model.rope_theta", m->rope_theta, r->theta, llama},
        {"model.rope_factor", m->rope_factor, r->factor, scaled},
        {"model.rope_low", m->rope_low, r->low, llama3},
        {"model.rope_high", m->rope_high, r->high, llama3},
        {"model.rope_original", (double)m->rope_original, (double)r->original, llama3},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char found[32];
        snprintf(found, sizeof found, "%.17g", numbers[i].found);
        if (numbers[i].read && is_set(options, numbers[i].key) &&
            numbers[i].wanted != numbers[i].found)
            return refuse_other(m, options, numbers[i].key, found, err);
    }
    return CADRE_OK;
}

static cadre_status check_choices(const struct cadre_config_model *m,
                                  const struct cadre_options *options,
                                  const struct cadre_hf_config *hf,
                                  struct cadre_error *err)
{
    static const char *const scalings[] = {"none", "linear", "llama3"};
    static const char *const switches[] = {"no", "yes"};
    if (is_set(options, "model.rope_scaling") &&
        (int)m->rope_scaling != (int)hf->rotary.scaling)
        return refuse_other(m, options, "model.rope_scaling",
                            scalings[hf->rotary.scaling], err);
    if (is_set(options, "model.qkv_bias") && m->qkv_bias != hf->qkv_bias)
        return refuse_other(m, options, "model.qkv_bias", switches[hf->qkv_bias], err);
    if (is_set(options, "model.qk_norm") && m->qk_norm != hf->qk_norm)
        return refuse_other(m, options, "model.qk_norm", switches[hf->qk_norm], err);
    if (is_set(options, "model.tied") && m->tied == CADRE_CONFIG_YES && !hf->tied)
        return refuse_other(m, options, "model.tied", "no", err);
    return CADRE_OK;
}

/* Attention over a window is that over all where the window is no shorter. */
static cadre_status check_window(const struct cadre_config_model *m,
                                 const struct cadre_hf_config *hf, int64_t context,
                                 struct cadre_error *err)
{
    if (hf->window == 0 || hf->window >= context)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_UNSUPPORTED,
        "model.init: %s/config.json: \"sliding_window\": expected null, or "
        "at least the context of %lld, found %lld (Cadre attends to all "
        "positions before); set model.context = %lld or less",
        m->init, (long long)context, (long long)hf->window, (long long)hf->window);
}

/* A checkpoint of a model with experts, or of images, has no config.json: it fits the
 * keys, or its tensors are refused when they are read. */
static bool fits_keys(const struct cadre_config_model *m)
{
    return (m->experts > 0 || m->arch == CADRE_CONFIG_VIT) &&
           !cadre_path_has(m->init, "config.json") &&
           cadre_path_has(m->init, "state.json");
}

/* Is it the folder of a run, whose checkpoints are in a folder of it? The first of them
 * may not be written yet. */
static bool is_run(const char *dir)
{
    return cadre_path_has(dir, "config.ini") && !cadre_path_has(dir, "config.json");
}

/* Names the checkpoint to take instead. */
static cadre_status refuse_run(const char *dir, struct cadre_error *err)
{
    char *root = cadre_path_join(dir, "checkpoints"), *newest = NULL;
    cadre_status rc = root ? CADRE_OK : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && cadre_path_is_dir(root))
        rc = cadre_checkpoint_find_latest(root, &newest, err);
    if (rc == CADRE_OK)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "model.init: '%s' is the folder of a run, expected a "
                        "checkpoint or a Hugging Face model folder; name %s%s",
                        dir,
                        newest ? "its newest checkpoint, "
                               : "another, as it has no whole checkpoint",
                        newest ? newest : "");
    free(root);
    free(newest);
    return rc;
}

static cadre_status take_folder(const struct cadre_config_model *m,
                                const struct cadre_options *options,
                                struct cadre_model_config *model,
                                struct cadre_error *err)
{
    struct cadre_hf_config hf;
    if (!cadre_path_is_dir(m->init))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.init: there is no folder '%s'; name a checkpoint or a "
                          "Hugging Face model folder",
                          m->init);
    if (is_run(m->init))
        return refuse_run(m->init, err);
    if (fits_keys(m))
        return CADRE_OK;
    cadre_status rc = cadre_hf_config_read(m->init, &hf, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "model.init");
        return rc;
    }
    CADRE_TRY(check_agreement(m, options, &hf, err));
    CADRE_TRY(check_numbers(m, options, &hf, err));
    CADRE_TRY(check_choices(m, options, &hf, err));
    model->arch = hf.arch == CADRE_HF_GPT2 ? CADRE_ARCH_GPT2 : CADRE_ARCH_LLAMA;
    model->layers = hf.layers;
    model->channels = hf.channels;
    model->heads = hf.heads;
    model->kv_heads = hf.kv_heads;
    model->hidden = hf.hidden;
    if (hf.arch == CADRE_HF_GPT2 || !is_set(options, "model.context"))
        model->context = hf.context;
    CADRE_TRY(check_window(m, &hf, model->context, err));
    model->vocab = hf.vocab;
    /* a head of its own in a folder that calls it tied: cadre_hf_check */
    model->tied =
        hf.tied && !(is_set(options, "model.tied") && m->tied == CADRE_CONFIG_NO);
    model->norm_eps = hf.norm_eps;
    if (hf.arch == CADRE_HF_LLAMA)
        model->rotary = hf.rotary;
    model->head_size = hf.head_size * hf.heads == hf.channels ? 0 : hf.head_size;
    model->qkv_bias = hf.qkv_bias;
    model->qk_norm = hf.qk_norm;
    return CADRE_OK;
}

cadre_status cadre_model_setup(const struct cadre_config *config,
                               const struct cadre_options *options,
                               struct cadre_model_config *model,
                               struct cadre_error *err)
{
    *model = from_config(config);
    if (!*config->model.init)
        return CADRE_OK;
    return take_folder(&config->model, options, model, err);
}
