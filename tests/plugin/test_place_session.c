/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/place_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_place_session session;

/* A session of rank 3, as `plugin`, in a process that may use CPUs 2, 4, 5 and 6; a
 * process started by an external launcher has 2 and 4 of them. */
static const struct cadre_place *begin_as(bool processes, bool external)
{
    cpu_set_t two;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(2, &own);
    for (int cpu = 4; cpu < 7; cpu++)
        CPU_SET(cpu, &own);
    CPU_ZERO(&two);
    CPU_SET(2, &two);
    CPU_SET(4, &two);
    const struct cadre_place_facts facts = {
        .rank = 3,
        .ranks = 4,
        .local_ranks = external ? 0 : 4,
        .threads = 5,
        .processes = processes,
        .external = external,
        .gpu = true,
        .own = external ? &two : &own,
        .may = &own,
    };
    cadre_place_session_init(&session, &facts);
    session.plugin = "alpha";
    return &session.abi;
}

static const struct cadre_place *begin(bool processes)
{
    return begin_as(processes, false);
}

static void end(void)
{
    for (int i = 0; session.variable[i]; i++)
        free(session.variable[i]);
}

static void refused(cadre_status rc, const char *text)
{
    ck_assert_int_eq(rc, CADRE_E_INVALID);
    ck_assert_int_eq(session.said.code, rc);
    ck_assert_msg(strstr(session.said.text, text), "'%s' lacks '%s'", session.said.text,
                  text);
}

START_TEST(requests_are_kept)
{
    const struct cadre_place *p = begin(true);
    const uint32_t cpus[] = {6, 2, 6};
    ck_assert_uint_eq(p->rank, 3);
    ck_assert_int_eq(p->env(p->h, "ONE", "1"), CADRE_OK);
    ck_assert_int_eq(p->env(p->h, "ONE_MORE", ""), CADRE_OK);
    ck_assert_int_eq(p->cpus(p->h, cpus, 3), CADRE_OK);
    ck_assert_str_eq(session.variable[0], "ONE=1");
    ck_assert_str_eq(session.variable[1], "ONE_MORE=");
    ck_assert_ptr_null(session.variable[2]);
    ck_assert(session.pinned && CPU_COUNT(&session.cpus) == 2);
    ck_assert(CPU_ISSET(2, &session.cpus) && CPU_ISSET(6, &session.cpus));
    end();
}
END_TEST

START_TEST(equal_requests_of_two_agree)
{
    const struct cadre_place *p = begin(true);
    const uint32_t cpus[] = {4, 5}, again[] = {5, 4};
    p->env(p->h, "ONE", "1");
    p->cpus(p->h, cpus, 2);
    session.plugin = "beta";
    ck_assert_int_eq(p->env(p->h, "ONE", "1"), CADRE_OK);
    ck_assert_int_eq(p->cpus(p->h, again, 2), CADRE_OK);
    ck_assert_ptr_null(session.variable[1]);
    end();
}
END_TEST

START_TEST(different_requests_name_both)
{
    const struct cadre_place *p = begin(true);
    const uint32_t cpus[] = {4, 5};
    p->env(p->h, "ONE", "1");
    session.plugin = "beta";
    refused(p->env(p->h, "ONE", "2"),
            "plugins 'alpha' and 'beta' set the variable ONE of rank 3 to different");
    /* the first refusal is kept, further requests are ignored */
    refused(p->env(p->h, "TWO", "2"), "variable ONE");
    refused(p->cpus(p->h, cpus, 2), "variable ONE");
    ck_assert(!session.pinned);
    end();
    p = begin(true);
    p->cpus(p->h, cpus, 2);
    session.plugin = "beta";
    refused(p->cpus(p->h, cpus, 1),
            "plugins 'alpha' and 'beta' put rank 3 on different CPUs");
    end();
}
END_TEST

START_TEST(variables_that_cannot_be)
{
    static const char *const names[] = {NULL, "", "A=B", "1A", "A B", "\n"};
    for (size_t i = 0; i < 6; i++) {
        const struct cadre_place *p = begin(true);
        refused(p->env(p->h, names[i], "x"), "expected a name of letters");
        end();
    }
    const struct cadre_place *p = begin(true);
    refused(p->env(p->h, "A", NULL), "and a value");
    p = begin(true);
    refused(p->env(p->h, "CADRE_RANK", "0"), "the program's own");
    p = begin(false);
    refused(p->env(p->h, "A", "0"), "needs comm.ranks = processes");
}
END_TEST

START_TEST(more_variables_than_are_kept)
{
    const struct cadre_place *p = begin(true);
    char name[16];
    for (int i = 0; i < CADRE_PLACE_VARIABLES; i++) {
        snprintf(name, sizeof name, "V%d", i);
        ck_assert_int_eq(p->env(p->h, name, "x"), CADRE_OK);
    }
    refused(p->env(p->h, "W", "x"), "has 64 variables already");
    ck_assert_ptr_null(session.variable[CADRE_PLACE_VARIABLES]);
    end();
}
END_TEST

START_TEST(cpus_that_are_not_there)
{
    static const uint32_t bad[] = {0, 3, 7, CPU_SETSIZE, UINT32_MAX};
    for (size_t i = 0; i < 5; i++) {
        const struct cadre_place *p = begin(false);
        refused(p->cpus(p->h, &bad[i], 1), "but this process may use only 2,4-6;");
        ck_assert(!session.pinned);
    }
    const struct cadre_place *p = begin(false);
    refused(p->cpus(p->h, NULL, 0), "on no CPU: expected");
}
END_TEST

/* What the plugin is given. */
START_TEST(places_are_described)
{
    static const uint32_t cpus[] = {2, 4, 5, 6};
    const struct cadre_place *p = begin_as(false, _i == 1);
    ck_assert_uint_eq(p->struct_size, sizeof *p);
    ck_assert_uint_eq(p->ranks, 4);
    ck_assert_uint_eq(p->local_ranks, _i == 1 ? 0 : 4);
    ck_assert_uint_eq(p->gpu, 1);
    ck_assert_uint_eq(p->external, _i == 1);
    ck_assert_uint_eq(p->threads, 5);
    ck_assert_uint_eq(p->n_cpus, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(p->cpu[i], cpus[i]);
}
END_TEST

/* The launcher has already set the rank's environment and CPUs. */
START_TEST(requests_of_external_ranks_are_compared)
{
    const uint32_t cpus[] = {4, 5, 2}, others[] = {4, 5};
    const struct cadre_place *p = begin_as(false, true);
    setenv("PLACE_TEST", "1", 1);
    unsetenv("PLACE_OTHER");
    ck_assert_int_eq(p->env(p->h, "PLACE_TEST", "1"), CADRE_OK);
    ck_assert_int_eq(p->cpus(p->h, cpus, 3), CADRE_OK);
    ck_assert(!session.pinned && !session.variable[0]);
    refused(p->env(p->h, "PLACE_TEST", "2"),
            "plugin 'alpha' wants PLACE_TEST=2 for rank 3, which was started by "
            "an external launcher with 1;");
    p = begin_as(false, true);
    refused(p->env(p->h, "PLACE_OTHER", "2"), "by an external launcher with none;");
    p = begin_as(false, true);
    refused(p->cpus(p->h, others, 2), "wants rank 3 on CPUs 4-5, but it was started "
                                      "by an external launcher on CPUs 2,4;");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("place_session");
    TCase *tc = tcase_create("place_session");
    tcase_add_test(tc, requests_are_kept);
    tcase_add_test(tc, equal_requests_of_two_agree);
    tcase_add_test(tc, different_requests_name_both);
    tcase_add_test(tc, variables_that_cannot_be);
    tcase_add_test(tc, more_variables_than_are_kept);
    tcase_add_test(tc, cpus_that_are_not_there);
    tcase_add_loop_test(tc, places_are_described, 0, 2);
    tcase_add_test(tc, requests_of_external_ranks_are_compared);
    suite_add_tcase(suite, tc);
    return suite;
}
