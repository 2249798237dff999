/* SPDX-License-Identifier: Apache-2.0 */
/* What zero tells the core: sums of its ranges, values in flight, and what it does with
 * frozen parameters: the built plugin against a fake host. */
#include <stdio.h>
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

#define LAYERS 3
#define UNITS (LAYERS + 2u)
#define PER_LAYER 5
#define ENTRIES (1 + LAYERS * PER_LAYER + 2)
#define TIED (ENTRIES - 1u)
#define RANKS 4

static const struct cadre_plugin_handle *zero;
static struct fake_host f;
static int stage;

/* 3 layers between an embedding and a head tied to it; 4 ranks of which this is 1. */
static void setup(void)
{
    static const uint64_t counts[PER_LAYER] = {7, FAKE_PAD * 9, 100, 33, 640};
    zero = built_plugin_load("zero");
    fake_init(&f, &zero->ops, ENTRIES);
    f.axis.size = RANKS;
    f.axis.index = 1;
    f.plan.n_units = f.n_units = UNITS;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        f.entry[i].count = counts[(i + 4) % PER_LAYER];
        f.entry[i].unit = (i + PER_LAYER - 1) / PER_LAYER;
    }
    f.entry[0].count = f.entry[TIED].count = FAKE_PAD * 23 + 5;
    f.entry[ENTRIES - 2].unit = f.entry[TIED].unit = UNITS - 1;
    f.entry[TIED].tied_to = 0;
    stage = 1;
    fake_set(&f, "prefetch", "1");
    fake_set(&f, "overlap", "yes");
    fake_set(&f, "offload", "none");
    fake_set(&f, "bucket_mb", "0.002");
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

static cadre_status try_start(void)
{
    fake_set(&f, "stage", "%d", stage);
    f.plan.microbatches = f.micro_batches * (uint64_t)f.axis.size;
    f.plan.rank_microbatches = f.micro_batches;
    return fake_start(&f);
}

static void start(void)
{
    cadre_status rc = try_start();
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, f.failure);
}

static void run_step(void)
{
    cadre_status rc = fake_step(&f);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, f.failure);
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_UPDATE), CADRE_OK);
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_PARAMS), CADRE_OK);
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_METRICS), CADRE_OK);
}

/* ---- plan ---- */

/* As `zero@site` with another level. */
START_TEST(takes_the_axis_and_level_it_is_given)
{
    snprintf(f.axis.name, sizeof f.axis.name, "site");
    fake_set(&f, "level", "3");
    stage = 3;
    start();
    ck_assert_str_eq(f.claims, "reduces@site/3 opt.shard@site/0 param.place@site/0");
    fake_stop(&f);
}
END_TEST

/* Sums over ranges of any numbers of micro-batches are whole unless run.exact = yes. In
 * stage 3 ranks that gather for every pass must run as many. */
START_TEST(takes_maps_that_give_whole_sums)
{
    stage = _i + 1;
    f.other_map = CADRE_MICROBATCHES_RANGES;
    f.micro_batches = 2;
    for (int r = 0; r <= RANKS; r++)
        f.first[r] = (uint64_t)r * 2;
    if (stage == 3) {
        ck_assert_int_eq(try_start(), CADRE_E_UNSUPPORTED);
        return;
    }
    start();
    run_step();
    fake_stop(&f);
    f.plan.exact = 1;
    ck_assert_int_eq(try_start(), CADRE_E_UNSUPPORTED);
    f.plan.exact = 0;
    f.other_map = CADRE_MICROBATCHES_CYCLIC;
    start();
    ck_assert_int_eq(fake_step(&f), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(f.failure, "set zero.reduce = microbatch"));
    fake_stop(&f);
}
END_TEST

/* ---- sums ---- */

/* The sum is this rank's range, and complete after the event. Zero has posted its
 * reduction, but need not have waited. */
static void check_sum(struct fake_host *host, cadre_param_id id, cadre_event ready)
{
    const struct fake_entry *entry = &host->entry[id];
    const struct fake_entry *owner =
        entry->tied_to >= 0 ? &host->entry[entry->tied_to] : entry;
    const struct fake_range *own = &owner->range[CADRE_KIND_OPT];
    const float *sum = entry->sum.data;
    ck_assert_uint_gt(ready, FAKE_EVENT);
    fake_end_post(host, ready);
    ck_assert_uint_eq(entry->sum.count, stage == 1 ? entry->count : own->count);
    for (uint64_t i = 0; i < own->count; i++)
        ck_assert(sum[(stage == 1 ? own->begin : 0) + i] ==
                  (float)(RANKS * (host->map == CADRE_MICROBATCHES_CYCLIC
                                       ? 1
                                       : (int)host->micro_batches)));
}

START_TEST(sums_are_reported_with_their_event)
{
    stage = _i / 4 + 1;
    fake_set(&f, "overlap", "%s", _i & 1 ? "yes" : "no");
    fake_set(&f, "reduce", "%s", _i & 2 && stage > 1 ? "microbatch" : "step");
    f.micro_batches = 2;
    f.on_reduced = check_sum;
    for (f.axis.index = 0; f.axis.index < RANKS; f.axis.index++) {
        start();
        run_step();
        run_step();
        fake_stop(&f);
    }
}
END_TEST

START_TEST(a_refused_report_is_passed_on)
{
    stage = _i + 1;
    for (int n = 1; n <= ENTRIES; n++) {
        f.fail_reduced = n;
        start();
        cadre_status rc = fake_step(&f);
        ck_assert_int_eq(rc ? rc : fake_sync(&f, CADRE_SYNC_GRADS), CADRE_E_INTERNAL);
        fake_stop(&f);
    }
}
END_TEST

/* A lower level that has summed into a buffer of its own. */
static cadre_status stray(void *h, const struct cadre_step *step)
{
    float other[1024] = {0};
    struct fake_host *host = h;
    struct cadre_buf grad = {other, host->entry[1].count, CADRE_F32, 0};
    struct cadre_block_ev before = {.struct_size = sizeof before,
                                    .kind = CADRE_BEFORE_BACKWARD,
                                    .unit = host->entry[1].unit,
                                    .next_unit = -1};
    struct cadre_grad_ev ev = {.struct_size = sizeof ev,
                               .flags = CADRE_GRAD_REDUCED,
                               .param = 1,
                               .grad = &grad,
                               .map = CADRE_MICROBATCHES_CYCLIC};
    ck_assert_int_eq(zero->ops.on_block(host->self, &before), CADRE_OK);
    return zero->ops.on_grad(host->self, &ev);
}

START_TEST(sums_in_other_buffers_are_refused)
{
    struct cadre_step step = {.struct_size = sizeof step, .n_microbatches = 1};
    struct cadre_next next = {sizeof next, 0, &f, stray};
    stage = 2;
    fake_set(&f, "reduce", "microbatch");
    start();
    ck_assert_int_eq(zero->ops.step(f.self, &step, &next), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(f.failure, "not in the buffer that was attached"));
    fake_stop(&f);
}
END_TEST

/* ---- values in flight ---- */

/* Others must wait for what travels, and for nothing else. */
START_TEST(values_in_flight_are_pending)
{
    stage = _i % 3 + 1;
    bool overlap = _i < 3;
    fake_set(&f, "overlap", "%s", overlap ? "yes" : "no");
    f.entry[4].frozen = true;
    start();
    run_step();
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct fake_entry *entry = &f.entry[i];
        bool travels = overlap && stage < 3 && i != TIED && !entry->frozen;
        ck_assert_int_eq(entry->pending != 0, travels);
        if (!travels)
            continue;
        const struct fake_post *post = &f.post[entry->pending - FAKE_EVENT - 1];
        const float *begin = post->out.data;
        ck_assert_uint_eq(post->kind, FAKE_ALL_GATHER);
        ck_assert_uint_eq(post->traffic, CADRE_TRAFFIC_PARAM);
        ck_assert(!post->done);
        ck_assert(entry->data >= begin &&
                  entry->data + entry->count <= begin + post->out.count);
    }
    ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_DRAIN), CADRE_OK);
    fake_stop(&f);
}
END_TEST

/* ---- frozen parameters ---- */

/* Of every layer a plain one and one in blocks, which lie side by side. */
static void freeze(void)
{
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        f.entry[2 + layer * PER_LAYER].frozen = true;
        f.entry[3 + layer * PER_LAYER].frozen = true;
        f.entry[3 + layer * PER_LAYER].form = CADRE_FORM_INT8;
    }
    f.entry[ENTRIES - 2].frozen = true;
    f.entry[ENTRIES - 2].form = CADRE_FORM_INT8;
}

/* Each frozen value of a unit is what the rank that keeps it says. */
static void check_frozen(struct fake_host *host, uint32_t unit)
{
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct fake_entry *entry = &host->entry[i];
        const struct fake_range *own = &entry->range[CADRE_KIND_PARAM];
        const unsigned char *bytes = (const void *)entry->data;
        uint32_t dtype;
        uint64_t count = fake_stored(host, entry, &dtype);
        if (entry->unit != unit || !entry->frozen)
            continue;
        ck_assert_ptr_nonnull(entry->data);
        for (uint64_t k = 0; k < count; k++) {
            bool mine = stage < 3 || (k >= own->begin && k < own->begin + own->count);
            int is = dtype == CADRE_U8 ? bytes[k] : (int)entry->data[k];
            ck_assert(is >= 1 && is <= RANKS);
            ck_assert_int_eq(is == host->axis.index + 1, mine);
        }
    }
}

/* In every stage the steps run without them; in stage 3 their values are sharded over
 * the ranks, in whole blocks of their form. */
START_TEST(frozen_values_are_kept_in_their_form)
{
    uint64_t end[ENTRIES] = {0};
    stage = _i + 1;
    freeze();
    f.on_forward = check_frozen;
    for (f.axis.index = 0; f.axis.index < RANKS; f.axis.index++) {
        start();
        for (uint32_t i = 0; i < ENTRIES; i++) {
            const struct fake_range *range = f.entry[i].range;
            if (!f.entry[i].frozen)
                continue;
            ck_assert(!range[CADRE_KIND_GRAD].placed && !range[CADRE_KIND_OPT].placed);
            ck_assert_int_eq(range[CADRE_KIND_PARAM].placed, stage == 3);
            ck_assert(range[CADRE_KIND_PARAM].count == 0 ||
                      range[CADRE_KIND_PARAM].begin == end[i]);
            end[i] += range[CADRE_KIND_PARAM].count;
        }
        run_step();
        run_step();
        ck_assert_int_eq(fake_sync(&f, CADRE_SYNC_DRAIN), CADRE_OK);
        for (uint32_t i = 0; i < ENTRIES; i++)
            ck_assert_uint_eq(f.entry[i].reports, f.entry[i].frozen ? 0 : 2);
        ck_assert_uint_le(f.most, f.planned);
        fake_stop(&f);
    }
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t dtype;
        ck_assert(!f.entry[i].frozen || stage < 3 ||
                  end[i] == fake_stored(&f, &f.entry[i], &dtype));
    }
}
END_TEST

/* Nothing of them travels after the update. */
START_TEST(frozen_values_are_not_gathered_after_the_update)
{
    stage = _i + 1;
    freeze();
    start();
    run_step();
    for (int p = 0; p < f.posts; p++) {
        const char *begin = f.post[p].out.data;
        ck_assert_uint_eq(f.post[p].out.dtype, CADRE_F32);
        for (uint32_t i = 0; i < ENTRIES; i++) {
            const char *at = (const char *)f.entry[i].data;
            ck_assert(!f.entry[i].frozen || at < begin ||
                      at >= begin + fake_bytes(&f.post[p].out));
        }
    }
    fake_stop(&f);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("zero reports");
    TCase *tc = tcase_create("reports");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, takes_the_axis_and_level_it_is_given);
    tcase_add_loop_test(tc, takes_maps_that_give_whole_sums, 0, 3);
    tcase_add_loop_test(tc, sums_are_reported_with_their_event, 0, 12);
    tcase_add_loop_test(tc, a_refused_report_is_passed_on, 0, 3);
    tcase_add_test(tc, sums_in_other_buffers_are_refused);
    tcase_add_loop_test(tc, values_in_flight_are_pending, 0, 6);
    tcase_add_loop_test(tc, frozen_values_are_kept_in_their_form, 0, 3);
    tcase_add_loop_test(tc, frozen_values_are_not_gathered_after_the_update, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
