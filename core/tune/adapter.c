/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/tune/int4_file.h"
#include "core/tune/modules.h"
#include "core/tune/peft.h"

static bool is_set(const struct cadre_options *options, const char *name)
{
    return strcmp(cadre_options_source(options, name), "default") != 0;
}

bool cadre_adapter_is(const char *dir)
{
    return cadre_path_has(dir, "adapter_config.json");
}

/* Has the run adapters? */
static bool adapts(const struct cadre_config_tune *tune)
{
    return tune->method == CADRE_CONFIG_TUNE_LORA ||
           tune->method == CADRE_CONFIG_TUNE_QLORA ||
           (tune->method == CADRE_CONFIG_TUNE_DPO &&
            tune->adapters != CADRE_CONFIG_ADAPTERS_NONE);
}

/* ---- keys of other methods ---- */

struct unused {
    const struct cadre_options *options;
    const struct cadre_config_tune *tune;
    cadre_status rc;
    struct cadre_error *err;
};

/* What a key is of, if not of every method. */
static const struct subject {
    const char *keys[5];
    const char *name, *without, *set;
} adapter_keys = {{0}, "adapters", "has none", "tune.method = lora"},
  subjects[] = {
      {{"adapters", "beta", "label_smoothing", "reference"},
       "preferences",
       "learns none",
       "tune.method = dpo"},
      {{"group", "quantized"}, "quantization", "has none", "tune.method = qat"},
};

static const struct subject *subject_of(const char *key)
{
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        for (const char *const *k = subjects[i].keys; *k; k++)
            if (strcmp(key, *k) == 0)
                return &subjects[i];
    return &adapter_keys;
}

static bool is_used(const struct cadre_config_tune *tune, const struct subject *subject)
{
    if (subject == &subjects[0])
        return tune->method == CADRE_CONFIG_TUNE_DPO;
    if (subject == &subjects[1])
        return tune->method == CADRE_CONFIG_TUNE_QAT;
    return adapts(tune);
}

/* A key that would be ignored. A run's config.ini holds all keys, with defaults. */
static void refuse_unused(void *arg, const char *section,
                          const struct cadre_option *option, const char *value)
{
    struct unused *all = arg;
    const bool dpo = all->tune->method == CADRE_CONFIG_TUNE_DPO;
    const struct subject *subject = subject_of(option->key);
    char name[64];
    if (all->rc != CADRE_OK || strcmp(section, "tune") != 0 ||
        strcmp(option->key, "method") == 0 || strcmp(option->key, "base") == 0 ||
        strcmp(value, option->def) == 0 || is_used(all->tune, subject))
        return;
    snprintf(name, sizeof name, "tune.%s", option->key);
    all->rc = cadre_fail(
        all->err, CADRE_E_INVALID,
        "%s = %s (%s) is of %s, but tune.method = %s %s; set %s, or leave the key out",
        name, value, cadre_options_source(all->options, name), subject->name,
        cadre_options_raw(all->options, "tune.method"), subject->without,
        dpo && subject == &adapter_keys ? "tune.adapters = lora" : subject->set);
}

static cadre_status check_unused(const struct cadre_config_tune *tune,
                                 const struct cadre_options *options,
                                 struct cadre_error *err)
{
    struct unused all = {options, tune, CADRE_OK, err};
    cadre_options_each(options, refuse_unused, &all);
    return all.rc;
}

/* ---- tune.method = qat ---- */

/* A converted model would be quantised once more, and to other values: the scale of a
 * group comes from its largest weight, which rounding has changed. */
static cadre_status check_converted(const struct cadre_config *config,
                                    struct cadre_error *err)
{
    const char *init = config->model.init;
    const bool is = *init && cadre_path_has(init, CADRE_INT4_FILE);
    if (is == config->tune.quantized)
        return CADRE_OK;
    if (is)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "model.init = %s holds weights that are quantised already (it "
            "has " CADRE_INT4_FILE "); set tune.quantized = yes to read "
            "them as they are, or name the run that they are from",
            init);
    return cadre_fail(
        err, CADRE_E_INVALID,
        "tune.quantized = yes, but model.init = '%s' has no " CADRE_INT4_FILE
        "; name a folder that cadre merge made of a run of qat",
        init);
}

static cadre_status set_up_qat(const struct cadre_config *config,
                               struct cadre_model_config *model,
                               struct cadre_error *err)
{
    if (config->tune.base != CADRE_CONFIG_BASE_FULL)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tune.base = nf4 is of frozen weights, but tune.method = qat "
                          "trains all; leave the key out");
    CADRE_TRY(check_converted(config, err));
    model->qat = (struct cadre_qat_config){
        .group = config->tune.group,
        .stored = config->tune.quantized,
    };
    return CADRE_OK;
}

/* ---- adapters ---- */

/* What the user set and the folder says. */
static cadre_status check_agreement(const struct cadre_config_tune *tune,
                                    const struct cadre_options *options,
                                    uint32_t targets, const struct cadre_peft *found,
                                    struct cadre_error *err)
{
    const struct {
        const char *key;
        double wanted, found;
    } rows[] = {
        {"tune.rank", (double)tune->rank, (double)found->rank},
        {"tune.alpha", tune->alpha, found->alpha},
        {"tune.rslora", tune->rslora, found->rslora},
        {"tune.targets", targets, found->targets},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_set(options, rows[i].key) && rows[i].wanted != rows[i].found)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s = %s (%s), but tune.adapter = %s has another value; "
                              "leave the key out or make them equal",
                              rows[i].key, cadre_options_raw(options, rows[i].key),
                              cadre_options_source(options, rows[i].key),
                              tune->adapter);
    return CADRE_OK;
}

cadre_status cadre_adapter_setup(const struct cadre_config *config,
                                 const struct cadre_options *options,
                                 struct cadre_model_config *model,
                                 struct cadre_error *err)
{
    const struct cadre_config_tune *tune = &config->tune;
    struct cadre_lora_config *lora = &model->lora;
    uint32_t targets;
    *lora = (struct cadre_lora_config){0};
    model->qat = (struct cadre_qat_config){0};
    CADRE_TRY(check_unused(tune, options, err));
    if (tune->method == CADRE_CONFIG_TUNE_QAT)
        return set_up_qat(config, model, err);
    if (*tune->reference && !*config->model.init)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tune.reference = %s without model.init, the model to train; "
                          "set that too, or leave tune.reference out",
                          tune->reference);
    if (!adapts(tune))
        return CADRE_OK;
    if (*tune->reference)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "tune.reference = %s with tune.adapters = %s, whose reference "
            "is the model without them; leave one of the keys out",
            tune->reference, cadre_options_raw(options, "tune.adapters"));
    CADRE_TRY(cadre_modules_parse(model->arch, tune->targets, &targets, err));
    struct cadre_peft found = {
        .rank = tune->rank,
        .alpha = tune->alpha,
        .dropout = tune->dropout,
        .rslora = tune->rslora,
        .targets = targets,
    };
    if (*tune->adapter) {
        CADRE_TRY(cadre_peft_read(tune->adapter, model->arch, &found, err));
        CADRE_TRY(check_agreement(tune, options, targets, &found, err));
        if (is_set(options, "tune.dropout")) /* of training, not of the adapter */
            found.dropout = tune->dropout;
    }
    *lora = (struct cadre_lora_config){
        .rank = found.rank,
        .targets = found.targets,
        .alpha = found.alpha,
        .rslora = found.rslora,
        .scale = found.alpha /
                 (found.rslora ? sqrt((double)found.rank) : (double)found.rank),
        .dropout = found.dropout,
        .seed = (uint64_t)config->run.seed,
    };
    return CADRE_OK;
}
