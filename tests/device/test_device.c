/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device/device.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

/* ---- opening, memory, streams ---- */

START_TEST(opening)
{
    static const struct {
        const char *kind;
        int threads;
        cadre_status expected;
        const char *says;
    } cases[] = {
        {"cpu", 1, CADRE_OK, ""},
        {"auto", 3, CADRE_OK, ""},
        {"tpu", 1, CADRE_E_INVALID, "tpu"},
        {"cpu", 0, CADRE_E_INVALID, "device.threads"},
        {"cpu", -4, CADRE_E_INVALID, "-4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct cadre_device_config config = {.kind = cases[i].kind,
                                                   .threads = cases[i].threads};
        struct cadre_device *device = NULL;
        struct cadre_error err = {0};
        ck_assert_int_eq(cadre_device_open(&config, &device, &err), cases[i].expected);
        ck_assert_ptr_nonnull(strstr(err.text, cases[i].says));
        ck_assert((device != NULL) == (cases[i].expected == CADRE_OK));
        ck_assert(!device || strcmp(device->ops->name, "cpu") == 0 ||
                  strcmp(cases[i].kind, "auto") == 0);
        cadre_device_close(device);
    }
    cadre_device_close(NULL);
}
END_TEST

/* A GPU, or one line with the reason; "auto" then uses the CPU. */
START_TEST(cuda_or_why_not)
{
    const struct cadre_device_config cuda = {
        .kind = "cuda", .threads = 1, .exact = true};
    const struct cadre_device_config any = {
        .kind = "auto", .threads = 1, .exact = true};
    struct cadre_device *device = NULL, *second = NULL;
    struct cadre_error err = {0};
    const cadre_status rc = cadre_device_open(&cuda, &device, &err);
    ck_assert(rc == CADRE_OK || rc == CADRE_E_UNSUPPORTED);
    ck_assert(rc == CADRE_OK || strstr(err.text, "device.kind = cuda") == err.text);
    ck_assert_int_eq(cadre_device_open(&any, &second, &err), CADRE_OK);
    ck_assert_str_eq(second->ops->name, rc == CADRE_OK ? "cuda" : "cpu");
    cadre_device_close(second);
    cadre_device_close(device);
}
END_TEST

/* Every entry of the table is filled; `queued` is the only one that is not a
 * pointer. */
START_TEST(table_is_full)
{
    struct cadre_device *device = open_cpu(1);
    void *const *entry = (void *const *)(const void *)device->ops;
    for (size_t i = 0; i < sizeof *device->ops / sizeof *entry; i++)
        ck_assert_msg(entry[i] != NULL ||
                          i == offsetof(struct cadre_device_ops, async) / sizeof *entry,
                      "entry %zu is empty", i);
    cadre_device_close(device);
}
END_TEST

START_TEST(memory)
{
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 1 << 20, 2097088, 2097152, 5000001, (size_t)64 << 20};
    struct cadre_device *device = open_cpu(1);
    const struct cadre_device_ops *ops = device->ops;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i];
        unsigned char *a = ops->alloc(device, n), *b = ops->alloc(device, n);
        ck_assert_ptr_nonnull(a);
        ck_assert_ptr_nonnull(b);
        ck_assert_uint_eq((uintptr_t)a % 64, 0);
        ck_assert_uint_eq((uintptr_t)b % 64, 0);
        memset(a, 7, n);
        ck_assert_int_eq(ops->copy(device, b, a, n), CADRE_OK);
        ck_assert(memcmp(a, b, n) == 0);
        ck_assert_int_eq(ops->zero(device, a, n), CADRE_OK);
        ck_assert(n == 0 || (a[0] == 0 && a[n - 1] == 0 && b[n - 1] == 7));
        ck_assert_int_eq(ops->to_device(device, a, b, n), CADRE_OK);
        ck_assert_int_eq(ops->to_host(device, b, a, n), CADRE_OK);
        ops->free(device, a);
        ops->free(device, b);
    }
    ck_assert_ptr_null(ops->alloc(device, SIZE_MAX));
    ck_assert_ptr_null(ops->alloc(device, SIZE_MAX - 64));
    ck_assert_ptr_null(ops->alloc(device, (size_t)1 << 60));
    ops->free(device, NULL);
    cadre_device_close(device);
}
END_TEST

START_TEST(streams)
{
    struct cadre_device *device = open_cpu(1);
    const struct cadre_device_ops *ops = device->ops;
    cadre_stream_id a, b;
    uint64_t event = 99;
    ck_assert_int_eq(ops->stream_create(device, &a), CADRE_OK);
    ck_assert_int_eq(ops->stream_create(device, &b), CADRE_OK);
    ck_assert(a != 0 && b != 0 && a != b);
    ck_assert_int_eq(ops->set_stream(device, a), CADRE_OK);
    ck_assert_int_eq(ops->event_record(device, &event), CADRE_OK);
    ck_assert_int_eq(ops->set_stream(device, 0), CADRE_OK);
    ck_assert_int_eq(ops->event_wait(device, event), CADRE_OK);
    ck_assert_int_eq(ops->event_sync(device, event), CADRE_OK);
    ck_assert_uint_eq(event, 0);
    ck_assert_int_eq(ops->synchronize(device), CADRE_OK);
    ops->stream_destroy(device, a);
    ops->stream_destroy(device, b);
    cadre_device_close(device);
}
END_TEST

/* Queued work is done on return; no memory is pinned. */
START_TEST(pinned_worker_streams_and_graphs)
{
    static const int values[5] = {1, -2, 3, INT32_MAX, 0};
    struct cadre_device *device = open_cpu(1), *worker = NULL;
    const struct cadre_device_ops *ops = device->ops;
    struct cadre_text text = {0};
    int *pinned = ops->alloc_pinned(device, sizeof values);
    int *data = ops->alloc(device, sizeof values);
    uint64_t available = 0, total = 0;
    ck_assert(ops->memory(device, &available, &total));
    ck_assert_uint_gt(available, 0);
    ck_assert_uint_ge(total, available);
    ck_assert(!ops->async);
    ck_assert(ops->host_reaches(device, data) && ops->host_reaches(device, values));
    memcpy(pinned, values, sizeof values);
    ck_assert_int_eq(ops->upload(device, data, pinned, sizeof values), CADRE_OK);
    memset(pinned, 0, sizeof values);
    ck_assert_int_eq(ops->download(device, pinned, data, sizeof values), CADRE_OK);
    ck_assert_mem_eq(pinned, values, sizeof values);
    ck_assert_int_eq(ops->worker_stream_open(device, &worker), CADRE_OK);
    ck_assert_int_eq(worker->ops->zero(worker, data, sizeof values), CADRE_OK);
    ck_assert_int_eq(data[3], 0);
    ops->worker_stream_close(worker);
    ops->worker_stream_close(NULL);
    ck_assert_int_eq(ops->graph_begin(device, 1), CADRE_E_UNSUPPORTED);
    ck_assert_int_eq(ops->copy(device, data, values, sizeof values), CADRE_OK);
    ck_assert_int_eq(data[3], INT32_MAX); /* ran */
    ck_assert_int_eq(ops->graph_end(device, 1), CADRE_E_UNSUPPORTED);
    ck_assert_int_eq(ops->graph_launch(device, 1), CADRE_E_UNSUPPORTED);
    ck_assert_int_eq(ops->tuning_export(device, &text), CADRE_OK);
    ck_assert_str_eq(cadre_text_str(&text), "");
    ck_assert_int_eq(ops->tuning_import(device, ""), CADRE_OK);
    ops->range_begin(device, "step");
    ops->range_end(device);
    cadre_text_fini(&text);
    ops->free_pinned(device, pinned);
    ops->free_pinned(device, NULL);
    ops->free(device, data);
    cadre_device_close(device);
}
END_TEST

/* ---- values asserted by other frameworks' tests ---- */

static json_t *golden_root;

static const json_t *golden(const char *op)
{
    size_t i;
    json_t *entry;
    const char *path = test_sample("golden/peer_ops.json");
    golden_root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(golden_root);
    json_array_foreach(golden_root, i, entry)
    {
        if (strncmp(json_string_value(json_object_get(entry, "op")), op, strlen(op)) ==
            0)
            return entry;
    }
    ck_abort_msg("no golden values for %s", op);
    return NULL;
}

/* Put the numbers of nested arrays into out from element n on; returns the next. */
static int64_t flatten(const json_t *value, struct tensor *out, int64_t n)
{
    if (!json_is_array(value)) {
        ck_assert_int_lt(n, out->count);
        tensor_set(out, n, json_number_value(value));
        return n + 1;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        n = flatten(json_array_get(value, i), out, n);
    return n;
}

static int64_t flatten_input(const json_t *entry, const char *name, struct tensor *out)
{
    const json_t *value = json_object_get(json_object_get(entry, "inputs"), name);
    ck_assert_msg(value != NULL, "no input %s", name);
    return flatten(value, out, 0);
}

static void check_expected(const json_t *entry, const struct tensor *got, int64_t n)
{
    struct tensor want = tensor_make(got->device, got->dtype, n, 0);
    const double limit = json_number_value(json_object_get(entry, "tol"));
    ck_assert_int_eq(flatten(json_object_get(entry, "expected"), &want, 0), n);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(tensor_get(got, i) - tensor_get(&want, i)) <= limit,
                      "%s[%ld]: %g, expected %g",
                      json_string_value(json_object_get(entry, "op")), (long)i,
                      tensor_get(got, i), tensor_get(&want, i));
    tensor_free(&want);
}

static const struct {
    const char *op;
    bool layer;
    double eps;
} norms[] = {{"rms_norm eps=1e-5", false, 1e-5},
             {"layer_norm eps=1e-5", true, 1e-5},
             {"layer_norm eps=1e-8", true, 1e-8}};

START_TEST(golden_norms)
{
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const json_t *entry = golden(norms[_i / 2].op);
    struct cadre_device *device = open_cpu(1);
    struct tensor x = tensor_make(device, dtype, 12, 0),
                  w = tensor_make(device, dtype, 3, 0);
    struct tensor b = tensor_make(device, dtype, 3, 0),
                  y = tensor_make(device, dtype, 12, 0);
    struct tensor stats = tensor_make(device, dtype, 8, 0);
    const int64_t n = flatten_input(entry, "x", &x);
    flatten_input(entry, "weight", &w);
    if (norms[_i / 2].layer)
        flatten_input(entry, "bias", &b);
    const struct cadre_norm a = {.dtype = dtype,
                                 .rows = n / 3,
                                 .channels = 3,
                                 .layer = norms[_i / 2].layer,
                                 .eps = norms[_i / 2].eps,
                                 .x = x.data,
                                 .w = w.data,
                                 .b = b.data,
                                 .y = y.data,
                                 .stats = stats.data};
    ck_assert_int_eq(device->ops->norm_fwd(device, &a), CADRE_OK);
    check_expected(entry, &y, n);
    struct tensor *all[] = {&x, &w, &b, &y, &stats};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    json_decref(golden_root);
    cadre_device_close(device);
}
END_TEST

START_TEST(golden_loss)
{
    const uint32_t dtype = _i ? CADRE_F64 : CADRE_F32;
    const json_t *entry = golden("cross_entropy mean");
    struct cadre_device *device = open_cpu(1);
    struct tensor logits = tensor_make(device, dtype, 15, 0);
    struct tensor state = tensor_make(device, dtype, 9, 0);
    struct tensor loss = tensor_make(device, CADRE_F64, 1, 0);
    const size_t width = cadre_dtype_bytes(dtype);
    int32_t targets[3];
    double rows[3];
    const json_t *list = json_object_get(json_object_get(entry, "inputs"), "target");
    for (size_t i = 0; i < 3; i++)
        targets[i] = (int32_t)json_integer_value(json_array_get(list, i));
    flatten_input(entry, "logits", &logits);
    const struct cadre_xent a = {.dtype = dtype,
                                 .rows = 3,
                                 .vocab = 5,
                                 .logits = logits.data,
                                 .targets = targets,
                                 .max = state.data,
                                 .sum = (char *)state.data + 3 * width,
                                 .picked = (char *)state.data + 6 * width,
                                 .loss_rows = rows};
    ck_assert_int_eq(device->ops->xent_fwd(device, &a), CADRE_OK);
    ck_assert_int_eq(device->ops->xent_loss(device, &a), CADRE_OK);
    tensor_set(&loss, 0, (rows[0] + rows[1] + rows[2]) / 3);
    check_expected(entry, &loss, 1);
    tensor_free(&logits);
    tensor_free(&state);
    tensor_free(&loss);
    json_decref(golden_root);
    cadre_device_close(device);
}
END_TEST

static const double one = 1;

/* y = x (4, 2) w (2) + b by sum of squared errors; param is w then b. */
static void regression_gradient(const struct tensor *x, const struct tensor *y,
                                const struct tensor *param, struct tensor *grad)
{
    for (int64_t j = 0; j < 3; j++)
        tensor_set(grad, j, 0);
    for (int64_t i = 0; i < 4; i++) {
        const double a = tensor_get(x, 2 * i), b = tensor_get(x, 2 * i + 1);
        const double error = a * tensor_get(param, 0) + b * tensor_get(param, 1) +
                             tensor_get(param, 2) - tensor_get(y, i);
        tensor_set(grad, 0, tensor_get(grad, 0) + 2 * error * a);
        tensor_set(grad, 1, tensor_get(grad, 1) + 2 * error * b);
        tensor_set(grad, 2, tensor_get(grad, 2) + 2 * error);
    }
}

START_TEST(golden_regressions)
{
    const bool adam = _i;
    const json_t *entry =
        golden(adam ? "AdamW linear regression" : "SGD linear regression");
    struct cadre_device *device = open_cpu(1);
    struct tensor x = tensor_make(device, CADRE_F64, 8, 0);
    struct tensor y = tensor_make(device, CADRE_F64, 4, 0);
    struct tensor t[4];
    flatten_input(entry, "x", &x);
    flatten_input(entry, "y", &y);
    for (int i = 0; i < 4; i++) {
        t[i] = tensor_make(device, CADRE_F64, 3, 0);
        memset(t[i].data, 0, 3 * sizeof(double));
    }
    for (int64_t step = 1; step <= (adam ? 100 : 1000); step++) {
        regression_gradient(&x, &y, &t[0], &t[1]);
        const struct cadre_slice slice = {.count = 3,
                                          .param = t[0].data,
                                          .grad = t[1].data,
                                          .exp_avg = adam ? t[2].data : NULL,
                                          .exp_avg_sq = adam ? t[3].data : NULL,
                                          .weight_decay = adam ? 0.01 : 0};
        const struct cadre_adamw w = {.dtype = CADRE_F64,
                                      .lr = 0.1,
                                      .beta1 = 0.9,
                                      .beta2 = 0.999,
                                      .eps = 1e-8,
                                      .step = step,
                                      .grad_scale = &one,
                                      .slices = &slice,
                                      .n = 1};
        const struct cadre_sgd s = {.dtype = CADRE_F64,
                                    .lr = 0.004,
                                    .step = step,
                                    .grad_scale = &one,
                                    .slices = &slice,
                                    .n = 1};
        ck_assert_int_eq(adam ? device->ops->adamw(device, &w)
                              : device->ops->sgd(device, &s),
                         CADRE_OK);
    }
    check_expected(entry, &t[0], 3);
    for (int i = 0; i < 4; i++)
        tensor_free(&t[i]);
    tensor_free(&x);
    tensor_free(&y);
    json_decref(golden_root);
    cadre_device_close(device);
}
END_TEST

/* Loss = sum(y): a weight's gradient is a column sum of x, a bias's the row count. */
START_TEST(golden_adamw)
{
    const uint32_t dtype = _i ? CADRE_F64 : CADRE_F32;
    const json_t *entry = golden("AdamW 2 steps");
    struct cadre_device *device = open_cpu(1);
    struct tensor x = tensor_make(device, dtype, 12, 0), t[4];
    for (int i = 0; i < 4; i++) {
        t[i] = tensor_make(device, dtype, 42, 0);
        memset(t[i].data, 0, 42 * cadre_dtype_bytes(dtype));
    }
    const json_t *inputs = json_object_get(entry, "inputs");
    ck_assert_int_eq(flatten(json_object_get(inputs, "b"), &t[0],
                             flatten(json_object_get(inputs, "W"), &t[0], 0)),
                     42);
    for (int64_t step = 1; step <= 2; step++) {
        flatten_input(entry, step == 1 ? "x1" : "x2", &x);
        for (int64_t i = 0; i < 42; i++)
            tensor_set(&t[1], i,
                       i < 36 ? tensor_get(&x, i % 6) + tensor_get(&x, i % 6 + 6) : 2);
        const struct cadre_slice slice = {.count = 42,
                                          .param = t[0].data,
                                          .grad = t[1].data,
                                          .exp_avg = t[2].data,
                                          .exp_avg_sq = t[3].data,
                                          .weight_decay = 0.5};
        const struct cadre_adamw a = {.dtype = dtype,
                                      .lr = 0.01,
                                      .beta1 = 0.9,
                                      .beta2 = 0.999,
                                      .eps = 1e-8,
                                      .step = step,
                                      .grad_scale = &one,
                                      .slices = &slice,
                                      .n = 1};
        ck_assert_int_eq(device->ops->adamw(device, &a), CADRE_OK);
    }
    check_expected(entry, &t[0], 42);
    for (int i = 0; i < 4; i++)
        tensor_free(&t[i]);
    tensor_free(&x);
    json_decref(golden_root);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("device");
    TCase *tc = tcase_create("device");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, opening);
    tcase_add_test(tc, cuda_or_why_not);
    tcase_add_test(tc, table_is_full);
    tcase_add_test(tc, memory);
    tcase_add_test(tc, streams);
    tcase_add_test(tc, pinned_worker_streams_and_graphs);
    tcase_add_loop_test(tc, golden_norms, 0, 6);
    tcase_add_loop_test(tc, golden_loss, 0, 2);
    tcase_add_loop_test(tc, golden_regressions, 0, 2);
    tcase_add_loop_test(tc, golden_adamw, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
