/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of pairs, on the host: a few numbers of a micro-batch, from the losses of
 * its rows. Their seeds in backward depend on it, so it is found after each forward. */
#include "core/engine/execute/executor_private.h"

#include <math.h>

#include "core/base/memory.h"
#include "core/base/tree.h"
#include "core/engine/execute/preference.h"

cadre_status cadre_executor_make_pairs(struct cadre_executor *exec)
{
    const struct cadre_executor_config *config = &exec->config;
    const size_t rows = (size_t)(config->batch * config->time);
    if (!config->preference)
        return CADRE_OK;
    exec->logit_rows = cadre_ledger_alloc(config->ledger, CADRE_SPACE_DEVICE,
                                          rows * sizeof *exec->logit_rows, "loss");
    exec->logit_host = cadre_calloc(rows, sizeof *exec->logit_host);
    exec->target_host = cadre_calloc(rows, sizeof *exec->target_host);
    return exec->logit_rows && exec->logit_host && exec->target_host ? CADRE_OK
                                                                     : CADRE_E_RESOURCE;
}

bool cadre_executor_make_seeds(const struct cadre_executor_config *config,
                               struct cadre_slot *slot)
{
    slot->loss_seeds = cadre_calloc((size_t)config->batch, sizeof *slot->loss_seeds);
    return slot->loss_seeds != NULL;
}

/* The log-probability of the answer of a sequence of the micro-batch. */
static double log_prob(const struct cadre_executor *exec, int64_t sequence)
{
    const int64_t T = exec->config.time;
    return -cadre_tree_sum(exec->loss_host + sequence * T, (size_t)T);
}

/* Add the logits of a sequence's targets, each a mean over the vocabulary, and how many
 * targets it has. */
static void add_logits(const struct cadre_executor *exec, int64_t sequence,
                       double *logits, double *targets)
{
    const int64_t T = exec->config.time;
    *logits += cadre_tree_sum(exec->logit_host + sequence * T, (size_t)T) /
               (double)exec->config.model->config.vocab;
    for (int64_t t = 0; t < T; t++)
        *targets += exec->target_host[sequence * T + t] >= 0;
}

/* The pair that begins with `sequence`: add its figures, set its seeds. */
static cadre_status judge(const struct cadre_executor *exec,
                          const struct cadre_slot *slot, int64_t sequence,
                          double total[CADRE_PREFERENCE_SUMS], struct cadre_error *why)
{
    const struct cadre_preference *preference = exec->config.preference;
    const uint64_t position = cadre_executor_sample(exec, slot) + (uint64_t)sequence;
    const uint64_t sample = cadre_preference_sample(preference, position);
    const double *reference = preference->train + sample;
    const double policy[2] = {log_prob(exec, sequence), log_prob(exec, sequence + 1)};
    double figures[CADRE_PREFERENCE_JUDGED], slope;
    if (isnan(reference[0]) || isnan(reference[1]))
        return cadre_fail(why, CADRE_E_INTERNAL,
                          "the reference was not measured on training samples %llu and "
                          "%llu of step %llu",
                          (unsigned long long)sample, (unsigned long long)sample + 1,
                          (unsigned long long)exec->step);
    cadre_preference_judge(&preference->config, policy, reference, figures, &slope);
    for (int i = 0; i < CADRE_PREFERENCE_JUDGED; i++)
        total[i] += figures[i];
    for (int i = 0; i < 2; i++)
        add_logits(exec, sequence + i, &total[CADRE_PREFERENCE_LOGITS_CHOSEN + i],
                   &total[CADRE_PREFERENCE_TARGETS_CHOSEN + i]);
    /* a row's loss is minus its part of the log-probability */
    slot->loss_seeds[sequence] = -slope * cadre_executor_seed(exec);
    slot->loss_seeds[sequence + 1] = slope * cadre_executor_seed(exec);
    return CADRE_OK;
}

cadre_status cadre_executor_collect_pairs(struct cadre_executor *exec,
                                          struct cadre_slot *slot,
                                          struct cadre_error *why)
{
    const struct cadre_executor_config *config = &exec->config;
    struct cadre_device *device = config->device;
    const size_t width = cadre_preference_width(config->batch);
    const size_t rows = (size_t)(config->batch * config->time);
    double *to = config->losses + (size_t)slot->global_microbatch * width;
    double total[CADRE_PREFERENCE_SUMS] = {0};
    CADRE_TRY(device->ops->to_host(device, exec->loss_host, exec->loss_rows,
                                   rows * sizeof *exec->loss_host));
    if (config->preference->measuring) {
        for (int64_t b = 0; b < config->batch; b++)
            slot->loss_seeds[b] = log_prob(exec, b);
        return device->ops->to_device(device, to, slot->loss_seeds,
                                      (size_t)config->batch * sizeof *to);
    }
    CADRE_TRY(device->ops->to_host(device, exec->logit_host, exec->logit_rows,
                                   rows * sizeof *exec->logit_host));
    CADRE_TRY(device->ops->to_host(device, exec->target_host, slot->targets,
                                   rows * sizeof *exec->target_host));
    for (int64_t b = 0; b + 1 < config->batch; b += 2)
        CADRE_TRY(judge(exec, slot, b, total, why));
    return device->ops->to_device(device, to, total, sizeof total);
}
