/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/model_setup.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
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

static struct cadre_model_config from_config(const struct cadre_config *config)
{
    const struct cadre_config_model *m = &config->model;
    const bool llama = m->arch == CADRE_CONFIG_LLAMA;
    /* Llama's 8/3, rounded up to a multiple of 32 as its own models are */
    const int64_t usual =
        llama ? (m->channels * 8 / 3 + 31) / 32 * 32 : 4 * m->channels;
    return (struct cadre_model_config){
        .arch = llama ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2,
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
        .rope_theta = m->rope_theta,
        .dtype = dtype_of(config->train.precision),
    };
}

/* A key that the user set must agree with the folder. */
static cadre_status check_agreement(const struct cadre_config_model *m,
                                    const struct cadre_options *options,
                                    const struct cadre_hf_config *hf,
                                    struct cadre_error *err)
{
    static const char *const archs[] = {"gpt2", "llama"};
    const bool llama = hf->arch == CADRE_HF_LLAMA;
    const struct {
        const char *key;
        int64_t wanted, found;
    } sizes[] = {
        {"model.layers", m->layers, hf->layers},
        {"model.channels", m->channels, hf->channels},
        {"model.heads", m->heads, hf->heads},
        {"model.kv_heads", m->kv_heads, hf->kv_heads},
        {"model.hidden", m->hidden, hf->hidden},
        {"model.context", m->context, hf->context},
        {"model.vocab", m->vocab, hf->vocab},
        {"model.experts", m->experts, 0},
    };
    if (is_set(options, "model.arch") && llama != (m->arch == CADRE_CONFIG_LLAMA))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.arch = %s (%s), but model.init = %s has %s; leave the "
                          "key out or make them equal",
                          archs[!llama], cadre_options_source(options, "model.arch"),
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

/* A checkpoint of a model with experts has no config.json: it fits the keys, or its
 * tensors are refused when they are read. */
static bool fits_keys(const struct cadre_config_model *m)
{
    char *hf = cadre_path_join(m->init, "config.json");
    char *state = cadre_path_join(m->init, "state.json");
    const bool fits = m->experts > 0 && hf && state && !cadre_path_exists(hf) &&
                      cadre_path_exists(state);
    free(hf);
    free(state);
    return fits;
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
    if (fits_keys(m))
        return CADRE_OK;
    cadre_status rc = cadre_hf_config_read(m->init, &hf, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "model.init");
        return rc;
    }
    CADRE_TRY(check_agreement(m, options, &hf, err));
    model->arch = hf.arch == CADRE_HF_GPT2 ? CADRE_ARCH_GPT2 : CADRE_ARCH_LLAMA;
    model->layers = hf.layers;
    model->channels = hf.channels;
    model->heads = hf.heads;
    model->kv_heads = hf.kv_heads;
    model->hidden = hf.hidden;
    model->context = hf.context;
    model->vocab = hf.vocab;
    model->tied = hf.tied;
    model->norm_eps = hf.norm_eps;
    model->rope_theta = hf.arch == CADRE_HF_LLAMA ? hf.rope_theta : model->rope_theta;
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
