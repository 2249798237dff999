/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static const struct cadre_bench two = {
    .warmup = 3,
    .steps = 4,
    .tokens = 512,
    .start_s = 0.1,
    .reached = true,
    .n = 2,
    .window = {{1.0 / 3, NAN, 0.001}, {0.5, NAN, 0}},
};

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

static void put(const char *folder, const struct cadre_bench *bench)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", f.dir, folder);
    mkdir(path, 0700);
    ck_assert_int_eq(cadre_bench_write(path, bench, &f.err), CADRE_OK);
}

static struct cadre_bench get(void)
{
    struct cadre_bench bench;
    ck_assert_msg(cadre_bench_read(f.dir, &bench, &f.err) == CADRE_OK, "%s",
                  f.err.text);
    return bench;
}

START_TEST(it_is_read_as_it_was_written)
{
    struct cadre_bench bench = two;
    bench.window[1].bubble_fraction = 0.25;
    bench.parts = (struct cadre_step_parts){
        .known = true, .part = {0.5}, .exposed = {1, {{"dp", 0.25}}}};
    put(".", &bench);
    bench = get();
    ck_assert(bench.parts.known && bench.parts.part[0] == 0.5);
    ck_assert_str_eq(bench.parts.exposed.of[0].axis, "dp");
    ck_assert_int_eq(bench.warmup, 3);
    ck_assert_int_eq(bench.steps, 4);
    ck_assert_double_eq(bench.tokens, 512);
    ck_assert_double_eq(bench.start_s, 0.1);
    ck_assert(bench.reached && bench.target_step == 0);
    ck_assert_uint_eq(bench.n, 2);
    ck_assert_double_eq(bench.window[0].seconds, 1.0 / 3);
    ck_assert(isnan(bench.window[0].bubble_fraction));
    ck_assert_double_eq(bench.window[0].comm_exposed_s, 0.001);
    ck_assert_double_eq(bench.window[1].bubble_fraction, 0.25);
    ck_assert_double_eq_tol(cadre_bench_step_s(&bench), (1.0 / 3 + 0.5) / 8, 1e-15);
}
END_TEST

START_TEST(what_is_not_known_is_null)
{
    struct cadre_bench bench = two;
    bench.start_s = NAN;
    bench.reached = false;
    bench.window[0].comm_exposed_s = NAN;
    put(".", &bench);
    bench = get();
    ck_assert(isnan(bench.start_s) && isnan(bench.window[0].comm_exposed_s));
    ck_assert(!bench.parts.known);
    ck_assert(!bench.reached);
}
END_TEST

static const char list[] = "[{\"instance\": 0, \"folder\": \"instance-0\"},"
                           " {\"instance\": 1, \"folder\": \"instance-1\"}]";
static const char file[] = "{\"schema_version\": 1, \"instances\": "
                           "[{\"instance\": 0, \"folder\": \"instance-0\"},"
                           " {\"instance\": 1, \"folder\": \"instance-1\"}]}";

/* 2048 tokens in 1/3 s and 1024 in 1 s: 6144 + 1024 a second, so 2048 in 2/7 s. The
 * list alone is how files were before 0.2. */
START_TEST(instances_add_their_tokens_a_second)
{
    struct cadre_bench other = two;
    other.tokens = 256;
    other.start_s = 0.2;
    other.window[0].seconds = 1;
    other.window[0].bubble_fraction = 0.125;
    other.parts.known = true;
    put("instance-0", &two);
    put("instance-1", &other);
    spec_fixture_write(&f, "instances.json", _i ? list : file);
    struct cadre_bench all = get();
    ck_assert_double_eq(all.tokens, 512);
    ck_assert_int_eq(all.steps, 4);
    ck_assert(!all.parts.known);
    ck_assert_double_eq(all.start_s, 0.2);
    ck_assert_double_eq_tol(all.window[0].seconds, 2.0 / 7, 1e-15);
    ck_assert_double_eq(all.window[0].bubble_fraction, 0.125);
    ck_assert(isnan(all.window[1].bubble_fraction));
    ck_assert(all.reached && all.target_step == 0);
}
END_TEST

START_TEST(all_instances_reach_the_target_or_none)
{
    struct cadre_bench first = two, second = two;
    first.target_step = 30;
    second.target_step = 20;
    put("instance-0", &first);
    put("instance-1", &second);
    spec_fixture_write(&f, "instances.json", list);
    ck_assert_int_eq(get().target_step, 30);
    second.reached = false;
    second.target_step = 0;
    put("instance-1", &second);
    ck_assert(!get().reached);
    ck_assert_int_eq(get().target_step, 0);
}
END_TEST

START_TEST(instances_have_the_same_windows)
{
    struct cadre_bench other = two, bench;
    other.n = 1;
    put("instance-0", &two);
    put("instance-1", &other);
    spec_fixture_write(&f, "instances.json", list);
    ck_assert_int_eq(cadre_bench_read(f.dir, &bench, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(
        strstr(f.err.text, "instance-1/bench.json': 1 windows, and the first"));
}
END_TEST

/* The list of a sweep that failed may name a folder without a result. */
START_TEST(an_instance_without_a_result)
{
    struct cadre_bench bench;
    put("instance-0", &two);
    spec_fixture_write(&f, "instances.json", list);
    ck_assert_int_eq(cadre_bench_read(f.dir, &bench, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "instance-1/bench.json' is missing"));
    spec_fixture_write(&f, "instances.json", _i ? "[]" : "{}");
    ck_assert_int_eq(cadre_bench_read(f.dir, &bench, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "lists no instance"));
    spec_fixture_write(&f, "instances.json", "[3]");
    ck_assert_int_eq(cadre_bench_read(f.dir, &bench, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "folder is missing or wrong"));
}
END_TEST

/* A file with one key changed, and what the error names. */
static const struct {
    const char *from, *to, *says;
} damaged[] = {
    {"\"schema_version\": 1", "\"schema_version\": 2",
     "schema_version is missing or wrong"},
    {"\"warmup\": 3", "\"warmup\": -1", "warmup is missing or wrong"},
    {"\"steps\": 4", "\"steps\": 0", "steps is missing or wrong"},
    {"\"steps\"", "\"stops\"", "steps is missing or wrong"},
    {"512", "\"512\"", "tokens is missing or wrong"},
    {"\"start_s\"", "\"start\"", "start_s is missing or wrong"},
    {"true", "1", "reached is missing or wrong"},
    {"\"target_step\"", "\"target\"", "target_step is missing or wrong"},
    {"\"windows\"", "\"window\"", "windows is missing or wrong"},
    {"\"seconds\": 0.5", "\"seconds\": 0", "seconds is missing or wrong"},
    {"\"seconds\": 0.5", "\"seconds\": null", "seconds is missing or wrong"},
    {"\"bubble_fraction\": null", "\"bubble_fraction\": []",
     "bubble_fraction is missing or wrong"},
    {"null", "[]", "step_parts is missing or wrong"},
    {"null", "{\"compute_s\": 1}", "step_parts is missing or wrong"},
    {"0.001", "false", "comm_exposed_s is missing or wrong"},
    {"{", "", "line 2"},
};

START_TEST(a_damaged_file)
{
    struct cadre_bench bench;
    put(".", &two);
    char *text = spec_fixture_read(&f, "bench.json");
    char *at = strstr(text, damaged[_i].from), changed[2000];
    ck_assert_ptr_nonnull(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text,
             damaged[_i].to, at + strlen(damaged[_i].from));
    spec_fixture_write(&f, "bench.json", changed);
    ck_assert_int_eq(cadre_bench_read(f.dir, &bench, &f.err), CADRE_E_INVALID);
    ck_assert_msg(strstr(f.err.text, damaged[_i].says) &&
                      strstr(f.err.text, "/bench.json'"),
                  "%s", f.err.text);
    free(text);
}
END_TEST

START_TEST(a_folder_without_one)
{
    struct cadre_bench bench;
    ck_assert_int_eq(cadre_bench_read(f.dir, &bench, &f.err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "bench.json' is missing"));
}
END_TEST

static const struct {
    const char *config;
    bool made;
} folders[] = {
    {"[bench]\nsteps = 5\n", true},
    {"[BENCH]\nTarget = 2.5\n", true},
    {"[bench]\nsteps = 0\ntarget = 0\n", false},
    {"[train]\nsteps = 5\n", false},
    {"[bench]\nwarmup = 5\n", false},
    {"no ini file", false},
};

START_TEST(folders_of_benchmarks_are_known)
{
    ck_assert(!cadre_bench_made(f.dir));
    spec_fixture_write(&f, "config.ini", folders[_i].config);
    ck_assert_int_eq(cadre_bench_made(f.dir), folders[_i].made);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("run/bench");
    TCase *t = tcase_create("bench");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, it_is_read_as_it_was_written);
    tcase_add_test(t, what_is_not_known_is_null);
    tcase_add_loop_test(t, instances_add_their_tokens_a_second, 0, 2);
    tcase_add_test(t, all_instances_reach_the_target_or_none);
    tcase_add_test(t, instances_have_the_same_windows);
    tcase_add_loop_test(t, an_instance_without_a_result, 0, 2);
    tcase_add_loop_test(t, a_damaged_file, 0, sizeof damaged / sizeof damaged[0]);
    tcase_add_test(t, a_folder_without_one);
    tcase_add_loop_test(t, folders_of_benchmarks_are_known, 0,
                        sizeof folders / sizeof folders[0]);
    suite_add_tcase(s, t);
    return s;
}
