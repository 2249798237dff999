/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/cuda/parity.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

const uint32_t parity_dtypes[4] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};

/* Elements around a buffer, which nothing may write. */
enum { AROUND = 16 };

/* Printed lines of errors, per entry of the table. */
enum { MOST_LINES = 8 };

/* An argument's memory, or a whole buffer of several. */
struct image {
    uint32_t dtype;
    int64_t count; /* elements */
    char *data;
};

struct run {
    const struct parity_case *c;
    struct image start[PARITY_ARGS]; /* of owners, rounded to the device's dtypes */
    struct image want[PARITY_ARGS]; /* of owners, after the CPU's run in f64 */
    struct image sizes[PARITY_ARGS]; /* after the run on magnitudes */
    struct image bits[PARITY_ARGS]; /* after the CPU's run in the wide dtype */
    struct image got[PARITY_ARGS]; /* after the device's first run */
};

/* The worst error of an entry and dtype. */
static void note(struct parity *p, int entry, uint32_t dtype, double ratio)
{
    if (!(ratio <= p->worst[entry][dtype % 8]))
        p->worst[entry][dtype % 8] = ratio;
}

static void complain(struct parity *p, const struct parity_case *c, const char *format,
                     ...)
{
    va_list list;
    p->failures++;
    if (p->lines[c->calls[0]]++ >= MOST_LINES)
        return;
    printf("parity: %s, %s: ", c->name, cadre_dtype_name(c->dtype));
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    fflush(stdout);
}

/* ---- images ---- */

static bool is_float(uint32_t dtype)
{
    return dtype == CADRE_F32 || dtype == CADRE_F64 || dtype == CADRE_BF16 ||
           dtype == CADRE_F16;
}

static struct image image_make(uint32_t dtype, int64_t count)
{
    const size_t bytes = (size_t)count * cadre_dtype_bytes(dtype);
    struct image image = {dtype, count, malloc(bytes ? bytes : 1)};
    ck_assert_ptr_nonnull(image.data);
    memset(image.data, 0xff, bytes);
    return image;
}

static void images_free(struct image *images)
{
    for (int i = 0; i < PARITY_ARGS; i++)
        free(images[i].data);
}

/* Between any dtypes; the same bits where both are equal. */
static void convert(struct cadre_device *cpu, uint32_t to, void *dst, uint32_t from,
                    const void *src, int64_t count)
{
    if (to == from)
        memcpy(dst, src, (size_t)count * cadre_dtype_bytes(to));
    else
        ck_assert_int_eq(cpu->ops->cast(cpu, to, dst, from, src, count), CADRE_OK);
}

static double *doubles_of(struct cadre_device *cpu, uint32_t dtype, const void *src,
                          int64_t count)
{
    double *x = malloc((size_t)(count + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < count && !is_float(dtype); i++)
        x[i] = dtype == CADRE_I32  ? ((const int32_t *)src)[i]
               : dtype == CADRE_U8 ? ((const uint8_t *)src)[i]
                                   : ((const int8_t *)src)[i];
    if (is_float(dtype))
        convert(cpu, CADRE_F64, x, dtype, src, count);
    return x;
}

static void put_doubles(struct cadre_device *cpu, uint32_t dtype, void *dst,
                        const double *x, int64_t count)
{
    for (int64_t i = 0; i < count && !is_float(dtype); i++) {
        if (dtype == CADRE_I32)
            ((int32_t *)dst)[i] = (int32_t)x[i];
        else if (dtype == CADRE_U8)
            ((uint8_t *)dst)[i] = (uint8_t)fabs(x[i]);
        else
            ((int8_t *)dst)[i] = (int8_t)x[i];
    }
    if (is_float(dtype))
        convert(cpu, dtype, dst, CADRE_F64, x, count);
}

/* ---- arguments ---- */

/* The dtype of an argument in a run of dtype `of`. */
static uint32_t dtype_in(const struct parity_arg *a, uint32_t of)
{
    return a->dtype == PARITY_OP     ? of
           : a->dtype == PARITY_WIDE ? cadre_dtype_wide(of)
                                     : a->dtype;
}

static int owner_of(const struct parity_case *c, int arg)
{
    return c->args[arg].in ? c->args[arg].in - 1 : arg;
}

static int64_t ld_of(const struct parity_arg *a)
{
    return a->ld ? a->ld : a->width;
}

static size_t offset_of(const struct parity_arg *a, int64_t row, size_t element)
{
    return (size_t)((a->in ? a->at : 0) + row * ld_of(a)) * element;
}

/* Random numbers into the owners' images, rounded. */
static void fill(struct parity *p, struct run *r)
{
    const struct parity_case *c = r->c;
    for (int i = 0; i < PARITY_ARGS; i++)
        if (c->args[i].rows > 0 && !c->args[i].in)
            r->start[i] = image_make(dtype_in(&c->args[i], c->dtype),
                                     c->args[i].rows * ld_of(&c->args[i]));
    for (int i = 0; i < PARITY_ARGS; i++) {
        const struct parity_arg *a = &c->args[i];
        struct image *image = &r->start[owner_of(c, i)];
        const double range = a->range > 0 ? a->range : 1;
        if (a->rows <= 0 || a->seed == 0)
            continue;
        const int64_t count = a->rows * a->width;
        double *x = malloc((size_t)(count + 1) * sizeof *x);
        uint64_t state = a->seed * 7919;
        for (int64_t e = 0; e < count; e++) {
            x[e] = random_real(&state) * range;
            if (a->grid > 0)
                x[e] = floor(x[e] * a->grid) / a->grid;
        }
        if (c->fill)
            c->fill(c->ctx, i, x, count);
        const size_t element = cadre_dtype_bytes(image->dtype);
        for (int64_t row = 0; row < a->rows; row++)
            put_doubles(p->cpu, image->dtype, image->data + offset_of(a, row, element),
                        x + row * a->width, a->width);
        free(x);
    }
}

/* The address of each argument, given its owner's first element. */
static void point(const struct parity_case *c, char **owners, uint32_t of, void **args)
{
    for (int i = 0; i < PARITY_ARGS; i++) {
        const struct parity_arg *a = &c->args[i];
        args[i] = a->rows > 0 ? owners[owner_of(c, i)] +
                                    offset_of(a, 0, cadre_dtype_bytes(dtype_in(a, of)))
                              : NULL;
    }
}

/* The case on the CPU in dtype `of`, into `out`. */
static void run_cpu(struct parity *p, struct run *r, uint32_t of, bool magnitudes,
                    struct image *out)
{
    const struct parity_case *c = r->c;
    char *owners[PARITY_ARGS] = {0};
    void *args[PARITY_ARGS];
    for (int i = 0; i < PARITY_ARGS; i++) {
        const struct image *s = &r->start[i];
        if (!s->data)
            continue;
        out[i] = image_make(dtype_in(&c->args[i], of), s->count);
        if (is_float(s->dtype))
            convert(p->cpu, out[i].dtype, out[i].data, s->dtype, s->data, s->count);
        else
            memcpy(out[i].data, s->data,
                   (size_t)s->count * cadre_dtype_bytes(s->dtype));
        for (int64_t e = 0; magnitudes && out[i].dtype == CADRE_F64 && e < s->count;
             e++)
            ((double *)(void *)out[i].data)[e] =
                fabs(((double *)(void *)out[i].data)[e]);
        owners[i] = out[i].data;
    }
    point(c, owners, of, args);
    const cadre_status rc = c->run(p->cpu, of, args, c->ctx);
    if (rc != CADRE_OK)
        complain(p, c, "the CPU's op gives status %d", (int)rc);
}

/* The case on the device, `shift` elements from an aligned address, into `out`: whole
 * buffers with their margins. */
static bool run_gpu(struct parity *p, struct run *r, int64_t shift, struct image *out)
{
    const struct parity_case *c = r->c;
    const struct cadre_device_ops *ops = p->gpu->ops;
    char *memory[PARITY_ARGS] = {0}, *owners[PARITY_ARGS] = {0};
    void *args[PARITY_ARGS];
    for (int i = 0; i < PARITY_ARGS; i++) {
        const struct image *s = &r->start[i];
        const size_t element = cadre_dtype_bytes(s->dtype);
        if (!s->data)
            continue;
        out[i] = image_make(s->dtype, s->count + shift + AROUND);
        memcpy(out[i].data + (size_t)shift * element, s->data,
               (size_t)s->count * element);
        memory[i] = ops->alloc(p->gpu, (size_t)out[i].count * element);
        ck_assert_ptr_nonnull(memory[i]);
        ck_assert_int_eq(ops->to_device(p->gpu, memory[i], out[i].data,
                                        (size_t)out[i].count * element),
                         CADRE_OK);
        owners[i] = memory[i] + (size_t)shift * element;
    }
    point(c, owners, c->dtype, args);
    cadre_status rc = c->run(p->gpu, c->dtype, args, c->ctx);
    if (rc == CADRE_OK)
        rc = ops->synchronize(p->gpu);
    for (int i = 0; i < PARITY_ARGS; i++)
        if (memory[i]) {
            ck_assert_int_eq(
                ops->to_host(p->gpu, out[i].data, memory[i],
                             (size_t)out[i].count * cadre_dtype_bytes(out[i].dtype)),
                CADRE_OK);
            ops->free(p->gpu, memory[i]);
        }
    if (rc != CADRE_OK) {
        complain(p, c, "the device's op gives status %d", (int)rc);
        note(p, c->calls[0], c->dtype, INFINITY);
    }
    return rc == CADRE_OK;
}

/* Sums of another shape, of NaN: scratch then has other contents. */
static void other_work(struct parity *p)
{
    enum { ROWS = 130, COLUMNS = 5 };
    const struct cadre_device_ops *ops = p->gpu->ops;
    struct image nan = image_make(CADRE_F64, (ROWS + 1) * COLUMNS);
    const size_t bytes = (ROWS + 1) * COLUMNS * sizeof(double);
    double *x = ops->alloc(p->gpu, bytes);
    ck_assert_ptr_nonnull(x);
    ck_assert_int_eq(ops->to_device(p->gpu, x, nan.data, bytes), CADRE_OK);
    ck_assert_int_eq(ops->bias_bwd(p->gpu, CADRE_F64, x, ROWS, COLUMNS,
                                   x + (size_t)(ROWS * COLUMNS), 0),
                     CADRE_OK);
    ops->free(p->gpu, x);
    free(nan.data);
}

/* ---- comparing ---- */

static double roundoff(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return 0x1p-53;
    case CADRE_F16:
        return 0x1p-11;
    case CADRE_BF16:
        return 0x1p-8;
    default:
        return 0x1p-24;
    }
}

/* Half of the smallest number. */
static double smallest(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return 0x1p-1074;
    case CADRE_F16:
        return 0x1p-25;
    case CADRE_BF16:
        return 0x1p-134;
    default:
        return 0x1p-150;
    }
}

/* The rows of an argument, one after the other, in f64. */
static double *rows_of(struct parity *p, const struct parity_arg *a,
                       const struct image *image, int64_t shift)
{
    const size_t element = cadre_dtype_bytes(image->dtype);
    char *packed = malloc((size_t)(a->rows * a->width) * element + 1);
    ck_assert_ptr_nonnull(packed);
    for (int64_t row = 0; row < a->rows; row++)
        memcpy(packed + (size_t)(row * a->width) * element,
               image->data + (size_t)shift * element + offset_of(a, row, element),
               (size_t)a->width * element);
    double *x = doubles_of(p->cpu, image->dtype, packed, a->rows * a->width);
    free(packed);
    return x;
}

static double mean_square_root(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += isfinite(x[i]) ? x[i] * x[i] : 0;
    return sqrt(sum / (double)(count ? count : 1));
}

/* Magnitudes of an argument, by its rule. */
static double *magnitudes_of(struct parity *p, const struct run *r, int arg,
                             const double *want)
{
    const struct parity_arg *a = &r->c->args[arg];
    const int64_t count = a->rows * a->width;
    const double rms = a->magnitude == PARITY_RMS ? mean_square_root(want, count) : 0;
    const struct image *sizes = &r->sizes[owner_of(r->c, arg)];
    double *m = a->magnitude == PARITY_ABS ? rows_of(p, a, sizes, 0)
                                           : malloc((size_t)(count + 1) * sizeof *m);
    for (int64_t row = 0; row < a->rows; row++) {
        double most = 0;
        for (int64_t e = row * a->width; e < (row + 1) * a->width; e++)
            most = fmax(most, fabs(want[e]));
        for (int64_t e = row * a->width; e < (row + 1) * a->width; e++) {
            if (a->magnitude != PARITY_ABS)
                m[e] = a->magnitude == PARITY_ROW ? most : fabs(want[e]) + rms;
            m[e] = fmax(fabs(m[e]), a->floor);
        }
    }
    return m;
}

static struct parity_view view_of(struct parity *p, const struct run *r, bool open)
{
    struct parity_view view = {0};
    for (int i = 0; i < PARITY_ARGS && open; i++)
        if (r->c->args[i].rows > 0) {
            const int owner = owner_of(r->c, i);
            view.start[i] = rows_of(p, &r->c->args[i], &r->start[owner], 0);
            view.want[i] = rows_of(p, &r->c->args[i], &r->want[owner], 0);
        }
    return view;
}

static void view_free(struct parity_view *view)
{
    for (int i = 0; i < PARITY_ARGS; i++) {
        free((void *)(uintptr_t)view->start[i]);
        free((void *)(uintptr_t)view->want[i]);
    }
}

/* An argument of the device against the f64 result. */
static void compare_values(struct parity *p, const struct run *r, int arg,
                           const double *got, const struct parity_view *view)
{
    const struct parity_case *c = r->c;
    const struct parity_arg *a = &c->args[arg];
    const uint32_t out = r->start[owner_of(c, arg)].dtype;
    const int64_t count = a->rows * a->width;
    const double *want = view->want[arg];
    const double own = (a->round == 0 ? 1 : fmax(a->round, 0)) * roundoff(out);
    const double rest =
        a->sum * roundoff(cadre_dtype_wide(c->dtype)) + a->narrow * roundoff(c->dtype);
    double *m = magnitudes_of(p, r, arg, want), worst = 0, wrong = 0, allowed = 0;
    int64_t at = -1;
    if (c->magnitudes)
        c->magnitudes(c->ctx, view, arg, m);
    for (int64_t e = 0; e < count; e++) {
        const double limit = own * fabs(want[e]) + rest * m[e] + smallest(out);
        const double error = fabs(got[e] - want[e]);
        const bool same = (isnan(want[e]) && isnan(got[e])) || got[e] == want[e];
        double ratio = same ? 0 : isfinite(error) ? error / limit : INFINITY;
        if (!isfinite(want[e]) && !same)
            ratio = INFINITY;
        if (ratio > worst) {
            worst = ratio;
            at = e;
        }
        wrong += isfinite(error) ? error * error : 0;
        allowed += isfinite(limit) ? limit * limit : 0;
    }
    if (worst > 1)
        complain(p, c, "argument %d [%lld][%lld] is %.9g, expected %.9g: %.3g limits",
                 arg, (long long)(at / a->width), (long long)(at % a->width), got[at],
                 want[at], worst);
    const double all = sqrt(wrong / fmax(allowed, 1e-300)) * 4;
    if (a->magnitude == PARITY_RMS && count >= 64) {
        if (all > 1)
            complain(p, c, "argument %d: all errors together are %.3g limits", arg,
                     all);
        worst = fmax(worst, all);
    }
    note(p, c->calls[a->call], c->dtype, worst);
    free(m);
}

/* Equal bits, whatever the bits of a NaN. */
static void compare_bits(struct parity *p, const struct run *r, int arg,
                         const struct image *got, int64_t shift)
{
    const struct parity_arg *a = &r->c->args[arg];
    const struct image *bits = &r->bits[owner_of(r->c, arg)];
    double *want = rows_of(p, a, bits, 0), *have = rows_of(p, a, got, shift);
    const int64_t count = a->rows * a->width;
    if (bits->dtype != got->dtype) { /* computed in the wide dtype: round */
        char *rounded = malloc((size_t)count * cadre_dtype_bytes(got->dtype) + 1);
        put_doubles(p->cpu, got->dtype, rounded, want, count);
        free(want);
        want = doubles_of(p->cpu, got->dtype, rounded, count);
        free(rounded);
    }
    for (int64_t e = 0; e < count; e++) {
        if ((isnan(want[e]) && isnan(have[e])) ||
            (want[e] == have[e] && signbit(want[e]) == signbit(have[e])))
            continue;
        complain(p, r->c, "argument %d [%lld][%lld] is %.17g, not the CPU's %.17g", arg,
                 (long long)(e / a->width), (long long)(e % a->width), have[e],
                 want[e]);
        note(p, r->c->calls[a->call], r->c->dtype, INFINITY);
        break;
    }
    free(want);
    free(have);
}

/* Memory that no output covers is unchanged, around the buffers too. */
static void compare_rest(struct parity *p, const struct run *r, const struct image *got,
                         int64_t shift)
{
    for (int owner = 0; owner < PARITY_ARGS; owner++) {
        const struct image *s = &r->start[owner], *g = &got[owner];
        const size_t element = cadre_dtype_bytes(s->dtype);
        if (!s->data)
            continue;
        const size_t bytes = (size_t)g->count * element;
        char *as_before = malloc(bytes);
        memset(as_before, 0xff, bytes);
        memcpy(as_before + (size_t)shift * element, s->data,
               (size_t)s->count * element);
        for (int i = 0; i < PARITY_ARGS; i++) {
            const struct parity_arg *a = &r->c->args[i];
            for (int64_t row = 0; row < a->rows && a->out; row++) {
                const size_t at = (size_t)shift * element + offset_of(a, row, element);
                if (owner_of(r->c, i) == owner)
                    memcpy(as_before + at, g->data + at, (size_t)a->width * element);
            }
        }
        for (size_t b = 0; b < bytes; b++)
            if (as_before[b] != g->data[b]) {
                complain(p, r->c,
                         "byte %zu of argument %d was written, which is not an output "
                         "(it has %lld elements from byte %zu)",
                         b, owner, (long long)s->count, (size_t)shift * element);
                note(p, r->c->calls[0], r->c->dtype, INFINITY);
                break;
            }
        free(as_before);
    }
}

static void compare(struct parity *p, const struct run *r, const struct image *got,
                    int64_t shift, const struct parity_view *view)
{
    for (int i = 0; i < PARITY_ARGS; i++) {
        const struct parity_arg *a = &r->c->args[i];
        if (a->rows <= 0 || !a->out)
            continue;
        if (!r->c->bits_only) {
            double *x = rows_of(p, a, &got[owner_of(r->c, i)], shift);
            compare_values(p, r, i, x, view);
            free(x);
        }
        if (a->bits)
            compare_bits(p, r, i, &got[owner_of(r->c, i)], shift);
    }
    compare_rest(p, r, got, shift);
}

static void compare_runs(struct parity *p, const struct run *r,
                         const struct image *again)
{
    for (int i = 0; i < PARITY_ARGS; i++)
        if (again[i].data &&
            memcmp(again[i].data, r->got[i].data,
                   (size_t)again[i].count * cadre_dtype_bytes(again[i].dtype)) != 0) {
            complain(p, r->c, "argument %d differs from run to run", i);
            note(p, r->c->calls[0], r->c->dtype, INFINITY);
        }
}

/* ---- a case ---- */

static void references(struct parity *p, struct run *r)
{
    const struct parity_case *c = r->c;
    bool sizes = false, bits = false;
    for (int i = 0; i < PARITY_ARGS; i++) {
        sizes |= c->args[i].rows > 0 && c->args[i].magnitude == PARITY_ABS;
        bits |= c->args[i].rows > 0 && c->args[i].bits;
    }
    if (!c->bits_only)
        run_cpu(p, r, CADRE_F64, false, r->want);
    if (sizes && !c->bits_only)
        run_cpu(p, r, CADRE_F64, true, r->sizes);
    if (bits)
        run_cpu(p, r, is_float(c->dtype) ? cadre_dtype_wide(c->dtype) : c->dtype, false,
                r->bits);
}

void parity_hold(struct parity *p, const struct parity_case *c)
{
    struct run r = {.c = c};
    struct image again[PARITY_ARGS] = {0}, shifted[PARITY_ARGS] = {0};
    const int before = p->cases[c->calls[0]][c->dtype % 8];
    for (int i = 0; i < PARITY_CALLS && c->calls[i]; i++)
        p->cases[c->calls[i]][c->dtype % 8]++;
    if (p->leanest && !c->chosen && before > 0 && before % 6 != 1)
        return;
    fill(p, &r);
    references(p, &r);
    struct parity_view view = view_of(p, &r, !c->bits_only);
    if (run_gpu(p, &r, 0, r.got)) {
        compare(p, &r, r.got, 0, &view);
        if (!p->leanest)
            other_work(p);
        if (!p->leanest && run_gpu(p, &r, 0, again))
            compare_runs(p, &r, again);
        if (run_gpu(p, &r, 1, shifted))
            compare(p, &r, shifted, 1, &view);
    }
    view_free(&view);
    images_free(r.start);
    images_free(r.want);
    images_free(r.sizes);
    images_free(r.bits);
    images_free(r.got);
    images_free(again);
    images_free(shifted);
}

void parity_expect(struct parity *p, int entry, uint32_t dtype, bool ok,
                   const char *what)
{
    const struct parity_case c = {.name = what, .dtype = dtype};
    p->cases[entry][dtype % 8]++;
    if (ok)
        return;
    complain(p, &c, "not so");
    note(p, entry, dtype, INFINITY);
}
