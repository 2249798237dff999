/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/hardware_private.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/ini.h"
#include "core/config/nearest.h"

static const char *const dtypes[] = {
    [CADRE_PLAN_FP32] = "fp32", [CADRE_PLAN_FP16] = "fp16", [CADRE_PLAN_BF16] = "bf16",
    [CADRE_PLAN_FP8] = "fp8",   [CADRE_PLAN_FP64] = "fp64",
};

const char *cadre_plan_dtype_name(enum cadre_plan_dtype dtype)
{
    return dtypes[dtype];
}

int cadre_plan_dtype_find(const char *name)
{
    for (int i = 0; i < CADRE_PLAN_DTYPES; i++)
        if (strcasecmp(dtypes[i], name) == 0)
            return i;
    return -1;
}

const struct cadre_hardware_key cadre_hardware_keys[] = {
#define F(name) offsetof(struct cadre_hardware, name)
    {"hardware", "name", CADRE_HARDWARE_TEXT, F(name), 0, 0, false, true},
    {"hardware", "extends", CADRE_HARDWARE_SAID, 0, 0, 0, false, false},
    {"hardware", "accounting", CADRE_HARDWARE_ACCOUNTING, F(accounting), 0, 0, false,
     true},
    {"device", "peak_fp32_tflops", CADRE_HARDWARE_NUMBER,
     F(device.peak_tflops[CADRE_PLAN_FP32]), 0, 1e6, false, false},
    {"device", "peak_fp16_tflops", CADRE_HARDWARE_NUMBER,
     F(device.peak_tflops[CADRE_PLAN_FP16]), 0, 1e6, false, false},
    {"device", "peak_bf16_tflops", CADRE_HARDWARE_NUMBER,
     F(device.peak_tflops[CADRE_PLAN_BF16]), 0, 1e6, false, true},
    {"device", "peak_fp8_tflops", CADRE_HARDWARE_NUMBER,
     F(device.peak_tflops[CADRE_PLAN_FP8]), 0, 1e6, false, false},
    {"device", "peak_fp64_tflops", CADRE_HARDWARE_NUMBER,
     F(device.peak_tflops[CADRE_PLAN_FP64]), 0, 1e6, false, false},
    {"device", "price_per_hour", CADRE_HARDWARE_NUMBER, F(device.price_per_hour), 0,
     1e6, true, false},
    {"device", "memory_gib", CADRE_HARDWARE_NUMBER, F(device.memory_gib), 0, 1e6, false,
     true},
    {"device", "reserve_gib", CADRE_HARDWARE_NUMBER, F(device.reserve_gib), 0, 1e6,
     true, false},
    {"device", "memory_gb_s", CADRE_HARDWARE_NUMBER, F(device.memory_gb_s), 0, 1e6,
     false, true},
    {"device", "update_gb_s", CADRE_HARDWARE_NUMBER, F(device.update_gb_s), 0, 1e6,
     false, false},
    {"device", "op_us", CADRE_HARDWARE_NUMBER, F(device.op_us), 0, 1e6, true, false},
    {"device", "memory_efficiency", CADRE_HARDWARE_NUMBER, F(device.memory_efficiency),
     0, 1, false, true},
    {"device", "product_efficiency", CADRE_HARDWARE_NUMBER,
     F(device.product_efficiency), 0, 1, false, true},
    {"device", "product_half_gflop", CADRE_HARDWARE_NUMBER,
     F(device.product_half_gflop), 0, 1e6, true, true},
    {"device", "product_efficiency_fp8", CADRE_HARDWARE_NUMBER,
     F(device.product_efficiency_fp8), 0, 1, false, false},
    {"device", "alone_speedup", CADRE_HARDWARE_NUMBER, F(device.alone_speedup), 0, 16,
     false, false},
    {"device", "attention_efficiency", CADRE_HARDWARE_NUMBER,
     F(device.attention_efficiency), 0, 1, false, true},
    {"device", "attention", CADRE_HARDWARE_ATTENTION, F(device.attention_fused), 0, 0,
     false, true},
    {"node", "devices", CADRE_HARDWARE_COUNT, F(node_devices), 0, 1e6, false, true},
    {"link:node", "bandwidth_gb_s", CADRE_HARDWARE_NUMBER, F(node.bandwidth_gb_s), 0,
     1e6, false, true},
    {"link:node", "latency_us", CADRE_HARDWARE_NUMBER, F(node.latency_us), 0, 1e6, true,
     true},
    {"link:node", "efficiency", CADRE_HARDWARE_NUMBER, F(node.efficiency), 0, 1, false,
     true},
    {"link:cluster", "bandwidth_gb_s", CADRE_HARDWARE_NUMBER, F(cluster.bandwidth_gb_s),
     0, 1e6, false, true},
    {"link:cluster", "latency_us", CADRE_HARDWARE_NUMBER, F(cluster.latency_us), 0, 1e6,
     true, true},
    {"link:cluster", "efficiency", CADRE_HARDWARE_NUMBER, F(cluster.efficiency), 0, 1,
     false, true},
    {"software", "sequence_parallel", CADRE_HARDWARE_SWITCH,
     F(software.sequence_parallel), 0, 0, false, false},
    {"software", "overlap_tensor", CADRE_HARDWARE_NUMBER, F(software.overlap_tensor), 0,
     1, true, false},
    {"software", "overlap_pipeline", CADRE_HARDWARE_NUMBER,
     F(software.overlap_pipeline), 0, 1, true, false},
    {"software", "pipeline_beside", CADRE_HARDWARE_SWITCH, F(software.pipeline_beside),
     0, 0, false, false},
    {"software", "overlap_data", CADRE_HARDWARE_NUMBER, F(software.overlap_data), 0, 1,
     true, false},
    {"software", "overlap_gather", CADRE_HARDWARE_NUMBER, F(software.overlap_gather), 0,
     1, true, false},
    {"software", "gather_gb_s", CADRE_HARDWARE_NUMBER, F(software.gather_gb_s), 0, 1e6,
     false, false},
    {"software", "straggle", CADRE_HARDWARE_NUMBER, F(software.straggle), 0, 1, true,
     false},
    {"software", "gradient_bytes", CADRE_HARDWARE_NUMBER, F(software.gradient_bytes), 0,
     8, false, false},
#undef F
};
const int cadre_hardware_keys_n =
    (int)(sizeof cadre_hardware_keys / sizeof cadre_hardware_keys[0]);
enum { KEYS = sizeof cadre_hardware_keys / sizeof cadre_hardware_keys[0] };

static const struct cadre_hardware_key *find(const struct cadre_ini_entry *entry)
{
    for (const struct cadre_hardware_key *k = cadre_hardware_keys;
         k < cadre_hardware_keys + KEYS; k++)
        if (strcmp(k->section, entry->section) == 0 && strcmp(k->key, entry->key) == 0)
            return k;
    return NULL;
}

/* A name that holds section and key, so that the nearest of both is found. */
static cadre_status unknown(const char *path, const struct cadre_ini_entry *entry,
                            struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    for (const struct cadre_hardware_key *k = cadre_hardware_keys;
         k < cadre_hardware_keys + KEYS; k++)
        if (strcmp(k->section, entry->section) == 0)
            cadre_nearest_offer(&nearest, entry->key, k->key);
    return cadre_fail(err, CADRE_E_INVALID,
                      "%s:%d: unknown key '%s' of [%s]%s%s%s; docs/planning.md lists "
                      "what a hardware file has",
                      path, entry->line, entry->key, entry->section,
                      nearest.name ? ", did you mean '" : "",
                      nearest.name ? nearest.name : "", nearest.name ? "'" : "");
}

static int word_of(const char *value, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], value) == 0)
            return i;
    return -1;
}

static cadre_status take_word(void *at, const struct cadre_hardware_key *k,
                              const char *path, const struct cadre_ini_entry *entry,
                              struct cadre_error *err)
{
    static const char *const accountings[] = {"cadre", "megatron", "zero2019", NULL};
    static const char *const switches[] = {"no", "yes", NULL};
    static const char *const attentions[] = {"unfused", "fused", NULL};
    const char *const *words = k->value == CADRE_HARDWARE_ACCOUNTING ? accountings
                               : k->value == CADRE_HARDWARE_SWITCH   ? switches
                                                                     : attentions;
    const int word = word_of(entry->value, words);
    if (word < 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s:%d: %s.%s is '%s', expected %s, %s%s%s", path,
                          entry->line, k->section, k->key, entry->value, words[0],
                          words[1], words[2] ? " or " : "", words[2] ? words[2] : "");
    if (k->value == CADRE_HARDWARE_ACCOUNTING)
        *(enum cadre_accounting *)at = (enum cadre_accounting)word;
    else
        *(bool *)at = word == 1;
    return CADRE_OK;
}

static cadre_status take_number(void *at, const struct cadre_hardware_key *k,
                                const char *path, const struct cadre_ini_entry *entry,
                                struct cadre_error *err)
{
    char *end;
    const double value = strtod(entry->value, &end);
    const bool number = end != entry->value && !*end && isfinite(value);
    const bool whole = k->value != CADRE_HARDWARE_COUNT || value == floor(value);
    const bool inside = number && value <= k->most &&
                        (k->closed ? value >= k->least : value > k->least);
    if (!number || !whole || !inside)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s:%d: %s.%s is '%s', expected a %snumber %s %g and at most "
                          "%g",
                          path, entry->line, k->section, k->key, entry->value,
                          k->value == CADRE_HARDWARE_COUNT ? "whole " : "",
                          k->closed ? "of at least" : "above", k->least, k->most);
    if (k->value == CADRE_HARDWARE_COUNT)
        *(int64_t *)at = (int64_t)value;
    else
        *(double *)at = value;
    return CADRE_OK;
}

static cadre_status take(struct cadre_hardware *hw, bool *given, const char *path,
                         const struct cadre_ini_entry *entry, struct cadre_error *err)
{
    const struct cadre_hardware_key *k = find(entry);
    if (!k)
        return unknown(path, entry, err);
    void *at = (char *)hw + k->field;
    given[k - cadre_hardware_keys] = true;
    switch (k->value) {
    case CADRE_HARDWARE_SAID:
        return CADRE_OK;
    case CADRE_HARDWARE_TEXT:
        if (strlen(entry->value) >= sizeof hw->name)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s:%d: a name of more than %zu bytes", path, entry->line,
                              sizeof hw->name - 1);
        memcpy(at, entry->value, strlen(entry->value) + 1);
        return CADRE_OK;
    case CADRE_HARDWARE_NUMBER:
    case CADRE_HARDWARE_COUNT:
        return take_number(at, k, path, entry, err);
    default:
        return take_word(at, k, path, entry, err);
    }
}

static cadre_status read_file(struct cadre_hardware *hw, bool *given, const char *path,
                              int depth, struct cadre_error *err);

static cadre_status read_parent(struct cadre_hardware *hw, bool *given,
                                const char *path, const struct cadre_ini_entry *entry,
                                int depth, struct cadre_error *err)
{
    if (depth > 4)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s:%d: hardware.extends goes on for more than 4 files", path,
                          entry->line);
    char *dir = cadre_path_dirname(path);
    char *parent = dir ? cadre_path_join(dir, entry->value) : NULL;
    cadre_status rc = parent ? read_file(hw, given, parent, depth + 1, err)
                             : cadre_no_memory(err, "a path");
    free(parent);
    free(dir);
    return rc;
}

static cadre_status read_file(struct cadre_hardware *hw, bool *given, const char *path,
                              int depth, struct cadre_error *err)
{
    struct cadre_ini ini;
    cadre_status rc = cadre_ini_load(&ini, path, err);
    if (rc != CADRE_OK)
        return cadre_error_of_input(rc, err);
    for (size_t i = 0; i < ini.n && rc == CADRE_OK; i++) {
        const struct cadre_ini_entry *e = &ini.entries[i];
        if (e->key && strcmp(e->section, "hardware") == 0 &&
            strcmp(e->key, "extends") == 0)
            rc = read_parent(hw, given, path, e, depth, err);
    }
    for (size_t i = 0; i < ini.n && rc == CADRE_OK; i++)
        if (ini.entries[i].key)
            rc = take(hw, given, path, &ini.entries[i], err);
    cadre_ini_fini(&ini);
    return rc;
}

cadre_status cadre_hardware_load(struct cadre_hardware *hw, const char *path,
                                 struct cadre_error *err)
{
    struct cadre_hardware read = {.device.alone_speedup = 1,
                                  .software.gradient_bytes = 4};
    bool given[KEYS] = {false};
    CADRE_TRY(read_file(&read, given, path, 0, err));
    for (int i = 0; i < KEYS; i++)
        if (cadre_hardware_keys[i].needed && !given[i])
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: no %s in [%s]; docs/planning.md says what a "
                              "hardware file must have",
                              path, cadre_hardware_keys[i].key,
                              cadre_hardware_keys[i].section);
    if (read.device.product_efficiency_fp8 == 0)
        read.device.product_efficiency_fp8 = read.device.product_efficiency;
    if (read.device.reserve_gib >= read.device.memory_gib)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: reserve_gib is %g of memory_gib = %g, nothing is left",
                          path, read.device.reserve_gib, read.device.memory_gib);
    *hw = read;
    return CADRE_OK;
}

struct cadre_hardware cadre_hardware_alone(const struct cadre_hardware *hw)
{
    struct cadre_hardware alone = *hw;
    const double given = hw->device.alone_speedup, times = given > 0 ? given : 1;
    for (int i = 0; i < CADRE_PLAN_DTYPES; i++)
        alone.device.peak_tflops[i] *= times;
    alone.device.memory_gb_s *= times;
    alone.device.update_gb_s *= times;
    alone.device.op_us /= times;
    alone.device.alone_speedup = 1;
    return alone;
}
