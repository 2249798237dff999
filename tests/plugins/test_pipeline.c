/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin, one rank of it, against a host that plays the others: what arrives
 * says who sent it and when, a buffer that travels may not be touched, and every pass
 * must find what belongs to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/strategy/plugin.h"
#include "plugins/pipeline/schedule.h"
#include "tests/support/check_main.h"

#define UNITS 40
#define COUNT 4 /* elements of an activation */
#define BUFFERS 64
#define POSTS 1024

/* A buffer of the plugin and what the host does with it. */
struct held {
    float *data;
    uint32_t recv, send; /* posts under way on it, 0: none */
};

struct post {
    int32_t peer;
    struct held *held;
    bool gradient;
    bool done;
};

struct stage {
    struct cadre_host host;
    struct cadre_values values;
    struct cadre_plan plan;
    struct pipeline_shape shape;
    uint32_t rank;
    const char *schedule, *balance;
    int64_t chunks;
    double seconds; /* of unit_seconds, of even units; 0: not measured */

    struct held held[BUFFERS];
    uint32_t n_held;
    struct post recv[POSTS], send[POSTS]; /* from 1; the number is half the event */
    uint32_t n_recv, n_send;
    struct pipeline_list list; /* expected */
    uint32_t at;
    uint32_t begin[64], end[64], live[64], flags[64], n_chunks;
    uint32_t live_blocks; /* as told, 0: not */
    uint64_t planned, taken; /* bytes */
    int fail_pass, fail_alloc, fail_post; /* the n-th, from 1 */
    int passes, allocs, posts;
    char failure[512];
    struct cadre_self *self;
};

static const struct cadre_plugin_handle *plugin;
static struct stage stage;

static struct stage *of(struct cadre_ctx *ctx)
{
    return (struct stage *)(void *)ctx;
}

/* ---- the host ---- */

static struct cadre_axis *axis(struct cadre_ctx *ctx, const char *name)
{
    ck_assert_str_eq(name, "pp");
    return (struct cadre_axis *)(void *)ctx;
}

static int32_t axis_rank(const struct cadre_axis *at)
{
    return (int32_t)((const struct stage *)(const void *)at)->rank;
}

static int32_t axis_size(const struct cadre_axis *at)
{
    return (int32_t)((const struct stage *)(const void *)at)->shape.stages;
}

static void *alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                   const char *tag)
{
    struct stage *s = of(ctx);
    (void)tag;
    ck_assert_uint_eq(space, CADRE_SPACE_DEVICE);
    if (++s->allocs == s->fail_alloc)
        return NULL;
    ck_assert_uint_lt(s->n_held, BUFFERS);
    s->taken += bytes;
    return s->held[s->n_held++].data = calloc(1, bytes);
}

static struct held *holder(struct stage *s, const struct cadre_buf *buf)
{
    ck_assert_uint_eq(buf->count, COUNT);
    for (uint32_t i = 0; i < s->n_held; i++)
        if (s->held[i].data == buf->data)
            return &s->held[i];
    ck_abort_msg("a buffer that is not the plugin's");
    return NULL;
}

static cadre_status recv(struct cadre_axis *at, const char *label,
                         const struct cadre_buf *buf, int32_t from, cadre_event after,
                         cadre_event *done)
{
    struct stage *s = (struct stage *)(void *)at;
    struct held *held = holder(s, buf);
    if (++s->posts == s->fail_post)
        return CADRE_E_COMM;
    ck_assert_uint_eq(after, 7);
    ck_assert(held->recv == 0 && held->send == 0);
    held->recv = ++s->n_recv;
    s->recv[s->n_recv] =
        (struct post){from, held, strstr(label, "gradient") != NULL, false};
    *done = 2 * (cadre_event)s->n_recv;
    return CADRE_OK;
}

static cadre_status send(struct cadre_axis *at, const char *label,
                         const struct cadre_buf *buf, int32_t to, cadre_event after,
                         cadre_event *done)
{
    struct stage *s = (struct stage *)(void *)at;
    struct held *held = holder(s, buf);
    if (++s->posts == s->fail_post)
        return CADRE_E_COMM;
    ck_assert_uint_eq(after, 7);
    ck_assert(held->recv == 0 && held->send == 0);
    held->send = ++s->n_send;
    s->send[s->n_send] =
        (struct post){to, held, strstr(label, "gradient") != NULL, false};
    *done = 2 * (cadre_event)s->n_send + 1;
    return CADRE_OK;
}

/* The n-th message of a peer to this rank. */
static struct pipeline_message message_of(const struct stage *s, uint32_t peer,
                                          uint32_t n)
{
    struct pipeline_list list;
    struct pipeline_message message = {0};
    ck_assert_int_eq(pipeline_list_init(&list, &s->shape, peer), 0);
    for (uint32_t i = 0; i < list.n; i++)
        if (pipeline_gives(&s->shape, peer, &list.action[i], &message) &&
            message.rank == s->rank && n-- == 0) {
            pipeline_list_fini(&list);
            return message;
        }
    ck_abort_msg("a receive that nobody sends for");
    return message;
}

static void arrive(struct stage *s, uint32_t number)
{
    struct post *post = &s->recv[number];
    uint32_t before = 0;
    for (uint32_t i = 1; i < number; i++)
        before += s->recv[i].peer == post->peer;
    struct pipeline_message m = message_of(s, (uint32_t)post->peer, before);
    ck_assert_uint_eq(m.gradient, post->gradient);
    post->held->data[0] = (float)m.gradient;
    post->held->data[1] = (float)m.chunk;
    post->held->data[2] = (float)m.microbatch;
}

static cadre_status join(struct cadre_axis *at, cadre_event event)
{
    struct stage *s = (struct stage *)(void *)at;
    uint32_t number = (uint32_t)(event / 2);
    if (event == 0)
        return CADRE_OK;
    struct post *post = event % 2 ? &s->send[number] : &s->recv[number];
    if (event % 2 == 0 && !post->done)
        arrive(s, number);
    if (!post->done && event % 2)
        post->held->send = 0;
    if (!post->done && event % 2 == 0)
        post->held->recv = 0;
    post->done = true;
    return CADRE_OK;
}

static cadre_status record(struct cadre_ctx *ctx, cadre_event *out)
{
    (void)ctx;
    *out = 7;
    return CADRE_OK;
}

static double unit_cost(struct cadre_ctx *ctx, uint32_t unit)
{
    (void)ctx;
    return unit + 1 == UNITS ? 10 : 1;
}

static double unit_seconds(struct cadre_ctx *ctx, uint32_t unit)
{
    return unit ? of(ctx)->seconds : 100 * of(ctx)->seconds;
}

static int32_t first_unit(const struct stage *s, uint32_t i)
{
    if (i >= s->list.n)
        return -1;
    const struct pipeline_action *a = &s->list.action[i];
    return a->kind == PIPELINE_FORWARD ? (int32_t)s->begin[a->chunk]
                                       : (int32_t)s->end[a->chunk] - 1;
}

/* While a pass runs, the next message of each peer has somewhere to go. */
static void posted_ahead(const struct stage *s)
{
    for (uint32_t peer = 0; peer < s->shape.stages; peer++) {
        uint32_t all = 0, posted = 0, open = 0;
        struct pipeline_list list;
        struct pipeline_message message;
        ck_assert_int_eq(pipeline_list_init(&list, &s->shape, peer), 0);
        for (uint32_t i = 0; i < list.n && peer != s->rank; i++)
            all += pipeline_gives(&s->shape, peer, &list.action[i], &message) &&
                   message.rank == s->rank;
        pipeline_list_fini(&list);
        for (uint32_t i = 1; i <= s->n_recv; i++) {
            posted += s->recv[i].peer == (int32_t)peer;
            open += s->recv[i].peer == (int32_t)peer && !s->recv[i].done;
        }
        ck_assert(posted == all || open > 0);
    }
}

static cadre_status pass(struct cadre_ctx *ctx, const struct cadre_pass_args *args,
                         bool forward)
{
    struct stage *s = of(ctx);
    const struct pipeline_action *a = &s->list.action[s->at];
    struct pipeline_message in, out;
    if (++s->passes == s->fail_pass)
        return CADRE_E_DEVICE;
    ck_assert_uint_lt(s->at, s->list.n);
    posted_ahead(s);
    ck_assert_int_eq(forward, a->kind == PIPELINE_FORWARD);
    ck_assert_uint_eq(args->chunk, a->chunk);
    ck_assert_uint_eq(args->microbatch, a->microbatch);
    ck_assert_int_eq(args->next_unit, first_unit(s, s->at + 1));
    if (!forward)
        ck_assert_uint_eq(args->what, a->kind == PIPELINE_INPUT    ? CADRE_PASS_INPUT
                                      : a->kind == PIPELINE_WEIGHT ? CADRE_PASS_WEIGHT
                                                                   : CADRE_PASS_BOTH);
    ck_assert_int_eq(args->in != NULL, pipeline_takes(&s->shape, s->rank, a, &in));
    ck_assert_int_eq(args->out != NULL, pipeline_gives(&s->shape, s->rank, a, &out));
    if (args->in) {
        const float *data = args->in->data;
        ck_assert_uint_eq(holder(s, args->in)->recv, 0);
        ck_assert(data[0] == (float)in.gradient && data[1] == (float)in.chunk &&
                  data[2] == (float)in.microbatch);
    }
    if (args->out)
        ck_assert_uint_eq(holder(s, args->out)->send, 0);
    s->at++;
    return CADRE_OK;
}

static cadre_status forward(struct cadre_ctx *ctx, const struct cadre_pass_args *args)
{
    return pass(ctx, args, true);
}

static cadre_status backward(struct cadre_ctx *ctx, const struct cadre_pass_args *args)
{
    return pass(ctx, args, false);
}

static const struct cadre_mesh_svc mesh_svc = {
    .struct_size = sizeof mesh_svc, .axis = axis, .rank = axis_rank, .size = axis_size};
static const struct cadre_comm_svc comm_svc = {
    .struct_size = sizeof comm_svc, .send = send, .recv = recv, .join = join};
static const struct cadre_mem_svc mem_svc = {.struct_size = sizeof mem_svc,
                                             .alloc = alloc};
static const struct cadre_stream_svc stream_svc = {.struct_size = sizeof stream_svc,
                                                   .record = record};
static const struct cadre_model_svc model_svc = {
    .struct_size = sizeof model_svc,
    .unit_cost = unit_cost,
    .forward = forward,
    .backward = backward,
    .unit_seconds = unit_seconds,
};

static const void *service(struct cadre_ctx *ctx, const char *id)
{
    (void)ctx;
    return !strcmp(id, CADRE_SERVICE_MESH)     ? (const void *)&mesh_svc
           : !strcmp(id, CADRE_SERVICE_COMM)   ? (const void *)&comm_svc
           : !strcmp(id, CADRE_SERVICE_MEM)    ? (const void *)&mem_svc
           : !strcmp(id, CADRE_SERVICE_STREAM) ? (const void *)&stream_svc
           : !strcmp(id, CADRE_SERVICE_MODEL)  ? (const void *)&model_svc
                                               : NULL;
}

static cadre_status record_failure(struct cadre_ctx *ctx, cadre_status status,
                                   const char *msg)
{
    snprintf(of(ctx)->failure, sizeof of(ctx)->failure, "%s", msg);
    return status;
}

static void ignore(struct cadre_ctx *ctx, int32_t level, const char *msg)
{
    (void)ctx;
    (void)level;
    (void)msg;
}

static int64_t value_i64(const void *h, const char *key)
{
    ck_assert_str_eq(key, "chunks");
    return ((const struct stage *)h)->chunks;
}

static const char *value_str(const void *h, const char *key)
{
    const struct stage *s = h;
    return !strcmp(key, "schedule") ? s->schedule : s->balance;
}

static cadre_status use_axis(void *h, const char *name, uint32_t batch)
{
    (void)h;
    ck_assert_str_eq(name, "pp");
    ck_assert_uint_eq(batch, CADRE_BATCH_SAME);
    return CADRE_OK;
}

static cadre_status claim(void *h, const char *effect, const char *name, uint32_t flags)
{
    (void)h;
    ck_assert_str_eq(effect, "schedule.order");
    ck_assert_str_eq(name, "pp");
    ck_assert_uint_eq(flags, 0);
    return CADRE_OK;
}

static cadre_status chunk(void *h, uint32_t begin, uint32_t end, uint32_t live,
                          uint32_t flags)
{
    struct stage *s = h;
    s->begin[s->n_chunks] = begin;
    s->end[s->n_chunks] = end;
    s->live[s->n_chunks] = live;
    s->flags[s->n_chunks++] = flags;
    return CADRE_OK;
}

static cadre_status live_blocks(void *h, uint32_t n)
{
    ((struct stage *)h)->live_blocks = n;
    return CADRE_OK;
}

static cadre_status memory(void *h, uint32_t space, uint64_t bytes, const char *tag)
{
    (void)space;
    (void)tag;
    ((struct stage *)h)->planned += bytes;
    return CADRE_OK;
}

/* ---- life ---- */

static void set_stage(uint32_t schedule, uint32_t stages, uint32_t chunks,
                      uint32_t microbatches, uint32_t rank)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
    stage = (struct stage){
        .shape = {schedule, stages, chunks, microbatches},
        .rank = rank,
        .schedule = names[schedule],
        .balance = "counted",
        .chunks = chunks > 1 ? chunks : 0,
        .seconds = 0,
        .host = {.struct_size = sizeof stage.host,
                 .service = service,
                 .fail = record_failure,
                 .log = ignore},
        .values = {.struct_size = sizeof stage.values,
                   .i64 = value_i64,
                   .str = value_str},
        .plan = {.struct_size = sizeof stage.plan,
                 .dtype = CADRE_F32,
                 .n_units = UNITS,
                 .microbatches = 2 * (uint64_t)microbatches,
                 .batch = 2,
                 .time = 1,
                 .channels = 2,
                 .use_axis = use_axis,
                 .claim = claim,
                 .chunk = chunk,
                 .memory = memory,
                 .rank_microbatches = microbatches,
                 .live_blocks = live_blocks},
    };
    stage.host.ctx = (struct cadre_ctx *)(void *)&stage;
    stage.values.h = &stage;
    stage.plan.h = &stage;
}

static cadre_status start(void)
{
    cadre_status rc = plugin->ops.create(&stage.host, &stage.values, &stage.self);
    if (rc)
        return rc;
    rc = plugin->ops.plan(stage.self, &stage.plan);
    if (!rc)
        rc = plugin->ops.bind(stage.self);
    return rc;
}

static void stop(void)
{
    if (stage.self)
        plugin->ops.destroy(stage.self);
    for (uint32_t i = 0; i < stage.n_held; i++)
        free(stage.held[i].data);
    pipeline_list_fini(&stage.list);
}

static cadre_status run_step(void)
{
    struct cadre_step step = {.struct_size = sizeof step,
                              .n_microbatches = stage.shape.microbatches};
    stage.at = stage.n_recv = stage.n_send = 0;
    return plugin->ops.step(stage.self, &step, NULL);
}

static void load(void)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_plugin_load("pipeline", NULL, &plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

/* ---- tests ---- */

/* Blocks kept at once at most; of the units the first and the last are none. */
static uint32_t most_blocks(void)
{
    uint32_t n = 0, most = 0;
    for (uint32_t i = 0; i < stage.list.n; i++) {
        const struct pipeline_action *a = &stage.list.action[i];
        for (uint32_t u = stage.begin[a->chunk]; u < stage.end[a->chunk]; u++)
            if (u > 0 && u + 1 < UNITS)
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
    ck_assert_int_eq(pipeline_list_init(&stage.list, &stage.shape, rank), 0);
    ck_assert_uint_eq(stage.planned, stage.taken);
    for (uint32_t c = 0; c < v; c++) {
        ck_assert_uint_eq(stage.live[c], pipeline_list_live(&stage.list, c));
        ck_assert_uint_eq(stage.flags[c],
                          schedule == PIPELINE_ZB_H1 ? CADRE_LIVE_SPLIT : 0);
    }
    ck_assert_uint_eq(stage.live_blocks, v > 1 ? most_blocks() : 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(run_step() == CADRE_OK, "%s", stage.failure);
        ck_assert_uint_eq(stage.at, stage.list.n);
        ck_assert_int_eq(plugin->ops.sync(stage.self, CADRE_SYNC_GRADS), CADRE_OK);
        for (uint32_t b = 0; b < stage.n_held; b++)
            ck_assert(stage.held[b].send == 0 && stage.held[b].recv == 0);
    }
    stop();
}

START_TEST(each_pass_gets_what_belongs_to_it)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 13};
    for (uint32_t schedule = PIPELINE_GPIPE; schedule <= PIPELINE_ZB_H1; schedule++)
        for (uint32_t p = 2; p <= 5; p++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (uint32_t rank = 0; rank < p; rank++)
                    check_rank(schedule, p, schedule == PIPELINE_INTERLEAVED ? 2 : 1,
                               sizes[i], rank);
    for (uint32_t rank = 0; rank < 4; rank++)
        check_rank(PIPELINE_INTERLEAVED, 4, 5, 6, rank);
}
END_TEST

START_TEST(one_rank_needs_no_others)
{
    for (uint32_t schedule = PIPELINE_GPIPE; schedule <= PIPELINE_ZB_H1; schedule++)
        check_rank(schedule, 1, 1, 3, 0);
}
END_TEST

START_TEST(a_second_plan_replaces_the_first)
{
    set_stage(PIPELINE_1F1B, 3, 1, 2, 0);
    ck_assert_int_eq(start(), CADRE_OK);
    stage.n_chunks = 0;
    stage.plan.rank_microbatches = 9;
    ck_assert_int_eq(plugin->ops.plan(stage.self, &stage.plan), CADRE_OK);
    ck_assert_uint_eq(stage.live[0], 3);
    stop();
    /* a host of before: all micro-batches of the step */
    set_stage(PIPELINE_GPIPE, 3, 1, 2, 0);
    stage.plan.struct_size = offsetof(struct cadre_plan, rank_microbatches);
    ck_assert_int_eq(start(), CADRE_OK);
    ck_assert_uint_eq(stage.live[0], 4);
    stop();
}
END_TEST

START_TEST(measured_seconds_move_the_cut)
{
    set_stage(PIPELINE_1F1B, 2, 1, 2, 0);
    stage.balance = "measured";
    ck_assert_int_eq(start(), CADRE_OK); /* not measured yet: counted */
    ck_assert_uint_eq(stage.end[0], 24);
    stop();
    set_stage(PIPELINE_1F1B, 2, 1, 2, 0);
    stage.balance = "measured";
    stage.seconds = 0.001;
    ck_assert_int_eq(start(), CADRE_OK);
    ck_assert_uint_eq(stage.end[0], 1);
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
        ck_assert_int_eq(pipeline_list_init(&stage.list, &stage.shape, 0), 0);
        stage.fail_pass = i;
        ck_assert_int_eq(run_step(), CADRE_E_DEVICE);
        stage.fail_pass = 0;
        stage.fail_post = stage.posts + i;
        for (uint32_t b = 0; b < stage.n_held; b++)
            stage.held[b].send = stage.held[b].recv = 0;
        ck_assert_int_eq(run_step(), CADRE_E_COMM);
        stop();
    }
}
END_TEST

START_TEST(another_number_of_micro_batches_is_refused)
{
    set_stage(PIPELINE_1F1B, 2, 1, 4, 0);
    ck_assert_int_eq(start(), CADRE_OK);
    stage.shape.microbatches = 5;
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
         "strategy.stack has 41 stages and pipeline.chunks is 1: 41 pieces, but the "
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
         "piece as in '3 2 2 3', found '20, 20'"},
        {PIPELINE_GPIPE, 2, 0, "20 21",
         "pipeline.balance = 20 21 is 2 pieces of 41 units, expected 2 pieces "
         "(strategy.stack x pipeline.chunks) of 40 units (embedding, model.layers = "
         "38, head)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_stage(cases[i].schedule, cases[i].stages, 1, 4, 0);
        stage.chunks = cases[i].chunks;
        stage.balance = cases[i].balance;
        ck_assert_int_lt(start(), 0);
        ck_assert_str_eq(stage.failure, cases[i].text);
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
    tcase_add_test(tc, one_rank_needs_no_others);
    tcase_add_test(tc, a_second_plan_replaces_the_first);
    tcase_add_test(tc, measured_seconds_move_the_cut);
    tcase_add_test(tc, failures_come_back);
    tcase_add_test(tc, another_number_of_micro_batches_is_refused);
    tcase_add_test(tc, refusals_say_why);
    suite_add_tcase(s, tc);
    return s;
}
