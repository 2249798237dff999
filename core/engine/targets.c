/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/targets.h"

static bool counted(const struct cadre_run_spec *spec)
{
    struct cadre_dataset_info info = {0};
    if (spec->dataset)
        cadre_dataset_info(spec->dataset, &info);
    return info.masked;
}

double cadre_targets_of_step(const struct cadre_rank *rank, uint64_t step)
{
    const struct cadre_run_spec *spec = rank->spec;
    const uint64_t samples = (uint64_t)spec->global_batch, pairs = samples / 2;
    const int64_t each = spec->model.classes > 0 ? 1 : spec->time;
    if (spec->preference.on)
        return (double)pairs;
    if (!counted(spec))
        return (double)(spec->global_batch * each);
    const uint64_t n =
        cadre_dataset_targets(spec->dataset, (step - 1) * samples, samples);
    return n > 0 ? (double)n : 1;
}

double cadre_targets_of_seed(const struct cadre_rank *rank, uint64_t step)
{
    const struct cadre_axis *replicas = cadre_rank_diverging_axis(rank);
    return cadre_targets_of_step(rank, step) / (replicas ? replicas->size : 1);
}
