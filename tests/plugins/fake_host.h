/* SPDX-License-Identifier: Apache-2.0 */
/* A host for one plugin instance without a model, ranks or threads: it records what is
 * posted and answers at once. An all_reduce over R ranks that all hold the same values
 * multiplies by R, when it is joined. */
#ifndef CADRE_TESTS_FAKE_HOST_H
#define CADRE_TESTS_FAKE_HOST_H

#include <stdbool.h>

#include <cadre/strategy.h>

#define FAKE_ENTRIES 256
#define FAKE_POSTS 1024

/* One posted all_reduce. */
struct fake_post {
    const char *label;
    float *data;
    uint64_t count;
    cadre_event after;
    bool joined;
};

struct fake_host {
    struct cadre_host host;
    struct cadre_values values;
    struct cadre_plan plan;
    struct cadre_next next;

    /* set before create */
    int ranks, index; /* along `axis` */
    const char *axis;
    const char *const *option; /* key, value, ..., NULL: come before those below */
    double bucket_mb;
    bool overlap;
    const char *compress;
    uint32_t n_entries;
    uint64_t count[FAKE_ENTRIES]; /* elements */
    bool absent[FAKE_ENTRIES];
    bool apart[FAKE_ENTRIES]; /* in no span with its neighbours */
    bool detached[FAKE_ENTRIES];
    uint32_t micro_batches;
    cadre_param_id order[FAKE_ENTRIES]; /* of the gradients in backward */
    bool silent[FAKE_ENTRIES]; /* no gradient comes */

    /* the n-th call fails, from 1; 0: none */
    int fail_service, fail_param, fail_post, fail_join, fail_plan;

    /* recorded */
    int services, params, joins, plans;
    struct fake_post post[FAKE_POSTS];
    int posts;
    int posts_at_grad[FAKE_ENTRIES]; /* posts after the entry's FINAL */
    cadre_event ready[FAKE_ENTRIES]; /* given in with FINAL */
    cadre_event ready_after[FAKE_ENTRIES]; /* and what the plugin left there */
    int posts_at_final; /* posts before the first FINAL of the last step */
    int early; /* posts over a gradient that was still to come */
    bool to_come[FAKE_ENTRIES];
    char claim[64];
    uint32_t batch; /* of use_axis */
    char failure[512];

    float *grad; /* all entries, each padded to 16 elements */
    uint64_t offset[FAKE_ENTRIES + 1];

    const struct cadre_strategy_ops *ops;
    struct cadre_self *self;
};

/* n entries of uneven sizes on rank 0 of two along "dp", 1 micro-batch, backward from
 * the last entry to the first. fake_fini frees; it does not destroy the instance. */
void fake_init(struct fake_host *fake, const struct cadre_strategy_ops *ops,
               uint32_t n_entries);
void fake_fini(struct fake_host *fake);

/* create, plan, bind; the first failure ends it, with the instance destroyed. */
cadre_status fake_start(struct fake_host *fake);

/* Set every gradient to 1, padding to 0, and run one step with its events. */
cadre_status fake_step(struct fake_host *fake);

/* How many gradient elements are not `value`, or padding elements not 0. */
uint64_t fake_wrong(const struct fake_host *fake, cadre_param_id id, float value);

#endif
