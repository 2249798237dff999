/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of a model, in the form of the family that computes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/hf.h"

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

/* The family whose classes compute this. */
static enum cadre_hf_family family_of(const struct cadre_hf_config *config)
{
    return config->arch == CADRE_HF_GPT2 ? CADRE_HF_FAMILY_GPT2
           : config->qkv_bias            ? CADRE_HF_FAMILY_QWEN2
           : config->qk_norm             ? CADRE_HF_FAMILY_QWEN3
                                         : CADRE_HF_FAMILY_LLAMA;
}

/* Where it is not what a class takes by itself: Qwen 3's is 128. */
static void put_head_size(struct cadre_json *json, const struct cadre_hf_config *config)
{
    const int64_t usual = config->channels / config->heads;
    const int64_t size = config->head_size ? config->head_size : usual;
    if (config->qk_norm || size * config->heads != config->channels)
        put_i64(json, "head_dim", size);
}

/* In the form of version 4 of transformers, which version 5 reads too. */
static void put_scaling(struct cadre_json *json, const struct cadre_rotary *rotary)
{
    const bool llama3 = rotary->scaling == CADRE_ROTARY_LLAMA3;
    if (rotary->scaling == CADRE_ROTARY_PLAIN)
        return;
    cadre_json_key(json, "rope_scaling");
    cadre_json_begin_object(json);
    put_text(json, "rope_type", llama3 ? "llama3" : "linear");
    put_f64(json, "factor", rotary->factor);
    if (llama3) {
        put_f64(json, "low_freq_factor", rotary->low);
        put_f64(json, "high_freq_factor", rotary->high);
        put_i64(json, "original_max_position_embeddings", rotary->original);
    }
    cadre_json_end_object(json);
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
    put_text(json, "model_type", cadre_hf_family_type(family_of(config)));
    put_i64(json, "num_hidden_layers", config->layers);
    put_i64(json, "hidden_size", config->channels);
    put_i64(json, "num_attention_heads", config->heads);
    put_i64(json, "num_key_value_heads", config->kv_heads);
    put_i64(json, "intermediate_size", config->hidden);
    put_i64(json, "max_position_embeddings", config->context);
    put_f64(json, "rms_norm_eps", config->norm_eps);
    put_f64(json, "rope_theta", config->rotary.theta);
    put_text(json, "hidden_act", "silu");
    put_head_size(json, config);
    put_scaling(json, &config->rotary);
}

enum { CONFIG_LIMIT = 16 << 20, N_MARKS = 3 };

static const struct {
    const char *key;
    size_t at;
} mark_keys[N_MARKS] = {
    {"bos_token_id", offsetof(struct cadre_hf_marks, bos)},
    {"eos_token_id", offsetof(struct cadre_hf_marks, eos)},
    {"pad_token_id", offsetof(struct cadre_hf_marks, pad)},
};

static int32_t mark_of(const struct cadre_hf_marks *marks, int i)
{
    int32_t id;
    memcpy(&id, (const char *)marks + mark_keys[i].at, sizeof id);
    return id;
}

static void put_marks(struct cadre_json *json, const struct cadre_hf_marks *marks)
{
    for (int i = 0; marks->known && i < N_MARKS; i++) {
        cadre_json_key(json, mark_keys[i].key);
        if (mark_of(marks, i) >= 0)
            cadre_json_i64(json, mark_of(marks, i));
        else
            cadre_json_null(json);
    }
}

static void put_config(struct cadre_json *json, const struct cadre_hf_config *config)
{
    const bool gpt2 = config->arch == CADRE_HF_GPT2;
    char name[64];
    snprintf(name, sizeof name, "%s%s", cadre_hf_family_class(family_of(config)),
             config->classes > 0 ? "ForSequenceClassification"
             : gpt2              ? "LMHeadModel"
                                 : "ForCausalLM");
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
    put_marks(json, &config->marks);
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

/* The text of the object with what it lacks, NULL where nothing is missing. */
static cadre_status complete(json_t *root, const struct cadre_hf_marks *marks,
                             char **text, struct cadre_error *err)
{
    bool more = false;
    *text = NULL;
    for (int i = 0; i < N_MARKS; i++) {
        if (mark_of(marks, i) < 0 || json_object_get(root, mark_keys[i].key))
            continue;
        if (json_object_set_new(root, mark_keys[i].key,
                                json_integer(mark_of(marks, i))) != 0)
            return cadre_no_memory(err, "config.json");
        more = true;
    }
    if (more)
        *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    return more && !*text ? cadre_no_memory(err, "config.json") : CADRE_OK;
}

cadre_status cadre_hf_config_add_marks(const char *dir,
                                       const struct cadre_hf_marks *marks,
                                       struct cadre_error *err)
{
    char *path = cadre_format("%s/config.json", dir), *text = NULL, *more = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "config.json");
    if (rc == CADRE_OK)
        rc = cadre_file_read_whole(path, CONFIG_LIMIT, &text, &bytes, err);
    if (rc == CADRE_OK)
        rc = cadre_json_read(text, bytes, path, &root, err);
    if (rc == CADRE_OK && !json_is_object(root))
        rc = cadre_fail(err, CADRE_E_INVALID, "%s: expected a JSON object", path);
    if (rc == CADRE_OK && marks->known)
        rc = complete(root, marks, &more, err);
    if (rc == CADRE_OK && more)
        rc = cadre_file_write_whole(path, more, strlen(more), err);
    json_decref(root);
    free(more);
    free(text);
    free(path);
    return rc;
}
