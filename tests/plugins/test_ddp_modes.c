/* SPDX-License-Identifier: Apache-2.0 */
/* What ddp's modes of compression tell the core: memory, sums, by design; what they
 * refuse. */
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_ranks.h"

static const struct cadre_plugin_handle *ddp;
static struct fake_ranks all;

static const char *const modes[] = {"bf16",       "fp16",       "int8",
                                    "topk:1",     "topk:0.1",   "topk:0.0001",
                                    "powersgd:1", "powersgd:3", "onebit:1"};
enum { MODES = sizeof modes / sizeof *modes };

#define N_PARAMS 3

static double uneven(const struct fake_host *fake, cadre_param_id id, uint64_t i)
{
    return (double)((i * 31 + id * 7 + (uint64_t)fake->axis.index) % 101) - 50;
}

static void setup(void)
{
    ddp = built_plugin_load("ddp");
}

/* Two matrices and a vector between them on n ranks. */
static void open_ranks(const char *mode, int n, uint32_t dtype)
{
    static const uint64_t counts[N_PARAMS] = {40 * 30, 77, 20 * 33};
    static const uint64_t columns[N_PARAMS] = {30, 0, 33};
    struct fake_host *first = &all.rank[0];
    fake_ranks_init(&all, &ddp->ops, n, N_PARAMS);
    first->dtype = dtype;
    first->gradient = uneven;
    for (int id = 0; id < N_PARAMS; id++) {
        first->entry[id].count = counts[id];
        first->entry[id].columns = columns[id];
    }
    fake_set(first, "overlap", "yes");
    fake_set(first, "bucket_mb", "1");
    fake_set(first, "compress", "%s", mode);
    fake_set(first, "level", "0");
    fake_set(first, "node", "0");
}

static void start(void)
{
    cadre_status rc = fake_ranks_start(&all);
    ck_assert_msg(rc == CADRE_OK, "%s", all.rank[0].failure);
}

/* Storage that is not contiguous makes a bucket of each gradient, for which the memory
 * that was announced must do. */
START_TEST(memory_is_enough_for_any_buckets)
{
    for (int n = 2; n <= 4; n++) {
        open_ranks(modes[_i / 2], n, _i % 2 ? CADRE_F64 : CADRE_F32);
        for (int id = 0; id < N_PARAMS; id++)
            all.rank[0].entry[id].separate = true;
        start();
        fake_ranks_step(&all);
        fake_ranks_step(&all); /* onebit compresses from the second on */
        ck_assert(fake_ranks_same(&all));
        fake_ranks_fini(&all);
    }
}
END_TEST

/* The sum is there when it is reported, not before; a frozen gradient is not sent. */
START_TEST(sums_are_reported_when_they_are_decompressed)
{
    open_ranks(modes[_i], 2, CADRE_F32);
    all.rank[0].entry[1].frozen = true;
    start();
    fake_ranks_step(&all);
    fake_ranks_step(&all);
    ck_assert(fake_ranks_same(&all));
    for (int r = 0; r < all.n; r++)
        for (uint32_t id = 0; id < N_PARAMS; id++) {
            const struct fake_entry *entry = &all.rank[r].entry[id];
            ck_assert_uint_eq(entry->reports, id != 1 ? 2 : 0);
            ck_assert(id == 1 || entry->sum_ready == FAKE_NOW);
        }
    fake_ranks_fini(&all);
}
END_TEST

START_TEST(another_training_by_design_is_said)
{
    open_ranks(modes[_i], 2, CADRE_F32);
    start();
    ck_assert_str_eq(all.rank[0].by_design, strcmp(modes[_i], "onebit:1") == 0
                                                ? "compress=onebit:1000000000"
                                                : "compress=none");
    fake_ranks_fini(&all);
}
END_TEST

START_TEST(wrong_values_are_refused)
{
    static const struct {
        const char *compress, *text;
    } cases[] = {
        {"int9", "ddp.compress: expected none, bf16, fp16, int8, topk:R"},
        {"", "found ''"},
        {"topk", "found 'topk'"},
        {"bf16:2", "found 'bf16:2'"},
        {"topk:", "ddp.compress = topk:: expected a ratio above 0 and at most 1"},
        {"topk:0", "ddp.compress = topk:0: expected a ratio"},
        {"topk:2", "ddp.compress = topk:2: expected a ratio"},
        {"topk:-1", "ddp.compress = topk:-1: expected a ratio"},
        {"topk:nan", "ddp.compress = topk:nan: expected a ratio"},
        {"topk:0.1x", "expected a ratio"},
        {"powersgd:0", "ddp.compress = powersgd:0: expected a whole rank from 1 to"},
        {"powersgd:1.5", "expected a whole rank"},
        {"powersgd:1e9", "expected a whole rank"},
        {"powersgd:", "expected a whole rank"},
        {"onebit", "found 'onebit'"},
        {"onebit:0",
         "ddp.compress = onebit:0: expected a whole number of warm-up steps"},
        {"onebit:1.5", "expected a whole number of warm-up steps"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_ranks(cases[i].compress, 2, CADRE_F32);
        ck_assert_int_eq(fake_ranks_start(&all), CADRE_E_INVALID);
        ck_assert_msg(strstr(all.rank[0].failure, cases[i].text), "'%s' says '%s'",
                      cases[i].compress, all.rank[0].failure);
        fake_ranks_fini(&all);
    }
}
END_TEST

/* Nobody reduces after moments. */
START_TEST(onebit_takes_no_level)
{
    open_ranks("onebit:1", 2, CADRE_F32);
    start();
    ck_assert_ptr_nonnull(strstr(all.rank[0].claims, "reduces@dp/254"));
    fake_ranks_stop(&all);
    fake_set(&all.rank[0], "level", "1");
    ck_assert_int_eq(fake_ranks_start(&all), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(all.rank[0].failure, "ddp.level = 1 with"));
    fake_ranks_fini(&all);
}
END_TEST

/* It says so in each step that it compresses, with the age of the second moments. */
START_TEST(onebit_holds_the_second_moments)
{
    open_ranks("onebit:2", 2, CADRE_F32);
    start();
    for (uint64_t step = 1; step <= 4; step++) {
        all.rank[1].held = 0;
        fake_ranks_step(&all);
        ck_assert_uint_eq(all.rank[1].held, step > 2 ? 2 : 0);
    }
    fake_ranks_fini(&all);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("ddp modes");
    TCase *tc = tcase_create("modes");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, memory_is_enough_for_any_buckets, 0, 2 * MODES);
    tcase_add_loop_test(tc, sums_are_reported_when_they_are_decompressed, 0, MODES);
    tcase_add_loop_test(tc, another_training_by_design_is_said, 0, MODES);
    tcase_add_test(tc, wrong_values_are_refused);
    tcase_add_test(tc, onebit_takes_no_level);
    tcase_add_test(tc, onebit_holds_the_second_moments);
    suite_add_tcase(s, tc);
    return s;
}
