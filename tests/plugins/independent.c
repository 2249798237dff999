/* SPDX-License-Identifier: Apache-2.0 */
/* Independent runs: the ranks of coordinate k along the axis start on the k-th CPU that
 * the launching process may use (modulo their number), with TEST_INDEPENDENT=k.
 * independent.clash gives each rank another TEST_CLASH, which ranks of one instance
 * cannot have. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    int pin, clash;
    uint32_t index; /* of the run */
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = in->host;
    self->pin = values->i64(values->h, "pin") != 0;
    self->clash = values->i64(values->h, "clash") != 0;
    *out = self;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    const struct cadre_axis *axis = self->mesh->axis(self->host->ctx, NULL);
    self->index = (uint32_t)self->mesh->rank(axis);
    return p->use_axis(p->h, p->axis, CADRE_BATCH_INDEPENDENT);
}

/* The nth CPU of this process, modulo their number. */
static uint32_t find_cpu(uint32_t nth)
{
    cpu_set_t own;
    uint32_t cpu = 0;
    sched_getaffinity(0, sizeof own, &own);
    nth %= (uint32_t)CPU_COUNT(&own);
    while (!CPU_ISSET(cpu, &own) || nth-- > 0)
        cpu++;
    return cpu;
}

static cadre_status place(struct cadre_self *self, const struct cadre_place *p)
{
    const uint32_t k = self->index, cpu = find_cpu(k);
    char value[32];
    if (self->pin)
        CADRE_TRY(p->cpus(p->h, &cpu, 1));
    snprintf(value, sizeof value, "%u", k);
    CADRE_TRY(p->env(p->h, "TEST_INDEPENDENT", value));
    snprintf(value, sizeof value, "%u", p->rank);
    return self->clash ? p->env(p->h, "TEST_CLASH", value) : CADRE_OK;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)in;
    return cadre_refuse(self->host, CADRE_E_INTERNAL, "an instance was bound");
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    (void)self, (void)in;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "sweep", .def = "",
                 .help = "what differs between the runs"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "pin", .def = "yes",
                 .help = "request a CPU for each run"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "clash", .def = "no",
                 .help = "request another environment for each rank"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .place = place,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_PLACEMENT, .id = "org.example.independent",
             .version = "1.0", .summary = "independent runs", .axis = "independent",
             CADRE_OPTIONS(options), .services = services, .ops = &ops)
