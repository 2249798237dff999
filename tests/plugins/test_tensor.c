/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against tables that record what it asks for. Training with it is in
 * tests/cli/test_train_tensor.sh. */
#include <stdio.h>
#include <string.h>

#include <cadre/strategy.h>

#include "core/strategy/plugin.h"
#include "tests/support/check_main.h"

#define EVENT 42u

struct cadre_axis {
    int size;
};

/* What the plugin did; `ctx` and the tables' other handles are unused. */
static struct {
    struct cadre_axis axis;
    bool lacks_mesh, lacks_join, fail_axis, fail_post, fail_join;
    char failure[512], claim[64];
    uint32_t batch;
    int posts, joins;
    const char *label;
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

static cadre_status all_reduce(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               uint32_t red, cadre_event after, cadre_event *done)
{
    ck_assert_ptr_eq(axis, &seen.axis);
    ck_assert_uint_eq(after, 0);
    if (seen.fail_post)
        return CADRE_E_COMM;
    seen.posts++;
    seen.label = label;
    seen.in = in;
    seen.out = out;
    seen.red = red;
    *done = EVENT;
    return CADRE_OK;
}

static cadre_status join(struct cadre_axis *axis, cadre_event event)
{
    ck_assert_ptr_eq(axis, &seen.axis);
    ck_assert_uint_eq(event, EVENT);
    seen.joins++;
    return seen.fail_join ? CADRE_E_ABORTED : CADRE_OK;
}

static const void *service(struct cadre_ctx *ctx, const char *id)
{
    static const struct cadre_mesh_svc mesh = {.struct_size = sizeof mesh,
                                               .axis = mesh_axis};
    static const struct cadre_comm_svc comm = {
        .struct_size = sizeof comm, .all_reduce = all_reduce, .join = join};
    static const struct cadre_comm_svc poor = {
        .struct_size = offsetof(struct cadre_comm_svc, join), .all_reduce = all_reduce};
    (void)ctx;
    if (!strcmp(id, CADRE_SERVICE_MESH))
        return seen.lacks_mesh ? NULL : &mesh;
    return strcmp(id, CADRE_SERVICE_COMM) ? NULL : seen.lacks_join ? &poor : &comm;
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
    snprintf(seen.claim, sizeof seen.claim, "%s@%s/%u", effect, axis, flags);
    return CADRE_OK;
}

static const struct cadre_host host = {
    .struct_size = sizeof host,
    .abi_minor = CADRE_ABI_MINOR,
    .service = service,
    .fail = host_fail,
};
static const struct cadre_values values = {.struct_size = sizeof values};
static const struct cadre_plan plan = {
    .struct_size = sizeof plan, .ranks = 2, .use_axis = use_axis, .claim = claim};

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
    ck_assert_str_eq(seen.claim, "act.complete@tp/0");
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
    ck_assert_ptr_nonnull(strstr(seen.failure, "comm service lacks"));
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
    tcase_add_test(tc, says_what_failed);
    suite_add_tcase(s, tc);
    return s;
}
