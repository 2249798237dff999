/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against a fake host and a fake place. That averaging is ddp over the
 * instances is in tests/run/test_replicas.c, training with it in
 * tests/cli/test_train_mig.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

#define MOST 32

static const struct cadre_plugin_handle *mig;
static struct fake_host fake;
static struct cadre_place place;
static uint32_t cpus[MOST];

/* What the plugin requested. */
static struct {
    uint32_t n, cpu[MOST];
    char env[256];
} request;

static cadre_status request_env(void *h, const char *name, const char *value)
{
    (void)h;
    snprintf(request.env, sizeof request.env, "%s=%s", name, value);
    return CADRE_OK;
}

static cadre_status request_cpus(void *h, const uint32_t *cpu, uint32_t n)
{
    (void)h;
    ck_assert_uint_le(n, MOST);
    request.n = n;
    memcpy(request.cpu, cpu, n * sizeof *cpu);
    return CADRE_OK;
}

/* Options and their values, to NULL. */
static void set_options(const char *const *option)
{
    for (; *option; option += 2)
        fake_set(&fake, option[0], "%s", option[1]);
}

static const char *const defaults[] = {
    "mode", "average", "profile", "",      "instances", "",      "sweep",
    "",     "pin",     "yes",     "share", "no",        "sizes", "",
    "mps",  "any",     "overlap", "yes",   "bucket_mb", "0.004", NULL};

static void setup(void)
{
    mig = built_plugin_load("mig");
    fake_init(&fake, &mig->ops, 40);
    fake.singly = true;
    fake.plan.microbatches = 8;
    snprintf(fake.axis.name, sizeof fake.axis.name, "mig");
    set_options(defaults);
    for (uint32_t i = 0; i < MOST; i++)
        cpus[i] = 1000 + 2 * i; /* no such CPUs: their topology is unknown */
    place = (struct cadre_place){
        .struct_size = sizeof place,
        .env = request_env,
        .cpus = request_cpus,
        .ranks = 2,
        .local_ranks = 2,
        .cpu = cpus,
        .n_cpus = 8,
        .threads = 1,
    };
    memset(&request, 0, sizeof request);
}

static void teardown(void)
{
    ck_assert_int_eq(fake.bad_sums, 0);
    fake_fini(&fake);
}

/* Create rank `index` of `size` along the axis and call `place`. */
static cadre_status ask(int index, int size)
{
    fake.axis.size = size;
    fake.axis.index = index;
    memset(&request, 0, sizeof request);
    ck_assert_msg(fake_start(&fake) == CADRE_OK, "%s", fake.failure);
    cadre_status rc = mig->ops.place(fake.self, &place);
    fake_stop(&fake);
    return rc;
}

static void refused(cadre_status rc, const char *text)
{
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_msg(strstr(fake.failure, text), "'%s' lacks '%s'", fake.failure, text);
    ck_assert_uint_eq(request.n, 0);
    ck_assert_str_eq(request.env, "");
}

/* ---- plan ---- */

/* The core adds ddp over the axis, which splits the batch and sums gradients. */
START_TEST(average_places_and_nothing_else)
{
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    ck_assert_int_eq(fake.plans, 0);
    ck_assert_str_eq(fake.claims, "");
    for (uint32_t what = CADRE_SYNC_GRADS; what <= CADRE_SYNC_DRAIN; what++)
        ck_assert_int_eq(fake_sync(&fake, what), CADRE_OK);
    ck_assert_int_eq(fake.posts, 0);
    ck_assert(!mig->ops.step && !mig->ops.on_grad && !mig->ops.on_block);
    ck_assert_uint_eq(mig->desc.role, CADRE_ROLE_PLACEMENT);
    fake_stop(&fake);
}
END_TEST

/* Micro-batches in proportion to the sizes. */
START_TEST(sizes_divide_the_batch)
{
    static const char *const options[] = {"sizes", "3 1", NULL};
    set_options(options);
    fake.axis.size = 2;
    fake.plan.microbatches = 11;
    ck_assert_msg(fake_start(&fake) == CADRE_OK, "%s", fake.failure);
    ck_assert_uint_eq(fake.map, CADRE_MICROBATCHES_RANGES);
    ck_assert_uint_eq(fake.first_map[1], 9);
    ck_assert_uint_eq(fake.first_map[2], 11);
    fake_stop(&fake);
    fake.plan.microbatches = 1;
    refused(fake_start(&fake),
            "makes 1 micro-batches, expected at least one for each of "
            "the 2 parts of mig.sizes");
    fake.axis.size = 4;
    refused(fake_start(&fake), "mig.sizes has 2 sizes, but strategy.stack has 4 parts");
}
END_TEST

START_TEST(sizes_that_are_none_are_refused)
{
    static const char *const options[] = {"sizes", "3 x", NULL};
    set_options(options);
    refused(fake_start(&fake), "mig.sizes: expected at most 128 numbers");
}
END_TEST

START_TEST(independent_runs_claim_and_sum_nothing)
{
    static const char *const options[] = {"mode", "independent", "sweep",
                                          "optim.lr: 1e-3 3e-4", NULL};
    set_options(options);
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    ck_assert_uint_eq(fake.batch, CADRE_BATCH_INDEPENDENT);
    ck_assert_str_eq(fake.claims, "");
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(fake.posts, 0);
    fake_stop(&fake);
}
END_TEST

START_TEST(a_sweep_needs_independent_runs)
{
    static const char *const options[] = {"mode", "average", "sweep",
                                          "optim.lr: 1e-3 3e-4", NULL};
    set_options(options);
    refused(fake_start(&fake), "mig.sweep = optim.lr: 1e-3 3e-4 gives instances "
                               "different options, but mig.mode = average");
}
END_TEST

START_TEST(refusals_of_the_host_are_passed_on)
{
    static const char *const options[] = {"mode", "independent", NULL};
    set_options(options);
    fake.fail_plan = 1;
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    fake.fail_plan = 0;
    fake.fail_service = 1;
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fake.failure, "the host has no service"));
}
END_TEST

/* ---- core sets ---- */

START_TEST(core_sets_follow_the_axis)
{
    for (int size = 1; size <= 8; size++)
        for (int index = 0; index < size; index++) {
            ck_assert_int_eq(ask(index, size), CADRE_OK);
            ck_assert_uint_eq(request.n, 8u / (uint32_t)size);
            for (uint32_t i = 0; i < request.n; i++)
                ck_assert_uint_eq(request.cpu[i],
                                  cpus[(uint32_t)index * request.n + i]);
            ck_assert_str_eq(request.env, "");
        }
}
END_TEST

START_TEST(core_sets_have_their_sizes)
{
    static const char *const options[] = {"sizes", "3 1", NULL};
    set_options(options);
    ck_assert_int_eq(ask(0, 2), CADRE_OK);
    ck_assert_uint_eq(request.n, 6);
    ck_assert_uint_eq(request.cpu[5], cpus[5]);
    ck_assert_int_eq(ask(1, 2), CADRE_OK);
    ck_assert_uint_eq(request.n, 2);
    ck_assert_uint_eq(request.cpu[0], cpus[6]);
    place.n_cpus = 3;
    refused(ask(0, 2), "mig.sizes divides the CPUs into 4 parts of one size, but there "
                       "are 3 CPUs");
    set_options((const char *const[]){"sizes", "2 1 1 1", NULL});
    place.ranks = 4;
    place.local_ranks = 3;
    refused(ask(0, 4), "mig.sizes on several machines needs as many parts on each");
}
END_TEST

START_TEST(more_sets_than_cpus_are_refused)
{
    place.n_cpus = 3;
    refused(ask(0, 4), "4 core sets, but there are 3 CPUs to divide; use mig:3, or "
                       "mig.pin = no");
}
END_TEST

START_TEST(without_pin_nothing_is_requested)
{
    static const char *const options[] = {"mode", "average", "pin", "no", NULL};
    set_options(options);
    place.n_cpus = 3;
    ck_assert_int_eq(ask(3, 4), CADRE_OK);
    place.gpu = 1;
    ck_assert_int_eq(ask(3, 4), CADRE_OK);
    ck_assert_uint_eq(request.n, 0);
    ck_assert_str_eq(request.env, "");
}
END_TEST

/* Sets are of one machine: of 8 instances on two machines each has 4. */
START_TEST(each_machine_has_its_share)
{
    place.ranks = 16;
    place.local_ranks = 8;
    ck_assert_int_eq(ask(5, 8), CADRE_OK);
    ck_assert_uint_eq(request.n, 2);
    ck_assert_uint_eq(request.cpu[0], cpus[2]);
    place.local_ranks = 0; /* not known: taken as one */
    ck_assert_int_eq(ask(5, 8), CADRE_OK);
    ck_assert_uint_eq(request.n, 1);
}
END_TEST

/* ---- MIG instances ---- */

/* The machine has GPUs that these words describe (tests/support/fake_nvml). */
static void show_gpus(const char *words)
{
    char path[1024];
    const char *build = getenv("CADRE_BUILD");
    snprintf(path, sizeof path, "%s/tests/support/fake_nvml/.libs/fake_nvml.so",
             build ? build : ".");
    setenv("CADRE_NVML", path, 1);
    setenv("CADRE_FAKE_NVML", words, 1);
    unsetenv("CADRE_FAKE_NVML_STATE");
    unsetenv("CUDA_VISIBLE_DEVICES");
    place.gpu = 1;
}

START_TEST(instances_follow_the_axis)
{
    char first[256];
    show_gpus("h200 0@0 0@2 2@4");
    ck_assert_int_eq(ask(0, 2), CADRE_OK);
    ck_assert_msg(strncmp(request.env, "CUDA_VISIBLE_DEVICES=MIG-", 25) == 0, "%s",
                  request.env);
    memcpy(first, request.env, sizeof first);
    ck_assert_int_eq(ask(1, 2), CADRE_OK);
    ck_assert_str_ne(request.env, first);
    ck_assert_int_eq(ask(0, 2), CADRE_OK);
    ck_assert_str_eq(request.env, first);
    ck_assert_uint_eq(request.n, 0);
    place.ranks = place.local_ranks = 4;
    refused(ask(0, 4), "needs 4 MIG instances, found 3");
}
END_TEST

START_TEST(options_choose_instances)
{
    static const char *const options[] = {
        "mode", "average", "profile", "1g", "instances", "0:1 0:0", "pin", "yes", NULL};
    show_gpus("h200 0@0 0@2 2@4");
    set_options(options);
    ck_assert_int_eq(ask(0, 2), CADRE_OK);
    const char end = request.env[strlen(request.env) - 1];
    ck_assert_int_eq(ask(1, 2), CADRE_OK);
    ck_assert_int_ne(request.env[strlen(request.env) - 1], end);
    place.ranks = place.local_ranks = 3;
    refused(ask(0, 3), "found 2 in mig.instances of mig.profile = 1g");
}
END_TEST

START_TEST(gpus_without_instances_say_why)
{
    show_gpus("h200 off");
    refused(ask(0, 2), "MIG is off");
    ck_assert_ptr_nonnull(strstr(fake.failure, "`cadre mig plan`"));
    ck_assert_ptr_nonnull(strstr(fake.failure, "mig.pin = no"));
    show_gpus("h200 nomig");
    refused(ask(0, 2), "MIG");
    show_gpus("h200");
    refused(ask(0, 2), "no instances yet");
    setenv("CADRE_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    refused(ask(0, 2), "/nowhere/libnvidia-ml.so.1");
}
END_TEST

START_TEST(ranks_share_an_instance_only_where_asked)
{
    static const char *const options[] = {"mode",  "average", "pin", "yes",
                                          "share", "yes",     NULL};
    show_gpus("h200 0@0 0@2");
    place.ranks = place.local_ranks = 4;
    refused(ask(1, 2), "puts 2 ranks on each of 2 MIG instances: set mig.share = yes");
    set_options(options);
    ck_assert_int_eq(ask(1, 2), CADRE_OK);
    ck_assert_int_eq(ask(3, 4),
                     CADRE_OK); /* more ranks along the axis than instances */
}
END_TEST

START_TEST(nccl_does_not_reach_instances)
{
    place.gpu = place.nccl = 1;
    refused(ask(0, 2), "set comm.backend = local");
}
END_TEST

START_TEST(an_older_host_is_refused)
{
    place.struct_size = offsetof(struct cadre_place, gpu);
    refused(ask(0, 2), "the host does not say which CPUs");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("mig");
    TCase *tc = tcase_create("mig");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, average_places_and_nothing_else);
    tcase_add_test(tc, sizes_divide_the_batch);
    tcase_add_test(tc, sizes_that_are_none_are_refused);
    tcase_add_test(tc, independent_runs_claim_and_sum_nothing);
    tcase_add_test(tc, a_sweep_needs_independent_runs);
    tcase_add_test(tc, refusals_of_the_host_are_passed_on);
    tcase_add_test(tc, core_sets_follow_the_axis);
    tcase_add_test(tc, core_sets_have_their_sizes);
    tcase_add_test(tc, more_sets_than_cpus_are_refused);
    tcase_add_test(tc, without_pin_nothing_is_requested);
    tcase_add_test(tc, each_machine_has_its_share);
    tcase_add_test(tc, instances_follow_the_axis);
    tcase_add_test(tc, options_choose_instances);
    tcase_add_test(tc, gpus_without_instances_say_why);
    tcase_add_test(tc, ranks_share_an_instance_only_where_asked);
    tcase_add_test(tc, nccl_does_not_reach_instances);
    tcase_add_test(tc, an_older_host_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
