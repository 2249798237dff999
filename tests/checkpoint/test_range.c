/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/checkpoint/range.h"
#include "tests/support/check_main.h"

/* ---- the sink ---- */

struct taken {
    int n;
    const char *refused; /* the name at which the visit fails */
};

static cadre_status take(void *arg, const struct cadre_range *range,
                         struct cadre_error *err)
{
    struct taken *taken = arg;
    taken->n++;
    if (taken->refused && strcmp(range->name, taken->refused) == 0)
        return cadre_fail(err, CADRE_E_IO, "no room for %s", range->name);
    return CADRE_OK;
}

START_TEST(a_sink_keeps_the_first_failure)
{
    static const struct cadre_range ranges[] = {
        {.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "b"}};
    struct cadre_error err = {0};
    struct taken taken = {.refused = "b"};
    struct cadre_range_sink sink = {.visit = take, .arg = &taken, .err = &err};
    for (int i = 0; i < 4; i++)
        cadre_range_give(&sink, &ranges[i]);
    ck_assert_int_eq(taken.n, 2);
    ck_assert_int_eq(sink.rc, CADRE_E_IO);
    ck_assert_str_eq(err.text, "no room for b");
}
END_TEST

START_TEST(a_sink_that_failed_takes_nothing)
{
    static const struct cadre_range range = {.name = "a"};
    struct taken taken = {0};
    struct cadre_range_sink sink = {.visit = take, .arg = &taken};
    sink.rc = CADRE_E_RESOURCE;
    cadre_range_give(&sink, &range);
    ck_assert_int_eq(taken.n, 0);
    ck_assert_int_eq(sink.rc, CADRE_E_RESOURCE);
}
END_TEST

/* ---- values ---- */

START_TEST(scaling_rounds_once)
{
    float f32[] = {1, 3, -0x1.fffffep127f};
    double f64[] = {1, 3, 7};
    cadre_range_scale(f32, CADRE_F32, 3, 1, 3);
    ck_assert(f32[0] == 1.0f / 3 && f32[1] == 1 && f32[2] == -0x1.fffffep127f / 3);
    f32[0] = 5;
    cadre_range_scale(f32, CADRE_F32, 1, 1.0 / 3, 1);
    ck_assert(f32[0] == (float)(5 * (1.0 / 3)));
    cadre_range_scale(f64, CADRE_F64, 3, 1, 7);
    ck_assert(f64[0] == 1.0 / 7 && f64[1] == 3.0 / 7 && f64[2] == 1);
}
END_TEST

START_TEST(what_is_on_the_host_is_copied)
{
    static const float data[] = {1, 2, 3};
    const struct cadre_range range = {.count = 2, .data = data + 1, .on_host = true};
    const struct cadre_rank rank = {.store = {.wide_bytes = sizeof *data}};
    float got[] = {0, 0, 9};
    ck_assert_int_eq(cadre_range_fetch(&rank, &range, got, NULL), CADRE_OK);
    ck_assert(got[0] == 2 && got[1] == 3 && got[2] == 9);
}
END_TEST

/* ---- the model's tensors ---- */

START_TEST(a_tied_head_is_no_tensor)
{
    const struct cadre_model_config config = {.arch = CADRE_ARCH_GPT2,
                                              .layers = 1,
                                              .channels = 8,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .hidden = 32,
                                              .context = 4,
                                              .vocab = 11,
                                              .tied = true,
                                              .norm_eps = 1e-5,
                                              .dtype = CADRE_BF16};
    struct cadre_model *model = NULL;
    struct cadre_error err = {0};
    size_t n = 0;
    cadre_status rc = cadre_model_create(&config, 0, 1, &model, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    struct cadre_safetensors_spec *tensors =
        cadre_range_tensors(model, false, &n, &err);
    ck_assert_ptr_nonnull(tensors);
    ck_assert_uint_eq(n, model->n_params - 1);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(tensors[i].dtype, CADRE_F32);
    ck_assert_str_eq(tensors[0].name, "transformer.wte.weight");
    ck_assert(tensors[0].ndim == 2 && tensors[0].dim[0] == 11 &&
              tensors[0].dim[1] == 8);
    free(tensors);
    cadre_model_destroy(model);
}
END_TEST

START_TEST(optimizers_keep_so_many_moments)
{
    struct cadre_run_spec run = {.optim = {.kind = CADRE_OPTIMIZER_ADAMW}};
    ck_assert_int_eq(cadre_range_moments(&run), 2);
    run.optim.kind = CADRE_OPTIMIZER_SGD;
    ck_assert_int_eq(cadre_range_moments(&run), 0);
    run.optim.momentum = 0.9;
    ck_assert_int_eq(cadre_range_moments(&run), 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("range");
    TCase *tc = tcase_create("range");
    tcase_add_test(tc, a_sink_keeps_the_first_failure);
    tcase_add_test(tc, a_sink_that_failed_takes_nothing);
    tcase_add_test(tc, scaling_rounds_once);
    tcase_add_test(tc, what_is_on_the_host_is_copied);
    tcase_add_test(tc, a_tied_head_is_no_tensor);
    tcase_add_test(tc, optimizers_keep_so_many_moments);
    suite_add_tcase(s, tc);
    return s;
}
