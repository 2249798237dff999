/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/site.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/cores.h"
#include "core/launch/launch.h"
#include "tests/support/check_main.h"

START_TEST(nothing_is_counted_twice)
{
    const struct cadre_site_rank seen[] = {
        {"n1", "fast", 11, 4, 7}, {"n1", "fast", 11, 4, 7}, {"n1", "fast", 12, 2, 8},
        {"n2", "fast", 21, 4, 7}, {"n3", "slow", 31, 8, 9},
    };
    struct cadre_site site = {0};
    ck_assert_int_eq(cadre_site_of(seen, 5, &site), CADRE_OK);
    ck_assert_int_eq(site.n_hosts, 3);
    ck_assert_str_eq(site.host[2], "n3");
    ck_assert_str_eq(site.cpu, "fast");
    ck_assert_int_eq(site.kinds, 2);
    ck_assert_int_eq(site.processes, 4);
    ck_assert_int_eq(site.cores, 4 + 2 + 4 + 8);

    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_json_init_text(&json, &text, false);
    cadre_site_write(&site, &json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    ck_assert_msg(strstr(cadre_text_str(&text), "\"n1\"") &&
                      strstr(cadre_text_str(&text), "\"cores\"") &&
                      strstr(cadre_text_str(&text), "18"),
                  "%s", cadre_text_str(&text));
    cadre_text_fini(&text);
    cadre_site_fini(&site);
    cadre_site_fini(&site);
}
END_TEST

enum { RANKS = 3 };
static struct cadre_site found[RANKS];

static cadre_status one_rank(void *arg, int index, struct cadre_local_segment *segment)
{
    struct cadre_rank *rank = calloc(1, sizeof *rank);
    struct cadre_error err = {0};
    rank->index = index;
    rank->mesh.ranks = RANKS;
    cadre_status rc = cadre_local_open(segment, index, &rank->world, &err);
    if (rc == CADRE_OK) {
        rc = cadre_site_gather(rank, &found[index], &err);
        cadre_comm_destroy(rank->world);
    }
    free(rank);
    return rc;
}

START_TEST(threads_share_their_cores)
{
    const struct cadre_local_config config = {.size = RANKS, .timeout_s = 30};
    struct cadre_error err = {0};
    cadre_status rc = cadre_launch_threads(&config, NULL, one_rank, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    for (int i = 0; i < RANKS; i++) {
        ck_assert_int_eq(found[i].n_hosts, 1);
        ck_assert_int_eq(found[i].kinds, 1);
        ck_assert_int_eq(found[i].processes, 1);
        ck_assert_int_eq(found[i].cores, cadre_cores());
        ck_assert_uint_gt(strlen(found[i].host[0]), 0);
        cadre_site_fini(&found[i]);
    }
}
END_TEST

START_TEST(one_rank_asks_nobody)
{
    struct cadre_rank *rank = calloc(1, sizeof *rank);
    struct cadre_site site = {0};
    struct cadre_error err = {0};
    rank->mesh.ranks = 1;
    ck_assert_int_eq(cadre_site_gather(rank, &site, &err), CADRE_OK);
    ck_assert_int_eq(site.cores, cadre_cores());
    cadre_site_fini(&site);
    free(rank);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("site");
    TCase *tc = tcase_create("site");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, nothing_is_counted_twice);
    tcase_add_test(tc, threads_share_their_cores);
    tcase_add_test(tc, one_rank_asks_nobody);
    suite_add_tcase(suite, tc);
    return suite;
}
