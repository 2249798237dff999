/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values as a function of (seed, name, logical element), so that every shard of
 * a parameter holds the same bits. Scales: GPT-2's (Radford et al. 2019, section 2.3).
 */
#include "core/model/init.h"

#include <math.h>
#include <pthread.h>

#include "core/base/cores.h"
#include "core/base/rng.h"

/* Elements that are worth a thread: a normal number takes 60 ns, a constant almost
 * nothing. */
enum { MAX_THREADS = 32, WORTH_NORMAL = 1 << 13, WORTH_CONSTANT = 1 << 20 };

/* Index along the sharded dimension, local to logical. Packed q, k, v: each third is
 * sharded. */
static uint64_t logical_column(const struct cadre_param *param, int tp_rank,
                               int tp_size, uint64_t column)
{
    uint64_t local = param->local.dim[param->split_dim];
    if (param->split == CADRE_SHARD_QKV) {
        uint64_t third = local / 3;
        uint64_t whole = third * (uint64_t)tp_size;
        return column / third * whole + (uint64_t)tp_rank * third + column % third;
    }
    return (uint64_t)tp_rank * local + column;
}

uint64_t cadre_param_logical(const struct cadre_param *param, int tp_rank, int tp_size,
                             uint64_t element)
{
    if (param->split == CADRE_SHARD_NONE)
        return element;
    if (param->split_dim == 0 && param->shape.ndim == 1)
        return logical_column(param, tp_rank, tp_size, element);
    uint64_t width = param->local.dim[1];
    uint64_t row = element / width, column = element % width;
    if (param->split_dim == 0)
        row = logical_column(param, tp_rank, tp_size, row);
    else
        column = logical_column(param, tp_rank, tp_size, column);
    return row * param->shape.dim[1] + column;
}

uint64_t cadre_param_run(const struct cadre_param *param, int tp_rank, int tp_size,
                         uint64_t element, uint64_t *logical)
{
    *logical = cadre_param_logical(param, tp_rank, tp_size, element);
    if (param->split == CADRE_SHARD_NONE || tp_size == 1)
        return cadre_shape_count(&param->local) - element;
    uint64_t run = param->local.dim[param->split_dim];
    if (param->split == CADRE_SHARD_QKV)
        run /= 3;
    if (param->split_dim == 0 && param->local.ndim > 1)
        run *= param->local.dim[1];
    return run - element % run;
}

static double initial_value(const struct cadre_param *param, uint64_t key,
                            uint64_t logical)
{
    switch (param->init) {
    case CADRE_INIT_ONE:
        return 1.0;
    case CADRE_INIT_NORMAL:
        return param->init_std * cadre_rng_normal(key, logical);
    case CADRE_INIT_UNIFORM:
        return param->init_std * sqrt(3.0) * (2 * cadre_rng_uniform(key, logical) - 1);
    case CADRE_INIT_ZERO:
        break;
    }
    return 0.0;
}

/* Elements [begin, begin + count) of a parameter, made by one thread. */
struct part {
    const struct cadre_model *model;
    const struct cadre_param *param;
    uint64_t key, begin, count;
    void *out;
    pthread_t thread;
    bool started;
};

static void *fill(void *arg)
{
    const struct part *p = arg;
    const struct cadre_model *model = p->model;
    bool wide = model->config.dtype == CADRE_F64;
    for (uint64_t i = 0; i < p->count; i++) {
        uint64_t logical =
            cadre_param_logical(p->param, model->tp_rank, model->tp_size, p->begin + i);
        double value = initial_value(p->param, p->key, logical);
        if (wide)
            ((double *)p->out)[i] = value;
        else
            ((float *)p->out)[i] = (float)value;
    }
    return NULL;
}

/* A billion normal numbers need every core; a small model also starts faster. */
void cadre_model_init_range(const struct cadre_model *model, uint32_t index,
                            uint64_t seed, uint64_t begin, uint64_t count, void *out)
{
    const struct cadre_param *param = &model->params[index];
    struct part parts[MAX_THREADS];
    if (param->tied_to >= 0)
        param = &model->params[param->tied_to];
    const size_t bytes =
        model->config.dtype == CADRE_F64 ? sizeof(double) : sizeof(float);
    const uint64_t cores = (uint64_t)cadre_cores();
    const uint64_t each =
        param->init >= CADRE_INIT_NORMAL ? WORTH_NORMAL : WORTH_CONSTANT;
    const uint64_t worth = count / each + 1;
    uint64_t n = cores < MAX_THREADS ? cores : MAX_THREADS, done = 0;
    n = worth < n ? worth : n;
    for (uint64_t i = 0; i < n; i++) {
        struct part *p = &parts[i];
        *p = (struct part){.model = model,
                           .param = param,
                           .key = cadre_rng_key(seed, param->name),
                           .begin = begin + done,
                           .count = count / n + (i < count % n),
                           .out = (char *)out + done * bytes};
        done += p->count;
        p->started = i + 1 < n && !pthread_create(&p->thread, NULL, fill, p);
        if (!p->started) /* the last part is this thread's own */
            fill(p);
    }
    for (uint64_t i = 0; i < n; i++)
        if (parts[i].started)
            pthread_join(parts[i].thread, NULL);
}

void cadre_model_init_whole(const struct cadre_model *model, uint32_t index,
                            uint64_t seed, uint64_t begin, uint64_t count, void *out)
{
    const int32_t owner = model->params[index].tied_to;
    struct cadre_param param = model->params[owner < 0 ? index : (uint32_t)owner];
    struct cadre_model whole = *model;
    param.split = CADRE_SHARD_NONE;
    param.local = param.shape;
    whole.params = &param;
    whole.tp_rank = 0;
    whole.tp_size = 1;
    cadre_model_init_range(&whole, 0, seed, begin, count, out);
}
