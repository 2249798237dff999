/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/energy.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"

enum { OTHER = CADRE_METER_OTHER, STEPS = CADRE_METER_STEPS };

/* A rank on machine `kernel` with two packages that used 300 J in the steps. */
static struct cadre_energy_rank rank_on(uint64_t kernel)
{
    struct cadre_energy_rank rank = {.kernel = kernel, .packages = 2, .steps = 10};
    snprintf(rank.host, sizeof rank.host, "host%d", (int)kernel);
    rank.seconds[STEPS] = 4;
    rank.seconds[OTHER] = 1;
    rank.package_j[STEPS] = 300;
    rank.package_j[OTHER] = 50;
    return rank;
}

static struct cadre_energy_rank rank_with_gpu(uint64_t kernel, const char *pci)
{
    struct cadre_energy_rank rank = rank_on(kernel);
    rank.uses_gpu = true;
    snprintf(rank.gpu, sizeof rank.gpu, "%s", pci);
    rank.gpu_j[STEPS] = 1000;
    rank.gpu_j[OTHER] = 100;
    return rank;
}

static struct cadre_energy energy;

static void find(const struct cadre_energy_rank *ranks, int n)
{
    energy = (struct cadre_energy){.step_tokens = 100, .idle_w = NAN};
    cadre_energy_of(ranks, n, &energy);
}

static json_t *written(void)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_json_init_text(&json, &text, false);
    cadre_energy_write(&energy, &json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    json_t *object = json_loads(cadre_text_str(&text), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(object);
    cadre_text_fini(&text);
    return object;
}

static void expect_number(const json_t *object, const char *key, double wanted)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "%s", key);
    if (isnan(wanted))
        ck_assert_msg(json_is_null(value), "%s is not null", key);
    else
        ck_assert_msg(fabs(json_number_value(value) - wanted) < 1e-9, "%s: %g", key,
                      json_number_value(value));
}

static void expect_text(const json_t *object, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, key));
    ck_assert_ptr_nonnull(json_object_get(object, key));
    if (wanted)
        ck_assert_str_eq(text, wanted);
    else
        ck_assert_ptr_null(text);
}

/* Six ranks of two machines: each machine once. */
START_TEST(a_machine_counts_once)
{
    struct cadre_energy_rank ranks[6];
    for (int r = 0; r < 6; r++)
        ranks[r] = rank_on(r < 4 ? 1 : 2);
    ranks[1].package_j[STEPS] = 301; /* it read a little later */
    find(ranks, 6);
    energy.idle_w = 30; /* of one of the two */
    json_t *object = written();
    ck_assert_int_eq(energy.hosts, 2);
    expect_number(object, "package_j", 600);
    expect_number(object, "package_total_j", 700);
    expect_number(object, "gpu_j", NAN);
    expect_number(object, "idle_w", NAN);
    expect_number(object, "j_per_step", 60);
    expect_number(object, "j_per_token", 0.6);
    expect_number(object, "measured_steps", 10);
    expect_number(object, "steps_s", 4);
    expect_number(object, "total_s", 5);
    expect_text(object, "source", "RAPL (powercap)");
    expect_text(object, "scope", "4 packages of 2 hosts, with all that ran on them");
    expect_text(object, "why", NULL);
    expect_text(object, "gpu_why", "the run uses no GPU");
    json_decref(object);
}
END_TEST

START_TEST(a_gpu_counts_once)
{
    struct cadre_energy_rank ranks[] = {
        rank_with_gpu(1, "0000:01:00.0"), rank_with_gpu(1, "0000:01:00.0"),
        rank_with_gpu(1, "0000:02:00.0"), rank_with_gpu(2, "0000:01:00.0")};
    ranks[2].mig = true;
    find(ranks, 4);
    json_t *object = written();
    expect_number(object, "gpu_j", 3000);
    expect_number(object, "gpu_total_j", 3300);
    expect_number(object, "package_j", 600);
    expect_number(object, "j_per_step", 360);
    expect_text(object, "source", "RAPL (powercap), NVML");
    expect_text(object, "scope",
                "4 packages of 2 hosts and 3 whole GPUs, with all that ran on them; "
                "the run used MIG instances");
    json_decref(object);
}
END_TEST

/* GPUs alone are a figure, packages alone are none where GPUs do the work. */
START_TEST(a_run_on_gpus_needs_their_energy)
{
    struct cadre_energy_rank ranks[] = {rank_with_gpu(1, "0000:01:00.0"),
                                        rank_with_gpu(1, "0000:02:00.0")};
    for (int r = 0; r < 2; r++) {
        ranks[r].packages = 0;
        ranks[r].package_j[STEPS] = ranks[r].package_j[OTHER] = NAN;
        snprintf(ranks[r].why, sizeof ranks[r].why, "only root may read it");
    }
    find(ranks, 2);
    json_t *object = written();
    expect_number(object, "package_j", NAN);
    expect_number(object, "j_per_step", 200);
    expect_text(object, "source", "NVML");
    expect_text(object, "scope", "2 GPUs, with all that ran on them");
    expect_text(object, "why", NULL);
    expect_text(object, "package_why", "only root may read it");
    json_decref(object);

    ranks[0] = rank_with_gpu(1, "0000:01:00.0");
    ranks[1].gpu_j[STEPS] = NAN;
    snprintf(ranks[1].gpu_why, sizeof ranks[1].gpu_why, "no such counter");
    find(ranks, 2);
    object = written();
    expect_number(object, "package_j", 300);
    expect_number(object, "gpu_j", NAN);
    expect_number(object, "j_per_step", NAN);
    expect_number(object, "j_per_token", NAN);
    expect_text(object, "why", "no such counter");
    json_decref(object);
}
END_TEST

/* Nothing is zero because it is not known. */
START_TEST(what_stands_still_is_not_known)
{
    struct cadre_energy_rank rank = rank_on(1);
    rank.package_j[STEPS] = 0;
    find(&rank, 1);
    json_t *object = written();
    expect_number(object, "package_j", NAN);
    expect_number(object, "package_total_j", 50);
    expect_number(object, "j_per_token", NAN);
    expect_text(object, "source", NULL);
    expect_text(object, "scope", NULL);
    expect_text(object, "why", "the counters of the packages stand still");
    json_decref(object);
}
END_TEST

START_TEST(one_unreadable_machine_hides_the_sum)
{
    struct cadre_energy_rank ranks[] = {rank_on(1), rank_on(2)};
    ranks[1].package_j[STEPS] = ranks[1].package_j[OTHER] = NAN;
    snprintf(ranks[1].why, sizeof ranks[1].why, "it is empty");
    find(ranks, 2);
    json_t *object = written();
    expect_number(object, "package_j", NAN);
    expect_text(object, "why", "host2: it is empty");
    json_decref(object);
}
END_TEST

START_TEST(runs_that_share_a_machine_have_no_energy_a_token)
{
    const struct cadre_energy_rank rank = rank_on(1);
    find(&rank, 1);
    energy.shared = true;
    energy.idle_w = 30;
    json_t *object = written();
    expect_number(object, "package_j", 300);
    expect_number(object, "idle_w", 30);
    expect_number(object, "j_per_step", NAN);
    expect_text(object, "why", "other runs of the sweep share the machine");
    expect_text(object, "scope",
                "2 packages of 1 host, with all that ran on them; other runs of the "
                "sweep shared them");
    json_decref(object);
}
END_TEST

START_TEST(no_step_has_no_energy)
{
    struct cadre_energy_rank rank = rank_on(1);
    rank.steps = 0;
    find(&rank, 1);
    json_t *object = written();
    expect_number(object, "j_per_step", NAN);
    expect_text(object, "why", "no step was measured");
    json_decref(object);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("energy");
    TCase *tc = tcase_create("energy");
    tcase_add_test(tc, a_machine_counts_once);
    tcase_add_test(tc, a_gpu_counts_once);
    tcase_add_test(tc, a_run_on_gpus_needs_their_energy);
    tcase_add_test(tc, what_stands_still_is_not_known);
    tcase_add_test(tc, one_unreadable_machine_hides_the_sum);
    tcase_add_test(tc, runs_that_share_a_machine_have_no_energy_a_token);
    tcase_add_test(tc, no_step_has_no_energy);
    suite_add_tcase(s, tc);
    return s;
}
