/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cores.h"
#include "core/base/memory.h"
#include "core/engine/rank.h"

_Static_assert(sizeof((struct cadre_launch_place *)0)->variable ==
                   sizeof((struct cadre_place_session *)0)->variable,
               "a launch has space for what a session keeps");

static cadre_status collect_rank(const struct cadre_places_request *request, int index,
                                 struct cadre_launch_place *place,
                                 struct cadre_error *err)
{
    const struct cadre_launch_external *external = request->external;
    struct cadre_place_session session;
    struct cadre_rank rank;
    cpu_set_t own, may;
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "cannot read the CPUs of this process");
    may = own;
    if (external)
        cadre_cores_job(&may);
    CADRE_TRY(cadre_rank_plan(&rank, request->spec, index, err));
    const struct cadre_place_facts facts = {
        .rank = index,
        .ranks = request->spec->ranks,
        .local_ranks = external ? external->local_size : request->spec->ranks,
        .threads = request->spec->device.threads,
        .processes = request->processes,
        .external = external != NULL,
        .gpu = request->gpu,
        .nccl = request->nccl,
        .own = &own,
        .may = &may,
    };
    cadre_place_session_init(&session, &facts);
    cadre_status rc = cadre_chain_place(&rank.chain, &session, err);
    memcpy(place->variable, session.variable, sizeof place->variable);
    place->pinned = session.pinned;
    place->cpus = session.cpus;
    cadre_rank_fini(&rank);
    return rc;
}

static bool has_requests(const struct cadre_run_spec *spec)
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
    if (!has_requests(spec))
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
    if (!has_requests(request->spec))
        return CADRE_OK;
    return collect_rank(request, request->external->rank, &nothing, err);
}

/* Are all ranks pinned, and not all to as many CPUs? */
static bool are_uneven(const struct cadre_places *places)
{
    bool differ = false;
    for (int r = 0; r < places->ranks; r++) {
        if (!places->rank || !places->rank[r].pinned)
            return false;
        differ = differ ||
                 CPU_COUNT(&places->rank[r].cpus) != CPU_COUNT(&places->rank[0].cpus);
    }
    return differ;
}

void cadre_places_count_threads(struct cadre_places *places)
{
    if (!are_uneven(places))
        return;
    for (int r = 0; r < places->ranks; r++) {
        struct cadre_launch_place *mine = &places->rank[r];
        int together = 1; /* with the same cores */
        for (int o = 0; o < places->ranks; o++)
            together += o != r && CPU_EQUAL(&places->rank[o].cpus, &mine->cpus);
        mine->threads = cadre_cores_of(&mine->cpus, "") / together;
        if (mine->threads == 0)
            mine->threads = 1;
    }
}

void cadre_places_fini(struct cadre_places *places)
{
    for (int r = 0; places->rank && r < places->ranks; r++)
        for (int i = 0; places->rank[r].variable[i]; i++)
            free(places->rank[r].variable[i]);
    free(places->rank);
    places->rank = NULL;
}
