/* SPDX-License-Identifier: Apache-2.0 */
/* What the executor costs, in CPU time: steps of the ECG model (4 layers, 128 channels,
 * 8 x 256 tokens) with a plugin that hears every event and is watched, as under a
 * supervisor; once on the CPU device with one thread and once on the same device whose
 * ops do nothing, so that what is left is events, gradients' accounts, the walk through
 * the model, timelines and batches. Then one block event and one gradient, by
 * themselves. All in turns, 20 rounds; prints how many events a step has, medians, and
 * the shares of the real step with their 95 % intervals (of the median: the 6th and the
 * 15th of the ratios of a round), as lines of a markdown table, and Check's own
 * line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/median.h"
#include "core/base/status_slot.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

enum { CALLS = 200000, ROUNDS = 20, LOW = 5, HIGH = 14 };

static uint64_t blocks, grads; /* heard */

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- a device that computes nothing ---- */

#define NOTHING(name, type)                                                            \
    static cadre_status name(struct cadre_device *d, type x)                           \
    {                                                                                  \
        (void)d;                                                                       \
        (void)x;                                                                       \
        return CADRE_OK;                                                               \
    }

/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses */
NOTHING(no_gemm, const struct cadre_gemm *)
NOTHING(no_attention, const struct cadre_attention *)
NOTHING(no_norm, const struct cadre_norm *)
NOTHING(no_embed, const struct cadre_embed *)
NOTHING(no_xent, const struct cadre_xent *)
NOTHING(no_adamw, const struct cadre_adamw *)
/* NOLINTEND(bugprone-macro-parentheses) */

static cadre_status no_bias_bwd(struct cadre_device *d, uint32_t dtype, const void *dy,
                                int64_t rows, int64_t channels, void *db, int beta)
{
    (void)d, (void)dtype, (void)dy, (void)rows, (void)channels, (void)db, (void)beta;
    return CADRE_OK;
}

static cadre_status no_gelu_bwd(struct cadre_device *d, uint32_t dtype, const void *x,
                                const void *dy, void *dx, int64_t count)
{
    (void)d, (void)dtype, (void)x, (void)dy, (void)dx, (void)count;
    return CADRE_OK;
}

static cadre_status no_add(struct cadre_device *d, uint32_t dtype, const void *a,
                           const void *bias, const void *b, void *y, int64_t rows,
                           int64_t channels)
{
    (void)d, (void)dtype, (void)a, (void)bias, (void)b, (void)y, (void)rows;
    (void)channels;
    return CADRE_OK;
}

static cadre_status no_tree_add(struct cadre_device *d, uint32_t dtype, void *out,
                                const void *a, const void *b, int64_t count)
{
    (void)d, (void)dtype, (void)out, (void)a, (void)b, (void)count;
    return CADRE_OK;
}

static cadre_status no_copy(struct cadre_device *d, void *dst, const void *src,
                            size_t bytes)
{
    (void)d, (void)dst, (void)src, (void)bytes;
    return CADRE_OK;
}

static cadre_status no_squares(struct cadre_device *d, uint32_t dtype,
                               const struct cadre_squares *list, int64_t n)
{
    (void)d, (void)dtype, (void)list, (void)n;
    return CADRE_OK;
}

static cadre_status one_norm(struct cadre_device *d, const double *chunks, uint64_t n,
                             double clip, double unscale, double *out)
{
    (void)d, (void)chunks, (void)n, (void)clip, (void)unscale;
    out[0] = out[1] = 1;
    return CADRE_OK;
}

static void empty(struct cadre_device_ops *ops)
{
    ops->gemm = no_gemm;
    ops->bias_bwd = no_bias_bwd;
    ops->attention_fwd = ops->attention_bwd = no_attention;
    ops->norm_fwd = ops->norm_bwd = no_norm;
    ops->gelu_bwd = no_gelu_bwd;
    ops->add = no_add;
    ops->embed_fwd = ops->embed_bwd_tokens = ops->embed_bwd_positions = no_embed;
    ops->xent_fwd = ops->xent_rescale = ops->xent_loss = ops->xent_bwd = no_xent;
    ops->adamw = no_adamw;
    ops->tree_add = no_tree_add;
    ops->copy = no_copy;
    ops->sum_squares = no_squares;
    ops->norm_total = one_norm;
}

/* ---- the rank ---- */

static cadre_status hear_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    (void)self, (void)ev;
    blocks++;
    return CADRE_OK;
}

static cadre_status hear_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    (void)self, (void)ev;
    grads++;
    return CADRE_OK;
}

static void open_rank(struct rank_fixture *f, struct cadre_device *device)
{
    static const struct cadre_strategy_ops ops = {.on_block = hear_block,
                                                  .on_grad = hear_grad};
    struct cadre_error err;
    char path[1100];
    rank_fixture_open(f);
    snprintf(path, sizeof path, "%s/text", f->dir);
    const struct cadre_dataset_config data = {
        .format = "text", .path = path, .context = 256, .shuffle = true, .seed = 3};
    cadre_dataset_close(f->data);
    cadre_status rc = cadre_dataset_open(&data, &f->data, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    f->spec.dataset = f->data;
    f->spec.model.layers = 4;
    f->spec.model.channels = 128;
    f->spec.model.heads = f->spec.model.kv_heads = 4;
    f->spec.model.hidden = 512;
    f->spec.model.context = 256;
    f->spec.time = 256;
    f->spec.global_batch = f->spec.micro_batch = 8;
    f->spec.optim.clip = 1;
    rank_fixture_plug(f, "hears", CADRE_ROLE_OBSERVER, 1, &ops);
    rc = cadre_rank_plan(&f->rank, &f->spec, 0, &err);
    f->rank.device = device;
    f->rank.device_lent = true;
    if (rc == CADRE_OK)
        rc = cadre_rank_bind(&f->rank, NULL, 0, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static double step(struct rank_fixture *f, uint64_t number)
{
    const double began = cpu_s();
    rank_fixture_step(f, number);
    return cpu_s() - began;
}

/* Seconds of one event, raised as the executor does. */
static double one_block(struct rank_fixture *f)
{
    const double began = cpu_s();
    for (int i = 0; i < CALLS; i++) {
        struct cadre_block_ev ev = {.struct_size = sizeof ev, .unit = (uint32_t)i & 3};
        cadre_chain_block(&f->rank.chain, &ev);
    }
    return (cpu_s() - began) / CALLS;
}

static double one_grad(struct rank_fixture *f)
{
    const double began = cpu_s();
    for (int i = 0; i < CALLS; i++) {
        struct cadre_grad_ev ev = {.struct_size = sizeof ev, .param = (uint32_t)i & 3};
        cadre_chain_grad(&f->rank.chain, &ev);
    }
    return (cpu_s() - began) / CALLS;
}

/* A line of the table: n of `each` seconds in a round, and their share of its step. */
static void print_row(const char *name, double n, double each[ROUNDS],
                      const double whole[ROUNDS])
{
    double share[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        share[i] = 100 * n * each[i] / whole[i];
    double middle = cadre_median(share, ROUNDS); /* sorted now */
    double one = cadre_median(each, ROUNDS) * 1e9;
    printf("| %s | %.0f | %.*f %s | %.5f %% (%.5f to %.5f) |\n", name, n, one < 1e3,
           one < 1e3 ? one : one * 1e-3, one < 1e3 ? "ns" : "us", middle, share[LOW],
           share[HIGH]);
}

START_TEST(measure)
{
    static struct rank_fixture real, hollow;
    static struct cadre_status_slot slot;
    double whole[ROUNDS], rest[ROUNDS], block[ROUNDS], grad[ROUNDS], both[ROUNDS];
    struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    struct cadre_device *device, *nothing;
    struct cadre_device_ops ops;
    ck_assert_int_eq(cadre_device_open(&config, &device, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_device_open(&config, &nothing, NULL), CADRE_OK);
    ops = *nothing->ops;
    empty(&ops);
    nothing->ops = &ops;
    open_rank(&real, device);
    open_rank(&hollow, nothing);
    real.rank.services.slot = hollow.rank.services.slot = &slot;
    for (int i = 0; i < 2; i++) {
        step(&real, (uint64_t)i + 1);
        step(&hollow, (uint64_t)i + 1);
    }
    blocks = grads = 0;
    step(&hollow, 3);
    double n_blocks = (double)blocks, n_grads = (double)grads;
    for (int i = 0; i < ROUNDS; i++) {
        whole[i] = step(&real, (uint64_t)i + 3);
        rest[i] = step(&hollow, (uint64_t)i + 4);
        block[i] = one_block(&hollow);
        grad[i] = one_grad(&hollow);
        both[i] = (n_blocks * block[i] + n_grads * grad[i]) / (n_blocks + n_grads);
    }
    print_row("block event", n_blocks, block, whole);
    print_row("on_grad", n_grads, grad, whole);
    print_row("all events of one plugin", n_blocks + n_grads, both, whole);
    print_row("all of a step but the device's ops", 1, rest, whole);
    rank_fixture_close(&real);
    rank_fixture_close(&hollow);
    cadre_device_close(device);
    cadre_device_close(nothing);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("bench_executor");
    TCase *tcase = tcase_create("measure");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, measure);
    suite_add_tcase(suite, tcase);
    return suite;
}
