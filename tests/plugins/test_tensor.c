/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against tables that record what it asks for. Training with it is in
 * tests/cli/test_train_tensor.sh. */
#include <stdio.h>
#include <string.h>

#include <cadre/strategy.h>

#include "core/plugin/plugin.h"
#include "tests/support/check_main.h"

#define EVENT 42u
#define N_ENTRIES 6u

struct cadre_axis {
    int size;
};

/* What the plugin did; `ctx` and the tables' other handles are unused. */
static struct {
    struct cadre_axis axis;
    bool lacks_mesh, lacks_join, fail_axis, fail_post, fail_join, cut_rows;
    bool sharded; /* entry 1 has its own range of the gradient, entry 4 an empty one */
    char failure[512], claims[128];
    uint32_t batch;
    int posts, joins;
    const char *label, *op;
    const uint64_t *offsets;
    uint64_t counts[N_ENTRIES]; /* of the posts */
    const struct cadre_buf *in, *out;
    uint32_t red;
} seen;

static const struct cadre_plugin_handle *tensor;
static struct cadre_self *self;

static cadre_status host_fail(struct cadre_ctx *ctx, cadre_status status,
                              const char *text)
{
    (void)ctx;
    snprintf(seen.failure, sizeof seen.failure, "%s", text);
    return status;
}

static struct cadre_axis *mesh_axis(struct cadre_ctx *ctx, const char *name)
{
    (void)ctx;
    ck_assert_str_eq(name, "tp");
    return &seen.axis;
}

static int32_t mesh_size(const struct cadre_axis *axis)
{
    return axis->size;
}

static cadre_status post(struct cadre_axis *axis, const char *op, const char *label,
                         const struct cadre_buf *in, const struct cadre_buf *out,
                         uint32_t red, cadre_event *done)
{
    ck_assert_ptr_eq(axis, &seen.axis);
    if (seen.fail_post)
        return CADRE_E_COMM;
    seen.counts[seen.posts % (int)N_ENTRIES] = in->count;
    seen.posts++;
    seen.op = op;
    seen.label = label;
    seen.in = in;
    seen.out = out;
    seen.red = red;
    *done = EVENT;
    return CADRE_OK;
}

static cadre_status all_reduce(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               uint32_t red, cadre_event after, cadre_event *done)
{
    ck_assert_uint_eq(after, 0);
    return post(axis, "all_reduce", label, in, out, red, done);
}

static cadre_status reduce_scatter(struct cadre_axis *axis, const char *label,
                                   const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, cadre_event after, cadre_event *done)
{
    ck_assert_uint_eq(after, 0);
    seen.offsets = offsets;
    return post(axis, "reduce_scatter", label, in, out, red, done);
}

static cadre_status all_gather(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               const uint64_t *offsets, cadre_event after,
                               cadre_event *done)
{
    ck_assert_uint_eq(after, 0);
    seen.offsets = offsets;
    return post(axis, "all_gather", label, in, out, CADRE_SUM, done);
}

static cadre_status join(struct cadre_axis *axis, cadre_event event)
{
    ck_assert_ptr_eq(axis, &seen.axis);
    ck_assert_uint_eq(event, EVENT);
    seen.joins++;
    return seen.fail_join ? CADRE_E_ABORTED : CADRE_OK;
}

static uint32_t n_params(struct cadre_ctx *ctx)
{
    (void)ctx;
    return N_ENTRIES;
}

/* Every entry but 0 and 3 adds over rows; 5 is another stage's. */
static cadre_status param_info(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_param_info *info)
{
    (void)ctx;
    info->partial = id % 3 != 0;
    info->present = id != 5;
    return CADRE_OK;
}

static cadre_status param_shard(struct cadre_ctx *ctx, cadre_param_id id, uint32_t kind,
                                struct cadre_buf *out)
{
    static float own;
    (void)ctx;
    ck_assert_uint_eq(kind, CADRE_KIND_GRAD);
    out->data = seen.sharded && id == 1 ? &own : NULL;
    out->count = seen.sharded && id == 4 ? 0 : id;
    return CADRE_OK;
}

static cadre_status param_grad(struct cadre_ctx *ctx, cadre_param_id id,
                               struct cadre_buf *out)
{
    static float whole;
    (void)ctx;
    out->data = &whole;
    out->count = 10u * id;
    return CADRE_OK;
}

static const void *service(struct cadre_ctx *ctx, const char *id)
{
    static const struct cadre_mesh_svc mesh = {
        .struct_size = sizeof mesh, .axis = mesh_axis, .size = mesh_size};
    static const struct cadre_model_svc model = {
        .struct_size = sizeof model, .n_params = n_params, .param = param_info};
    static const struct cadre_param_svc param = {
        .struct_size = sizeof param, .grad = param_grad, .shard = param_shard};
    static const struct cadre_comm_svc comm = {.struct_size = sizeof comm,
                                               .all_reduce = all_reduce,
                                               .reduce_scatter = reduce_scatter,
                                               .all_gather = all_gather,
                                               .join = join};
    static const struct cadre_comm_svc poor = {
        .struct_size = offsetof(struct cadre_comm_svc, join), .all_reduce = all_reduce};
    (void)ctx;
    if (!strcmp(id, CADRE_SERVICE_MESH))
        return seen.lacks_mesh ? NULL : &mesh;
    return !strcmp(id, CADRE_SERVICE_MODEL)   ? (const void *)&model
           : !strcmp(id, CADRE_SERVICE_PARAM) ? (const void *)&param
           : strcmp(id, CADRE_SERVICE_COMM)   ? NULL
           : seen.lacks_join                  ? (const void *)&poor
                                              : (const void *)&comm;
}

static cadre_status use_axis(void *h, const char *axis, uint32_t batch)
{
    (void)h;
    ck_assert_str_eq(axis, "tp");
    seen.batch = batch;
    return seen.fail_axis ? CADRE_E_UNSUPPORTED : CADRE_OK;
}

static cadre_status claim(void *h, const char *effect, const char *axis, uint32_t flags)
{
    (void)h;
    size_t used = strlen(seen.claims);
    snprintf(seen.claims + used, sizeof seen.claims - used, "%s@%s/%u", effect, axis,
             flags);
    return CADRE_OK;
}

static const struct cadre_host host = {
    .struct_size = sizeof host,
    .abi_minor = CADRE_ABI_MINOR,
    .service = service,
    .fail = host_fail,
};

static int64_t value_i64(const void *h, const char *key)
{
    (void)h;
    ck_assert_str_eq(key, "sequence_parallel");
    return seen.cut_rows;
}

static const struct cadre_values values = {.struct_size = sizeof values,
                                           .i64 = value_i64};
static struct cadre_plan plan = {.struct_size = sizeof plan,
                                 .ranks = 2,
                                 .batch = 2,
                                 .time = 3,
                                 .use_axis = use_axis,
                                 .claim = claim};

static void setup(void)
{
    struct cadre_error err = {0};
    memset(&seen, 0, sizeof seen);
    seen.axis.size = 2;
    cadre_status rc = cadre_plugin_load("tensor", NULL, &tensor, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void start(void)
{
    ck_assert_int_eq(tensor->ops.create(&host, &values, &self), CADRE_OK);
    ck_assert_int_eq(tensor->ops.plan(self, &plan), CADRE_OK);
    ck_assert_int_eq(tensor->ops.bind(self), CADRE_OK);
}

START_TEST(plans_its_axis)
{
    ck_assert_str_eq(tensor->desc.axis, "tp");
    ck_assert_uint_eq(tensor->desc.role, CADRE_ROLE_INTRA);
    start();
    ck_assert_uint_eq(seen.batch, CADRE_BATCH_SAME);
    ck_assert_str_eq(seen.claims, "act.complete@tp/0");
    seen.fail_axis = true;
    ck_assert_int_eq(tensor->ops.plan(self, &plan), CADRE_E_UNSUPPORTED);
    tensor->ops.destroy(self);
}
END_TEST

START_TEST(needs_its_services)
{
    seen.lacks_mesh = true;
    ck_assert_int_eq(tensor->ops.create(&host, &values, &self), CADRE_E_UNSUPPORTED);
    ck_assert_str_eq(seen.failure, "the host has no service " CADRE_SERVICE_MESH);
    seen.lacks_mesh = false;
    seen.lacks_join = true;
    ck_assert_int_eq(tensor->ops.create(&host, &values, &self), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(seen.failure, "service lacks"));
}
END_TEST

START_TEST(completes_every_joint)
{
    float a[4] = {0}, b[4] = {0};
    struct cadre_buf in = {sizeof in, CADRE_F32, a, 4, 0, 0};
    struct cadre_buf out = {sizeof out, CADRE_F32, b, 4, 0, 0};
    start();
    for (uint32_t j = CADRE_AT_EMBED_OUT; j <= CADRE_AT_LOSS_SUM; j++) {
        const char *before = seen.label;
        struct cadre_joint_ev ev = {
            .struct_size = sizeof ev, .joint = j, .in = &in, .out = &out};
        ck_assert_int_eq(tensor->ops.on_joint(self, &ev), CADRE_OK);
        ck_assert_int_eq(seen.posts, (int)j + 1);
        ck_assert_int_eq(seen.joins, (int)j + 1);
        ck_assert_ptr_eq(seen.in, &in);
        ck_assert_ptr_eq(seen.out, &out);
        ck_assert_uint_eq(seen.red, j == CADRE_AT_LOSS_MAX ? CADRE_MAX : CADRE_SUM);
        ck_assert_ptr_nonnull(strstr(seen.label, "tensor "));
        ck_assert_ptr_ne(seen.label, before);
    }
    for (uint32_t what = CADRE_SYNC_GRADS; what <= CADRE_SYNC_QUIESCE; what++)
        ck_assert_int_eq(tensor->ops.sync(self, what), CADRE_OK);
    tensor->ops.destroy(self);
}
END_TEST

START_TEST(cuts_rows_where_asked)
{
    seen.cut_rows = true;
    start();
    ck_assert_str_eq(seen.claims, "act.complete@tp/0seq.shard@tp/0");
    plan.batch = plan.time = 1;
    ck_assert_int_eq(tensor->ops.plan(self, &plan), CADRE_E_INVALID);
    ck_assert_str_eq(
        seen.failure,
        "tensor.sequence_parallel cannot deal the 1 tokens of a "
        "micro-batch (train.micro_batch x model.context or data.window) to "
        "the 2 ranks of tensor in strategy.stack; use fewer ranks or "
        "sequence_parallel = no");
    tensor->ops.destroy(self);
}
END_TEST

START_TEST(scatters_and_gathers)
{
    static const struct {
        uint32_t form;
        const char *op;
    } cases[] = {{CADRE_JOIN_WHOLE, "all_reduce"},
                 {CADRE_JOIN_SCATTER, "reduce_scatter"},
                 {CADRE_JOIN_GATHER, "all_gather"}};
    const uint64_t offsets[] = {0, 1, 3};
    struct cadre_buf in = {.struct_size = sizeof in}, out = {.struct_size = sizeof out};
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cadre_joint_ev ev = {
            .struct_size = sizeof ev,
            .joint = CADRE_AT_MLP_IN,
            .form = cases[i].form,
            .in = &in,
            .out = &out,
            .offsets = i > 0 ? offsets : NULL,
        };
        ck_assert_int_eq(tensor->ops.on_joint(self, &ev), CADRE_OK);
        ck_assert_str_eq(seen.op, cases[i].op);
        ck_assert_str_eq(seen.label, "tensor MLP in");
        ck_assert_ptr_eq(seen.offsets, ev.offsets);
        ck_assert_int_eq(seen.joins, (int)i + 1);
    }
    tensor->ops.destroy(self);
}
END_TEST

static cadre_status no_work(void *h, const struct cadre_step *step)
{
    (void)h;
    (void)step;
    return CADRE_OK;
}

static void run_step(void)
{
    const struct cadre_step step = {.struct_size = sizeof step};
    const struct cadre_next next = {.struct_size = sizeof next, .run = no_work};
    seen.posts = seen.joins = 0;
    ck_assert_int_eq(tensor->ops.step(self, &step, &next), CADRE_OK);
    ck_assert_int_eq(tensor->ops.sync(self, CADRE_SYNC_GRADS), CADRE_OK);
}

/* Entries 1, 2 and 4, once, by what this rank holds of each. */
START_TEST(sums_what_adds_over_rows)
{
    start();
    run_step();
    ck_assert_int_eq(seen.posts, 0);
    tensor->ops.destroy(self);
    seen.cut_rows = true;
    start();
    run_step();
    ck_assert_int_eq(seen.posts, 3);
    ck_assert_uint_eq(seen.counts[0], 10);
    ck_assert_uint_eq(seen.counts[1], 20);
    ck_assert_uint_eq(seen.counts[2], 40);
    ck_assert_int_eq(seen.joins, 1);
    ck_assert_int_eq(tensor->ops.sync(self, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(seen.posts, 3);
    seen.sharded = true;
    run_step();
    ck_assert_int_eq(seen.posts, 2);
    ck_assert_uint_eq(seen.counts[0], 1);
    ck_assert_uint_eq(seen.counts[1], 20);
    seen.fail_post = true;
    const struct cadre_step step = {.struct_size = sizeof step};
    const struct cadre_next next = {.struct_size = sizeof next, .run = no_work};
    ck_assert_int_eq(tensor->ops.step(self, &step, &next), CADRE_OK);
    ck_assert_int_eq(tensor->ops.sync(self, CADRE_SYNC_GRADS), CADRE_E_COMM);
    tensor->ops.destroy(self);
}
END_TEST

START_TEST(says_what_failed)
{
    struct cadre_buf buf = {.struct_size = sizeof buf};
    struct cadre_joint_ev ev = {.struct_size = sizeof ev, .in = &buf, .out = &buf};
    start();
    seen.fail_post = true;
    ck_assert_int_eq(tensor->ops.on_joint(self, &ev), CADRE_E_COMM);
    seen.fail_post = false;
    seen.fail_join = true;
    ck_assert_int_eq(tensor->ops.on_joint(self, &ev), CADRE_E_ABORTED);
    ev.joint = CADRE_AT_LOSS_SUM + 1;
    ck_assert_int_eq(tensor->ops.on_joint(self, &ev), CADRE_E_UNSUPPORTED);
    ck_assert_str_eq(seen.failure, "joint 8 is not known to this version");
    tensor->ops.destroy(self);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("tensor");
    TCase *tc = tcase_create("tensor");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, plans_its_axis);
    tcase_add_test(tc, needs_its_services);
    tcase_add_test(tc, completes_every_joint);
    tcase_add_test(tc, cuts_rows_where_asked);
    tcase_add_test(tc, scatters_and_gathers);
    tcase_add_test(tc, sums_what_adds_over_rows);
    tcase_add_test(tc, says_what_failed);
    suite_add_tcase(s, tc);
    return s;
}
