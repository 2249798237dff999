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
    for (uint32_t i = 0; i < fake->n_entries && fake->dtype == CADRE_F32; i++) {
        const float *at = fake->entry[i].grad;
        bad |= fake->entry[i].to_come && at >= begin && at < begin + post->in.count;
    }
    return bad;
}

static cadre_status add(struct cadre_axis *axis, struct fake_post post,
                        cadre_event *done)
{
    struct fake_host *fake = host_of(axis);
    if (fake->posts + 1 == fake->fail_post)
        return CADRE_E_COMM;
    ck_assert_int_lt(fake->posts, FAKE_POSTS);
    fake->bad_sums += post.kind == FAKE_ALL_REDUCE && is_bad_sum(fake, &post);
    struct fake_post *kept = &fake->post[fake->posts++];
    *kept = post;
    *done = FAKE_EVENT + (cadre_event)fake->posts;
    return fake->on_post ? fake->on_post(fake, kept) : CADRE_OK;
}

static cadre_status add_ranges(struct cadre_axis *axis, struct fake_post post,
                               const uint64_t *offsets, cadre_event *done)
{
    const struct fake_host *fake = host_of(axis);
    bool gather = post.kind == FAKE_ALL_GATHER;
    const struct cadre_buf *whole = gather ? &post.out : &post.in;
    const struct cadre_buf *part = gather ? &post.in : &post.out;
    int me = fake->axis.index, ranks = fake->axis.size;
    ck_assert_uint_eq(offsets[0], 0);
    ck_assert_uint_eq(whole->count, offsets[ranks]);
    ck_assert_uint_eq(part->count, offsets[me + 1] - offsets[me]);
    for (int r = 0; r < ranks; r++)
        ck_assert_uint_le(offsets[r], offsets[r + 1]);
    memcpy(post.offsets, offsets, sizeof *offsets * ((size_t)ranks + 1));
    return add(axis, post, done);
}

static struct fake_post post_of(enum fake_kind kind, const char *label,
                                const struct cadre_buf *in, const struct cadre_buf *out,
                                cadre_event after)
{
    return (struct fake_post){
        .kind = kind, .label = label, .in = *in, .out = *out, .after = after};
}

static cadre_status all_reduce(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               uint32_t red, cadre_event after, cadre_event *done)
{
    struct fake_post post = post_of(FAKE_ALL_REDUCE, label, in, out, after);
    post.red = red;
    return add(axis, post, done);
}

static cadre_status reduce_scatter(struct cadre_axis *axis, const char *label,
                                   const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, cadre_event after, cadre_event *done)
{
    struct fake_post post = post_of(FAKE_REDUCE_SCATTER, label, in, out, after);
    ck_assert_uint_eq(post.red = red, CADRE_SUM);
    return add_ranges(axis, post, offsets, done);
}

static cadre_status all_gather(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               const uint64_t *offsets, cadre_event after,
                               cadre_event *done)
{
    struct fake_post post = post_of(FAKE_ALL_GATHER, label, in, out, after);
    return add_ranges(axis, post, offsets, done);
}

static cadre_status all_to_all(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               cadre_event after, cadre_event *done)
{
    ck_assert_ptr_ne(in->data, out->data);
    return add(axis, post_of(FAKE_ALL_TO_ALL, label, in, out, after), done);
}

static cadre_status send(struct cadre_axis *axis, const char *label,
                         const struct cadre_buf *buf, int32_t to, cadre_event after,
                         cadre_event *done)
{
    struct fake_post post = post_of(FAKE_SEND, label, buf, buf, after);
    post.peer = to;
    return add(axis, post, done);
}

static cadre_status recv(struct cadre_axis *axis, const char *label,
                         const struct cadre_buf *buf, int32_t from, cadre_event after,
                         cadre_event *done)
{
    struct fake_post post = post_of(FAKE_RECV, label, buf, buf, after);
    post.peer = from;
    return add(axis, post, done);
}

static void carry_out(const struct fake_host *fake, const struct fake_post *post)
{
    const float *in = post->in.data;
    float *out = post->out.data;
    const uint64_t *off = post->offsets;
    int me = fake->axis.index, ranks = fake->axis.size;
    uint64_t from = post->kind == FAKE_REDUCE_SCATTER ? off[me] : 0;
    ck_assert_uint_eq(post->in.dtype, CADRE_F32);
    if (post->kind == FAKE_ALL_REDUCE || post->kind == FAKE_REDUCE_SCATTER)
        for (uint64_t i = 0; i < post->out.count; i++)
            out[i] = in[from + i] * (float)(post->red == CADRE_MAX ? 1 : ranks);
    for (int r = 0; post->kind == FAKE_ALL_GATHER && r < ranks; r++)
        for (uint64_t i = off[r]; i < off[r + 1]; i++)
            out[i] = r == me ? in[i - off[r]] : (float)(r + 1);
}

static cadre_status stream_wait(struct cadre_axis *axis, cadre_event event)
{
    struct fake_host *fake = host_of(axis);
    if (fake->repeated && (!event || fake->post[event - FAKE_EVENT - 1].done))
        return CADRE_OK;
    if (fake_nth(&fake->joins, fake->fail_stream_wait))
        return CADRE_E_ABORTED;
    ck_assert_uint_gt(event, FAKE_EVENT);
    ck_assert_uint_le(event, FAKE_EVENT + (cadre_event)fake->posts);
    cadre_event last = event - FAKE_EVENT - 1;
    for (cadre_event i = fake->singly ? last : 0; i <= last; i++) {
        struct fake_post *post = &fake->post[i];
        if (!post->done && fake->on_stream_wait)
            fake->on_stream_wait(fake, post);
        else if (!post->done)
            carry_out(fake, post);
        post->done = true;
    }
    return CADRE_OK;
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
    .send = send,
    .recv = recv,
    .stream_wait = stream_wait,
};
