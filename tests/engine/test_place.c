/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/place.h"

#include <stdio.h>
#include <string.h>

#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

/* Without a plugin that asks, no plan is made. */
START_TEST(no_requests_cost_nothing)
{
    struct cadre_run_spec spec = {.ranks = 4};
    struct cadre_places places;
    const struct cadre_places_request request = {.spec = &spec};
    ck_assert_int_eq(cadre_places_collect(&places, &request, NULL), CADRE_OK);
    ck_assert_ptr_null(places.rank);
    ck_assert_int_eq(cadre_places_check(&request, NULL), CADRE_OK);
    cadre_places_fini(&places);
    cadre_places_fini(&places);
}
END_TEST

/* A plugin that sets a different variable for each rank. */
static cadre_status name_rank(struct cadre_self *self, const struct cadre_place *p)
{
    char value[16];
    (void)self;
    snprintf(value, sizeof value, "%u", p->rank);
    return p->env(p->h, "SHARED_NAME", value);
}

/* Another, with the same variable; it ignores refusals. */
static cadre_status name_all(struct cadre_self *self, const struct cadre_place *p)
{
    (void)self;
    p->env(p->h, "SHARED_NAME", "0");
    return CADRE_OK;
}

static cadre_status fail_silently(struct cadre_self *self, const struct cadre_place *p)
{
    (void)self;
    return p->rank == 1 ? CADRE_E_RESOURCE : CADRE_OK;
}

START_TEST(every_rank_is_asked)
{
    const struct cadre_strategy_ops first = {.place = name_rank};
    const struct cadre_strategy_ops second = {.place = _i == 1   ? name_all
                                                       : _i == 2 ? fail_silently
                                                                 : NULL};
    struct rank_fixture f;
    struct cadre_places places;
    struct cadre_error err = {0};
    rank_fixture_open(&f);
    rank_fixture_plug(&f, "first", CADRE_ROLE_PLACEMENT, 2, &first);
    rank_fixture_plug(&f, "second", CADRE_ROLE_OBSERVER, 1, &second);
    const struct cadre_places_request request = {.spec = &f.spec, .processes = true};
    cadre_status rc = cadre_places_collect(&places, &request, &err);
    ck_assert_int_eq(rc, _i == 0   ? CADRE_OK
                         : _i == 1 ? CADRE_E_INVALID
                                   : CADRE_E_RESOURCE);
    ck_assert_str_eq(places.rank[0].variable[0], "SHARED_NAME=0");
    ck_assert_str_eq(places.rank[1].variable[0], "SHARED_NAME=1");
    ck_assert(!places.rank[0].pinned && !places.rank[1].pinned);
    if (_i == 1) /* on rank 0 they agree */
        ck_assert_msg(strstr(err.text, "plugins 'first' and 'second' set the variable "
                                       "SHARED_NAME of rank 1 to different"),
                      "%s", err.text);
    if (_i == 2)
        ck_assert_msg(strstr(err.text, "plugin 'second' failed in place"), "%s",
                      err.text);
    cadre_places_fini(&places);
    ck_assert_ptr_null(places.rank);
    rank_fixture_close(&f);
}
END_TEST

/* Ranks 0 and 1 share CPUs 0 to 4, rank 2 has CPU 5, ranks 3 to 5 share CPU 6. */
START_TEST(threads_follow_the_cpus)
{
    static const int first[] = {0, 0, 5, 6, 6, 6}, n[] = {5, 5, 1, 1, 1, 1};
    static const int want[] = {2, 2, 1, 1, 1, 1};
    struct cadre_launch_place rank[6] = {0};
    struct cadre_places places = {.ranks = 6, .rank = rank};
    for (int r = 0; r < 6; r++) {
        CPU_ZERO(&rank[r].cpus);
        rank[r].pinned = true;
        for (int c = 0; c < n[r]; c++)
            CPU_SET((size_t)(first[r] + c), &rank[r].cpus);
    }
    rank[5].pinned = false; /* one of them anywhere: nothing is known */
    cadre_places_count_threads(&places);
    for (int r = 0; r < 6; r++)
        ck_assert_int_eq(rank[r].threads, 0);
    rank[5].pinned = true;
    cadre_places_count_threads(&places);
    for (int r = 0; r < 6; r++) {
        ck_assert_int_eq(rank[r].threads, want[r]);
        rank[r].threads = 0;
    }
    places = (struct cadre_places){.ranks = 2, .rank = rank}; /* sets of one size */
    cadre_places_count_threads(&places);
    ck_assert_int_eq(rank[0].threads, 0);
    places = (struct cadre_places){.ranks = 2}; /* nobody has requests */
    cadre_places_count_threads(&places);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("place");
    TCase *tc = tcase_create("place");
    tcase_add_test(tc, no_requests_cost_nothing);
    tcase_add_loop_test(tc, every_rank_is_asked, 0, 3);
    tcase_add_test(tc, threads_follow_the_cpus);
    suite_add_tcase(suite, tc);
    return suite;
}
