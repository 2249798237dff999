/* SPDX-License-Identifier: Apache-2.0 */
/* A wire codec beside zero: gathered parameters are sent as int8 in blocks with a scale
 * each (ZeRO++'s quantized weights). `block = 0` sends them as they are.
 * Source: Wang et al., ZeRO++, 2023. */
#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_ops_svc *ops;
    uint64_t block;
    const char *along;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(ops, OPS, dequantize),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, services, sizeof **out, out));
    (*out)->host = c->host;
    (*out)->block = (uint64_t)c->values->i64(c->values->h, "block");
    (*out)->along = c->values->str(c->values->h, "along");
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    struct cadre_axis *axis = s->mesh->find(s->host->ctx, s->along);
    if (s->block == 0 || !axis || s->mesh->size(axis) == 1)
        return CADRE_OK;
    CADRE_TRY(p->claim(p->h, "wire.codec", s->along, 0));
    return p->by_design(p->h, "block=0");
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

/* Codes, to a multiple of 4 bytes, then a scale for each block. */
static uint64_t codes_bytes(uint64_t n)
{
    return (n + 3) / 4 * 4;
}

static uint64_t n_scales(const struct cadre_self *s, uint64_t n)
{
    return n / s->block + (n % s->block != 0);
}

static uint64_t wire_bytes(struct cadre_self *s, uint32_t kind, uint32_t dtype,
                           uint64_t n)
{
    (void)dtype;
    return kind == CADRE_TRAFFIC_PARAM ? codes_bytes(n) + 4 * n_scales(s, n) : 0;
}

static cadre_status wire(struct cadre_self *s, const struct cadre_wire_ev *ev)
{
    const struct cadre_buf *x = ev->encode ? ev->in : ev->out;
    const struct cadre_buf *sent = ev->encode ? ev->out : ev->in;
    char *bytes = sent->data;
    struct cadre_buf codes = cadre_buf_of(bytes, x->count, CADRE_I8, sent->space);
    struct cadre_buf scales = cadre_buf_of(
        bytes + codes_bytes(x->count), n_scales(s, x->count), CADRE_F32, sent->space);
    if (x->count == 0)
        return CADRE_OK;
    return ev->encode ? s->ops->quantize(s->host->ctx, x, s->block, &codes, &scales)
                      : s->ops->dequantize(s->host->ctx, &codes, &scales, s->block, x);
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "block", .def = "64", .max = 65536,
                 .help = "elements that share a scale; 0: not encoded"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "along", .def = "dp",
                 .help = "axis whose gathers are encoded"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
    .wire_bytes = wire_bytes,
    .wire = wire,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.qz", .version = "0.1.0",
             .summary = "gathers of parameters in int8", .axis = "qz",
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
