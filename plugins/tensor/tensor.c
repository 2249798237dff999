/* SPDX-License-Identifier: Apache-2.0 */
/* tensor: every product of the model is cut over the ranks of the axis "tp". The first
 * of two products is cut by columns and the second by rows, so each rank computes a
 * part of every output's sum, and one sum over the ranks completes it: twice a block
 * forward, twice backward. Attention is cut by heads, embedding and scores by
 * vocabulary. The core cuts the parameters and knows where sums are partial (joints);
 * this plugin completes them. Source: Shoeybi et al., Megatron-LM, 2019, section 3. */
#include <stdlib.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    struct cadre_axis *axis;
};

/* By CADRE_AT_*. Static because a communicator may name an operation after the instance
 * has gone. */
static const char *const labels[] = {
    "tensor embedding out", "tensor attention in", "tensor attention out",
    "tensor MLP in",        "tensor MLP out",      "tensor head in",
    "tensor loss maximum",  "tensor loss sum",
};
#define N_JOINTS (sizeof labels / sizeof *labels)

static void destroy(struct cadre_self *self)
{
    free(self);
}

static cadre_status fetch_services(struct cadre_self *self)
{
    const struct cadre_host *host = self->host;
    const void *mesh, *comm;
    cadre_status rc = cadre_need(host, CADRE_SERVICE_MESH, &mesh);
    if (!rc)
        rc = cadre_need(host, CADRE_SERVICE_COMM, &comm);
    if (rc)
        return rc;
    self->mesh = mesh;
    self->comm = comm;
    if (!CADRE_HAS(self->mesh, axis) || !CADRE_HAS(self->comm, all_reduce) ||
        !CADRE_HAS(self->comm, join))
        return cadre_refuse(host, CADRE_E_UNSUPPORTED,
                            "the host's mesh or comm service lacks a function that "
                            "tensor needs");
    return CADRE_OK;
}

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    struct cadre_self *self = calloc(1, sizeof *self);
    (void)values;
    if (!self)
        return cadre_refuse(host, CADRE_E_RESOURCE, "no memory for the instance");
    self->host = host;
    cadre_status rc = fetch_services(self);
    if (rc) {
        destroy(self);
        return rc;
    }
    *out = self;
    return CADRE_OK;
}

/* The core cuts what this plugin's role and axis tell it to. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    (void)self;
    cadre_status rc = plan->use_axis(plan->h, "tp", CADRE_BATCH_SAME);
    if (!rc)
        rc = plan->claim(plan->h, "act.complete", "tp", 0);
    return rc;
}

static cadre_status bind(struct cadre_self *self)
{
    self->axis = self->mesh->axis(self->host->ctx, "tp");
    return CADRE_OK;
}

/* The next op reads the result: nothing can be gained by not waiting. */
static cadre_status on_joint(struct cadre_self *self, const struct cadre_joint_ev *ev)
{
    cadre_event done = 0;
    if (ev->joint >= N_JOINTS)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "joint %u is not known to this version", ev->joint);
    uint32_t red = ev->joint == CADRE_AT_LOSS_MAX ? CADRE_MAX : CADRE_SUM;
    cadre_status rc = self->comm->all_reduce(self->axis, labels[ev->joint], ev->in,
                                             ev->out, red, 0, &done);
    return rc ? rc : self->comm->join(self->axis, done);
}

/* Nothing is ever in flight between two calls. */
static cadre_status sync(struct cadre_self *self, uint32_t what)
{
    (void)self;
    (void)what;
    return CADRE_OK;
}

static const char *const services[] = {
    CADRE_SERVICE_MESH,
    CADRE_SERVICE_COMM,
    NULL,
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .on_joint = on_joint,
    .destroy = destroy,
};

static const struct cadre_plugin descriptor = {
    .magic = CADRE_MAGIC,
    .struct_size = sizeof descriptor,
    .abi_major = CADRE_ABI_MAJOR,
    .abi_minor = CADRE_ABI_MINOR,
    .min_host_minor = 1,
    .role = CADRE_ROLE_INTRA,
    .id = "org.cadre.tensor",
    .version = "0.1.0",
    .summary = "products cut by columns and rows, attention by heads, vocabulary split",
    .build = "",
    .axis = "tp",
    .services = services,
    .ops = &ops,
};

const struct cadre_plugin *CADRE_ENTRY(void)
{
    return &descriptor;
}
