/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/data/tokenizer/bpe.h"
#include "tests/support/check_main.h"

/* Ids below 8 merge by a table: cost[left][right] < 0 says never. */
struct table {
    int cost[64][64];
    int merged[64][64];
};

static bool find(const void *context, int32_t left, int32_t right, double *cost,
                 int32_t *merged)
{
    const struct table *table = context;
    *cost = table->cost[left][right];
    *merged = table->merged[left][right];
    return table->cost[left][right] >= 0;
}

/* The definition: scan for the cheapest pair, leftmost first, until none is left. */
static size_t merge_by_scan(const struct table *table, int32_t *ids, size_t n)
{
    for (;;) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++) {
            int cost = table->cost[ids[i]][ids[i + 1]];
            if (cost >= 0 &&
                (best == n || cost < table->cost[ids[best]][ids[best + 1]]))
                best = i;
        }
        if (best == n)
            return n;
        ids[best] = table->merged[ids[best]][ids[best + 1]];
        memmove(&ids[best + 1], &ids[best + 2], (n - best - 2) * sizeof *ids);
        n--;
    }
}

START_TEST(equals_the_definition)
{
    static struct table table;
    struct cadre_bpe_scratch scratch = {0};
    struct cadre_bpe_rule rule = {find, &table};
    unsigned state = 7;
    for (int round = 0; round < 300; round++) {
        int32_t ids[200] = {0}, want[200] = {0};
        size_t n = (size_t)(round % 200);
        for (int a = 0; a < 64; a++)
            for (int b = 0; b < 64; b++) {
                state = state * 1664525u + 1013904223u;
                table.cost[a][b] = (state >> 16) % 3 ? -1 : (int)((state >> 8) % 50);
                table.merged[a][b] = (int)((state >> 20) % 64);
            }
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            ids[i] = want[i] = (int32_t)((state >> 20) % 8);
        }
        size_t count = n, want_count = merge_by_scan(&table, want, n);
        ck_assert_int_eq(cadre_bpe_merge(&rule, &scratch, ids, &count), CADRE_OK);
        ck_assert_uint_eq(count, want_count);
        ck_assert_mem_eq(ids, want, count * sizeof *ids);
    }
    cadre_bpe_scratch_fini(&scratch);
}
END_TEST

START_TEST(long_words_take_no_quadratic_time)
{
    static struct table table;
    struct cadre_bpe_scratch scratch = {0};
    struct cadre_bpe_rule rule = {find, &table};
    size_t n = 1 << 21, count = n;
    int32_t *ids = malloc(n * sizeof *ids);
    memset(&table, 0xff, sizeof table);
    for (int level = 0; level < 21; level++) {
        table.cost[level][level] = level;
        table.merged[level][level] = level + 1;
    }
    memset(ids, 0, n * sizeof *ids);
    ck_assert_int_eq(cadre_bpe_merge(&rule, &scratch, ids, &count), CADRE_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(ids[0], 21);
    free(ids);
    cadre_bpe_scratch_fini(&scratch);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("bpe");
    TCase *tc = tcase_create("bpe");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, equals_the_definition);
    tcase_add_test(tc, long_words_take_no_quadratic_time);
    suite_add_tcase(suite, tc);
    return suite;
}
