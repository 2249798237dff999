/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: keys that change what is computed are read strictly; keys for other
 * programs are ignored. */
#include "core/checkpoint/format/hf.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"

enum { CONFIG_LIMIT = 16 << 20 };

struct source {
    const char *path;
    const json_t *root;
    struct cadre_error *err;
};

/* Print a value for an error text. */
static void show(const json_t *value, char *out, size_t size)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(out, size, "%s", text ? text : "nothing");
    free(text);
}

static cadre_status bad_key(const struct source *in, const char *key,
                            cadre_status status, const char *expected)
{
    char found[80];
    show(json_object_get(in->root, key), found, sizeof found);
    return cadre_fail(in->err, status, "%s: \"%s\": expected %s, found %s", in->path,
                      key, expected, found);
}

/* null is treated as an absent key: Hugging Face writes null for "the default". */
static const json_t *get(const struct source *in, const char *key)
{
    const json_t *value = json_object_get(in->root, key);
    return json_is_null(value) ? NULL : value;
}

/* fallback < 0: the key is required. */
static cadre_status get_size(const struct source *in, const char *key, int64_t fallback,
                             int64_t *out)
{
    const json_t *value = get(in, key);
    *out = fallback;
    if (!value && fallback >= 0)
        return CADRE_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > INT32_MAX)
        return bad_key(in, key, CADRE_E_INVALID, "an integer from 1 to 2147483647");
    *out = (int64_t)json_integer_value(value);
    return CADRE_OK;
}

static cadre_status get_number(const struct source *in, const char *key,
                               double fallback, double *out)
{
    const json_t *value = get(in, key);
    *out = fallback;
    if (!value)
        return CADRE_OK;
    double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number <= 0.0)
        return bad_key(in, key, CADRE_E_INVALID, "a positive number");
    *out = number;
    return CADRE_OK;
}

static cadre_status get_bool(const struct source *in, const char *key, bool fallback,
                             bool *out)
{
    const json_t *value = get(in, key);
    *out = fallback;
    if (!value)
        return CADRE_OK;
    if (!json_is_boolean(value))
        return bad_key(in, key, CADRE_E_INVALID, "true or false");
    *out = json_is_true(value);
    return CADRE_OK;
}

static cadre_status need_bool(const struct source *in, const char *key, bool fallback,
                              bool needed)
{
    bool value;
    cadre_status rc = get_bool(in, key, fallback, &value);
    if (rc == CADRE_OK && value != needed)
        rc = bad_key(in, key, CADRE_E_UNSUPPORTED,
                     needed ? "true (Cadre has no other form)"
                            : "false (Cadre has no other form)");
    return rc;
}

static cadre_status need_absent(const struct source *in, const char *key)
{
    return get(in, key)
               ? bad_key(in, key, CADRE_E_UNSUPPORTED, "null (Cadre has no such form)")
               : CADRE_OK;
}

static cadre_status need_activation(const struct source *in, const char *key,
                                    const char *name, const char *alias)
{
    const char *found = json_string_value(get(in, key));
    if (!get(in, key) || (found && (!strcmp(found, name) || !strcmp(found, alias))))
        return CADRE_OK;
    char expected[80];
    snprintf(expected, sizeof expected, "\"%s\" (the only one that Cadre computes)",
             name);
    return bad_key(in, key, CADRE_E_UNSUPPORTED, expected);
}

static cadre_status read_gpt2(const struct source *in, struct cadre_hf_config *config)
{
    config->arch = CADRE_HF_GPT2;
    CADRE_TRY(get_size(in, "n_layer", -1, &config->layers));
    CADRE_TRY(get_size(in, "n_embd", -1, &config->channels));
    CADRE_TRY(get_size(in, "n_head", -1, &config->heads));
    CADRE_TRY(get_size(in, "n_inner", 4 * config->channels, &config->hidden));
    CADRE_TRY(get_size(in, "n_positions", -1, &config->context));
    CADRE_TRY(get_number(in, "layer_norm_epsilon", 1e-5, &config->norm_eps));
    CADRE_TRY(get_bool(in, "tie_word_embeddings", true, &config->tied));
    CADRE_TRY(
        need_activation(in, "activation_function", "gelu_new", "gelu_pytorch_tanh"));
    CADRE_TRY(need_bool(in, "scale_attn_weights", true, true));
    CADRE_TRY(need_bool(in, "scale_attn_by_inverse_layer_idx", false, false));
    CADRE_TRY(need_bool(in, "add_cross_attention", false, false));
    config->kv_heads = config->heads;
    return CADRE_OK;
}

/* The base of the rotary positions: `rope_theta`, or since version 5 of transformers
 * `rope_parameters`. Scaled forms are refused. */
static cadre_status read_rope(const struct source *in, struct cadre_hf_config *config)
{
    const json_t *parameters = get(in, "rope_parameters");
    const struct source inner = {in->path, parameters, in->err};
    const char *kind = json_string_value(json_object_get(parameters, "rope_type"));
    CADRE_TRY(need_absent(in, "rope_scaling"));
    CADRE_TRY(get_number(in, "rope_theta", 10000.0, &config->rope_theta));
    if (!parameters)
        return CADRE_OK;
    if (!json_is_object(parameters) || (kind && strcmp(kind, "default") != 0))
        return bad_key(in, "rope_parameters", CADRE_E_UNSUPPORTED,
                       "\"rope_type\": \"default\" (Cadre has no scaled positions)");
    return get_number(&inner, "rope_theta", config->rope_theta, &config->rope_theta);
}

static cadre_status read_llama(const struct source *in, struct cadre_hf_config *config)
{
    int64_t head_dim = 0;
    config->arch = CADRE_HF_LLAMA;
    CADRE_TRY(get_size(in, "num_hidden_layers", -1, &config->layers));
    CADRE_TRY(get_size(in, "hidden_size", -1, &config->channels));
    CADRE_TRY(get_size(in, "num_attention_heads", -1, &config->heads));
    CADRE_TRY(get_size(in, "num_key_value_heads", config->heads, &config->kv_heads));
    CADRE_TRY(get_size(in, "intermediate_size", -1, &config->hidden));
    CADRE_TRY(get_size(in, "max_position_embeddings", -1, &config->context));
    CADRE_TRY(get_number(in, "rms_norm_eps", 1e-6, &config->norm_eps));
    CADRE_TRY(get_bool(in, "tie_word_embeddings", false, &config->tied));
    CADRE_TRY(read_rope(in, config));
    CADRE_TRY(need_activation(in, "hidden_act", "silu", "swish"));
    CADRE_TRY(need_bool(in, "attention_bias", false, false));
    CADRE_TRY(need_bool(in, "mlp_bias", false, false));
    CADRE_TRY(get_size(in, "head_dim", config->channels / config->heads, &head_dim));
    if (head_dim * config->heads != config->channels)
        return bad_key(in, "head_dim", CADRE_E_UNSUPPORTED,
                       "hidden_size / num_attention_heads");
    return CADRE_OK;
}

static cadre_status read_head(const struct source *in, struct cadre_hf_config *config)
{
    static const char classifier[] = "ForSequenceClassification";
    const json_t *list = get(in, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    const char *end = name ? strstr(name, classifier) : NULL;
    const json_t *labels = get(in, "id2label");
    config->classes = 0;
    if (!end || end[sizeof classifier - 1] != '\0')
        return CADRE_OK;
    /* Hugging Face's default is two classes; id2label lists them if there are more. */
    int64_t n = json_object_size(labels) > 0 ? (int64_t)json_object_size(labels) : 2;
    return get_size(in, "num_labels", n, &config->classes);
}

static cadre_status check_divisible(const struct source *in,
                                    const struct cadre_hf_config *config)
{
    bool gpt2 = config->arch == CADRE_HF_GPT2;
    if (config->channels % config->heads != 0)
        return bad_key(in, gpt2 ? "n_embd" : "hidden_size", CADRE_E_INVALID,
                       "a multiple of the number of heads");
    if (config->heads % config->kv_heads != 0)
        return bad_key(in, "num_attention_heads", CADRE_E_INVALID,
                       "a multiple of num_key_value_heads");
    return CADRE_OK;
}

static cadre_status read_config(const struct source *in, struct cadre_hf_config *config)
{
    const char *type = json_string_value(get(in, "model_type"));
    cadre_status rc;
    if (!json_is_object(in->root))
        return cadre_fail(in->err, CADRE_E_INVALID, "%s: expected a JSON object",
                          in->path);
    CADRE_TRY(need_absent(in, "quantization_config"));
    if (type && strcmp(type, "gpt2") == 0)
        rc = read_gpt2(in, config);
    else if (type && strcmp(type, "llama") == 0)
        rc = read_llama(in, config);
    else
        rc = bad_key(in, "model_type", CADRE_E_UNSUPPORTED, "\"gpt2\" or \"llama\"");
    if (rc != CADRE_OK)
        return rc;
    CADRE_TRY(get_size(in, "vocab_size", -1, &config->vocab));
    CADRE_TRY(read_head(in, config));
    return check_divisible(in, config);
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
    const struct source in = {path, root, err};
    CADRE_TRY_OR(read_config(&in, &read), fail);
    *config = read;
fail:
    json_decref(root);
    free(text);
    free(path);
    return rc;
}

static void put_text(struct cadre_json *json, const char *key, const char *value)
{
    cadre_json_key(json, key);
    cadre_json_string(json, value);
}

static void put_i64(struct cadre_json *json, const char *key, int64_t value)
{
    cadre_json_key(json, key);
    cadre_json_i64(json, value);
}

static void put_f64(struct cadre_json *json, const char *key, double value)
{
    cadre_json_key(json, key);
    cadre_json_f64(json, value);
}

static void put_gpt2(struct cadre_json *json, const struct cadre_hf_config *config)
{
    put_text(json, "model_type", "gpt2");
    put_i64(json, "n_layer", config->layers);
    put_i64(json, "n_embd", config->channels);
    put_i64(json, "n_head", config->heads);
    put_i64(json, "n_inner", config->hidden);
    put_i64(json, "n_positions", config->context);
    put_f64(json, "layer_norm_epsilon", config->norm_eps);
    put_text(json, "activation_function", "gelu_new");
    /* Cadre trains without dropout. */
    put_f64(json, "attn_pdrop", 0.0);
    put_f64(json, "embd_pdrop", 0.0);
    put_f64(json, "resid_pdrop", 0.0);
}

static void put_llama(struct cadre_json *json, const struct cadre_hf_config *config)
{
    put_text(json, "model_type", "llama");
    put_i64(json, "num_hidden_layers", config->layers);
    put_i64(json, "hidden_size", config->channels);
    put_i64(json, "num_attention_heads", config->heads);
    put_i64(json, "num_key_value_heads", config->kv_heads);
    put_i64(json, "intermediate_size", config->hidden);
    put_i64(json, "max_position_embeddings", config->context);
    put_f64(json, "rms_norm_eps", config->norm_eps);
    put_f64(json, "rope_theta", config->rope_theta);
    put_text(json, "hidden_act", "silu");
}

static void put_config(struct cadre_json *json, const struct cadre_hf_config *config)
{
    bool gpt2 = config->arch == CADRE_HF_GPT2;
    const char *name = gpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM";
    if (config->classes > 0)
        name =
            gpt2 ? "GPT2ForSequenceClassification" : "LlamaForSequenceClassification";
    cadre_json_begin_object(json);
    cadre_json_key(json, "architectures");
    cadre_json_begin_array(json);
    cadre_json_string(json, name);
    cadre_json_end_array(json);
    if (gpt2)
        put_gpt2(json, config);
    else
        put_llama(json, config);
    put_i64(json, "vocab_size", config->vocab);
    if (config->classes > 0)
        put_i64(json, "num_labels", config->classes);
    cadre_json_key(json, "tie_word_embeddings");
    cadre_json_bool(json, config->tied);
    cadre_json_end_object(json);
}

cadre_status cadre_hf_config_write(const char *dir,
                                   const struct cadre_hf_config *config,
                                   struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_status rc;
    char *path = cadre_format("%s/config.json", dir);
    cadre_json_init_text(&json, &text, true);
    put_config(&json, config);
    rc = cadre_json_finish(&json);
    if (rc != CADRE_OK || !path)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory for config.json", dir);
    else
        rc = cadre_file_write_whole(path, text.data, text.len, err);
    cadre_text_fini(&text);
    free(path);
    return rc;
}
