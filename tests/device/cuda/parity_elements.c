/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that go element by element, and casts. */
#include <math.h>
#include <stdio.h>

#include "tests/device/cuda/parity.h"
#include "tests/device/op_testing.h"

static const int64_t counts[] = {1, 2, 3, 7, 17, 33, 63, 65, 127, 129, 255, 257, 2051};
enum { COUNTS = sizeof counts / sizeof *counts, LARGE = (1 << 18) + 3 };

struct elements {
    int64_t count;
    bool in_place;
    int call;
    uint32_t from, to;
    struct cadre_device *cpu;
};

enum { GELU_BWD, SWIGLU_FWD, SWIGLU_BWD, SCALE, TREE_ADD, MAXIMUM };

/* ---- activations and sums ---- */

static cadre_status run(struct cadre_device *device, uint32_t t, void **p,
                        const void *ctx)
{
    const struct elements *e = ctx;
    const struct cadre_device_ops *ops = device->ops;
    switch (e->call) {
    case GELU_BWD:
        return ops->gelu_bwd(device, t, p[0], p[1], p[2], e->count);
    case SWIGLU_FWD:
        return ops->swiglu_fwd(device, t, p[0], p[1], p[2], e->count);
    case SWIGLU_BWD:
        return ops->swiglu_bwd(device, t, p[0], p[1], p[2], p[3], p[4], e->count);
    case SCALE:
        return ops->scale(device, t, p[0], e->count, 0.3);
    case TREE_ADD:
        return ops->tree_add(device, t, p[2], p[0], p[1], e->count);
    default:
        return ops->maximum(device, t, p[2], p[0], p[1], e->count);
    }
}

/* x of up to 6: the tails too. There 1 + tanh cancels, and the derivative of tanh is
 * multiplied by up to 14. */
static void activations(struct parity *p, uint32_t t, int64_t n)
{
    char name[64];
    const struct elements gelu = {.count = n, .call = GELU_BWD};
    const struct elements forward = {.count = n, .call = SWIGLU_FWD};
    const struct elements backward = {.count = n, .call = SWIGLU_BWD};
    struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(gelu_bwd)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1, .range = 6},
                 {PARITY_OP, 1, n, .seed = 2},
                 {PARITY_OP, 1, n, .out = true, .sum = 40, .floor = 1}},
        .run = run,
        .ctx = &gelu,
    };
    if (t == CADRE_F64) /* exp's last bit is another on a GPU: 1.15 limits in 262147 */
        c.args[2].sum = 60;
    snprintf(name, sizeof name, "gelu_bwd of %lld", (long long)n);
    parity_hold(p, &c);
    c.args[2].in = 2;
    parity_hold(p, &c);
    c = (struct parity_case){
        .name = name,
        .calls = {PARITY_ENTRY(swiglu_fwd)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1, .range = 6},
                 {PARITY_OP, 1, n, .seed = 2},
                 {PARITY_OP, 1, n, .out = true, .sum = 16}},
        .run = run,
        .ctx = &forward,
    };
    snprintf(name, sizeof name, "swiglu of %lld", (long long)n);
    parity_hold(p, &c);
    c = (struct parity_case){
        .name = name,
        .calls = {PARITY_ENTRY(swiglu_bwd)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1, .range = 6},
                 {PARITY_OP, 1, n, .seed = 2},
                 {PARITY_OP, 1, n, .seed = 3},
                 {PARITY_OP, 1, n, .out = true, .sum = 16, .floor = 1},
                 {PARITY_OP, 1, n, .out = true, .sum = 16}},
        .run = run,
        .ctx = &backward,
    };
    parity_hold(p, &c);
}

static void scales(struct parity *p, uint32_t t, int64_t n)
{
    const struct elements e = {.count = n, .call = SCALE};
    const struct parity_case c = {
        .name = "scale",
        .calls = {PARITY_ENTRY(scale)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1, .out = true, .bits = true, .sum = 2}},
        .run = run,
        .ctx = &e,
    };
    parity_hold(p, &c);
}

/* Every pair of these once, then random numbers. */
static void special(const void *ctx, int arg, double *x, int64_t count)
{
    static const double values[] = {NAN,  INFINITY, -INFINITY, 0.0,
                                    -0.0, 1e-7,     65504,     3e38};
    enum { VALUES = sizeof values / sizeof *values };
    (void)ctx;
    for (int64_t i = 0; i < count && i < (int64_t)VALUES * VALUES; i++)
        x[i] = values[arg == 0 ? i % VALUES : i / VALUES];
}

/* Same bits as the CPU, in place too. */
static void pairs(struct parity *p, uint32_t t, int64_t n, int call)
{
    const struct elements e = {.count = n, .call = call};
    const bool real = t != CADRE_I32 && t != CADRE_U8;
    const double range = t == CADRE_I32 ? 1e9 : t == CADRE_U8 ? 255 : 1;
    struct parity_case c = {
        .name = call == TREE_ADD ? "tree_add" : "maximum",
        .calls = {call == TREE_ADD ? PARITY_ENTRY(tree_add) : PARITY_ENTRY(maximum)},
        .dtype = t,
        .args = {{PARITY_OP, 1, n, .seed = 1, .range = range},
                 {PARITY_OP, 1, n, .seed = 2, .range = range},
                 {PARITY_OP, 1, n, .out = true, .bits = true}},
        .run = run,
        .ctx = &e,
        .bits_only = !real,
    };
    parity_hold(p, &c);
    c.args[2].in = 1;
    parity_hold(p, &c);
    c.args[2].in = 2;
    c.fill = real ? special : NULL;
    c.bits_only = true;
    parity_hold(p, &c);
}

/* ---- casts ---- */

static cadre_status run_cast(struct cadre_device *device, uint32_t t, void **p,
                             const void *ctx)
{
    const struct elements *e = ctx;
    (void)t;
    return device->ops->cast(device, e->to, p[1], e->from, p[0], e->count);
}

/* Every pattern of 16 bits; else ties of both 16-bit types, numbers of sizes around
 * their bounds and f32's, and special values. */
static void fill_cast(const void *ctx, int arg, double *x, int64_t count)
{
    const struct elements *e = ctx;
    if (cadre_dtype_bytes(e->from) == 2) {
        for (int64_t i = 0; i < count; i++) {
            const uint16_t bits = (uint16_t)(i * (65536 / count));
            e->cpu->ops->cast(e->cpu, CADRE_F64, &x[i], e->from, &bits, 1);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        switch (i % 4) {
        case 0:
            x[i] = ldexp(floor(x[i] * 8192), (int)(i / 4 % 56) - 40);
            break;
        case 1:
            x[i] = ldexp(x[i], (int)(i / 4 % 64) - 40);
            break;
        case 2:
            x[i] = ldexp(x[i], (int)(i / 4 % 300) - 160);
            break;
        default:
            break;
        }
    special(NULL, arg, x, count);
}

static void casts(struct parity *p)
{
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            struct elements e = {.count = p->lean ? 4096 : 65536,
                                 .from = parity_dtypes[from],
                                 .to = parity_dtypes[to],
                                 .cpu = p->cpu};
            const struct parity_case c = {
                .name = "cast",
                .calls = {PARITY_ENTRY(cast)},
                .dtype = e.from,
                .args = {{e.from, 1, e.count, .seed = 1},
                         {e.to, 1, e.count, .out = true, .bits = true}},
                .run = run_cast,
                .ctx = &e,
                .fill = fill_cast,
                .bits_only = true,
            };
            parity_hold(p, &c);
        }
}

/* ---- dropout ---- */

static cadre_status run_dropout(struct cadre_device *device, uint32_t t, void **p,
                                const void *ctx)
{
    struct cadre_dropout a = *(const struct cadre_dropout *)ctx;
    a.dtype = t;
    a.x = p[0];
    a.out = p[1];
    return device->ops->dropout(device, &a);
}

/* `columns` behind the first `column` of a width that is `more` larger; one sample and
 * two positions of each are elsewhere. */
static void dropouts(struct parity *p, uint32_t t, int64_t columns, int64_t column,
                     int64_t more)
{
    char name[64];
    const struct cadre_dropout a = {
        .key = UINT64_C(0x9e3779b97f4a7c15),
        .part = 0.3,
        .first = UINT64_C(1) << 33,
        .batch = 2,
        .time = 3,
        .columns = columns,
        .position = 2,
        .length = 5,
        .column = column,
        .width = column + columns + more,
    };
    struct parity_case c = {
        .name = name,
        .calls = {PARITY_ENTRY(dropout)},
        .dtype = t,
        .args = {{PARITY_OP, a.batch * a.time, columns, .seed = 1},
                 {PARITY_OP, a.batch * a.time, columns, .out = true, .bits = true,
                  .sum = 1}},
        .run = run_dropout,
        .ctx = &a,
    };
    snprintf(name, sizeof name, "dropout of 6 x %lld from %lld", (long long)columns,
             (long long)column);
    parity_hold(p, &c);
    c.args[1].in = 1; /* in place */
    parity_hold(p, &c);
}

static void of_count(struct parity *p, int64_t n)
{
    for (int d = 0; d < 4; d++) {
        const uint32_t t = parity_dtypes[d];
        if (!p->real && (d + n / 2) % 2 == 0 && n > 3)
            continue; /* half of them on each dtype */
        activations(p, t, n);
        scales(p, t, n);
        pairs(p, t, n, TREE_ADD);
        pairs(p, t, n, MAXIMUM);
        dropouts(p, t, n, 3, 2);
    }
    pairs(p, CADRE_I32, n, TREE_ADD);
    pairs(p, CADRE_I32, n, MAXIMUM);
    pairs(p, CADRE_U8, n, MAXIMUM);
}

void parity_elements(struct parity *p)
{
    for (int i = 0; i < COUNTS; i += p->lean ? 3 : 1)
        of_count(p, counts[i]);
    if (p->real)
        of_count(p, LARGE);
    for (int d = 0; d < 4; d++) {
        dropouts(p, parity_dtypes[d], 64, 0, 0);
        dropouts(p, parity_dtypes[d], 64, 128, 4);
        dropouts(p, parity_dtypes[d], 1284, 4, 0); /* more than a pass of a block */
    }
    casts(p);
}
