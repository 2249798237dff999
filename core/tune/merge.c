/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/merge.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/hf.h"
#include "core/data/tokenizer/tokenizer_files.h"
#include "core/model/init.h"
#include "core/tensor/nf4.h"
#include "core/tune/int4_file.h"
#include "core/tune/peft.h"

enum { SMALL_FILE = 256 << 20 };

struct work {
    const struct cadre_merge *merge;
    struct cadre_model *model;
    struct cadre_hf *base, *adapter; /* base NULL: initial values */
    struct cadre_safetensors *out, *codes; /* codes NULL: none */
    struct cadre_error *err;
};

struct cadre_safetensors_spec *cadre_merge_tensors(const struct cadre_model *model,
                                                   bool adapters, size_t *n,
                                                   struct cadre_error *err)
{
    struct cadre_safetensors_spec *table = cadre_calloc(model->n_params, sizeof *table);
    *n = 0;
    for (uint32_t i = 0; table && i < model->n_params; i++) {
        const struct cadre_param *p = &model->params[i];
        if (p->tied_to >= 0 || (p->adapts >= 0) != adapters)
            continue;
        struct cadre_safetensors_spec *at = &table[(*n)++];
        *at = (struct cadre_safetensors_spec){
            .name = p->name,
            .dtype = cadre_dtype_wide(model->config.dtype),
            .ndim = p->shape.ndim,
        };
        for (uint32_t d = 0; d < p->shape.ndim; d++)
            at->dim[d] = p->shape.dim[d];
    }
    if (!table)
        cadre_no_memory(err, "the tensor table");
    return table;
}

/* ---- files ---- */

static cadre_status check_folder(struct work *w, struct cadre_hf *hf, bool adapters)
{
    size_t n;
    struct cadre_safetensors_spec *table =
        cadre_merge_tensors(w->model, adapters, &n, w->err);
    if (!table)
        return CADRE_E_RESOURCE;
    cadre_status rc = cadre_hf_check(hf, table, n, w->model->config.tied, w->err);
    free(table);
    return rc;
}

static cadre_status open_sources(struct work *w)
{
    const struct cadre_merge *m = w->merge;
    if (*m->init) {
        CADRE_TRY(cadre_hf_open(m->init, &w->base, w->err));
        CADRE_TRY(check_folder(w, w->base, false));
    }
    if (!*m->adapter)
        return CADRE_OK;
    char *path = cadre_path_join(m->adapter, CADRE_PEFT_TENSORS);
    cadre_status rc = path ? cadre_hf_open(path, &w->adapter, w->err)
                           : cadre_no_memory(w->err, "a path");
    free(path);
    return rc == CADRE_OK ? check_folder(w, w->adapter, true) : rc;
}

static cadre_status make_out(struct work *w)
{
    const char *out = w->merge->out;
    glob_t found = {0};
    char *pattern = cadre_format("%s/*", out);
    if (!pattern)
        return cadre_no_memory(w->err, "a path");
    const int is = glob(pattern, 0, NULL, &found);
    globfree(&found);
    free(pattern);
    if (is == GLOB_NOSPACE)
        return cadre_no_memory(w->err, "a list of files");
    if (is == 0)
        return cadre_fail(w->err, CADRE_E_INVALID,
                          "--out: '%s' is not empty; name a new folder for the merged "
                          "model",
                          out);
    CADRE_TRY(cadre_path_make_dirs(out, w->err));
    size_t n;
    struct cadre_safetensors_spec *table =
        cadre_merge_tensors(w->model, false, &n, w->err);
    char *path = cadre_path_join(out, "model.safetensors");
    cadre_status rc = table && path ? cadre_safetensors_create(path, table, n, w->err)
                                    : cadre_no_memory(w->err, "a model's file");
    if (rc == CADRE_OK)
        rc = cadre_safetensors_open(path, true, &w->out, w->err);
    if (rc == CADRE_OK && w->model->config.qat.group > 0)
        rc = cadre_int4_file_create(out, w->model, &w->codes, w->err);
    free(table);
    free(path);
    return rc;
}

static cadre_status copy_file(struct work *w, const char *name)
{
    char *from = cadre_path_join(w->merge->init, name), *data = NULL;
    char *to = cadre_path_join(w->merge->out, name);
    size_t bytes = 0;
    cadre_status rc = from && to ? CADRE_OK : cadre_no_memory(w->err, "a path");
    if (rc == CADRE_OK && cadre_path_exists(from)) {
        rc = cadre_file_read_whole(from, SMALL_FILE, &data, &bytes, w->err);
        if (rc == CADRE_OK)
            rc = cadre_file_write_whole(to, data, bytes, w->err);
    }
    free(data);
    free(from);
    free(to);
    return rc;
}

/* A generation_config.json of init's goes before one beside the tokenizer. */
static cadre_status write_small(struct work *w)
{
    const struct cadre_model_config *m = w->merge->model;
    const bool llama = m->arch == CADRE_ARCH_LLAMA;
    const struct cadre_hf_config config = {
        .arch = llama ? CADRE_HF_LLAMA : CADRE_HF_GPT2,
        .layers = m->layers,
        .channels = m->channels,
        .heads = m->heads,
        .kv_heads = m->kv_heads,
        .hidden = m->hidden,
        .context = m->context,
        .vocab = m->vocab,
        .tied = m->tied,
        .norm_eps = m->norm_eps,
        .rotary = m->rotary,
        .head_size = m->head_size ? m->head_size : m->channels / m->heads,
        .qkv_bias = m->qkv_bias,
        .qk_norm = m->qk_norm,
    };
    CADRE_TRY(cadre_tokenizer_files_write(w->merge->tokenizer, w->merge->out, w->err));
    if (!*w->merge->init)
        return cadre_hf_config_write(w->merge->out, &config, w->err);
    CADRE_TRY(copy_file(w, "config.json"));
    CADRE_TRY(copy_file(w, "generation_config.json"));
    return cadre_hf_config_add_marks(w->merge->out, &w->merge->marks, w->err);
}

/* ---- tensors ---- */

static cadre_status read_base(struct work *w, uint32_t param, void *to)
{
    const struct cadre_param *p = &w->model->params[param];
    const uint64_t count = cadre_shape_count(&p->shape);
    if (w->base)
        return cadre_hf_read(w->base, p->name, 0, count, w->model->config.dtype, to,
                             w->err);
    cadre_model_init_range(w->model, param, w->merge->seed, 0, count, to);
    return CADRE_OK;
}

/* The values that the adapter was trained beside. */
static cadre_status round_base(struct work *w, uint32_t param, void *data)
{
    const struct cadre_param *p = &w->model->params[param];
    const uint64_t count = cadre_shape_count(&p->shape);
    const bool wide = w->model->config.dtype == CADRE_F64;
    if (!w->merge->nf4 || !cadre_model_is_block_matrix(w->model, param))
        return CADRE_OK;
    float *x = malloc(count * sizeof *x);
    if (!x)
        return cadre_no_memory(w->err, "'%s'", p->name);
    for (uint64_t i = 0; i < count; i++)
        x[i] = wide ? (float)((double *)data)[i] : ((float *)data)[i];
    cadre_status rc = cadre_nf4_round(x, count)
                          ? CADRE_OK
                          : cadre_fail(w->err, CADRE_E_INVALID,
                                       "'%s' has a value that is not finite, which nf4 "
                                       "cannot store; use another model",
                                       p->name);
    for (uint64_t i = 0; rc == CADRE_OK && i < count; i++)
        if (wide)
            ((double *)data)[i] = (double)x[i];
        else
            ((float *)data)[i] = x[i];
    free(x);
    return rc;
}

static cadre_status read_factor(struct work *w, uint32_t param, double **to)
{
    const struct cadre_param *p = &w->model->params[param];
    const uint64_t count = cadre_shape_count(&p->shape);
    *to = malloc(count * sizeof **to);
    return *to ? cadre_hf_read(w->adapter, p->name, 0, count, CADRE_F64, *to, w->err)
               : cadre_no_memory(w->err, "'%s'", p->name);
}

static void add_to(uint32_t dtype, void *data, uint64_t at, double more)
{
    if (dtype == CADRE_F64)
        ((double *)data)[at] += more;
    else
        ((float *)data)[at] = (float)(((float *)data)[at] + more);
}

/* weight += scale * B A; a weight of GPT-2 is stored (in, out). */
static void add_product(const struct cadre_model *model, const struct cadre_param *a,
                        const double *A, const double *B, void *weight)
{
    const struct cadre_lora_config *lora = &model->config.lora;
    const struct cadre_shape *shape = &model->params[a->adapts].shape;
    const bool flip = model->config.arch == CADRE_ARCH_GPT2;
    const uint64_t in = a->shape.dim[1], out = shape->dim[flip];
    const uint64_t rank = a->shape.dim[0];
    for (uint64_t o = 0; o < out; o++)
        for (uint64_t i = 0; i < in; i++) {
            double sum = 0;
            for (uint64_t r = 0; r < rank; r++)
                sum += B[o * rank + r] * A[r * in + i];
            add_to(model->config.dtype, weight, flip ? i * out + o : o * in + i,
                   lora->scale * sum);
        }
}

static cadre_status merge_one(struct work *w, uint32_t param)
{
    const struct cadre_param *p = &w->model->params[param];
    const uint64_t count = cadre_shape_count(&p->shape);
    void *data = malloc(count * cadre_dtype_bytes(w->model->config.dtype));
    double *A = NULL, *B = NULL;
    cadre_status rc =
        data ? read_base(w, param, data) : cadre_no_memory(w->err, "'%s'", p->name);
    if (rc == CADRE_OK)
        rc = round_base(w, param, data);
    if (rc == CADRE_OK && p->adapter >= 0) {
        CADRE_TRY_OR(read_factor(w, (uint32_t)p->adapter, &A), fail);
        CADRE_TRY_OR(read_factor(w, (uint32_t)p->adapter + 1, &B), fail);
        add_product(w->model, &w->model->params[p->adapter], A, B, data);
    }
    if (rc == CADRE_OK && w->codes && cadre_model_is_block_matrix(w->model, param))
        rc = cadre_int4_file_put(w->codes, w->model, param, w->merge->model->dtype,
                                 data, w->err);
    if (rc == CADRE_OK)
        rc = cadre_safetensors_write_range(
            w->out, (size_t)cadre_safetensors_find(w->out, p->name), 0, count, data,
            w->err);
fail:
    free(data);
    free(A);
    free(B);
    return rc;
}

cadre_status cadre_merge(const struct cadre_merge *merge, struct cadre_error *err)
{
    struct work w = {.merge = merge, .err = err};
    struct cadre_model_config config = *merge->model;
    cadre_status rc;
    config.dtype = cadre_dtype_wide(config.dtype);
    CADRE_TRY_OR(cadre_model_create(&config, 0, 1, &w.model, err), fail);
    CADRE_TRY_OR(open_sources(&w), fail);
    CADRE_TRY_OR(make_out(&w), fail);
    for (uint32_t i = 0; i < w.model->n_params; i++)
        if (w.model->params[i].tied_to < 0 && w.model->params[i].adapts < 0)
            CADRE_TRY_OR(merge_one(&w, i), fail);
    CADRE_TRY_OR(cadre_safetensors_sync(w.out, err), fail);
    if (w.codes)
        CADRE_TRY_OR(cadre_safetensors_sync(w.codes, err), fail);
    CADRE_TRY_OR(write_small(&w), fail);
    rc = cadre_file_sync_folder(merge->out, err);
fail:
    cadre_safetensors_close(w.out);
    cadre_safetensors_close(w.codes);
    cadre_hf_close(w.base);
    cadre_hf_close(w.adapter);
    cadre_model_destroy(w.model);
    return rc;
}
