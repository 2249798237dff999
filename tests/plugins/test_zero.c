/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against a fake host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

#define LAYERS 4
#define UNITS (LAYERS + 2u)
#define PER_LAYER 4
#define ENTRIES (1 + LAYERS * PER_LAYER + 2)
#define TIED (ENTRIES - 1u)

static const struct cadre_plugin_handle *zero;
static struct fake_host f;
static int stage;

/* Each element is what the rank that owns it says. */
static void check_values(struct fake_host *host, uint32_t unit)
{
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct fake_entry *entry = &f.entry[i];
        if (entry->tied_to >= 0)
            entry = &f.entry[entry->tied_to];
        const struct fake_range *own = &entry->range[CADRE_KIND_OPT];
        if (f.entry[i].unit != unit)
            continue;
        ck_assert_ptr_nonnull(entry->data);
        for (uint64_t k = 0; k < entry->count; k++) {
            bool mine = k >= own->begin && k < own->begin + own->count;
            bool fresh = stage == 3 || f.steps > 1;
            float is = entry->data[k], self = (float)(f.axis.index + 1);
            ck_assert(!mine || is == self);
            ck_assert(mine || !fresh || (is >= 1 && is != self));
        }
    }
}

/* 4 layers between an embedding and a head tied to it; 4 ranks of which this is 1. */
static void setup(void)
{
    static const uint64_t counts[PER_LAYER] = {7, FAKE_PAD * 9, 100, 33};
    zero = built_plugin_load("zero");
    fake_init(&f, &zero->ops, ENTRIES);
    f.axis.size = 4;
    f.axis.index = 1;
    f.plan.n_units = f.n_units = UNITS;
    f.on_forward = check_values;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        f.entry[i].count = counts[(i + 3) % PER_LAYER];
        f.entry[i].unit = (i + PER_LAYER - 1) / PER_LAYER;
    }
    f.entry[0].count = f.entry[TIED].count = FAKE_PAD * 23 + 5;
    f.entry[TIED].unit = UNITS - 1;
    f.entry[TIED].tied_to = 0;
    stage = 1;
    fake_set(&f, "prefetch", "1");
    fake_set(&f, "overlap", "yes");
    fake_set(&f, "offload", "none");
    fake_set(&f, "bucket_mb", "0.001");
    fake_set(&f, "reduce", "step");
    fake_set(&f, "level", "0");
    fake_set(&f, "node", "0");
    fake_set(&f, "two_levels", "no");
    fake_set(&f, "secondary", "none");
    fake_set(&f, "quantize_gathers", "none");
    fake_set(&f, "quantize_gradients", "none");
}

static void teardown(void)
{
    fake_fini(&f);
}

static void reduce_each_microbatch(bool each)
{
    fake_set(&f, "reduce", "%s", each ? "microbatch" : "step");
}

static cadre_status try_start(void)
{
    fake_set(&f, "stage", "%d", stage);
    f.plan.microbatches = f.micro_batches * (uint64_t)f.axis.size;
    f.plan.rank_microbatches = f.micro_batches;
    cadre_status rc = fake_start(&f);
    ck_assert(rc || f.batch == CADRE_BATCH_SPLIT);
    return rc;
}

static void start(void)
{
    cadre_status rc = try_start();
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, f.failure);
}

static void end(void)
{
    fake_stop(&f);
}

static cadre_status try_step(void)
{
    cadre_status rc = fake_step(&f);
    if (!rc)
        rc = fake_sync(&f, CADRE_SYNC_GRADS);
    return rc ? rc : fake_sync(&f, CADRE_SYNC_PARAMS);
}

static void run_step(void)
{
    cadre_status rc = try_step();
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, f.failure);
}

static cadre_status drain(void)
{
    return fake_sync(&f, CADRE_SYNC_DRAIN);
}

static bool travel_one_by_one(void)
{
    return f.map == CADRE_MICROBATCHES_CYCLIC;
}

/* ---- the file ---- */

START_TEST(exports_one_symbol)
{
    built_plugin_exports_its_entry(zero);
}
END_TEST

START_TEST(describes_itself)
{
    ck_assert_str_eq(zero->desc.id, "org.cadre.zero");
    ck_assert_str_eq(zero->desc.axis, "dp");
    ck_assert_uint_eq(zero->desc.role, CADRE_ROLE_DATA);
}
END_TEST

/* ---- plan ---- */

START_TEST(claims_by_stage)
{
    static const char *const claims[] = {
        "reduces@dp/0 opt.shard@dp/0",
        "reduces@dp/0 opt.shard@dp/0",
        "reduces@dp/0 opt.shard@dp/0 param.place@dp/0",
    };
    stage = _i + 1;
    reduce_each_microbatch(stage > 1);
    start();
    ck_assert_str_eq(f.claims, claims[_i]);
    ck_assert_int_eq(travel_one_by_one(), stage > 1);
    for (int i = 0; i < ENTRIES; i++) {
        const struct fake_range *range = f.entry[i].range;
        ck_assert_int_eq(range[CADRE_KIND_OPT].placed, i != TIED);
        ck_assert_int_eq(range[CADRE_KIND_GRAD].placed, stage >= 2);
        ck_assert_int_eq(range[CADRE_KIND_PARAM].placed, stage == 3 && i != TIED);
    }
    end();
}
END_TEST

/* Every element has one owner, and every rank as much as the others, within a unit. */
START_TEST(shards_cover_everything_evenly)
{
    f.axis.size = _i + 1;
    stage = 2;
    uint64_t end_of[ENTRIES] = {0}, all = 0, least = UINT64_MAX, most = 0;
    for (f.axis.index = 0; f.axis.index < f.axis.size; f.axis.index++) {
        uint64_t sum = 0;
        start();
        for (int i = 0; i < ENTRIES; i++) {
            const struct fake_range *own = &f.entry[i].range[CADRE_KIND_OPT];
            if (i == TIED)
                continue;
            ck_assert(own->count == 0 || own->begin == end_of[i]);
            end_of[i] += own->count;
            sum += own->count;
        }
        least = sum < least ? sum : least;
        most = sum > most ? sum : most;
        end();
    }
    for (int i = 0; i < ENTRIES; i++) {
        all += i == TIED ? 0 : f.entry[i].count;
        ck_assert(i == TIED || end_of[i] == f.entry[i].count);
    }
    ck_assert_msg(most - least <= 2 * FAKE_PAD, "%d ranks own %u to %u of %u",
                  f.axis.size, (unsigned)least, (unsigned)most, (unsigned)all);
}
END_TEST

/* The stage with the embedding and the one with the tied head shard both alike. */
START_TEST(tied_entries_are_sharded_alike_on_two_stages)
{
    struct fake_range embed[4], head[4];
    stage = 3;
    f.entry[TIED].tied_to = _i;
    f.entry[_i].count = f.entry[TIED].count;
    for (uint32_t i = 0; i < ENTRIES; i++)
        f.entry[i].absent = f.entry[i].unit >= 3;
    start();
    memcpy(embed, f.entry[_i].range, sizeof embed);
    memcpy(head, f.entry[TIED].range, sizeof head);
    end();
    for (uint32_t i = 0; i < ENTRIES; i++)
        f.entry[i].absent = f.entry[i].unit < 4;
    start();
    ck_assert_mem_eq(embed, f.entry[_i].range, sizeof embed);
    ck_assert_mem_eq(head, f.entry[TIED].range, sizeof head);
    ck_assert_uint_eq(head[CADRE_KIND_GRAD].begin, embed[CADRE_KIND_OPT].begin);
    ck_assert_uint_eq(head[CADRE_KIND_GRAD].count, embed[CADRE_KIND_OPT].count);
    run_step();
    run_step();
    ck_assert_int_eq(drain(), CADRE_OK);
    end();
}
END_TEST

START_TEST(states_go_where_they_are_placed)
{
    f.axis.size = 1 + _i;
    f.axis.index = 0;
    fake_set(&f, "offload", "optimizer");
    start();
    ck_assert_uint_eq(f.entry[1].range[CADRE_KIND_OPT].space, CADRE_SPACE_HOST);
    end();
}
END_TEST

START_TEST(what_saves_nothing_is_refused)
{
    reduce_each_microbatch(true);
    ck_assert_int_eq(try_start(), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.failure, "zero.reduce = microbatch"));
}
END_TEST

START_TEST(a_missing_service_is_refused)
{
    for (f.fail_service = 1; f.fail_service <= 5; f.fail_service++) {
        ck_assert_int_eq(try_start(), CADRE_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(f.failure, "the host has no service cadre."));
    }
}
END_TEST

START_TEST(non_contiguous_storage_is_refused)
{
    f.torn = true;
    f.axis.size = 2;
    fake_set(&f, "bucket_mb", "1");
    stage = _i + 1;
    ck_assert_int_eq(try_start(), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(f.failure, "do not follow those of the entry before"));
}
END_TEST

/* ---- steps ---- */

/* Settings number i of those that change what is sent when. */
#define SETTINGS 60
/* So many of them, spread over all, where they are a sample. */
#define SAMPLE 10
static void set(int i)
{
    if (test_lean())
        i = i * 17 % SETTINGS;
    stage = 1 + i % 3;
    reduce_each_microbatch(i / 3 % 2 && stage > 1);
    f.micro_batches = i / 6 % 2 ? 3 : 1;
    fake_set(&f, "overlap", "%s", i / 12 % 2 ? "yes" : "no");
    fake_set(&f, "prefetch", "%d", i / 12 % 5);
    fake_set(&f, "bucket_mb", "%s", i / 30 ? "1" : "0.001");
}

/* Whatever the settings, the owned part of each gradient is the sum over ranks and
 * micro-batches, values come from their owners, and no more memory is taken than the
 * plan said. */
START_TEST(gradients_are_summed_and_values_arrive)
{
    set(_i);
    start();
    for (int step = 0; step < 3; step++) {
        run_step();
        for (int i = 0; i < ENTRIES; i++) {
            const struct fake_entry *entry = &f.entry[i];
            const struct fake_range *own =
                &f.entry[i == TIED ? entry->tied_to : i].range[CADRE_KIND_OPT];
            const float *sum =
                stage == 1 ? entry->grad + own->begin : entry->shard[CADRE_KIND_GRAD];
            for (uint64_t k = 0; k < own->count; k++)
                ck_assert(sum[k] == (float)(f.axis.size * (int)f.micro_batches));
        }
    }
    ck_assert_int_eq(drain(), CADRE_OK);
    for (int p = 0; p < f.posts; p++)
        ck_assert(f.post[p].done);
    for (int i = 0; i < ENTRIES; i++) {
        ck_assert(stage < 3 || !f.entry[i].data);
        ck_assert(stage < 2 || !f.entry[i].grad);
        ck_assert_uint_eq(f.entry[i].parts,
                          travel_one_by_one() ? 3 * f.micro_batches : 0);
        ck_assert_uint_eq(f.entry[i].reports,
                          travel_one_by_one() ? 3 * f.micro_batches : 3);
    }
    ck_assert_uint_le(f.most, f.planned);
    end();
}
END_TEST

/* What a rank posts depends on nothing that differs between ranks. */
START_TEST(all_ranks_post_the_same)
{
    static struct fake_post first[FAKE_POSTS];
    int posts = 0;
    set(_i);
    for (f.axis.index = 0; f.axis.index < f.axis.size; f.axis.index++) {
        start();
        run_step();
        run_step();
        ck_assert_int_eq(drain(), CADRE_OK);
        if (f.axis.index == 0) {
            memcpy(first, f.post, sizeof first);
            posts = f.posts;
        }
        ck_assert_int_eq(f.posts, posts);
        for (int p = 0; p < posts; p++) {
            ck_assert_ptr_eq(f.post[p].label, first[p].label);
            ck_assert_mem_eq(f.post[p].offsets, first[p].offsets,
                             sizeof first[p].offsets);
        }
        end();
    }
}
END_TEST

START_TEST(one_rank_does_nothing)
{
    f.axis.size = 1;
    f.axis.index = 0;
    stage = _i + 1;
    start();
    ck_assert(!travel_one_by_one());
    run_step();
    ck_assert_int_eq(f.posts + f.allocs, 0);
    end();
}
END_TEST

START_TEST(sync_may_come_twice_or_for_nothing)
{
    stage = _i + 1;
    start();
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(drain(), CADRE_OK);
    ck_assert_int_eq(f.posts, 0);
    run_step();
    int posts = f.posts;
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(drain(), CADRE_OK);
    ck_assert_int_eq(f.posts, posts);
    end();
}
END_TEST

/* Whichever allocation, post or wait fails, the step returns the failure. */
START_TEST(every_failure_is_passed_on)
{
    int *const which[] = {&f.fail_alloc, &f.fail_post, &f.fail_stream_wait};
    static const cadre_status codes[] = {CADRE_E_RESOURCE, CADRE_E_COMM,
                                         CADRE_E_ABORTED};
    set(_i / 3);
    bool ended = false;
    for (int n = 1; !ended; n++) {
        *which[_i % 3] = n;
        start();
        cadre_status rc = try_step();
        ended = rc == CADRE_OK;
        ck_assert(ended || rc == codes[_i % 3]);
        end();
    }
}
END_TEST

/* ---- quantized gradients: what is posted and reported, not what is computed ---- */

static cadre_status no_quantize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                uint64_t block, const struct cadre_buf *q,
                                const struct cadre_buf *scales)
{
    ck_assert_uint_eq(q->count, x->count);
    ck_assert_uint_eq(scales->count, (x->count + block - 1) / block);
    return CADRE_OK;
}

static cadre_status no_dequantize(struct cadre_ctx *ctx, const struct cadre_buf *q,
                                  const struct cadre_buf *scales, uint64_t block,
                                  const struct cadre_buf *x)
{
    return no_quantize(ctx, x, block, q, scales);
}

static cadre_status no_add(struct cadre_ctx *ctx, const struct cadre_buf *out,
                           const struct cadre_buf *a, const struct cadre_buf *b)
{
    ck_assert(out->count == a->count && out->count == b->count);
    return CADRE_OK;
}

static cadre_status no_copy(struct cadre_ctx *ctx, void *dst, const void *src,
                            uint64_t bytes)
{
    return CADRE_OK;
}

static void nothing_arrives(struct fake_host *host, struct fake_post *post)
{
}

static void quantize_gradients(void)
{
    static const struct cadre_ops_svc ops = {.struct_size = sizeof ops,
                                             .copy = no_copy,
                                             .add = no_add,
                                             .quantize = no_quantize,
                                             .dequantize = no_dequantize};
    fake_set_service(&f, CADRE_SERVICE_OPS, &ops);
    fake_set(&f, "quantize_gradients", "int8");
    f.on_stream_wait = nothing_arrives;
    f.on_forward = NULL;
}

/* Two buckets at most are on their way at once; every sum is reported once its exchange
 * was waited for. */
START_TEST(quantized_buckets_are_exchanged)
{
    int exchanges = 0;
    set(_i);
    quantize_gradients();
    start();
    ck_assert_str_eq(f.by_design, "quantize_gathers=none, quantize_gradients=none");
    run_step();
    for (int p = 0; p < f.posts; p++) {
        ck_assert_uint_ne(f.post[p].kind, FAKE_REDUCE_SCATTER);
        exchanges += f.post[p].kind == FAKE_ALL_TO_ALL;
    }
    ck_assert_int_gt(exchanges, 0);
    for (int i = 0; i < ENTRIES; i++)
        ck_assert_uint_eq(f.entry[i].reports,
                          travel_one_by_one() ? f.micro_batches : 1);
    ck_assert_int_eq(drain(), CADRE_OK);
    ck_assert_uint_le(f.most, f.planned);
    end();
}
END_TEST

START_TEST(failures_of_exchanges_are_passed_on)
{
    int *const which[] = {&f.fail_alloc, &f.fail_post, &f.fail_stream_wait};
    bool ended = false;
    set(_i / 3);
    quantize_gradients();
    for (int n = 1; !ended; n++) {
        *which[_i % 3] = n;
        cadre_status rc = try_start();
        ended = rc == CADRE_OK && try_step() == CADRE_OK;
        if (rc == CADRE_OK)
            end();
    }
}
END_TEST

START_TEST(forward_steps_expect_no_gradient)
{
    stage = _i + 1;
    start();
    run_step();
    int posts = f.posts;
    f.steps++; /* so that values must have arrived */
    ck_assert_int_eq(fake_forward_step(&f), CADRE_OK);
    ck_assert_int_eq(drain(), CADRE_OK);
    ck_assert_int_eq(f.posts > posts, stage == 3);
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_GRADS), CADRE_OK);
    run_step();
    end();
}
END_TEST

START_TEST(a_stray_gradient_is_refused)
{
    struct cadre_buf none = {0};
    struct cadre_grad_ev ev = {.struct_size = sizeof ev,
                               .flags = CADRE_GRAD_FINAL,
                               .param = _i ? ENTRIES : 1,
                               .grad = &none};
    start();
    ck_assert_int_eq(zero->ops.on_grad(f.self, &ev), CADRE_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(f.failure, "raised"));
    end();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("zero");
    TCase *tc = tcase_create("zero");
    int settings = test_lean() ? SAMPLE : SETTINGS;
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, exports_one_symbol);
    tcase_add_test(tc, describes_itself);
    tcase_add_loop_test(tc, claims_by_stage, 0, 3);
    tcase_add_loop_test(tc, shards_cover_everything_evenly, 0, 8);
    tcase_add_loop_test(tc, tied_entries_are_sharded_alike_on_two_stages, 0, 8);
    tcase_add_loop_test(tc, states_go_where_they_are_placed, 0, 2);
    tcase_add_test(tc, what_saves_nothing_is_refused);
    tcase_add_test(tc, a_missing_service_is_refused);
    tcase_add_loop_test(tc, non_contiguous_storage_is_refused, 0, 3);
    tcase_add_loop_test(tc, gradients_are_summed_and_values_arrive, 0, settings);
    tcase_add_loop_test(tc, all_ranks_post_the_same, 0, settings);
    tcase_add_loop_test(tc, one_rank_does_nothing, 0, 3);
    tcase_add_loop_test(tc, sync_may_come_twice_or_for_nothing, 0, 3);
    tcase_add_loop_test(tc, every_failure_is_passed_on, 0, settings / 5 * 3);
    tcase_add_loop_test(tc, quantized_buckets_are_exchanged, 0, settings);
    tcase_add_loop_test(tc, failures_of_exchanges_are_passed_on, 0, settings / 5 * 3);
    tcase_add_loop_test(tc, forward_steps_expect_no_gradient, 0, 3);
    tcase_add_loop_test(tc, a_stray_gradient_is_refused, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
