/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/engine/strategy/host.h"
#include "core/plugin/plugin_private.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;
static const struct cadre_host *host;
static const struct cadre_param_svc *param;
static const struct cadre_model_svc *model;

/* Entry 1 places its parameter and gradient elsewhere. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    CADRE_TRY(abi->place_range(abi->h, 1, CADRE_KIND_PARAM, 0, 8, 0));
    CADRE_TRY(abi->place_range(abi->h, 1, CADRE_KIND_GRAD, 4, 8, 0));
    return abi->memory(abi->h, CADRE_SPACE_DEVICE, 100, "buffer");
}

static void setup(void)
{
    const struct cadre_strategy_ops ops = {.plan = plan};
    rank_fixture_open(&f);
    rank_fixture_plug(&f, "probe", CADRE_ROLE_DATA, 1, &ops);
    rank_fixture_start(&f);
    host = rank_fixture_inside(&f, 0, CADRE_IN_BIND);
    param = host->service(host->ctx, CADRE_SERVICE_PARAM);
    model = host->service(host->ctx, CADRE_SERVICE_MODEL);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

/* The call was refused with this text; forgets it. */
static void is_refused(cadre_status rc, const char *text)
{
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_msg(strstr(f.rank.failure.text, text) != NULL, "%s", f.rank.failure.text);
    memset(&f.rank.failure, 0, sizeof f.rank.failure);
}

START_TEST(every_service_is_there)
{
    for (size_t i = 0; i < CADRE_KNOWN_SERVICES; i++) {
        const struct cadre_known_service *known = &cadre_known_services[i];
        const uint32_t *bytes = host->service(host->ctx, known->id);
        ck_assert_msg(bytes != NULL, "%s", known->id);
        ck_assert_uint_eq(*bytes, known->bytes);
        ck_assert_uint_gt(*bytes, 8);
    }
    ck_assert_ptr_null(host->service(host->ctx, "cadre.mesh/2"));
    ck_assert_ptr_null(host->service(host->ctx, ""));
    ck_assert_uint_eq(host->abi_major, CADRE_ABI_MAJOR);
    ck_assert_uint_eq(host->struct_size, sizeof *host);
}
END_TEST

START_TEST(parameters_are_described)
{
    ck_assert_uint_eq(model->n_params(host->ctx), f.rank.model->n_params);
    struct cadre_param_info info = {.struct_size = sizeof info};
    uint64_t count = 0;
    for (uint32_t i = 0; i < f.rank.model->n_params; i++) {
        ck_assert_int_eq(model->param(host->ctx, i, &info), CADRE_OK);
        ck_assert_str_eq(info.name, f.rank.model->params[i].name);
        ck_assert(info.present);
        /* a dense model without adapters, all trained */
        ck_assert(info.expert == -1 && info.adapts == -1 && !info.frozen);
        uint64_t product = 1;
        for (uint32_t d = 0; d < info.ndim; d++)
            product *= info.shape[d];
        ck_assert_uint_eq(product, info.count);
        count += info.tied_to < 0 ? info.count : 0;
    }
    ck_assert_uint_eq(count, cadre_model_count(f.rank.model));
    ck_assert_int_eq(model->param(host->ctx, f.rank.model->n_params, &info),
                     CADRE_E_INVALID);
}
END_TEST

/* A plugin of an older minor has a smaller struct: nothing is written beyond it. */
START_TEST(a_smaller_struct_is_respected)
{
    struct cadre_param_info info;
    memset(&info, 0x5a, sizeof info);
    info.struct_size = offsetof(struct cadre_param_info, shape);
    ck_assert_int_eq(model->param(host->ctx, 0, &info), CADRE_OK);
    ck_assert_uint_eq(info.shape[0], UINT64_C(0x5a5a5a5a5a5a5a5a));
    ck_assert_uint_eq(info.struct_size, offsetof(struct cadre_param_info, shape));
    ck_assert_uint_eq(info.ndim, 2);
}
END_TEST

START_TEST(costs_weigh_the_units)
{
    rank_fixture_inside(&f, 0, CADRE_IN_PLAN);
    ck_assert_double_eq(model->unit_cost(host->ctx, 1), model->unit_cost(host->ctx, 2));
    ck_assert_double_lt(model->unit_cost(host->ctx, 0), model->unit_cost(host->ctx, 1));
    /* rows * (12 C^2 weights + C T of attention); the head has V C */
    ck_assert_double_eq(model->unit_cost(host->ctx, 1), 32.0 * (12 * 256 + 16 * 16));
    ck_assert_double_eq(model->unit_cost(host->ctx, 3), 32.0 * 256 * 16);
}
END_TEST

START_TEST(storage_needs_a_placement)
{
    float other[4096];
    struct cadre_buf out, buf = {other, 16 * 16, CADRE_F32, CADRE_SPACE_DEVICE};
    ck_assert_int_eq(param->data(host->ctx, 0, &out), CADRE_OK);
    ck_assert_ptr_eq(out.data, f.rank.store.param[0].data);
    is_refused(
        param->attach(host->ctx, 0, &buf),
        "plugin 'probe' in bind: attach of cadre.param: 'transformer.wte.weight' "
        "keeps its own storage");
    is_refused(param->attach_grad(host->ctx, 0, NULL), "keeps its own storage");

    ck_assert_int_eq(param->data(host->ctx, 1, &out), CADRE_OK);
    ck_assert_ptr_null(out.data);
    ck_assert_int_eq(param->attach(host->ctx, 1, &buf), CADRE_OK);
    ck_assert_ptr_eq(f.rank.model->params[1].data, other);
    ck_assert_int_eq(param->attach_grad(host->ctx, 1, &buf), CADRE_OK);
    ck_assert_int_eq(param->grad(host->ctx, 1, &out), CADRE_OK);
    ck_assert_ptr_eq(out.data, other);
    ck_assert_int_eq(param->attach(host->ctx, 1, NULL), CADRE_OK);
    ck_assert_ptr_null(f.rank.model->params[1].data);

    buf.count--;
    is_refused(param->attach(host->ctx, 1, &buf), "255 ");
    buf.count++;
    buf.dtype = CADRE_F64;
    ck_assert_int_eq(param->attach(host->ctx, 1, &buf), CADRE_E_INVALID);
}
END_TEST

START_TEST(spans_cover_whole_gradients)
{
    struct cadre_buf out;
    uint32_t last = f.rank.model->n_params - 1;
    const struct cadre_store *store = &f.rank.store;
    ck_assert_int_eq(param->grad_span(host->ctx, 2, last, &out), CADRE_OK);
    ck_assert_ptr_eq(out.data, store->param[2].grad);
    char *end = (char *)store->param[last].grad + store->param[last].count * 4;
    ck_assert_ptr_eq((float *)out.data + out.count, end);
    ck_assert_int_eq(param->grad_span(host->ctx, 3, 3, &out), CADRE_OK);
    ck_assert_uint_eq(out.count, store->param[3].count);
    size_t offset = store->grad_offset[3];
    f.rank.store.grad_offset[3] = SIZE_MAX;
    ck_assert_int_eq(param->grad_span(host->ctx, 2, last, &out), CADRE_E_UNSUPPORTED);
    f.rank.plan.param[3].frozen = true;
    ck_assert_int_eq(param->grad_span(host->ctx, 2, last, &out), CADRE_OK);
    ck_assert_int_eq(param->grad_span(host->ctx, 3, last, &out), CADRE_E_UNSUPPORTED);
    f.rank.store.grad_offset[3] = offset;
    f.rank.plan.param[3].frozen = false;
    ck_assert_int_eq(param->grad_span(host->ctx, 0, 2, &out), CADRE_E_UNSUPPORTED);
    ck_assert_int_eq(param->grad_span(host->ctx, 3, 2, &out), CADRE_E_INVALID);
    ck_assert_int_eq(param->grad_span(host->ctx, 2, last + 1, &out), CADRE_E_INVALID);
}
END_TEST

START_TEST(shards_are_the_placed_ranges)
{
    struct cadre_buf out;
    ck_assert_int_eq(param->shard(host->ctx, 1, CADRE_KIND_PARAM, &out), CADRE_OK);
    ck_assert_uint_eq(out.count, 8);
    ck_assert_ptr_eq(out.data, f.rank.store.param[1].data_shard);
    ck_assert_int_eq(param->shard(host->ctx, 1, CADRE_KIND_GRAD, &out), CADRE_OK);
    ck_assert_ptr_eq(out.data, f.rank.store.param[1].grad_shard);
    ck_assert_int_eq(param->shard(host->ctx, 2, CADRE_KIND_OPT, &out), CADRE_OK);
    ck_assert_ptr_eq(out.data, f.rank.store.param[2].exp_avg);
    ck_assert_int_eq(param->shard(host->ctx, 1, 0, &out), CADRE_E_INVALID);
    ck_assert_int_eq(param->shard(host->ctx, 1, 4, &out), CADRE_E_INVALID);
    ck_assert_int_eq(param->shard(host->ctx, 999, CADRE_KIND_OPT, &out),
                     CADRE_E_INVALID);
}
END_TEST

START_TEST(memory_is_accounted_under_the_plugin)
{
    const struct cadre_mem_svc *mem = host->service(host->ctx, CADRE_SERVICE_MEM);
    uint64_t before = f.rank.ledger.now_bytes;
    void *p = mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 100, "buffer");
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(f.rank.ledger.now_bytes, before + 100);
    ck_assert_str_eq(f.rank.ledger.entry[f.rank.ledger.n - 1].tag, "probe: buffer");
    (mem->free)(host->ctx, p);
    ck_assert_uint_eq(f.rank.ledger.now_bytes, before);
}
END_TEST

START_TEST(memory_beyond_the_plan_is_refused)
{
    const struct cadre_mem_svc *mem = host->service(host->ctx, CADRE_SERVICE_MEM);
    void *p = mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 60, "buffer");
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_null(mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 41, "buffer"));
    is_refused(CADRE_E_INVALID,
               "alloc of cadre.mem: 41 bytes under 'buffer' beside the "
               "60 held are more than the 100");
    ck_assert_ptr_null(mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 1, "other"));
    is_refused(CADRE_E_INVALID, "more than the 0");
    ck_assert_ptr_null(mem->alloc(host->ctx, 7, 1, "buffer"));
    is_refused(CADRE_E_INVALID, "CADRE_SPACE_");
    ck_assert_ptr_null(mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 1, NULL));
    is_refused(CADRE_E_INVALID, "the tag is NULL");
    ck_assert_ptr_nonnull(mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 40, "buffer"));
}
END_TEST

/* Operations of a failed step may still run until the communicators are destroyed. */
START_TEST(memory_outlives_destroy)
{
    const struct cadre_mem_svc *mem = host->service(host->ctx, CADRE_SERVICE_MEM);
    uint64_t before = f.rank.ledger.now_bytes;
    void *p = mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 100, "buffer");
    rank_fixture_inside(&f, 0, CADRE_IN_DESTROY);
    (mem->free)(host->ctx, p);
    rank_fixture_inside(&f, 0, CADRE_IN_BIND);
    ck_assert_uint_eq(f.rank.ledger.now_bytes, before + 100);
}
END_TEST

START_TEST(axes_and_random_numbers)
{
    const struct cadre_mesh_svc *mesh = host->service(host->ctx, CADRE_SERVICE_MESH);
    const struct cadre_rng_svc *rng = host->service(host->ctx, CADRE_SERVICE_RNG);
    ck_assert_int_eq(mesh->size(mesh->axis(host->ctx, "probe")), 1);
    ck_assert_ptr_eq(mesh->axis(host->ctx, NULL), mesh->axis(host->ctx, "probe"));
    ck_assert_ptr_null(mesh->find(host->ctx, "absent"));
    ck_assert_int_eq(f.rank.failure.code, CADRE_OK);
    ck_assert_ptr_null(mesh->axis(host->ctx, "absent"));
    is_refused(CADRE_E_INVALID, "there is no axis 'absent', this run has: probe");
    ck_assert_int_eq(mesh->size(NULL), -1);
    ck_assert_int_eq(mesh->rank(NULL), -1);
    double u = rng->uniform(host->ctx, "x", 3);
    ck_assert_double_eq(u, cadre_rng_uniform(cadre_rng_key(5, "x"), 3));
    ck_assert_double_ne(u, rng->uniform(host->ctx, "y", 3));
    ck_assert_double_ne(rng->normal(host->ctx, "x", 3), rng->normal(host->ctx, "x", 4));
}
END_TEST

START_TEST(the_first_failure_is_kept)
{
    ck_assert_int_eq((host->fail)(host->ctx, CADRE_E_COMM, "one"), CADRE_E_COMM);
    ck_assert_int_eq((host->fail)(host->ctx, CADRE_E_INVALID, "two"), CADRE_E_INVALID);
    ck_assert_int_eq(f.rank.failure.code, CADRE_E_COMM);
    ck_assert_ptr_nonnull(strstr(f.rank.failure.text, "plugin 'probe' in bind: one"));
    host->log(host->ctx, 77, "a level that does not exist");
}
END_TEST

/* Each function in a callback that it does not belong to. */
START_TEST(calls_belong_to_callbacks)
{
    const struct cadre_mem_svc *mem = host->service(host->ctx, CADRE_SERVICE_MEM);
    struct cadre_pass_args args = {.struct_size = sizeof args};
    struct cadre_buf buf;
    is_refused(
        model->forward(host->ctx, &args),
        "plugin 'probe' in bind: forward of cadre.model: it may be called in step "
        "only");
    is_refused(param->reduced(host->ctx, 0, &buf, 0), "reduced of cadre.param");
    ck_assert_double_eq(model->unit_cost(host->ctx, 1), 0);
    is_refused(CADRE_E_INVALID,
               "unit_cost of cadre.model: it may be called in plan only");
    rank_fixture_inside(&f, 0, CADRE_IN_PLAN);
    ck_assert_ptr_null(mem->alloc(host->ctx, CADRE_SPACE_DEVICE, 1, "buffer"));
    is_refused(CADRE_E_INVALID, "plugin 'probe' in plan: alloc of cadre.mem");
    is_refused(param->data(host->ctx, 0, &buf), "data of cadre.param");
    rank_fixture_inside(&f, 0, CADRE_IN_STEP);
    is_refused(model->forward(host->ctx, &args), "only a plugin of the role SCHEDULE");
    is_refused(param->reduced(host->ctx, 2, &(struct cadre_buf){0}, 0),
               "reduced of cadre.param");
}
END_TEST

START_TEST(null_is_refused)
{
    struct cadre_buf buf;
    uint64_t n;
    is_refused(param->data(host->ctx, 0, NULL), "an argument is NULL");
    is_refused(param->range(host->ctx, 0, CADRE_KIND_OPT, &n, NULL), "is NULL");
    is_refused(model->param(host->ctx, 0, NULL), "info is NULL");
    is_refused(param->data(host->ctx, 999, &buf), "there is no entry 999");
    ck_assert_int_eq(param->data(NULL, 0, &buf), CADRE_E_INVALID);
    ck_assert_uint_eq(model->n_params(NULL), 0);
    ck_assert_int_eq(f.rank.failure.code, CADRE_OK);
}
END_TEST

/* Of AdamW; the second ones are held in a step, after one that is over. */
START_TEST(moments_are_adamws)
{
    double decay = 0;
    f.spec.optim.kind = CADRE_OPTIMIZER_ADAMW;
    f.spec.optim.beta1 = 0.75;
    ck_assert_int_eq(param->moments(host->ctx, 0, &decay), CADRE_OK);
    ck_assert_double_eq(decay, 0.75);
    ck_assert_uint_eq(f.rank.services.held_moments, 0);
    is_refused(param->moments(host->ctx, 0, NULL), "decay is NULL");
    is_refused(param->moments(host->ctx, 3, &decay), "it may be called in step only");
    rank_fixture_inside(&f, 0, CADRE_IN_STEP);
    f.rank.services.step = 4;
    is_refused(param->moments(host->ctx, 4, &decay),
               "the second moments after 4 updates, expected some before step 4");
    ck_assert_int_eq(param->moments(host->ctx, 3, &decay), CADRE_OK);
    ck_assert_uint_eq(f.rank.services.held_moments, 3);
    f.spec.optim.kind = CADRE_OPTIMIZER_SGD;
    is_refused(param->moments(host->ctx, 0, &decay), "set optim.name = adamw");
}
END_TEST

START_TEST(owned_values_are_the_masters)
{
    struct cadre_buf buf;
    ck_assert_int_eq(param->owned(host->ctx, 2, &buf), CADRE_OK);
    ck_assert_ptr_eq(buf.data, cadre_store_opt_data(&f.rank.store, 2));
    ck_assert_uint_eq(buf.count, f.rank.store.param[2].count);
    ck_assert_uint_eq(f.rank.chain.marks.n_changed, 0);
    f.rank.services.sync = CADRE_SYNC_UPDATE;
    ck_assert_int_eq(param->owned(host->ctx, 2, &buf), CADRE_OK);
    ck_assert_uint_eq(f.rank.chain.marks.n_changed, 1);
    ck_assert_int_eq(cadre_param_marks_round(&f.rank.services), CADRE_OK);
    ck_assert_uint_eq(f.rank.chain.marks.n_changed, 0);
}
END_TEST

START_TEST(ranges_are_known_in_plan_too)
{
    uint64_t begin, count;
    for (int in_plan = 0; in_plan < 2; in_plan++) {
        rank_fixture_inside(&f, 0, in_plan ? CADRE_IN_PLAN : CADRE_IN_BIND);
        ck_assert_int_eq(param->range(host->ctx, 1, CADRE_KIND_GRAD, &begin, &count),
                         CADRE_OK);
        ck_assert_uint_eq(begin, 4);
        ck_assert_uint_eq(count, 8);
        ck_assert_int_eq(param->range(host->ctx, 2, CADRE_KIND_OPT, &begin, &count),
                         CADRE_OK);
        ck_assert_uint_eq(begin, 0);
        ck_assert_uint_eq(count, f.rank.store.param[2].count);
    }
    is_refused(param->range(host->ctx, 2, 9, &begin, &count), "there is no kind 9");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("host");
    TCase *tc = tcase_create("host");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_service_is_there);
    tcase_add_test(tc, parameters_are_described);
    tcase_add_test(tc, a_smaller_struct_is_respected);
    tcase_add_test(tc, costs_weigh_the_units);
    tcase_add_test(tc, storage_needs_a_placement);
    tcase_add_test(tc, spans_cover_whole_gradients);
    tcase_add_test(tc, shards_are_the_placed_ranges);
    tcase_add_test(tc, memory_is_accounted_under_the_plugin);
    tcase_add_test(tc, memory_beyond_the_plan_is_refused);
    tcase_add_test(tc, memory_outlives_destroy);
    tcase_add_test(tc, calls_belong_to_callbacks);
    tcase_add_test(tc, null_is_refused);
    tcase_add_test(tc, moments_are_adamws);
    tcase_add_test(tc, owned_values_are_the_masters);
    tcase_add_test(tc, ranges_are_known_in_plan_too);
    tcase_add_test(tc, axes_and_random_numbers);
    tcase_add_test(tc, the_first_failure_is_kept);
    suite_add_tcase(s, tc);
    return s;
}
