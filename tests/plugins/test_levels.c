/* SPDX-License-Identifier: Apache-2.0 */
/* ddp.node against a fake host. The sums of two levels are trained with in
 * tests/cli/test_train_levels.sh. */
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

static const struct cadre_plugin_handle *ddp;
static struct fake_host fake;

static void setup(void)
{
    ddp = built_plugin_load("ddp");
    fake_init(&fake, &ddp->ops, 40);
    fake_set(&fake, "bucket_mb", "0.004");
    fake_set(&fake, "overlap", "yes");
    fake_set(&fake, "compress", "none");
    fake_set(&fake, "level", "0");
}

static void teardown(void)
{
    fake_fini(&fake);
}

START_TEST(nodes_that_do_not_fit_are_refused)
{
    fake.axis.size = 6;
    fake_set(&fake, "node", "4");
    ck_assert_int_eq(fake_start(&fake), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(
        strstr(fake.failure, "ddp.node = 4 does not divide the 6 ranks along 'dp'"));
    fake_set_service(&fake, CADRE_SERVICE_OPS, &fake_ops);
    fake_set(&fake, "node", "3");
    fake_set(&fake, "compress", "int8");
    ck_assert_int_eq(fake_start(&fake), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(fake.failure, "ddp.compress = int8"));
}
END_TEST

/* Where all ranks are one node, or each is one, one sum over all is the same. */
START_TEST(one_level_is_summed_at_once)
{
    static const char *const node[] = {"0", "1", "2", "8"};
    fake_set(&fake, "node", "%s", node[_i]);
    cadre_status rc = fake_start(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_gt(fake.posts, 0);
    for (int i = 0; i < fake.posts; i++)
        ck_assert_uint_eq(fake.post[i].kind, FAKE_ALL_REDUCE);
    for (uint32_t i = 0; i < fake.n_entries; i++)
        ck_assert_uint_eq(fake_wrong(&fake, i, 2), 0);
    fake_stop(&fake);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("plugins/levels");
    TCase *tc = tcase_create("levels");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nodes_that_do_not_fit_are_refused);
    tcase_add_loop_test(tc, one_level_is_summed_at_once, 0, 4);
    suite_add_tcase(suite, tc);
    return suite;
}
