/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/launch/nodelist.h"
#include "tests/support/check_main.h"

/* Lists, their number of hosts, and one of the hosts. */
static const struct {
    const char *list;
    int64_t count, i;
    const char *host;
} lists[] = {
    {"node1", 1, 0, "node1"},
    {"a,b,c", 3, 2, "c"},
    {"node[001,007-015]", 10, 0, "node001"},
    {"node[001,007-015]", 10, 1, "node007"},
    {"node[001,007-015]", 10, 9, "node015"},
    {"node[001,007-015],x[1-2]-ib", 12, 10, "x1-ib"},
    {"node[001,007-015],x[1-2]-ib", 12, 11, "x2-ib"},
    {"n[8-11]", 4, 2, "n10"},
    {"n[08-11]", 4, 1, "n09"},
    {"r[1-2]n[1-3]", 6, 0, "r1n1"},
    {"r[1-2]n[1-3]", 6, 2, "r1n3"},
    {"r[1-2]n[1-3]", 6, 3, "r2n1"},
    {"host.example.org", 1, 0, "host.example.org"},
    {"n[0-1999999999]", 2000000000, 1999999999, "n1999999999"},
};

START_TEST(lists_are_read)
{
    char name[64] = "";
    ck_assert_int_eq(cadre_nodelist_count(lists[_i].list), lists[_i].count);
    ck_assert(cadre_nodelist_host(lists[_i].list, lists[_i].i, name, sizeof name));
    ck_assert_str_eq(name, lists[_i].host);
    ck_assert(!cadre_nodelist_host(lists[_i].list, lists[_i].count, name, sizeof name));
    ck_assert(!cadre_nodelist_host(lists[_i].list, -1, name, sizeof name));
    ck_assert(!cadre_nodelist_host(lists[_i].list, lists[_i].i, name,
                                   strlen(lists[_i].host)));
}
END_TEST

static const char *const nonsense[] = {
    "",
    ",",
    "a,",
    ",a",
    "a,,b",
    "n[",
    "n[1",
    "n[1-",
    "n[1-]",
    "n[]",
    "n[3-1]",
    "n[1,]",
    "n[a]",
    "n]",
    "n[1]]",
    "a b",
    "n[1-2-3]",
    "n[1-9999999999]",
    "n[1-2",
    "n[[1]]",
    "n[-2]",
    "n[1;2]",
    "n[1-2],[",
    "n[99999999999999999]",
    "n[1-99999]m[1-99999]",
};

START_TEST(malformed_lists_are_refused)
{
    char name[64];
    ck_assert_msg(cadre_nodelist_count(nonsense[_i]) == -1, "'%s'", nonsense[_i]);
    ck_assert(!cadre_nodelist_host(nonsense[_i], 0, name, sizeof name));
}
END_TEST

static const struct {
    const char *text;
    int64_t i;
    int tasks;
} tasks[] = {
    {"4", 0, 4},       {"4", 1, -1},       {"2(x3),1", 0, 2}, {"2(x3),1", 2, 2},
    {"2(x3),1", 3, 1}, {"2(x3),1", 4, -1}, {"1,2,3", 1, 2},   {"", 0, -1},
    {"x", 0, -1},      {"2(x", 0, -1},     {"2(x0)", 0, -1},  {"2(x3", 0, -1},
    {"2,", 1, -1},     {"-2", 0, -1},      {"2", -1, -1},     {"99999999999", 0, -1},
};

START_TEST(tasks_of_a_node)
{
    ck_assert_int_eq(cadre_nodelist_tasks(tasks[_i].text, tasks[_i].i),
                     tasks[_i].tasks);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/nodelist");
    TCase *t = tcase_create("nodelist");
    tcase_add_loop_test(t, lists_are_read, 0, (int)(sizeof lists / sizeof lists[0]));
    tcase_add_loop_test(t, malformed_lists_are_refused, 0,
                        (int)(sizeof nonsense / sizeof nonsense[0]));
    tcase_add_loop_test(t, tasks_of_a_node, 0, (int)(sizeof tasks / sizeof tasks[0]));
    suite_add_tcase(s, t);
    return s;
}
