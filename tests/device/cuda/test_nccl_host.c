/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's stand-in itself: its results, and the behaviour of NCCL that it emulates. */
#include "tests/device/cuda/nccl_testing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

/* ---- every collective and type ---- */

/* Small whole numbers, which all types hold and add without rounding. */
enum { odd_count = 10007 };
static int value(int rank, size_t i)
{
    return (int)((i * 7 + (size_t)rank * 3) % 11);
}

static void store(ncclDataType_t type, void *at, size_t i, int x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t exponent = bits >> 23, fraction = bits >> 13 & 1023;
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        ((uint8_t *)at)[i] = (uint8_t)x;
        break;
    case ncclInt32:
        ((int32_t *)at)[i] = x;
        break;
    case ncclInt64:
        ((int64_t *)at)[i] = x;
        break;
    case ncclFloat16:
        ((uint16_t *)at)[i] =
            (uint16_t)(x ? (exponent - 127 + 15) << 10 | fraction : 0);
        break;
    case ncclBfloat16:
        ((uint16_t *)at)[i] = (uint16_t)(bits >> 16);
        break;
    case ncclFloat32:
        ((float *)at)[i] = f;
        break;
    default:
        ((double *)at)[i] = x;
    }
}

static const struct {
    ncclDataType_t type;
    size_t bytes;
} types[] = {{ncclInt8, 1},    {ncclUint8, 1},    {ncclInt32, 4},   {ncclInt64, 8},
             {ncclFloat16, 2}, {ncclBfloat16, 2}, {ncclFloat32, 4}, {ncclFloat64, 8}};
enum { n_types = sizeof types / sizeof types[0] };

/* The reduction of all ranks' value(r, i). */
static int combined(int size, size_t i, ncclRedOp_t op)
{
    int all = value(0, i);
    for (int r = 1; r < size; r++) {
        const int x = value(r, i);
        all = op == ncclSum ? all + x : x > all ? x : all;
    }
    return all;
}

struct case_of {
    const struct nccl_rank *r;
    ncclComm_t comm;
    cudaStream_t stream;
    size_t n; /* elements of a rank's part */
    ncclDataType_t type;
    size_t bytes;
    ncclRedOp_t op;
};

static void *filled(const struct case_of *c, size_t n)
{
    void *bytes = calloc(n, c->bytes);
    must(bytes);
    for (size_t i = 0; i < n; i++)
        store(c->type, bytes, i, value(c->r->rank, i));
    return bytes;
}

static void try_reductions(const struct case_of *c)
{
    const size_t all = c->n * (size_t)c->r->size, part = c->n * c->bytes;
    const int rank = c->r->rank, root = c->r->size - 1;
    char *mine = filled(c, all), *sums = calloc(all, c->bytes);
    must(sums);
    for (size_t i = 0; i < all; i++)
        store(c->type, sums, i, combined(c->r->size, i, c->op));
    char *in = nccl_device_bytes(mine, all * c->bytes);
    char *out = nccl_device_bytes(NULL, all * c->bytes);
    must(ncclAllReduce(in, out, all, c->type, c->op, c->comm, c->stream) == 0);
    must(nccl_device_equal(c->stream, out, sums, all * c->bytes));
    must(nccl_device_equal(c->stream, in, mine, all * c->bytes));
    must(ncclReduceScatter(in, out, c->n, c->type, c->op, c->comm, c->stream) == 0);
    must(nccl_device_equal(c->stream, out, sums + (size_t)rank * part, part));
    must(ncclReduce(in, rank == root ? out : NULL, all, c->type, c->op, root, c->comm,
                    c->stream) == 0);
    must(rank != root || nccl_device_equal(c->stream, out, sums, all * c->bytes));
    /* in place */
    must(ncclReduceScatter(in, in + (size_t)rank * part, c->n, c->type, c->op, c->comm,
                           c->stream) == 0);
    must(nccl_device_equal(c->stream, in + (size_t)rank * part,
                           sums + (size_t)rank * part, part));
    must(cudaFree(in) == cudaSuccess && cudaFree(out) == cudaSuccess);
    in = nccl_device_bytes(mine, all * c->bytes);
    must(ncclAllReduce(in, in, all, c->type, c->op, c->comm, c->stream) == 0);
    must(nccl_device_equal(c->stream, in, sums, all * c->bytes));
    must(cudaFree(in) == cudaSuccess);
    free(mine);
    free(sums);
}

static void try_copies(const struct case_of *c)
{
    const size_t all = c->n * (size_t)c->r->size, part = c->n * c->bytes;
    const int root = c->r->size - 1;
    char *wanted = calloc(all, c->bytes), *mine = filled(c, c->n);
    must(wanted);
    for (size_t i = 0; i < all; i++)
        store(c->type, wanted, i, value((int)(i / c->n), i % c->n));
    char *in = nccl_device_bytes(mine, part);
    char *out = nccl_device_bytes(NULL, all * c->bytes);
    must(ncclAllGather(in, out, c->n, c->type, c->comm, c->stream) == 0);
    must(nccl_device_equal(c->stream, out, wanted, all * c->bytes));
    must(ncclBroadcast(in, in, c->n, c->type, root, c->comm, c->stream) == 0);
    must(nccl_device_equal(c->stream, in, wanted + (size_t)root * part, part));
    must(cudaFree(in) == cudaSuccess && cudaFree(out) == cudaSuccess);
    free(mine);
    free(wanted);
}

static void collectives(const struct nccl_rank *r)
{
    struct case_of c = {.r = r, .comm = nccl_world(r, 1), .stream = nccl_stream()};
    for (size_t t = 0; t < n_types; t++) {
        if (test_lean() && t % 3 != 0)
            continue;
        c.type = types[t].type;
        c.bytes = types[t].bytes;
        c.n = t % 2 ? 33 : odd_count; /* within a chunk, and several */
        for (c.op = ncclSum; c.op <= ncclMax; c.op += ncclMax)
            try_reductions(&c);
        try_copies(&c);
    }
    must(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, c.comm, c.stream) == 0);
    must(cudaStreamDestroy(c.stream) == cudaSuccess);
    must(ncclCommFinalize(c.comm) == 0 && ncclCommDestroy(c.comm) == 0);
}

START_TEST(all_collectives)
{
    nccl_run(_i / 2 + 1, _i % 2, collectives, NULL);
}
END_TEST

/* Rounded at every hop, in ring order: neither the tree's bits, nor those of a wider
 * sum. */
static void ring_order(const struct nccl_rank *r)
{
    static const float terms[4] = {1, 16777216, -16777216, 0.5f};
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    float x[4], sum[4];
    for (int i = 0; i < 4; i++) {
        x[i] = terms[r->rank];
        sum[i] = terms[(i + 1) % 4];
        for (int hop = 1; hop < 4; hop++)
            sum[i] = sum[i] + terms[(i + 1 + hop) % 4];
    }
    must(sum[0] == 1.5f && sum[1] == 1 && sum[2] == 2 && sum[3] == 0.5f);
    float *at = nccl_device_bytes(x, sizeof x);
    must(ncclAllReduce(at, at, 4, ncclFloat, ncclSum, comm, stream) == 0);
    must(nccl_device_equal(stream, at, sum, sizeof sum));
    must(cudaFree(at) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
    must(ncclCommDestroy(comm) == 0);
}

START_TEST(order_of_sums)
{
    nccl_run(4, false, ring_order, NULL);
}
END_TEST

/* 16-bit types compared with the compiler's, for all values: x + 0 is x, and sums
 * between two values are rounded to the nearest. */
static void halves(const struct nccl_rank *r)
{
    enum { n = 65536 };
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream();
    uint16_t *x = calloc(n, 2);
    must(x);
    for (uint32_t i = 0; r->rank == 0 && i < n; i++)
        x[i] = (uint16_t)((i & 0x7c00) == 0x7c00 || i == 0x8000 ? 0 : i);
    uint16_t *at = nccl_device_bytes(x, 2 * n);
    must(ncclAllReduce(at, at, n, ncclHalf, ncclSum, comm, stream) == 0);
    must(ncclBroadcast(at, at, n, ncclHalf, 0, comm, stream) == 0);
    const bool kept = nccl_device_equal(stream, at, x, 2 * n);
    must(kept || r->rank != 0);
    /* 1 + 2^-11 is half way down to 1; 1 + 2^-10 + 2^-11 half way up; 65504 + 16 is out
     */
    const uint16_t a[4] = {0x3c00, 0x3c01, 0x7bff, 0x0001};
    const uint16_t b[4] = {0x1000, 0x1000, 0x4c00, 0x8001};
    const uint16_t sums[4] = {0x3c00, 0x3c02, 0x7c00, 0x0000};
    must(cudaMemcpy(at, r->rank ? b : a, 8, cudaMemcpyHostToDevice) == cudaSuccess);
    must(ncclAllReduce(at, at, 4, ncclHalf, ncclSum, comm, stream) == 0);
    must(nccl_device_equal(stream, at, sums, 8));
    const uint16_t c[2] = {0x3f80, 0x3f81}, d[2] = {0x3b80, 0x3b80};
    const uint16_t wide[2] = {0x3f80, 0x3f82};
    must(cudaMemcpy(at, r->rank ? d : c, 4, cudaMemcpyHostToDevice) == cudaSuccess);
    must(ncclAllReduce(at, at, 2, ncclBfloat16, ncclSum, comm, stream) == 0);
    must(nccl_device_equal(stream, at, wide, 4));
    must(cudaFree(at) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
    must(ncclCommDestroy(comm) == 0);
    free(x);
}

START_TEST(sixteen_bits)
{
    nccl_run(2, false, halves, NULL);
}
END_TEST

/* ---- exchanges, groups, splits ---- */

/* Every rank with every rank, itself included, twice each, during a collective; longer
 * than a letter. */
static void exchange(const struct nccl_rank *r)
{
    enum { n = 50021 };
    ncclComm_t comm = nccl_world(r, 1);
    cudaStream_t stream = nccl_stream(), other = nccl_stream();
    const size_t size = (size_t)r->size;
    unsigned char *bytes = malloc(2 * size * n);
    must(bytes);
    for (size_t i = 0; i < 2 * size * n; i++)
        bytes[i] = (unsigned char)(i / n * 16 + (size_t)r->rank);
    unsigned char *in = nccl_device_bytes(bytes, 2 * size * n);
    unsigned char *out = nccl_device_bytes(NULL, 2 * size * n);
    int32_t one = 1, sum = r->size, *count = nccl_device_bytes(&one, sizeof one);
    must(ncclGroupStart() == 0);
    for (int k = 0; k < 2; k++)
        for (int p = 0; p < r->size; p++) {
            const size_t at = (size_t)(2 * p + k) * n;
            must(ncclSend(in + at, n, ncclUint8, p, comm, stream) == 0);
            must(ncclRecv(out + at, n, ncclUint8, p, comm, k ? other : stream) == 0);
        }
    must(ncclAllReduce(count, count, 1, ncclInt32, ncclSum, comm, stream) == 0);
    must(ncclGroupEnd() == 0);
    for (size_t i = 0; i < 2 * size * n; i++) /* p's letters to this rank */
        bytes[i] = (unsigned char)((2 * (size_t)r->rank + i / n % 2) * 16 + i / n / 2);
    must(nccl_device_equal(other, out, bytes, 2 * size * n));
    must(nccl_device_equal(stream, count, &sum, sizeof sum));
    must(cudaFree(in) == cudaSuccess && cudaFree(out) == cudaSuccess);
    must(cudaFree(count) == cudaSuccess);
    must(cudaStreamDestroy(stream) == cudaSuccess);
    must(cudaStreamDestroy(other) == cudaSuccess);
    must(ncclCommDestroy(comm) == 0);
    free(bytes);
}

START_TEST(exchanges)
{
    nccl_run(_i / 2 + 1, _i % 2, exchange, NULL);
}
END_TEST

/* The ranks' sum over `comm` of rank + 1. */
static int sum_over(ncclComm_t comm, int mine, cudaStream_t stream)
{
    int32_t *at = nccl_device_bytes(&mine, sizeof mine);
    ncclResult_t rc = ncclAllReduce(at, at, 1, ncclInt32, ncclSum, comm, stream);
    must(rc == ncclSuccess || rc == ncclInProgress);
    must(nccl_settle(comm) == ncclSuccess);
    must(cudaStreamSynchronize(stream) == cudaSuccess);
    must(cudaMemcpy(&mine, at, sizeof mine, cudaMemcpyDeviceToHost) == cudaSuccess);
    must(cudaFree(at) == cudaSuccess);
    return mine;
}

static void split(const struct nccl_rank *r)
{
    const int blocking = *(const int *)r->arg;
    ncclComm_t world = nccl_world(r, blocking), pair = NULL, some = NULL;
    cudaStream_t stream = nccl_stream();
    int rank, size, device;
    /* also where it has only begun, which the parent alone tells */
    must(ncclCommSplit(world, r->rank % 2, -r->rank, &pair, NULL) == ncclSuccess);
    must(blocking || ncclCommCount(world, &size) == ncclInvalidArgument);
    must(blocking || ncclCommSplit(world, 0, 0, &some, NULL) == ncclInvalidArgument);
    must(nccl_settle(world) == ncclSuccess && pair);
    must(ncclCommUserRank(pair, &rank) == 0 && rank == (r->rank < 2 ? 1 : 0));
    must(ncclCommCount(pair, &size) == 0 && size == 2);
    must(ncclCommCuDevice(pair, &device) == 0 && device == r->rank);
    must(sum_over(pair, 1 << r->rank, stream) == (r->rank % 2 ? 10 : 5));
    ncclResult_t rc =
        ncclCommSplit(world, r->rank == 3 ? NCCL_SPLIT_NOCOLOR : 7, 0, &some, NULL);
    must(rc == ncclSuccess);
    must(nccl_settle(world) == ncclSuccess && (some == NULL) == (r->rank == 3));
    must(!some || sum_over(some, 1 << r->rank, stream) == 7);
    must(sum_over(world, 1 << r->rank, stream) == 15);
    must(!some || ncclCommDestroy(some) == 0);
    must(ncclCommDestroy(pair) == 0 && ncclCommDestroy(world) == 0);
    must(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(splits)
{
    const int blocking = _i / 2;
    nccl_run(4, _i % 2, split, &blocking);
}
END_TEST

static void prepare(void)
{
    setenv("CADRE_STANDIN_DEVICES", "4", 1);
}

Suite *test_suite(void)
{
    Suite *s = suite_create("nccl's stand-in");
    TCase *t = tcase_create("values");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, prepare, NULL);
    tcase_add_loop_test(t, all_collectives, 0, 2 * NCCL_TEST_RANKS);
    tcase_add_test(t, order_of_sums);
    tcase_add_test(t, sixteen_bits);
    tcase_add_loop_test(t, exchanges, 0, 2 * NCCL_TEST_RANKS);
    tcase_add_loop_test(t, splits, 0, 4);
    suite_add_tcase(s, t);
    return s;
}
