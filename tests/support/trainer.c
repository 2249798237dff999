/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/base/tree.h"
#include "core/model/head.h"
#include "core/model/init.h"
#include "core/optim/norm_chunks.h"
#include "tests/support/check_main.h"

static size_t inputs_bytes(const struct test_trainer *t, int64_t B, int64_t T)
{
    return (size_t)(B * cadre_model_inputs(&t->model->config, T)) * sizeof *t->tokens;
}

static void *allocate(struct test_trainer *t, size_t bytes)
{
    void *p = t->device->ops->alloc(t->device, bytes ? bytes : 64);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(t->device->ops->zero(t->device, p, bytes), CADRE_OK);
    return p;
}

static void release(struct test_trainer *t, void **list, uint32_t n)
{
    for (uint32_t i = 0; list && i < n; i++)
        t->device->ops->free(t->device, list[i]);
    free(list);
}

uint64_t test_trainer_count(const struct test_trainer *t, uint32_t param)
{
    return cadre_shape_count(&t->model->params[param].local);
}

static void open_params(struct test_trainer *t)
{
    struct cadre_model *model = t->model;
    void ***lists[] = {&t->values, &t->masters, &t->grads, &t->exp_avg, &t->exp_avg_sq};
    for (size_t k = 0; k < 5; k++)
        *lists[k] = calloc(model->n_params, sizeof(void *));
    for (uint32_t i = 0; i < model->n_params; i++) {
        struct cadre_param *param = &model->params[i];
        size_t bytes = test_trainer_count(t, i) * t->wide;
        t->grads[i] = allocate(t, bytes);
        if (param->tied_to >= 0) {
            param->data = model->params[param->tied_to].data;
            continue;
        }
        param->data = t->values[i] = t->masters[i] = allocate(t, bytes);
        if (t->wide != t->element)
            t->masters[i] = allocate(t, bytes);
        t->exp_avg[i] = allocate(t, bytes);
        t->exp_avg_sq[i] = allocate(t, bytes);
    }
}

static void open_buffers(struct test_trainer *t)
{
    const struct cadre_model *model = t->model;
    size_t rows = (size_t)(t->B * t->T * model->config.channels) * t->element;
    size_t scratch = 0;
    t->acts = calloc(model->n_units, sizeof *t->acts);
    t->saved = calloc(model->n_units, sizeof *t->saved);
    t->grad_outputs = calloc(model->n_units, sizeof *t->grad_outputs);
    for (uint32_t u = 0; u < model->n_units; u++) {
        size_t need = cadre_unit_scratch_bytes(model, u, t->B, t->T);
        scratch = need > scratch ? need : scratch;
        t->acts[u] = allocate(t, rows);
        t->saved[u] = allocate(t, cadre_unit_saved_bytes(model, u, t->B, t->T));
        t->grad_outputs[u] =
            allocate(t, cadre_unit_grad_outputs_bytes(model, u, t->B, t->T));
    }
    t->scratch = allocate(t, scratch);
    t->dy = allocate(t, rows);
    t->device_tokens = allocate(t, inputs_bytes(t, t->B, t->T));
    t->device_targets = allocate(t, (size_t)(t->B * t->T) * sizeof *t->targets);
    t->device_rows = allocate(t, (size_t)(t->B * t->T) * sizeof *t->loss_rows);
    t->tokens = t->device_tokens;
    t->targets = t->device_targets;
    t->loss_rows = t->device_rows;
    if (t->cpu != t->device) {
        t->tokens = calloc(1, inputs_bytes(t, t->B, t->T));
        t->targets = calloc((size_t)(t->B * t->T), sizeof *t->targets);
        t->loss_rows = calloc((size_t)(t->B * t->T), sizeof *t->loss_rows);
    }
}

static struct cadre_device *open_cpu(void)
{
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_device_open(&config, &device, &err) == CADRE_OK, "%s",
                  err.text);
    return device;
}

void test_trainer_open(struct test_trainer *t, const struct cadre_model_config *config,
                       int tp_rank, int tp_size, int64_t B, int64_t T)
{
    test_trainer_open_on(t, open_cpu(), config, tp_rank, tp_size, B, T);
}

void test_trainer_open_on(struct test_trainer *t, struct cadre_device *device,
                          const struct cadre_model_config *config, int tp_rank,
                          int tp_size, int64_t B, int64_t T)
{
    struct cadre_error err = {0};
    memset(t, 0, sizeof *t);
    t->device = device;
    t->cpu = device->ops->async ? open_cpu() : device;
    t->B = B;
    t->T = T;
    t->element = cadre_dtype_bytes(config->dtype);
    t->wide = cadre_dtype_bytes(cadre_dtype_wide(config->dtype));
    ck_assert_msg(cadre_model_create(config, tp_rank, tp_size, &t->model, &err) ==
                      CADRE_OK,
                  "%s", err.text);
    open_params(t);
    open_buffers(t);
}

static void close_buffers(struct test_trainer *t)
{
    void *single[] = {t->scratch, t->dy, t->device_tokens, t->device_targets,
                      t->device_rows};
    release(t, t->acts, t->model->n_units);
    release(t, t->saved, t->model->n_units);
    release(t, t->grad_outputs, t->model->n_units);
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++)
        t->device->ops->free(t->device, single[i]);
    if (t->cpu != t->device) {
        free(t->tokens);
        free(t->targets);
        free(t->loss_rows);
    }
}

void test_trainer_split_time(struct test_trainer *t, int rank, int ranks)
{
    close_buffers(t);
    t->model->time_rank = rank;
    t->model->time_ranks = ranks;
    open_buffers(t);
}

void test_trainer_close(struct test_trainer *t)
{
    if (t->wide == t->element)
        free(t->masters);
    else
        release(t, t->masters, t->model->n_params);
    release(t, t->values, t->model->n_params);
    release(t, t->grads, t->model->n_params);
    release(t, t->exp_avg, t->model->n_params);
    release(t, t->exp_avg_sq, t->model->n_params);
    close_buffers(t);
    if (t->cpu != t->device)
        cadre_device_close(t->cpu);
    cadre_model_destroy(t->model);
    cadre_device_close(t->device);
    memset(t, 0, sizeof *t);
}

void *test_trainer_fetch(const struct test_trainer *t, const void *buffer, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    ck_assert_ptr_nonnull(copy);
    ck_assert_int_eq(t->device->ops->to_host(t->device, copy, buffer, bytes), CADRE_OK);
    return copy;
}

double test_trainer_get(const struct test_trainer *t, const void *buffer,
                        uint64_t element)
{
    uint32_t dtype = t->model->config.dtype;
    double value = NAN;
    ck_assert_int_eq(t->cpu->ops->cast(t->cpu, CADRE_F64, &value, dtype,
                                       (const char *)buffer + element * t->element, 1),
                     CADRE_OK);
    return value;
}

double test_trainer_get_wide(const struct test_trainer *t, const void *buffer,
                             uint64_t element)
{
    return t->wide == sizeof(double) ? ((const double *)buffer)[element]
                                     : ((const float *)buffer)[element];
}

void test_trainer_set_wide(const struct test_trainer *t, void *buffer, uint64_t element,
                           double value)
{
    if (t->wide == sizeof(double))
        ((double *)buffer)[element] = value;
    else
        ((float *)buffer)[element] = (float)value;
}

void test_trainer_round(struct test_trainer *t)
{
    uint32_t dtype = t->model->config.dtype;
    for (uint32_t i = 0; i < t->model->n_params; i++)
        if (t->masters[i] != t->values[i])
            ck_assert_int_eq(t->device->ops->cast(t->device, dtype, t->values[i],
                                                  cadre_dtype_wide(dtype),
                                                  t->masters[i],
                                                  (int64_t)test_trainer_count(t, i)),
                             CADRE_OK);
}

void test_trainer_init(struct test_trainer *t, uint64_t seed)
{
    for (uint32_t i = 0; i < t->model->n_params; i++)
        if (t->values[i])
            cadre_model_init_range(t->model, i, seed, 0, test_trainer_count(t, i),
                                   t->masters[i]);
    test_trainer_round(t);
}

void test_trainer_scramble(struct test_trainer *t, uint64_t seed, double std)
{
    const struct cadre_model *model = t->model;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_param *param = &model->params[i];
        uint64_t key = cadre_rng_key(seed, param->name);
        double center = param->init == CADRE_INIT_ONE ? 1.0 : 0.0;
        for (uint64_t e = 0; t->values[i] && e < test_trainer_count(t, i); e++) {
            uint64_t logical =
                cadre_param_logical(param, model->tp_rank, model->tp_size, e);
            test_trainer_set_wide(t, t->masters[i], e,
                                  center + std * cadre_rng_normal(key, logical));
        }
    }
    test_trainer_round(t);
}

void test_trainer_random_batch(struct test_trainer *t, uint64_t seed, int64_t B,
                               int64_t T)
{
    const struct cadre_model_config *config = &t->model->config;
    int64_t classes = config->classes ? config->classes : config->vocab;
    uint64_t tokens = cadre_rng_key(seed, "tokens");
    uint64_t targets = cadre_rng_key(seed, "targets");
    const int64_t inputs = B * cadre_model_inputs(config, T);
    const uint64_t below = config->image.patch > 0 ? UINT64_C(1) << 32 /* of bytes */
                                                   : (uint64_t)config->vocab;
    for (int64_t i = 0; i < inputs; i++)
        t->tokens[i] = (int32_t)(uint32_t)cadre_rng_below(tokens, (uint64_t)i, below);
    for (int64_t i = 0; i < B * T; i++) {
        t->targets[i] = i % 5 == 4 ? -1
                                   : (int32_t)cadre_rng_below(targets, (uint64_t)i,
                                                              (uint64_t)classes);
    }
}

static cadre_status grad_begin(void *arg, uint32_t param, void **dst, int *beta)
{
    struct test_trainer *t = arg;
    t->begun++;
    *dst = t->grads[param];
    *beta = t->beta;
    return CADRE_OK;
}

static cadre_status grad_end(void *arg, uint32_t param)
{
    struct test_trainer *t = arg;
    (void)param;
    t->ended++;
    return CADRE_OK;
}

static cadre_status redistribute(void *arg, uint32_t which, bool backward,
                                 uint32_t form, const void *in, void *out, int64_t rows,
                                 int64_t channels)
{
    struct test_trainer *t = arg;
    return t->redistribute(t->redistribute_arg, which, backward, form, in, out, rows,
                           channels);
}

static cadre_status exchange_keys(void *arg, bool backward, const void *in, void *out,
                                  int64_t part)
{
    struct test_trainer *t = arg;
    return t->exchange_keys(t->exchange_arg, backward, in, out, part);
}

static cadre_status exchange_counts(void *arg, const int32_t *mine, int32_t *all,
                                    int64_t n)
{
    struct test_trainer *t = arg;
    return t->exchange_counts(t->redistribute_arg, mine, all, n);
}

static cadre_status redistribute_rows(void *arg, uint32_t point, bool backward,
                                      const void *in, const uint64_t *in_offsets,
                                      void *out, const uint64_t *offsets)
{
    struct test_trainer *t = arg;
    return t->redistribute_rows(t->redistribute_arg, point, backward, in, in_offsets,
                                out, offsets);
}

static struct cadre_pass pass_of(const struct test_trainer *t, uint32_t unit)
{
    return (struct cadre_pass){
        .device = t->device,
        .batch = t->batch,
        .time = t->time,
        .tokens = t->device_tokens,
        .targets = t->device_targets,
        .positions = t->positions,
        .loss_seed = t->seed,
        .loss_seeds = t->loss_seeds,
        .loss_rows = t->device_rows,
        .training = t->training,
        .sample = t->sample,
        .saved = t->saved[unit],
        .grad_outputs = t->grad_outputs[unit],
        .scratch = t->scratch,
        .hook_arg = (void *)t,
        .grad_begin = grad_begin,
        .grad_end = grad_end,
        .redistribute = t->redistribute ? redistribute : NULL,
        .exchange_keys = t->exchange_keys ? exchange_keys : NULL,
        .kv_cache = t->kv_cache,
        .most_rows = t->most_rows,
        .exchange_counts = exchange_counts,
        .redistribute_rows = redistribute_rows,
    };
}

static void put(struct test_trainer *t, void *dst, const void *host, size_t bytes)
{
    ck_assert_int_eq(t->device->ops->to_device(t->device, dst, host, bytes), CADRE_OK);
}

double test_trainer_forward(struct test_trainer *t, int64_t B, int64_t T)
{
    uint32_t n = t->model->n_units;
    int64_t rows = t->model->config.classes ? B : B * T;
    int64_t count = 0;
    double loss = 0;
    ck_assert(B * T <= t->B * t->T);
    if (t->cpu != t->device) {
        put(t, t->device_tokens, t->tokens, inputs_bytes(t, B, T));
        put(t, t->device_targets, t->targets, (size_t)rows * sizeof *t->targets);
    }
    t->batch = B;
    t->time = T;
    for (int64_t i = 0; i < rows; i++)
        count += t->targets[i] >= 0;
    t->seed = count ? 1.0 / (double)count : 0.0;
    for (uint32_t u = 0; u < n; u++) {
        struct cadre_pass pass = pass_of(t, u);
        ck_assert_int_eq(cadre_unit_forward(t->model, u, &pass,
                                            u ? t->acts[u - 1] : NULL,
                                            u < n - 1 ? t->acts[u] : NULL),
                         CADRE_OK);
    }
    if (t->cpu != t->device)
        ck_assert_int_eq(t->device->ops->to_host(t->device, t->loss_rows,
                                                 t->device_rows,
                                                 (size_t)rows * sizeof *t->loss_rows),
                         CADRE_OK);
    for (int64_t i = 0; i < rows; i++)
        loss += t->loss_rows[i];
    return loss * t->seed;
}

static void backward_weight(struct test_trainer *t, uint32_t u, bool both)
{
    struct cadre_pass pass = pass_of(t, u);
    pass.both = both;
    ck_assert_int_eq(
        cadre_unit_backward_weight(t->model, u, &pass, u ? t->acts[u - 1] : NULL),
        CADRE_OK);
}

void test_trainer_backward(struct test_trainer *t, bool split)
{
    struct cadre_model *model = t->model;
    uint32_t n = model->n_units;
    int held = 0;
    t->begun = t->ended = 0;
    for (uint32_t u = n; u-- > 0;) {
        struct cadre_pass pass = pass_of(t, u);
        pass.both = !split;
        ck_assert_int_eq(
            cadre_unit_backward_input(model, u, &pass, u ? t->acts[u - 1] : NULL,
                                      u < n - 1 ? t->dy : NULL, u ? t->dy : NULL),
            CADRE_OK);
        if (!split)
            backward_weight(t, u, true);
    }
    for (uint32_t u = 0; split && u < n; u++)
        backward_weight(t, u, false);
    for (uint32_t i = 0; i < model->n_params; i++)
        held += cadre_model_holds(model, i);
    ck_assert_int_eq(t->begun, held);
    ck_assert_int_eq(t->ended, held);
    for (uint32_t i = 0; i < model->n_params; i++) {
        int32_t owner = model->params[i].tied_to;
        if (owner >= 0)
            ck_assert_int_eq(
                t->device->ops->axpby(t->device, cadre_dtype_wide(model->config.dtype),
                                      1, t->grads[i], 1, t->grads[owner],
                                      (int64_t)test_trainer_count(t, i)),
                CADRE_OK);
    }
}

void test_trainer_step(struct test_trainer *t,
                       const struct cadre_optimizer_config *config, int64_t step,
                       double grad_scale)
{
    const struct cadre_model *model = t->model;
    struct cadre_slice *slices = calloc(model->n_params, sizeof *slices);
    double *scale = allocate(t, sizeof *scale);
    size_t n = 0;
    put(t, scale, &grad_scale, sizeof grad_scale);
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (model->params[i].tied_to >= 0)
            continue;
        slices[n++] = (struct cadre_slice){
            .count = (int64_t)test_trainer_count(t, i),
            .param = t->masters[i],
            .rounded = t->masters[i] != t->values[i] ? t->values[i] : NULL,
            .grad = t->grads[i],
            .exp_avg = t->exp_avg[i],
            .exp_avg_sq = t->exp_avg_sq[i],
            .weight_decay = model->params[i].decay ? config->weight_decay : 0.0,
        };
    }
    ck_assert_int_eq(cadre_optimizer_step(config, t->device, model->config.dtype,
                                          slices, n, step, scale),
                     CADRE_OK);
    t->device->ops->free(t->device, scale);
    free(slices);
}

double test_trainer_grad_norm(struct test_trainer *t)
{
    const struct cadre_model *model = t->model;
    uint64_t total = 0, done = 0;
    for (uint32_t i = 0; i < model->n_params; i++)
        total += cadre_norm_chunks(test_trainer_count(t, i));
    double *sums = allocate(t, (total + 1) * sizeof *sums);
    for (uint32_t i = 0; i < model->n_params; i++) {
        uint64_t count = test_trainer_count(t, i);
        if (model->params[i].tied_to >= 0)
            continue;
        const struct cadre_squares squares = {t->grads[i], (int64_t)count, sums + done};
        ck_assert_int_eq(
            t->device->ops->sum_squares(
                t->device, cadre_dtype_wide(model->config.dtype), &squares, 1),
            CADRE_OK);
        done += cadre_norm_chunks(count);
    }
    double *host = test_trainer_fetch(t, sums, done * sizeof *host);
    double norm = sqrt(cadre_tree_sum(host, done));
    free(host);
    t->device->ops->free(t->device, sums);
    return norm;
}

const void *test_trainer_logits(const struct test_trainer *t)
{
    struct cadre_pass pass = pass_of(t, t->model->n_units - 1);
    const void *logits;
    int64_t rows;
    ck_assert_int_eq(cadre_head_logits(t->model, &pass, 0, &rows, &logits), CADRE_OK);
    return logits;
}
