/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/plugin_private.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static const struct cadre_option table[] = {
    {.struct_size = sizeof(struct cadre_option),
     .type = CADRE_OPTION_I64,
     .key = "width",
     .def = "8",
     .help = "h",
     .min = 1,
     .max = 64},
    {.struct_size = sizeof(struct cadre_option),
     .type = CADRE_OPTION_F64,
     .key = "rate",
     .def = "0.5",
     .help = "h"},
    {.struct_size = sizeof(struct cadre_option),
     .type = CADRE_OPTION_BOOL,
     .key = "loud",
     .def = "yes",
     .help = "h"},
    {.struct_size = sizeof(struct cadre_option),
     .type = CADRE_OPTION_BYTES,
     .key = "room",
     .def = "2M",
     .help = "h"},
    {.struct_size = sizeof(struct cadre_option),
     .type = CADRE_OPTION_ENUM,
     .key = "mode",
     .def = "slow",
     .choices = "slow, fast",
     .help = "h"},
    {.struct_size = sizeof(struct cadre_option),
     .type = CADRE_OPTION_STR,
     .key = "label",
     .def = "a b",
     .help = "h"},
};

static struct cadre_error err, failure;
static struct cadre_options *options;
static struct cadre_values values;
static struct cadre_plugin_handle plugin = {
    .name = "sample",
    .path = "/x/sample.so",
    .desc = {.options = table,
             .n_options = sizeof table / sizeof *table,
             .option_stride = sizeof *table},
};

static void setup(void)
{
    memset(&err, 0, sizeof err);
    memset(&failure, 0, sizeof failure);
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    cadre_status rc = cadre_plugin_check_options(&plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(cadre_plugin_add_options(&plugin, options, &err), CADRE_OK);
}

static void teardown(void)
{
    cadre_options_destroy(options);
}

static void set(const char *text)
{
    ck_assert_int_eq(cadre_options_set(options, text, "test", &err), CADRE_OK);
}

static void resolve(void)
{
    cadre_status rc = cadre_options_resolve(options, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    rc = cadre_plugin_values_init(&plugin, "sample", options, &failure, &values, &err);
    ck_assert_int_eq(rc, CADRE_OK);
}

START_TEST(defaults_arrive)
{
    resolve();
    ck_assert_int_eq(values.i64(values.h, "width"), 8);
    ck_assert(values.f64(values.h, "rate") == 0.5);
    ck_assert_int_eq(values.i64(values.h, "loud"), 1);
    ck_assert_int_eq(values.i64(values.h, "room"), 2 << 20);
    ck_assert_str_eq(values.str(values.h, "mode"), "slow");
    ck_assert_str_eq(values.str(values.h, "label"), "a b");
    cadre_plugin_values_fini(&values);
    ck_assert_ptr_null(values.h);
    cadre_plugin_values_fini(&values);
}
END_TEST

START_TEST(what_was_set_arrives)
{
    set("sample.width=64");
    set("sample.mode=fast");
    set("sample.loud=off");
    resolve();
    ck_assert_int_eq(values.i64(values.h, "width"), 64);
    ck_assert_str_eq(values.str(values.h, "mode"), "fast");
    ck_assert_int_eq(values.i64(values.h, "loud"), 0);
    cadre_plugin_values_fini(&values);
}
END_TEST

START_TEST(a_value_out_of_range_is_refused)
{
    set("sample.width=65");
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "sample.width"));
}
END_TEST

START_TEST(an_unknown_key_is_refused)
{
    set("sample.widht=8");
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "width"));
}
END_TEST

static void is_failure(const char *text)
{
    ck_assert_int_eq(failure.code, CADRE_E_INVALID);
    ck_assert_msg(strstr(failure.text, text) != NULL, "%s", failure.text);
    memset(&failure, 0, sizeof failure);
}

/* A plugin's mistake is answered with nothing, recorded, and no crash. */
START_TEST(a_plugins_mistake_is_survived)
{
    resolve();
    ck_assert_int_eq(values.i64(values.h, "widht"), 0);
    is_failure(
        "plugin 'sample' in create or plan: it asks for its option 'widht', which "
        "it does not have; expected a key of its table: width, rate, loud, room, "
        "mode, label");
    ck_assert_int_eq(values.i64(values.h, "mode"), 0);
    is_failure("its option 'mode' as a value of another type");
    ck_assert(values.f64(values.h, "width") == 0);
    is_failure("'width' as a value of another type");
    ck_assert_str_eq(values.str(values.h, "width"), "");
    is_failure("'width' as a value of another type");
    ck_assert_str_eq(values.str(values.h, NULL), "");
    is_failure("'(NULL)'");
    ck_assert_int_eq(values.i64(NULL, "width"), 0);
    ck_assert_int_eq(failure.code, CADRE_OK);
    values.i64(values.h, "first");
    values.i64(values.h, "second");
    is_failure("'first'");
    cadre_plugin_values_fini(&values);
}
END_TEST

/* What [sample@site] leaves open is that of [sample]. */
START_TEST(an_instance_has_a_section_of_its_own)
{
    struct cadre_values other;
    ck_assert_int_eq(
        cadre_plugin_add_instance_options(&plugin, "sample@site", options, &err),
        CADRE_OK);
    set("sample.width=3");
    set("sample.mode=fast");
    set("sample@site.width=5");
    resolve();
    ck_assert_int_eq(cadre_plugin_values_init(&plugin, "sample@site", options, &failure,
                                              &other, &err),
                     CADRE_OK);
    ck_assert_int_eq(values.i64(values.h, "width"), 3);
    ck_assert_int_eq(other.i64(other.h, "width"), 5);
    ck_assert_str_eq(other.str(other.h, "mode"), "fast");
    ck_assert(other.f64(other.h, "rate") == 0.5);
    ck_assert_str_eq(cadre_options_source(options, "sample@site.mode"), "test");
    ck_assert_str_eq(cadre_options_source(options, "sample@site.rate"), "default");
    other.i64(other.h, "nothing");
    is_failure(
        "plugin 'sample@site' in create or plan: it asks for its option 'nothing'");
    cadre_plugin_values_fini(&other);
    cadre_plugin_values_fini(&values);
}
END_TEST

START_TEST(an_instances_values_are_checked)
{
    static const char *const sets[] = {"sample@site.width=65", "sample@site.widht=8",
                                       "sample@home.width=8"};
    static const char *const says[] = {"sample@site.width: expected a whole number",
                                       "the nearest is sample@site.width",
                                       "sample@home"};
    ck_assert_int_eq(
        cadre_plugin_add_instance_options(&plugin, "sample@site", options, &err),
        CADRE_OK);
    set(sets[_i]);
    ck_assert_int_eq(cadre_options_resolve(options, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, says[_i]) != NULL, "%s", err.text);
}
END_TEST

/* An option of a later minor version is longer, as its stride shows. */
START_TEST(longer_options_are_read_by_their_stride)
{
    struct {
        struct cadre_option now;
        uint64_t later[2];
    } longer[2];
    memset(longer, 0xee, sizeof longer);
    longer[0].now = table[0];
    longer[1].now = table[4];
    struct cadre_plugin_handle newer = plugin;
    newer.desc.options = &longer[0].now;
    newer.desc.n_options = 2;
    newer.desc.option_stride = sizeof *longer;
    ck_assert_int_eq(cadre_plugin_check_options(&newer, &err), CADRE_OK);
}
END_TEST

START_TEST(a_plugin_without_options)
{
    struct cadre_plugin_handle none = {.name = "none", .path = "/x"};
    ck_assert_int_eq(cadre_plugin_check_options(&none, &err), CADRE_OK);
    ck_assert_int_eq(cadre_plugin_add_options(&none, options, &err), CADRE_OK);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plugin_options");
    TCase *tc = tcase_create("plugin_options");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, defaults_arrive);
    tcase_add_test(tc, what_was_set_arrives);
    tcase_add_test(tc, a_value_out_of_range_is_refused);
    tcase_add_test(tc, an_unknown_key_is_refused);
    tcase_add_test(tc, a_plugins_mistake_is_survived);
    tcase_add_test(tc, an_instance_has_a_section_of_its_own);
    tcase_add_loop_test(tc, an_instances_values_are_checked, 0, 3);
    tcase_add_test(tc, longer_options_are_read_by_their_stride);
    tcase_add_test(tc, a_plugin_without_options);
    suite_add_tcase(s, tc);
    return s;
}
