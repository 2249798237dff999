/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of the built plugin, with a host that plays the others: every message names
 * its sender and pass, a buffer in flight must not be touched, and every pass must
 * receive its own input. */
#include <stdio.h>
#include <string.h>

#include "plugins/pipeline/schedule.h"
#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

#define N_UNITS 40
#define COUNT 4 /* elements of an activation */

static const struct cadre_plugin_handle *plugin;
static struct fake_host stage;
static struct pipeline_shape shape;
static struct pipeline_list list; /* expected */
static uint32_t at; /* in it */
static int first; /* post of this step */
static int passes, fail_pass; /* the n-th, from 1 */
static bool forward_only; /* the step that runs */
static double seconds; /* of unit_seconds, of even units; 0: not measured */

/* ---- messages ---- */

/* The operation of a kind in flight on a buffer of the plugin, NULL for none; kind 0:
 * any. */
static const struct fake_post *under_way(uint32_t kind, const struct cadre_buf *buf)
{
    ck_assert_uint_eq(buf->count, COUNT);
    ck_assert(fake_took(&stage, buf->data));
    for (int i = 0; i < stage.posts; i++) {
        const struct fake_post *post = &stage.post[i];
        if (post->in.data == buf->data && !post->done && (!kind || post->kind == kind))
            return post;
    }
    return NULL;
}

static cadre_status on_post(struct fake_host *fake, struct fake_post *post)
{
    ck_assert_uint_eq(post->after, FAKE_NOW);
    post->done = true; /* it is not what is looked for */
    ck_assert_ptr_null(under_way(0, &post->in));
    post->done = false;
    return CADRE_OK;
}

/* The n-th message of a peer to this rank; false: there are fewer. */
static bool message_of(uint32_t peer, uint32_t n, struct pipeline_message *message)
{
    struct pipeline_list theirs;
    bool found = false;
    ck_assert_int_eq(pipeline_list_init(&theirs, &shape, peer), 0);
    for (uint32_t i = 0; i < theirs.n && !found; i++)
        found = pipeline_gives(&shape, peer, &theirs.action[i], message) &&
                message->rank == (uint32_t)stage.axis.index && n-- == 0;
    pipeline_list_fini(&theirs);
    return found;
}

/* What is received says which it is. */
static void on_stream_wait(struct fake_host *fake, struct fake_post *post)
{
    struct pipeline_message m;
    uint32_t before = 0;
    float *data = post->in.data;
    if (post->kind != FAKE_RECV)
        return;
    for (const struct fake_post *p = stage.post + first; p < post; p++)
        before += p->kind == FAKE_RECV && p->peer == post->peer;
    ck_assert_msg(message_of((uint32_t)post->peer, before, &m),
                  "a receive that nobody sends for");
    ck_assert_uint_eq(m.gradient, strstr(post->label, "gradient") != NULL);
    data[0] = (float)m.gradient;
    data[1] = (float)m.chunk;
    data[2] = (float)m.microbatch;
}

/* While a pass runs, the next message of each peer has somewhere to go. */
static void posted_ahead(void)
{
    for (int32_t peer = 0; peer < (int32_t)shape.stages; peer++) {
        uint32_t posted = 0, open = 0;
        struct pipeline_message message;
        for (int i = first; i < stage.posts; i++) {
            const struct fake_post *post = &stage.post[i];
            bool theirs = post->kind == FAKE_RECV && post->peer == peer;
            posted += theirs;
            open += theirs && !post->done;
        }
        if (peer != stage.axis.index)
            ck_assert(open > 0 || !message_of((uint32_t)peer, posted, &message));
    }
}

/* ---- passes ---- */

static double unit_cost(struct cadre_ctx *ctx, uint32_t unit)
{
    return unit + 1 == N_UNITS ? 10 : 1;
}

static double unit_seconds(struct cadre_ctx *ctx, uint32_t unit)
{
    return unit ? seconds : 100 * seconds;
}

static int32_t first_unit(uint32_t i)
{
    if (i >= list.n)
        return -1;
    const struct pipeline_action *a = &list.action[i];
    return a->kind == PIPELINE_FORWARD ? (int32_t)stage.chunk[a->chunk].begin
                                       : (int32_t)stage.chunk[a->chunk].end - 1;
}

static cadre_status pass(const struct cadre_pass_args *args, bool forward)
{
    const struct pipeline_action *a = &list.action[at];
    struct pipeline_message in, out;
    uint32_t rank = (uint32_t)stage.axis.index;
    if (fake_nth(&passes, fail_pass))
        return CADRE_E_DEVICE;
    ck_assert_uint_lt(at, list.n);
    posted_ahead();
    ck_assert_int_eq(forward, a->kind == PIPELINE_FORWARD);
    ck_assert_uint_eq(args->chunk, a->chunk);
    ck_assert_uint_eq(args->microbatch, a->microbatch);
    ck_assert_int_eq(args->next_unit, first_unit(at + 1));
    if (!forward)
        ck_assert_uint_eq(args->what, a->kind == PIPELINE_INPUT    ? CADRE_PASS_INPUT
                                      : a->kind == PIPELINE_WEIGHT ? CADRE_PASS_WEIGHT
                                                                   : CADRE_PASS_BOTH);
    ck_assert_int_eq(args->in != NULL, pipeline_takes(&shape, rank, a, &in));
    ck_assert_int_eq(args->out != NULL, pipeline_gives(&shape, rank, a, &out));
    if (args->in) {
        const float *data = args->in->data;
        ck_assert_ptr_null(under_way(FAKE_RECV, args->in));
        ck_assert(data[0] == (float)in.gradient && data[1] == (float)in.chunk &&
                  data[2] == (float)in.microbatch);
    }
    if (args->out)
        ck_assert_ptr_null(under_way(FAKE_SEND, args->out));
    if (args->out && out.rank == rank) { /* what it sends to itself it reads later */
        float *data = args->out->data;
        data[0] = (float)out.gradient;
        data[1] = (float)out.chunk;
        data[2] = (float)out.microbatch;
    }
    at++;
    return CADRE_OK;
}

static cadre_status forward(struct cadre_ctx *ctx, const struct cadre_pass_args *args)
{
    return pass(args, true);
}

static cadre_status backward(struct cadre_ctx *ctx, const struct cadre_pass_args *args)
{
    return pass(args, false);
}

/* ---- life ---- */

static void set_stage(uint32_t schedule, uint32_t stages, uint32_t chunks,
                      uint32_t microbatches, uint32_t rank)
{
    static const char *const names[PIPELINE_SCHEDULES] = {
        "gpipe", "1f1b", "interleaved", "zb-h1", "breadth-first", "zb-v", "dualpipev"};
    static const struct cadre_model_svc model = {.struct_size = sizeof model,
                                                 .unit_cost = unit_cost,
                                                 .forward = forward,
                                                 .backward = backward,
                                                 .unit_seconds = unit_seconds};
    shape = (struct pipeline_shape){schedule, stages, chunks, microbatches, 0};
    list = (struct pipeline_list){0};
    forward_only = false;
    passes = fail_pass = 0;
    seconds = 0;
    fake_init(&stage, &plugin->ops, 0);
    fake_set_service(&stage, CADRE_SERVICE_MODEL, &model);
    stage.axis = (struct cadre_axis){.name = "pp", .size = (int)stages};
    stage.axis.index = (int)rank;
    stage.singly = stage.repeated = true;
    stage.on_post = on_post;
    stage.on_stream_wait = on_stream_wait;
    stage.plan.dtype = CADRE_F32;
    stage.plan.n_units = N_UNITS;
    stage.plan.rank_microbatches = microbatches;
    stage.plan.microbatches = 2 * (uint64_t)microbatches;
    stage.plan.batch = stage.plan.channels = 2;
    stage.plan.time = 1;
    fake_set(&stage, "schedule", "%s", names[schedule]);
    fake_set(&stage, "balance", "counted");
    fake_set(&stage, "chunks", "%u", chunks > 1 ? chunks : 0);
}

static cadre_status start(void)
{
    cadre_status rc = fake_start(&stage);
    if (rc)
        return rc;
    ck_assert_uint_eq(stage.batch, CADRE_BATCH_SAME);
    ck_assert_str_eq(stage.claims, "schedule.order@pp/0");
    for (int i = 0; i < stage.allocs; i++)
        ck_assert_uint_eq(stage.block[i].space, CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static void stop(void)
{
    fake_stop(&stage);
    fake_fini(&stage);
    pipeline_list_fini(&list);
}

static cadre_status run_step(void)
{
    struct cadre_step step = {.struct_size = sizeof step,
                              .n_microbatches = shape.microbatches,
                              .flags = forward_only ? CADRE_STEP_FORWARD : 0};
    at = 0;
    first = stage.posts;
    return plugin->ops.step(stage.self, &step, NULL);
}

static void load(void)
{
    plugin = built_plugin_load("pipeline");
}

/* ---- tests ---- */

/* Blocks kept at once at most; of the units the first and the last are none. */
static uint32_t most_blocks(void)
{
    uint32_t n = 0, most = 0;
    for (uint32_t i = 0; i < list.n; i++) {
        const struct pipeline_action *a = &list.action[i];
        for (uint32_t u = stage.chunk[a->chunk].begin; u < stage.chunk[a->chunk].end;
             u++)
            if (u > 0 && u + 1 < N_UNITS && a->kind != PIPELINE_INPUT)
                n += a->kind == PIPELINE_FORWARD ? 1u : -1u;
        most = n > most ? n : most;
    }
    return most;
}

static void check_rank(uint32_t schedule, uint32_t p, uint32_t v, uint32_t m,
                       uint32_t rank)
{
    set_stage(schedule, p, v, m, rank);
    ck_assert_msg(start() == CADRE_OK, "%s", stage.failure);
    ck_assert_int_eq(pipeline_list_init(&list, &shape, rank), 0);
    ck_assert_uint_eq(stage.planned, stage.taken);
    for (uint32_t c = 0; c < v; c++) {
        ck_assert_uint_eq(stage.chunk[c].live, pipeline_list_live(&list, c));
        ck_assert_uint_eq(stage.chunk[c].flags,
                          pipeline_splits(schedule) ? CADRE_LIVE_SPLIT : 0);
    }
    ck_assert_uint_eq(stage.live_blocks, v > 1 ? most_blocks() : 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(run_step() == CADRE_OK, "%s", stage.failure);
        ck_assert_uint_eq(at, list.n);
        ck_assert_int_eq(fake_sync(&stage, CADRE_SYNC_GRADS), CADRE_OK);
        for (int k = 0; k < stage.posts; k++)
            ck_assert(stage.post[k].done);
    }
    stop();
}

static uint32_t chunks_of(uint32_t schedule)
{
    return schedule == PIPELINE_INTERLEAVED || schedule >= PIPELINE_BREADTH_FIRST ? 2
                                                                                  : 1;
}

static uint32_t least_microbatches(uint32_t schedule, uint32_t p)
{
    return schedule == PIPELINE_DUALPIPEV && p > 1 ? 2 * p : 1;
}

START_TEST(each_pass_gets_what_belongs_to_it)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 13};
    for (uint32_t schedule = 0; schedule < PIPELINE_SCHEDULES; schedule++)
        for (uint32_t p = 2; p <= 5; p++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (uint32_t rank = 0; rank < p; rank++)
                    if (sizes[i] >= least_microbatches(schedule, p))
                        check_rank(schedule, p, chunks_of(schedule), sizes[i], rank);
    for (uint32_t rank = 0; rank < 4; rank++)
        check_rank(PIPELINE_INTERLEAVED, 4, 5, 6, rank);
}
END_TEST

/* A step of n forward passes of each chunk, whose sends have arrived at its end. */
static void run_forward(uint32_t n)
{
    const struct pipeline_shape training = shape;
    pipeline_list_fini(&list);
    shape.microbatches = n;
    shape.forward = 1;
    forward_only = true;
    ck_assert_int_eq(pipeline_list_init(&list, &shape, (uint32_t)stage.axis.index), 0);
    ck_assert_uint_eq(list.n, n * shape.chunks);
    ck_assert_msg(run_step() == CADRE_OK, "%s", stage.failure);
    ck_assert_uint_eq(at, list.n);
    for (int k = 0; k < stage.posts; k++)
        ck_assert(stage.post[k].done);
    pipeline_list_fini(&list);
    shape = training;
    forward_only = false;
}

static void check_forward(uint32_t schedule, uint32_t p, uint32_t v, uint32_t m,
                          uint32_t rank)
{
    static const uint32_t sizes[] = {1, 2, 7, 7, 3};
    set_stage(schedule, p, v, m, rank);
    ck_assert_msg(start() == CADRE_OK, "%s", stage.failure);
    uint64_t taken = stage.taken;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        run_forward(sizes[i]);
        ck_assert_int_eq(pipeline_list_init(&list, &shape, rank), 0);
        ck_assert_msg(run_step() == CADRE_OK, "%s", stage.failure);
        ck_assert_int_eq(fake_sync(&stage, CADRE_SYNC_GRADS), CADRE_OK);
    }
    ck_assert_uint_eq(stage.taken, taken);
    stop();
}

/* In turns with training, of other numbers of micro-batches, in the same memory. */
START_TEST(forward_steps_run_nothing_else)
{
    for (uint32_t schedule = 0; schedule < PIPELINE_SCHEDULES; schedule++)
        for (uint32_t p = 1; p <= 4; p++)
            for (uint32_t rank = 0; rank < p; rank++) {
                uint32_t least = least_microbatches(schedule, p);
                for (uint32_t m = least; m <= least + 4; m += 2)
                    check_forward(schedule, p, p > 1 ? chunks_of(schedule) : 1, m,
                                  rank);
            }
}
END_TEST

START_TEST(one_rank_needs_no_others)
{
    for (uint32_t schedule = 0; schedule < PIPELINE_SCHEDULES; schedule++)
        check_rank(schedule, 1, 1, 3, 0);
}
END_TEST

START_TEST(a_second_plan_replaces_the_first)
{
    set_stage(PIPELINE_1F1B, 3, 1, 2, 0);
    ck_assert_int_eq(start(), CADRE_OK);
    stage.n_chunks = 0;
    stage.plan.rank_microbatches = 9;
    ck_assert_int_eq(fake_plan(&stage), CADRE_OK);
    ck_assert_uint_eq(stage.chunk[0].live, 3);
    stop();
    /* an older host: all micro-batches of the step */
    set_stage(PIPELINE_GPIPE, 3, 1, 2, 0);
    stage.plan.struct_size = offsetof(struct cadre_plan, rank_microbatches);
    ck_assert_int_eq(start(), CADRE_OK);
    ck_assert_uint_eq(stage.chunk[0].live, 4);
    stop();
}
END_TEST

START_TEST(measured_seconds_move_the_partition)
{
    set_stage(PIPELINE_1F1B, 2, 1, 2, 0);
    fake_set(&stage, "balance", "measured");
    ck_assert_int_eq(start(), CADRE_OK); /* not measured yet: counted */
    ck_assert_uint_eq(stage.chunk[0].end, 24);
    stop();
    set_stage(PIPELINE_1F1B, 2, 1, 2, 0);
    fake_set(&stage, "balance", "measured");
    seconds = 0.001;
    ck_assert_int_eq(start(), CADRE_OK);
    ck_assert_uint_eq(stage.chunk[0].end, 1);
    stop();
}
END_TEST

START_TEST(failures_come_back)
{
    set_stage(PIPELINE_1F1B, 2, 1, 4, 0);
    stage.fail_alloc = 2;
    ck_assert_int_eq(start(), CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(stage.failure, "no memory for activations"));
    stop();
    for (int i = 1; i <= 8; i++) {
        set_stage(PIPELINE_1F1B, 2, 1, 4, 0);
        ck_assert_int_eq(start(), CADRE_OK);
        ck_assert_int_eq(pipeline_list_init(&list, &shape, 0), 0);
        fail_pass = i;
        ck_assert_int_eq(run_step(), CADRE_E_DEVICE);
        fail_pass = 0;
        stage.fail_post = stage.posts + i;
        for (int k = 0; k < stage.posts; k++)
            stage.post[k].done = true;
        ck_assert_int_eq(run_step(), CADRE_E_COMM);
        stop();
    }
}
END_TEST

START_TEST(another_number_of_micro_batches_is_refused)
{
    set_stage(PIPELINE_1F1B, 2, 1, 4, 0);
    ck_assert_int_eq(start(), CADRE_OK);
    shape.microbatches = 5;
    ck_assert_int_eq(run_step(), CADRE_E_INTERNAL);
    stop();
}
END_TEST

START_TEST(refusals_say_why)
{
    static const struct {
        uint32_t schedule, stages;
        int64_t chunks;
        const char *balance, *text;
    } cases[] = {
        {PIPELINE_1F1B, 41, 0, "counted",
         "strategy.stack has 41 stages and pipeline.chunks is 1: 41 chunks, but the "
         "model has 40 units (embedding, model.layers = 38, head); use fewer stages or "
         "chunks, or more layers"},
        {PIPELINE_1F1B, 2, 2, "counted",
         "pipeline.chunks = 2 with pipeline.schedule = 1f1b: expected 1, or schedule = "
         "interleaved"},
        {PIPELINE_INTERLEAVED, 2, 1, "counted",
         "pipeline.chunks = 1 with pipeline.schedule = interleaved: expected 2 or "
         "more, or schedule = 1f1b"},
        {PIPELINE_GPIPE, 2, 0, "20, 20",
         "pipeline.balance: expected counted, measured, or the number of units of each "
         "chunk as in '3 2 2 3', found '20, 20'"},
        {PIPELINE_GPIPE, 2, 0, "20 21",
         "pipeline.balance = 20 21 is 2 chunks of 41 units, expected 2 chunks "
         "(strategy.stack x pipeline.chunks) of 40 units (embedding, model.layers = "
         "38, head)"},
        {PIPELINE_BREADTH_FIRST, 2, 1, "counted",
         "pipeline.chunks = 1 with pipeline.schedule = breadth-first: expected 2 or "
         "more, or schedule = gpipe"},
        {PIPELINE_ZB_V, 2, 3, "counted",
         "pipeline.chunks = 3 with pipeline.schedule = zb-v: expected 2"},
        {PIPELINE_ZB_V, 21, 0, "counted",
         "strategy.stack has 21 stages and pipeline.chunks is 2: 42 chunks, but the "
         "model has 40 units (embedding, model.layers = 38, head); use fewer stages or "
         "chunks, or more layers"},
        {PIPELINE_DUALPIPEV, 3, 0, "counted",
         "pipeline.schedule = dualpipev with 3 stages: 4 micro-batches on each rank, "
         "expected at least 6, two for each stage; raise train.global_batch, lower "
         "train.micro_batch, or use zb-v"},
        {PIPELINE_INTERLEAVED, 1, 2, "20 20",
         "pipeline.balance = 20 20 is 2 chunks of 40 units, expected 1 chunks "
         "(a single stage is one chunk) of 40 units (embedding, model.layers = 38, "
         "head)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_stage(cases[i].schedule, cases[i].stages, 1, 4, 0);
        fake_set(&stage, "chunks", "%d", (int)cases[i].chunks);
        fake_set(&stage, "balance", "%s", cases[i].balance);
        ck_assert_int_lt(start(), 0);
        ck_assert_str_eq(stage.failure, cases[i].text);
        stop();
    }
}
END_TEST

/* Of a tied weight both uses are on the first rank where chunks run back. */
START_TEST(the_first_rank_begins_and_ends_a_v)
{
    for (uint32_t schedule = PIPELINE_ZB_V; schedule < PIPELINE_SCHEDULES; schedule++)
        for (uint32_t rank = 0; rank < 3; rank++) {
            set_stage(schedule, 3, 2, 6, rank);
            fake_set(&stage, "balance", "5 6 7 6 7 9");
            ck_assert_msg(start() == CADRE_OK, "%s", stage.failure);
            static const uint32_t first_unit_of[] = {0, 5, 11, 18, 24, 31, 40};
            for (uint32_t c = 0; c < 2; c++) {
                uint32_t part = c ? 5 - rank : rank;
                ck_assert_uint_eq(stage.chunk[c].begin, first_unit_of[part]);
                ck_assert_uint_eq(stage.chunk[c].end, first_unit_of[part + 1]);
            }
            stop();
        }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("pipeline");
    TCase *tc = tcase_create("plugin");
    tcase_add_checked_fixture(tc, load, NULL);
    tcase_add_test(tc, each_pass_gets_what_belongs_to_it);
    tcase_add_test(tc, forward_steps_run_nothing_else);
    tcase_add_test(tc, one_rank_needs_no_others);
    tcase_add_test(tc, a_second_plan_replaces_the_first);
    tcase_add_test(tc, measured_seconds_move_the_partition);
    tcase_add_test(tc, failures_come_back);
    tcase_add_test(tc, another_number_of_micro_batches_is_refused);
    tcase_add_test(tc, the_first_rank_begins_and_ends_a_v);
    tcase_add_test(tc, refusals_say_why);
    suite_add_tcase(s, tc);
    return s;
}
