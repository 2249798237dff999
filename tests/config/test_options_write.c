/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/options.h"

#include <stdlib.h>
#include <string.h>

#include "core/config/option_set.h"
#include "tests/config/options_fixture.h"

static char *written(const struct cadre_options *o)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    ck_assert_int_eq(cadre_options_write(o, file, NULL), CADRE_OK);
    fclose(file);
    return text;
}

/* Without its comments, which name the source of each value. */
static void drop_comments(char *text)
{
    char *to = text;
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        if (*line != '#') {
            memmove(to, line, n);
            to += n;
        }
        line += n;
    }
    *to = 0;
}

START_TEST(written_set_loads_back)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    free(options_file("base.ini", "[train]\nsteps = 12\n"));
    must(options_load_text(
             o,
             "[run]\nextends = base.ini\nname = \"a; b # c\"\nout = 'say \"x\"'\n"
             "[optim]\nlr = 0.1234567890123456789\n[mig]\nmode = 'x; y'\n"
             "[zero]\nstage = 2\n[run:a]\nstrategy.stack = zero:2, pipeline:2\n",
             &err),
         &err);
    must(cadre_options_set(o, "data.path= it's", "weird\\\n\xffsource\\", &err), &err);
    must(cadre_options_add(o, "zero", zero_options, 3, sizeof *zero_options, &err),
         &err);
    must(cadre_options_allow_section(o, "mig", &err), &err);
    must(cadre_options_allow_section(o, "zero", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    char *text = written(o);
    ck_assert_ptr_nonnull(strstr(text, "x.ini:3)\nname = \"a; b # c\"\n"));
    ck_assert_ptr_null(strstr(text, "extends"));

    struct cadre_options *back = options_create();
    must(cadre_options_add(back, "zero", zero_options, 3, sizeof *zero_options, &err),
         &err);
    must(cadre_options_allow_section(back, "mig", &err), &err);
    char *path = options_file("config.ini", text);
    must(cadre_options_load(back, path, &err), &err);
    must(cadre_options_resolve(back, &err), &err);
    char *again = written(back);
    drop_comments(text);
    drop_comments(again);
    ck_assert_str_eq(text, again);
    ck_assert_str_eq(cadre_options_value(back, "run.name")->text, "a; b # c");
    ck_assert_str_eq(cadre_options_value(back, "data.path")->text, "it's");
    ck_assert_int_eq(cadre_options_value(back, "train.steps")->i, 12);
    double a = cadre_options_value(o, "optim.lr")->f,
           b = cadre_options_value(back, "optim.lr")->f;
    ck_assert_mem_eq(&a, &b, sizeof a);
    free(path);
    free(text);
    free(again);
    cadre_options_destroy(o);
    cadre_options_destroy(back);
}
END_TEST

/* [zero@site] of this run is written whole, [zero@home] of another as it was set; those
 * of a stack that was replaced are not. */
START_TEST(sections_of_instances_load_back)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create(), *back = options_create();
    must(options_load_text(o,
                           "[zero]\nstage = 2\n[zero@site]\noffload = yes\n"
                           "[zero@home]\nany = thing\n[zero@empty]\n"
                           "[zero@gone]\nany = thing\n"
                           "[strategy]\nstack = zero@gone:2\n"
                           "[run:a]\nstrategy.stack = zero@home:2, zero@empty\n",
                           &err),
         &err);
    must(cadre_options_set(o, "strategy.stack=zero@site:2, zero", "test", &err), &err);
    for (int i = 0; i < 2; i++) {
        struct cadre_options *to = i ? back : o;
        must(cadre_options_add(to, "zero", zero_options, 3, sizeof *zero_options, &err),
             &err);
        must(cadre_options_add(to, "zero@site", zero_options, 3, sizeof *zero_options,
                               &err),
             &err);
        must(cadre_options_allow_section(to, "zero@", &err), &err);
    }
    must(cadre_options_resolve(o, &err), &err);
    char *text = written(o);
    ck_assert_ptr_nonnull(strstr(text, "\n[zero@home]\n# "));
    ck_assert_ptr_nonnull(strstr(text, "any = thing\n"));
    ck_assert_ptr_null(strstr(text, "[zero@]"));
    ck_assert_ptr_null(strstr(text, "[zero@gone]"));
    char *path = options_file("config.ini", text);
    must(cadre_options_load(back, path, &err), &err);
    must(cadre_options_resolve(back, &err), &err);
    ck_assert_int_eq(cadre_options_value(back, "zero@site.stage")->i, 2);
    ck_assert_int_eq(cadre_options_value(back, "zero@site.offload")->i, 1);
    ck_assert_int_eq(cadre_options_value(back, "zero.offload")->i, 0);
    ck_assert_str_eq(cadre_options_raw(back, "zero@home.any"), "thing");
    free(path);
    free(text);
    cadre_options_destroy(o);
    cadre_options_destroy(back);
}
END_TEST

/* What nobody set stays so from file to file, but for a value that somebody wrote under
 * the comment. */
START_TEST(a_default_that_is_read_is_written_as_one)
{
    struct cadre_error err = {0};
    struct cadre_options *o = options_create();
    must(options_load_text(o,
                           "[run]\n# (default)\nout = /srv/runs\n"
                           "[train]\n# (default)\nsteps = 100\n# (default)\n"
                           "epochs = 3\n# (first.ini:1)\nglobal_batch = 8\n"
                           "# (default)\nmicro_batch = 4\n"
                           "[gone]\n# (default)\nany = thing\n",
                           &err),
         &err);
    must(cadre_options_allow_section(o, "gone", &err), &err);
    must(cadre_options_set(o, "train.micro_batch=4", "command line", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    struct cadre_options *copy = cadre_options_clone(o);
    char *text = written(copy);
    ck_assert_ptr_nonnull(strstr(text, "\n# (default)\nout = /srv/runs\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n# (default)\nsteps = 100\n"));
    ck_assert_ptr_nonnull(strstr(text, "x.ini:8)\nepochs = 3\n"));
    ck_assert_ptr_nonnull(strstr(text, "x.ini:10)\nglobal_batch = 8\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n# (command line)\nmicro_batch = 4\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n# (default)\nany = thing\n"));
    free(text);
    cadre_options_destroy(copy);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(full_disk_is_an_error)
{
    struct cadre_error err = {0};
    FILE *file = fopen("/dev/full", "w");
    if (!file)
        test_skip("no /dev/full");
    struct cadre_options *o = options_create();
    ck_assert_int_eq(cadre_options_write(o, file, &err), CADRE_E_IO);
    fclose(file);
    cadre_options_destroy(o);
}
END_TEST

struct seen {
    size_t n;
    char steps[32];
};

static void look(void *arg, const char *section, const struct cadre_option *option,
                 const char *value)
{
    struct seen *seen = arg;
    seen->n++;
    if (strcmp(section, "train") == 0 && strcmp(option->key, "steps") == 0)
        snprintf(seen->steps, sizeof seen->steps, "%s", value);
}

START_TEST(each_option_is_visited_with_its_value)
{
    struct seen seen = {0};
    size_t n;
    struct cadre_options *o = options_create();
    cadre_option_table(&n);
    ck_assert_int_eq(cadre_options_set(o, "train.steps=077", "test", NULL), CADRE_OK);
    cadre_options_each(o, look, &seen);
    ck_assert_uint_eq(seen.n, n);
    ck_assert_str_eq(seen.steps, "077"); /* as it was written */
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options_write");
    TCase *tc = options_case("options_write");
    tcase_add_test(tc, written_set_loads_back);
    tcase_add_test(tc, sections_of_instances_load_back);
    tcase_add_test(tc, a_default_that_is_read_is_written_as_one);
    tcase_add_test(tc, full_disk_is_an_error);
    tcase_add_test(tc, each_option_is_visited_with_its_value);
    suite_add_tcase(s, tc);
    return s;
}
