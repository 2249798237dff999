/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks run, for whom, and that together they stand for every rank once. */
#include "core/simulate/representatives.h"

#include "tests/support/check_main.h"

static struct cadre_mesh mesh;
static struct cadre_representatives few;

/* Of pp:5, tp:6, dp:8 every stage runs. */
static void setup(void)
{
    const struct cadre_axis_request axes[] = {
        {"pp", 5, "pipeline"}, {"tp", 6, "tensor"}, {"dp", 8, "ddp"}};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_mesh_init(&mesh, axes, 3, 0, &err), CADRE_OK);
    const struct cadre_representatives_limits limits = {
        .apart = cadre_mesh_axis(&mesh, "pp"), .node = 8};
    ck_assert_int_eq(cadre_representatives_of(&mesh, &limits, &few, &err), CADRE_OK);
}

static void teardown(void)
{
    cadre_representatives_fini(&few);
    cadre_mesh_fini(&mesh);
}

START_TEST(every_rank_has_one)
{
    int stand = 0;
    ck_assert_int_eq(few.ranks, 240);
    ck_assert_int_eq(few.n, 5 * 4 * 4);
    ck_assert_int_eq(few.n_thinned, 2);
    for (int i = 0; i < few.n; i++) {
        ck_assert_int_eq(cadre_representative(&few, few.rank[i]), few.rank[i]);
        ck_assert_uint_eq(cadre_representatives_parts(&few, few.rank[i]), 0);
        ck_assert(i == 0 || few.rank[i] > few.rank[i - 1]);
        int of = 0;
        for (int r = 0; r < few.ranks; r++)
            of += cadre_representative(&few, r) == few.rank[i];
        ck_assert_int_eq(cadre_represented(&few, few.rank[i]), of);
        stand += of;
    }
    ck_assert_int_eq(stand, few.ranks);
}
END_TEST

/* Rank (pp, tp, dp) is 48 pp + 8 tp + dp; 0, 1, the middle and the last run. */
START_TEST(coordinates)
{
    ck_assert_int_eq(cadre_representative(&few, 48 + 8 * 2 + 5), 48 + 8 * 1 + 1);
    ck_assert_int_eq(cadre_representative(&few, 8 * 3 + 4), 8 * 3 + 4);
    ck_assert_int_eq(cadre_representative(&few, 8 * 5 + 6), 8 * 5 + 1);
    ck_assert_uint_eq(cadre_representatives_parts(&few, 8 * 2 + 5), 3);
    const unsigned dp = few.thinned[0].stride == 1 ? 1 : 2;
    ck_assert_uint_eq(cadre_representatives_parts(&few, 8 * 5 + 6), dp);
    ck_assert_int_eq(cadre_represented(&few, 8 * 1 + 1), 3 * 5);
    ck_assert_int_eq(cadre_represented(&few, 1), 5);
    ck_assert_int_eq(cadre_represented(&few, 0), 1);
}
END_TEST

START_TEST(fewer_represent)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_representatives_drop(&few, 1, &err), CADRE_OK);
    ck_assert_int_eq(few.n_thinned, 1);
    ck_assert(few.n == 5 * 4 * 8 || few.n == 5 * 6 * 4);
    ck_assert_int_eq(cadre_representatives_drop(&few, UINT32_MAX, &err), CADRE_OK);
    ck_assert_int_eq(few.n, few.ranks);
    for (int r = 0; r < few.ranks; r++)
        ck_assert_int_eq(cadre_represented(&few, r), 1);
}
END_TEST

START_TEST(short_axes_run_whole)
{
    const struct cadre_axis_request axes[] = {{"tp", 4, "tensor"}, {"dp", 3, "ddp"}};
    struct cadre_error err = {0};
    struct cadre_mesh small;
    struct cadre_representatives all;
    ck_assert_int_eq(cadre_mesh_init(&small, axes, 2, 0, &err), CADRE_OK);
    const struct cadre_representatives_limits none = {.node = 12};
    ck_assert_int_eq(cadre_representatives_of(&small, &none, &all, &err), CADRE_OK);
    ck_assert_int_eq(all.n, 12);
    cadre_representatives_fini(&all);
    all = (struct cadre_representatives){.ranks = 7};
    ck_assert_int_eq(cadre_representatives_drop(&all, 0, &err), CADRE_OK);
    ck_assert_int_eq(all.n, 7);
    ck_assert_int_eq(cadre_representative(&all, 5), 5);
    cadre_representatives_fini(&all);
    cadre_mesh_fini(&small);
}
END_TEST

/* Groups of tp lie on one node or on two, by their coordinate along dp. */
START_TEST(nodes_and_shares)
{
    const struct cadre_axis_request axes[] = {{"dp", 16, "ddp"}, {"tp", 6, "tensor"}};
    struct cadre_representatives_limits limits = {.node = 8};
    struct cadre_error err = {0};
    struct cadre_mesh two;
    struct cadre_representatives some;
    ck_assert_int_eq(cadre_mesh_init(&two, axes, 2, 0, &err), CADRE_OK);
    const struct {
        int64_t node;
        bool samples;
        int n;
    } row[] = {{8, false, 96},  {96, false, 16}, {6, false, 16},
               {12, false, 16}, {3, false, 16},  {6, true, 64}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        two.axis[0].split_batch = true;
        limits.node = row[i].node;
        limits.samples = row[i].samples;
        ck_assert_int_eq(cadre_representatives_of(&two, &limits, &some, &err),
                         CADRE_OK);
        ck_assert_msg(some.n == row[i].n, "row %zu: %d", i, some.n);
        cadre_representatives_fini(&some);
    }
    cadre_mesh_fini(&two);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("representatives");
    TCase *t = tcase_create("representatives");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, every_rank_has_one);
    tcase_add_test(t, coordinates);
    tcase_add_test(t, fewer_represent);
    tcase_add_test(t, short_axes_run_whole);
    tcase_add_test(t, nodes_and_shares);
    suite_add_tcase(suite, t);
    return suite;
}
