// SPDX-License-Identifier: Apache-2.0
// cpp_ddp: data-parallel replicas in C++20. Gradients are summed over the ranks while
// backward runs, one operation for each.
//
// What C++ has to mind: nothing is thrown across the boundary; cadre_self has a standard
// layout, since the table of services names the offsets of its members; and `struct` stands
// before cadre_post, which is a function too.
#include <memory>
#include <new>
#include <vector>

#include <cadre/helpers.h>

namespace {

// Sums that are in flight, by gradient entry; event 0: none is.
class Sums {
public:
    explicit Sums(uint32_t entries) : done_(entries, 0) {}

    void post(cadre_param_id entry, cadre_event done) { done_[entry] = done; }

    cadre_status wait(const cadre_comm_svc &comm, cadre_axis *axis)
    {
        for (cadre_event &done : done_) {
            if (done)
                CADRE_TRY(comm.stream_wait(axis, done));
            done = 0;
        }
        return CADRE_OK;
    }

private:
    std::vector<cadre_event> done_;
};

} // namespace

struct cadre_self {
    const cadre_host *host;
    const cadre_mesh_svc *mesh;
    const cadre_comm_svc *comm;
    const cadre_model_svc *model;
    const cadre_param_svc *param;
    cadre_axis *axis;
    int32_t ranks;
    Sums *sums; // owned
};

namespace {

const cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, n_params),
    CADRE_SERVICE(param, PARAM, reduced),
    {nullptr, 0, 0},
};

cadre_status create(const cadre_create *made, cadre_self **out)
{
    std::unique_ptr<cadre_self> self(new (std::nothrow) cadre_self{});
    if (!self)
        return cadre_refuse(made->host, CADRE_E_RESOURCE, "no memory for the instance");
    CADRE_TRY(cadre_services_take(made->host, services, self.get()));
    self->host = made->host;
    *out = self.release();
    return CADRE_OK;
}

cadre_status plan(cadre_self *, const cadre_plan *p)
{
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    return p->reduces(p->h, p->axis, CADRE_REDUCE_INNER);
}

cadre_status on_bind(cadre_self *self, const cadre_bind *)
{
    self->axis = self->mesh->axis(self->host->ctx, nullptr);
    self->ranks = self->mesh->size(self->axis);
    try {
        self->sums = new Sums(self->model->n_params(self->host->ctx));
    } catch (const std::bad_alloc &) {
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for the sums");
    }
    return CADRE_OK;
}

cadre_status on_grad(cadre_self *self, cadre_grad_ev *ev)
{
    if (self->ranks == 1 || !(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    struct cadre_post post =
        cadre_post("cpp_ddp gradient", CADRE_TRAFFIC_GRAD, ev->ready);
    CADRE_TRY(self->comm->all_reduce(self->axis, ev->grad, ev->grad, CADRE_SUM, &post));
    self->sums->post(ev->param, post.done);
    ev->ready = post.done;
    return self->param->reduced(self->host->ctx, ev->param, ev->grad, post.done);
}

cadre_status on_sync(cadre_self *self, const cadre_sync *at)
{
    return at->what == CADRE_SYNC_GRADS ? self->sums->wait(*self->comm, self->axis)
                                        : CADRE_OK;
}

void destroy(cadre_self *self, const cadre_end *)
{
    delete self->sums;
    delete self;
}

const cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = on_bind,
    .sync = on_sync,
    .on_grad = on_grad,
    .destroy = destroy,
};

} // namespace

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.example.cpp_ddp", .version = "0.1.0",
             .summary = "replicas whose gradients are summed, in C++", .axis = "dp",
             .services = services, .ops = &ops)
