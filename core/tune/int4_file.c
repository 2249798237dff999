/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/int4_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/tensor/fake_quantize.h"
#include "core/tensor/half.h"

enum { KINDS = 3, NAME = 96 };
static const char *const kinds[KINDS] = {"weight", "scales", "zeros"};

/* A weight as groups: `step` elements lie between neighbours of one. */
struct layout {
    uint64_t rows, columns; /* of the weight as stored */
    uint64_t in, out; /* of its product */
    uint64_t groups; /* of each output */
    uint64_t size; /* inputs of a group; of the last one what is left */
    bool down; /* a Conv1D's (in, out) */
};

static struct layout layout_of(const struct cadre_model *model, uint32_t param)
{
    const struct cadre_shape *shape = &model->params[param].shape;
    const bool down = model->config.arch == CADRE_ARCH_GPT2;
    const uint64_t size = (uint64_t)model->config.qat.group;
    const uint64_t in = shape->dim[!down];
    return (struct layout){
        .rows = shape->dim[0],
        .columns = shape->dim[1],
        .in = in,
        .out = shape->dim[down],
        .groups = (in + size - 1) / size,
        .size = size,
        .down = down,
    };
}

/* "...q_proj.weight" and a kind. */
static void name_of(const struct cadre_model *model, uint32_t param, const char *kind,
                    char out[NAME])
{
    const char *name = model->params[param].name;
    const int stem = (int)(strlen(name) - strlen("weight"));
    snprintf(out, NAME, "%.*s%s", stem, name, kind);
}

/* ---- the file ---- */

static void list(const struct cadre_model *model, char (*names)[NAME],
                 struct cadre_safetensors_spec *specs, size_t *n)
{
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (!cadre_model_is_block_matrix(model, i))
            continue;
        const struct layout l = layout_of(model, i);
        for (int k = 0; k < KINDS; k++, ++*n) {
            const bool codes = k == 0;
            name_of(model, i, kinds[k], names[*n]);
            specs[*n] = (struct cadre_safetensors_spec){
                .name = names[*n],
                .dtype = codes ? CADRE_I8 : CADRE_F32,
                .ndim = 2,
                .dim = {codes || !l.down ? l.rows : l.groups,
                        codes || l.down ? l.columns : l.groups},
            };
        }
    }
}

cadre_status cadre_int4_file_create(const char *dir, const struct cadre_model *model,
                                    struct cadre_safetensors **out,
                                    struct cadre_error *err)
{
    const size_t most = (size_t)model->n_params * KINDS;
    char(*names)[NAME] = cadre_calloc(most, sizeof *names);
    struct cadre_safetensors_spec *specs = cadre_calloc(most, sizeof *specs);
    char *path = cadre_path_join(dir, CADRE_INT4_FILE);
    size_t n = 0;
    cadre_status rc =
        names && specs && path ? CADRE_OK : cadre_no_memory(err, CADRE_INT4_FILE);
    if (rc == CADRE_OK) {
        list(model, names, specs, &n);
        rc = cadre_safetensors_create(path, specs, n, err);
    }
    if (rc == CADRE_OK)
        rc = cadre_safetensors_open(path, true, out, err);
    free(names);
    free(specs);
    free(path);
    return rc;
}

/* ---- a weight ---- */

static float rounded(uint32_t dtype, float x)
{
    return dtype == CADRE_BF16  ? cadre_bf16_to_f32(cadre_bf16_from_f32(x))
           : dtype == CADRE_F16 ? cadre_f16_to_f32(cadre_f16_from_f32(x))
                                : x;
}

/* One group of output o: x and codes are the whole weight's. */
static bool code_group(const struct layout *l, uint64_t o, uint64_t group, float *x,
                       int8_t *codes, float *scale)
{
    const uint64_t begin = group * l->size, end = begin + l->size;
    const uint64_t last = end < l->in ? end : l->in;
    const uint64_t step = l->down ? l->out : 1, first = l->down ? o : o * l->in;
    float most = 0;
    bool finite = true;
    for (uint64_t i = begin; i < last; i++) {
        const float size = fabsf(x[first + i * step]);
        most = size > most ? size : most;
        finite &= size <= FLT_MAX;
    }
    const struct cadre_grid grid = cadre_grid_int4(most, finite);
    for (uint64_t i = begin; finite && i < last; i++) {
        const uint64_t at = first + i * step;
        const float code = cadre_grid_clamp(grid, cadre_grid_code(grid, x[at]));
        codes[at] = (int8_t)code;
        x[at] = cadre_grid_value(grid, code);
    }
    *scale = grid.scale;
    return finite;
}

static cadre_status put_tensor(const struct cadre_safetensors *file,
                               const struct cadre_model *model, uint32_t param,
                               int kind, uint64_t count, const void *data,
                               struct cadre_error *err)
{
    char name[NAME];
    name_of(model, param, kinds[kind], name);
    return cadre_safetensors_write_range(
        file, (size_t)cadre_safetensors_find(file, name), 0, count, data, err);
}

static bool code_all(const struct layout *l, float *x, int8_t *codes, float *scales)
{
    bool finite = true;
    for (uint64_t o = 0; o < l->out; o++)
        for (uint64_t g = 0; g < l->groups; g++)
            finite &= code_group(l, o, g, x, codes,
                                 &scales[l->down ? g * l->out + o : o * l->groups + g]);
    return finite;
}

cadre_status cadre_int4_file_put(const struct cadre_safetensors *file,
                                 const struct cadre_model *model, uint32_t param,
                                 uint32_t computes, void *data, struct cadre_error *err)
{
    const struct layout l = layout_of(model, param);
    const uint64_t count = l.in * l.out, n = l.out * l.groups;
    const bool wide = model->config.dtype == CADRE_F64;
    const char *name = model->params[param].name;
    float *x = calloc(count, sizeof *x), *scales = malloc(n * sizeof *scales);
    int8_t *codes = calloc(count, 1);
    cadre_status rc =
        x && scales && codes ? CADRE_OK : cadre_no_memory(err, "'%s'", name);
    if (rc != CADRE_OK)
        goto out;
    for (uint64_t i = 0; i < count; i++)
        x[i] =
            rounded(computes, wide ? (float)((double *)data)[i] : ((float *)data)[i]);
    if (!code_all(&l, x, codes, scales))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' has a value that is not finite, which int4 cannot store; "
                        "use another checkpoint",
                        name);
    if (rc == CADRE_OK)
        rc = put_tensor(file, model, param, 0, count, codes, err);
    if (rc == CADRE_OK)
        rc = put_tensor(file, model, param, 1, n, scales, err); /* zeros are 0 */
    for (uint64_t i = 0; rc == CADRE_OK && i < count; i++)
        if (wide)
            ((double *)data)[i] = (double)x[i];
        else
            ((float *)data)[i] = x[i];
out:
    free(x);
    free(scales);
    free(codes);
    return rc;
}
