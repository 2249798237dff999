/* SPDX-License-Identifier: Apache-2.0 */
/* Places rank r on the r-th CPU that the launching process may use and names itself in
 * the variable TEST_PLACE, then writes in bind what the rank sees of it:
 * "cpus LIST variable VALUE threads N", N threads of its process being on those CPUs
 * alone. All ranks do the same work. */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const char *report;
    int env, far, wide;
    uint32_t rank;
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, NULL, sizeof *self, &self));
    self->host = in->host;
    self->report = values->str(values->h, "report");
    self->env = values->i64(values->h, "env") != 0;
    self->far = values->i64(values->h, "far") != 0;
    self->wide = values->i64(values->h, "wide") != 0;
    *out = self;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    self->rank = p->rank;
    return p->use_axis(p->h, p->axis, CADRE_BATCH_SAME);
}

static cadre_status place(struct cadre_self *self, const struct cadre_place *p)
{
    char value[32];
    cpu_set_t own;
    uint32_t cpu = self->far ? 100000 : 0, nth = 0;
    if (p->rank != self->rank)
        return cadre_refuse(self->host, CADRE_E_INTERNAL, "an instance of rank %u",
                            self->rank);
    if (self->wide && p->rank == 0)
        return p->cpus(p->h, p->cpu, p->n_cpus);
    sched_getaffinity(0, sizeof own, &own);
    for (; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &own) && nth++ == p->rank)
            break;
    CADRE_TRY(p->cpus(p->h, &cpu, 1));
    if (!self->env)
        return CADRE_OK;
    snprintf(value, sizeof value, "rank %u", p->rank);
    return p->env(p->h, "TEST_PLACE", value);
}

static int threads_on(const cpu_set_t *set)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        cpu_set_t theirs;
        if (atoi(e->d_name) > 0 &&
            sched_getaffinity(atoi(e->d_name), sizeof theirs, &theirs) == 0)
            n += CPU_EQUAL(&theirs, set);
    }
    if (dir)
        closedir(dir);
    return n;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    const char *variable = getenv("TEST_PLACE");
    char path[1024];
    cpu_set_t set;
    (void)in;
    snprintf(path, sizeof path, "%s.%u", self->report, self->rank);
    FILE *out = fopen(path, "w");
    if (!out)
        return cadre_refuse(self->host, CADRE_E_IO, "cannot write '%s'", path);
    sched_getaffinity(0, sizeof set, &set);
    fprintf(out, "cpus");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            fprintf(out, " %d", cpu);
    fprintf(out, " variable %s threads %d\n", variable ? variable : "none",
            threads_on(&set));
    fclose(out);
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    if (in->what == CADRE_SYNC_DRAIN && getenv("TEST_PLACE_RESTLESS"))
        return cadre_refuse(self->host, CADRE_E_DEVICE, "does not come to rest");
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "report", .def = "",
                 .help = "what ranks see goes to this path and .RANK"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "env", .def = "yes",
                 .help = "set TEST_PLACE"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "far", .def = "no",
                 .help = "take a CPU that is not there"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "wide", .def = "no",
                 .help = "rank 0 takes all CPUs, without TEST_PLACE"),
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

CADRE_PLUGIN(.role = CADRE_ROLE_PLACEMENT, .id = "org.example.place", .version = "1.0",
             .summary = "a CPU and a variable for each rank", .axis = "place",
             CADRE_OPTIONS(options), .ops = &ops)
