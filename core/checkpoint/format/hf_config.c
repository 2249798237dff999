/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, as the configuration classes of huggingface/transformers read it. */
#include "core/checkpoint/format/hf_private.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"

enum { CONFIG_LIMIT = 16 << 20 };

static cadre_status read_gpt2(const struct cadre_hf_source *in,
                              struct cadre_hf_config *config)
{
    int64_t n_ctx;
    CADRE_TRY(cadre_hf_get_size(in, "n_layer", -1, &config->layers));
    CADRE_TRY(cadre_hf_get_size(in, "n_embd", -1, &config->channels));
    CADRE_TRY(cadre_hf_get_size(in, "n_head", -1, &config->heads));
    CADRE_TRY(cadre_hf_get_size(in, "n_inner", 4 * config->channels, &config->hidden));
    CADRE_TRY(cadre_hf_get_size(in, "n_positions", -1, &config->context));
    CADRE_TRY(cadre_hf_get_size(in, "n_ctx", config->context, &n_ctx));
    CADRE_TRY(cadre_hf_get_number(in, "layer_norm_epsilon", 1e-5, &config->norm_eps));
    CADRE_TRY(cadre_hf_get_bool(in, "tie_word_embeddings", true, &config->tied));
    CADRE_TRY(cadre_hf_need_activation(in, "activation_function", "gelu_new",
                                       "gelu_pytorch_tanh"));
    CADRE_TRY(cadre_hf_need_bool(in, "scale_attn_weights", true, true));
    CADRE_TRY(cadre_hf_need_bool(in, "scale_attn_by_inverse_layer_idx", false, false));
    if (n_ctx != config->context)
        return cadre_hf_bad_key(in, "n_ctx", CADRE_E_INVALID, "n_positions");
    if (config->channels % config->heads != 0)
        return cadre_hf_bad_key(in, "n_embd", CADRE_E_INVALID,
                                "a multiple of the number of heads");
    config->kv_heads = config->heads;
    config->head_size = config->channels / config->heads;
    return CADRE_OK;
}

/* Does a layer attend to a window alone? Where nothing says so, a window that is named
 * is that of all layers. */
static cadre_status read_layer_types(const struct cadre_hf_source *in,
                                     const struct cadre_hf_config *config,
                                     bool *windows)
{
    const json_t *types = cadre_hf_get(in, "layer_types");
    size_t i;
    json_t *type;
    if (!types)
        return CADRE_OK;
    if (json_array_size(types) != (size_t)config->layers)
        return cadre_hf_bad_key(in, "layer_types", CADRE_E_INVALID,
                                "a list of num_hidden_layers kinds");
    *windows = false;
    json_array_foreach(types, i, type)
    {
        const char *name = json_string_value(type);
        if (name && strcmp(name, "sliding_attention") == 0)
            *windows = true;
        else if (!name || strcmp(name, "full_attention") != 0)
            return cadre_hf_bad_key(in, "layer_types", CADRE_E_UNSUPPORTED,
                                    "\"full_attention\" (Cadre has no other)");
    }
    return CADRE_OK;
}

/* Attention over the latest positions alone. Where the file does not say, the window is
 * 4096, as the classes have it; those of Qwen read it with use_sliding_window alone,
 * for layers from max_window_layers on. */
static cadre_status read_window(const struct cadre_hf_source *in,
                                struct cadre_hf_config *config)
{
    const bool null = json_is_null(json_object_get(in->root, "sliding_window"));
    bool windows = true;
    int64_t window = 0, first;
    if (config->family != CADRE_HF_FAMILY_MISTRAL)
        CADRE_TRY(cadre_hf_get_bool(in, "use_sliding_window", false, &windows));
    if (windows && !null)
        CADRE_TRY(cadre_hf_get_size(in, "sliding_window", 4096, &window));
    if (windows && config->family != CADRE_HF_FAMILY_MISTRAL) {
        CADRE_TRY(cadre_hf_get_size(in, "max_window_layers", 28, &first));
        windows = config->layers > first;
    }
    CADRE_TRY(read_layer_types(in, config, &windows));
    config->window = windows ? window : 0;
    if (windows && window == 0 && cadre_hf_get(in, "layer_types"))
        return cadre_hf_bad_key(in, "sliding_window", CADRE_E_INVALID,
                                "the window of \"sliding_attention\"");
    return CADRE_OK;
}

static cadre_status read_forms(const struct cadre_hf_source *in,
                               struct cadre_hf_config *config)
{
    switch (config->family) {
    case CADRE_HF_FAMILY_MISTRAL:
        return read_window(in, config);
    case CADRE_HF_FAMILY_QWEN2:
        config->qkv_bias = true;
        return read_window(in, config);
    case CADRE_HF_FAMILY_QWEN3:
        config->qk_norm = true;
        CADRE_TRY(cadre_hf_need_bool(in, "attention_bias", false, false));
        return read_window(in, config);
    default:
        CADRE_TRY(cadre_hf_need_bool(in, "attention_bias", false, false));
        return cadre_hf_need_bool(in, "mlp_bias", false, false);
    }
}

/* num_key_value_heads: of Llama alone a file may leave it out, as the other classes
 * have numbers of their own; null is num_attention_heads. */
static cadre_status read_kv_heads(const struct cadre_hf_source *in,
                                  struct cadre_hf_config *config)
{
    const char *key = "num_key_value_heads";
    const bool named = json_object_get(in->root, key) != NULL;
    CADRE_TRY(cadre_hf_get_size(
        in, key, named || config->family == CADRE_HF_FAMILY_LLAMA ? config->heads : -1,
        &config->kv_heads));
    if (config->heads % config->kv_heads != 0)
        return cadre_hf_bad_key(in, "num_attention_heads", CADRE_E_INVALID,
                                "a multiple of num_key_value_heads");
    return CADRE_OK;
}

static cadre_status read_head_size(const struct cadre_hf_source *in,
                                   struct cadre_hf_config *config)
{
    const bool whole = config->channels % config->heads == 0;
    const bool own = config->family == CADRE_HF_FAMILY_QWEN3; /* else it has 128 */
    if (!cadre_hf_get(in, "head_dim") && !whole)
        return cadre_hf_bad_key(in, "hidden_size", CADRE_E_INVALID,
                                "a multiple of the number of heads");
    CADRE_TRY(cadre_hf_get_size(in, "head_dim",
                                own ? -1 : config->channels / config->heads,
                                &config->head_size));
    if (config->head_size % 2 != 0)
        return cadre_hf_bad_key(in, "head_dim", CADRE_E_UNSUPPORTED,
                                "an even number, as rotary positions turn pairs");
    return CADRE_OK;
}

static cadre_status read_llama(const struct cadre_hf_source *in,
                               struct cadre_hf_config *config)
{
    CADRE_TRY(cadre_hf_get_size(in, "num_hidden_layers", -1, &config->layers));
    CADRE_TRY(cadre_hf_get_size(in, "hidden_size", -1, &config->channels));
    CADRE_TRY(cadre_hf_get_size(in, "num_attention_heads", -1, &config->heads));
    CADRE_TRY(read_kv_heads(in, config));
    CADRE_TRY(cadre_hf_get_size(in, "intermediate_size", -1, &config->hidden));
    CADRE_TRY(cadre_hf_get_size(in, "max_position_embeddings", -1, &config->context));
    CADRE_TRY(cadre_hf_get_number(in, "rms_norm_eps", 1e-6, &config->norm_eps));
    CADRE_TRY(cadre_hf_get_bool(in, "tie_word_embeddings", false, &config->tied));
    CADRE_TRY(cadre_hf_read_rope(in, &config->rotary));
    CADRE_TRY(cadre_hf_need_activation(in, "hidden_act", "silu", "swish"));
    CADRE_TRY(read_head_size(in, config));
    return read_forms(in, config);
}

static cadre_status read_head(const struct cadre_hf_source *in,
                              struct cadre_hf_config *config)
{
    static const char classifier[] = "ForSequenceClassification";
    const json_t *list = cadre_hf_get(in, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    const char *end = name ? strstr(name, classifier) : NULL;
    const json_t *labels = cadre_hf_get(in, "id2label");
    config->classes = 0;
    if (!end || end[sizeof classifier - 1] != '\0')
        return CADRE_OK;
    /* Hugging Face's default is two classes; id2label lists them if there are more. */
    int64_t n = json_object_size(labels) > 0 ? (int64_t)json_object_size(labels) : 2;
    return cadre_hf_get_size(in, "num_labels", n, &config->classes);
}

static const struct {
    const char *type, *cls;
} families[] = {
    [CADRE_HF_FAMILY_GPT2] = {"gpt2", "GPT2"},
    [CADRE_HF_FAMILY_LLAMA] = {"llama", "Llama"},
    [CADRE_HF_FAMILY_MISTRAL] = {"mistral", "Mistral"},
    [CADRE_HF_FAMILY_QWEN2] = {"qwen2", "Qwen2"},
    [CADRE_HF_FAMILY_QWEN3] = {"qwen3", "Qwen3"},
};

const char *cadre_hf_family_type(enum cadre_hf_family family)
{
    return families[family].type;
}

const char *cadre_hf_family_class(enum cadre_hf_family family)
{
    return families[family].cls;
}

static cadre_status read_family(const struct cadre_hf_source *in,
                                struct cadre_hf_config *config)
{
    const char *type = json_string_value(cadre_hf_get(in, "model_type"));
    for (int i = 0; type && i < (int)(sizeof families / sizeof families[0]); i++)
        if (strcmp(type, families[i].type) == 0) {
            config->family = (enum cadre_hf_family)i;
            config->arch = i == CADRE_HF_FAMILY_GPT2 ? CADRE_HF_GPT2 : CADRE_HF_LLAMA;
            return CADRE_OK;
        }
    return cadre_hf_bad_key(in, "model_type", CADRE_E_UNSUPPORTED,
                            "\"gpt2\", \"llama\", \"mistral\", \"qwen2\" or \"qwen3\"");
}

static cadre_status read_config(const struct cadre_hf_source *in,
                                struct cadre_hf_config *config)
{
    if (!json_is_object(in->root))
        return cadre_fail(in->err, CADRE_E_INVALID, "%s: expected a JSON object",
                          in->path);
    CADRE_TRY(cadre_hf_need_absent(in, "quantization_config"));
    CADRE_TRY(read_family(in, config));
    CADRE_TRY(config->arch == CADRE_HF_GPT2 ? read_gpt2(in, config)
                                            : read_llama(in, config));
    CADRE_TRY(cadre_hf_get_size(in, "vocab_size", -1, &config->vocab));
    CADRE_TRY(read_head(in, config));
    return cadre_hf_check_keys(in, config->family);
}

cadre_status cadre_hf_config_read(const char *dir, struct cadre_hf_config *config,
                                  struct cadre_error *err)
{
    struct cadre_hf_config read = {0};
    json_t *root = NULL;
    char *text = NULL;
    size_t bytes = 0;
    cadre_status rc = CADRE_OK;
    char *path = cadre_format("%s/config.json", dir);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    CADRE_TRY_OR(cadre_file_read_whole(path, CONFIG_LIMIT, &text, &bytes, err), fail);
    CADRE_TRY_OR(cadre_json_read(text, bytes, path, &root, err), fail);
    const struct cadre_hf_source in = {path, root, err};
    CADRE_TRY_OR(read_config(&in, &read), fail);
    *config = read;
fail:
    json_decref(root);
    free(text);
    free(path);
    return rc;
}
