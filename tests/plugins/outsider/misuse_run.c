/* SPDX-License-Identifier: Apache-2.0 */
/* Misuses while a training runs. Statuses are ignored: the host must fail the callback
 * all the same. Those of functions that know no instance are returned. */
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/outsider/outsider.h"

/* Gradient entry 0, which every rank has under a data strategy. */
static struct cadre_buf grad(struct cadre_self *s)
{
    struct cadre_buf buf = {0};
    (void)s->param->grad(s->ctx, 0, &buf);
    return buf;
}

static struct cadre_post post(void)
{
    return cadre_post("outsider", CADRE_TRAFFIC_OTHER, 0);
}

/* ---- NULL ---- */

static cadre_status no_ctx(struct cadre_self *s)
{
    struct cadre_buf buf;
    return s->param->data(NULL, 0, &buf);
}

static cadre_status no_buffer(struct cadre_self *s)
{
    struct cadre_post p = post();
    (void)s->comm->all_reduce(s->axis, NULL, NULL, CADRE_SUM, &p);
    return CADRE_OK;
}

static cadre_status no_post(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    (void)s->comm->all_reduce(s->axis, &buf, &buf, CADRE_SUM, NULL);
    return CADRE_OK;
}

static cadre_status no_comm_axis(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    return s->comm->all_reduce(NULL, &buf, &buf, CADRE_SUM, &p);
}

static cadre_status no_offsets(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    (void)s->comm->reduce_scatter(s->axis, &buf, &buf, NULL, CADRE_SUM, &p);
    return CADRE_OK;
}

static cadre_status no_result(struct cadre_self *s)
{
    (void)s->param->data(s->ctx, 0, NULL);
    return CADRE_OK;
}

static cadre_status no_operand(struct cadre_self *s)
{
    (void)s->ops->scale(s->ctx, NULL, 2);
    return CADRE_OK;
}

static cadre_status no_step(struct cadre_self *s)
{
    (void)s->next.run(s->next.h, NULL);
    return CADRE_OK;
}

static cadre_status no_storage(struct cadre_self *s)
{
    struct cadre_buf buf = cadre_buf_of(NULL, 64, CADRE_F32, CADRE_SPACE_DEVICE);
    (void)s->ops->scale(s->ctx, &buf, 2);
    return CADRE_OK;
}

/* ---- sizes and values ---- */

static cadre_status count_beyond(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    buf.count = UINT64_C(1) << 32;
    (void)s->ops->scale(s->ctx, &buf, 2);
    return CADRE_OK;
}

static cadre_status zero_beyond(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    (void)s->ops->zero(s->ctx, buf.data, UINT64_C(1) << 40);
    return CADRE_OK;
}

static cadre_status send_beyond(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    buf.count = UINT64_C(1) << 32;
    (void)s->comm->all_reduce(s->axis, &buf, &buf, CADRE_SUM, &p);
    return CADRE_OK;
}

static cadre_status dtype_99(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    buf.dtype = 99;
    (void)s->ops->scale(s->ctx, &buf, 2);
    return CADRE_OK;
}

static cadre_status red_9(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    (void)s->comm->all_reduce(s->axis, &buf, &buf, 9, &p);
    return CADRE_OK;
}

static cadre_status to_rank_9(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    (void)s->comm->send(s->axis, &buf, 9, &p);
    return CADRE_OK;
}

static cadre_status falling_offsets(struct cadre_self *s)
{
    const uint64_t offsets[CADRE_MAX_AXES + 1] = {0, 8, 4};
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    (void)s->comm->reduce_scatter(s->axis, &buf, &buf, offsets, CADRE_SUM, &p);
    return CADRE_OK;
}

static cadre_status unknown_event(struct cadre_self *s)
{
    (void)s->comm->stream_wait(s->axis, UINT64_C(0xdeadbeef));
    return CADRE_OK;
}

static cadre_status entry_999(struct cadre_self *s)
{
    struct cadre_buf buf;
    (void)s->param->data(s->ctx, 999, &buf);
    return CADRE_OK;
}

static cadre_status attach_unplaced(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    (void)s->param->attach(s->ctx, 0, &buf);
    return CADRE_OK;
}

static cadre_status any_sender(struct cadre_self *s)
{
    int32_t from;
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    (void)s->comm->recv_any(s->axis, &buf, &from, &p);
    return CADRE_OK;
}

static cadre_status fp8_product(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    const struct cadre_gemm_args args = {
        .struct_size = sizeof args,
        .dtype = CADRE_F8_E4M3,
        .m = 1,
        .n = 1,
        .k = 1,
        .lda = 1,
        .ldb = 1,
        .ldc = 1,
        .a = buf.data,
        .b = buf.data,
        .c = buf.data,
        .c_dtype = CADRE_F32,
    };
    (void)s->ops->gemm(s->ctx, &args);
    return CADRE_OK;
}

/* ---- at the wrong time ---- */

static cadre_status next_late(struct cadre_self *s)
{
    (void)s->next.run(s->next.h, &s->at);
    return CADRE_OK;
}

static cadre_status forward(struct cadre_self *s)
{
    const struct cadre_pass_args args = {.struct_size = sizeof args, .next_unit = -1};
    (void)s->model->forward(s->ctx, &args);
    return CADRE_OK;
}

static cadre_status comm_early(struct cadre_self *s)
{
    float x = 0;
    struct cadre_buf buf = cadre_buf_of(&x, 1, CADRE_F32, CADRE_SPACE_DEVICE);
    struct cadre_post p = post();
    (void)s->comm->all_reduce(s->mesh->axis(s->ctx, NULL), &buf, &buf, CADRE_SUM, &p);
    return CADRE_OK;
}

static cadre_status comm_late(struct cadre_self *s)
{
    struct cadre_post p = post();
    (void)s->comm->barrier(s->axis, &p);
    return CADRE_OK;
}

static cadre_status sink_late(struct cadre_self *s)
{
    uint8_t byte = 0;
    if (s->sink.blob)
        (void)s->sink.blob(s->sink.h, "late", 1, CADRE_BLOB_REPLICATED, &byte, 1);
    return CADRE_OK;
}

static cadre_status key_space(struct cadre_self *s)
{
    uint8_t byte = 0;
    (void)s->sink.blob(s->sink.h, "a key", 1, CADRE_BLOB_REPLICATED, &byte, 1);
    return CADRE_OK;
}

static cadre_status key_long(struct cadre_self *s)
{
    uint8_t byte = 0;
    (void)s->sink.blob(
        s->sink.h, "a_key_that_is_longer_than_the_forty_seven_characters_it_may_have",
        1, CADRE_BLOB_REPLICATED, &byte, 1);
    return CADRE_OK;
}

/* ---- gradients ---- */

/* Nothing has been raised yet in this step. */
static cadre_status reduced_early(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    (void)s->param->reduced(s->ctx, 0, &buf, 0);
    return CADRE_OK;
}

/* Under another strategy that shards gradients there is none to read. */
static cadre_status grad_assumed(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    volatile float *first = buf.data;
    first[0] *= 1;
    return CADRE_OK;
}

/* ---- ranks that differ ---- */

static cadre_status drift(struct cadre_self *s)
{
    struct cadre_buf buf;
    CADRE_TRY(s->param->data(s->ctx, 0, &buf));
    return s->rank == 1 ? s->ops->scale(s->ctx, &buf, 1.0625) : CADRE_OK;
}

static cadre_status other_operation(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    if (s->rank == 1)
        CADRE_TRY(s->comm->broadcast(s->axis, &buf, 0, &p));
    else
        CADRE_TRY(s->comm->all_reduce(s->axis, &buf, &buf, CADRE_SUM, &p));
    return s->comm->stream_wait(s->axis, p.done);
}

static cadre_status no_partner(struct cadre_self *s)
{
    struct cadre_buf buf = grad(s);
    struct cadre_post p = post();
    if (s->rank != 1)
        return CADRE_OK;
    CADRE_TRY(s->comm->recv(s->axis, &buf, 0, &p));
    return s->comm->stream_wait(s->axis, p.done);
}

static cadre_status fail_alone(struct cadre_self *s)
{
    return s->rank == 1 ? cadre_refuse(s->host, CADRE_E_NUMERIC, "as was asked")
                        : CADRE_OK;
}

const struct outsider_misuse outsider_run_misuses[] = {
    {"no_ctx", "step", no_ctx},
    {"no_buffer", "step", no_buffer},
    {"no_post", "step", no_post},
    {"no_comm_axis", "step", no_comm_axis},
    {"no_offsets", "step", no_offsets},
    {"no_result", "step", no_result},
    {"no_operand", "step", no_operand},
    {"no_step", "step", no_step},
    {"no_storage", "step", no_storage},
    {"count_beyond", "step", count_beyond},
    {"zero_beyond", "step", zero_beyond},
    {"send_beyond", "step", send_beyond},
    {"dtype_99", "step", dtype_99},
    {"red_9", "step", red_9},
    {"to_rank_9", "step", to_rank_9},
    {"falling_offsets", "step", falling_offsets},
    {"unknown_event", "step", unknown_event},
    {"entry_999", "step", entry_999},
    {"attach_unplaced", "step", attach_unplaced},
    {"any_sender", "step", any_sender},
    {"fp8_product", "step", fp8_product},
    {"next_late", "sync", next_late},
    {"forward_in_sync", "sync", forward},
    {"forward_in_step", "step", forward},
    {"comm_in_plan", "plan", comm_early},
    {"comm_in_destroy", "destroy", comm_late},
    {"sink_late", "destroy", sink_late},
    {"key_space", "state", key_space},
    {"key_long", "state", key_long},
    {"reduced_early", "step", reduced_early},
    {"grad_assumed", "sync", grad_assumed},
    {"drift", "update", drift},
    {"other_operation", "step", other_operation},
    {"no_partner", "step", no_partner},
    {"fail_alone", "step", fail_alone},
    {NULL, NULL, NULL},
};
