/* SPDX-License-Identifier: Apache-2.0 */
#include "core/strategy/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cores.h"
#include "core/base/memory.h"
#include "core/strategy/rank.h"

static bool is_variable_name(const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789";
    return name && *name && !(*name >= '0' && *name <= '9') &&
           name[strspn(name, letters)] == '\0';
}

/* The index of `name` among the variables, or of the free place after them. */
static int find_variable(const struct cadre_launch_place *place, const char *name)
{
    const size_t length = strlen(name);
    int i = 0;
    while (place->variable[i] && (strncmp(place->variable[i], name, length) != 0 ||
                                  place->variable[i][length] != '='))
        i++;
    return i;
}

static cadre_status add_variable(struct cadre_place_session *s, const char *name,
                                 const char *value)
{
    char **variable = s->place->variable;
    const int at = find_variable(s->place, name);
    if (variable[at]) {
        if (strcmp(variable[at] + strlen(name) + 1, value) == 0)
            return CADRE_OK;
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugins '%s' and '%s' set the variable %s of rank %u to "
                          "different values ('%s' and '%s'); leave one of them out",
                          s->variable_by[at], s->plugin, name, s->abi.rank,
                          variable[at] + strlen(name) + 1, value);
    }
    if (at == CADRE_LAUNCH_VARIABLES)
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugin '%s' sets %s for rank %u, which has %d variables "
                          "already; more are not kept",
                          s->plugin, name, s->abi.rank, CADRE_LAUNCH_VARIABLES);
    variable[at] = cadre_format("%s=%s", name, value);
    if (!variable[at])
        return cadre_no_memory(&s->said, "%s", name);
    s->variable_by[at] = s->plugin;
    return CADRE_OK;
}

/* What somebody else has given the process cannot be changed any more. */
static cadre_status compare_variable(struct cadre_place_session *s, const char *name,
                                     const char *value)
{
    const char *found = getenv(name);
    if (found && strcmp(found, value) == 0)
        return CADRE_OK;
    return cadre_fail(&s->said, CADRE_E_INVALID,
                      "plugin '%s' wants %s=%s for rank %u, which was started from "
                      "outside with %s%s; set it where the rank is started, or leave "
                      "the plugin out",
                      s->plugin, name, value, s->abi.rank, found ? "" : "none",
                      found ? found : "");
}

static cadre_status wish_env(void *h, const char *name, const char *value)
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
    if (s->outside)
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
               "plugin '%s' puts rank %u on CPU %u, but %s %s alone; take fewer ranks "
               "or start it on more CPUs",
               s->plugin, s->abi.rank, cpu,
               s->outside ? "its job has" : "this process may use",
               cadre_text_str(&may));
    cadre_text_fini(&may);
    return s->said.code;
}

static cadre_status compare_cpus(struct cadre_place_session *s, const cpu_set_t *set)
{
    struct cadre_text wished = {0}, own = {0};
    cpu_set_t common;
    CPU_AND(&common, set, &s->own);
    if (CPU_EQUAL(&common, &s->own))
        return CADRE_OK;
    print_cpus(&wished, set);
    print_cpus(&own, &s->own);
    cadre_fail(&s->said, CADRE_E_INVALID,
               "plugin '%s' wants rank %u on CPUs %s, but it was started from outside "
               "on CPUs %s; bind it there (taskset, srun --cpu-bind=map_cpu, mpirun "
               "--bind-to), or leave the plugin out",
               s->plugin, s->abi.rank, cadre_text_str(&wished), cadre_text_str(&own));
    cadre_text_fini(&wished);
    cadre_text_fini(&own);
    return s->said.code;
}

static cadre_status wish_cpus(void *h, const uint32_t *cpu, uint32_t n)
{
    struct cadre_place_session *s = h;
    cpu_set_t set;
    if (s->said.code != CADRE_OK)
        return s->said.code;
    if (!cpu || n == 0)
        return cadre_fail(
            &s->said, CADRE_E_INVALID,
            "plugin '%s' puts rank %u on no CPU at all: expected at least "
            "one",
            s->plugin, s->abi.rank);
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < n; i++) {
        if (cpu[i] >= CPU_SETSIZE || !CPU_ISSET(cpu[i], &s->may))
            return refuse_cpus(s, cpu[i]);
        CPU_SET(cpu[i], &set);
    }
    if (s->outside)
        return compare_cpus(s, &set);
    if (s->place->pinned && !CPU_EQUAL(&set, &s->place->cpus))
        return cadre_fail(&s->said, CADRE_E_INVALID,
                          "plugins '%s' and '%s' put rank %u on different CPUs; leave "
                          "one of them out",
                          s->cpus_by, s->plugin, s->abi.rank);
    s->place->pinned = true;
    s->place->cpus = set;
    s->cpus_by = s->plugin;
    return CADRE_OK;
}

/* What plugins are told. */
static void fill_abi(struct cadre_place_session *s,
                     const struct cadre_places_request *request, int rank)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &s->may))
            s->cpu[n++] = cpu;
    s->abi = (struct cadre_place){
        .struct_size = sizeof s->abi,
        .rank = (uint32_t)rank,
        .h = s,
        .env = wish_env,
        .cpus = wish_cpus,
        .gpu = request->gpu,
        .outside = request->outside != NULL,
        .ranks = (uint32_t)request->spec->ranks,
        .local_ranks = (uint32_t)(request->outside ? request->outside->local_size
                                                   : request->spec->ranks),
        .cpu = s->cpu,
        .n_cpus = n,
        .threads = (uint32_t)request->spec->device.threads,
        .nccl = request->nccl,
    };
}

void cadre_place_session_init(struct cadre_place_session *session,
                              const struct cadre_places_request *request, int rank,
                              const cpu_set_t *own, const cpu_set_t *may,
                              struct cadre_launch_place *place)
{
    memset(session, 0, sizeof *session);
    session->processes = request->processes;
    session->outside = request->outside != NULL;
    session->own = *own;
    session->may = *may;
    session->place = place;
    fill_abi(session, request, rank);
}

static cadre_status collect_rank(const struct cadre_places_request *request, int index,
                                 struct cadre_launch_place *place,
                                 struct cadre_error *err)
{
    struct cadre_place_session session;
    struct cadre_rank rank;
    cpu_set_t own, may;
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "cannot tell the CPUs of this process");
    may = own;
    if (request->outside)
        cadre_cores_job(&may);
    cadre_status rc = cadre_rank_plan(&rank, request->spec, index, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_place_session_init(&session, request, index, &own, &may, place);
    rc = cadre_chain_place(&rank.chain, &session, err);
    cadre_rank_fini(&rank);
    return rc;
}

static bool has_wishes(const struct cadre_run_spec *spec)
{
    for (int i = 0; i < spec->n_plugins; i++)
        if (spec->plugin[i]->ops.place)
            return true;
    return false;
}

cadre_status cadre_places_collect(struct cadre_places *places,
                                  const struct cadre_places_request *request,
                                  struct cadre_error *err)
{
    const struct cadre_run_spec *spec = request->spec;
    cadre_status rc = CADRE_OK;
    *places = (struct cadre_places){.ranks = spec->ranks};
    if (!has_wishes(spec))
        return CADRE_OK;
    places->rank = cadre_calloc((size_t)spec->ranks, sizeof *places->rank);
    if (!places->rank)
        return cadre_no_memory(err, "%d ranks", spec->ranks);
    for (int r = 0; r < spec->ranks && rc == CADRE_OK; r++)
        rc = collect_rank(request, r, &places->rank[r], err);
    return rc;
}

cadre_status cadre_places_check(const struct cadre_places_request *request,
                                struct cadre_error *err)
{
    struct cadre_launch_place nothing = {0};
    if (!has_wishes(request->spec))
        return CADRE_OK;
    return collect_rank(request, request->outside->rank, &nothing, err);
}

void cadre_places_fini(struct cadre_places *places)
{
    for (int r = 0; places->rank && r < places->ranks; r++)
        for (int i = 0; places->rank[r].variable[i]; i++)
            free(places->rank[r].variable[i]);
    free(places->rank);
    places->rank = NULL;
}
