/* SPDX-License-Identifier: Apache-2.0 */
/* Services that pass on to communicator and device: an axis of one rank, and two ranks.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/strategy/host_private.h"
#include <cadre/helpers.h>

#include "core/launch/launch.h"
#include "tests/engine/comm_pair.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;
static const struct cadre_comm_svc *comm = &cadre_comm_service;

static void setup(void)
{
    const struct cadre_strategy_ops none = {0};
    rank_fixture_open(&f);
    rank_fixture_plug(&f, "probe", CADRE_ROLE_DATA, 1, &none);
    rank_fixture_start(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static struct cadre_buf buf_of(float *data, uint64_t n)
{
    return cadre_buf_of(data, n, CADRE_F32, CADRE_SPACE_DEVICE);
}

static struct cadre_post post_of(void)
{
    return cadre_post("x", CADRE_TRAFFIC_OTHER, 0);
}

/* The axis as the plugin gets it, while it is in bind. */
static struct cadre_axis *own_axis(void)
{
    const struct cadre_host *host = rank_fixture_inside(&f, 0, CADRE_IN_BIND);
    const struct cadre_mesh_svc *mesh = host->service(host->ctx, CADRE_SERVICE_MESH);
    return mesh->axis(host->ctx, NULL);
}

/* On one rank a collective is a copy. */
START_TEST(one_rank_copies)
{
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    const uint64_t offsets[] = {0, 4};
    struct cadre_buf in = buf_of(a, 4), out = buf_of(b, 4);
    struct cadre_axis *axis = own_axis();
    struct cadre_post post = post_of();
    post.done = 9;
    ck_assert_int_eq(comm->all_reduce(axis, &in, &out, CADRE_SUM, &post), 0);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert_uint_eq(post.done, 0);
    memset(b, 0, sizeof b);
    ck_assert_int_eq(comm->reduce_scatter(axis, &in, &out, offsets, CADRE_MAX, &post),
                     0);
    ck_assert_mem_eq(a, b, sizeof a);
    memset(b, 0, sizeof b);
    ck_assert_int_eq(comm->all_gather(axis, &in, &out, offsets, &post), 0);
    ck_assert_mem_eq(a, b, sizeof a);
    memset(b, 0, sizeof b);
    ck_assert_int_eq(comm->all_to_all(axis, &in, &out, &post), 0);
    ck_assert_mem_eq(a, b, sizeof a);
    memset(b, 0, sizeof b);
    ck_assert_int_eq(comm->all_to_all_v(axis, &in, offsets, &out, offsets, &post), 0);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert_int_eq(comm->broadcast(axis, &in, 0, &post), 0);
    ck_assert_int_eq(comm->barrier(axis, &post), 0);
    ck_assert_int_eq(comm->stream_wait(axis, post.done), 0);
    uint32_t happened = 0;
    ck_assert_int_eq(comm->test(axis, post.done, &happened), 0);
    ck_assert_uint_eq(happened, 1);
    ck_assert_int_eq(f.rank.failure.code, CADRE_OK);
    ck_assert_int_eq(comm->send(axis, &in, 0, &post), CADRE_E_INVALID);
    ck_assert_int_eq(comm->recv(axis, &out, 0, &post), CADRE_E_INVALID);
}
END_TEST

static void is_refused(cadre_status rc, const char *text)
{
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_msg(strstr(f.rank.failure.text, text) != NULL, "%s", f.rank.failure.text);
    memset(&f.rank.failure, 0, sizeof f.rank.failure);
}

START_TEST(misuse_is_refused_in_a_line)
{
    struct cadre_axis *axis = own_axis();
    float a[4] = {0}, b[4] = {0};
    uint64_t offsets[] = {1, 4};
    struct cadre_buf in = buf_of(a, 4), out = buf_of(b, 3), none = buf_of(NULL, 4);
    struct cadre_post post = post_of();
    is_refused(comm->all_reduce(axis, &in, &out, CADRE_SUM, &post),
               "plugin 'probe' in bind: all_reduce of cadre.comm: out has 3 elements, "
               "expected 4");
    is_refused(comm->all_reduce(axis, NULL, &out, CADRE_SUM, &post), "in is NULL");
    is_refused(comm->all_reduce(axis, &none, &in, CADRE_SUM, &post),
               "in has no storage");
    is_refused(comm->all_gather(axis, &in, &in, offsets, &post), "not in order");
    is_refused(comm->all_gather(axis, &in, &in, NULL, &post), "offsets are NULL");
    is_refused(comm->all_reduce(axis, &in, &in, CADRE_SUM, NULL), "post is NULL");
    is_refused(comm->recv_any(axis, &in, NULL, &post), "use recv");
    out = buf_of(b, 4);
    out.dtype = CADRE_F64;
    is_refused(comm->all_reduce(axis, &in, &out, CADRE_SUM, &post),
               "expected one dtype");
    out.dtype = 77;
    is_refused(comm->broadcast(axis, &out, 0, &post), "the dtype 77");
    ck_assert_int_eq(comm->barrier(NULL, &post), CADRE_E_INVALID);
    struct cadre_store_param *p = &f.rank.store.param[0];
    struct cadre_buf beyond = buf_of(p->data, UINT64_C(1) << 40);
    is_refused(comm->broadcast(axis, &beyond, 0, &post), "but its memory ends after");
    rank_fixture_inside(&f, 0, CADRE_IN_PLAN);
    is_refused(comm->barrier(axis, &post),
               "plugin 'probe' in plan: barrier of cadre.comm");
    f.rank.services.inside = NULL;
    ck_assert_int_eq(comm->barrier(axis, &post), CADRE_E_INVALID);
}
END_TEST

/* ---- two ranks ---- */

static bool waited(struct comm_pair *p, cadre_status rc, const struct cadre_post *post)
{
    return rc == CADRE_OK && comm->stream_wait(&p->axis, post->done) == CADRE_OK;
}

/* Each collective with two ranks: the values are those of the operation. */
static bool exchange(struct comm_pair *p, int rank)
{
    struct cadre_axis *axis = &p->axis;
    float a[2] = {(float)rank + 1, 10}, b[2] = {0};
    const uint64_t offsets[] = {0, 1, 2};
    struct cadre_buf in = buf_of(a, 2), out = buf_of(b, 2);
    struct cadre_buf one = buf_of(a, 1), one_out = buf_of(b, 1);
    struct cadre_post post = post_of();
    bool good = waited(p, comm->all_reduce(axis, &in, &out, CADRE_SUM, &post), &post) &&
                b[0] == 3 && b[1] == 20;
    good &=
        waited(p, comm->reduce_scatter(axis, &in, &one_out, offsets, CADRE_MAX, &post),
               &post) &&
        b[0] == (rank ? 10 : 2);
    good &= waited(p, comm->all_gather(axis, &one, &out, offsets, &post), &post) &&
            b[0] == 1 && b[1] == 2;
    good &= waited(p, comm->all_to_all(axis, &in, &out, &post), &post) &&
            b[0] == (rank ? 10 : 1) && b[1] == (rank ? 10 : 2);
    cadre_status rc =
        rank ? comm->recv(axis, &out, 0, &post) : comm->send(axis, &in, 1, &post);
    good &= waited(p, rc, &post) && (!rank || b[0] == 1);
    good &= waited(p, comm->broadcast(axis, &in, 1, &post), &post) && a[0] == 2;
    return good;
}

/* Rank 0 sends three values and rank 1 one; each keeps one. */
static bool exchange_unequal(struct comm_pair *p, int rank)
{
    float a[4] = {1, 2, 3, 4}, b[2] = {0}, c[4] = {0};
    const uint64_t from0[] = {0, 1, 4}, to0[] = {0, 1, 2};
    const uint64_t from1[] = {0, 1, 2}, to1[] = {0, 3, 4};
    struct cadre_buf in = buf_of(a, rank ? 2 : 4);
    struct cadre_buf out = rank ? buf_of(c, 4) : buf_of(b, 2);
    struct cadre_post post = post_of();
    cadre_status rc = comm->all_to_all_v(&p->axis, &in, rank ? from1 : from0, &out,
                                         rank ? to1 : to0, &post);
    if (rank)
        return waited(p, rc, &post) && c[0] == 2 && c[1] == 3 && c[2] == 4 && c[3] == 2;
    return waited(p, rc, &post) && b[0] == 1 && b[1] == 1;
}

static cadre_status two_ranks(void *arg, int rank, struct cadre_local_segment *segment)
{
    (void)arg;
    struct cadre_comm *world = NULL;
    struct comm_pair p;
    uint32_t happened = 0;
    struct cadre_post post = post_of();
    CADRE_TRY(cadre_local_open(segment, rank, &world, NULL));
    bool good = comm_pair_open(&p, rank, world) == CADRE_OK && exchange(&p, rank) &&
                exchange_unequal(&p, rank) &&
                waited(&p, comm->barrier(&p.axis, &post), &post) &&
                comm->test(&p.axis, post.done, &happened) == CADRE_OK && happened;
    cadre_comm_destroy(world);
    comm_pair_close(&p);
    return good ? CADRE_OK : CADRE_E_INTERNAL;
}

START_TEST(two_ranks_exchange)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    struct cadre_error err = {0};
    cadre_status rc = cadre_launch_threads(&config, NULL, two_ranks, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}
END_TEST

START_TEST(device_ops)
{
    struct cadre_ctx *ctx = rank_fixture_inside(&f, 0, CADRE_IN_STEP)->ctx;
    const struct cadre_ops_svc *ops = &cadre_ops_service;
    float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4];
    double d[4];
    struct cadre_buf x = buf_of(a, 4), y = buf_of(b, 4), z = buf_of(c, 4);
    struct cadre_buf wide = cadre_buf_of(d, 4, CADRE_F64, CADRE_SPACE_DEVICE);
    ck_assert_int_eq(ops->add(ctx, &z, &x, &y), CADRE_OK);
    ck_assert_float_eq(c[3], 12);
    ck_assert_int_eq(ops->scale(ctx, &z, 0.5), CADRE_OK);
    ck_assert_float_eq(c[3], 6);
    ck_assert_int_eq(ops->cast(ctx, &wide, &z), CADRE_OK);
    ck_assert_double_eq(d[3], 6);
    ck_assert_int_eq(ops->copy(ctx, c, a, sizeof a), CADRE_OK);
    ck_assert_mem_eq(c, a, sizeof a);
    ck_assert_int_eq(ops->zero(ctx, c, sizeof c), CADRE_OK);
    ck_assert_float_eq(c[0], 0);
    ck_assert_int_eq(ops->add(ctx, &z, &x, &wide), CADRE_E_INVALID);
    wide.count = 3;
    ck_assert_int_eq(ops->cast(ctx, &wide, &z), CADRE_E_INVALID);
    /* (2, 2) times the transpose of (2, 2) */
    const struct cadre_gemm_args gemm = {.struct_size = sizeof gemm,
                                         .dtype = CADRE_F32,
                                         .m = 2,
                                         .n = 2,
                                         .k = 2,
                                         .lda = 2,
                                         .ldb = 2,
                                         .ldc = 2,
                                         .a = a,
                                         .b = b,
                                         .c = c,
                                         .tb = 1};
    ck_assert_int_eq(ops->gemm(ctx, &gemm), CADRE_OK);
    ck_assert_float_eq(c[0], 1 * 5 + 2 * 6);
    ck_assert_float_eq(c[1], 1 * 7 + 2 * 8);
    ck_assert_float_eq(c[3], 3 * 7 + 4 * 8);
}
END_TEST

/* The largest two of five, and codes there and back; buffers that do not fit. */
START_TEST(compressing_ops)
{
    const struct cadre_ops_svc *ops = &cadre_ops_service;
    struct cadre_ctx *ctx = rank_fixture_inside(&f, 0, CADRE_IN_STEP)->ctx;
    float x[5] = {1, -3, 2, 3, 254}, y[5] = {0}, s[2];
    int32_t i[2];
    int8_t q[5];
    struct cadre_buf in = buf_of(x, 5), out = buf_of(y, 5), two = buf_of(y, 2);
    struct cadre_buf scales = buf_of(s, 2), at = buf_of(y, 2), codes = buf_of(y, 5);
    at.dtype = CADRE_I32;
    at.data = i;
    codes.dtype = CADRE_I8;
    codes.data = q;
    ck_assert_int_eq(ops->topk(ctx, &in, &two, &at), CADRE_OK);
    ck_assert(i[0] == 1 && i[1] == 4 && y[0] == -3 && y[1] == 254);
    ck_assert_int_eq(ops->topk(ctx, &two, &in, &at), CADRE_E_INVALID);
    ck_assert_int_eq(ops->topk(ctx, &in, &two, &two), CADRE_E_INVALID);
    ck_assert_int_eq(ops->quantize(ctx, &in, 4, &codes, &scales), CADRE_OK);
    ck_assert(q[1] == -127 && q[3] == 127 && q[4] == 127 && s[1] == 2);
    ck_assert_int_eq(ops->dequantize(ctx, &codes, &scales, 4, &out), CADRE_OK);
    ck_assert_float_eq_tol(y[0], 1, s[0] / 2);
    ck_assert_float_eq(y[4], 254);
    ck_assert_int_eq(ops->quantize(ctx, &in, 0, &codes, &scales), CADRE_E_INVALID);
    ck_assert_int_eq(ops->quantize(ctx, &in, 2, &codes, &scales), CADRE_E_INVALID);
    ck_assert_int_eq(ops->quantize(ctx, &in, 4, &out, &scales), CADRE_E_INVALID);
    ck_assert_int_eq(ops->dequantize(ctx, &codes, &codes, 4, &out), CADRE_E_INVALID);
}
END_TEST

START_TEST(ops_of_sparse_and_low_rank)
{
    const struct cadre_ops_svc *ops = &cadre_ops_service;
    struct cadre_ctx *ctx = rank_fixture_inside(&f, 0, CADRE_IN_STEP)->ctx;
    float x[6] = {3, 1, 4, 1, 0, 1}, v[2] = {5, 7}, host[2] = {0};
    int32_t i[2] = {4, 1};
    struct cadre_buf all = buf_of(x, 6), values = buf_of(v, 2), at = buf_of(v, 2);
    at.dtype = CADRE_I32;
    at.data = i;
    ck_assert_int_eq(ops->scatter_add(ctx, &all, &values, &at, -1), CADRE_OK);
    ck_assert(x[4] == -5 && x[1] == -6 && x[0] == 3);
    i[0] = 6;
    ck_assert_int_ne(ops->scatter_add(ctx, &all, &values, &at, 1), CADRE_OK);
    ck_assert_int_eq(ops->scatter_add(ctx, &all, &all, &at, 1), CADRE_E_INVALID);
    ck_assert_int_eq(ops->scatter_add(ctx, &all, &values, &values, 1), CADRE_E_INVALID);
    ck_assert_int_eq(ops->orthonormalize(ctx, &all, 2), CADRE_OK);
    ck_assert_float_eq_tol(x[0] * x[1] + x[2] * x[3] + x[4] * x[5], 0, 1e-6F);
    ck_assert_int_eq(ops->orthonormalize(ctx, &all, 0), CADRE_E_INVALID);
    ck_assert_int_eq(ops->orthonormalize(ctx, &all, 4), CADRE_E_INVALID);
    ck_assert_int_eq(ops->orthonormalize(ctx, &all, 3), CADRE_E_INVALID);
    ck_assert_int_eq(ops->to_host(ctx, host, v, sizeof host), CADRE_OK);
    ck_assert_int_eq(ops->to_device(ctx, x, host, sizeof host), CADRE_OK);
    ck_assert(x[0] == 5 && x[1] == 7);
}
END_TEST

START_TEST(the_stream_of_a_cpu_is_done)
{
    struct cadre_ctx *ctx = rank_fixture_inside(&f, 0, CADRE_IN_STEP)->ctx;
    cadre_event event = 77;
    ck_assert_int_eq(cadre_stream_service.record(ctx, &event), CADRE_OK);
    ck_assert_int_eq(cadre_stream_service.wait(ctx, event), CADRE_OK);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("host_comm");
    TCase *tc = tcase_create("host_comm");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, one_rank_copies);
    tcase_add_test(tc, misuse_is_refused_in_a_line);
    tcase_add_test(tc, two_ranks_exchange);
    tcase_add_test(tc, device_ops);
    tcase_add_test(tc, compressing_ops);
    tcase_add_test(tc, ops_of_sparse_and_low_rank);
    tcase_add_test(tc, the_stream_of_a_cpu_is_done);
    suite_add_tcase(s, tc);
    return s;
}
