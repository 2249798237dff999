/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/redeal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/engine/rank.h"

static int64_t microbatches_of(const struct cadre_rank *rank)
{
    return rank->spec->global_batch / rank->spec->micro_batch;
}

/* ---- life ---- */

cadre_status cadre_redeal_init(struct cadre_rank *rank, struct cadre_error *err)
{
    const struct cadre_config *config = rank->spec->config;
    rank->pace.pace = 1;
    if (!config)
        return CADRE_OK;
    CADRE_TRY(cadre_pace_of(config->device.pace, rank->index, rank->mesh.ranks,
                            &rank->pace.pace, err));
    return cadre_division_init(&rank->redeal.division, config->balance.micro_batches,
                               config->balance.limit, err);
}

void cadre_redeal_fini(struct cadre_redeal *redeal)
{
    cadre_division_fini(&redeal->division);
    cadre_balance_fini(&redeal->balance);
    free(redeal->next);
    free(redeal->data_s);
    *redeal = (struct cadre_redeal){0};
}

const struct cadre_division *cadre_redeal_division(const struct cadre_rank *rank)
{
    const struct cadre_division *division = &rank->redeal.division;
    return division->kind == CADRE_DIVISION_OFF ? NULL : division;
}

/* Where the device queues its work, the host sees neither its time nor its end. */
static cadre_status check_device(const struct cadre_rank *rank, struct cadre_error *err)
{
    const struct cadre_config *config = rank->spec->config;
    if (!rank->device->ops->async || !config)
        return CADRE_OK;
    if (*config->device.pace)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "device.pace = %s simulates slow ranks on the CPU alone; "
                          "leave it empty, or set device.kind = cpu",
                          config->device.pace);
    if (rank->plan.most > 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "balance.micro_batches = %s changes between steps, which "
                          "takes a device that computes inline; give the shares of the "
                          "data ranks, as 2, 1, or set device.kind = cpu",
                          rank->redeal.division.text);
    return CADRE_OK;
}

cadre_status cadre_redeal_start(struct cadre_rank *rank, struct cadre_error *err)
{
    struct cadre_redeal *redeal = &rank->redeal;
    const int n = cadre_mesh_data_size(&rank->mesh);
    CADRE_TRY(check_device(rank, err));
    if (rank->plan.most == 0)
        return CADRE_OK;
    redeal->next = cadre_calloc((size_t)n + 1, sizeof *redeal->next);
    if (!redeal->next)
        return cadre_no_memory(err, "the micro-batches of %d ranks", n);
    if (redeal->division.kind != CADRE_DIVISION_MEASURED)
        return CADRE_OK;
    redeal->data_s = cadre_calloc((size_t)n, sizeof *redeal->data_s);
    if (!redeal->data_s)
        return cadre_no_memory(err, "the speeds of %d ranks", n);
    rank->exchange.data_s = redeal->data_s;
    return cadre_balance_init(&redeal->balance, n, microbatches_of(rank),
                              rank->plan.most, err);
}

/* ---- between two steps ---- */

/* The plan, and all that was made for its micro-batches, takes up redeal->next. */
static cadre_status take_up(struct cadre_rank *rank, uint64_t step)
{
    struct cadre_rank_plan *plan = &rank->plan;
    const uint64_t *next = rank->redeal.next;
    const int index = cadre_mesh_data_index(&rank->mesh);
    memcpy(plan->first, next, (size_t)plan->n_first * sizeof *next);
    plan->first_microbatch = (int64_t)next[index];
    plan->n_microbatches = (int64_t)(next[index + 1] - next[index]);
    cadre_executor_divide(rank->exec);
    cadre_status rc = CADRE_OK;
    if (rank->loader)
        rc = cadre_loader_divide(rank->loader, step - 1, plan->first_microbatch,
                                 plan->n_microbatches);
    if (rc != CADRE_OK)
        return cadre_fail(&rank->failure, rc,
                          "cannot read micro-batches %lld to %lld from step %llu on: "
                          "%s",
                          (long long)plan->first_microbatch,
                          (long long)(plan->first_microbatch + plan->n_microbatches),
                          (unsigned long long)step, cadre_strerror(rc));
    return rc;
}

cadre_status cadre_redeal_begin(struct cadre_rank *rank, uint64_t step)
{
    struct cadre_redeal *redeal = &rank->redeal;
    const struct cadre_rank_plan *plan = &rank->plan;
    redeal->changed = false;
    if (!redeal->next)
        return CADRE_OK;
    if (redeal->division.kind == CADRE_DIVISION_SHARES) {
        CADRE_TRY(cadre_division_at(&redeal->division, step, microbatches_of(rank),
                                    plan->n_first - 1, redeal->next, &rank->failure));
        redeal->due = memcmp(redeal->next, plan->first,
                             (size_t)plan->n_first * sizeof *redeal->next) != 0;
    }
    if (!redeal->due)
        return CADRE_OK;
    redeal->due = false;
    redeal->changed = true;
    return take_up(rank, step);
}

void cadre_redeal_measure(struct cadre_rank *rank)
{
    if (rank->exchange.data_s)
        rank->exchange.micro_s =
            rank->timeline.pass_s / (double)rank->plan.n_microbatches;
}

void cadre_redeal_judge(struct cadre_rank *rank)
{
    struct cadre_redeal *redeal = &rank->redeal;
    if (redeal->data_s)
        redeal->due = cadre_balance_judge(&redeal->balance, redeal->data_s,
                                          rank->plan.first, redeal->next);
}

void cadre_redeal_report(struct cadre_rank *rank, struct cadre_step_report *report)
{
    struct cadre_redeal *redeal = &rank->redeal;
    if (!rank->plan.divided || report->step == 0 || (redeal->told && !redeal->changed))
        return;
    redeal->told = true;
    report->first = rank->plan.first;
    report->data_ranks = rank->plan.n_first - 1;
}
