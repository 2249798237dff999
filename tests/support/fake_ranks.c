/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static void reduce(const struct fake_ranks *all, int place, struct fake_post *mine)
{
    for (int m = 0; m < all->n; m++) {
        const void *in = all->rank[m].post[place].in_copy;
        for (uint64_t i = 0; i < mine->in.count; i++)
            if (mine->in.dtype == CADRE_F64)
                ((double *)mine->result)[i] += ((const double *)in)[i];
            else
                ((float *)mine->result)[i] += ((const float *)in)[i];
    }
}

/* Where the slice that rank `from` sends to rank `to` begins in from's `in`, and its
 * place in to's `out`, in bytes. */
struct slice {
    size_t in, out, bytes;
};

static struct slice slice_of(const struct fake_ranks *all, int place, int from, int to)
{
    const struct fake_post *sent = &all->rank[from].post[place];
    const struct fake_post *taken = &all->rank[to].post[place];
    size_t element =
        fake_bytes(&taken->out) / (taken->out.count ? taken->out.count : 1);
    size_t part = fake_bytes(&taken->out) / (size_t)all->n;
    const uint64_t *out = taken->offsets;
    if (sent->kind == FAKE_ALL_GATHER)
        return (struct slice){0, out[from] * element,
                              (out[from + 1] - out[from]) * element};
    if (sent->kind == FAKE_ALL_TO_ALL)
        return (struct slice){part * (size_t)to, part * (size_t)from, part};
    ck_assert_uint_eq(sent->in_offsets[to + 1] - sent->in_offsets[to],
                      out[from + 1] - out[from]);
    return (struct slice){sent->in_offsets[to] * element, out[from] * element,
                          (out[from + 1] - out[from]) * element};
}

static void move(const struct fake_ranks *all, int place, int index,
                 struct fake_post *mine)
{
    for (int m = 0; m < all->n; m++) {
        const char *in = all->rank[m].post[place].in_copy;
        struct slice s = slice_of(all, place, m, index);
        memcpy((char *)mine->result + s.out, in + s.in, s.bytes);
    }
}

/* Bytes that a rank sends to others. */
static uint64_t sent_bytes(const struct fake_ranks *all, int me, int place)
{
    const struct fake_post *mine = &all->rank[me].post[place];
    uint64_t n = (uint64_t)all->n, bytes = 0;
    if (mine->kind != FAKE_ALL_TO_ALL_V)
        return (mine->kind == FAKE_ALL_REDUCE ? 2 : 1) * fake_bytes(&mine->out) *
               (n - 1) / n;
    for (int m = 0; m < all->n; m++)
        bytes += m == me ? 0 : slice_of(all, place, me, m).bytes;
    return bytes;
}

static cadre_status meet(struct fake_host *fake, struct fake_post *mine)
{
    struct fake_ranks *all = fake->others;
    int place = fake->posts - 1, me = fake->axis.index;
    uint64_t in_bytes = fake_bytes(&mine->in);
    bool uneven = mine->kind == FAKE_ALL_TO_ALL_V;
    ck_assert(mine->kind != FAKE_ALL_REDUCE || mine->red == CADRE_SUM);
    ck_assert(mine->kind != FAKE_ALL_REDUCE || mine->in.dtype == CADRE_F32 ||
              mine->in.dtype == CADRE_F64);
    mine->in_copy = malloc(in_bytes + 1);
    mine->result = calloc(fake_bytes(&mine->out) + 1, 1);
    if (in_bytes)
        memcpy(mine->in_copy, mine->in.data, in_bytes);
    pthread_barrier_wait(&all->barrier);
    all->bytes[me] += sent_bytes(all, me, place);
    for (int m = 0; m < all->n; m++) {
        const struct fake_post *theirs = &all->rank[m].post[place];
        ck_assert_int_eq(all->rank[m].posts, fake->posts);
        ck_assert_uint_eq(theirs->kind, mine->kind);
        ck_assert(uneven || theirs->out.count == mine->out.count);
        ck_assert(uneven ||
                  memcmp(theirs->offsets, mine->offsets, sizeof mine->offsets) == 0);
        ck_assert_uint_eq(theirs->out.dtype, mine->out.dtype);
        ck_assert_str_eq(theirs->label, mine->label);
    }
    if (mine->kind == FAKE_ALL_REDUCE)
        reduce(all, place, mine);
    else
        move(all, place, me, mine);
    pthread_barrier_wait(&all->barrier);
    return CADRE_OK;
}

static void arrive(struct fake_host *fake, struct fake_post *mine)
{
    size_t in = fake_bytes(&mine->in), out = fake_bytes(&mine->out);
    ck_assert_msg(in == 0 || memcmp(mine->in.data, mine->in_copy, in) == 0,
                  "'%s' was touched while it travelled", mine->label);
    if (out)
        memcpy(mine->out.data, mine->result, out);
}

void fake_ranks_init(struct fake_ranks *all, const struct cadre_strategy_ops *ops,
                     int n, uint32_t n_entries)
{
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    memset(all, 0, sizeof *all);
    all->n = n;
    pthread_barrier_init(&all->barrier, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        struct fake_host *fake = &all->rank[i];
        fake_init(fake, ops, n_entries);
        fake->axis.size = n;
        fake->axis.index = i;
        fake->singly = fake->repeated = true;
        fake->fill = 0xff; /* detects plugins that rely on zeros */
        fake->others = all;
        fake->on_post = meet;
        fake->on_stream_wait = arrive;
        fake_set_service(fake, CADRE_SERVICE_OPS, &fake_ops);
        ck_assert_int_eq(cadre_device_open(&config, &fake->ctx.device, NULL), 0);
    }
}

void fake_ranks_fini(struct fake_ranks *all)
{
    fake_ranks_stop(all);
    for (int i = 0; i < all->n; i++) {
        fake_fini(&all->rank[i]);
        cadre_device_close(all->rank[i].ctx.device);
    }
    pthread_barrier_destroy(&all->barrier);
}

cadre_status fake_ranks_start(struct fake_ranks *all)
{
    const struct fake_host *first = &all->rank[0];
    cadre_status rc = CADRE_OK;
    for (int i = 0; !rc && i < all->n; i++) {
        struct fake_host *fake = &all->rank[i];
        fake->dtype = first->dtype;
        fake->plan.exact = first->plan.exact;
        fake->other_map = first->other_map;
        memmove(fake->first, first->first, sizeof fake->first);
        memmove(fake->entry, first->entry, sizeof fake->entry);
        memmove(fake->option, first->option, sizeof fake->option);
        rc = fake_start(fake);
    }
    return rc;
}

void fake_ranks_stop(struct fake_ranks *all)
{
    for (int i = 0; i < all->n; i++)
        fake_stop(&all->rank[i]);
}

static void *step_of(void *arg)
{
    struct fake_host *fake = arg;
    struct fake_ranks *all = fake->others;
    cadre_status *status = &all->status[fake->axis.index];
    fake_forget_posts(fake);
    all->bytes[fake->axis.index] = 0;
    *status = fake_step(fake);
    if (!*status)
        *status = fake_sync(fake, CADRE_SYNC_GRADS);
    return NULL;
}

void fake_ranks_step(struct fake_ranks *all)
{
    pthread_t thread[FAKE_RANKS];
    for (int i = 1; i < all->n; i++) {
        all->rank[i].gradient = all->rank[0].gradient;
        all->rank[i].steps = all->rank[0].steps;
    }
    for (int i = 0; i < all->n; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, step_of, &all->rank[i]), 0);
    for (int i = 0; i < all->n; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < all->n; i++) {
        ck_assert_msg(all->status[i] == CADRE_OK, "rank %d: %d %s", i, all->status[i],
                      all->rank[i].failure);
        ck_assert_int_eq(all->rank[i].joins, all->rank[i].posts);
    }
}

bool fake_ranks_same(const struct fake_ranks *all)
{
    for (int i = 1; i < all->n; i++)
        if (memcmp(all->rank[0].grads, all->rank[i].grads, all->rank[0].grads_bytes) !=
            0)
            return false;
    return true;
}
