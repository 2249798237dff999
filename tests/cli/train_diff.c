/* SPDX-License-Identifier: Apache-2.0 */
/* train_diff A B: the largest difference between the values of two safetensors files of
 * equal tensors, relative to the largest value of its tensor. */
#include <cadre/types.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/safetensors.h"

static double *read_all(const struct cadre_safetensors *file, size_t i, uint64_t count,
                        struct cadre_error *err)
{
    double *values = cadre_calloc(count, sizeof *values);
    if (values &&
        cadre_safetensors_read(file, i, 0, count, CADRE_F64, values, err) == CADRE_OK)
        return values;
    free(values);
    return NULL;
}

static double difference(const double *a, const double *b, uint64_t n)
{
    double most = 0, scale = 0;
    for (uint64_t i = 0; i < n; i++) {
        scale = fmax(scale, fabs(a[i]));
        double d = fabs(a[i] - b[i]);
        if (isnan(d))
            return INFINITY;
        most = fmax(most, d);
    }
    return most > 0 ? most / scale : 0;
}

static int compare(const struct cadre_safetensors *a, const struct cadre_safetensors *b,
                   double *most, struct cadre_error *err)
{
    *most = 0;
    if (cadre_safetensors_count(a) != cadre_safetensors_count(b))
        return 1;
    for (size_t i = 0; i < cadre_safetensors_count(a); i++) {
        const struct cadre_safetensors_tensor *t = cadre_safetensors_at(a, i);
        ptrdiff_t j = cadre_safetensors_find(b, t->name);
        if (j < 0 || cadre_safetensors_at(b, (size_t)j)->count != t->count)
            return 1;
        double *x = read_all(a, i, t->count, err);
        double *y = read_all(b, (size_t)j, t->count, err);
        if (x && y)
            *most = fmax(*most, difference(x, y, t->count));
        free(x);
        free(y);
        if (!x || !y)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct cadre_safetensors *a = NULL, *b = NULL;
    struct cadre_error err = {0};
    double most;
    int bad = argc != 3 ||
              cadre_safetensors_open(argv[1], false, &a, &err) != CADRE_OK ||
              cadre_safetensors_open(argv[2], false, &b, &err) != CADRE_OK ||
              compare(a, b, &most, &err) != 0;
    if (bad)
        fprintf(stderr, "train_diff: %s\n", err.text[0] ? err.text : "other tensors");
    else
        printf("%.3g\n", most);
    cadre_safetensors_close(a);
    cadre_safetensors_close(b);
    return bad;
}
