/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective, and a storm of them, against sequential references. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/tensor/dtype.h"
#include "core/tensor/half.h"
#include "tests/comm/comm_cases.h"

static uint64_t mix(uint64_t x) /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Element i of rank r's input of operation `op`: magnitudes differ so that order shows.
 */
static double value(uint64_t op, int rank, uint64_t i, uint32_t dtype)
{
    uint64_t h = mix(op * 1000003u + (uint64_t)rank * 8191u + i * 0x10001u);
    double v = (double)(int64_t)(h >> 40) - 8388608.0;
    if (dtype == CADRE_U8)
        return (double)(h & 255u);
    if (dtype == CADRE_I32)
        return v;
    if (dtype == CADRE_F16)
        v *= 1e-5; /* the sum over six ranks is finite */
    return v * (double)(1u << (h & 15u)) / 1000.0;
}

void comm_store(void *at, uint64_t i, uint32_t dtype, double v)
{
    switch (dtype) {
    case CADRE_F32:
        ((float *)at)[i] = (float)v;
        break;
    case CADRE_F64:
        ((double *)at)[i] = v;
        break;
    case CADRE_BF16:
        ((uint16_t *)at)[i] = cadre_bf16_from_f32((float)v);
        break;
    case CADRE_F16:
        ((uint16_t *)at)[i] = cadre_f16_from_f32((float)v);
        break;
    case CADRE_I32:
        ((int32_t *)at)[i] = (int32_t)v;
        break;
    default:
        ((uint8_t *)at)[i] = (uint8_t)v;
    }
}

static double load(const void *at, uint64_t i, uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F32:
        return (double)((const float *)at)[i];
    case CADRE_F64:
        return ((const double *)at)[i];
    case CADRE_BF16:
        return (double)cadre_bf16_to_f32(((const uint16_t *)at)[i]);
    case CADRE_F16:
        return (double)cadre_f16_to_f32(((const uint16_t *)at)[i]);
    case CADRE_I32:
        return ((const int32_t *)at)[i];
    default:
        return ((const uint8_t *)at)[i];
    }
}

static double rounded(double v, uint32_t dtype)
{
    double kept = 0;
    if (dtype == CADRE_U8 || dtype == CADRE_I32)
        return v;
    comm_store(&kept, 0, dtype, v);
    return load(&kept, 0, dtype);
}

static double combine(double a, double b, uint32_t dtype, uint32_t red)
{
    if (red == CADRE_MAX)
        return a >= b ? a : b;
    return rounded(a + b, dtype);
}

/* The tree of design "exact mode", level by level: the reference of every reduction. */
static double tree(uint64_t op, const int *ranks, int n, uint64_t i, uint32_t dtype,
                   uint32_t red)
{
    double v[MAX_RANKS] = {0};
    for (int r = 0; r < n; r++) {
        v[r] = rounded(value(op, ranks[r], i, dtype), dtype);
    }
    for (; n > 1; n = (n + 1) / 2)
        for (int j = 0; j < (n + 1) / 2; j++)
            v[j] =
                2 * j + 1 < n ? combine(v[2 * j], v[2 * j + 1], dtype, red) : v[2 * j];
    return v[0];
}

static void fill(void *at, uint64_t count, uint64_t op, int rank, uint32_t dtype)
{
    for (uint64_t i = 0; i < count; i++)
        comm_store(at, i, dtype, value(op, rank, i, dtype));
}

static void everybody(int *ranks, int n)
{
    for (int r = 0; r < n; r++)
        ranks[r] = r;
}

/* Ragged slices: some empty, no two equal. */
static void ragged(uint64_t *offsets, int size, uint64_t count, uint64_t salt)
{
    offsets[0] = 0;
    offsets[size] = count;
    for (int m = 1; m < size; m++) {
        uint64_t at = count ? mix(salt + (uint64_t)m) % (count + 1) : 0;
        int k = m;
        for (; k > 1 && offsets[k - 1] > at; k--)
            offsets[k] = offsets[k - 1];
        offsets[k] = at;
    }
}

/* ---- every collective against its reference ---- */

struct shape {
    uint64_t count, op;
    uint32_t dtype, red;
    bool in_place;
};

static cadre_status try_all_reduce(struct world *w, const struct shape *s)
{
    size_t e = cadre_dtype_bytes(s->dtype);
    int ranks[MAX_RANKS];
    everybody(ranks, w->size);
    char *in = comm_calloc(w, s->count * e + 1, 1),
         *out = s->in_place ? in : comm_calloc(w, s->count * e + 1, 1);
    cadre_event done;
    fill(in, s->count, s->op, w->rank, s->dtype);
    CHECK(w, cadre_comm_all_reduce(w->comm, "reduce", in, out, s->count, s->dtype,
                                   s->red, 0, &done) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, done) == CADRE_OK);
    for (uint64_t i = 0; i < s->count; i++)
        CHECK(w, load(out, i, s->dtype) ==
                     tree(s->op, ranks, w->size, i, s->dtype, s->red));
    if (out != in)
        comm_free(w, out);
    comm_free(w, in);
    return CADRE_OK;
}

/* reduce_scatter then all_gather: together they are all_reduce, bit for bit. */
static cadre_status try_scatter_gather(struct world *w, const struct shape *s)
{
    size_t e = cadre_dtype_bytes(s->dtype);
    uint64_t offsets[MAX_RANKS + 1];
    int ranks[MAX_RANKS];
    everybody(ranks, w->size);
    ragged(offsets, w->size, s->count, s->op);
    uint64_t mine = offsets[w->rank + 1] - offsets[w->rank];
    char *in = comm_calloc(w, s->count * e + 1, 1),
         *whole = comm_calloc(w, s->count * e + 1, 1);
    char *part = comm_calloc(w, mine * e + 1, 1);
    char *slice = s->in_place ? in + offsets[w->rank] * e : part;
    cadre_event first, second;
    fill(in, s->count, s->op, w->rank, s->dtype);
    CHECK(w, cadre_comm_reduce_scatter(w->comm, "scatter", in, slice, offsets, s->dtype,
                                       s->red, 0, &first) == CADRE_OK);
    CHECK(w, cadre_comm_all_gather(w->comm, "gather", slice, whole, offsets, s->dtype,
                                   first, &second) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, second) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, first) == CADRE_OK);
    for (uint64_t i = 0; i < mine; i++)
        CHECK(w,
              load(slice, i, s->dtype) ==
                  tree(s->op, ranks, w->size, offsets[w->rank] + i, s->dtype, s->red));
    for (uint64_t i = 0; i < s->count; i++)
        CHECK(w, load(whole, i, s->dtype) ==
                     tree(s->op, ranks, w->size, i, s->dtype, s->red));
    memcpy(whole + offsets[w->rank] * e, slice, mine * e);
    CHECK(w, cadre_comm_all_gather(w->comm, "in place", whole + offsets[w->rank] * e,
                                   whole, offsets, s->dtype, 0, &first) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, first) == CADRE_OK);
    for (uint64_t i = 0; i < s->count; i++)
        CHECK(w, load(whole, i, s->dtype) ==
                     tree(s->op, ranks, w->size, i, s->dtype, s->red));
    comm_free(w, part);
    comm_free(w, whole);
    comm_free(w, in);
    return CADRE_OK;
}

static cadre_status try_moves(struct world *w, const struct shape *s)
{
    size_t e = cadre_dtype_bytes(s->dtype);
    uint64_t each = s->count, total = each * (uint64_t)w->size;
    int root = (int)(s->op % (uint64_t)w->size);
    char *in = comm_calloc(w, total * e + 1, 1),
         *out = comm_calloc(w, total * e + 1, 1);
    char *expected = calloc(total * e + 1, 1);
    cadre_event done;
    fill(in, each, s->op, w->rank, s->dtype);
    fill(expected, each, s->op, root, s->dtype);
    CHECK(w, cadre_comm_broadcast(w->comm, "params", in, each, s->dtype, root, 0,
                                  &done) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, done) == CADRE_OK);
    CHECK(w, memcmp(in, expected, each * e) == 0);

    fill(in, total, s->op + 1, w->rank, s->dtype);
    CHECK(w, cadre_comm_all_to_all(w->comm, "turn", in, out, total, s->dtype, 0,
                                   &done) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, done) == CADRE_OK);
    for (int m = 0; m < w->size; m++) {
        fill(expected, total, s->op + 1, m, s->dtype);
        CHECK(w, memcmp(out + (uint64_t)m * each * e,
                        expected + (uint64_t)w->rank * each * e, each * e) == 0);
    }
    free(expected);
    comm_free(w, out);
    comm_free(w, in);
    return CADRE_OK;
}

/* Types that are never summed are communicated too: compressed gradients. */
static cadre_status try_carried(struct world *w, uint64_t count, uint32_t dtype)
{
    const uint64_t e = cadre_dtype_bytes(dtype), size = (uint64_t)w->size;
    uint64_t offsets[MAX_RANKS + 1];
    uint8_t *in = comm_calloc(w, size * count * e + 1, 1);
    uint8_t *out = comm_calloc(w, size * count * e + 1, 1);
    cadre_event done;
    ragged(offsets, w->size, count, count + dtype);
    fill(in, count * e, 1, w->rank, CADRE_U8);
    CHECK(w, cadre_comm_all_gather(w->comm, "codes", in, out, offsets, dtype, 0,
                                   &done) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, done) == CADRE_OK);
    for (int m = 0; m < w->size; m++)
        for (uint64_t i = offsets[m] * e; i < offsets[m + 1] * e; i++)
            CHECK(w, out[i] == (uint8_t)value(1, m, i - offsets[m] * e, CADRE_U8));
    fill(in, size * count * e, 2, w->rank, CADRE_U8);
    CHECK(w, cadre_comm_all_to_all(w->comm, "codes", in, out, size * count, dtype, 0,
                                   &done) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, done) == CADRE_OK);
    for (uint64_t i = 0; i < size * count * e; i++) {
        const uint64_t from = i / (count * e), at = i % (count * e);
        const uint64_t there = (uint64_t)w->rank * count * e + at;
        CHECK(w, out[i] == (uint8_t)value(2, (int)from, there, CADRE_U8));
    }
    comm_free(w, out);
    comm_free(w, in);
    return CADRE_OK;
}

/* A ring: to the next rank, from the one before, both pending at once. */
static cadre_status try_ring(struct world *w, const struct shape *s)
{
    size_t e = cadre_dtype_bytes(s->dtype);
    int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
    char *in = comm_calloc(w, s->count * e + 1, 1),
         *out = comm_calloc(w, s->count * e + 1, 1);
    char *expected = calloc(s->count * e + 1, 1);
    cadre_event sent, got;
    fill(in, s->count, s->op, w->rank, s->dtype);
    fill(expected, s->count, s->op, before, s->dtype);
    CHECK(w, cadre_comm_recv(w->comm, "act", out, s->count, s->dtype, before, 0,
                             &got) == CADRE_OK);
    CHECK(w, cadre_comm_send(w->comm, "act", in, s->count, s->dtype, next, 0, &sent) ==
                 CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, got) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, sent) == CADRE_OK);
    CHECK(w, memcmp(out, expected, s->count * e) == 0);
    free(expected);
    comm_free(w, out);
    comm_free(w, in);
    return CADRE_OK;
}

/* The largest counts run only for f32 and f64, at two world sizes, and not in
 * instrumented code, where the references take minutes. */
static uint64_t largest(const struct world *w, size_t kind)
{
    const char *lean = getenv("CADRE_TEST_LEAN");
    if (lean && strcmp(lean, "1") == 0)
        return kind == 0 ? 100000 : 4097;
    return kind <= 1 && (w->size == 2 || w->size == 5) ? 1000000 : 100000;
}

/* `arg` "few" leaves out the large counts. */
static cadre_status run_collectives(struct world *w, const char *arg)
{
    static const uint64_t counts[] = {0, 1, 7, 4097, 100000, 1000000};
    static const struct shape kinds[] = {
        {.dtype = CADRE_F32, .red = CADRE_SUM},  {.dtype = CADRE_F64, .red = CADRE_SUM},
        {.dtype = CADRE_BF16, .red = CADRE_SUM}, {.dtype = CADRE_F16, .red = CADRE_SUM},
        {.dtype = CADRE_I32, .red = CADRE_SUM},  {.dtype = CADRE_U8, .red = CADRE_MAX},
        {.dtype = CADRE_F32, .red = CADRE_MAX}};
    static const uint32_t carried[] = {CADRE_I8, CADRE_U8, CADRE_BF16, CADRE_F16,
                                       CADRE_I32};
    uint64_t op = 1;
    for (size_t k = 0; k < sizeof carried / sizeof carried[0]; k++)
        for (size_t n = 0; n < 4; n++)
            CADRE_TRY(try_carried(w, counts[n], carried[k]));
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
            struct shape s = kinds[k];
            s.count = counts[n];
            if (s.count > (strcmp(arg, "few") == 0 ? 4097 : largest(w, k)))
                continue;
            s.op = op += 2;
            CADRE_TRY(try_all_reduce(w, &s));
            s.in_place = true;
            CADRE_TRY(try_all_reduce(w, &s));
            CADRE_TRY(try_scatter_gather(w, &s));
            s.in_place = false;
            CADRE_TRY(try_scatter_gather(w, &s));
            CADRE_TRY(try_moves(w, &s));
            if (w->size > 1)
                CADRE_TRY(try_ring(w, &s));
        }
    return CADRE_OK;
}

cadre_status case_collectives(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_collectives, arg, rank, segment);
}

/* ---- thousands of operations over several communicators, random delays ---- */

#define STORM_OPS 3000
#define STORM_COUNT 300
#define IN_FLIGHT 8

enum storm_kind { REDUCE, SCATTER, BROADCAST, RING, STORM_KINDS };

struct storm_op {
    struct cadre_comm *comm;
    int ranks[MAX_RANKS]; /* of the group, by member */
    enum storm_kind kind;
    uint64_t op, count;
    uint64_t offsets[MAX_RANKS + 1];
    float *in, *out;
    cadre_event done, sent;
};

/* Expected element i of out on this member. */
static double storm_expected(const struct storm_op *o, uint64_t i)
{
    int size = o->comm->size, me = o->comm->rank;
    switch (o->kind) {
    case REDUCE:
        return tree(o->op, o->ranks, size, i, CADRE_F32, CADRE_SUM);
    case SCATTER:
        return tree(o->op, o->ranks, size, o->offsets[me] + i, CADRE_F32, CADRE_SUM);
    case BROADCAST:
        return (double)(float)value(o->op, o->ranks[o->op % (uint64_t)size], i,
                                    CADRE_F32);
    default:
        return (double)(float)value(o->op, o->ranks[(me + size - 1) % size], i,
                                    CADRE_F32);
    }
}

static cadre_status storm_check(struct world *w, struct storm_op *o)
{
    int me = o->comm->rank;
    uint64_t count =
        o->kind == SCATTER ? o->offsets[me + 1] - o->offsets[me] : o->count;
    CHECK(w, cadre_comm_wait(w->comm, o->done) == CADRE_OK);
    CHECK(w, cadre_comm_wait(w->comm, o->sent) == CADRE_OK);
    for (uint64_t i = 0; i < count; i++)
        CHECK(w, (double)o->out[i] == storm_expected(o, i));
    comm_free(w, o->in);
    comm_free(w, o->out);
    o->in = NULL;
    return CADRE_OK;
}

static cadre_status storm_post(struct storm_op *o, cadre_event after)
{
    struct cadre_comm *c = o->comm;
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
    o->sent = 0;
    switch (o->kind) {
    case REDUCE:
        return cadre_comm_all_reduce(c, "reduce", o->in, o->out, o->count, CADRE_F32,
                                     CADRE_SUM, after, &o->done);
    case SCATTER:
        return cadre_comm_reduce_scatter(c, "scatter", o->in, o->out, o->offsets,
                                         CADRE_F32, CADRE_SUM, after, &o->done);
    case BROADCAST:
        memcpy(o->out, o->in, o->count * sizeof *o->in);
        return cadre_comm_broadcast(c, "params", o->out, o->count, CADRE_F32,
                                    (int)(o->op % (uint64_t)c->size), after, &o->done);
    default:
        if (cadre_comm_send(c, "ring", o->in, o->count, CADRE_F32, next, after,
                            &o->sent))
            return CADRE_E_DIFFERS;
        return cadre_comm_recv(c, "ring", o->out, o->count, CADRE_F32, before, 0,
                               &o->done);
    }
}

static void maybe_sleep(uint64_t h)
{
    if (h % 32 == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(mix(h) % 300000)}, NULL);
}

/* Operation n on group g: 0 the world, 1 even or odd ranks, 2 the world reversed. */
static void storm_draw(const struct world *w, struct storm_op *o, uint64_t n,
                       uint64_t h, struct cadre_comm *group, int g)
{
    o->comm = group;
    for (int r = 0; r < group->size; r++)
        o->ranks[r] = g == 0 ? r : g == 1 ? 2 * r + w->rank % 2 : w->size - 1 - r;
    o->kind = (enum storm_kind)((h >> 32) % STORM_KINDS);
    if (group->size == 1 && o->kind == RING)
        o->kind = REDUCE;
    o->op = n;
    o->count = (h >> 8) % STORM_COUNT;
    ragged(o->offsets, group->size, o->count, n);
    o->in = comm_calloc(w, o->count + 1, sizeof(float));
    o->out = comm_calloc(w, o->count + 1, sizeof(float));
    fill(o->in, o->count, n, w->rank, CADRE_F32);
}

/* Every rank draws the same sequence of operations, but its own sleeping times. Up to
 * IN_FLIGHT are pending. */
static cadre_status run_storm(struct world *w, const char *arg)
{
    uint64_t seed = strtoull(arg, NULL, 10);
    struct cadre_comm *groups[3] = {w->comm};
    struct storm_op flight[IN_FLIGHT];
    struct cadre_error err;
    memset(flight, 0, sizeof flight);
    CHECK(w, cadre_comm_split(w->comm, w->rank % 2, 0, &groups[1], &err) == CADRE_OK);
    CHECK(w, cadre_comm_split(w->comm, 0, -w->rank, &groups[2], &err) == CADRE_OK);
    for (uint64_t n = 0; n < STORM_OPS; n++) {
        uint64_t h = mix(seed + n);
        struct storm_op *o = &flight[n % IN_FLIGHT];
        if (o->in && storm_check(w, o) != CADRE_OK)
            return CADRE_E_DIFFERS;
        storm_draw(w, o, n, h, groups[h % 3], (int)(h % 3));
        cadre_event after = n % 5 == 0 ? flight[(n + 7) % IN_FLIGHT].done : 0;
        maybe_sleep(mix(h + 77u * (uint64_t)w->rank));
        CHECK(w, storm_post(o, after) == CADRE_OK);
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        if (flight[i].in && storm_check(w, &flight[i]) != CADRE_OK)
            return CADRE_E_DIFFERS;
    cadre_comm_destroy(groups[1]);
    cadre_comm_destroy(groups[2]);
    return CADRE_OK;
}

cadre_status case_storm(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(run_storm, arg, rank, segment);
}
