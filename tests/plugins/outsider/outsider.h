/* SPDX-License-Identifier: Apache-2.0 */
/* A data-parallel strategy that does one thing wrong: the one that its option `misuse`
 * names. table.tsv lists them with what the host must say of each. */
#ifndef TESTS_PLUGINS_OUTSIDER_OUTSIDER_H
#define TESTS_PLUGINS_OUTSIDER_OUTSIDER_H

#include <cadre/helpers.h>

#define OUTSIDER_STEP 2u /* in which a misuse of a running training happens */

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_values *values;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    struct cadre_ctx *ctx;
    const char *misuse; /* "none", "NAME", or "NAME@CALLBACK" */
    int reads, keeps; /* the options */
    struct cadre_axis *axis;
    int32_t ranks; /* along the axis */
    uint32_t rank; /* in the world */
    uint32_t n_params;
    uint64_t step; /* that runs; 0: none has */
    int made; /* the misuse has happened in this step */
    cadre_event *done; /* by entry */
    float
        *sums; /* of steps, an element for each of this rank's OPT ranges: the state */
    uint64_t n_sums;
    /* what callbacks were given last; kept beyond the call by some misuses */
    struct cadre_plan plan;
    struct cadre_next next;
    struct cadre_step at;
    struct cadre_state_sink sink;
};

/* Is it the misuse that was asked for? */
int outsider_is(const struct cadre_self *s, const char *name);

/* crash, hang, spin, exit, quit or silent in the callback of that name, on rank 1 where
 * ranks are known; then what belongs to the callback alone. A status that is not OK is
 * to be returned as it is. */
cadre_status outsider_act(struct cadre_self *s, const char *callback);

/* Of misuse_plan.c and misuse_run.c: a list that ends with name NULL. */
struct outsider_misuse {
    const char *name, *callback;
    cadre_status (*make)(struct cadre_self *);
};
extern const struct outsider_misuse outsider_plan_misuses[];
extern const struct outsider_misuse outsider_run_misuses[];

#endif
