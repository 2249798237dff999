/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/certificate.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir, *path;
static struct cadre_comparison c;
static struct cadre_text text;
static struct cadre_error err;

/* Runs "base" and "run", and the certificate of "run" next to the folder "runs". */
static void certify(struct fixture_run run)
{
    const struct fixture_run rounding = {.loss_shift = 1e-6};
    const struct fixture_run runs[] = {{.name = "base"}, run};
    struct cadre_json json;
    char *folder = cadre_format("%s/runs", dir);
    fixture_judge(dir, runs, 2, &rounding, &c);
    ck_assert_int_eq(cadre_path_make_dirs(folder, &err), CADRE_OK);
    free(folder);
    folder = cadre_format("%s/runs/run", dir);
    ck_assert_int_eq(rename(c.run[1].record.dir, folder), 0);
    free(folder);
    cadre_json_init_text(&json, &text, true);
    cadre_certificate_put(&json, &c, 1);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    char *name = cadre_certificate_file(&c.run[1]);
    ck_assert_str_eq(name, "certificate-run.json");
    fixture_write(dir, name, cadre_text_str(&text));
    path = cadre_path_join(dir, name);
    free(name);
    cadre_text_fini(&text);
}

static void setup(void)
{
    dir = test_tmpdir();
    err = (struct cadre_error){0};
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    cadre_text_fini(&text);
    test_tmpdir_destroy(dir);
    free(path);
    path = NULL;
}

static const json_t *at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "%s", key);
    return value;
}

START_TEST(holds_what_is_promised)
{
    static const char *const keys[] = {
        "run",     "comparison", "verdict", "why",   "strategy",   "layout",
        "sums",    "ranks",      "exact",   "steps", "loss_chain", "param_hash",
        "ulp_max", "digest",     "machine", "data",  "options",    "exp_avg_hash"};
    certify((struct fixture_run){.name = "run", .loss_shift = 2e-6});
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        at(root, keys[i]);
    ck_assert_str_eq(json_string_value(at(root, "format")), "cadre certificate 2");
    ck_assert_ptr_null(json_object_get(root, "seal"));
    ck_assert_str_eq(json_string_value(at(root, "verdict")), "within");
    /* links of steps 1, 2, 4 and the last, 6; the last is the chain */
    const json_t *chain = at(root, "chain"), *last = json_array_get(chain, 3);
    ck_assert_uint_eq(json_array_size(chain), 4);
    ck_assert_int_eq(json_integer_value(at(last, "step")), 6);
    ck_assert_str_eq(json_string_value(at(last, "link")),
                     json_string_value(at(root, "loss_chain")));
    const json_t *limits = at(root, "limits"), *loss = at(limits, "loss");
    ck_assert_str_eq(json_string_value(at(limits, "kind")), "measured");
    ck_assert_uint_eq(json_array_size(at(limits, "perturbations")), 3);
    ck_assert(json_number_value(at(limits, "factor")) > 93);
    ck_assert(json_number_value(at(loss, "difference")) <
              json_number_value(at(loss, "limit")));
    for (int q = 0; q < CADRE_QUANTITIES; q++)
        at(limits, cadre_quantity_name((enum cadre_quantity)q));
    ck_assert_str_eq(json_string_value(at(at(root, "baseline"), "param_hash")),
                     json_string_value(at(root, "param_hash")));
    json_decref(root);
}
END_TEST

START_TEST(is_checked_again)
{
    certify((struct fixture_run){.name = "run", .loss_shift = 2e-6});
    ck_assert(cadre_certificate_is(path));
    cadre_status rc = cadre_certificate_check(path, &text, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(text.data, "verdict: within, compared with base"));
    ck_assert_ptr_nonnull(strstr(text.data, "has the hashes that it states"));
}
END_TEST

START_TEST(a_change_by_design_is_named)
{
    const struct fixture_run runs[] = {{.name = "base"},
                                       {.name = "run", .loss_shift = 1}};
    struct cadre_json json;
    fixture_compare(dir, runs, 2, NULL, &c);
    snprintf(c.run[1].changes.by, sizeof c.run[1].changes.by, "other");
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    cadre_json_init_text(&json, &text, true);
    cadre_certificate_put(&json, &c, 1);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    fixture_write(dir, "x.json", cadre_text_str(&text));
    cadre_text_fini(&text);
    path = cadre_path_join(dir, "x.json");
    ck_assert_int_eq(cadre_certificate_check(path, &text, &err), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(text.data, "verdict: differs by design, compared"));
}
END_TEST

START_TEST(a_changed_run_is_reported)
{
    static const float other[FIXTURE_PARAMS] = {1};
    certify((struct fixture_run){.name = "run"});
    char *model =
        cadre_format("%s/runs/run/checkpoints/step-00000006/model.safetensors", dir);
    fixture_model(model, other);
    free(model);
    ck_assert_int_eq(cadre_certificate_check(path, &text, &err), CADRE_E_DIFFERS);
    ck_assert_msg(strstr(err.text, "param_hash of run run is"), "%s", err.text);
}
END_TEST

/* The library and the algorithms are reported and compared with the folder's; a run of
 * an earlier build has neither. */
START_TEST(algorithms_are_reported_and_checked)
{
    certify((struct fixture_run){.name = "run", .algorithms = "0123456789abcdef"});
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const json_t *gemm = at(root, "gemm");
    ck_assert_str_eq(json_string_value(at(gemm, "library")), "lib 1");
    ck_assert_str_eq(json_string_value(at(gemm, "algorithms")), "0123456789abcdef");
    json_decref(root);
    cadre_status rc = cadre_certificate_check(path, &text, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_ptr_nonnull(
        strstr(text.data, "  multiplied with lib 1, algorithms 0123456789abcdef\n"));
    char *summary = cadre_format("%s/runs/run", dir);
    fixture_write(summary, "summary.json", "{\"gemm\": {\"library\": \"lib 2\"}}");
    ck_assert_int_eq(cadre_certificate_check(path, &text, &err), CADRE_E_DIFFERS);
    ck_assert_msg(strstr(err.text, "gemm.library of run run is 'lib 2'"), "%s",
                  err.text);
    free(summary);
}
END_TEST

START_TEST(an_earlier_certificate_is_read)
{
    certify((struct fixture_run){.name = "run"});
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    ck_assert(json_is_null(at(at(root, "gemm"), "library")));
    json_object_del(root, "gemm");
    ck_assert_int_eq(json_dump_file(root, path, 0), 0);
    json_decref(root);
    cadre_status rc = cadre_certificate_check(path, &text, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_ptr_null(strstr(text.data, "multiplied with"));
}
END_TEST

/* Make the certificate one of format 1, with the digest under its name there. */
static void make_format_1(const char *digest)
{
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const char *value = digest ? digest : json_string_value(at(root, "digest"));
    json_object_set_new(root, "format", json_string("cadre certificate 1"));
    json_object_set_new(root, "seal", json_string(value));
    json_object_del(root, "digest");
    ck_assert_int_eq(json_dump_file(root, path, 0), 0);
    json_decref(root);
}

START_TEST(format_1_calls_the_digest_seal)
{
    certify((struct fixture_run){.name = "run"});
    make_format_1(NULL);
    ck_assert(cadre_certificate_is(path));
    cadre_status rc = cadre_certificate_check(path, &text, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(text.data, "has the hashes that it states"));
    make_format_1("0123456789abcdef");
    ck_assert_int_eq(cadre_certificate_check(path, &text, &err), CADRE_E_DIFFERS);
    ck_assert_msg(strstr(err.text, "seal of run run is"), "%s", err.text);
}
END_TEST

START_TEST(a_changed_digest_is_refused)
{
    certify((struct fixture_run){.name = "run"});
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    json_object_set_new(root, "digest", json_string("0123456789abcdef"));
    ck_assert_int_eq(json_dump_file(root, path, 0), 0);
    json_decref(root);
    ck_assert_int_eq(cadre_certificate_check(path, &text, &err), CADRE_E_DIFFERS);
    ck_assert_msg(strstr(err.text, "digest of run run is"), "%s", err.text);
}
END_TEST

START_TEST(a_folder_that_is_gone_is_no_error)
{
    certify((struct fixture_run){.name = "run"});
    char *runs = cadre_path_join(dir, "runs"), *away = cadre_path_join(dir, "away");
    ck_assert_int_eq(rename(runs, away), 0);
    ck_assert_int_eq(cadre_certificate_check(path, &text, &err), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(text.data, "is gone"));
    free(runs);
    free(away);
}
END_TEST

START_TEST(anything_else_is_refused)
{
    static const char *const others[] = {"", "{", "[1]", "{\"format\": 1}",
                                         "{\"format\": \"cadre certificate 9\"}"};
    path = cadre_path_join(dir, "x.json");
    fixture_write(dir, "x.json", others[_i]);
    ck_assert(!cadre_certificate_is(path));
    ck_assert_int_eq(cadre_certificate_check(path, &text, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "x.json"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("certificate");
    TCase *tc = tcase_create("certificate");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, holds_what_is_promised);
    tcase_add_test(tc, is_checked_again);
    tcase_add_test(tc, a_change_by_design_is_named);
    tcase_add_test(tc, a_changed_run_is_reported);
    tcase_add_test(tc, algorithms_are_reported_and_checked);
    tcase_add_test(tc, an_earlier_certificate_is_read);
    tcase_add_test(tc, format_1_calls_the_digest_seal);
    tcase_add_test(tc, a_changed_digest_is_refused);
    tcase_add_test(tc, a_folder_that_is_gone_is_no_error);
    tcase_add_loop_test(tc, anything_else_is_refused, 0, 5);
    suite_add_tcase(suite, tc);
    return suite;
}
