/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/cuda/attention_testing.h"

#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/cuda/kernels.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, TENSORS };
static const char *const names[] = {"q", "k", "v", "out", "dout", "dq", "dk", "dv"};

/* A tensor (rows, width) with leading dimension ld, of any dtype. */
struct view {
    uint32_t dtype;
    char *data;
    int64_t rows, width, ld;
};

struct problem {
    struct attention_case c;
    struct cadre_attention a;
    void *buffers[TENSORS];
    size_t bytes[TENSORS];
    struct view t[TENSORS];
    struct view lse;
};

static float half_value(uint16_t x)
{
    const int exponent = x >> 10 & 31, fraction = x & 1023;
    const float size = exponent ? ldexpf((float)(fraction + 1024), exponent - 25)
                                : ldexpf((float)fraction, -24);
    if (exponent == 31)
        return fraction ? NAN : copysignf(INFINITY, x & 0x8000 ? -1.0f : 1.0f);
    return x & 0x8000 ? -size : size;
}

static double get(const struct view *t, int64_t row, int64_t column)
{
    const int64_t i = row * t->ld + column;
    uint16_t half;
    float single;
    double real;
    uint32_t bits;
    switch (t->dtype) {
    case CADRE_F64:
        memcpy(&real, t->data + i * 8, 8);
        return real;
    case CADRE_F32:
        memcpy(&single, t->data + i * 4, 4);
        return (double)single;
    default:
        memcpy(&half, t->data + i * 2, 2);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, 4);
        return (double)(t->dtype == CADRE_BF16 ? single : half_value(half));
    }
}

/* x is a multiple of 1/32 below 8 in size, which every dtype holds. */
static void set(struct view *t, int64_t row, int64_t column, double x)
{
    const int64_t i = row * t->ld + column;
    const float single = (float)x;
    uint32_t bits;
    uint16_t half;
    int exponent;
    memcpy(&bits, &single, 4);
    switch (t->dtype) {
    case CADRE_F64:
        memcpy(t->data + i * 8, &x, 8);
        break;
    case CADRE_F32:
        memcpy(t->data + i * 4, &single, 4);
        break;
    case CADRE_BF16:
        half = (uint16_t)(bits >> 16);
        memcpy(t->data + i * 2, &half, 2);
        break;
    default:
        exponent = (int)(bits >> 23 & 255) - 127 + 15;
        half = x == 0.0 ? 0
                        : (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)exponent << 10 |
                                     (bits >> 13 & 1023));
        memcpy(t->data + i * 2, &half, 2);
    }
}

/* A buffer of exactly the bytes that are needed, so that AddressSanitizer sees what is
 * touched beyond it; every byte 0xff, which is NaN in every dtype. */
static void *poisoned(size_t bytes)
{
    void *memory = NULL;
    ck_assert_int_eq(posix_memalign(&memory, 64, bytes ? bytes : 1), 0);
    memset(memory, 0xff, bytes);
    return memory;
}

/* Buffer of tensor i, and its offset there. */
static void place(struct problem *p, int i, int64_t width, int64_t offset, int64_t ld)
{
    const size_t element = cadre_dtype_bytes(p->a.dtype);
    const int64_t rows = p->c.batch * p->c.time;
    const int owner = p->c.packed && (i == K || i == V)     ? Q
                      : p->c.packed && (i == DK || i == DV) ? DQ
                                                            : i;
    if (owner == i) {
        p->bytes[i] = ((size_t)(rows * ld) + (size_t)p->c.shift) * element;
        p->buffers[i] = poisoned(p->bytes[i]);
    }
    p->t[i] = (struct view){.dtype = p->a.dtype,
                            .data = (char *)p->buffers[owner] +
                                    (size_t)(p->c.shift + offset) * element,
                            .rows = rows,
                            .width = width,
                            .ld = ld};
}

static void fill(struct view *t, uint64_t seed, double largest)
{
    uint64_t state = seed * 7919;
    for (int64_t row = 0; row < t->rows; row++)
        for (int64_t d = 0; d < t->width; d++)
            set(t, row, d, floor(random_real(&state) * largest * 16) / 16);
}

static void problem_init(struct problem *p, uint32_t dtype, struct attention_case c)
{
    const int64_t own = c.heads * c.head_size, shared = c.kv_heads * c.head_size;
    const int64_t ldq = (c.packed ? own + 2 * shared : own) + c.pad;
    const int64_t ldk = c.packed ? ldq : shared + c.pad;
    const int64_t ldv = c.packed ? ldq : shared + 2 * c.pad, ldo = own + c.pad;
    const int64_t k_at = c.packed ? own : 0, v_at = c.packed ? own + shared : 0;
    const uint32_t wide = cadre_dtype_wide(dtype);
    const size_t stats = (size_t)(c.batch * c.heads * c.time) * cadre_dtype_bytes(wide);
    memset(p, 0, sizeof *p);
    p->c = c;
    p->a.dtype = dtype;
    place(p, Q, own, 0, ldq);
    place(p, K, shared, k_at, ldk);
    place(p, V, shared, v_at, ldv);
    place(p, OUT, own, 0, ldo);
    place(p, DOUT, own, 0, ldo);
    place(p, DQ, own, 0, ldq);
    place(p, DK, shared, k_at, ldk);
    place(p, DV, shared, v_at, ldv);
    fill(&p->t[Q], 1, 3); /* scores of notable size */
    fill(&p->t[K], 2, 1);
    fill(&p->t[V], 3, 1);
    fill(&p->t[DOUT], 4, 1);
    p->lse = (struct view){.dtype = wide,
                           .data = poisoned(stats),
                           .rows = c.batch * c.heads,
                           .width = c.time,
                           .ld = c.time};
    p->a = (struct cadre_attention){.dtype = dtype,
                                    .batch = c.batch,
                                    .time = c.time,
                                    .heads = c.heads,
                                    .kv_heads = c.kv_heads,
                                    .head_size = c.head_size,
                                    .q = p->t[Q].data,
                                    .k = p->t[K].data,
                                    .v = p->t[V].data,
                                    .ldq = ldq,
                                    .ldk = ldk,
                                    .ldv = ldv,
                                    .ldo = ldo,
                                    .out = p->t[OUT].data,
                                    .lse = p->lse.data,
                                    .dout = p->t[DOUT].data,
                                    .dq = p->t[DQ].data,
                                    .dk = p->t[DK].data,
                                    .dv = p->t[DV].data};
}

static void problem_fini(struct problem *p)
{
    for (int i = 0; i < TENSORS; i++)
        free(p->buffers[i]);
    free(p->lse.data);
}

static void run_cuda(struct problem *p)
{
    void *scratch = poisoned(cadre_cuda_attention_scratch(&p->a));
    ck_assert_int_eq(cadre_cuda_attention_fwd(&p->a, scratch, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_cuda_attention_bwd(&p->a, scratch, NULL), CADRE_OK);
    ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
    free(scratch);
}

static void run_cpu(struct problem *p)
{
    struct cadre_device *device = open_cpu(1);
    ck_assert_int_eq(device->ops->attention_fwd(device, &p->a), CADRE_OK);
    ck_assert_int_eq(device->ops->attention_bwd(device, &p->a), CADRE_OK);
    cadre_device_close(device);
}

/* Limit of an error, relative to the result's size and to the mean size of all: a few
 * roundings for f32 and f64; 16 bits round the probabilities and their gradients
 * too. */
static double limit(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return 1e-13;
    case CADRE_F32:
        return 2e-5;
    case CADRE_F16:
        return 6e-3;
    default:
        return 5e-2;
    }
}

static void compare(const struct view *got, const struct view *want, double most,
                    const char *name)
{
    const int64_t count = want->rows * want->width;
    double mean = 0, wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        const double w = get(want, i / want->width, i % want->width);
        const double d = get(got, i / want->width, i % want->width) - w;
        mean += w * w;
        wrong += d * d;
    }
    mean = sqrt(mean / (double)count);
    ck_assert_msg(sqrt(wrong / (double)count) <= most / 4 * mean + 1e-30,
                  "%s: relative L2 difference %g, limit %g", name,
                  sqrt(wrong / (double)count) / mean, most / 4);
    for (int64_t i = 0; i < count; i++) {
        const double w = get(want, i / want->width, i % want->width);
        const double g = get(got, i / want->width, i % want->width);
        if (!(fabs(g - w) <= most * (fabs(w) + mean)))
            ck_abort_msg("%s[%ld][%ld]: %.9g, expected %.9g", name,
                         (long)(i / want->width), (long)(i % want->width), g, w);
    }
}

/* Only the rows' own elements were written: the rest is still 0xff. */
static void check_gaps(const struct problem *p)
{
    const size_t element = cadre_dtype_bytes(p->a.dtype);
    for (int i = 0; i < TENSORS; i++) {
        unsigned char *own = calloc(1, p->bytes[i] + 1);
        for (int j = 0; j < TENSORS && p->buffers[i]; j++) {
            const size_t at = (size_t)(p->t[j].data - (char *)p->buffers[i]);
            if (p->t[j].data < (char *)p->buffers[i] || at >= p->bytes[i])
                continue;
            for (int64_t row = 0; row < p->t[j].rows; row++)
                memset(own + at + (size_t)(row * p->t[j].ld) * element, 1,
                       (size_t)p->t[j].width * element);
        }
        for (size_t b = 0; b < p->bytes[i]; b++)
            if (!own[b] && ((unsigned char *)p->buffers[i])[b] != 0xff)
                ck_abort_msg("%s: byte %zu between the rows was written", names[i], b);
        free(own);
    }
}

void attention_check(uint32_t dtype, struct attention_case c)
{
    struct problem first, second, want;
    problem_init(&first, dtype, c);
    problem_init(&second, dtype, c);
    problem_init(&want, CADRE_F64, c);
    run_cuda(&first);
    run_cuda(&second);
    run_cpu(&want);
    /* sums of exact products, in the wide dtype */
    compare(&first.lse, &want.lse, dtype == CADRE_F64 ? 1e-13 : 1e-5, "lse");
    for (int i = OUT; i < TENSORS; i++)
        compare(&first.t[i], &want.t[i], limit(dtype), names[i]);
    check_gaps(&first);
    for (int i = 0; i < TENSORS; i++)
        if (first.buffers[i])
            ck_assert_msg(!memcmp(first.buffers[i], second.buffers[i], first.bytes[i]),
                          "%s differs between two runs", names[i]);
    ck_assert(!memcmp(first.lse.data, second.lse.data,
                      (size_t)(first.lse.rows * first.lse.width) *
                          cadre_dtype_bytes(first.lse.dtype)));
    problem_fini(&first);
    problem_fini(&second);
    problem_fini(&want);
}
