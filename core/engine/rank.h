/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a run: its device, model, storage, strategies and executor, and the
 * optimizer step over them. A rank is a thread or a process; nothing here is shared
 * between ranks but the spec and the data set. rank.c is its life, rank_step.c a step.
 */
#ifndef CADRE_ENGINE_RANK_H
#define CADRE_ENGINE_RANK_H

#include "core/data/loader.h"
#include "core/optim/loss_scale.h"
#include "core/engine/layout/agree.h"
#include "core/engine/strategy/chain.h"
#include "core/engine/execute/executor.h"
#include "core/engine/results.h"
#include "core/engine/layout/stages.h"
#include "core/engine/update.h"

struct cadre_rank {
    const struct cadre_run_spec *spec;
    int index;
    uint64_t step;
    struct cadre_error failure; /* the first text recorded by host->fail or the core */
    struct cadre_comm *world; /* NULL: one rank, or plan only */
    struct cadre_device *device;
    bool device_lent; /* it is the caller's, set between plan and bind */
    struct cadre_tuning tuning; /* of the device, as agreed at the start */
    struct cadre_mesh mesh;
    struct cadre_model *model;
    struct cadre_ledger ledger;
    struct cadre_rank_plan plan;
    struct cadre_services services; /* of the chain's plugins */
    struct cadre_chain chain;
    struct cadre_store store;
    struct cadre_stages stages;
    struct cadre_loader *loader;
    struct cadre_timeline timeline;
    struct cadre_executor *exec;
    struct cadre_exchange exchange; /* its votes are the caller's to set */
    struct cadre_results results;
    struct cadre_update update;
    struct cadre_loss_scale loss_scale;
};

/* Make rank `index` up to its plan: no storage, no communication. On failure it is
 * gone. The rank must not move afterwards. */
cadre_status cadre_rank_plan(struct cadre_rank *rank, const struct cadre_run_spec *spec,
                             int index, struct cadre_error *err);

/* [collective: world] Agree, connect the mesh, allocate, bind the plugins. `world` is
 * NULL for one rank and stays the caller's; first_step is the step before the first to
 * run. */
cadre_status cadre_rank_bind(struct cadre_rank *rank, struct cadre_comm *world,
                             uint64_t first_step, struct cadre_error *err);

/* [collective: world] One optimizer step, numbered from 1. On a device whose ops are
 * queued the report is that of the step before (its votes are of this one), but under
 * fp16; else of this one. On error rank->failure holds the text. Errors:
 * CADRE_E_NUMERIC names step, rank and tensor; the named step updated nothing. */
cadre_status cadre_rank_step(struct cadre_rank *rank, uint64_t step,
                             struct cadre_step_report *report);

/* [collective: world] The report of the last step, where it was not given yet, without
 * votes; else `report` is left as it is. Waits for the device. Before anything that
 * rests on the step having gone well. Errors as cadre_rank_step. */
cadre_status cadre_rank_flush(struct cadre_rank *rank,
                              struct cadre_step_report *report);

/* Does this rank own a parameter's OPT range, in the norm and in checkpoints? Exactly
 * one of the ranks that hold the same values does: see rank_plan.h. */
bool cadre_rank_is_primary_owner(const struct cadre_rank *rank, uint32_t param);

/* The same within each replica along `diverging`, an axis of replicas that differ. */
bool cadre_rank_is_primary_owner_within(const struct cadre_rank *rank, uint32_t param,
                                        const struct cadre_axis *diverging);

/* The same for the losses of its samples. */
bool cadre_rank_is_primary_owner_for_loss(const struct cadre_rank *rank);

/* [collective: world] values (n) become their sum over the ranks. */
cadre_status cadre_rank_sum(struct cadre_rank *rank, const char *label, double *values,
                            uint64_t n);

/* Nothing in flight: parameters and states may be read. On error rank->failure holds
 * the text. */
cadre_status cadre_rank_drain(struct cadre_rank *rank);

/* Accepts a zeroed or half-made rank. */
void cadre_rank_fini(struct cadre_rank *rank);

/* How this rank's device multiplies by now: without run.exact, choices are added as
 * training goes on. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_rank_tuning(const struct cadre_rank *rank, struct cadre_tuning *out);

/* What makes this rank's sums other than those of `single` under run.exact: "" for
 * nothing, else text such as "act.complete@tp:2". Runs of run.exact have the same bits
 * where their texts are the same. Any rank of the run says the same. */
#define CADRE_SUMS_CHARS 96
void cadre_rank_reduction_signature(const struct cadre_rank *rank,
                                    char out[CADRE_SUMS_CHARS]);

/* The axis whose ranks train replicas that differ (param.diverges), NULL for none. Each
 * replica has a norm and a clipping of its own. */
const struct cadre_axis *cadre_rank_diverging_axis(const struct cadre_rank *rank);

/* In what a run trains otherwise than `single`, by design. Any rank says the same. */
struct cadre_changes {
    char by[64]; /* the plugins that claim train.changed, "" for none */
    bool diverging; /* replicas differ, and with them their gradients' norms */
};
void cadre_rank_changes(const struct cadre_rank *rank, struct cadre_changes *out);

/* Print composition (of rank 0 alone, it is that of all), placement and planned memory
 * of this rank. Returns that memory in bytes. */
uint64_t cadre_rank_print(const struct cadre_rank *rank, FILE *out);

/* Communication counters of the rank since the start, all groups together, less the
 * waits that lay in its bubbles. */
void cadre_rank_comm(const struct cadre_rank *rank, struct cadre_comm_stats *out);

#endif
