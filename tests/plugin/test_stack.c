/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/plugin/stack.h"
#include "tests/support/check_main.h"

static struct cadre_error err;
static struct cadre_stack stack;

static void parses(const char *text, int n)
{
    cadre_status rc = cadre_stack_parse(text, &stack, &err);
    ck_assert_msg(rc == CADRE_OK, "'%s': %s", text, err.text);
    ck_assert_int_eq(stack.n, n);
}

static void is_entry(int i, const char *name, const char *path, int size)
{
    ck_assert_str_eq(stack.entry[i].name, name);
    ck_assert_str_eq(stack.entry[i].path, path);
    ck_assert_int_eq(stack.entry[i].size, size);
}

START_TEST(plugins_and_sizes)
{
    parses("pipeline:2, zero:4", 2);
    is_entry(0, "pipeline", "", 2);
    is_entry(1, "zero", "", 4);
    parses("  ddp\t", 1);
    is_entry(0, "ddp", "", 0);
    parses("ddp:*", 1);
    is_entry(0, "ddp", "", 0);
    parses("ddp:65536", 1);
    is_entry(0, "ddp", "", 65536);
    parses("a,b,c,d,e,f,g,h", 8);
}
END_TEST

START_TEST(paths)
{
    parses("./my.so:4, /a:b/c.so", 2);
    is_entry(0, "", "./my.so", 4);
    is_entry(1, "", "/a:b/c.so", 0);
    parses("../x/y-z.so:*", 1);
    is_entry(0, "", "../x/y-z.so", 0);
}
END_TEST

static void prints(int i, int size, const char *text)
{
    char out[200];
    int n = cadre_stack_print(&stack.entry[i], size, out, sizeof out);
    ck_assert_str_eq(out, text);
    ck_assert_int_eq(n, (int)strlen(text));
}

START_TEST(axes)
{
    parses("gossip@site:2, ddp@site, ddp:4", 3);
    is_entry(0, "gossip", "", 2);
    is_entry(1, "ddp", "", 0);
    is_entry(2, "ddp", "", 4);
    ck_assert_str_eq(stack.entry[0].axis, "site");
    ck_assert_str_eq(stack.entry[1].axis, "site");
    ck_assert_str_eq(stack.entry[2].axis, "");
    prints(0, 3, "gossip@site:3");
    prints(2, 1, "ddp:1");
    parses("./my.so@site:2, ./o@d/p@x.so:3", 2);
    is_entry(0, "", "./my.so", 2);
    ck_assert_str_eq(stack.entry[0].axis, "site");
    is_entry(1, "", "./o@d/p@x.so", 3); /* what follows is no axis */
    ck_assert_str_eq(stack.entry[1].axis, "");
    prints(0, 2, "./my.so@site:2");
}
END_TEST

START_TEST(single)
{
    parses("single", 0);
    parses(" single:1 ", 0);
    is_entry(0, "", "", 0);
}
END_TEST

static const struct {
    const char *text, *why;
} wrong[] = {
    {"", "part 1 is empty"},
    {"  ", "part 1 is empty"},
    {",", "part 1 is empty"},
    {"ddp:2,", "part 2 is empty"},
    {"ddp,,zero", "part 2 is empty"},
    {"ddp:", "has the size ''"},
    {"ddp:0", "has the size '0'"},
    {"ddp:02", "has the size '02'"},
    {"ddp:-2", "has the size '-2'"},
    {"ddp:+2", "has the size '+2'"},
    {"ddp:2x", "has the size '2x'"},
    {"ddp: 2", "has the size ' 2'"},
    {"ddp:**", "has the size '**'"},
    {"ddp:65537", "has the size '65537'"},
    {"ddp:99999999999999999999999", "has the size '9999"},
    {"DDP:2", "'DDP' is not a plugin"},
    {"my.so:2", "'my.so' is not a plugin"},
    {"9x", "'9x' is not a plugin"},
    {":2", "'' is not a plugin"},
    {"ddp:2:2", "'ddp:2' is not a plugin"},
    {"ddp zero", "'ddp zero' is not a plugin"},
    {"a23456789012345678901234567890123", "is not a plugin"},
    {"ddp:2, ddp:4", "'ddp' is listed twice; name another axis for one of them"},
    {"ddp@a, zero, ddp@a:2", "'ddp@a' is listed twice"},
    {"ddp@:2", "'ddp@:2' has the axis '', expected a name of at most 31"},
    {"ddp@Site", "has the axis 'Site'"},
    {"ddp@si te:2", "has the axis 'si te'"},
    {"ddp@a2345678901234567890123456789012", "has the axis 'a2345678901"},
    {"@site:2", "'' is not a plugin"},
    {"ddp:2@site", "has the size '2@site'"},
    {"single@x", "single is one rank"},
    {"./a.so, ./a.so:2", "'./a.so' is listed twice"},
    {"single:2", "single is one rank"},
    {"single:*", "single is one rank"},
    {"single, ddp:2", "single must be the only entry"},
    {"ddp:2, single", "single must be the only entry"},
    {"a,b,c,d,e,f,g,h,i", "more than 8 plugins, the first too many is 'i'"},
};

START_TEST(refuses)
{
    struct cadre_stack before;
    memset(&stack, 0x55, sizeof stack);
    before = stack;
    memset(&err, 0, sizeof err);
    cadre_status rc = cadre_stack_parse(wrong[_i].text, &stack, &err);
    ck_assert_msg(rc == CADRE_E_INVALID, "'%s' was taken", wrong[_i].text);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
    ck_assert_ptr_eq(strstr(err.text, "strategy.stack"), err.text);
    ck_assert_mem_eq(&stack, &before, sizeof stack);
}
END_TEST

START_TEST(a_long_text_is_refused)
{
    char *text = malloc(5001);
    memset(text, 'a', 5000);
    text[5000] = 0;
    ck_assert_int_eq(cadre_stack_parse(text, &stack, &err), CADRE_E_INVALID);
    text[0] = '/';
    ck_assert_int_eq(cadre_stack_parse(text, &stack, NULL), CADRE_E_INVALID);
    free(text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("stack");
    TCase *tc = tcase_create("stack");
    tcase_add_test(tc, plugins_and_sizes);
    tcase_add_test(tc, paths);
    tcase_add_test(tc, axes);
    tcase_add_test(tc, single);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, a_long_text_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
