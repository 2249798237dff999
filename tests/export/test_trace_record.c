/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/trace_record.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

/* Two ranks of one machine: their wall clocks were read one after the other. */
START_TEST(ranks_of_a_machine_share_a_clock)
{
    const double clocks[] = {50, 1000.0001, 49.5, 1000};
    for (int r = 0; r < 2; r++) {
        double unix_s;
        ck_assert_double_eq(cadre_trace_origin(clocks, 2, r, &unix_s), 49.5);
        ck_assert_double_eq_tol(unix_s, 1049.5001, 1e-9);
    }
}
END_TEST

/* The second machine was started 700 s after the first one. */
START_TEST(machines_meet_by_their_wall_clocks)
{
    const double clocks[] = {750, 1000, 49.5, 1700};
    double unix_s;
    ck_assert_double_eq(cadre_trace_origin(clocks, 2, 0, &unix_s), 749.5);
    ck_assert_double_eq(unix_s, 1749.5);
    ck_assert_double_eq(cadre_trace_origin(clocks, 2, 1, &unix_s), 49.5);
    ck_assert_double_eq(unix_s, 1749.5);
}
END_TEST

START_TEST(nothing_is_before_the_origin)
{
    const struct cadre_trace_record record = {.origin_s = 10};
    ck_assert_double_eq(cadre_trace_record_us(&record, 10.5), 5e5);
    ck_assert_double_eq(cadre_trace_record_us(&record, 9), 0);
}
END_TEST

START_TEST(arrays_grow)
{
    struct cadre_trace_record record = {0};
    for (int i = 0; i < 1000; i++) {
        const struct cadre_span span[3] = {{.unit = 3u * (unsigned)i}};
        const struct cadre_trace_other other = {"evaluation", i, i, i + 1};
        cadre_trace_record_spans(&record, span, 3);
        cadre_trace_record_other(&record, &other);
        cadre_trace_record_ops(&record, NULL, 0);
    }
    ck_assert(!record.failed);
    ck_assert_uint_eq(record.n_spans, 3000);
    ck_assert_uint_eq(record.n_others, 1000);
    ck_assert_uint_eq(record.n_ops, 0);
    ck_assert_uint_eq(record.span[2997].unit, 2997);
    ck_assert_int_eq(record.other[999].step, 999);
    cadre_trace_record_fini(&record);
}
END_TEST

START_TEST(spans_have_names)
{
    const struct cadre_span spans[] = {
        {.kind = CADRE_SPAN_FORWARD, .microbatch = 2},
        {.kind = CADRE_SPAN_WEIGHT, .microbatch = 3},
        {.kind = CADRE_SPAN_UNIT, .pass = CADRE_SPAN_INPUT, .unit = 0},
        {.kind = CADRE_SPAN_UNIT, .pass = CADRE_SPAN_FORWARD, .unit = 2},
        {.kind = CADRE_SPAN_UNIT, .pass = CADRE_SPAN_BACKWARD, .unit = 3},
        {.kind = CADRE_SPAN_WAIT, .name = "dp"},
        {.kind = CADRE_SPAN_WORK, .name = "optimizer"},
    };
    static const char *const names[] = {"forward of micro-batch 2",
                                        "backward weight of micro-batch 3",
                                        "backward input of embedding",
                                        "forward of block 1",
                                        "backward of head",
                                        "wait dp",
                                        "optimizer"};
    struct spec_fixture f;
    struct cadre_rank rank;
    char name[CADRE_TRACE_NAME];
    spec_fixture_open(&f);
    struct cadre_spec *spec = spec_fixture_make(&f, "");
    spec_fixture_rank(&f, spec, &rank);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_str_eq(cadre_trace_span_name(&rank, &spans[i], name), names[i]);
    rank.plan.n_chunks = 2;
    ck_assert_str_eq(cadre_trace_span_name(&rank, &spans[0], name),
                     "forward of micro-batch 2, chunk 0");
    rank.plan.n_chunks = 1;
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}
END_TEST

START_TEST(names_fit_into_json)
{
    struct cadre_text text = {0};
    cadre_trace_put_name(&text, "a \"b\" \\ c\n\xc3\xa4");
    ck_assert_str_eq(cadre_text_str(&text), "a ?b? ? c???");
    cadre_text_fini(&text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("trace_record");
    TCase *tc = tcase_create("trace_record");
    tcase_add_test(tc, ranks_of_a_machine_share_a_clock);
    tcase_add_test(tc, machines_meet_by_their_wall_clocks);
    tcase_add_test(tc, nothing_is_before_the_origin);
    tcase_add_test(tc, arrays_grow);
    tcase_add_test(tc, spans_have_names);
    tcase_add_test(tc, names_fit_into_json);
    suite_add_tcase(s, tc);
    return s;
}
