/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/int4_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "tests/support/check_main.h"

enum { GROUP = 6 };

static struct cadre_model *model_of(enum cadre_arch arch, uint32_t dtype)
{
    const struct cadre_model_config config = {
        .arch = arch,
        .layers = 1,
        .channels = 16,
        .heads = 2,
        .kv_heads = 2,
        .hidden = 20,
        .context = 8,
        .vocab = 32,
        .norm_eps = 1e-5,
        .rotary = {.theta = 10000},
        .dtype = dtype,
        .qat = {.group = GROUP},
    };
    struct cadre_model *model;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, NULL), CADRE_OK);
    return model;
}

static void read_all(const struct cadre_safetensors *file, const char *weight,
                     const char *kind, uint32_t dtype, void *out, uint64_t *count)
{
    char name[128];
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(weight) - 6), weight, kind);
    const ptrdiff_t at = cadre_safetensors_find(file, name);
    ck_assert_msg(at >= 0, "no %s", name);
    const struct cadre_safetensors_tensor *tensor =
        cadre_safetensors_at(file, (size_t)at);
    *count = tensor->count;
    ck_assert_uint_eq(tensor->dtype, dtype);
    ck_assert_int_eq(
        cadre_safetensors_read(file, (size_t)at, 0, tensor->count, dtype, out, NULL),
        CADRE_OK);
}

/* Codes times scales are the values that are left, in the model's own layout, and those
 * are what the op of training makes. */
START_TEST(codes_times_scales)
{
    const bool gpt2 = _i % 2, wide = _i / 2;
    struct cadre_model *model = model_of(gpt2 ? CADRE_ARCH_GPT2 : CADRE_ARCH_LLAMA,
                                         wide ? CADRE_F64 : CADRE_F32);
    const uint32_t weight =
        (uint32_t)cadre_model_find(model, gpt2 ? "transformer.h.0.mlp.c_proj.weight"
                                               : "model.layers.0.mlp.down_proj.weight");
    const int64_t in = 20, out = 16, groups = 4;
    struct cadre_device *device = NULL;
    const struct cadre_device_config cpu = {.kind = "cpu", .threads = 1};
    struct cadre_safetensors *file = NULL;
    double data[320];
    float single[320], values[320], scales[64], zeros[64];
    int8_t codes[320];
    uint64_t n;
    char *dir = test_tmpdir();
    for (int i = 0; i < 320; i++) {
        single[i] = sinf((float)(i * i + 1));
        data[i] = (double)single[i];
    }
    ck_assert_int_eq(cadre_device_open(&cpu, &device, NULL), CADRE_OK);
    const struct cadre_fake_quantize fake = {.dtype = CADRE_F32,
                                             .rows = gpt2 ? in : out,
                                             .columns = gpt2 ? out : in,
                                             .group = GROUP,
                                             .down = gpt2,
                                             .x = single,
                                             .y = values};
    ck_assert_int_eq(device->ops->fake_quantize(device, &fake), CADRE_OK);
    cadre_device_close(device);

    ck_assert_int_eq(cadre_int4_file_create(dir, model, &file, NULL), CADRE_OK);
    void *given = wide ? (void *)data : (void *)single;
    ck_assert_int_eq(cadre_int4_file_put(file, model, weight, CADRE_F32, given, NULL),
                     CADRE_OK);
    const char *name = model->params[weight].name;
    read_all(file, name, "weight", CADRE_I8, codes, &n);
    ck_assert_uint_eq(n, 320);
    read_all(file, name, "scales", CADRE_F32, scales, &n);
    ck_assert_uint_eq(n, 64);
    read_all(file, name, "zeros", CADRE_F32, zeros, &n);
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++) {
            const int64_t at = gpt2 ? i * out + o : o * in + i;
            const int64_t g = gpt2 ? i / GROUP * out + o : o * groups + i / GROUP;
            const float left = wide ? (float)data[at] : single[at];
            ck_assert_float_eq(left, values[at]);
            ck_assert_float_eq(left, (float)codes[at] * scales[g]);
            ck_assert(codes[at] >= -8 && codes[at] <= 7 && zeros[g] == 0);
        }
    cadre_safetensors_close(file);
    cadre_model_destroy(model);
    test_tmpdir_destroy(dir);
}
END_TEST

/* Of a run in bf16: what bf16 has not is rounded away first. */
START_TEST(rounded_to_the_dtype_of_training)
{
    struct cadre_model *model = model_of(CADRE_ARCH_LLAMA, CADRE_F32);
    const uint32_t weight =
        (uint32_t)cadre_model_find(model, "model.layers.0.self_attn.q_proj.weight");
    struct cadre_safetensors *file = NULL;
    struct cadre_error err;
    float rough[256], fine[256];
    char *dir = test_tmpdir();
    for (int i = 0; i < 256; i++) {
        rough[i] = (float)(i - 100) / 128;
        fine[i] = rough[i] * (1 + 0x1p-11F);
    }
    ck_assert_int_eq(cadre_int4_file_create(dir, model, &file, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_int4_file_put(file, model, weight, CADRE_BF16, rough, NULL),
                     CADRE_OK);
    ck_assert_int_eq(cadre_int4_file_put(file, model, weight, CADRE_BF16, fine, NULL),
                     CADRE_OK);
    ck_assert_mem_eq(rough, fine, sizeof rough);
    fine[7] = INFINITY;
    ck_assert_int_eq(cadre_int4_file_put(file, model, weight, CADRE_F32, fine, &err),
                     CADRE_E_INVALID);
    ck_assert(strstr(err.text, "q_proj.weight' has a value that is not finite"));
    cadre_safetensors_close(file);
    ck_assert_int_ne(cadre_int4_file_create("/nowhere", model, &file, &err), CADRE_OK);
    cadre_model_destroy(model);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("int4_file");
    TCase *tc = tcase_create("int4_file");
    tcase_add_loop_test(tc, codes_times_scales, 0, 4);
    tcase_add_test(tc, rounded_to_the_dtype_of_training);
    suite_add_tcase(s, tc);
    return s;
}
