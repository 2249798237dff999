/* SPDX-License-Identifier: Apache-2.0 */
/* The instance of diloco, and what its files share. */
#ifndef CADRE_PLUGINS_DILOCO_DILOCO_H
#define CADRE_PLUGINS_DILOCO_DILOCO_H

#include <cadre/helpers.h>

#define DILOCO_ALL UINT64_MAX /* in the place of a fragment */

/* The values of a parameter that this rank updates. */
struct diloco_weight {
    cadre_param_id id;
    uint64_t fragment;
    uint64_t begin; /* of them, in the flat local part */
    uint64_t at; /* of them, in the flat buffers */
    uint64_t in_fragment; /* of them, in the change of their fragment */
    cadre_event done; /* of its sum over the replicas */
};

/* A fragment whose change was posted and is not applied yet; all 0: none. Saved as it
 * is: with other options it would be applied to other values or at another step. */
struct diloco_pending {
    uint64_t fragments, period, overlap; /* the options it was posted under */
    uint64_t fragment;
    uint64_t due; /* the step that applies it */
    uint64_t ranks; /* that the sum is of */
};

struct cadre_self {
    const struct cadre_host *host;
    struct cadre_ctx *ctx;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    const struct cadre_ops_svc *ops;
    uint64_t period, fragments, overlap;
    double lr, momentum, mixing;
    int nesterov;
    struct cadre_axis *axis;
    int32_t ranks;
    struct diloco_weight *weight;
    uint32_t n_weights, dtype;
    uint64_t count; /* elements of all weights */
    uint64_t *fragment_count; /* (fragments): of those of each */
    struct cadre_buf anchor, outer, own; /* flat; no data where not kept */
    struct cadre_buf change; /* of one fragment, the largest; likewise */
    cadre_event arrived; /* of the sum in `change` */
    struct diloco_pending pending;
    /* In checkpoints: the anchor is set; replicas differ (and `own` has the values of
     * this one). */
    uint8_t anchored, apart;
    uint8_t shown; /* the parameters hold the mean */
};

/* The part of a flat buffer that belongs to the values x of a weight. */
static inline struct cadre_buf diloco_part(const struct cadre_buf *flat,
                                           const struct diloco_weight *w,
                                           const struct cadre_buf *x)
{
    return cadre_buf_slice(flat, w->at, x->count);
}

/* ---- streaming.c ---- */

/* Are changes sent from a copy, so that the replica's own values stay beside them?
 * Where not, the values are summed in place. */
int diloco_sends_copies(const struct cadre_self *self);
/* Elements of that copy: of the largest fragment; 0 where there is none. */
uint64_t diloco_copy_count(const struct cadre_self *self);

/* [exec; all ranks of the axis] Post the sums of the values of a fragment (DILOCO_ALL:
 * of all) over the replicas, in place; each is complete after its `done`. */
cadre_status diloco_post_sums(struct cadre_self *self, uint64_t fragment,
                              const char *label);

/* [exec, in sync(UPDATE); all ranks of the axis] What is due after step `step`: the
 * outer step of the fragment whose sum has been in flight for `overlap` steps, then the
 * fragments whose turn it is. */
cadre_status diloco_meet(struct cadre_self *self, uint64_t step);

/* [exec] Waits for what is in flight. */
cadre_status diloco_arrive(struct cadre_self *self);

/* [exec] The fragment that is pending, for checkpoints. Where the run resumes with
 * other options it is dropped, which is logged: each replica still holds its change,
 * and the fragment's next outer step takes it. */
cadre_status diloco_pending_state(struct cadre_self *self,
                                  const struct cadre_state_sink *sink);

#endif
