/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.comm of the fake host: operations are recorded, and run when waited for,
 * as if the other ranks held the same values. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

static struct fake_host *host_of(const struct cadre_axis *axis)
{
    const char *at = (const char *)axis - offsetof(struct fake_host, axis);
    return (struct fake_host *)(uintptr_t)at;
}

static bool is_bad_sum(const struct fake_host *fake, const struct fake_post *post)
{
    const float *begin = post->in.data;
    bool bad = post->in.data != post->out.data || post->in.count != post->out.count ||
               post->in.dtype != fake->dtype || post->red != CADRE_SUM;
    bool whole = fake->dtype == CADRE_F32 && fake->map != CADRE_MICROBATCHES_CYCLIC;
    for (uint32_t i = 0; i < fake->n_entries && whole; i++) {
        const float *at = fake->entry[i].grad;
        bad |= fake->entry[i].to_come && at >= begin && at < begin + post->in.count;
    }
    return bad;
}

static cadre_status add(struct cadre_axis *axis, struct fake_post operation,
                        struct cadre_post *post)
{
    struct fake_host *fake = host_of(axis);
    ck_assert_uint_eq(post->struct_size, sizeof *post);
    ck_assert_uint_le(post->kind, CADRE_TRAFFIC_STATE);
    ck_assert_ptr_nonnull(post->label);
    operation.label = post->label;
    operation.after = post->after;
    operation.traffic = post->kind;
    if (fake->posts + 1 == fake->fail_post)
        return CADRE_E_COMM;
    ck_assert_int_lt(fake->posts, FAKE_POSTS);
    fake->bad_sums += operation.kind == FAKE_ALL_REDUCE && is_bad_sum(fake, &operation);
    struct fake_post *kept = &fake->post[fake->posts++];
    *kept = operation;
    post->done = FAKE_EVENT + (cadre_event)fake->posts;
    return fake->on_post ? fake->on_post(fake, kept) : CADRE_OK;
}

/* `offsets` divide `count` elements among the ranks. */
static void check_slices(const struct fake_host *fake, const uint64_t *offsets,
                         uint64_t count)
{
    ck_assert_uint_eq(offsets[0], 0);
    ck_assert_uint_eq(offsets[fake->axis.size], count);
    for (int r = 0; r < fake->axis.size; r++)
        ck_assert_uint_le(offsets[r], offsets[r + 1]);
}

static void copy_offsets(const struct fake_host *fake, uint64_t *to,
                         const uint64_t *from)
{
    memcpy(to, from, sizeof *from * ((size_t)fake->axis.size + 1));
}

static cadre_status add_ranges(struct cadre_axis *axis, struct fake_post operation,
                               const uint64_t *offsets, struct cadre_post *post)
{
    const struct fake_host *fake = host_of(axis);
    bool gather = operation.kind == FAKE_ALL_GATHER;
    const struct cadre_buf *whole = gather ? &operation.out : &operation.in;
    const struct cadre_buf *part = gather ? &operation.in : &operation.out;
    int me = fake->axis.index;
    check_slices(fake, offsets, whole->count);
    ck_assert_uint_eq(part->count, offsets[me + 1] - offsets[me]);
    copy_offsets(fake, operation.offsets, offsets);
    return add(axis, operation, post);
}

static struct fake_post operation_of(enum fake_kind kind, const struct cadre_buf *in,
                                     const struct cadre_buf *out)
{
    return (struct fake_post){.kind = kind, .in = *in, .out = *out};
}

static cadre_status all_reduce(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, uint32_t red,
                               struct cadre_post *post)
{
    struct fake_post operation = operation_of(FAKE_ALL_REDUCE, in, out);
    operation.red = red;
    return add(axis, operation, post);
}

static cadre_status reduce_scatter(struct cadre_axis *axis, const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, struct cadre_post *post)
{
    struct fake_post operation = operation_of(FAKE_REDUCE_SCATTER, in, out);
    ck_assert_uint_eq(operation.red = red, CADRE_SUM);
    return add_ranges(axis, operation, offsets, post);
}

static cadre_status all_gather(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, const uint64_t *offsets,
                               struct cadre_post *post)
{
    return add_ranges(axis, operation_of(FAKE_ALL_GATHER, in, out), offsets, post);
}

static cadre_status all_to_all(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, struct cadre_post *post)
{
    ck_assert_ptr_ne(in->data, out->data);
    return add(axis, operation_of(FAKE_ALL_TO_ALL, in, out), post);
}

static cadre_status all_to_all_v(struct cadre_axis *axis, const struct cadre_buf *in,
                                 const uint64_t *in_offsets,
                                 const struct cadre_buf *out,
                                 const uint64_t *out_offsets, struct cadre_post *post)
{
    const struct fake_host *fake = host_of(axis);
    struct fake_post operation = operation_of(FAKE_ALL_TO_ALL_V, in, out);
    check_slices(fake, in_offsets, in->count);
    check_slices(fake, out_offsets, out->count);
    copy_offsets(fake, operation.in_offsets, in_offsets);
    copy_offsets(fake, operation.offsets, out_offsets);
    return add(axis, operation, post);
}

static cadre_status send(struct cadre_axis *axis, const struct cadre_buf *buf,
                         int32_t to, struct cadre_post *post)
{
    struct fake_post operation = operation_of(FAKE_SEND, buf, buf);
    operation.peer = to;
    return add(axis, operation, post);
}

static cadre_status recv(struct cadre_axis *axis, const struct cadre_buf *buf,
                         int32_t from, struct cadre_post *post)
{
    struct fake_post operation = operation_of(FAKE_RECV, buf, buf);
    operation.peer = from;
    return add(axis, operation, post);
}

/* A gather of a parameter that is stored in bytes. */
static void gather_bytes(const struct fake_host *fake, const struct fake_post *post)
{
    const unsigned char *in = post->in.data;
    unsigned char *out = post->out.data;
    const uint64_t *off = post->offsets;
    ck_assert_uint_eq(post->kind, FAKE_ALL_GATHER);
    for (int r = 0; r < fake->axis.size; r++)
        for (uint64_t i = off[r]; i < off[r + 1]; i++)
            out[i] = r == fake->axis.index ? in[i - off[r]] : (unsigned char)(r + 1);
}

static void carry_out(const struct fake_host *fake, const struct fake_post *post)
{
    const float *in = post->in.data;
    float *out = post->out.data;
    const uint64_t *off = post->offsets;
    int me = fake->axis.index, ranks = fake->axis.size;
    uint64_t from = post->kind == FAKE_REDUCE_SCATTER ? off[me] : 0;
    if (post->in.dtype == CADRE_U8) {
        gather_bytes(fake, post);
        return;
    }
    ck_assert_uint_eq(post->in.dtype, CADRE_F32);
    if (post->kind == FAKE_ALL_REDUCE || post->kind == FAKE_REDUCE_SCATTER)
        for (uint64_t i = 0; i < post->out.count; i++)
            out[i] = in[from + i] * (float)(post->red == CADRE_MAX ? 1 : ranks);
    for (int r = 0; post->kind == FAKE_ALL_GATHER && r < ranks; r++)
        for (uint64_t i = off[r]; i < off[r + 1]; i++)
            out[i] = r == me ? in[i - off[r]] : (float)(r + 1);
}

static void end_post(struct fake_host *fake, struct fake_post *post)
{
    if (!post->done && fake->on_stream_wait)
        fake->on_stream_wait(fake, post);
    else if (!post->done)
        carry_out(fake, post);
    post->done = true;
}

/* The operation of an event, from 0. */
static cadre_event place_of(const struct fake_host *fake, cadre_event event)
{
    ck_assert_uint_gt(event, FAKE_EVENT);
    ck_assert_uint_le(event, FAKE_EVENT + (cadre_event)fake->posts);
    return event - FAKE_EVENT - 1;
}

static cadre_status stream_wait(struct cadre_axis *axis, cadre_event event)
{
    struct fake_host *fake = host_of(axis);
    if (fake->repeated && (!event || fake->post[event - FAKE_EVENT - 1].done))
        return CADRE_OK;
    if (fake_nth(&fake->joins, fake->fail_stream_wait))
        return CADRE_E_ABORTED;
    cadre_event last = place_of(fake, event);
    for (cadre_event i = fake->singly ? last : 0; i <= last; i++)
        end_post(fake, &fake->post[i]);
    return CADRE_OK;
}

static cadre_status test(struct cadre_axis *axis, cadre_event event, uint32_t *happened)
{
    const struct fake_host *fake = host_of(axis);
    *happened = event == 0 || fake->post[place_of(fake, event)].done;
    return CADRE_OK;
}

void fake_end_post(struct fake_host *fake, cadre_event event)
{
    if (event > FAKE_EVENT)
        end_post(fake, &fake->post[place_of(fake, event)]);
}

void fake_forget_posts(struct fake_host *fake)
{
    for (int i = 0; i < fake->posts; i++) {
        free(fake->post[i].in_copy);
        free(fake->post[i].result);
    }
    fake->posts = fake->joins = 0;
}

const struct cadre_comm_svc fake_comm = {
    .struct_size = sizeof fake_comm,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .all_to_all = all_to_all,
    .all_to_all_v = all_to_all_v,
    .send = send,
    .recv = recv,
    .stream_wait = stream_wait,
    .test = test,
};
