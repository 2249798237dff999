/* SPDX-License-Identifier: Apache-2.0 */
#include "core/strategy/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
        return cadre_fail(&s->said, CADRE_E_RESOURCE, "no memory for %s", name);
    s->variable_by[at] = s->plugin;
    return CADRE_OK;
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
    struct cadre_text own = {0};
    print_cpus(&own, &s->own);
    cadre_fail(&s->said, CADRE_E_INVALID,
               "plugin '%s' puts rank %u on CPU %u, but this process may use %s alone; "
               "take fewer ranks or start it on more CPUs",
               s->plugin, s->abi.rank, cpu, cadre_text_str(&own));
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
        if (cpu[i] >= CPU_SETSIZE || !CPU_ISSET(cpu[i], &s->own))
            return refuse_cpus(s, cpu[i]);
        CPU_SET(cpu[i], &set);
    }
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

void cadre_place_session_init(struct cadre_place_session *session, int rank,
                              bool processes, const cpu_set_t *own,
                              struct cadre_launch_place *place)
{
    *session = (struct cadre_place_session){
        .abi =
            {
                .struct_size = sizeof session->abi,
                .rank = (uint32_t)rank,
                .h = session,
                .env = wish_env,
                .cpus = wish_cpus,
            },
        .processes = processes,
        .own = *own,
        .place = place,
    };
}

static cadre_status collect_rank(struct cadre_places *places, int index,
                                 const struct cadre_run_spec *spec, bool processes,
                                 const cpu_set_t *own, struct cadre_error *err)
{
    struct cadre_place_session session;
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, spec, index, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_place_session_init(&session, index, processes, own, &places->rank[index]);
    rc = cadre_chain_place(&rank.chain, &session, err);
    cadre_rank_fini(&rank);
    return rc;
}

cadre_status cadre_places_collect(struct cadre_places *places,
                                  const struct cadre_run_spec *spec, bool processes,
                                  struct cadre_error *err)
{
    cpu_set_t own;
    bool wished = false;
    cadre_status rc = CADRE_OK;
    *places = (struct cadre_places){.ranks = spec->ranks};
    for (int i = 0; i < spec->n_plugins; i++)
        wished = wished || spec->plugin[i]->ops.place;
    if (!wished)
        return CADRE_OK;
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "cannot tell the CPUs of this process");
    places->rank = cadre_calloc((size_t)spec->ranks, sizeof *places->rank);
    if (!places->rank)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for %d ranks", spec->ranks);
    for (int r = 0; r < spec->ranks && rc == CADRE_OK; r++)
        rc = collect_rank(places, r, spec, processes, &own, err);
    return rc;
}

void cadre_places_fini(struct cadre_places *places)
{
    for (int r = 0; places->rank && r < places->ranks; r++)
        for (int i = 0; places->rank[r].variable[i]; i++)
            free(places->rank[r].variable[i]);
    free(places->rank);
    places->rank = NULL;
}
