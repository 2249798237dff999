/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the loss of a rank, without ranks: the choice of a stack, when a run is
 * given up, and what the next start is told. */
#include <stdlib.h>
#include <string.h>

#include "core/train/elastic.h"
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

/* A stack of processes, and what it becomes with so many ranks; NULL: none is left, and
 * the error has `says`. The model has 2 blocks, 2 heads, and 4 micro-batches. */
static const struct {
    const char *sets, *after, *says;
    int ranks;
} choices[] = {
    {"strategy.stack=ddp:4", "ddp:2", NULL, 3},
    {"strategy.stack=ddp:4", "ddp:2", NULL, 2},
    {"strategy.stack=ddp:4", "ddp:1", NULL, 1},
    {"strategy.stack=ddp:4", NULL, "no rank is left", 0},
    {"strategy.stack=zero:4 zero.stage=3", "zero:2", NULL, 3},
    /* 6 micro-batches: exact mode wants 1, 2, 4, ... of them on each of several ranks
     */
    {"strategy.stack=ddp:6 train.global_batch=12", "ddp:3", NULL, 5},
    {"strategy.stack=ddp:6 train.global_batch=12", "ddp:2", NULL, 2},
    {"strategy.stack=ddp:6 train.global_batch=12 run.exact=yes", "ddp:3", NULL, 5},
    {"strategy.stack=ddp:6 train.global_batch=12 run.exact=yes", "ddp:1", NULL, 2},
    /* what is no data axis is kept, while it can be */
    {"strategy.stack=pipeline:2,ddp:2", "pipeline:2, ddp:1", NULL, 3},
    {"strategy.stack=ddp:2,tensor:2", "ddp:1, tensor:2", NULL, 3},
    {"strategy.stack=tensor:2,zero:4", "tensor:2, zero:2", NULL, 7},
    {"strategy.stack=pipeline:2,ddp:2", "pipeline:1, ddp:1", NULL, 1},
    {"strategy.stack=pipeline:2,tensor:2", "pipeline:2, tensor:1", NULL, 3},
    {"strategy.stack=pipeline:4,ddp:2 model.layers=4", "pipeline:3, ddp:1", NULL, 3},
    {"strategy.stack=pipeline:2", "pipeline:1", NULL, 1},
    /* cut by hand for two stages: with one the list does not fit */
    {"strategy.stack=pipeline:2 pipeline.balance=2\t2", NULL, "pipeline.balance", 1},
};

START_TEST(a_smaller_stack)
{
    char sets[256], *text = NULL;
    struct cadre_error err = {0};
    snprintf(sets, sizeof sets, "comm.ranks=processes %s", choices[_i].sets);
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    cadre_status rc = cadre_elastic_choose(spec, choices[_i].ranks, &text, &err);
    if (choices[_i].after) {
        ck_assert_msg(rc == CADRE_OK, "%s: %s", choices[_i].sets, err.text);
        ck_assert_str_eq(text, choices[_i].after);
    } else {
        ck_assert_int_eq(rc, CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, choices[_i].says) != NULL, "%s", err.text);
    }
    free(text);
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("train/elastic");
    TCase *t = tcase_create("elastic");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_smaller_stack, 0, sizeof choices / sizeof choices[0]);
    suite_add_tcase(s, t);
    return s;
}
