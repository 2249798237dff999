/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/idle.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/path.h"
#include "tests/energy/fake_powercap.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static char *tree;
static atomic_bool ended;

static void setup(void)
{
    spec_fixture_open(&f);
    tree = cadre_path_join(f.dir, "powercap");
    ck_assert_int_eq(cadre_path_make_dirs(f.out, NULL), CADRE_OK);
    setenv("CADRE_POWERCAP", tree, 1);
    atomic_store(&ended, false);
}

static void teardown(void)
{
    unsetenv("CADRE_POWERCAP");
    free(tree);
    spec_fixture_close(&f);
}

/* Writes beside the counter's file and renames: no reader sees half of it. */
static void *count(void *arg)
{
    char new[1200], file[1200];
    snprintf(new, sizeof new, "%s/intel-rapl:0/new", tree);
    snprintf(file, sizeof file, "%s/intel-rapl:0/energy_uj", tree);
    for (int n = 1; !atomic_load(&ended); n++) {
        FILE *to = fopen(new, "w");
        fprintf(to, "%d\n", 1000 * n);
        fclose(to);
        rename(new, file);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return arg;
}

static void measure(const char *sets, bool external)
{
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    ck_assert_msg(cadre_idle_measure(spec, external, &f.err) == CADRE_OK, "%s",
                  f.err.text);
    cadre_spec_destroy(spec);
}

START_TEST(watts_are_joules_over_seconds)
{
    pthread_t thread;
    fake_powercap_zone(tree, "intel-rapl:0", "package-0", 0, 262143328850, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, count, NULL), 0);
    do
        measure("energy.idle=0.1", false);
    while (isnan(cadre_idle_read(f.out))); /* the thread may not get a core */
    atomic_store(&ended, true);
    pthread_join(thread, NULL);
    char *text = spec_fixture_read(&f, "run/idle.json");
    json_t *idle = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    double seconds = json_number_value(json_object_get(idle, "seconds"));
    double joules = json_number_value(json_object_get(idle, "package_j"));
    ck_assert_msg(seconds >= 0.1 && joules > 0, "%s", text);
    ck_assert_double_eq_tol(cadre_idle_read(f.out), joules / seconds, 1e-9);
    json_decref(idle);
    free(text);
    /* the next start forgets it, and measures nothing where others work already */
    measure("", true);
    ck_assert(isnan(cadre_idle_read(f.out)));
}
END_TEST

START_TEST(nothing_is_measured_where_it_says_nothing)
{
    measure("", false); /* no counter */
    ck_assert(isnan(cadre_idle_read(f.out)));
    fake_powercap_zone(tree, "intel-rapl:0", "package-0", 0, 262143328850, 0);
    measure("energy.idle=0.01", false); /* it stands still */
    ck_assert(isnan(cadre_idle_read(f.out)));
    measure("energy.idle=0", false);
    ck_assert(isnan(cadre_idle_read(f.out)));
    measure("bench.steps=1", false);
    ck_assert(isnan(cadre_idle_read(f.out)));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("idle");
    TCase *tc = tcase_create("idle");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, watts_are_joules_over_seconds);
    tcase_add_test(tc, nothing_is_measured_where_it_says_nothing);
    suite_add_tcase(s, tc);
    return s;
}
