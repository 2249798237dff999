/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "core/run/rundir.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank;
static char path[1400];

static void begin(const char *sets)
{
    spec = spec_fixture_make(&f, sets);
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, NULL, &f.err), CADRE_OK);
    spec_fixture_rank(&f, spec, &rank);
}

static void end(void)
{
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
}

static void setup(void)
{
    spec_fixture_open(&f);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000003", f.out);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

static void steps(int64_t first, int64_t last, double *loss)
{
    struct cadre_step_report report = {0};
    for (int64_t step = first; step <= last; step++) {
        cadre_status rc = cadre_rank_step(&rank, (uint64_t)step, &report);
        ck_assert_msg(rc == CADRE_OK, "%s", rank.failure.text);
        *loss++ = report.loss;
    }
}

static void save(int64_t step)
{
    cadre_status rc = cadre_save(&rank, spec->out, step, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
}

/* Three steps, saved; then three more in the same rank and in a loaded one: the same
 * losses and parameters, bit for bit. */
START_TEST(a_loaded_rank_continues_alike)
{
    static const char *const kinds[] = {
        "", "optim.name=sgd optim.momentum=0.9", "optim.name=sgd",
        "model.arch=llama train.precision=fp64 run.exact=yes",
        "optim.schedule=cosine optim.warmup=2 model.tied=no"};
    double before[3] = {0}, more[3] = {0}, again[3] = {0};
    begin(kinds[_i]);
    steps(1, 3, before);
    save(3);
    steps(4, 6, more);
    end();
    begin(kinds[_i]);
    cadre_status rc = cadre_load(&rank, path, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    steps(4, 6, again);
    ck_assert_mem_eq(more, again, sizeof more);
    end();
}
END_TEST

static const struct {
    const char *sets, *why;
} others[] = {
    {"run.seed=2", "run.seed = 1337, this run has 2"},
    {"train.global_batch=16", "stands at sample 24 after 3 steps"},
    {"optim.name=sgd", "optim.name = adamw, this run has sgd"},
    {"data.valid_fraction=0.3", "was trained on other data"},
    {"model.layers=1", "expected the model's 16 tensors, found 28"},
    {"model.layers=3", "transformer.h.2."},
    {"model.channels=32", "wte.weight"},
    {"model.arch=llama", "'"},
};

START_TEST(what_does_not_fit_is_refused_in_words)
{
    double losses[3];
    begin("");
    steps(1, 3, losses);
    save(3);
    end();
    begin(others[_i].sets);
    ck_assert_int_eq(cadre_load(&rank, path, &f.err), CADRE_E_INVALID);
    ck_assert_msg(strstr(f.err.text, others[_i].why) != NULL, "%s", f.err.text);
    ck_assert_msg(strstr(f.err.text, "step-00000003") != NULL, "%s", f.err.text);
    end();
}
END_TEST

START_TEST(damage_is_found)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                        "state.json"};
    char file[1500];
    double losses[3];
    begin("");
    steps(1, 3, losses);
    save(3);
    snprintf(file, sizeof file, "%s/%s", path, files[_i]);
    ck_assert_int_eq(truncate(file, 100), 0);
    ck_assert_int_ne(cadre_load(&rank, path, &f.err), CADRE_OK);
    ck_assert_msg(strstr(f.err.text, files[_i]) != NULL, "%s", f.err.text);
    end();
}
END_TEST

START_TEST(a_checkpoint_is_a_model_folder)
{
    double losses[3];
    begin("");
    steps(1, 3, losses);
    save(3);
    uint64_t bytes = rank.store.param[0].count * rank.store.elem_bytes;
    char *values = malloc(bytes);
    memcpy(values, rank.store.param[0].data, bytes);
    end();
    begin("run.seed=77");
    ck_assert_mem_ne(rank.store.param[0].data, values, bytes);
    cadre_status rc = cadre_load_model(&rank, path, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_mem_eq(rank.store.param[0].data, values, bytes);
    end();
    free(values);
    begin("model.layers=3");
    ck_assert_int_eq(cadre_load_model(&rank, path, &f.err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_load_model(&rank, "/nonexistent", NULL), CADRE_E_INVALID);
    end();
}
END_TEST

START_TEST(a_place_that_cannot_be_written)
{
    char root[1400];
    begin("");
    snprintf(root, sizeof root, "run/checkpoints");
    spec_fixture_write(&f, root, "a file");
    ck_assert_int_ne(cadre_save(&rank, spec->out, 3, &f.err), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(f.err.text, "checkpoints"));
    end();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("load");
    TCase *tc = tcase_create("load");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_loaded_rank_continues_alike, 0, 5);
    tcase_add_loop_test(tc, what_does_not_fit_is_refused_in_words, 0,
                        (int)(sizeof others / sizeof *others));
    tcase_add_loop_test(tc, damage_is_found, 0, 3);
    tcase_add_test(tc, a_checkpoint_is_a_model_folder);
    tcase_add_test(tc, a_place_that_cannot_be_written);
    suite_add_tcase(s, tc);
    return s;
}
