/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of micro-batches in the announced order. Announced number n is micro-batch n %
 * n_microbatches of step first_step + n / n_microbatches; the thread fills numbers
 * [taken, taken + prefetch), each into slot n % prefetch. A request ahead of `taken`
 * moves it there and drops what lies between; any other is read on the spot. */
#include "core/data/loader.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/memory.h"

struct slot {
    uint64_t number;
    bool filled;
    cadre_status rc;
    int32_t *inputs;
    int32_t *targets;
    int32_t *labels;
};

struct cadre_loader {
    struct cadre_loader_config config;
    int64_t seq_len, inputs; /* per sample: tokens, int32 of inputs */
    double wait_s;
    /* (prefetch), whole samples; where parts of them are asked for, one more to read
     * those that were not read ahead */
    struct slot *slots;
    int32_t *memory; /* of all slots */
    pthread_t thread;
    bool has_thread;
    bool has_lock;

    /* Guarded by lock. */
    pthread_mutex_t lock;
    pthread_cond_t filled; /* the thread filled a slot */
    pthread_cond_t wanted; /* there is one to fill, or the end */
    uint64_t taken; /* the first number still to be asked for */
    uint64_t next; /* the next number to fill */
    bool stop;
};

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Read one micro-batch; targets and labels may be NULL. */
static cadre_status read_microbatch(const struct cadre_loader *loader, uint64_t step,
                                    int64_t microbatch, int32_t *inputs,
                                    int32_t *targets, int32_t *labels)
{
    const struct cadre_loader_config *config = &loader->config;
    uint64_t first = step * (uint64_t)config->global_batch +
                     (uint64_t)microbatch * (uint64_t)config->micro_batch;
    cadre_status rc = CADRE_OK;
    for (int64_t b = 0; b < config->micro_batch && rc == CADRE_OK; b++) {
        rc = cadre_dataset_train_sample(
            config->dataset, first + (uint64_t)b, inputs + b * loader->inputs,
            targets ? targets + b * loader->seq_len : NULL, labels ? labels + b : NULL);
    }
    return rc;
}

static void announced(const struct cadre_loader *loader, uint64_t number,
                      uint64_t *step, int64_t *microbatch)
{
    uint64_t n_microbatches = (uint64_t)loader->config.n_microbatches;
    *step = loader->config.first_step + number / n_microbatches;
    *microbatch = loader->config.first_microbatch +
                  (int64_t)(number % n_microbatches) * loader->config.microbatch_stride;
}

/* The number of (step, micro-batch) among those announced; false if it was not
 * announced. */
static bool find_number(const struct cadre_loader *loader, uint64_t step,
                        int64_t microbatch, uint64_t *number)
{
    const struct cadre_loader_config *config = &loader->config;
    int64_t offset = microbatch - config->first_microbatch;
    if (step < config->first_step || offset < 0 ||
        offset % config->microbatch_stride != 0 ||
        offset / config->microbatch_stride >= config->n_microbatches)
        return false;
    *number = (step - config->first_step) * (uint64_t)config->n_microbatches +
              (uint64_t)(offset / config->microbatch_stride);
    return true;
}

static void *read_ahead(void *argument)
{
    struct cadre_loader *loader = argument;
    uint64_t depth = (uint64_t)loader->config.prefetch;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (loader->next >= loader->taken + depth) {
            pthread_cond_wait(&loader->wanted, &loader->lock);
            continue;
        }
        uint64_t number = loader->next++, step = 0;
        struct slot *slot = &loader->slots[number % depth];
        int64_t microbatch = 0;
        slot->number = number;
        slot->filled = false;
        pthread_mutex_unlock(&loader->lock);
        announced(loader, number, &step, &microbatch);
        cadre_status rc = read_microbatch(loader, step, microbatch, slot->inputs,
                                          slot->targets, slot->labels);
        pthread_mutex_lock(&loader->lock);
        slot->rc = rc;
        slot->filled = true;
        pthread_cond_broadcast(&loader->filled);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static cadre_status check_config(const struct cadre_loader_config *config,
                                 const struct cadre_dataset_info *info,
                                 struct cadre_error *err)
{
    if (info->train_samples == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data: expected samples to train on, found none: the split is "
            "empty or shorter than one sample of %lld tokens",
            (long long)info->seq_len);
    if (config->micro_batch < 1 || config->global_batch < config->micro_batch ||
        config->global_batch % config->micro_batch != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "train.global_batch = %lld: expected a multiple of "
                          "train.micro_batch = %lld",
                          (long long)config->global_batch,
                          (long long)config->micro_batch);
    int64_t n_microbatches = config->global_batch / config->micro_batch;
    if (config->n_microbatches < 1 || config->microbatch_stride < 1 ||
        config->first_microbatch < 0 || config->first_microbatch >= n_microbatches ||
        config->n_microbatches - 1 >
            (n_microbatches - 1 - config->first_microbatch) / config->microbatch_stride)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "loader: expected micro-batches within the %lld of a step, found %lld "
            "from %lld on with stride %lld",
            (long long)n_microbatches, (long long)config->n_microbatches,
            (long long)config->first_microbatch, (long long)config->microbatch_stride);
    if (config->n_tokens < 0 || config->first_token < 0 ||
        config->n_tokens > info->seq_len ||
        config->first_token > info->seq_len - config->n_tokens)
        return cadre_fail(err, CADRE_E_INVALID,
                          "loader: expected tokens within the %lld of a sample, found "
                          "%lld from %lld on",
                          (long long)info->seq_len, (long long)config->n_tokens,
                          (long long)config->first_token);
    if (config->prefetch < 0 || config->prefetch > 4096)
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.prefetch: expected 0 to 4096, found %lld",
                          (long long)config->prefetch);
    return CADRE_OK;
}

static cadre_status make_slots(struct cadre_loader *loader)
{
    size_t depth = (size_t)loader->config.prefetch + (loader->config.n_tokens > 0);
    size_t batch = (size_t)loader->config.micro_batch;
    size_t tokens = batch * (size_t)loader->seq_len;
    size_t inputs = batch * (size_t)loader->inputs, stride = inputs + tokens + batch;
    loader->slots = cadre_calloc(depth, sizeof *loader->slots);
    loader->memory = cadre_calloc(depth * stride, sizeof *loader->memory);
    if (!loader->slots || !loader->memory)
        return CADRE_E_RESOURCE;
    for (size_t d = 0; d < depth; d++) {
        int32_t *memory = loader->memory + d * stride;
        loader->slots[d] = (struct slot){.inputs = memory,
                                         .targets = memory + inputs,
                                         .labels = memory + inputs + tokens};
    }
    return CADRE_OK;
}

static cadre_status run_thread(struct cadre_loader *loader)
{
    loader->has_thread = pthread_create(&loader->thread, NULL, read_ahead, loader) == 0;
    return loader->has_thread ? CADRE_OK : CADRE_E_RESOURCE;
}

static void end_thread(struct cadre_loader *loader)
{
    if (!loader->has_thread)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_signal(&loader->wanted);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    loader->has_thread = false;
}

static cadre_status start_thread(struct cadre_loader *loader)
{
    if (pthread_mutex_init(&loader->lock, NULL) != 0 ||
        pthread_cond_init(&loader->filled, NULL) != 0 ||
        pthread_cond_init(&loader->wanted, NULL) != 0)
        return CADRE_E_RESOURCE;
    loader->has_lock = true;
    return run_thread(loader);
}

cadre_status cadre_loader_create(const struct cadre_loader_config *config,
                                 struct cadre_loader **out, struct cadre_error *err)
{
    struct cadre_dataset_info info;
    struct cadre_loader *loader = NULL;
    cadre_status rc;
    cadre_dataset_info(config->dataset, &info);
    CADRE_TRY_OR(check_config(config, &info, err), fail);
    loader = calloc(1, sizeof *loader);
    if (!loader)
        return cadre_no_memory(err, "a loader");
    loader->config = *config;
    loader->seq_len = info.seq_len;
    loader->inputs = info.inputs;
    if (config->prefetch > 0 || config->n_tokens > 0)
        CADRE_TRY_OR(make_slots(loader), fail);
    if (config->prefetch > 0)
        CADRE_TRY_OR(start_thread(loader), fail);
    *out = loader;
    return CADRE_OK;
fail:
    cadre_loader_destroy(loader);
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "no memory or thread to read %lld micro-batches ahead",
                   (long long)config->prefetch);
    return rc;
}

void cadre_loader_destroy(struct cadre_loader *loader)
{
    if (!loader)
        return;
    end_thread(loader);
    if (loader->has_lock) {
        pthread_cond_destroy(&loader->wanted);
        pthread_cond_destroy(&loader->filled);
        pthread_mutex_destroy(&loader->lock);
    }
    free(loader->slots);
    free(loader->memory);
    free(loader);
}

/* The part that is asked for of each sample (micro_batch, each). */
static void copy_part(const struct cadre_loader *loader, int32_t *to,
                      const int32_t *from, int64_t each)
{
    const struct cadre_loader_config *config = &loader->config;
    int64_t n = config->n_tokens > 0 ? config->n_tokens : each;
    for (int64_t b = 0; b < config->micro_batch; b++)
        memcpy(to + b * n, from + b * each + config->first_token,
               (size_t)n * sizeof *to);
}

/* Copy the slot out. Only this thread moves `taken`, and the slot is not filled again
 * before that, so the copy needs no lock. */
static cadre_status copy_slot(const struct cadre_loader *loader,
                              const struct slot *slot, struct cadre_batch *batch)
{
    size_t count = (size_t)loader->config.micro_batch;
    if (slot->rc != CADRE_OK)
        return slot->rc;
    copy_part(loader, batch->inputs, slot->inputs, loader->inputs);
    if (batch->targets)
        copy_part(loader, batch->targets, slot->targets, loader->seq_len);
    if (batch->labels)
        memcpy(batch->labels, slot->labels, count * sizeof(int32_t));
    return CADRE_OK;
}

/* Wait for the announced micro-batch `number`, which is not taken yet. */
static cadre_status take(struct cadre_loader *loader, uint64_t number,
                         struct cadre_batch *batch)
{
    struct slot *slot = &loader->slots[number % (uint64_t)loader->config.prefetch];
    pthread_mutex_lock(&loader->lock);
    loader->taken = number;
    if (loader->next < number)
        loader->next = number;
    pthread_cond_signal(&loader->wanted);
    while (slot->number != number || !slot->filled)
        pthread_cond_wait(&loader->filled, &loader->lock);
    pthread_mutex_unlock(&loader->lock);
    cadre_status rc = copy_slot(loader, slot, batch);
    pthread_mutex_lock(&loader->lock);
    loader->taken = number + 1;
    pthread_cond_signal(&loader->wanted);
    pthread_mutex_unlock(&loader->lock);
    return rc;
}

/* What was not read ahead. */
static cadre_status read_now(struct cadre_loader *loader, uint64_t step,
                             int64_t microbatch, struct cadre_batch *batch)
{
    if (loader->config.n_tokens == 0)
        return read_microbatch(loader, step, microbatch, batch->inputs, batch->targets,
                               batch->labels);
    struct slot *slot = &loader->slots[loader->config.prefetch];
    slot->rc = read_microbatch(loader, step, microbatch, slot->inputs, slot->targets,
                               slot->labels);
    return copy_slot(loader, slot, batch);
}

/* They are counted, not read: nothing is to be read ahead. */
static cadre_status put_positions(const struct cadre_loader *loader, uint64_t step,
                                  int64_t microbatch, int32_t *positions)
{
    const struct cadre_loader_config *config = &loader->config;
    const uint64_t first = step * (uint64_t)config->global_batch +
                           (uint64_t)(microbatch * config->micro_batch);
    if (positions && config->n_tokens > 0)
        return CADRE_E_INVALID;
    for (int64_t b = 0; positions && b < config->micro_batch; b++)
        CADRE_TRY(cadre_dataset_positions(
            config->dataset, CADRE_SPLIT_TRAIN,
            cadre_dataset_order(config->dataset, first + (uint64_t)b),
            positions + b * loader->seq_len));
    return CADRE_OK;
}

cadre_status cadre_loader_next(struct cadre_loader *loader, uint64_t step,
                               int64_t microbatch, struct cadre_batch *batch)
{
    const struct cadre_loader_config *config = &loader->config;
    double begin = now_s();
    uint64_t number = 0;
    cadre_status rc;
    if (microbatch < 0 || microbatch >= config->global_batch / config->micro_batch)
        return CADRE_E_INVALID;
    /* Only this thread writes `taken`: reading it needs no lock. */
    if (config->prefetch > 0 && find_number(loader, step, microbatch, &number) &&
        number >= loader->taken)
        rc = take(loader, number, batch);
    else
        rc = read_now(loader, step, microbatch, batch);
    if (rc == CADRE_OK)
        rc = put_positions(loader, step, microbatch, batch->positions);
    batch->wait_s = now_s() - begin;
    loader->wait_s += batch->wait_s;
    return rc;
}

cadre_status cadre_loader_divide(struct cadre_loader *loader, uint64_t step,
                                 int64_t first, int64_t n)
{
    struct cadre_loader_config *config = &loader->config;
    const int64_t all = config->global_batch / config->micro_batch;
    if (first < 0 || n < 1 || first >= all ||
        n - 1 > (all - 1 - first) / config->microbatch_stride)
        return CADRE_E_INVALID;
    end_thread(loader);
    config->first_step = step;
    config->first_microbatch = first;
    config->n_microbatches = n;
    if (config->prefetch == 0)
        return CADRE_OK;
    for (int64_t d = 0; d < config->prefetch; d++)
        loader->slots[d].filled = false;
    loader->taken = loader->next = 0;
    loader->stop = false;
    return run_thread(loader);
}

double cadre_loader_wait_s(const struct cadre_loader *loader)
{
    return loader->wait_s;
}
