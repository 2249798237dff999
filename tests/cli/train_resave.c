/* SPDX-License-Identifier: Apache-2.0 */
/* train_resave CONF OUT [section.key=value]...: loads checkpoint.resume under the stack
 * given and saves it at once, without a step between, into OUT. Ranks are threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checkpoint/load.h"
#include "core/checkpoint/resume.h"
#include "core/checkpoint/save.h"
#include "core/launch/launch.h"
#include "core/run/rundir.h"

struct resave {
    const struct cadre_spec *spec;
    char *from;
    int64_t step;
};

static cadre_status reload(const struct resave *r, int index, struct cadre_comm *world,
                           struct cadre_error *err)
{
    struct cadre_rank rank;
    cadre_status rc = cadre_rank_plan(&rank, &r->spec->run, index, err);
    if (rc != CADRE_OK)
        return rc;
    CADRE_TRY_OR(cadre_rank_bind(&rank, world, (uint64_t)r->step, err), fail);
    CADRE_TRY_OR(cadre_load(&rank, r->from, err), fail);
    CADRE_TRY_OR(cadre_rank_drain(&rank), fail);
    CADRE_TRY_OR(cadre_save(&rank, r->spec->out, r->step, err), fail);
fail:
    cadre_rank_fini(&rank);
    return rc;
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    struct cadre_comm *world = NULL;
    struct cadre_error err = {0};
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    cadre_status rc = reload(arg, index, world, &err);
    if (rc != CADRE_OK)
        cadre_comm_abort(world, err.text);
    cadre_comm_destroy(world);
    return rc;
}

static cadre_status run(const struct cadre_spec *spec, struct cadre_error *err)
{
    struct resave r = {.spec = spec};
    cadre_status rc;
    CADRE_TRY_OR(cadre_resume_find(spec->config.checkpoint.resume, spec->out, &r.from,
                                   &r.step, err),
                 fail);
    if (!r.from)
        return cadre_fail(err, CADRE_E_INVALID, "checkpoint.resume names none");
    CADRE_TRY_OR(cadre_rundir_prepare(spec, true, NULL, err), fail);
    rc = spec->run.ranks == 1
             ? reload(&r, 0, NULL, err)
             : cadre_launch_threads(&spec->local, NULL, rank_main, &r, err);
fail:
    free(r.from);
    return rc;
}

static cadre_status load(const char *conf, char **sets, int n,
                         struct cadre_options **out, struct cadre_error *err)
{
    cadre_status rc = cadre_options_create(out, err);
    if (rc == CADRE_OK)
        rc = cadre_options_load(*out, conf, err);
    for (int i = 0; rc == CADRE_OK && i < n; i++)
        rc = cadre_options_set(*out, sets[i], "command line", err);
    return rc;
}

int main(int argc, char **argv)
{
    struct cadre_options *options = NULL;
    struct cadre_spec *spec = NULL;
    struct cadre_error err = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: train_resave CONF OUT [section.key=value]...\n");
        return 2;
    }
    const struct cadre_spec_request request = {
        .out = argv[2], .name = "resave", .need_data = true};
    cadre_status rc = load(argv[1], argv + 3, argc - 3, &options, &err);
    if (rc == CADRE_OK)
        rc = cadre_spec_create(options, &request, &spec, &err);
    if (rc == CADRE_OK)
        rc = run(spec, &err);
    cadre_spec_destroy(spec);
    if (rc != CADRE_OK)
        fprintf(stderr, "train_resave: %s\n", err.text);
    return rc != CADRE_OK;
}
