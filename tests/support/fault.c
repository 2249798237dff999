/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes of the core, on demand. cadre_faulty is the program with the functions below
 * replacing the core's own (ld --wrap). The name of the run (`train CONF --run NAME`)
 * selects the mistake, so that one comparison has several, each next to a baseline
 * without one; other names change nothing. Each of these mistakes has occurred in a
 * released framework: see docs/comparison.md. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/loader.h"
#include "core/engine/exchange.h"
#include "core/engine/execute/executor_private.h"
#include "core/engine/tied.h"
#include "core/model/init.h"
#include "core/model/unit.h"

/* Runs before main. The environment is where threads and children find it. */
__attribute__((constructor)) static void choose_fault(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--run") == 0)
            setenv("CADRE_FAULT", argv[i + 1], 1);
}

static bool is(const char *fault)
{
    const char *chosen = getenv("CADRE_FAULT");
    return chosen && strcmp(chosen, fault) == 0;
}

/* Define what replaces a function of the core; the linker calls the old one __real_. */
#define REPLACE(function, ...)                                                         \
    cadre_status __real_##function(__VA_ARGS__);                                       \
    cadre_status __wrap_##function(__VA_ARGS__);                                       \
    cadre_status __wrap_##function(__VA_ARGS__)

/* The loss divided by the targets of this rank, or of the micro-batch. */
REPLACE(cadre_executor_create, const struct cadre_executor_config *config,
        struct cadre_executor **out, struct cadre_error *err)
{
    struct cadre_executor_config wrong = *config;
    const double targets = (double)(config->batch * config->time);
    if (is("loss_per_rank"))
        wrong.step_targets = targets * (double)config->plan->n_microbatches;
    if (is("loss_per_micro_batch"))
        wrong.step_targets = targets;
    return __real_cadre_executor_create(&wrong, out, err);
}

/* The last micro-batch contributes no gradient. */
REPLACE(cadre_unit_backward_input, const struct cadre_model *model, uint32_t unit,
        const struct cadre_pass *pass, const void *x, const void *dy, void *dx)
{
    struct cadre_pass wrong = *pass;
    const struct cadre_executor *exec = pass->hook_arg;
    if (is("drop_last") && exec->microbatch + 1 == exec->config.plan->n_microbatches)
        wrong.loss_seed = 0;
    return __real_cadre_unit_backward_input(model, unit, &wrong, x, dy, dx);
}

/* fp32 as bf16 keeps it, rounded to even. */
static void round_bf16(float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1);
        bits &= 0xffff0000;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

/* Optimizer states kept in bf16; the host may write the CPU's memory. */
REPLACE(cadre_optimizer_step, const struct cadre_optimizer_config *config,
        struct cadre_device *device, uint32_t dtype, const struct cadre_slice *slices,
        size_t n, int64_t step, const double *grad_scale)
{
    cadre_status rc =
        __real_cadre_optimizer_step(config, device, dtype, slices, n, step, grad_scale);
    for (size_t i = 0; rc == CADRE_OK && is("bf16_states") && i < n; i++) {
        round_bf16(slices[i].exp_avg, (uint64_t)slices[i].count);
        round_bf16(slices[i].exp_avg_sq, (uint64_t)slices[i].count);
    }
    return rc;
}

/* Every data rank draws different numbers. */
REPLACE(cadre_store_init, struct cadre_store *store, struct cadre_model *model,
        const struct cadre_rank_plan *plan, struct cadre_ledger *ledger,
        enum cadre_optimizer_kind optimizer, uint64_t seed, struct cadre_error *err)
{
    if (is("random_per_rank"))
        seed += (uint64_t)plan->first_microbatch;
    return __real_cadre_store_init(store, model, plan, ledger, optimizer, seed, err);
}

/* Every shard of a parameter draws from the beginning. */
void __real_cadre_model_init_range(const struct cadre_model *model, uint32_t index,
                                   uint64_t seed, uint64_t begin, uint64_t count,
                                   void *out);
void __wrap_cadre_model_init_range(const struct cadre_model *model, uint32_t index,
                                   uint64_t seed, uint64_t begin, uint64_t count,
                                   void *out);
void __wrap_cadre_model_init_range(const struct cadre_model *model, uint32_t index,
                                   uint64_t seed, uint64_t begin, uint64_t count,
                                   void *out)
{
    if (is("random_per_shard"))
        begin = 0;
    __real_cadre_model_init_range(model, index, seed, begin, count, out);
}

/* Micro-batches added in order of arrival, not in the tree. */
REPLACE(cadre_accumulation_init, struct cadre_accumulation *accumulation,
        struct cadre_store *store, struct cadre_ledger *ledger, bool exact,
        struct cadre_error *err)
{
    return __real_cadre_accumulation_init(accumulation, store, ledger,
                                          exact && !is("order"), err);
}

/* The norm of only this rank's shards, or of everything that every rank holds. */
REPLACE(cadre_exchange_sum, const struct cadre_exchange *exchange, const char *label,
        double *values, uint64_t n)
{
    bool norm = strcmp(label, "gradient norm") == 0;
    if (norm && is("norm_of_shards"))
        return CADRE_OK;
    cadre_status rc = __real_cadre_exchange_sum(exchange, label, values, n);
    if (rc == CADRE_OK && norm && is("norm_of_replicas"))
        rc = __real_cadre_exchange_sum(exchange, label, values, n);
    return rc;
}

/* Tied weights on two stages: the head's gradient stays there, or its values do. */
REPLACE(cadre_tied_add, const struct cadre_store *store,
        const struct cadre_stages *stages, struct cadre_error *why)
{
    return is("tied_gradient") ? CADRE_OK : __real_cadre_tied_add(store, stages, why);
}

REPLACE(cadre_tied_copy, const struct cadre_store *store,
        const struct cadre_stages *stages)
{
    return is("tied_values") ? CADRE_OK : __real_cadre_tied_copy(store, stages);
}

/* Every rank moves the cursor of all. */
REPLACE(cadre_loader_create, const struct cadre_loader_config *config,
        struct cadre_loader **out, struct cadre_error *err)
{
    struct cadre_loader_config wrong = *config;
    int64_t ranks =
        config->global_batch / (config->micro_batch * config->n_microbatches);
    if (is("cursor_per_rank"))
        wrong.global_batch *= ranks;
    return __real_cadre_loader_create(&wrong, out, err);
}
