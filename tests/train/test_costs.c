/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* A run whose schedule asks for seconds where `measured` is yes. */
static struct cadre_spec *make(const char *measured)
{
    char sets[1200];
    const char *build = getenv("CADRE_BUILD");
    snprintf(sets, sizeof sets,
             "strategy.stack=%s/tests/plugins/.libs/split_schedule.so:2 "
             "split_schedule.measured=%s",
             build ? build : ".", measured);
    return spec_fixture_make(&f, sets);
}

static void must(cadre_status rc)
{
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
}

START_TEST(nobody_asks_nothing_is_measured)
{
    struct cadre_spec *spec = make("no");
    uint64_t before = spec->run.fingerprint;
    must(cadre_costs_find(spec, &f.err));
    ck_assert_ptr_null(spec->run.unit_seconds);
    ck_assert_uint_eq(spec->run.fingerprint, before);
    must(cadre_costs_write(spec, &f.err));
    must(cadre_costs_read(spec, 1, &f.err)); /* there is no file */
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(another_process_gets_the_same)
{
    struct cadre_spec *spec = make("yes"), *other = make("yes");
    must(cadre_costs_find(spec, &f.err));
    ck_assert_uint_eq(spec->n_unit_seconds, 4);
    for (int u = 0; u < 4; u++)
        ck_assert_double_gt(spec->run.unit_seconds[u], 0);
    ck_assert_double_eq(spec->run.unit_seconds[1], spec->run.unit_seconds[2]);
    ck_assert_uint_ne(spec->run.fingerprint, other->run.fingerprint);
    ck_assert_int_eq(cadre_costs_read(other, 1, &f.err), CADRE_E_IO);

    snprintf(spec->out, sizeof spec->out, "%s", f.dir);
    snprintf(other->out, sizeof other->out, "%s", f.dir);
    must(cadre_costs_write(spec, &f.err));
    must(cadre_costs_read(other, 1, &f.err));
    ck_assert_mem_eq(spec->run.unit_seconds, other->run.unit_seconds,
                     4 * sizeof(double));
    ck_assert_uint_eq(spec->run.fingerprint, other->run.fingerprint);
    cadre_spec_destroy(spec);
    cadre_spec_destroy(other);
}
END_TEST

START_TEST(a_changed_file_is_refused)
{
    static const char *const bad[] = {"",
                                      "[1, 2, 3, 4]",
                                      "{\"unit_seconds\": [1, 2, 3]}",
                                      "{\"unit_seconds\": [1, 2, 3, 0]}",
                                      "{\"unit_seconds\": [1, 2, 3,",
                                      "{\"unit_seconds\": [1, 2, 3, \"4\"]}",
                                      "{}"};
    struct cadre_spec *spec = make("yes");
    snprintf(spec->out, sizeof spec->out, "%s", f.dir);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        spec_fixture_write(&f, "unit_seconds.json", bad[i]);
        ck_assert_int_eq(cadre_costs_read(spec, 1, &f.err), CADRE_E_INVALID);
        ck_assert_ptr_nonnull(strstr(f.err.text, "expected the seconds of 4 units"));
    }
    ck_assert_ptr_null(spec->run.unit_seconds);
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("costs");
    TCase *tc = tcase_create("costs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nobody_asks_nothing_is_measured);
    tcase_add_test(tc, another_process_gets_the_same);
    tcase_add_test(tc, a_changed_file_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
