/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against a fake host. Training with it is in
 * tests/cli/test_train_tensor.sh. */
#include <stdio.h>
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

#define N_ENTRIES 6u

static const struct cadre_plugin_handle *tensor;
static struct fake_host fake;

/* Every entry but 0 and 3 is a sum over rows; 5 is on another stage. */
static void setup(void)
{
    tensor = built_plugin_load("tensor");
    fake_init(&fake, &tensor->ops, N_ENTRIES);
    fake.axis = (struct cadre_axis){.name = "tp", .size = 2};
    fake.plan.batch = 2;
    fake.plan.time = 3;
    fake_set(&fake, "sequence_parallel", "no");
    for (uint32_t i = 0; i < N_ENTRIES; i++) {
        fake.entry[i].count = 10 * i;
        fake.entry[i].partial = i % 3 != 0;
        fake.entry[i].absent = i == 5;
    }
}

static void teardown(void)
{
    fake_fini(&fake);
}

static void start(void)
{
    cadre_status rc = fake_start(&fake);
    ck_assert_msg(rc == CADRE_OK, "%s", fake.failure);
}

static const struct fake_post *last_post(void)
{
    ck_assert_int_gt(fake.posts, 0);
    return &fake.post[fake.posts - 1];
}

START_TEST(plans_its_axis)
{
    ck_assert_str_eq(tensor->desc.axis, "tp");
    ck_assert_uint_eq(tensor->desc.role, CADRE_ROLE_INTRA);
    start();
    ck_assert_uint_eq(fake.batch, CADRE_BATCH_SAME);
    ck_assert_str_eq(fake.claims, "act.complete@tp/0");
    fake.fail_plan = fake.plans + 1;
    ck_assert_int_eq(fake_plan(&fake), CADRE_E_UNSUPPORTED);
    fake_stop(&fake);
}
END_TEST

/* As `tensor@inner`: its claims are on the axis that the stack names. */
START_TEST(takes_the_axis_it_is_given)
{
    snprintf(fake.axis.name, sizeof fake.axis.name, "inner");
    fake_set(&fake, "sequence_parallel", "yes");
    start();
    ck_assert_str_eq(fake.claims, "act.complete@inner/0 seq.shard@inner/0");
    fake_stop(&fake);
}
END_TEST

START_TEST(needs_its_services)
{
    struct cadre_comm_svc poor = fake_comm;
    const void *mesh = fake_service(&fake, CADRE_SERVICE_MESH);
    fake_set_service(&fake, CADRE_SERVICE_MESH, NULL);
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_str_eq(fake.failure, "the host has no service " CADRE_SERVICE_MESH);
    fake_set_service(&fake, CADRE_SERVICE_MESH, mesh);
    poor.struct_size = offsetof(struct cadre_comm_svc, stream_wait);
    fake_set_service(&fake, CADRE_SERVICE_COMM, &poor);
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fake.failure, "service lacks"));
}
END_TEST

START_TEST(completes_every_redistribution)
{
    float a[4] = {0}, b[4] = {0};
    struct cadre_buf in = {a, 4, CADRE_F32, 0};
    struct cadre_buf out = {b, 4, CADRE_F32, 0};
    const char *before = NULL;
    start();
    for (uint32_t j = CADRE_POINT_EMBED_OUT; j <= CADRE_POINT_LOSS_SUM; j++) {
        struct cadre_redistribute_ev ev = {
            .struct_size = sizeof ev, .point = j, .in = &in, .out = &out};
        ck_assert_int_eq(tensor->ops.on_redistribute(fake.self, &ev), CADRE_OK);
        ck_assert_int_eq(fake.posts, (int)j + 1);
        ck_assert_int_eq(fake.joins, (int)j + 1);
        const struct fake_post *post = last_post();
        ck_assert_uint_eq(post->kind, FAKE_ALL_REDUCE);
        ck_assert_uint_eq(post->after, 0);
        ck_assert_mem_eq(&post->in, &in, sizeof in);
        ck_assert_mem_eq(&post->out, &out, sizeof out);
        ck_assert_uint_eq(post->red, j == CADRE_POINT_LOSS_MAX ? CADRE_MAX : CADRE_SUM);
        ck_assert_ptr_nonnull(strstr(post->label, "tensor "));
        ck_assert_uint_eq(post->traffic, CADRE_TRAFFIC_ACTIVATION);
        ck_assert_ptr_ne(post->label, before);
        before = post->label;
    }
    for (uint32_t what = CADRE_SYNC_GRADS; what <= CADRE_SYNC_DRAIN; what++)
        ck_assert_int_eq(fake_sync(&fake, what), CADRE_OK);
    fake_stop(&fake);
}
END_TEST

START_TEST(shards_rows_where_asked)
{
    fake_set(&fake, "sequence_parallel", "yes");
    start();
    ck_assert_str_eq(fake.claims, "act.complete@tp/0 seq.shard@tp/0");
    fake.plan.batch = fake.plan.time = 1;
    ck_assert_int_eq(fake_plan(&fake), CADRE_E_INVALID);
    ck_assert_str_eq(
        fake.failure,
        "tensor.sequence_parallel cannot divide the 1 tokens of a "
        "micro-batch (train.micro_batch x model.context or data.window) over "
        "the 2 ranks of tensor in strategy.stack; use fewer ranks or "
        "sequence_parallel = no");
    fake_stop(&fake);
}
END_TEST

START_TEST(scatters_and_gathers)
{
    static const struct {
        uint32_t form, kind;
        uint64_t in, out;
    } cases[] = {{CADRE_REDISTRIBUTE_ALL_REDUCE, FAKE_ALL_REDUCE, 3, 3},
                 {CADRE_REDISTRIBUTE_REDUCE_SCATTER, FAKE_REDUCE_SCATTER, 3, 1},
                 {CADRE_REDISTRIBUTE_ALL_GATHER, FAKE_ALL_GATHER, 1, 3}};
    const uint64_t offsets[] = {0, 1, 3};
    float a[3] = {0}, b[3] = {0};
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cadre_buf in = {a, cases[i].in, CADRE_F32, 0};
        struct cadre_buf out = {b, cases[i].out, CADRE_F32, 0};
        struct cadre_redistribute_ev ev = {
            .struct_size = sizeof ev,
            .point = CADRE_POINT_MLP_IN,
            .form = cases[i].form,
            .in = &in,
            .out = &out,
            .offsets = i > 0 ? offsets : NULL,
        };
        ck_assert_int_eq(tensor->ops.on_redistribute(fake.self, &ev), CADRE_OK);
        ck_assert_uint_eq(last_post()->kind, cases[i].kind);
        ck_assert_uint_eq(last_post()->after, 0);
        ck_assert_str_eq(last_post()->label, "tensor MLP in");
        if (ev.offsets)
            ck_assert_mem_eq(last_post()->offsets, offsets, sizeof offsets);
        ck_assert_int_eq(fake.joins, (int)i + 1);
    }
    fake_stop(&fake);
}
END_TEST

static void run_step(void)
{
    fake_forget_posts(&fake);
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_GRADS), CADRE_OK);
    for (int i = 0; i < fake.posts; i++)
        ck_assert_uint_eq(fake.post[i].after, 0);
}

/* Entries 1, 2 and 4, once, by what this rank holds of each. */
START_TEST(sums_what_adds_over_rows)
{
    float own = 0;
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 3);
    fake_stop(&fake);
    fake_set(&fake, "sequence_parallel", "yes");
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 3);
    ck_assert_uint_eq(fake.post[0].in.count, 10);
    ck_assert_uint_eq(fake.post[1].in.count, 20);
    ck_assert_uint_eq(fake.post[2].in.count, 40);
    ck_assert_int_eq(fake.joins, 1);
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(fake.posts, 3);
    /* entry 1 has its own range of the gradient, entry 4 an empty one */
    fake.entry[1].range[CADRE_KIND_GRAD] = (struct fake_range){true, 0, 1, 0};
    fake.entry[1].shard[CADRE_KIND_GRAD] = &own;
    fake.entry[4].range[CADRE_KIND_GRAD] = (struct fake_range){true, 0, 0, 0};
    run_step();
    ck_assert_int_eq(fake.posts, 2);
    ck_assert_uint_eq(fake.post[0].in.count, 1);
    ck_assert_uint_eq(fake.post[1].in.count, 20);
    fake.fail_post = fake.posts + 1;
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_GRADS), CADRE_E_COMM);
    fake_stop(&fake);
}
END_TEST

START_TEST(frozen_gradients_and_forward_steps_are_left_alone)
{
    fake_set(&fake, "sequence_parallel", "yes");
    fake.entry[2].frozen = true;
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 2);
    ck_assert_uint_eq(fake.post[0].in.count, 10);
    ck_assert_uint_eq(fake.post[0].traffic, CADRE_TRAFFIC_GRAD);
    ck_assert_uint_eq(fake.post[1].in.count, 40);
    ck_assert_int_eq(fake_forward_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(fake.posts, 2);
    fake_stop(&fake);
}
END_TEST

START_TEST(says_what_failed)
{
    float a[1] = {0};
    struct cadre_buf buf = {a, 1, CADRE_F32, 0};
    struct cadre_redistribute_ev ev = {
        .struct_size = sizeof ev, .in = &buf, .out = &buf};
    start();
    fake.fail_post = 1;
    ck_assert_int_eq(tensor->ops.on_redistribute(fake.self, &ev), CADRE_E_COMM);
    fake.fail_post = 0;
    fake.fail_stream_wait = 1;
    ck_assert_int_eq(tensor->ops.on_redistribute(fake.self, &ev), CADRE_E_ABORTED);
    ev.point = CADRE_POINT_LOSS_SUM + 1;
    ck_assert_int_eq(tensor->ops.on_redistribute(fake.self, &ev), CADRE_E_UNSUPPORTED);
    ck_assert_str_eq(fake.failure, "redistribution 8 is not known to this version");
    fake_stop(&fake);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("tensor");
    TCase *tc = tcase_create("tensor");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, plans_its_axis);
    tcase_add_test(tc, takes_the_axis_it_is_given);
    tcase_add_test(tc, needs_its_services);
    tcase_add_test(tc, completes_every_redistribution);
    tcase_add_test(tc, shards_rows_where_asked);
    tcase_add_test(tc, scatters_and_gathers);
    tcase_add_test(tc, sums_what_adds_over_rows);
    tcase_add_test(tc, frozen_gradients_and_forward_steps_are_left_alone);
    tcase_add_test(tc, says_what_failed);
    suite_add_tcase(s, tc);
    return s;
}
