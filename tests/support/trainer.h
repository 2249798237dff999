/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest driver of the unit interface: one rank, one micro-batch, plain buffers,
 * units in order. Tests compare everything else with it. Failures end the test. */
#ifndef CADRE_TESTS_TRAINER_H
#define CADRE_TESTS_TRAINER_H

#include "core/model/model.h"
#include "core/model/unit.h"
#include "core/optim/optimizer.h"

struct test_trainer {
    struct cadre_model *model;
    struct cadre_device *device;
    struct cadre_device
        *cpu; /* for numbers on the host; `device` itself if it is one */
    int64_t B, T; /* largest micro-batch */
    size_t element, wide; /* bytes of the dtype and of its wide one */
    void **values, **masters; /* masters: wide; values themselves where they are wide */
    void **grads, **exp_avg, **exp_avg_sq; /* one per parameter, local shape */
    void **acts; /* output of each unit but the head */
    void **saved, **grad_outputs; /* one per unit */
    void *scratch, *dy;
    int32_t *tokens, *targets; /* in host memory; on another device copies are used: */
    const int32_t *positions; /* of packed records, the test's; NULL: none */
    double *loss_rows;
    int32_t *device_tokens, *device_targets;
    double *device_rows;
    int64_t batch, time; /* of the last forward */
    double seed; /* 1 / count of its targets */
    int beta; /* 1: gradients are accumulated */
    int begun, ended; /* calls of the gradient hooks in the last backward */
    const double *loss_seeds; /* (B), the test's; NULL: `seed` is that of every row */
    bool training; /* set by a test of dropout before forward, with the next one */
    uint64_t sample;
    /* set by a test of tensor parallelism before forward */
    cadre_status (*redistribute)(void *arg, uint32_t point, bool backward,
                                 uint32_t form, const void *in, void *out, int64_t rows,
                                 int64_t channels);
    void *redistribute_arg;
    /* set by a test of context parallelism before forward */
    cadre_status (*exchange_keys)(void *arg, bool backward, const void *in, void *out,
                                  int64_t part);
    void *exchange_arg;
    /* set by a test of a cache before forward; the test counts its tokens */
    const struct cadre_kv_cache *kv_cache;
    /* set by a test of experts over ranks, after model->ep_rank and ep_size: buffers
     * are those of ep_size times the largest micro-batch */
    cadre_status (*exchange_counts)(void *arg, const int32_t *mine, int32_t *all,
                                    int64_t n);
    cadre_status (*redistribute_rows)(void *arg, uint32_t point, bool backward,
                                      const void *in, const uint64_t *in_offsets,
                                      void *out, const uint64_t *offsets);
    int64_t most_rows; /* of a micro-batch on any of them */
};

/* A model of `config` on the CPU, with storage for B sequences of T tokens, all zero.
 */
void test_trainer_open(struct test_trainer *trainer,
                       const struct cadre_model_config *config, int tp_rank,
                       int tp_size, int64_t B, int64_t T);
/* The same on `device`, which becomes the trainer's. Where the host cannot access its
 * memory, test_trainer_load and fetch copy values; other functions that write or read
 * them (init, scramble, round, set_wide) are for the CPU. */
void test_trainer_open_on(struct test_trainer *trainer, struct cadre_device *device,
                          const struct cadre_model_config *config, int tp_rank,
                          int tp_size, int64_t B, int64_t T);
void test_trainer_close(struct test_trainer *trainer);

/* The trainer becomes time rank `rank` of `ranks`: T of its open is its own part. Its
 * buffers are made again. */
void test_trainer_split_time(struct test_trainer *trainer, int rank, int ranks);

/* A copy on the host of `bytes` of a buffer; the caller frees it. */
void *test_trainer_fetch(const struct test_trainer *trainer, const void *buffer,
                         size_t bytes);

/* Initial values of the model. */
void test_trainer_init(struct test_trainer *trainer, uint64_t seed);
/* Every parameter normal of standard deviation std, norm weights around 1: biases and
 * attention have an effect, unlike in initial values. Same values under any tp. */
void test_trainer_scramble(struct test_trainer *trainer, uint64_t seed, double std);

/* Random tokens; targets (B, T), or (B) classes, every fifth one ignored. */
void test_trainer_random_batch(struct test_trainer *trainer, uint64_t seed, int64_t B,
                               int64_t T);
/* Mean loss of trainer->tokens and trainer->targets over targets that count. */
double test_trainer_forward(struct test_trainer *trainer, int64_t B, int64_t T);
/* Gradients of the last forward. With `split`, all INPUT parts run before all WEIGHT
 * parts. The gradient of a tied head is added to that of its owner. */
void test_trainer_backward(struct test_trainer *trainer, bool split);
void test_trainer_step(struct test_trainer *trainer,
                       const struct cadre_optimizer_config *config, int64_t step,
                       double grad_scale);
/* Norm of the gradients of owned parameters, by chunks and tree. */
double test_trainer_grad_norm(struct test_trainer *trainer);

/* (N, V) or (B, K) of the last forward, before backward. */
const void *test_trainer_logits(const struct test_trainer *trainer);
uint64_t test_trainer_count(const struct test_trainer *trainer, uint32_t param);
/* Element of a buffer, on the host, of the trainer's dtype: values, logits,
 * activations.
 */
double test_trainer_get(const struct test_trainer *trainer, const void *buffer,
                        uint64_t element);
/* Element of one of its wide dtype: masters, gradients, optimizer states. */
double test_trainer_get_wide(const struct test_trainer *trainer, const void *buffer,
                             uint64_t element);
void test_trainer_set_wide(const struct test_trainer *trainer, void *buffer,
                           uint64_t element, double value);
/* Values become the rounded masters; for callers that wrote masters. */
void test_trainer_round(struct test_trainer *trainer);

/* Fill every owned parameter from an F32 safetensors file; names and shapes must be
 * those of the model. */
void test_trainer_load(struct test_trainer *trainer, const char *path);

#endif
