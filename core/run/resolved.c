/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/resolved.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/ini.h"
#include "core/tune/modules.h"

static cadre_status put(struct cadre_options *options, const char *key,
                        const char *value, const char *source, struct cadre_error *err)
{
    if (strcmp(cadre_options_raw(options, key), value) == 0 ||
        cadre_ini_quote(value) < 0)
        return CADRE_OK;
    char *text = cadre_format("%s=%s", key, value);
    /* the old source is freed with the old value */
    char *from = cadre_strdup(source);
    cadre_status rc = text && from ? cadre_options_set(options, text, from, err)
                                   : cadre_no_memory(err, "the options");
    free(text);
    free(from);
    return rc;
}

/* ---- values ---- */

/* A number that is written another way already stays as it is. */
static cadre_status put_size(struct cadre_options *options, const char *key,
                             int64_t value, const char *source, struct cadre_error *err)
{
    char text[32];
    if (strtod(cadre_options_raw(options, key), NULL) == (double)value)
        return CADRE_OK;
    snprintf(text, sizeof text, "%lld", (long long)value);
    return put(options, key, text, source, err);
}

/* The shortest text that reads back the same. */
static cadre_status put_number(struct cadre_options *options, const char *key,
                               double value, const char *source,
                               struct cadre_error *err)
{
    char text[32];
    if (strtod(cadre_options_raw(options, key), NULL) == value)
        return CADRE_OK;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return put(options, key, text, source, err);
}

static cadre_status put_model(struct cadre_options *options,
                              const struct cadre_model_config *m, const char *source,
                              struct cadre_error *err)
{
    static const char *const scalings[] = {"none", "linear", "llama3"};
    const struct cadre_rotary *rotary = &m->rotary;
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {
        {"model.layers", m->layers}, {"model.channels", m->channels},
        {"model.heads", m->heads},   {"model.kv_heads", m->kv_heads},
        {"model.hidden", m->hidden}, {"model.context", m->context},
        {"model.vocab", m->vocab},   {"model.head_size", m->head_size},
    };
    CADRE_TRY(put(options, "model.arch", cadre_model_arch_name(m), source, err));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        CADRE_TRY(put_size(options, sizes[i].key, sizes[i].value, source, err));
    CADRE_TRY(put(options, "model.tied", m->tied ? "yes" : "no", source, err));
    CADRE_TRY(put(options, "model.qkv_bias", m->qkv_bias ? "yes" : "no", source, err));
    CADRE_TRY(put(options, "model.qk_norm", m->qk_norm ? "yes" : "no", source, err));
    CADRE_TRY(put_number(options, "model.rope_theta", rotary->theta, source, err));
    CADRE_TRY(
        put(options, "model.rope_scaling", scalings[rotary->scaling], source, err));
    if (rotary->scaling != CADRE_ROTARY_PLAIN)
        CADRE_TRY(
            put_number(options, "model.rope_factor", rotary->factor, source, err));
    if (rotary->scaling == CADRE_ROTARY_LLAMA3) {
        CADRE_TRY(put_number(options, "model.rope_low", rotary->low, source, err));
        CADRE_TRY(put_number(options, "model.rope_high", rotary->high, source, err));
        CADRE_TRY(
            put_size(options, "model.rope_original", rotary->original, source, err));
    }
    return put_number(options, "model.norm_eps", m->norm_eps, source, err);
}

/* Of the folder tune.adapter. */
static cadre_status put_lora(struct cadre_options *options,
                             const struct cadre_model_config *m,
                             struct cadre_error *err)
{
    const struct cadre_lora_config *lora = &m->lora;
    const char *source = "found in tune.adapter", *module;
    struct cadre_text targets = {0};
    uint32_t position;
    if (!*cadre_options_raw(options, "tune.adapter"))
        return CADRE_OK;
    for (int i = 0; (module = cadre_modules_name(m->arch, i, &position)); i++)
        if (lora->targets >> position & 1)
            cadre_text_printf(&targets, "%s%s", targets.len ? ", " : "", module);
    cadre_status rc = targets.failed ? cadre_no_memory(err, "tune.targets")
                                     : put(options, "tune.targets",
                                           cadre_text_str(&targets), source, err);
    cadre_text_fini(&targets);
    if (rc == CADRE_OK)
        rc = put_size(options, "tune.rank", lora->rank, source, err);
    if (rc == CADRE_OK)
        rc = put_number(options, "tune.alpha", lora->alpha, source, err);
    if (rc == CADRE_OK)
        rc = put_number(options, "tune.dropout", lora->dropout, source, err);
    return rc == CADRE_OK
               ? put(options, "tune.rslora", lora->rslora ? "yes" : "no", source, err)
               : rc;
}

cadre_status cadre_resolved_values(struct cadre_options *options, const char *name,
                                   const char *init,
                                   const struct cadre_model_config *model,
                                   struct cadre_error *err)
{
    const char *source = *init ? "found in model.init" : "found for this run";
    CADRE_TRY(put(options, "run.name", name, "the file's name", err));
    CADRE_TRY(put_lora(options, model, err));
    return put_model(options, model, source, err);
}

/* ---- paths ---- */

static bool is_one_of(const char *value, const char *const words[3])
{
    for (int i = 0; i < 3; i++)
        if (words[i] && strcmp(value, words[i]) == 0)
            return true;
    return false;
}

/* A checkpoint that is not there is refused under the name that the user gave. */
static char *absolute_existing(const char *path)
{
    return cadre_path_exists(path) ? cadre_path_absolute(path) : cadre_strdup(path);
}

/* The parts between separators, each that is a path made absolute; as it was where a
 * separator would get into it. */
static char *absolute_parts(const char *list, char separator, bool only_files)
{
    struct cadre_text text = {0};
    const char ends[] = {separator, 0};
    for (const char *at = list;; at++) {
        size_t blank = strspn(at, " \t"), n = strcspn(at + blank, ends);
        char *one = cadre_strndup(at + blank, n);
        bool is_path = one && (!only_files || strchr(one, '/'));
        char *full = is_path ? cadre_path_absolute(one) : cadre_strdup(one);
        const char *kept = full && !strchr(full, separator) ? full : one;
        text.failed = text.failed || !full;
        cadre_text_printf(&text, "%.*s%s", (int)blank, at, kept ? kept : "");
        free(one);
        free(full);
        at += blank + n;
        if (!*at)
            break;
        cadre_text_append(&text, ends, 1);
    }
    char *copy = text.failed ? NULL : cadre_strdup(cadre_text_str(&text));
    cadre_text_fini(&text);
    return copy;
}

/* "a:b" -> "/here/a:/here/b" */
static char *absolute_folders(const char *list)
{
    return absolute_parts(list, ':', false);
}

/* "./x.so:2, ddp:2" -> "/here/x.so:2, ddp:2" */
static char *absolute_stack(const char *stack)
{
    return absolute_parts(stack, ',', true);
}

cadre_status cadre_resolved_paths(struct cadre_options *options,
                                  struct cadre_error *err)
{
    static const struct {
        const char *key;
        char *(*absolute)(const char *);
        const char *words[3]; /* that are no paths */
    } keys[] = {
        {"run.out", cadre_path_absolute, {0}},
        {"model.init", cadre_path_absolute, {0}},
        {"tune.adapter", cadre_path_absolute, {0}},
        {"tune.reference", cadre_path_absolute, {0}},
        {"data.path", cadre_path_absolute, {0}},
        {"data.labels", cadre_path_absolute, {"auto"}},
        {"data.tokenizer", cadre_path_absolute, {"byte"}},
        {"data.cache", cadre_path_absolute, {"auto", "no"}},
        {"checkpoint.resume", absolute_existing, {"no", "auto"}},
        {"strategy.plugin_path", absolute_folders, {0}},
        {"strategy.stack", absolute_stack, {0}},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *value = cadre_options_raw(options, keys[i].key);
        if (!*value || is_one_of(value, keys[i].words))
            continue;
        char *full = keys[i].absolute(value);
        cadre_status rc = full ? put(options, keys[i].key, full,
                                     cadre_options_source(options, keys[i].key), err)
                               : cadre_no_memory(err, "a path");
        free(full);
        CADRE_TRY(rc);
    }
    return CADRE_OK;
}
