/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the mig plugin: one instance of the strategy. */
#ifndef CADRE_PLUGINS_MIG_MIG_H
#define CADRE_PLUGINS_MIG_MIG_H

#include <cadre/helpers.h>

#define MIG_NO_BUCKET UINT32_MAX

/* Gradients of entries first..last in one piece. */
struct mig_bucket {
    struct cadre_buf grad;
    cadre_param_id first, last;
    uint32_t waiting; /* entries whose FINAL has not come in this step */
    cadre_event ready; /* the latest that came with them */
    cadre_event done; /* of its sum */
};

/* mode = average. Zeroed: one replica, or none to sum with. */
struct mig_average {
    struct mig_bucket *bucket;
    uint32_t *bucket_of; /* entry -> bucket, MIG_NO_BUCKET: not on this rank */
    unsigned char *final; /* entry: came in this step */
    uint32_t n_buckets, n_entries;
    uint32_t sent, joined; /* of this step's buckets: those before these */
    int open; /* a step began and sync(GRADS) has not come */
};

struct cadre_self {
    const struct cadre_host *host;
    struct cadre_ctx *ctx;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    int averages, pin, share; /* options */
    const char *profile, *instances;
    struct cadre_axis *axis;
    uint32_t size, index; /* along it */
    struct mig_average average;
};

/* ---- place.c: where ranks run */

/* Wish for the rank's MIG instance or core set. [main] Errors: CADRE_E_INVALID in
 * words, CADRE_E_UNSUPPORTED where there are no instances. */
cadre_status mig_place(struct cadre_self *self, const struct cadre_place *place);

/* ---- average.c: gradients summed over the instances, through the host's comm */

/* Group the gradients of this rank; nothing for one instance. */
cadre_status mig_average_bind(struct cadre_self *self);
void mig_average_release(struct cadre_self *self);
/* Do nothing unless mig_average_bind made buckets. */
cadre_status mig_average_step(struct cadre_self *self, const struct cadre_step *step,
                              const struct cadre_next *next);
cadre_status mig_average_on_grad(struct cadre_self *self, struct cadre_grad_ev *ev);
cadre_status mig_average_sync(struct cadre_self *self, uint32_t what);

#endif
