/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static size_t chosen(const char *text, bool quick, bool *out)
{
    struct cadre_error err = {0};
    size_t n = 0;
    cadre_status rc = cadre_catalogue_choose(text, quick, out, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    for (size_t i = 0; i < cadre_catalogue_size(); i++)
        n += out[i];
    return n;
}

static size_t at(const char *id)
{
    size_t i = 0;
    while (strcmp(cadre_catalogue_at(i)->id, id) != 0)
        i++;
    return i;
}

/* An id is a letter and a number, nobody else's, and finds its check. */
START_TEST(ids_are_stable_names)
{
    size_t n = cadre_catalogue_size();
    ck_assert_uint_gt(n, 40);
    ck_assert_ptr_null(cadre_catalogue_at(n));
    for (size_t i = 0; i < n; i++) {
        const struct cadre_check *check = cadre_catalogue_at(i);
        ck_assert(check->id[0] >= 'A' && check->id[0] <= 'Z');
        ck_assert_uint_eq(strspn(check->id + 1, "0123456789"), strlen(check->id) - 1);
        ck_assert_ptr_eq(cadre_catalogue_find(check->id), check);
    }
    ck_assert_ptr_eq(cadre_catalogue_find("k2"), cadre_catalogue_find("K2"));
    ck_assert_ptr_null(cadre_catalogue_find("K"));
    ck_assert_ptr_null(cadre_catalogue_find("contract"));
}
END_TEST

/* Texts are one line each; what a check needs does not need it in turn. */
START_TEST(every_check_says_what_and_why)
{
    const struct cadre_check *check;
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++) {
        const char *texts[] = {check->group, check->title, check->why, check->see};
        for (size_t t = 0; t < 4; t++)
            ck_assert_msg(texts[t] && *texts[t] && !strchr(texts[t], '\n'), "%s",
                          check->id);
        ck_assert(check->run != NULL);
        int depth = 0;
        for (const char *need = check->needs; need;
             need = cadre_catalogue_find(need)->needs)
            ck_assert_msg(cadre_catalogue_find(need) && ++depth < 5, "%s", check->id);
    }
}
END_TEST

/* Groups are in one piece, and a level is not below that of the group before. */
START_TEST(groups_climb_the_levels)
{
    const struct cadre_check *check;
    enum cadre_check_level level = CADRE_LEVEL_LOADABLE;
    char seen[256] = ",", group[32] = "";
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++) {
        ck_assert_int_ge(check->level, level);
        level = check->level;
        if (strcmp(check->group, group) == 0)
            continue;
        snprintf(group, sizeof group, "%s", check->group);
        char marked[40];
        snprintf(marked, sizeof marked, ",%s,", group);
        ck_assert_msg(!strstr(seen, marked), "%s comes twice", group);
        strcat(seen, marked + 1);
    }
    ck_assert_str_eq(seen, ",load,descriptor,lifecycle,threads,contract,equality,"
                           "stack,state,faults,fuzz,");
    ck_assert_int_eq(level, CADRE_LEVEL_FAULT_TOLERANT);
}
END_TEST

START_TEST(ids_and_groups_choose)
{
    bool *out = calloc(cadre_catalogue_size(), sizeof *out);
    ck_assert_uint_eq(chosen("K2", false, out), 1);
    ck_assert(out[at("K2")]);
    ck_assert_uint_eq(chosen(" k2 , L1,K2", false, out), 2);
    ck_assert(out[at("K2")] && out[at("L1")]);
    size_t n = chosen("LOAD", false, out);
    ck_assert(n > 3 && out[0] && out[n - 1] && !out[n]);
    ck_assert_uint_eq(chosen("load,R1", false, out), n + 1);
    /* what was named is carried out, slow or not */
    ck_assert_uint_eq(chosen("E1", true, out), 1);
    free(out);
}
END_TEST

START_TEST(nothing_named_is_all)
{
    bool *out = calloc(cadre_catalogue_size(), sizeof *out);
    size_t all = chosen(NULL, false, out), quick = chosen(NULL, true, out);
    const struct cadre_check *check;
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++)
        ck_assert_int_eq(out[i], !check->slow && !check->asked_only);
    ck_assert(quick > 10 && quick < all);
    free(out);
}
END_TEST

static void is_refused(const char *text, const char *want)
{
    struct cadre_error err = {0};
    bool *out = calloc(cadre_catalogue_size(), sizeof *out);
    ck_assert_int_eq(cadre_catalogue_choose(text, false, out, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, want), "%s", err.text);
    free(out);
}

START_TEST(unknown_names_are_refused)
{
    is_refused("L1,stat", "no check or group 'stat', the nearest is 'state'");
    is_refused("xyzzyxyzzy", "no check or group 'xyzzyxyzzy'; `cadre check --list`");
    is_refused("L1, ", "no check or group ''");
    is_refused("", "'' names no check");
    is_refused(",,", "',,' names no check");
}
END_TEST

START_TEST(the_list_has_all)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    cadre_catalogue_print(file);
    fclose(file);
    const struct cadre_check *check;
    const char *from = text;
    for (size_t i = 0; (check = cadre_catalogue_at(i)); i++) {
        char line[512];
        snprintf(line, sizeof line, "\n  %-4s %s\n       %s\n", check->id, check->title,
                 check->why);
        const char *found = strstr(from, line);
        ck_assert_msg(found, "no '%s'", line);
        from = found;
    }
    ck_assert_ptr_nonnull(strstr(text, "\n\nequality (exact)\n"));
    ck_assert_int_eq(strncmp(text, "load (loadable)\n", 16), 0);
    free(text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("check/catalogue");
    TCase *t = tcase_create("catalogue");
    tcase_add_test(t, ids_are_stable_names);
    tcase_add_test(t, every_check_says_what_and_why);
    tcase_add_test(t, groups_climb_the_levels);
    tcase_add_test(t, ids_and_groups_choose);
    tcase_add_test(t, nothing_named_is_all);
    tcase_add_test(t, unknown_names_are_refused);
    tcase_add_test(t, the_list_has_all);
    suite_add_tcase(s, t);
    return s;
}
