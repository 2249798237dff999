/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/place_session.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

static bool is_variable_name(const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789";
    return name && *name && !(*name >= '0' && *name <= '9') &&
           name[strspn(name, letters)] == '\0';
}

/* The index of `name` among the variables, or of the free entry after them. */
static int find_variable(char *const variable[], const char *name)
{
    const size_t length = strlen(name);
    int i = 0;
    while (variable[i] &&
           (strncmp(variable[i], name, length) != 0 || variable[i][length] != '='))
        i++;
    return i;
}

static cadre_status add_variable(struct cadre_place_session *s, const char *name,
                                 const char *value)
{
    char **variable = s->variable;
    const int at = find_variable(variable, name);
    if (variable[at]) {
        if (strcmp(variable[at] + strlen(name) + 1, value) == 0)
            return CADRE_OK;
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugins '%s' and '%s' set the variable %s of rank %u to "
                          "different values ('%s' and '%s'); leave one of them out",
                          s->variable_by[at], s->plugin, name, s->abi.rank,
                          variable[at] + strlen(name) + 1, value);
    }
    if (at == CADRE_PLACE_VARIABLES)
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugin '%s' sets %s for rank %u, which has %d variables "
                          "already; more are not kept",
                          s->plugin, name, s->abi.rank, CADRE_PLACE_VARIABLES);
    variable[at] = cadre_format("%s=%s", name, value);
    if (!variable[at])
        return cadre_no_memory(&s->said, "%s", name);
    s->variable_by[at] = s->plugin;
    return CADRE_OK;
}

/* A process that an external launcher started cannot be changed any more. */
static cadre_status compare_variable(struct cadre_place_session *s, const char *name,
                                     const char *value)
{
    const char *found = getenv(name);
    if (found && strcmp(found, value) == 0)
        return CADRE_OK;
    return cadre_fail(
        &s->said, CADRE_E_INVALID,
        "plugin '%s' wants %s=%s for rank %u, which was started by "
        "an external launcher with %s%s; set it where the rank is started, or leave "
        "the plugin out",
        s->plugin, name, value, s->abi.rank, found ? "" : "none", found ? found : "");
}

static cadre_status request_env(void *h, const char *name, const char *value)
{
    struct cadre_place_session *s = h;
    if (s->said.code != CADRE_OK)
        return s->said.code;
    if (!is_variable_name(name) || !value)
        return cadre_fail(
            &s->said, CADRE_E_INVALID,
            "plugin '%s' sets the variable '%.64s' of rank %u: expected a "
            "name of letters, digits and _, and a value",
            s->plugin, name ? name : "(none)", s->abi.rank);
    if (strncmp(name, "CADRE_", 6) == 0)
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugin '%s' sets the variable %.64s of rank %u: names that "
                          "begin with CADRE_ are the program's own",
                          s->plugin, name, s->abi.rank);
    if (s->external)
        return compare_variable(s, name, value);
    if (!s->processes)
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugin '%s' sets the variable %.64s of rank %u, but ranks "
                          "that are threads share one environment: needs comm.ranks = "
                          "processes",
                          s->plugin, name, s->abi.rank);
    return add_variable(s, name, value);
}

/* "0-3,8" */
static void print_cpus(struct cadre_text *out, const cpu_set_t *set)
{
    for (int first = 0; first < CPU_SETSIZE; first++) {
        int last = first;
        if (!CPU_ISSET(first, set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        cadre_text_printf(out, last > first ? "%s%d-%d" : "%s%d", out->len ? "," : "",
                          first, last);
        first = last;
    }
}

static cadre_status refuse_cpus(struct cadre_place_session *s, uint32_t cpu)
{
    struct cadre_text may = {0};
    print_cpus(&may, &s->may);
    cadre_fail(&s->said, CADRE_E_INVALID,
               "plugin '%s' puts rank %u on CPU %u, but %s only %s; use fewer ranks "
               "or start it on more CPUs",
               s->plugin, s->abi.rank, cpu,
               s->external ? "its job has" : "this process may use",
               cadre_text_str(&may));
    cadre_text_fini(&may);
    return s->said.code;
}

static cadre_status compare_cpus(struct cadre_place_session *s, const cpu_set_t *set)
{
    struct cadre_text requested = {0}, own = {0};
    cpu_set_t common;
    CPU_AND(&common, set, &s->own);
    if (CPU_EQUAL(&common, &s->own))
        return CADRE_OK;
    print_cpus(&requested, set);
    print_cpus(&own, &s->own);
    cadre_fail(
        &s->said, CADRE_E_INVALID,
        "plugin '%s' wants rank %u on CPUs %s, but it was started by an external "
        "launcher on CPUs %s; bind it there (taskset, srun --cpu-bind=map_cpu, mpirun "
        "--bind-to), or leave the plugin out",
        s->plugin, s->abi.rank, cadre_text_str(&requested), cadre_text_str(&own));
    cadre_text_fini(&requested);
    cadre_text_fini(&own);
    return s->said.code;
}

static cadre_status request_cpus(void *h, const uint32_t *cpu, uint32_t n)
{
    struct cadre_place_session *s = h;
    cpu_set_t set;
    if (s->said.code != CADRE_OK)
        return s->said.code;
    if (!cpu || n == 0)
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugin '%s' puts rank %u on no CPU: expected at least "
                          "one",
                          s->plugin, s->abi.rank);
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < n; i++) {
        if (cpu[i] >= CPU_SETSIZE || !CPU_ISSET(cpu[i], &s->may))
            return refuse_cpus(s, cpu[i]);
        CPU_SET(cpu[i], &set);
    }
    if (s->external)
        return compare_cpus(s, &set);
    if (s->pinned && !CPU_EQUAL(&set, &s->cpus))
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugins '%s' and '%s' put rank %u on different CPUs; leave "
                          "one of them out",
                          s->cpus_by, s->plugin, s->abi.rank);
    s->pinned = true;
    s->cpus = set;
    s->cpus_by = s->plugin;
    return CADRE_OK;
}

void cadre_place_session_init(struct cadre_place_session *session,
                              const struct cadre_place_facts *facts)
{
    uint32_t n = 0;
    memset(session, 0, sizeof *session);
    session->processes = facts->processes;
    session->external = facts->external;
    session->own = *facts->own;
    session->may = *facts->may;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &session->may))
            session->cpu[n++] = cpu;
    session->abi = (struct cadre_place){
        .struct_size = sizeof session->abi,
        .rank = (uint32_t)facts->rank,
        .h = session,
        .env = request_env,
        .cpus = request_cpus,
        .gpu = facts->gpu,
        .external = facts->external,
        .ranks = (uint32_t)facts->ranks,
        .local_ranks = (uint32_t)facts->local_ranks,
        .cpu = session->cpu,
        .n_cpus = n,
        .threads = (uint32_t)facts->threads,
        .nccl = facts->nccl,
    };
}
