/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/peft.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/checkpoint/format/file.h"
#include "core/tune/modules.h"

enum { LIMIT = 1 << 20 };

/* ---- reading ---- */

struct reader {
    const char *path;
    const json_t *root;
    struct cadre_error *err;
};

/* Absent, null, false, zero, "none" or empty: the feature is not used. */
static bool is_unused(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && (strcmp(json_string_value(value), "none") == 0 ||
                                      *json_string_value(value) == 0)) ||
           ((json_is_object(value) || json_is_array(value)) &&
            json_object_size(value) == 0 && json_array_size(value) == 0);
}

/* Keys that say nothing of what is computed, or that the reader reads. */
static bool is_known(const char *key)
{
    static const char *const keys[] = {
        "auto_mapping",   "base_model_name_or_path", "fan_in_fan_out",
        "inference_mode", "init_lora_weights",       "lora_alpha",
        "lora_dropout",   "megatron_core",           "peft_type",
        "peft_version",   "qalora_group_size",       "r",
        "revision",       "target_modules",          "task_type",
        "use_rslora",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* Nothing that is used is ignored, also not by a newer PEFT. PiSSA and its like have
 * changed the frozen weights, which are then not those of the folder. */
static cadre_status check_unused(const struct reader *r)
{
    const char *key, *start;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->root, key, value)
    {
        if (!is_known(key) && !is_unused(value))
            return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                              "%s: \"%.60s\" is set, and adapters of Cadre have no "
                              "such part; expected it absent, null or empty",
                              r->path, key);
    }
    start = json_string_value(json_object_get(r->root, "init_lora_weights"));
    if (start && strcmp(start, "gaussian") != 0)
        return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                          "%s: \"init_lora_weights\" is '%.60s', which changes the "
                          "frozen weights; expected true, false or gaussian",
                          r->path, start);
    return CADRE_OK;
}

static cadre_status read_number(const struct reader *r, const char *key, double *out)
{
    const json_t *value = json_object_get(r->root, key);
    if (!json_is_number(value))
        return cadre_fail(r->err, CADRE_E_INVALID,
                          "%s: expected a number \"%s\", found none", r->path, key);
    *out = json_number_value(value);
    return CADRE_OK;
}

static cadre_status read_module(const struct reader *r, enum cadre_arch arch,
                                const json_t *module, uint32_t *targets)
{
    const char *name = json_string_value(module);
    const uint32_t found = name ? cadre_modules_find(arch, name) : 0;
    if (found == 0)
        return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                          "%s: \"target_modules\" has '%.100s', expected linear "
                          "modules of %s blocks, as %s",
                          r->path, name ? name : "(no text)",
                          arch == CADRE_ARCH_LLAMA ? "llama" : "gpt2",
                          arch == CADRE_ARCH_LLAMA ? "q_proj" : "c_attn");
    *targets |= found;
    return CADRE_OK;
}

static cadre_status read_targets(const struct reader *r, enum cadre_arch arch,
                                 uint32_t *targets)
{
    const json_t *modules = json_object_get(r->root, "target_modules");
    const char *text = json_string_value(modules);
    *targets = 0;
    if (text && strcmp(text, "all-linear") == 0)
        return cadre_modules_parse(arch, "all", targets, r->err);
    if (text && cadre_modules_find(arch, text) == 0)
        return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                          "%s: \"target_modules\" is the pattern '%.100s', expected a "
                          "list of names, or all-linear",
                          r->path, text);
    if (text)
        return read_module(r, arch, modules, targets);
    for (size_t i = 0; i < json_array_size(modules); i++)
        CADRE_TRY(read_module(r, arch, json_array_get(modules, i), targets));
    if (*targets == 0)
        return cadre_fail(r->err, CADRE_E_INVALID,
                          "%s: expected a list \"target_modules\", found none",
                          r->path);
    return CADRE_OK;
}

static cadre_status read_all(const struct reader *r, enum cadre_arch arch,
                             struct cadre_peft *peft)
{
    const char *type = json_string_value(json_object_get(r->root, "peft_type"));
    const json_t *dropout = json_object_get(r->root, "lora_dropout");
    double rank;
    if (!type || strcmp(type, "LORA") != 0)
        return cadre_fail(r->err, CADRE_E_UNSUPPORTED,
                          "%s: expected \"peft_type\": \"LORA\", found '%.100s'",
                          r->path, type ? type : "none");
    CADRE_TRY(check_unused(r));
    CADRE_TRY(read_number(r, "r", &rank));
    CADRE_TRY(read_number(r, "lora_alpha", &peft->alpha));
    if (rank < 1 || rank > 65536 || rank != (double)(int64_t)rank)
        return cadre_fail(r->err, CADRE_E_INVALID,
                          "%s: \"r\" is %g, expected a whole number from 1 to 65536",
                          r->path, rank);
    peft->rank = (int64_t)rank;
    peft->dropout = json_number_value(dropout); /* 0 where there is none */
    if (!(peft->dropout >= 0 && peft->dropout < 1))
        return cadre_fail(r->err, CADRE_E_INVALID,
                          "%s: \"lora_dropout\" is %g, expected 0 to below 1", r->path,
                          peft->dropout);
    peft->rslora = json_is_true(json_object_get(r->root, "use_rslora"));
    return read_targets(r, arch, &peft->targets);
}

cadre_status cadre_peft_read(const char *dir, enum cadre_arch arch,
                             struct cadre_peft *peft, struct cadre_error *err)
{
    char *path = cadre_format("%s/adapter_config.json", dir), *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    cadre_status rc;
    if (!path)
        return cadre_no_memory(err, "a path");
    CADRE_TRY_OR(cadre_file_read_whole(path, LIMIT, &text, &bytes, err), fail);
    CADRE_TRY_OR(cadre_json_read(text, bytes, path, &root, err), fail);
    rc = read_all(&(struct reader){path, root, err}, arch, peft);
fail:
    json_decref(root);
    free(text);
    free(path);
    return rc;
}

/* ---- writing ---- */

static void put_null(struct cadre_json *json, const char *key)
{
    cadre_json_key(json, key);
    cadre_json_null(json);
}

static void put_empty(struct cadre_json *json, const char *key)
{
    cadre_json_key(json, key);
    cadre_json_begin_object(json);
    cadre_json_end_object(json);
}

static void put_all(struct cadre_json *json, const struct cadre_model_config *model,
                    const char *base)
{
    const struct cadre_lora_config *lora = &model->lora;
    const char *module;
    uint32_t position;
    cadre_json_begin_object(json);
    put_empty(json, "alpha_pattern");
    cadre_json_put_string(json, "base_model_name_or_path", base && *base ? base : NULL);
    cadre_json_put_string(json, "bias", "none");
    cadre_json_put_bool(json, "fan_in_fan_out", model->arch == CADRE_ARCH_GPT2);
    cadre_json_put_bool(json, "inference_mode", true);
    cadre_json_put_bool(json, "init_lora_weights", true);
    cadre_json_put_f64(json, "lora_alpha", lora->alpha);
    cadre_json_put_f64(json, "lora_dropout", lora->dropout);
    put_null(json, "modules_to_save");
    cadre_json_put_string(json, "peft_type", "LORA");
    cadre_json_put_i64(json, "r", lora->rank);
    put_empty(json, "rank_pattern");
    put_null(json, "revision");
    cadre_json_key(json, "target_modules");
    cadre_json_begin_array(json);
    for (int i = 0; (module = cadre_modules_name(model->arch, i, &position)); i++)
        if (lora->targets >> position & 1)
            cadre_json_string(json, module);
    cadre_json_end_array(json);
    cadre_json_put_string(json, "task_type", "CAUSAL_LM");
    cadre_json_put_bool(json, "use_dora", false);
    cadre_json_put_bool(json, "use_rslora", lora->rslora);
    cadre_json_end_object(json);
}

cadre_status cadre_peft_write(const char *dir, const struct cadre_model_config *model,
                              const char *base, struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char *path = cadre_format("%s/adapter_config.json", dir);
    cadre_json_init_text(&json, &text, true);
    put_all(&json, model, base);
    cadre_status rc = cadre_json_finish(&json);
    if (rc != CADRE_OK || !path)
        rc = cadre_no_memory(err, "adapter_config.json");
    else
        rc = cadre_file_write_whole(path, text.data, text.len, err);
    cadre_text_fini(&text);
    free(path);
    return rc;
}
