/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/merge.h"
#include "core/checkpoint/format/hf.h"
#include "core/tensor/nf4.h"
#include "core/tune/modules.h"
#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of tests/samples/lora/make.py. */
static struct cadre_model_config sample_model(enum cadre_arch arch)
{
    const bool llama = arch == CADRE_ARCH_LLAMA;
    struct cadre_model_config config = {
        .arch = arch,
        .layers = 2,
        .channels = 16,
        .heads = 4,
        .kv_heads = llama ? 2 : 4,
        .hidden = llama ? 24 : 64,
        .context = 16,
        .vocab = 256,
        .tied = true,
        .norm_eps = 1e-5,
        .rotary = {.theta = 10000},
        .dtype = CADRE_F64,
        .lora = {.rank = 4, .scale = llama ? 3 : 2},
    };
    ck_assert_int_eq(cadre_modules_parse(arch, llama ? "q, v, gate, down" : "all",
                                         &config.lora.targets, NULL),
                     CADRE_OK);
    return config;
}

/* Of a QLoRA: matrices of blocks as they are decoded from nf4. */
static bool round_weights;

static void round_nf4(const struct cadre_model *model, uint32_t param, double *values)
{
    const struct cadre_param *p = &model->params[param];
    const uint64_t count = cadre_shape_count(&p->shape);
    if (!round_weights || p->adapts >= 0 || !cadre_model_is_block_matrix(model, param))
        return;
    float *x = malloc(count * sizeof *x);
    for (uint64_t i = 0; i < count; i++)
        x[i] = (float)values[i];
    ck_assert(cadre_nf4_round(x, count));
    for (uint64_t i = 0; i < count; i++)
        values[i] = (double)x[i];
    free(x);
}

static void fill(struct test_trainer *t, const char *base, const char *adapter)
{
    struct cadre_hf *hf[2] = {NULL, NULL};
    ck_assert_int_eq(cadre_hf_open(base, &hf[0], NULL), CADRE_OK);
    if (adapter)
        ck_assert_int_eq(cadre_hf_open(adapter, &hf[1], NULL), CADRE_OK);
    for (uint32_t i = 0; i < t->model->n_params; i++) {
        const struct cadre_param *p = &t->model->params[i];
        struct cadre_error err;
        if (p->tied_to < 0)
            ck_assert_int_eq(cadre_hf_read(hf[p->adapts >= 0], p->name, 0,
                                           cadre_shape_count(&p->shape), CADRE_F64,
                                           t->masters[i], &err),
                             CADRE_OK);
        if (p->tied_to < 0)
            round_nf4(t->model, i, t->masters[i]);
    }
    cadre_hf_close(hf[0]);
    cadre_hf_close(hf[1]);
}

/* The logits of the first 16 bytes of the text; the caller frees them. */
static double *logits_of(const struct cadre_model_config *config, const char *base,
                         const char *adapter)
{
    struct test_trainer t;
    uint8_t *text = test_file_read(test_sample("text/alice29.txt"), NULL);
    test_trainer_open(&t, config, 0, 1, 1, 16);
    fill(&t, base, adapter);
    for (int i = 0; i < 16; i++) {
        t.tokens[i] = text[i];
        t.targets[i] = text[i + 1];
    }
    test_trainer_forward(&t, 1, 16);
    double *logits =
        test_trainer_fetch(&t, test_trainer_logits(&t), 16 * 256 * sizeof *logits);
    test_trainer_close(&t);
    free(text);
    return logits;
}

/* Largest difference from PEFT's logits, relative to the largest of them. */
static double golden_error(const char *name, const double *logits)
{
    char *text = test_file_read(test_sample("lora/golden.tsv"), NULL);
    double worst = 0, most = 0;
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char form[16], kind[16], value[64];
        int at;
        ck_assert_int_eq(sscanf(line, "%15s %15s %d %63s", form, kind, &at, value), 4);
        if (strcmp(form, name) != 0 || strcmp(kind, "logits") != 0)
            continue;
        const double wanted = strtod(value, NULL);
        worst = fmax(worst, fabs(logits[at] - wanted));
        most = fmax(most, fabs(wanted));
        n++;
    }
    free(text);
    ck_assert_int_eq(n, 41);
    return worst / most;
}

/* With the adapter beside the weights, and in them. */
START_TEST(logits_of_peft)
{
    const char *name = _i ? "llama" : "gpt2";
    const struct cadre_model_config config =
        sample_model(_i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2);
    struct cadre_model_config alone = config;
    char base[32], adapter[64], tensors[128], out[512], *dir = test_tmpdir();
    snprintf(base, sizeof base, "lora/%s", name);
    snprintf(adapter, sizeof adapter, "lora/%s-adapter", name);
    snprintf(tensors, sizeof tensors, "%s/adapter_model.safetensors", adapter);
    snprintf(out, sizeof out, "%s/merged", dir);
    double *logits = logits_of(&config, test_sample(base), test_sample(tensors));
    double error = golden_error(name, logits);
    printf("%s with its adapter: logits differ from PEFT's by %.2g\n", name, error);
    ck_assert_double_lt(error, 1e-12);
    free(logits);

    struct cadre_merge merge = {.model = &config,
                                .init = test_sample(base),
                                .adapter = test_sample(adapter),
                                .out = out};
    struct cadre_error err;
    ck_assert_msg(cadre_merge(&merge, &err) == CADRE_OK, "%s", err.text);
    alone.lora = (struct cadre_lora_config){0};
    logits = logits_of(&alone, out, NULL);
    error = golden_error(name, logits);
    printf("%s merged: logits differ from PEFT's by %.2g\n", name, error);
    ck_assert_double_lt(error, 1e-12);
    free(logits);
    ck_assert_int_eq(cadre_merge(&merge, &err), CADRE_E_INVALID);
    ck_assert(strstr(err.text, "is not empty"));
    test_tmpdir_destroy(dir);
}
END_TEST

/* The logits in fp64 of a model of either dtype. */
static double *wide_logits(const struct cadre_model_config *config, const char *base,
                           const char *adapter, bool nf4)
{
    struct cadre_model_config wide = *config;
    wide.dtype = CADRE_F64;
    round_weights = nf4;
    double *logits = logits_of(&wide, base, adapter);
    round_weights = false;
    return logits;
}

static double largest_difference(const double *a, const double *b)
{
    double worst = 0;
    for (int i = 0; i < 16 * 256; i++)
        worst = fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

/* Merged in fp32 and loaded again: of LoRA, and of QLoRA beside decoded matrices. */
START_TEST(merged_reloads_within_1e4)
{
    const bool llama = _i % 2, nf4 = _i / 2;
    const char *name = llama ? "llama" : "gpt2";
    struct cadre_model_config config =
        sample_model(llama ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2);
    char base[32], adapter[64], tensors[128], out[512], *dir = test_tmpdir();
    struct cadre_error err;
    snprintf(base, sizeof base, "lora/%s", name);
    snprintf(adapter, sizeof adapter, "lora/%s-adapter", name);
    snprintf(tensors, sizeof tensors, "%s/adapter_model.safetensors", adapter);
    snprintf(out, sizeof out, "%s/merged", dir);
    config.dtype = CADRE_F32;
    const struct cadre_merge merge = {.model = &config,
                                      .init = test_sample(base),
                                      .nf4 = nf4,
                                      .adapter = test_sample(adapter),
                                      .out = out};
    ck_assert_msg(cadre_merge(&merge, &err) == CADRE_OK, "%s", err.text);
    double *beside = wide_logits(&config, test_sample(base), test_sample(tensors), nf4);
    config.lora = (struct cadre_lora_config){0};
    double *merged = wide_logits(&config, out, NULL, false);
    double *plain = wide_logits(&config, test_sample(base), NULL, false);
    printf("%s%s merged in fp32: logits differ by %.2g\n", name, nf4 ? " in nf4" : "",
           largest_difference(beside, merged));
    ck_assert_double_le(largest_difference(beside, merged), 1e-4);
    ck_assert_double_gt(largest_difference(plain, merged), 1e-2);
    free(beside);
    free(merged);
    free(plain);
    test_tmpdir_destroy(dir);
}
END_TEST

/* Rounded by qat: the logits of training, to the bit, if tokens alone are rounded. */
START_TEST(rounded_has_the_logits_of_qat)
{
    struct cadre_model_config config =
        sample_model(_i ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2);
    const char *base = test_sample(_i ? "lora/llama" : "lora/gpt2");
    char out[512], *dir = test_tmpdir();
    struct cadre_error err;
    snprintf(out, sizeof out, "%s/int4", dir);
    config.lora = (struct cadre_lora_config){0};
    config.qat.group = 6;
    const struct cadre_merge merge = {
        .model = &config, .init = base, .adapter = "", .out = out};
    ck_assert_msg(cadre_merge(&merge, &err) == CADRE_OK, "%s", err.text);
    double *qat = logits_of(&config, base, NULL);
    double *twice = logits_of(&config, out, NULL);
    config.qat.stored = true;
    double *rounded = logits_of(&config, out, NULL);
    ck_assert_mem_eq(qat, rounded, 16 * 256 * sizeof *qat);
    ck_assert_double_gt(largest_difference(qat, twice), 1e-3);
    free(qat);
    free(twice);
    free(rounded);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(other_models)
{
    struct cadre_model_config config = sample_model(CADRE_ARCH_LLAMA);
    struct cadre_error err;
    char out[512], *dir = test_tmpdir();
    snprintf(out, sizeof out, "%s/merged", dir);
    struct cadre_merge merge = {.model = &config,
                                .init = test_sample("lora/gpt2"),
                                .adapter = test_sample("lora/llama-adapter"),
                                .out = out};
    ck_assert_int_eq(cadre_merge(&merge, &err), CADRE_E_INVALID);
    merge.init = test_sample("lora/llama");
    merge.adapter = test_sample("lora/gpt2-adapter");
    ck_assert_int_eq(cadre_merge(&merge, &err), CADRE_E_INVALID);
    /* targets that the folder has more of would be lost */
    merge.adapter = test_sample("lora/llama-adapter");
    ck_assert_int_eq(
        cadre_modules_parse(CADRE_ARCH_LLAMA, "q, v", &config.lora.targets, NULL),
        CADRE_OK);
    ck_assert_int_eq(cadre_merge(&merge, &err), CADRE_E_INVALID);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("merge");
    TCase *tc = tcase_create("merge");
    tcase_add_loop_test(tc, logits_of_peft, 0, 2);
    tcase_add_loop_test(tc, merged_reloads_within_1e4, 0, 4);
    tcase_add_loop_test(tc, rounded_has_the_logits_of_qat, 0, 2);
    tcase_add_test(tc, other_models);
    suite_add_tcase(s, tc);
    return s;
}
