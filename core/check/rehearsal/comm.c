/* SPDX-License-Identifier: Apache-2.0 */
/* The table of "cadre.comm/1": arguments are checked, then posted. */
#include <string.h>

#include "core/check/rehearsal/operations.h"

static cadre_status enter_axis(const struct cadre_axis *axis, const char *what)
{
    /* without an axis there is no player to tell: the plugin ignored a NULL */
    if (!axis)
        return CADRE_E_INVALID;
    return play_enter(play_player_of_axis(axis), IN_BIND | IN_RUN, what);
}

static bool is_buf(const struct cadre_buf *buf)
{
    return buf && (buf->data || buf->count == 0);
}

static cadre_status check_buffers(struct cadre_player *p, const struct cadre_buf *in,
                                  const struct cadre_buf *out, const char *what)
{
    if (!is_buf(in) || !is_buf(out))
        return play_refuse(p, CADRE_RULE_ARGUMENT, "%s with a buffer that is NULL",
                           what);
    if (in->dtype != out->dtype)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "%s from type %u to type %u", what,
                           in->dtype, out->dtype);
    return CADRE_OK;
}

static cadre_status take_offsets(struct cadre_player *p, uint64_t *to,
                                 const uint64_t *offsets, const char *what)
{
    int ranks = p->all->ranks;
    if (!offsets)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "%s without offsets", what);
    for (int r = 0; r <= ranks; r++)
        to[r] = offsets[r];
    for (int r = 0; r < ranks; r++)
        if (to[0] != 0 || to[r] > to[r + 1])
            return play_refuse(p, CADRE_RULE_ARGUMENT,
                               "%s: offsets are not ascending from 0", what);
    return CADRE_OK;
}

static cadre_status wrong_count(struct cadre_player *p, const char *what,
                                uint64_t found, uint64_t expected)
{
    return play_refuse(p, CADRE_RULE_ARGUMENT,
                       "%s of a buffer of %llu elements, where its other buffer or its "
                       "offsets say %llu",
                       what, (unsigned long long)found, (unsigned long long)expected);
}

static cadre_status all_reduce(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, uint32_t red,
                               struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.all_reduce"));
    struct cadre_player *p = play_player_of_axis(axis);
    CADRE_TRY(check_buffers(p, in, out, "all_reduce"));
    if (in->count != out->count)
        return wrong_count(p, "all_reduce", out->count, in->count);
    if (red != CADRE_SUM && red != CADRE_MAX)
        return play_refuse(p, CADRE_RULE_ARGUMENT, "all_reduce with the reduction %u",
                           red);
    const struct operation op = {
        .kind = ALL_REDUCE, .red = red, .in = *in, .out = *out};
    return play_post_operation(p, &op, post);
}

static cadre_status reduce_scatter(struct cadre_axis *axis, const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.reduce_scatter"));
    struct cadre_player *p = play_player_of_axis(axis);
    CADRE_TRY(check_buffers(p, in, out, "reduce_scatter"));
    struct operation op = {.kind = REDUCE_SCATTER, .red = red, .in = *in, .out = *out};
    CADRE_TRY(take_offsets(p, op.offsets, offsets, "reduce_scatter"));
    if (op.offsets[p->all->ranks] != in->count)
        return wrong_count(p, "reduce_scatter", in->count, op.offsets[p->all->ranks]);
    if (op.offsets[p->rank + 1] - op.offsets[p->rank] != out->count)
        return wrong_count(p, "reduce_scatter", out->count,
                           op.offsets[p->rank + 1] - op.offsets[p->rank]);
    return play_post_operation(p, &op, post);
}

static cadre_status all_gather(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, const uint64_t *offsets,
                               struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.all_gather"));
    struct cadre_player *p = play_player_of_axis(axis);
    CADRE_TRY(check_buffers(p, in, out, "all_gather"));
    struct operation op = {.kind = ALL_GATHER, .in = *in, .out = *out};
    CADRE_TRY(take_offsets(p, op.offsets, offsets, "all_gather"));
    if (op.offsets[p->all->ranks] != out->count)
        return wrong_count(p, "all_gather", out->count, op.offsets[p->all->ranks]);
    if (op.offsets[p->rank + 1] - op.offsets[p->rank] != in->count)
        return wrong_count(p, "all_gather", in->count,
                           op.offsets[p->rank + 1] - op.offsets[p->rank]);
    return play_post_operation(p, &op, post);
}

static cadre_status check_peer(struct cadre_player *p, int32_t peer, bool self,
                               const char *what)
{
    if (peer >= 0 && peer < p->all->ranks && (self || peer != p->rank))
        return CADRE_OK;
    return play_refuse(p, CADRE_RULE_ARGUMENT, "%s with rank %d of %d", what, (int)peer,
                       p->all->ranks);
}

static cadre_status broadcast(struct cadre_axis *axis, const struct cadre_buf *buf,
                              int32_t root, struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.broadcast"));
    struct cadre_player *p = play_player_of_axis(axis);
    if (!is_buf(buf))
        return play_refuse(p, CADRE_RULE_ARGUMENT,
                           "broadcast of a buffer that is NULL");
    CADRE_TRY(check_peer(p, root, true, "broadcast"));
    struct operation op = {.kind = BROADCAST, .peer = root};
    op.in.dtype = op.out.dtype = buf->dtype;
    if (root == p->rank)
        op.in = *buf;
    else
        op.out = *buf;
    return play_post_operation(p, &op, post);
}

static cadre_status all_to_all(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.all_to_all"));
    struct cadre_player *p = play_player_of_axis(axis);
    CADRE_TRY(check_buffers(p, in, out, "all_to_all"));
    if (in->count != out->count || in->count % (uint64_t)p->all->ranks)
        return wrong_count(p, "all_to_all", out->count, in->count);
    const struct operation op = {.kind = ALL_TO_ALL, .in = *in, .out = *out};
    return play_post_operation(p, &op, post);
}

static cadre_status all_to_all_v(struct cadre_axis *axis, const struct cadre_buf *in,
                                 const uint64_t *in_offsets,
                                 const struct cadre_buf *out,
                                 const uint64_t *out_offsets, struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.all_to_all_v"));
    struct cadre_player *p = play_player_of_axis(axis);
    CADRE_TRY(check_buffers(p, in, out, "all_to_all_v"));
    struct operation op = {.kind = ALL_TO_ALL_V, .in = *in, .out = *out};
    CADRE_TRY(take_offsets(p, op.in_offsets, in_offsets, "all_to_all_v"));
    CADRE_TRY(take_offsets(p, op.offsets, out_offsets, "all_to_all_v"));
    if (op.in_offsets[p->all->ranks] != in->count)
        return wrong_count(p, "all_to_all_v", in->count, op.in_offsets[p->all->ranks]);
    if (op.offsets[p->all->ranks] != out->count)
        return wrong_count(p, "all_to_all_v", out->count, op.offsets[p->all->ranks]);
    return play_post_operation(p, &op, post);
}

static cadre_status send(struct cadre_axis *axis, const struct cadre_buf *buf,
                         int32_t to, struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.send"));
    struct cadre_player *p = play_player_of_axis(axis);
    if (!is_buf(buf))
        return play_refuse(p, CADRE_RULE_ARGUMENT, "send of a buffer that is NULL");
    CADRE_TRY(check_peer(p, to, false, "send"));
    const struct operation op = {.kind = SEND, .in = *buf, .peer = to};
    return play_post_operation(p, &op, post);
}

static cadre_status recv(struct cadre_axis *axis, const struct cadre_buf *buf,
                         int32_t from, struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.recv"));
    struct cadre_player *p = play_player_of_axis(axis);
    if (!is_buf(buf))
        return play_refuse(p, CADRE_RULE_ARGUMENT, "recv into a buffer that is NULL");
    CADRE_TRY(check_peer(p, from, false, "recv"));
    const struct operation op = {.kind = RECV, .out = *buf, .peer = from};
    return play_post_operation(p, &op, post);
}

static cadre_status barrier(struct cadre_axis *axis, struct cadre_post *post)
{
    CADRE_TRY(enter_axis(axis, "comm.barrier"));
    const struct operation op = {.kind = BARRIER};
    return play_post_operation(play_player_of_axis(axis), &op, post);
}

static cadre_status stream_wait(struct cadre_axis *axis, cadre_event event)
{
    CADRE_TRY(enter_axis(axis, "comm.stream_wait"));
    return play_wait_event(play_player_of_axis(axis), event, "comm.stream_wait");
}

static cadre_status test(struct cadre_axis *axis, cadre_event event, uint32_t *happened)
{
    CADRE_TRY(enter_axis(axis, "comm.test"));
    if (!happened)
        return play_refuse(play_player_of_axis(axis), CADRE_RULE_ARGUMENT,
                           "comm.test into NULL");
    return play_test_operation(play_player_of_axis(axis), event, happened);
}

static cadre_status recv_any(struct cadre_axis *axis, const struct cadre_buf *buf,
                             int32_t *from, struct cadre_post *post)
{
    (void)buf;
    (void)from;
    (void)post;
    CADRE_TRY(enter_axis(axis, "comm.recv_any"));
    return play_refuse(play_player_of_axis(axis), CADRE_RULE_ARGUMENT,
                       "comm.recv_any is reserved: no host carries it out yet");
}

const struct cadre_comm_svc play_comm = {
    .struct_size = sizeof play_comm,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
    .all_to_all_v = all_to_all_v,
    .send = send,
    .recv = recv,
    .barrier = barrier,
    .stream_wait = stream_wait,
    .test = test,
    .recv_any = recv_any,
};
