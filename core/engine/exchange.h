/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a run exchange once a step: losses, votes, and the times of their
 * passes. All are sums over the world; one collective carries them. */
#ifndef CADRE_ENGINE_EXCHANGE_H
#define CADRE_ENGINE_EXCHANGE_H

#include "core/engine/layout/mesh.h"

/* A rank's votes, set by the caller before a step: stop; checkpoint still being
 * written; checkpoint could not be written. */
struct cadre_votes {
    bool stop, saving, save_failed;
};

struct cadre_exchange {
    struct cadre_comm *world; /* NULL: one rank */
    const struct cadre_mesh *mesh;
    struct cadre_timeline *timeline;
    const struct cadre_axis *schedule; /* along it ranks have bubbles; NULL: none */
    size_t n_losses; /* micro-batches of a step */
    double *values; /* losses, votes, times, speeds */
    struct cadre_votes votes; /* of this rank */
    /* Of balance.micro_batches = measured, else NULL: what data rank i took for one
     * micro-batch, the slowest of the ranks that share its samples. Of this rank,
     * micro_s is set before the losses are exchanged with an outcome. */
    double *data_s; /* (data ranks); the caller's */
    double micro_s;
    double hidden_s; /* waits that lay in this rank's bubbles so far */
};

/* Result of the votes and times of all ranks. */
struct cadre_exchange_outcome {
    struct cadre_votes votes; /* some rank's */
    double span_s, bubble_s;
};

/* Allocate; world, mesh, timeline, schedule and n_losses are set. Errors:
 * CADRE_E_RESOURCE, without a text. */
cadre_status cadre_exchange_init(struct cadre_exchange *exchange);
void cadre_exchange_fini(struct cadre_exchange *exchange);

/* [collective: world] values (n) become their sum over the ranks. */
cadre_status cadre_exchange_sum(const struct cadre_exchange *exchange,
                                const char *label, double *values, uint64_t n);

/* [collective: world] exchange->values begins with the sums of all ranks' losses
 * (n_losses); NULL: this rank has none. With `outcome`, votes and times are exchanged
 * too, and the timeline keeps the passes of `step`. */
cadre_status cadre_exchange_losses(struct cadre_exchange *exchange,
                                   const double *losses, uint64_t step,
                                   struct cadre_exchange_outcome *outcome);

#endif
