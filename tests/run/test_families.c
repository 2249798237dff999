/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of each family of Hugging Face, taken through model.init, against what
 * transformers computes with them in fp64 (tests/samples/families/make.py). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/hf.h"
#include "core/run/spec.h"
#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

#define LIMIT 1e-12

static const char *const families[] = {
    "gpt2", "llama2", "llama3", "llama-linear", "mistral", "qwen2", "qwen3",
};
#define FAMILIES ((int)(sizeof families / sizeof *families))

static struct cadre_error err;

static struct cadre_spec *make_spec(const char *folder)
{
    const struct cadre_spec_request request = {.name = "x"};
    struct cadre_options *options;
    struct cadre_spec *spec = NULL;
    char *init = cadre_format("model.init=%s", folder);
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_set(options, init, "command line", &err), CADRE_OK);
    cadre_options_set(options, "train.precision=fp64", "command line", NULL);
    ck_assert_msg(cadre_spec_create(options, &request, &spec, &err) == CADRE_OK, "%s",
                  err.text);
    free(init);
    return spec;
}

static void load(struct test_trainer *t, const char *folder)
{
    struct cadre_hf *hf = NULL;
    ck_assert_msg(cadre_hf_open(folder, &hf, &err) == CADRE_OK, "%s", err.text);
    for (uint32_t i = 0; i < t->model->n_params; i++) {
        const struct cadre_param *p = &t->model->params[i];
        if (p->tied_to >= 0)
            continue;
        ck_assert_msg(cadre_hf_read(hf, p->name, 0, cadre_shape_count(&p->shape),
                                    CADRE_F64, t->values[i], &err) == CADRE_OK,
                      "%s", err.text);
    }
    cadre_hf_close(hf);
}

static int32_t token_at(const json_t *tokens, int64_t b, int64_t i)
{
    return (int32_t)json_integer_value(
        json_array_get(json_array_get(tokens, (size_t)b), (size_t)i));
}

/* The last position of each row, every eighth class. */
static double worst_logit(const struct test_trainer *t, const json_t *rows)
{
    const double *logits = test_trainer_logits(t);
    double worst = 0;
    for (int64_t b = 0; b < t->B; b++) {
        const json_t *row = json_array_get(rows, (size_t)b);
        ck_assert_uint_eq(json_array_size(row), 32);
        for (size_t i = 0; i < 32; i++) {
            const double got = logits[((b + 1) * t->T - 1) * 256 + (int64_t)i * 8];
            const double want = json_number_value(json_array_get(row, i));
            worst = fmax(worst, fabs(got - want) / fmax(1, fabs(want)));
        }
    }
    return worst;
}

START_TEST(a_family_computes_what_transformers_does)
{
    char *sample = cadre_format("families/%s", families[_i]);
    const char *folder = test_sample(sample);
    char *path = cadre_format("%s/golden.json", folder);
    json_t *golden = json_load_file(path, 0, NULL);
    ck_assert_ptr_nonnull(golden);
    const json_t *tokens = json_object_get(golden, "tokens");
    const int64_t B = (int64_t)json_array_size(tokens);
    const int64_t T = (int64_t)json_array_size(json_array_get(tokens, 0)) - 1;
    struct cadre_spec *spec = make_spec(folder);
    struct test_trainer t = {0};
    test_trainer_open(&t, &spec->run.model, 0, 1, B, T);
    load(&t, folder);
    for (int64_t i = 0; i < B * T; i++) {
        t.tokens[i] = token_at(tokens, i / T, i % T);
        t.targets[i] = token_at(tokens, i / T, i % T + 1);
    }
    const double want = json_number_value(json_object_get(golden, "loss"));
    const double loss = fabs(test_trainer_forward(&t, B, T) / want - 1);
    const double logits = worst_logit(&t, json_object_get(golden, "logits"));
    test_trainer_backward(&t, false);
    const double norm = test_trainer_grad_norm(&t) /
                        json_number_value(json_object_get(golden, "grad_norm"));
    printf("%s: loss %.2g, logits %.2g, norm of the gradient %.2g\n", families[_i],
           loss, logits, fabs(norm - 1));
    fflush(stdout);
    ck_assert_double_le(loss, LIMIT);
    ck_assert_double_le(logits, LIMIT);
    ck_assert_double_le(fabs(norm - 1), LIMIT);
    test_trainer_close(&t);
    cadre_spec_destroy(spec);
    json_decref(golden);
    free(path);
    free(sample);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("families");
    TCase *tc = tcase_create("families");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_family_computes_what_transformers_does, 0, FAMILIES);
    suite_add_tcase(suite, tc);
    return suite;
}
