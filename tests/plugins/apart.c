/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of their own: the ranks of place k along the axis begin on the k-th CPU that the
 * launching process may use (counted round), with TEST_APART=k. apart.clash gives each
 * rank another TEST_CLASH, which ranks of one instance cannot have. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    int pin, clash;
};

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    cadre_status rc = CADRE_OK;
    struct cadre_self *self = calloc(1, sizeof *self);
    if (!self)
        return CADRE_E_RESOURCE;
    self->host = host;
    self->mesh = cadre_fetch(host, CADRE_SERVICE_MESH, &rc);
    self->pin = values->i64(values->h, "pin") != 0;
    self->clash = values->i64(values->h, "clash") != 0;
    if (rc == CADRE_OK)
        *out = self;
    else
        free(self);
    return rc;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    (void)self;
    return p->use_axis(p->h, "apart", CADRE_BATCH_APART);
}

/* The nth CPU of this process, counted round. */
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
    const struct cadre_axis *axis = self->mesh->axis(self->host->ctx, "apart");
    const uint32_t k = (uint32_t)self->mesh->rank(axis), cpu = find_cpu(k);
    char value[32];
    cadre_status rc = self->pin ? p->cpus(p->h, &cpu, 1) : CADRE_OK;
    snprintf(value, sizeof value, "%u", k);
    if (rc == CADRE_OK)
        rc = p->env(p->h, "TEST_APART", value);
    snprintf(value, sizeof value, "%u", p->rank);
    if (rc == CADRE_OK && self->clash)
        rc = p->env(p->h, "TEST_CLASH", value);
    return rc;
}

static cadre_status bind(struct cadre_self *self)
{
    return cadre_refuse(self->host, CADRE_E_INTERNAL, "an instance was bound");
}

static cadre_status sync(struct cadre_self *self, uint32_t what)
{
    (void)self;
    (void)what;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self)
{
    free(self);
}

static const struct cadre_option options[] = {
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_STR,
        .key = "sweep",
        .def = "",
        .help = "what differs between the runs",
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_BOOL,
        .key = "pin",
        .def = "yes",
        .help = "wish a CPU for each run",
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_BOOL,
        .key = "clash",
        .def = "no",
        .help = "wish another environment for each rank",
    },
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

static const struct cadre_plugin descriptor = {
    .magic = CADRE_MAGIC,
    .struct_size = sizeof descriptor,
    .abi_major = CADRE_ABI_MAJOR,
    .abi_minor = CADRE_ABI_MINOR,
    .role = CADRE_ROLE_PLACEMENT,
    .id = "org.example.apart",
    .version = "1.0",
    .summary = "runs of their own",
    .build = "",
    .axis = "apart",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .option_stride = sizeof *options,
    .ops = &ops,
};

const struct cadre_plugin *CADRE_ENTRY(void)
{
    return &descriptor;
}
