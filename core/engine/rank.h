/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a run: its device, model, storage, strategies and executor, and the
 * optimizer step over them. A rank is a thread or a process; ranks share nothing but
 * the spec and the data set. rank.c makes and ends a rank, rank_step.c runs a step. */
#ifndef CADRE_ENGINE_RANK_H
#define CADRE_ENGINE_RANK_H

#include "core/data/loader.h"
#include "core/engine/execute/executor.h"
#include "core/engine/execute/preference.h"
#include "core/engine/layout/agree.h"
#include "core/engine/layout/stages.h"
#include "core/engine/redeal.h"
#include "core/engine/results.h"
#include "core/engine/strategy/chain.h"
#include "core/engine/strategy/wire.h"
#include "core/engine/update.h"
#include "core/engine/verify.h"
#include "core/optim/loss_scale.h"

struct cadre_rank_page;

struct cadre_rank {
    const struct cadre_run_spec *spec;
    int index;
    uint64_t step;
    struct cadre_error failure; /* the first text recorded by host->fail or the core */
    struct cadre_comm *world; /* NULL: one rank, or plan only */
    struct cadre_device *device;
    bool device_lent; /* the device is the caller's, set between plan and bind */
    int threads; /* of the device, set likewise; 0: the spec's */
    struct cadre_tuning tuning; /* of the device, as agreed at the start */
    struct cadre_mesh mesh;
    struct cadre_model *model;
    struct cadre_ledger ledger;
    struct cadre_rank_plan plan;
    struct cadre_services services; /* of the chain's plugins */
    struct cadre_chain chain;
    struct cadre_wire wire; /* of services, where wire.codec is claimed */
    struct cadre_store store;
    struct cadre_stages stages;
    struct cadre_loader *loader;
    struct cadre_preference preference; /* without a dataset: no pairs */
    struct cadre_rank_page *page; /* its status page, set between plan and bind; the
                                     caller's; NULL: nobody looks */
    struct cadre_timeline timeline;
    struct cadre_pace pace; /* of a simulated slow rank */
    struct cadre_redeal redeal;
    struct cadre_executor *exec;
    struct cadre_exchange exchange; /* the caller sets its votes */
    struct cadre_results results;
    struct cadre_update update;
    struct cadre_verify verify;
    struct cadre_loss_scale loss_scale;
};

/* Make rank `index` and its plan: no storage, no communication. On failure nothing is
 * left of it. The rank must not move afterwards. */
cadre_status cadre_rank_plan(struct cadre_rank *rank, const struct cadre_run_spec *spec,
                             int index, struct cadre_error *err);

/* [collective: world] Agree, connect the mesh, allocate, bind the plugins. `world` is
 * NULL for one rank and stays the caller's; first_step is the step before the first to
 * run. */
cadre_status cadre_rank_bind(struct cadre_rank *rank, struct cadre_comm *world,
                             uint64_t first_step, struct cadre_error *err);

/* [collective: world] One optimizer step, numbered from 1. The report is of this step.
 * On a device whose ops are queued, except under fp16, it is of the step before, with
 * the votes of this one. On error rank->failure holds the text. Errors: CADRE_E_NUMERIC
 * names step, rank and tensor; the named step updated nothing. */
cadre_status cadre_rank_step(struct cadre_rank *rank, uint64_t step,
                             struct cadre_step_report *report);

/* [collective: world] The mean loss of step `step`'s batch, by forward passes through
 * the schedule alone; nothing is updated. No step may be unreported (cadre_rank_flush).
 * Errors as cadre_rank_step. */
cadre_status cadre_rank_forward(struct cadre_rank *rank, uint64_t step, double *loss);

/* [collective: world] As cadre_rank_forward, of tune.method = dpo: the
 * log-probabilities of the step's samples under the parameters that there are, without
 * adapters. Those of samples whose reference is not known are it; it is the same on all
 * ranks. */
cadre_status cadre_rank_measure_reference(struct cadre_rank *rank, uint64_t step);

/* Does the run train on pairs? */
bool cadre_rank_has_pairs(const struct cadre_rank *rank);

/* [collective: world] The report of the last step, without votes, if it was not
 * returned yet; else `report` is unchanged. Waits for the device. Call it before
 * anything that relies on the step's success. Errors as cadre_rank_step. */
cadre_status cadre_rank_flush(struct cadre_rank *rank,
                              struct cadre_step_report *report);

/* Is this rank the primary owner of a parameter's OPT range, for the norm and
 * checkpoints? Exactly one of the ranks that hold the same values is: see rank_plan.h.
 */
bool cadre_rank_is_primary_owner(const struct cadre_rank *rank, uint32_t param);

/* The same within each replica along `diverging`, an axis of replicas that differ. */
bool cadre_rank_is_primary_owner_within(const struct cadre_rank *rank, uint32_t param,
                                        const struct cadre_axis *diverging);

/* The same for the losses of its samples. */
bool cadre_rank_is_primary_owner_for_loss(const struct cadre_rank *rank);

/* [collective: world] values (n) become their sum over the ranks. */
cadre_status cadre_rank_sum(struct cadre_rank *rank, const char *label, double *values,
                            uint64_t n);

/* Wait until nothing is in flight: parameters and states may then be read. On error
 * rank->failure holds the text. */
cadre_status cadre_rank_drain(struct cadre_rank *rank);

/* Accepts a zeroed or partly made rank. */
void cadre_rank_fini(struct cadre_rank *rank);

/* The matrix multiplication algorithms of this rank's device; without run.exact,
 * training adds to them. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_rank_tuning(const struct cadre_rank *rank, struct cadre_tuning *out);

/* The reduction signature: what makes this rank's sums differ from those of `single`
 * under run.exact: "" for nothing, else text such as "act.complete@tp:2". Exact runs
 * with equal signatures have the same bits. Every rank of the run returns the same. */
#define CADRE_SIGNATURE_CHARS 96
void cadre_rank_reduction_signature(const struct cadre_rank *rank,
                                    char out[CADRE_SIGNATURE_CHARS]);

/* The axis whose ranks train replicas that differ (param.diverges), NULL for none. Each
 * replica has a norm and a clipping of its own. */
const struct cadre_axis *cadre_rank_diverging_axis(const struct cadre_rank *rank);

/* How a run trains differently from `single`, by design. The same on every rank. */
struct cadre_changes {
    char by[64]; /* the plugins that say so (by_design), "" for none */
    /* the setting under which it must be the same, as `cadre compare` sets it; see
     * cadre_rank_plan_equal */
    char equal[CADRE_MAX_INSTANCES * CADRE_EQUAL_CHARS];
    uint64_t period; /* steps after which the work of its strategies repeats */
    bool diverging; /* replicas differ, and so do their gradient norms */
};
void cadre_rank_changes(const struct cadre_rank *rank, struct cadre_changes *out);

/* The memory that this rank plans for, by tag and space; now_bytes is all of it. After
 * cadre_rank_plan. */
void cadre_rank_memory(const struct cadre_rank *rank, struct cadre_ledger *out);

/* Add to the text of an error for lack of memory what this rank has taken, plans for
 * and finds free, and which options help. err may be NULL. */
void cadre_rank_tell_memory(const struct cadre_rank *rank, struct cadre_error *err);

/* Print composition (rank 0 only: it is the same on all), placement and planned memory
 * of this rank. Returns that memory in bytes. */
uint64_t cadre_rank_print(const struct cadre_rank *rank, FILE *out);

/* Communication counters of the rank since the start, summed over all groups, less the
 * waits in its bubbles. */
void cadre_rank_comm(const struct cadre_rank *rank, struct cadre_comm_stats *out);

#endif
