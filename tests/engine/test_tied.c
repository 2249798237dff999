/* SPDX-License-Identifier: Apache-2.0 */
/* Weights with two uses, on one stage; tests/cli/test_train_schedule.sh has two. */
#include <stdlib.h>
#include <string.h>

#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;

static void setup(void)
{
    rank_fixture_open(&f);
    f.spec.model.dtype = CADRE_F64;
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

/* A tied head's gradient is added to its owner's once. */
START_TEST(tied_gradients_are_added_once)
{
    rank_fixture_start(&f);
    rank_fixture_step(&f, 1);
    uint32_t tied = f.rank.model->n_params - 1;
    while (f.rank.model->params[tied].tied_to < 0)
        tied--;
    uint32_t owner = (uint32_t)f.rank.model->params[tied].tied_to;
    uint64_t count = f.rank.store.param[owner].count;
    double *sum = malloc(count * sizeof *sum);
    memcpy(sum, f.rank.store.param[owner].grad, count * sizeof *sum);
    /* a row of a token that is in no input has the head's gradient alone */
    const double *head = f.rank.store.param[tied].grad;
    for (uint64_t e = 0; e < 16; e++) {
        ck_assert_double_eq(sum[1 * 16 + e], head[1 * 16 + e]);
        ck_assert_double_ne(sum[' ' * 16 + e], head[' ' * 16 + e]);
    }
    free(sum);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("tied");
    TCase *tc = tcase_create("tied");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, tied_gradients_are_added_once);
    suite_add_tcase(suite, tc);
    return suite;
}
