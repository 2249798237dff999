/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/trace.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank;
static struct cadre_trace trace;

static void open_run(const char *sets)
{
    spec_fixture_open(&f);
    spec = spec_fixture_make(&f, sets);
    snprintf(spec->out, sizeof spec->out, "%s", f.dir);
    spec_fixture_rank(&f, spec, &rank);
    cadre_trace_init(&trace, &rank, spec, 0, spec->steps);
}

static void close_run(void)
{
    cadre_trace_fini(&trace);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

static void steps(int64_t n)
{
    for (int64_t step = 1; step <= n; step++) {
        struct cadre_step_report report = {0};
        double begin = cadre_now_s();
        ck_assert_int_eq(cadre_trace_begin(&trace, step, &f.err), CADRE_OK);
        ck_assert_int_eq(cadre_rank_step(&rank, (uint64_t)step, &report), CADRE_OK);
        cadre_trace_step(&trace, step, begin, &report);
        cadre_trace_other(&trace, step, "evaluation", cadre_now_s());
    }
}

/* The events of trace.json with this name, or another text; step -1: of all steps. */
static int count(const json_t *events, const char *key, const char *value, int64_t step)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const json_t *args = json_object_get(event, "args");
        const json_t *at = json_object_get(args, "step");
        const json_t *found = json_object_get(event, key);
        const char *text =
            json_string_value(found ? found : json_object_get(args, key));
        n += text && strcmp(text, value) == 0 &&
             (step < 0 || json_integer_value(at) == step);
    }
    return n;
}

static json_t *written(void)
{
    cadre_status rc = cadre_trace_write(&trace, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    char *text = spec_fixture_read(&f, "trace.json");
    json_error_t why;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(root != NULL, "line %d: %s", why.line, why.text);
    free(text);
    return root;
}

START_TEST(a_few_steps_after_warm_up)
{
    open_run("log.trace=yes log.trace_steps=2 compare.warmup=1");
    steps(5);
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    for (int64_t step = 1; step <= 5; step++) {
        bool kept = step == 2 || step == 3;
        ck_assert_int_eq(count(events, "name", "step", step), kept);
        /* 4 micro-batches of embedding, 2 blocks and head, and the pass itself */
        ck_assert_int_eq(count(events, "pass", "forward", step), kept ? 4 * 5 : 0);
        ck_assert_int_eq(count(events, "pass", "backward", step), kept ? 4 * 5 : 0);
        ck_assert_int_eq(count(events, "name", "data", step), kept ? 4 : 0);
        ck_assert_int_eq(count(events, "name", "optimizer", step), kept);
        ck_assert_int_eq(count(events, "name", "evaluation", step), kept);
    }
    ck_assert_int_eq(count(events, "name", "thread_name", -1), 1);
    json_decref(root);
    close_run();
}
END_TEST

START_TEST(slices_are_named)
{
    static const char *const names[] = {"forward of micro-batch 0",
                                        "forward of micro-batch 3",
                                        "backward of micro-batch 3",
                                        "loss",
                                        "tokens/s",
                                        "memory of rank 0"};
    static const char *const units[] = {"forward of embedding", "forward of block 0",
                                        "forward of block 1", "backward of head"};
    open_run("log.trace=yes log.trace_steps=1 compare.warmup=0 train.steps=1");
    steps(1);
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(count(events, "name", names[i], -1) == 1, "%s", names[i]);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        ck_assert_msg(count(events, "name", units[i], 1) == 4, "%s", units[i]);
    json_decref(root);
    close_run();
}
END_TEST

static bool has_file(const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", f.dir, name);
    return access(path, F_OK) == 0;
}

static size_t units_recorded(void)
{
    size_t n = 0;
    for (size_t i = 0; i < rank.timeline.n; i++)
        n += rank.timeline.span[i].kind == CADRE_SPAN_UNIT;
    return n;
}

/* Nothing is recorded in other steps, and the file is there while the run goes on. */
START_TEST(only_its_steps_and_then_the_file)
{
    open_run("log.trace=yes log.trace_steps=1 compare.warmup=1");
    for (int64_t step = 1; step <= 4; step++) {
        struct cadre_step_report report = {0};
        ck_assert_int_eq(cadre_trace_begin(&trace, step, &f.err), CADRE_OK);
        ck_assert_int_eq(has_file("trace.json"), step == 4);
        ck_assert_int_eq(cadre_rank_step(&rank, (uint64_t)step, &report), CADRE_OK);
        ck_assert_uint_eq(units_recorded(), step == 2 ? 2 * 4 * 4 : 0);
        cadre_trace_step(&trace, step, cadre_now_s(), &report);
        ck_assert_uint_eq(trace.record.n_steps, step == 2 || step == 3);
    }
    close_run();
}
END_TEST

static double number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    ck_assert(json_is_number(value));
    return json_number_value(value);
}

/* On one row: passes one after the other, inside of their step. */
START_TEST(passes_do_not_overlap)
{
    open_run("log.trace=yes log.trace_steps=1 compare.warmup=0 train.recompute=block");
    steps(1);
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    double end = 0, first = 0, last = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *cat = json_string_value(json_object_get(event, "cat"));
        if (!cat)
            continue;
        double begin = number(event, "ts");
        ck_assert_double_ge(begin, 0);
        if (strcmp(cat, "counter") == 0)
            continue;
        double length = number(event, "dur");
        ck_assert_double_ge(length, 0);
        if (strcmp(cat, "step") == 0) {
            ck_assert_double_eq(begin, 0); /* time begins with the first step */
            first = begin;
            last = begin + length;
        }
        if (strcmp(cat, "pass") != 0)
            continue;
        ck_assert_double_ge(begin, end);
        ck_assert_double_ge(begin, first);
        end = begin + length;
        ck_assert_double_le(end, last);
    }
    ck_assert_double_gt(end, 0);
    json_decref(root);
    close_run();
}
END_TEST

/* A run of no more steps than warm-up records its last ones. */
START_TEST(a_short_run_is_traced)
{
    open_run("log.trace=yes log.trace_steps=3 train.steps=2 compare.warmup=5");
    steps(2);
    json_t *root = written(), *events = json_object_get(root, "traceEvents");
    ck_assert_int_eq(count(events, "name", "step", -1), 2);
    json_decref(root);
    close_run();
}
END_TEST

START_TEST(nothing_where_it_is_off)
{
    open_run("log.trace_steps=1000");
    steps(4);
    ck_assert_int_eq(cadre_trace_write(&trace, &f.err), CADRE_OK);
    ck_assert_uint_eq(trace.record.n_steps, 0);
    ck_assert(!rank.timeline.detail);
    ck_assert(!has_file("trace.json"));
    close_run();
}
END_TEST

START_TEST(a_folder_that_is_gone_is_told)
{
    open_run("log.trace=yes");
    snprintf(spec->out, sizeof spec->out, "%s/gone", f.dir);
    ck_assert_int_eq(cadre_trace_write(&trace, &f.err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(f.err.text, "trace.json"));
    close_run();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("trace");
    TCase *tc = tcase_create("trace");
    tcase_add_test(tc, a_few_steps_after_warm_up);
    tcase_add_test(tc, slices_are_named);
    tcase_add_test(tc, only_its_steps_and_then_the_file);
    tcase_add_test(tc, passes_do_not_overlap);
    tcase_add_test(tc, a_short_run_is_traced);
    tcase_add_test(tc, nothing_where_it_is_off);
    tcase_add_test(tc, a_folder_that_is_gone_is_told);
    suite_add_tcase(s, tc);
    return s;
}
