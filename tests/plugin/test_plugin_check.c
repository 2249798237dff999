/* SPDX-License-Identifier: Apache-2.0 */
/* Every refusal of a descriptor, through real modules. */
#include "core/plugin/plugin_private.h"

#include <stdlib.h>
#include <string.h>

#include "tests/plugin/plugin_fixture.h"
#include "tests/support/check_main.h"

static const struct {
    const char *bad, *text;
} cases[] = {
    {"null", "returns no descriptor"},
    {"magic", "has the magic number 2a, expected 3145524441433ec3"},
    {"major", "was built for plugin ABI 3.10, this program has 0.10"},
    {"minor",
     "was built for plugin ABI 0.8, this program has 0.10 and takes 0.9 to 0.10: "
     "rebuild the plugin against this Cadre's headers"},
    {"next_minor",
     "was built for plugin ABI 0.11, this program has 0.10 and takes 0.9 to "
     "0.10: install a newer Cadre or an older plugin"},
    {"host_minor", "needs a host of plugin ABI 0.11 or newer, this program has 0.10"},
    {"struct_size", "has a descriptor of 88 bytes, expected at least 104"},
    {"older", "has a descriptor of 96 bytes, expected at least 104"},
    {"id_none", "has the malformed id '(none)'"},
    {"id_upper", "has the malformed id 'org.example.Sample'"},
    {"id_one_part", "has the malformed id 'sample'"},
    {"id_path", "has the malformed id 'org.example./etc/passwd'"},
    {"id_long", "has the malformed id 'org.example.a2345678901"},
    {"id_reserved", "'train' is a name of the core"},
    {"version", "has no version"},
    {"summary", "has no summary: expected one line"},
    {"role", "has the role 77, expected 1 to 6"},
    {"axis", "has the mesh axis 'D P'"},
    {"axis_long", "expected a name of at most 31 of"},
    {"optimizer_axis", "is an optimizer and has the mesh axis 'dp': expected NULL"},
    {"no_update", "lacks the function 'update' in its ops: the role "
                  "CADRE_ROLE_OPTIMIZER requires it"},
    {"wire_alone", "has the function 'wire_bytes' in its ops and no 'wire'"},
    {"service", "needs the service 'com.vendor.turbo/3'"},
    {"service_bytes",
     "needs 112 bytes of the service 'cadre.comm/1', of which this program "
     "has 104: install a newer Cadre"},
    {"services_endless", "lists more than 64 services"},
    {"ops", "has no table of ops"},
    {"ops_size", "has a table of ops of 40 bytes, expected at least 128"},
    {"no_create", "lacks the function 'create'"},
    {"no_plan", "lacks the function 'plan'"},
    {"no_bind", "lacks the function 'bind'"},
    {"no_sync", "lacks the function 'sync'"},
    {"no_destroy", "lacks the function 'destroy'"},
    {"options_null", "declares 3 options but no table of them"},
    {"options_many", "declares 1073741824 options"},
    {"stride", "has options of 8 bytes each, expected at least 64"},
    {"key_upper", "has the option key 'Width'"},
    {"key_none", "has the option key '(none)'"},
    {"key_twice", "has the option 'width' twice"},
    {"type", "has the option 'width' of type 31, expected 1 to 6"},
    {"default_none", "has the option 'width' without a default"},
    {"help_none", "has the option 'width' without one line of help"},
    {"default_range", "65"},
    {"default_text", "8x"},
    {"range", "has the option 'width' with the range 65 to 64"},
    {"enum_default", "medium"},
    {"enum_choices", "has the option 'mode' of type ENUM without choices"},
    {"choices", "has the option 'width' with choices, which only ENUM takes"},
    {"bool_default", "perhaps"},
};

START_TEST(refuses)
{
    struct cadre_error err = {0};
    const struct cadre_plugin_handle *plugin = NULL;
    const char *path = test_module("bad_descriptor");
    setenv("CADRE_TEST_BAD", cases[_i].bad, 1);
    test_refused(cadre_plugin_load(path, NULL, &plugin, &err), &err, cases[_i].text);
    ck_assert_msg(strstr(err.text, "bad_descriptor.so") != NULL, "%s", err.text);
    ck_assert_ptr_null(plugin);
    unsetenv("CADRE_TEST_BAD");
    ck_assert_int_eq(cadre_plugin_load(path, NULL, &plugin, &err), CADRE_OK);
}
END_TEST

/* What is longer than ours, as options, ops and descriptor of a later build. */
START_TEST(a_longer_descriptor_loads)
{
    struct cadre_error err = {0};
    const struct cadre_plugin_handle *plugin = NULL;
    setenv("CADRE_TEST_BAD", "longer", 1);
    cadre_status rc =
        cadre_plugin_load(test_module("bad_descriptor"), NULL, &plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(plugin->desc.struct_size, sizeof plugin->desc);
    ck_assert_uint_eq(plugin->ops.struct_size, sizeof plugin->ops);
    ck_assert_uint_eq(plugin->desc.abi_minor, CADRE_ABI_MINOR);
    ck_assert(!plugin->ops.step);
}
END_TEST

/* It has no axis, and updates parameters. */
START_TEST(an_optimizer_loads)
{
    struct cadre_error err = {0};
    const struct cadre_plugin_handle *plugin = NULL;
    setenv("CADRE_TEST_BAD", "optimizer", 1);
    cadre_status rc =
        cadre_plugin_load(test_module("bad_descriptor"), NULL, &plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(plugin->desc.role, CADRE_ROLE_OPTIMIZER);
    ck_assert_ptr_null(plugin->desc.axis);
    ck_assert(plugin->ops.update);
}
END_TEST

START_TEST(every_service_is_known)
{
    static const char *const ids[] = {
        CADRE_SERVICE_MESH,   CADRE_SERVICE_COMM, CADRE_SERVICE_MODEL,
        CADRE_SERVICE_PARAM,  CADRE_SERVICE_TREE, CADRE_SERVICE_MEM,
        CADRE_SERVICE_STREAM, CADRE_SERVICE_OPS,  CADRE_SERVICE_RNG,
    };
    ck_assert_uint_eq(sizeof ids / sizeof *ids, CADRE_KNOWN_SERVICES);
    for (size_t i = 0; i < CADRE_KNOWN_SERVICES; i++)
        ck_assert_str_eq(cadre_known_services[i].id, ids[i]);
}
END_TEST

/* A host of a later minor version with a plugin of this one. */
START_TEST(an_older_struct_is_copied_and_the_rest_is_zero)
{
    struct {
        uint32_t struct_size, a, b, later;
    } to;
    const uint32_t older[3] = {12, 7, 8}, newer[5] = {20, 1, 2, 3, 4};
    memset(&to, 0xff, sizeof to);
    cadre_struct_copy(&to, sizeof to, older, sizeof older);
    ck_assert_uint_eq(to.a, 7);
    ck_assert_uint_eq(to.b, 8);
    ck_assert_uint_eq(to.later, 0);
    cadre_struct_copy(&to, sizeof to, newer, sizeof newer);
    ck_assert_uint_eq(to.later, 3);
}
END_TEST

START_TEST(names)
{
    ck_assert(cadre_plugin_is_name("ddp"));
    ck_assert(cadre_plugin_is_name("_a9"));
    ck_assert(!cadre_plugin_is_name(""));
    ck_assert(!cadre_plugin_is_name(NULL));
    ck_assert(!cadre_plugin_is_name("9a"));
    ck_assert(!cadre_plugin_is_name("a-b"));
    ck_assert(!cadre_plugin_is_name("../x"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plugin_check");
    TCase *tc = tcase_create("plugin_check");
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tc, a_longer_descriptor_loads);
    tcase_add_test(tc, an_optimizer_loads);
    tcase_add_test(tc, every_service_is_known);
    tcase_add_test(tc, an_older_struct_is_copied_and_the_rest_is_zero);
    tcase_add_test(tc, names);
    suite_add_tcase(s, tc);
    return s;
}
