/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/option_set.h"

#include <string.h>

#include "tests/config/options_fixture.h"

/* The keys that the documentation promises, section by section. */
static const char *const contract[][2] = {
    {"run", "name seed out exact extends elastic"},
    {"model", "arch layers channels heads kv_heads hidden context vocab head init"},
    {"data", "format path tokenizer window levels range_mv lead task valid_fraction "
             "valid_records shuffle prefetch pinned"},
    {"train", "steps epochs global_batch micro_batch precision recompute eval_every"},
    {"optim",
     "name lr min_lr schedule warmup momentum weight_decay beta1 beta2 eps clip"},
    {"device", "kind threads"},
    {"comm", "backend ranks link timeout"},
    {"strategy", "stack plugin_path"},
    {"checkpoint", "every keep async resume"},
    {"log", "level every trace trace_steps progress"},
    {"compare",
     "baseline runs perturb warmup time rounds budget piece period target margin"},
};

START_TEST(every_promised_key_exists)
{
    struct cadre_options *o = options_create();
    for (size_t i = 0; i < sizeof contract / sizeof contract[0]; i++)
        for (const char *at = contract[i][1]; *at;) {
            char name[64];
            size_t n = strcspn(at, " ");
            snprintf(name, sizeof name, "%s.%.*s", contract[i][0], (int)n, at);
            ck_assert_msg(cadre_options_raw(o, name) != NULL, "%s", name);
            at += n + (at[n] == ' ');
        }
    cadre_options_destroy(o);
}
END_TEST

/* A default that its own rules refuse would make every run fail. */
START_TEST(every_entry_is_whole)
{
    size_t n;
    const struct cadre_config_key *table = cadre_option_table(&n);
    ck_assert_uint_gt(n, 60);
    for (size_t i = 0; i < n; i++) {
        struct cadre_error err = {0};
        const struct cadre_option *option = &table[i].option;
        struct cadre_option_value ignored;
        must(cadre_option_parse(table[i].section, option, option->def, &ignored, &err),
             &err);
        ck_assert_str_ne(option->help, "");
        ck_assert((option->type == CADRE_OPTION_ENUM) == (option->choices != NULL));
        for (size_t k = 0; k < i; k++)
            ck_assert(strcmp(table[i].section, table[k].section) != 0 ||
                      strcmp(option->key, table[k].option.key) != 0);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("option_table");
    TCase *tc = options_case("option_table");
    tcase_add_test(tc, every_promised_key_exists);
    tcase_add_test(tc, every_entry_is_whole);
    suite_add_tcase(s, tc);
    return s;
}
