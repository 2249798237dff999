/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugins/fake_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct fake_stage *of(struct cadre_ctx *ctx)
{
    return (struct fake_stage *)(void *)ctx;
}

/* ---- the host ---- */

static struct cadre_axis *axis(struct cadre_ctx *ctx, const char *name)
{
    ck_assert_str_eq(name, "pp");
    return (struct cadre_axis *)(void *)ctx;
}

static int32_t axis_rank(const struct cadre_axis *at)
{
    return (int32_t)((const struct fake_stage *)(const void *)at)->rank;
}

static int32_t axis_size(const struct cadre_axis *at)
{
    return (int32_t)((const struct fake_stage *)(const void *)at)->shape.stages;
}

static void *alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                   const char *tag)
{
    struct fake_stage *s = of(ctx);
    (void)tag;
    ck_assert_uint_eq(space, CADRE_SPACE_DEVICE);
    if (++s->allocs == s->fail_alloc)
        return NULL;
    ck_assert_uint_lt(s->n_held, FAKE_BUFFERS);
    s->taken += bytes;
    return s->held[s->n_held++].data = calloc(1, bytes);
}

static struct fake_held *holder(struct fake_stage *s, const struct cadre_buf *buf)
{
    ck_assert_uint_eq(buf->count, FAKE_COUNT);
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
    struct fake_stage *s = (struct fake_stage *)(void *)at;
    struct fake_held *held = holder(s, buf);
    if (++s->posts == s->fail_post)
        return CADRE_E_COMM;
    ck_assert_uint_eq(after, 7);
    ck_assert(held->recv == 0 && held->send == 0);
    held->recv = ++s->n_recv;
    s->recv[s->n_recv] =
        (struct fake_message){from, held, strstr(label, "gradient") != NULL, false};
    *done = 2 * (cadre_event)s->n_recv;
    return CADRE_OK;
}

static cadre_status send(struct cadre_axis *at, const char *label,
                         const struct cadre_buf *buf, int32_t to, cadre_event after,
                         cadre_event *done)
{
    struct fake_stage *s = (struct fake_stage *)(void *)at;
    struct fake_held *held = holder(s, buf);
    if (++s->posts == s->fail_post)
        return CADRE_E_COMM;
    ck_assert_uint_eq(after, 7);
    ck_assert(held->recv == 0 && held->send == 0);
    held->send = ++s->n_send;
    s->send[s->n_send] =
        (struct fake_message){to, held, strstr(label, "gradient") != NULL, false};
    *done = 2 * (cadre_event)s->n_send + 1;
    return CADRE_OK;
}

/* The n-th message of a peer to this rank. */
static struct pipeline_message message_of(const struct fake_stage *s, uint32_t peer,
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

static void arrive(struct fake_stage *s, uint32_t number)
{
    struct fake_message *post = &s->recv[number];
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
    struct fake_stage *s = (struct fake_stage *)(void *)at;
    uint32_t number = (uint32_t)(event / 2);
    if (event == 0)
        return CADRE_OK;
    struct fake_message *post = event % 2 ? &s->send[number] : &s->recv[number];
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
    return unit + 1 == FAKE_UNITS ? 10 : 1;
}

static double unit_seconds(struct cadre_ctx *ctx, uint32_t unit)
{
    return unit ? of(ctx)->seconds : 100 * of(ctx)->seconds;
}

static int32_t first_unit(const struct fake_stage *s, uint32_t i)
{
    if (i >= s->list.n)
        return -1;
    const struct pipeline_action *a = &s->list.action[i];
    return a->kind == PIPELINE_FORWARD ? (int32_t)s->begin[a->chunk]
                                       : (int32_t)s->end[a->chunk] - 1;
}

/* While a pass runs, the next message of each peer has somewhere to go. */
static void posted_ahead(const struct fake_stage *s)
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
    struct fake_stage *s = of(ctx);
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
    return ((const struct fake_stage *)h)->chunks;
}

static const char *value_str(const void *h, const char *key)
{
    const struct fake_stage *s = h;
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
    struct fake_stage *s = h;
    s->begin[s->n_chunks] = begin;
    s->end[s->n_chunks] = end;
    s->live[s->n_chunks] = live;
    s->flags[s->n_chunks++] = flags;
    return CADRE_OK;
}

static cadre_status live_blocks(void *h, uint32_t n)
{
    ((struct fake_stage *)h)->live_blocks = n;
    return CADRE_OK;
}

static cadre_status memory(void *h, uint32_t space, uint64_t bytes, const char *tag)
{
    (void)space;
    (void)tag;
    ((struct fake_stage *)h)->planned += bytes;
    return CADRE_OK;
}

void fake_stage_set(struct fake_stage *stage, const struct pipeline_shape *shape,
                    uint32_t rank)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
    *stage = (struct fake_stage){
        .shape = *shape,
        .rank = rank,
        .schedule = names[shape->schedule],
        .balance = "counted",
        .chunks = shape->chunks > 1 ? shape->chunks : 0,
        .seconds = 0,
        .host = {.struct_size = sizeof stage->host,
                 .service = service,
                 .fail = record_failure,
                 .log = ignore},
        .values = {.struct_size = sizeof stage->values,
                   .i64 = value_i64,
                   .str = value_str},
        .plan = {.struct_size = sizeof stage->plan,
                 .dtype = CADRE_F32,
                 .n_units = FAKE_UNITS,
                 .microbatches = 2 * (uint64_t)shape->microbatches,
                 .batch = 2,
                 .time = 1,
                 .channels = 2,
                 .use_axis = use_axis,
                 .claim = claim,
                 .chunk = chunk,
                 .memory = memory,
                 .rank_microbatches = shape->microbatches,
                 .live_blocks = live_blocks},
    };
    stage->host.ctx = (struct cadre_ctx *)(void *)stage;
    stage->values.h = stage;
    stage->plan.h = stage;
}
