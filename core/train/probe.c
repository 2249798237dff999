/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/probe.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "core/comm/local.h"
#include "core/device/device.h"

enum { MOST = 200, BLOCKS = 12, ROUNDS = 3 };
static const size_t LARGE = (size_t)64 << 20;

/* A device with blocks of memory, and what each measurement may take. */
struct bench {
    struct cadre_device *device;
    void *block[BLOCKS];
    double each; /* seconds */
};

typedef cadre_status (*work)(struct bench *b, const void *arg);

/* Seconds of a call, medians: of a round, then of rounds, as what else a machine does
 * may slow one of them from its begin to its end. */
struct taken {
    double small[CADRE_PROBE_DTYPES], large[CADRE_PROBE_DTYPES]; /* three products */
    double copy, rows, attention, update, op;
    double latency[2], bytes_s[2]; /* of links, the second a rate */
};

/* After a call that warms up. */
static cadre_status measure(struct bench *b, work run, const void *arg, double *out)
{
    double seconds[MOST];
    size_t n = 0;
    CADRE_TRY(run(b, arg));
    CADRE_TRY(b->device->ops->synchronize(b->device));
    const double end = cadre_now_s() + b->each;
    do {
        const double begin = cadre_now_s();
        CADRE_TRY(run(b, arg));
        CADRE_TRY(b->device->ops->synchronize(b->device));
        seconds[n++] = cadre_now_s() - begin;
    } while (n < MOST && (n < 3 || cadre_now_s() < end));
    *out = cadre_median(seconds, n);
    return CADRE_OK;
}

static cadre_status open_bench(struct bench *b, const char *kind, int threads,
                               struct cadre_error *err)
{
    const struct cadre_device_config config = {.kind = kind, .threads = threads};
    CADRE_TRY(cadre_device_open(&config, &b->device, err));
    for (int i = 0; i < BLOCKS; i++) {
        const size_t bytes = i < 2 ? LARGE : LARGE / 4;
        b->block[i] = b->device->ops->alloc(b->device, bytes);
        if (!b->block[i])
            return cadre_no_memory(err, "a block to measure with");
        if (b->device->ops->zero(b->device, b->block[i], bytes) != CADRE_OK)
            return cadre_fail(err, CADRE_E_DEVICE, "the device cannot write memory");
    }
    return CADRE_OK;
}

static void close_bench(struct bench *b)
{
    for (int i = 0; i < BLOCKS && b->device; i++)
        if (b->block[i])
            b->device->ops->free(b->device, b->block[i]);
    cadre_device_close(b->device);
}

/* ---- products ---- */

struct product {
    uint32_t dtype;
    int64_t size;
};

/* As forward and both parts of backward store their operands. */
static cadre_status products(struct bench *b, const void *arg)
{
    const struct product *p = arg;
    for (int form = 0; form < 3; form++) {
        const struct cadre_gemm gemm = {
            .dtype = p->dtype,
            .m = p->size,
            .n = p->size,
            .k = p->size,
            .a = b->block[2],
            .b = b->block[3],
            .c = b->block[4],
            .lda = p->size,
            .ldb = p->size,
            .ldc = p->size,
            .ta = form == 2,
            .tb = form == 0,
        };
        CADRE_TRY(b->device->ops->gemm(b->device, &gemm));
    }
    return CADRE_OK;
}

enum { SMALL = 64, LARGE_SIDE = 768 };

static cadre_status measure_products(struct bench *b, struct taken *t)
{
    static const uint32_t dtypes[CADRE_PROBE_DTYPES] = {
        [CADRE_PROBE_F32] = CADRE_F32,
        [CADRE_PROBE_F16] = CADRE_F16,
        [CADRE_PROBE_BF16] = CADRE_BF16,
        [CADRE_PROBE_F64] = CADRE_F64,
    };
    for (int i = 0; i < CADRE_PROBE_DTYPES; i++) {
        const struct product small = {dtypes[i], SMALL},
                             large = {dtypes[i], LARGE_SIDE};
        CADRE_TRY(measure(b, products, &small, &t->small[i]));
        CADRE_TRY(measure(b, products, &large, &t->large[i]));
    }
    return CADRE_OK;
}

/* ---- the rest ---- */

static cadre_status copy(struct bench *b, const void *arg)
{
    (void)arg;
    return b->device->ops->copy(b->device, b->block[0], b->block[1], LARGE);
}

enum { ROWS = 2048, CHANNELS = 512, TIME = 256, HEADS = 8, BATCH = 4 };

static cadre_status rows(struct bench *b, const void *arg)
{
    const struct cadre_norm norm = {
        .dtype = CADRE_F32,
        .rows = ROWS,
        .channels = CHANNELS,
        .eps = 1e-5,
        .x = b->block[2],
        .w = b->block[3],
        .y = b->block[4],
        .stats = b->block[5],
    };
    (void)arg;
    return b->device->ops->norm_fwd(b->device, &norm);
}

static cadre_status attention(struct bench *b, const void *arg)
{
    const struct cadre_attention a = {
        .dtype = CADRE_F32,
        .batch = BATCH,
        .time = TIME,
        .heads = HEADS,
        .kv_heads = HEADS,
        .head_size = CHANNELS / HEADS,
        .q = b->block[2],
        .k = b->block[3],
        .v = b->block[4],
        .ldq = CHANNELS,
        .ldk = CHANNELS,
        .ldv = CHANNELS,
        .ldo = CHANNELS,
        .out = b->block[5],
        .lse = b->block[6],
    };
    (void)arg;
    return b->device->ops->attention_fwd(b->device, &a);
}

enum { UPDATED = 1 << 20 };

static cadre_status update(struct bench *b, const void *arg)
{
    const struct cadre_slice slice = {
        .count = UPDATED,
        .param = b->block[2],
        .grad = b->block[3],
        .exp_avg = b->block[4],
        .exp_avg_sq = b->block[5],
    };
    const struct cadre_adamw adamw = {
        .dtype = CADRE_F32,
        .lr = 1e-3,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .step = 1,
        .grad_scale = b->block[6],
        .slices = &slice,
        .n = 1,
    };
    (void)arg;
    return b->device->ops->adamw(b->device, &adamw);
}

static cadre_status nothing(struct bench *b, const void *arg)
{
    (void)arg;
    return b->device->ops->add(b->device, CADRE_F32, b->block[2], NULL, b->block[3],
                               b->block[4], 1, 16);
}

static cadre_status measure_rest(struct bench *b, struct taken *t)
{
    const double one = 1;
    CADRE_TRY(measure(b, copy, NULL, &t->copy));
    CADRE_TRY(measure(b, rows, NULL, &t->rows));
    CADRE_TRY(measure(b, attention, NULL, &t->attention));
    CADRE_TRY(b->device->ops->to_device(b->device, b->block[6], &one, sizeof one));
    CADRE_TRY(measure(b, update, NULL, &t->update));
    return measure(b, nothing, NULL, &t->op);
}

/* ---- two ranks ---- */

enum { PINGS = 200, SENDS = 8 };
static const double LONG_S = 0.05;

struct peer {
    struct cadre_local_segment *segment;
    int rank;
    void *bytes;
    uint64_t large; /* of them, in a long message */
    double seconds, latency;
    cadre_status rc;
    struct cadre_error err;
};

static cadre_status send_round(struct peer *p, struct cadre_comm *comm, int n,
                               uint64_t count, double *seconds)
{
    const double begin = cadre_now_s();
    for (int i = 0; i < n; i++) {
        cadre_event done;
        CADRE_TRY((i + p->rank) % 2 == 0
                      ? cadre_comm_send(comm, "probe", p->bytes, count, CADRE_U8,
                                        1 - p->rank, 0, &done)
                      : cadre_comm_recv(comm, "probe", p->bytes, count, CADRE_U8,
                                        1 - p->rank, 0, &done));
        CADRE_TRY(cadre_comm_wait(comm, done));
    }
    *seconds = (cadre_now_s() - begin) / n;
    return CADRE_OK;
}

/* A ring of two takes two turns for a sum. */
static cadre_status talk(struct peer *p, struct cadre_comm *comm)
{
    const double begin = cadre_now_s();
    for (int i = 0; i < PINGS; i++) {
        cadre_event done;
        CADRE_TRY(cadre_comm_all_reduce(comm, "probe", p->bytes, p->bytes, 1, CADRE_F32,
                                        CADRE_SUM, 0, &done));
        CADRE_TRY(cadre_comm_wait(comm, done));
    }
    p->latency = (cadre_now_s() - begin) / PINGS / 2;
    return send_round(p, comm, SENDS, p->large, &p->seconds);
}

static void *be_rank(void *arg)
{
    struct peer *p = arg;
    struct cadre_comm *comm = NULL;
    p->rc = cadre_local_open(p->segment, p->rank, &comm, &p->err);
    if (p->rc == CADRE_OK) {
        p->rc = talk(p, comm);
        cadre_comm_destroy(comm);
    }
    return NULL;
}

/* A slow link is not given more than it carries in a while. */
static uint64_t long_message(const struct cadre_link *link)
{
    const double most = link->gbytes_s * 1e9 * LONG_S, all = (double)LARGE / 4;
    return (uint64_t)(most > 0 ? fmax(1, fmin(most, all)) : all);
}

static cadre_status measure_link(struct bench *b, const struct cadre_link *link,
                                 double *latency, double *bytes_s,
                                 struct cadre_error *err)
{
    const struct cadre_local_config config = {
        .size = 2, .timeout_s = 60, .link = *link};
    struct cadre_local_segment *segment = NULL;
    struct peer peer[2] = {{.rank = 0, .bytes = b->block[0]},
                           {.rank = 1, .bytes = b->block[1]}};
    pthread_t other;
    CADRE_TRY(cadre_local_segment_create(&config, &segment, err));
    peer[0].segment = peer[1].segment = segment;
    peer[0].large = peer[1].large = long_message(link);
    if (pthread_create(&other, NULL, be_rank, &peer[1]) != 0) {
        cadre_local_segment_close(segment);
        return cadre_fail(err, CADRE_E_RESOURCE, "cannot start a thread");
    }
    be_rank(&peer[0]);
    pthread_join(other, NULL);
    cadre_local_segment_close(segment);
    for (int i = 0; i < 2; i++)
        if (peer[i].rc != CADRE_OK)
            return cadre_fail(err, peer[i].rc, "two ranks cannot talk: %s",
                              peer[i].err.text);
    *latency = peer[0].latency;
    *bytes_s = (double)peer[0].large / fmax(peer[0].seconds - peer[0].latency, 1e-9);
    return CADRE_OK;
}

static cadre_status measure_links(struct bench *b, const struct cadre_link link[2],
                                  struct taken *t, struct cadre_error *err)
{
    const bool between = link[1].gbytes_s > 0;
    for (int i = 0; i < (between ? 2 : 1); i++)
        CADRE_TRY(measure_link(b, &link[i], &t->latency[i], &t->bytes_s[i], err));
    if (!between) {
        t->latency[1] = t->latency[0];
        t->bytes_s[1] = t->bytes_s[0];
    }
    return CADRE_OK;
}

/* ---- all of it ---- */

static cadre_status measure_round(struct bench *b, const struct cadre_link link[2],
                                  struct taken *t, struct cadre_error *err)
{
    cadre_status rc = measure_products(b, t);
    if (rc == CADRE_OK)
        rc = measure_rest(b, t);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "an operation of the device failed while measured");
    return b->device->ops->async ? CADRE_OK : measure_links(b, link, t, err);
}

static cadre_status measure_all(struct bench *b, const struct cadre_link link[2],
                                struct taken *out, struct cadre_error *err)
{
    struct taken round[ROUNDS];
    memset(round, 0, sizeof round);
    for (int i = 0; i < ROUNDS; i++)
        CADRE_TRY(measure_round(b, link, &round[i], err));
    for (size_t at = 0; at < sizeof *out / sizeof(double); at++) {
        double value[ROUNDS];
        for (int i = 0; i < ROUNDS; i++)
            value[i] = ((const double *)&round[i])[at];
        ((double *)out)[at] = cadre_median(value, ROUNDS);
    }
    return CADRE_OK;
}

/* Products: a line through two sizes, seconds are (FLOPs + half) / rate. */
static void take_rates(struct cadre_probe *p, const struct taken *t)
{
    const double flops_s = 2 * pow(SMALL, 3), flops_l = 2 * pow(LARGE_SIDE, 3);
    for (int i = 0; i < CADRE_PROBE_DTYPES; i++)
        p->flops_s[i] =
            (flops_l - flops_s) / fmax((t->large[i] - t->small[i]) / 3, 1e-12);
    p->half_flops =
        fmax(0, t->small[CADRE_PROBE_F32] / 3 * p->flops_s[CADRE_PROBE_F32] - flops_s);
    p->copy_bytes_s = 2.0 * (double)LARGE / t->copy;
    p->rows_bytes_s = 8.0 * ROWS * CHANNELS / t->rows;
    p->attention_flops_s = 2.0 * BATCH * TIME * TIME * CHANNELS / t->attention;
    p->update_bytes_s = 30.0 * UPDATED / t->update;
    p->op_s = t->op;
    for (int i = 0; i < 2; i++) {
        p->link_latency_s[i] = t->latency[i];
        p->link_bytes_s[i] = t->bytes_s[i];
    }
}

cadre_status cadre_probe(struct cadre_probe *out, const char *kind, int threads,
                         const struct cadre_link link[2], double seconds,
                         struct cadre_error *err)
{
    static const struct cadre_link none[2];
    struct bench b = {.each = seconds / ROUNDS / (2 * CADRE_PROBE_DTYPES + 8)};
    struct cadre_probe p = {.threads = threads};
    struct taken taken;
    uint64_t free_bytes = 0, total = 0;
    link = link ? link : none;
    cadre_status rc = open_bench(&b, kind, threads, err);
    if (rc == CADRE_OK)
        rc = measure_all(&b, link, &taken, err);
    if (rc == CADRE_OK) {
        snprintf(p.device, sizeof p.device, "%s", b.device->ops->async ? "GPU" : "CPU");
        take_rates(&p, &taken);
        if (b.device->ops->memory(b.device, &free_bytes, &total)) {
            p.memory_bytes = (double)total;
            p.memory_free = (double)free_bytes;
        }
        *out = p;
    }
    close_bench(&b);
    return rc;
}
