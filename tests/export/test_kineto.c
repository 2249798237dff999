/* SPDX-License-Identifier: Apache-2.0 */
/* A record made by hand, whose overlap is known; tests/cli/test_clients.sh has Holistic
 * Trace Analysis read whole runs. */
#include "core/export/kineto.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank;
static struct cadre_trace_record record;
static struct cadre_comm other = {.size = 3};

/* One step from second 100 to 110, in the order in which spans end. */
static void setup(void)
{
    static const struct cadre_span spans[] = {
        {.kind = CADRE_SPAN_UNIT,
         .pass = CADRE_SPAN_FORWARD,
         .unit = 1,
         .begin = 101,
         .end = 102},
        {.kind = CADRE_SPAN_WAIT,
         .name = "dp",
         .inside = true,
         .begin = 103,
         .end = 104},
        {.kind = CADRE_SPAN_FORWARD, .begin = 101, .end = 105},
        {.kind = CADRE_SPAN_WORK, .name = "optimizer", .begin = 106, .end = 108},
    };
    const struct cadre_trace_op ops[] = {
        {&other, "all_gather", "an \"old\" one", 90, 91, 99.5, 1, 1, 1, 1, CADRE_F32},
        {&other, "reduce_scatter", "early", 98, 99, 101, 64, 30, 10, 2, CADRE_BF16},
        {&other, "split", "", 101, 101, 101, 0, 0, 0, 3, CADRE_U8},
        {&other, "all_gather", "params", 102, 102.5, 103.5, 80, 10, 30, 4, CADRE_F32},
    };
    const struct cadre_trace_step step = {.step = 12,
                                          .begin = 100,
                                          .end = 110,
                                          .loss = NAN,
                                          .step_s = 10,
                                          .comm_s = 3,
                                          .comm_exposed_s = 0.5,
                                          .n_spans = 4,
                                          .n_ops = 4};
    spec_fixture_open(&f);
    spec = spec_fixture_make(&f, "");
    ck_assert_int_eq(mkdir(f.out, 0777), 0);
    spec_fixture_rank(&f, spec, &rank);
    record = (struct cadre_trace_record){
        .rank = &rank, .origin_s = 100, .origin_unix_s = 1.8e9};
    cadre_trace_record_spans(&record, spans, 4);
    cadre_trace_record_ops(&record, ops, 4);
    cadre_trace_record_step(&record, &step);
    ck_assert(!record.failed);
}

static void teardown(void)
{
    cadre_trace_record_fini(&record);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

static json_t *written(void)
{
    json_error_t why;
    cadre_status rc = cadre_kineto_write(&record, &rank, f.out, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    char *text = spec_fixture_read(&f, "run/trace/rank-0.json");
    ck_assert_ptr_nonnull(strstr(text, "\"rank\": 0"));
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(root != NULL, "line %d: %s", why.line, why.text);
    free(text);
    return root;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static int64_t number_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* The n-th kernel of a stream; NULL for none. */
static const json_t *kernel(const json_t *events, int stream, int n)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (strcmp(text_of(event, "cat"), "kernel") == 0 &&
            number_of(json_object_get(event, "args"), "stream") == stream && n-- == 0)
            return event;
    }
    return NULL;
}

static void is_kernel(const json_t *event, const char *name, double begin, double end)
{
    ck_assert_ptr_nonnull(event);
    ck_assert_str_eq(text_of(event, "name"), name);
    ck_assert_int_eq(number_of(event, "ts"), (int64_t)(1e6 * begin));
    ck_assert_int_eq(number_of(event, "dur"), (int64_t)(1e6 * (end - begin)));
}

START_TEST(the_thread_works_but_in_waits)
{
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    is_kernel(kernel(events, 7, 0), "step", 0, 1);
    is_kernel(kernel(events, 7, 1), "forward of block 0", 1, 2);
    is_kernel(kernel(events, 7, 2), "forward of micro-batch 0", 2, 3);
    is_kernel(kernel(events, 7, 3), "forward of micro-batch 0", 4, 5);
    is_kernel(kernel(events, 7, 4), "step", 5, 6);
    is_kernel(kernel(events, 7, 5), "optimizer", 6, 8);
    is_kernel(kernel(events, 7, 6), "step", 8, 10);
    ck_assert_ptr_null(kernel(events, 7, 7));
    json_decref(root);
}
END_TEST

/* An evaluation after the first of two steps (_i = 1) has waits that are not recorded.
 */
START_TEST(between_steps_the_thread_works)
{
    const struct cadre_trace_step next = {
        .step = 13, .begin = 111, .end = 112, .comm_s = NAN, .comm_exposed_s = NAN};
    const struct cadre_trace_other between = {"evaluation", 12, 110.2, 110.8};
    cadre_trace_record_step(&record, &next);
    if (_i > 0)
        cadre_trace_record_other(&record, &between);
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    if (_i == 0)
        is_kernel(kernel(events, 7, 7), "between steps", 10, 11);
    is_kernel(kernel(events, 7, 8 - _i), "step", 11, 12);
    ck_assert_ptr_null(kernel(events, 7, 9 - _i));
    json_decref(root);
}
END_TEST

/* What ran before the step is left out, what began before it begins with it. */
START_TEST(operations_are_kernels_of_nccl)
{
    int stream = 20 + 2 * (rank.mesh.n + rank.mesh.n_derived + 1);
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    is_kernel(kernel(events, stream, 0), "ncclKernel_ReduceScatter", 0, 1);
    is_kernel(kernel(events, stream, 1), "ncclKernel_AllGather", 2.5, 3.5);
    ck_assert_ptr_null(kernel(events, stream, 2));
    const json_t *args = json_object_get(kernel(events, stream, 1), "args");
    ck_assert_str_eq(text_of(args, "Collective name"), "_allgather_base");
    ck_assert_int_eq(number_of(args, "In msg nelems"), 10);
    ck_assert_int_eq(number_of(args, "Out msg nelems"), 30);
    ck_assert_int_eq(number_of(args, "Group size"), 3);
    ck_assert_int_eq(number_of(args, "Seq"), 4);
    ck_assert_str_eq(text_of(args, "dtype"), "Float");
    ck_assert_str_eq(text_of(args, "label"), "params");
    ck_assert_str_eq(text_of(args, "Process Group Name"), "other");
    ck_assert_ptr_null(json_object_get(args, "Process Group Ranks"));
    json_decref(root);
}
END_TEST

START_TEST(groups_have_their_ranks)
{
    rank.mesh.axis[0] = (struct cadre_axis){
        .name = "dp", .size = 3, .n_factors = 1, .factor = {{2, 3}}, .comm = &other};
    rank.mesh.n = 1;
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    const json_t *args = json_object_get(kernel(events, 22, 1), "args");
    ck_assert_str_eq(text_of(args, "Process Group Name"), "dp");
    ck_assert_str_eq(text_of(args, "Process Group Ranks"), "[0, 2, 4]");
    json_decref(root);
    rank.mesh.axis[0].comm = NULL;
}
END_TEST

START_TEST(every_kernel_is_launched)
{
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    int kernels = 0, launches = 0;
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        int64_t id = number_of(json_object_get(event, "args"), "correlation");
        if (strcmp(text_of(event, "cat"), "kernel") == 0) {
            kernels++;
            sum += id;
        } else if (strcmp(text_of(event, "cat"), "cuda_runtime") == 0) {
            launches++;
            sum -= id;
        }
    }
    ck_assert_int_eq(kernels, 7 + 2);
    ck_assert_int_eq(launches, kernels);
    ck_assert_int_eq(sum, 0);
    json_decref(root);
}
END_TEST

START_TEST(steps_and_the_head)
{
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    const json_t *info = json_object_get(root, "distributedInfo"), *step = NULL;
    ck_assert_int_eq(number_of(root, "schemaVersion"), 1);
    ck_assert_int_eq(number_of(info, "world_size"), 1);
    ck_assert_int_eq(number_of(root, "baseTimeNanoseconds"), 1800000000000000000);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "deviceProperties")), 1);
    for (size_t i = 0; i < json_array_size(events) && !step; i++)
        if (strcmp(text_of(json_array_get(events, i), "name"), "ProfilerStep#12") == 0)
            step = json_array_get(events, i);
    ck_assert_int_eq(number_of(step, "dur"), 10000000);
    const json_t *args = json_object_get(step, "args");
    ck_assert_double_eq(json_number_value(json_object_get(args, "comm_s")), 3);
    ck_assert_double_eq(json_number_value(json_object_get(args, "comm_exposed_s")),
                        0.5);
    json_decref(root);
}
END_TEST

/* Files of a run with more ranks would be read with these. */
START_TEST(older_files_are_removed)
{
    char path[1300];
    snprintf(path, sizeof path, "%s/trace", f.out);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    spec_fixture_write(&f, "run/trace/rank-7.json", "{}");
    spec_fixture_write(&f, "run/trace/notes.json", "{}");
    json_decref(written());
    snprintf(path, sizeof path, "%s/trace/rank-7.json", f.out);
    ck_assert_int_ne(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/trace/notes.json", f.out);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_folder_that_is_gone_is_told)
{
    spec_fixture_write(&f, "run/trace", "a file");
    ck_assert_int_eq(cadre_kineto_write(&record, &rank, f.out, &f.err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(f.err.text, "trace"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("kineto");
    TCase *tc = tcase_create("kineto");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_thread_works_but_in_waits);
    tcase_add_loop_test(tc, between_steps_the_thread_works, 0, 2);
    tcase_add_test(tc, operations_are_kernels_of_nccl);
    tcase_add_test(tc, groups_have_their_ranks);
    tcase_add_test(tc, every_kernel_is_launched);
    tcase_add_test(tc, steps_and_the_head);
    tcase_add_test(tc, older_files_are_removed);
    tcase_add_test(tc, a_folder_that_is_gone_is_told);
    suite_add_tcase(s, tc);
    return s;
}
