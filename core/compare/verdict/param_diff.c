/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/param_diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/types.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/safetensors.h"

enum { PIECE = 1 << 18 }; /* elements compared at a time */

struct diffing {
    struct cadre_safetensors *run, *reference;
    size_t *order; /* tensors of run, by name */
    unsigned char *a, *b; /* PIECE elements of at most 8 bytes */
    struct cadre_hash hash;
};

/* Floats as integers that count representable values, so that -0 and +0 coincide. */
static int64_t count_f32(const unsigned char *at)
{
    int32_t bits;
    memcpy(&bits, at, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

static int64_t count_f64(const unsigned char *at)
{
    int64_t bits;
    memcpy(&bits, at, sizeof bits);
    return bits < 0 ? -(bits & INT64_MAX) : bits;
}

static double value_at(const unsigned char *at, size_t size)
{
    float narrow;
    double wide;
    if (size == sizeof narrow) {
        memcpy(&narrow, at, sizeof narrow);
        return (double)narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void compare_element(const unsigned char *a, const unsigned char *b, size_t size,
                            struct cadre_param_diff *out, double *worst)
{
    double x = value_at(a, size), y = value_at(b, size);
    if (!isfinite(x) || !isfinite(y)) {
        out->ulp_max = UINT64_MAX;
        *worst = NAN;
        return;
    }
    int64_t i = size == 4 ? count_f32(a) : count_f64(a);
    int64_t j = size == 4 ? count_f32(b) : count_f64(b);
    uint64_t ulp = i > j ? (uint64_t)i - (uint64_t)j : (uint64_t)j - (uint64_t)i;
    out->ulp_max = ulp > out->ulp_max ? ulp : out->ulp_max;
    if (!isnan(*worst))
        *worst = fmax(*worst, fabs(x - y));
}

/* Differing bytes are looked at one by one; where all are equal, only the sizes and NaN
 * matter. */
static void compare_piece(const struct diffing *d, size_t n, size_t size,
                          struct cadre_param_diff *out, double *worst)
{
    if (memcmp(d->a, d->b, n * size) != 0)
        out->same_bits = false;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *a = d->a + i * size, *b = d->b + i * size;
        out->largest = fmax(out->largest, fabs(value_at(b, size)));
        compare_element(a, b, size, out, worst);
    }
}

static cadre_status expect_same(const struct diffing *d, size_t index, size_t other,
                                struct cadre_error *err)
{
    const struct cadre_safetensors_tensor *t = cadre_safetensors_at(d->run, index);
    const struct cadre_safetensors_tensor *u =
        cadre_safetensors_at(d->reference, other);
    bool same = t->dtype == u->dtype && t->ndim == u->ndim &&
                memcmp(t->dim, u->dim, t->ndim * sizeof t->dim[0]) == 0;
    if (!same)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tensor %s of '%s' has another shape or type than in '%s'",
                          t->name, cadre_safetensors_path(d->run),
                          cadre_safetensors_path(d->reference));
    if (t->dtype != CADRE_F32 && t->dtype != CADRE_F64)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tensor %s of '%s' is %s: expected F32 or F64", t->name,
                          cadre_safetensors_path(d->run), t->type);
    return CADRE_OK;
}

static cadre_status compare_tensor(struct diffing *d, size_t index,
                                   struct cadre_param_diff *out,
                                   struct cadre_error *err)
{
    const struct cadre_safetensors_tensor *t = cadre_safetensors_at(d->run, index);
    ptrdiff_t other = cadre_safetensors_find(d->reference, t->name);
    double worst = 0;
    if (other < 0)
        return cadre_fail(err, CADRE_E_INVALID, "'%s' has no tensor %s, as '%s' has",
                          cadre_safetensors_path(d->reference), t->name,
                          cadre_safetensors_path(d->run));
    CADRE_TRY(expect_same(d, index, (size_t)other, err));
    size_t size = t->dtype == CADRE_F32 ? sizeof(float) : sizeof(double);
    cadre_hash_update_string(&d->hash, t->name);
    cadre_hash_update(&d->hash, t->dim, t->ndim * sizeof t->dim[0]);
    for (uint64_t at = 0; at < t->count; at += PIECE) {
        size_t n = t->count - at < PIECE ? (size_t)(t->count - at) : PIECE;
        CADRE_TRY(cadre_safetensors_read_bytes(d->run, index, at * size, n * size, d->a,
                                               err));
        CADRE_TRY(cadre_safetensors_read_bytes(d->reference, (size_t)other, at * size,
                                               n * size, d->b, err));
        cadre_hash_update(&d->hash, d->a, n * size);
        compare_piece(d, n, size, out, &worst);
    }
    out->elements += t->count;
    if (isnan(worst) || worst > out->max)
        snprintf(out->worst, sizeof out->worst, "%s", t->name);
    if (isnan(worst) || isnan(out->max))
        out->max = NAN;
    else
        out->max = fmax(out->max, worst);
    return CADRE_OK;
}

static bool is_kind(const struct cadre_safetensors *file, size_t i, const char *suffix)
{
    const char *name = cadre_safetensors_at(file, i)->name;
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

static size_t count_kind(const struct cadre_safetensors *file, const char *suffix)
{
    size_t n = 0;
    for (size_t i = 0; i < cadre_safetensors_count(file); i++)
        n += is_kind(file, i, suffix);
    return n;
}

/* The tensors of a kind by name. Insertion is enough: a model has some hundreds,
 * nearly in order. */
static void sort_by_name(const struct cadre_safetensors *file, const char *suffix,
                         size_t *order)
{
    size_t n = 0;
    for (size_t i = 0; i < cadre_safetensors_count(file); i++) {
        const char *name = cadre_safetensors_at(file, i)->name;
        if (!is_kind(file, i, suffix))
            continue;
        size_t k = n++;
        while (k > 0 &&
               strcmp(cadre_safetensors_at(file, order[k - 1])->name, name) > 0) {
            order[k] = order[k - 1];
            k--;
        }
        order[k] = i;
    }
}

static cadre_status open_model(const char *path, struct cadre_safetensors **out,
                               struct cadre_error *err)
{
    if (!cadre_path_exists(path))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is missing: expected the checkpoint of the last step",
                          path);
    return cadre_safetensors_open(path, false, out, err);
}

cadre_status cadre_param_diff(const char *path, const char *reference,
                              const char *suffix, struct cadre_param_diff *out,
                              struct cadre_error *err)
{
    cadre_status rc;
    struct diffing d = {0};
    struct cadre_param_diff diff = {.same_bits = true};
    CADRE_TRY_OR(open_model(path, &d.run, err), fail);
    CADRE_TRY_OR(open_model(reference, &d.reference, err), fail);
    size_t n = count_kind(d.run, suffix), expected = count_kind(d.reference, suffix);
    if (n != expected) {
        rc = cadre_fail(err, CADRE_E_INVALID, "'%s' holds %zu tensors *%s, '%s' %zu",
                        path, n, suffix, reference, expected);
        goto fail;
    }
    d.order = cadre_calloc(n + 1, sizeof *d.order);
    d.a = cadre_calloc(PIECE, sizeof(double));
    d.b = cadre_calloc(PIECE, sizeof(double));
    if (!d.order || !d.a || !d.b) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "no memory to compare '%s'", path);
        goto fail;
    }
    sort_by_name(d.run, suffix, d.order);
    cadre_hash_init(&d.hash, 0);
    for (size_t i = 0; i < n; i++)
        CADRE_TRY_OR(compare_tensor(&d, d.order[i], &diff, err), fail);
    diff.hash = cadre_hash_final(&d.hash);
    *out = diff;
fail:
    free(d.order);
    free(d.a);
    free(d.b);
    cadre_safetensors_close(d.run);
    cadre_safetensors_close(d.reference);
    return rc;
}
