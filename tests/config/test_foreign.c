/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/nearest.h"
#include "core/config/options.h"
#include "tests/support/check_main.h"

/* Is "section.key" in docs/configuration.md, which test_docs.sh holds to the program?
 * Options of plugins are not known to the core. */
static int documented(const char *option)
{
    char path[1024], line[512], section[64] = "", key[64];
    int found = 0;
    snprintf(path, sizeof path, "%s/docs/configuration.md", getenv("CADRE_SRC"));
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    while (!found && fgets(line, sizeof line, file)) {
        if (sscanf(line, "[%63[^]]]", key) == 1) {
            strcpy(section, key);
        } else if (sscanf(line, "  %63[a-z0-9_] ", key) == 1 && line[2] != ' ') {
            char name[130];
            snprintf(name, sizeof name, "%s.%s", section, key);
            found = strcmp(name, option) == 0;
        }
    }
    fclose(file);
    return found;
}

START_TEST(every_row_names_an_option_that_there_is)
{
    struct cadre_options *options = NULL;
    size_t n;
    const struct cadre_foreign *all = cadre_foreign_all(&n);
    ck_assert_int_eq(cadre_options_create(&options, NULL), CADRE_OK);
    ck_assert_uint_ge(n, 100);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(cadre_options_raw(options, all[i].option) ||
                          documented(all[i].option),
                      "%s: there is no option %s", all[i].name, all[i].option);
        ck_assert_msg(!cadre_options_raw(options, all[i].name),
                      "%s is an option of ours", all[i].name);
        ck_assert_ptr_eq(cadre_foreign_find(all[i].name), &all[i]);
    }
    cadre_options_destroy(options);
}
END_TEST

START_TEST(names_are_found_as_they_are_written)
{
    ck_assert_str_eq(cadre_foreign_find("--micro-batch-size")->option,
                     "train.micro_batch");
    ck_assert_str_eq(cadre_foreign_find("MICRO_BATCH_SIZE")->option,
                     "train.micro_batch");
    ck_assert_str_eq(cadre_foreign_find("training.seq_len")->option, "model.context");
    ck_assert_str_eq(cadre_foreign_key("model.seq_length")->option, "model.context");
    ck_assert_ptr_null(cadre_foreign_find("model.seq_length"));
    ck_assert_ptr_null(cadre_foreign_find("micro-batch"));
    ck_assert_ptr_null(cadre_foreign_key("seq_length"));
}
END_TEST

START_TEST(an_entry_is_told_in_a_sentence)
{
    char text[200];
    ck_assert_str_eq(
        cadre_foreign_say(cadre_foreign_find("training.seq_len"), text, sizeof text),
        "training.seq_len of TorchTitan is model.context here");
    ck_assert_str_eq(
        cadre_foreign_say(cadre_foreign_find("mixed_precision"), text, sizeof text),
        "mixed_precision is train.precision = bf16 here");
}
END_TEST

START_TEST(strategies_have_names_here)
{
    static const char *const names[] = {"fsdp",     "FSDP",  "deepspeed", "ZeRO-3",
                                        "megatron", "gpipe", "1f1b",      "tp",
                                        "pp",       "dp",    "sp"};
    ck_assert_str_eq(cadre_foreign_strategy("fsdp"),
                     "FSDP is zero with zero.stage = 3");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_msg(cadre_foreign_strategy(names[i]), "%s", names[i]);
    ck_assert_ptr_null(cadre_foreign_strategy("ddp"));
    ck_assert_ptr_null(cadre_foreign_strategy("zero"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("foreign");
    TCase *tc = tcase_create("foreign");
    tcase_add_test(tc, every_row_names_an_option_that_there_is);
    tcase_add_test(tc, names_are_found_as_they_are_written);
    tcase_add_test(tc, an_entry_is_told_in_a_sentence);
    tcase_add_test(tc, strategies_have_names_here);
    suite_add_tcase(s, tc);
    return s;
}
