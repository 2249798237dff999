/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/external.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/status_slot.h"
#include "core/train/costs.h"
#include "core/train/prepare.h"

/* A network folder may show a file of another machine with a delay. */
#define SHARED_WAIT_S 3

/* Where the ranks meet by an address. */
static cadre_status find_secret(const struct cadre_spec *spec,
                                const struct cadre_launch_external *external,
                                struct cadre_secret *secret, struct cadre_error *err)
{
    char *job =
        cadre_format("%s/%s/%d", external->where, external->job, external->size);
    cadre_status rc = job ? cadre_secret_init(secret, getenv(CADRE_SECRET_VARIABLE),
                                              spec->out, job, err)
                          : cadre_no_memory(err, "the job's name");
    free(job);
    return rc;
}

/* Rank 0 writes a file into the run's folder while ranks connect: all must see it. */
static cadre_status leave_mark(const struct cadre_spec *spec,
                               struct cadre_world_terms *terms, struct cadre_error *err)
{
    snprintf(terms->mark, sizeof terms->mark, ".ranks-%ld-%llx", (long)getpid(),
             (unsigned long long)(cadre_now_s() * 1e6));
    char *path = cadre_path_join(spec->out, terms->mark);
    cadre_status rc =
        path ? cadre_path_write_file(path, "", 0, err) : cadre_no_memory(err, "a path");
    free(path);
    return rc;
}

/* Without an allocation: it must not stay. */
static void remove_mark(const struct cadre_spec *spec,
                        const struct cadre_world_terms *terms)
{
    char path[PATH_MAX + sizeof terms->mark];
    if (!terms->mark[0])
        return;
    snprintf(path, sizeof path, "%s/%s", spec->out, terms->mark);
    unlink(path);
}

static cadre_status look_for_mark(const struct cadre_spec *spec,
                                  const struct cadre_world_terms *terms,
                                  struct cadre_error *err)
{
    double deadline = cadre_now_s() + SHARED_WAIT_S;
    char host[64] = "";
    bool seen;
    while (!(seen = cadre_path_has(spec->out, terms->mark)) && cadre_now_s() < deadline)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    gethostname(host, sizeof host - 1);
    return seen ? CADRE_OK
                : cadre_fail(err, CADRE_E_INVALID,
                             "the folder '%s' on %s is not the one that rank 0 sees: "
                             "expected a folder that all machines share; choose one by "
                             "run.out or --out",
                             spec->out, host);
}

cadre_status cadre_train_external(const struct cadre_train_run *run,
                                  struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_launch_external *external = run->external;
    struct cadre_world_run ranks = cadre_train_world(spec);
    struct cadre_secret secret = {0};
    struct cadre_places places = {0};
    struct cadre_run_lock lock = {0};
    struct cadre_world world = {0};
    struct cadre_error own = {0};
    struct cadre_world_terms terms = {.fingerprint = spec->run.fingerprint,
                                      .first_step = run->first_step};
    cadre_status rc = cadre_world_check(&ranks, external, err);
    if (rc == CADRE_OK)
        rc = find_secret(spec, external, &secret, err);
    if (rc != CADRE_OK)
        return rc;
    ranks.secret = &secret;
    cadre_log_set_rank(external->rank, external->size);
    cadre_status_begin(cadre_status_current(), external->rank);
    if (external->rank == 0 && spec->config.run.elastic)
        cadre_log(CADRE_LOG_WARN, "train",
                  "run.elastic restarts ranks that cadre starts, and these are "
                  "of %s: if one is lost the run ends, and its job must start it again",
                  external->launcher);
    if (external->rank == 0)
        own.code = cadre_train_prepare(run, spec, &places, &lock, &own);
    else
        own.code = cadre_train_check_place(run, &own);
    if (external->rank == 0 && external->size > 1 && own.code == CADRE_OK)
        own.code = leave_mark(spec, &terms, &own);
    if (external->size > 1)
        rc = cadre_world_meet(&world, &ranks, external, &terms,
                              own.code == CADRE_OK ? NULL : own.text, err);
    if (rc == CADRE_OK && external->rank > 0)
        own.code = look_for_mark(spec, &terms, &own);
    if (rc == CADRE_OK && external->rank > 0 && own.code == CADRE_OK)
        own.code = cadre_costs_read(spec, external->rank, &own);
    if (rc == CADRE_OK && external->size > 1)
        rc = cadre_world_enter(&world, &ranks, external,
                               own.code == CADRE_OK ? NULL : own.text, err);
    if (external->rank == 0)
        remove_mark(spec, &terms);
    cadre_secret_fini(&secret);
    if (own.code != CADRE_OK) {
        *err = own;
        rc = own.code;
    }
    if (rc == CADRE_OK)
        rc = cadre_train_rank(run, external->rank, &world, err);
    if (rc == CADRE_E_STOPPED && external->rank > 0)
        err->text[0] = '\0'; /* rank 0 says it */
    cadre_world_close(&world);
    cadre_places_fini(&places);
    cadre_run_lock_release(&lock);
    return rc;
}
