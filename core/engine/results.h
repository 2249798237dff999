/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a step on the device (losses, norm and factor of its gradients), and their
 * copy to the host. Where ops are queued they are read one step late, so that the
 * device always has work; two buffers are used in turn. */
#ifndef CADRE_ENGINE_RESULTS_H
#define CADRE_ENGINE_RESULTS_H

#include "core/engine/layout/ledger.h"
#include "core/engine/step_report.h"

/* Results of one step, being copied to the host. */
struct cadre_result {
    uint64_t step; /* 0: empty */
    double *chunks; /* device memory: of the gradient's norm, see update.h */
    double *host; /* pinned: losses (M), norm, factor of the gradients */
    cadre_device_event done;
    double lr;
    struct cadre_step_times times;
};

enum { CADRE_RESULTS = 2 };

struct cadre_results {
    struct cadre_device *device;
    size_t n_losses; /* M: micro-batches of a step */
    /* device memory: losses (M), sums over the step's micro-batches; then {norm, factor
     * of the gradients} */
    double *losses;
    struct cadre_result result[CADRE_RESULTS]; /* by step */
};

/* Allocate for n_losses micro-batches and n_chunks chunks of the norm. All memory is
 * the ledger's. Errors: CADRE_E_RESOURCE, without a text. */
cadre_status cadre_results_init(struct cadre_results *results,
                                struct cadre_ledger *ledger, size_t n_losses,
                                uint64_t n_chunks);

/* Planned bytes of the same, recorded in `ledger`. */
void cadre_results_note(struct cadre_ledger *ledger, size_t n_losses,
                        uint64_t n_chunks);

/* {norm, factor of the gradients} behind the losses, device memory. */
double *cadre_results_norm(const struct cadre_results *results);

/* The buffer of a step. */
struct cadre_result *cadre_results_of(struct cadre_results *results, uint64_t step);

/* Copy a step's losses, or its norm, to the buffer, and wait. */
cadre_status cadre_results_read_losses(const struct cadre_results *results,
                                       struct cadre_result *result);
cadre_status cadre_results_read_norm(const struct cadre_results *results,
                                     struct cadre_result *result);

/* [stream] Copy both to the buffer; result->done marks completion. */
cadre_status cadre_results_download(const struct cadre_results *results,
                                    struct cadre_result *result);

#endif
