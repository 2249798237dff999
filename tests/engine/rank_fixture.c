/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/rank_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "tests/support/check_main.h"

static void must(struct rank_fixture *f, cadre_status rc)
{
    ck_assert_msg(rc == CADRE_OK, "%s", f->err.text);
}

void rank_fixture_open(struct rank_fixture *f)
{
    char text[3000];
    memset(f, 0, sizeof *f);
    f->dir = test_tmpdir();
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the quick brown fox "[i * i % 19];
    const char *path = test_file_put(f->dir, "text", text, sizeof text);
    must(f, cadre_options_create(&f->options, &f->err));
    must(f, cadre_options_resolve(f->options, &f->err));
    cadre_config_fill(&f->config, f->options);
    const struct cadre_dataset_config data = {
        .format = "text", .path = path, .context = 16, .shuffle = true, .seed = 3};
    must(f, cadre_dataset_open(&data, &f->data, &f->err));
    f->spec = (struct cadre_run_spec){
        .options = f->options,
        .config = &f->config,
        .stack_text = "test",
        .ranks = 1,
        .model = {.arch = CADRE_ARCH_GPT2,
                  .layers = 2,
                  .channels = 16,
                  .heads = 2,
                  .kv_heads = 2,
                  .hidden = 64,
                  .context = 16,
                  .vocab = 256,
                  .tied = true,
                  .norm_eps = 1e-5,
                  .rotary.theta = 1e4,
                  .dtype = CADRE_F32},
        .optim = {.kind = CADRE_OPTIMIZER_ADAMW,
                  .lr = 1e-2,
                  .steps = 100,
                  .weight_decay = 0.1,
                  .beta1 = 0.9,
                  .beta2 = 0.95,
                  .eps = 1e-8},
        .device = {"cpu", 1},
        .dataset = f->data,
        .global_batch = 8,
        .micro_batch = 2,
        .time = 16,
        .seed = 5,
    };
}

void rank_fixture_close(struct rank_fixture *f)
{
    rank_fixture_stop(f);
    cadre_dataset_close(f->data);
    cadre_options_destroy(f->options);
    test_tmpdir_destroy(f->dir);
}

static cadre_status create_nothing(const struct cadre_create *create,
                                   struct cadre_self **out)
{
    *out =
        (struct cadre_self *)(uintptr_t)create->host; /* these distinguish instances */
    return CADRE_OK;
}

static cadre_status plan_nothing(struct cadre_self *self, const struct cadre_plan *plan)
{
    (void)self;
    (void)plan;
    return CADRE_OK;
}

static cadre_status bind_nothing(struct cadre_self *self, const struct cadre_bind *bind)
{
    (void)self;
    (void)bind;
    return CADRE_OK;
}

static cadre_status sync_nothing(struct cadre_self *self, const struct cadre_sync *sync)
{
    (void)self;
    (void)sync;
    return CADRE_OK;
}

static void destroy_nothing(struct cadre_self *self, const struct cadre_end *end)
{
    (void)self;
    (void)end;
}

void rank_fixture_plug(struct rank_fixture *f, const char *name, uint32_t role,
                       int size, const struct cadre_strategy_ops *ops)
{
    struct cadre_plugin_handle *handle = &f->handle[f->n_handles];
    snprintf(handle->name, sizeof handle->name, "%s", name);
    handle->desc.role = role;
    handle->desc.id = handle->desc.axis = handle->name;
    handle->ops = *ops;
    if (!ops->create)
        handle->ops.create = create_nothing;
    if (!ops->plan)
        handle->ops.plan = plan_nothing;
    if (!ops->bind)
        handle->ops.bind = bind_nothing;
    if (!ops->sync)
        handle->ops.sync = sync_nothing;
    if (!ops->destroy)
        handle->ops.destroy = destroy_nothing;
    f->spec.plugin[f->n_handles] = handle;
    f->spec.instance[f->n_handles] =
        (struct cadre_instance){handle->name, handle->name};
    f->spec.axis[f->n_handles] =
        (struct cadre_axis_request){handle->name, size, handle->name};
    f->spec.n_plugins = ++f->n_handles;
    f->spec.ranks *= size;
}

const struct cadre_host *rank_fixture_host(struct cadre_self *self)
{
    return (const struct cadre_host *)(void *)self;
}

cadre_status rank_fixture_split(struct cadre_self *self, const struct cadre_plan *plan)
{
    (void)self;
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SPLIT));
    return plan->reduces(plan->h, plan->axis, CADRE_REDUCE_INNER);
}

cadre_status rank_fixture_reduce(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    const struct cadre_host *host = rank_fixture_host(self);
    const struct cadre_mesh_svc *mesh = host->service(host->ctx, CADRE_SERVICE_MESH);
    const struct cadre_comm_svc *comm = host->service(host->ctx, CADRE_SERVICE_COMM);
    const struct cadre_param_svc *param = host->service(host->ctx, CADRE_SERVICE_PARAM);
    struct cadre_axis *axis = mesh->axis(host->ctx, NULL);
    struct cadre_post post = {
        .struct_size = sizeof post, .label = "sum", .after = ev->ready};
    if (!(ev->flags & CADRE_GRAD_FINAL) || !axis)
        return axis ? CADRE_OK : CADRE_E_INVALID;
    CADRE_TRY(comm->all_reduce(axis, ev->grad, ev->grad, CADRE_SUM, &post));
    CADRE_TRY(comm->stream_wait(axis, post.done));
    return param->reduced(host->ctx, ev->param, ev->grad, 0);
}

const struct cadre_host *rank_fixture_inside(struct rank_fixture *f, int link,
                                             enum cadre_callback callback)
{
    struct cadre_ctx *ctx = &f->rank.chain.link[link];
    ctx->in = callback;
    f->rank.services.inside = ctx;
    return &ctx->host;
}

void rank_fixture_start(struct rank_fixture *f)
{
    must(f, cadre_rank_plan(&f->rank, &f->spec, 0, &f->err));
    must(f, cadre_rank_bind(&f->rank, NULL, 0, &f->err));
}

struct cadre_step_report rank_fixture_step(struct rank_fixture *f, uint64_t step)
{
    struct cadre_step_report report = {0};
    cadre_status rc = cadre_rank_step(&f->rank, step, &report);
    ck_assert_msg(rc == CADRE_OK, "%s", f->rank.failure.text);
    return report;
}

void rank_fixture_stop(struct rank_fixture *f)
{
    cadre_rank_fini(&f->rank);
    memset(&f->rank, 0, sizeof f->rank);
}

uint64_t rank_fixture_params(const struct rank_fixture *f)
{
    const struct cadre_store *store = &f->rank.store;
    struct cadre_hash hash;
    cadre_hash_init(&hash, 0);
    for (uint32_t i = 0; i < store->model->n_params; i++)
        if (store->model->params[i].tied_to < 0)
            cadre_hash_update(&hash, store->param[i].data,
                              store->param[i].count * store->elem_bytes);
    return cadre_hash_final(&hash);
}
