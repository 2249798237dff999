/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/world.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/comm/rendezvous.h"
#include "core/device/module.h"
#include "core/train/world_watch.h"

/* What the ranks of one NCCL world compare. */
struct card {
    char version[128];
    uint64_t fingerprint;
    int64_t first_step;
};

/* ---- is it possible? ---- */

static bool uses_nccl(const struct cadre_spec *spec,
                      const struct cadre_launch_outside *outside)
{
    const char *backend = cadre_options_str(spec->options, "comm.backend");
    return strcmp(backend, "nccl") == 0 || (outside && strcmp(backend, "auto") == 0);
}

static cadre_status open_module(const struct cadre_comm_module **out,
                                struct cadre_error *err)
{
    cadre_status rc = cadre_comm_module_nccl(out, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "NCCL cannot be had (comm.backend = local can, for "
                                "ranks that cadre starts)");
    return rc;
}

/* Somebody who sets these has told NCCL to let ranks share a GPU. */
static bool may_share(void)
{
    return getenv("NCCL_HOSTID") || getenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

static cadre_status check_gpus(const struct cadre_spec *spec,
                               const struct cadre_launch_outside *outside,
                               struct cadre_error *err)
{
    int gpus = cadre_device_count_cuda();
    if (may_share())
        return CADRE_OK;
    if (!outside && spec->run.ranks > gpus)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = nccl with %d ranks, but this machine shows "
                          "%d GPU%s, and NCCL needs one for each rank; take fewer "
                          "ranks, or comm.backend = local, whose ranks share them",
                          spec->run.ranks, gpus, gpus == 1 ? "" : "s");
    /* a rank that is shown its own GPU alone counts them otherwise; NCCL looks itself
     */
    if (outside && outside->local_rank >= gpus && !getenv("CUDA_VISIBLE_DEVICES"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_LOCAL_RANK is %d, but this machine shows %d GPU%s, "
                          "and NCCL needs one for each rank; start fewer ranks here",
                          outside->local_rank, gpus, gpus == 1 ? "" : "s");
    return CADRE_OK;
}

cadre_status cadre_world_check(const struct cadre_spec *spec,
                               const struct cadre_launch_outside *outside,
                               struct cadre_error *err)
{
    const struct cadre_comm_module *module;
    const char *kind = cadre_options_str(spec->options, "device.kind");
    if (!uses_nccl(spec, outside))
        return !outside ? CADRE_OK
                        : cadre_fail(err, CADRE_E_INVALID,
                                     "comm.backend = local is for ranks that cadre "
                                     "starts, and CADRE_INIT is \"%s\"; leave "
                                     "comm.backend out, or unset CADRE_INIT",
                                     outside->where);
    if (!spec->gpu)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s%s%s needs a GPU for each rank, and the device is the CPU "
                          "(device.kind = %s); set device.kind = cuda, or %s",
                          outside ? "CADRE_INIT = " : "comm.backend = nccl",
                          outside ? outside->where : "",
                          outside ? ", where ranks reach each other by NCCL," : "",
                          kind, outside ? "unset CADRE_INIT" : "comm.backend = local");
    if (!outside && spec->run.ranks > 1 && !spec->local.processes)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = nccl needs a process for each rank, and "
                          "comm.ranks = threads; set comm.ranks = processes, or "
                          "comm.backend = local");
    if (*cadre_options_str(spec->options, "comm.link"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.link = %s delays the local transport alone; leave it "
                          "out where ranks reach each other by NCCL",
                          cadre_options_str(spec->options, "comm.link"));
    cadre_status rc = check_gpus(spec, outside, err);
    return rc == CADRE_OK ? open_module(&module, err) : rc;
}

/* ---- what both ways share ---- */

static cadre_status fill_card(const struct cadre_world *world, struct card *card,
                              struct cadre_error *err)
{
    struct cadre_text version = {0};
    cadre_status rc = world->module->version(&version, err);
    memset(card, 0, sizeof *card);
    snprintf(card->version, sizeof card->version, "%s", cadre_text_str(&version));
    cadre_text_fini(&version);
    return rc;
}

/* The card of rank 0 against that of `rank`. */
static cadre_status compare(const struct card *zero, const struct card *card, int rank,
                            struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    if (strncmp(zero->version, card->version, sizeof zero->version) != 0)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "it has %.*s, rank 0 has %.*s: they cannot talk to each other; "
                        "install one version for all ranks",
                        (int)sizeof card->version - 1, card->version,
                        (int)sizeof zero->version - 1, zero->version);
    else if (zero->fingerprint != card->fingerprint)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "it does not run what rank 0 runs: build, plugins, options or "
                        "data differ; start all ranks from one installation and one "
                        "ini file");
    else if (zero->first_step != card->first_step)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "it goes on after step %lld, rank 0 after step %lld: the run's "
                        "folder must be the same for all ranks",
                        (long long)card->first_step, (long long)zero->first_step);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "rank %d", rank);
    return rc;
}

/* The device, and with it the world of all ranks. */
static cadre_status open_nccl(struct cadre_world *world, const struct cadre_spec *spec,
                              int index, const unsigned char *id,
                              struct cadre_error *err)
{
    struct cadre_comm_world request = {
        .rank = index,
        .size = spec->run.ranks,
        .timeout_s = spec->local.timeout_s,
        .exact = spec->run.exact,
    };
    cadre_status rc = cadre_device_open(&spec->run.device, &world->device, err);
    request.device = world->device;
    if (rc == CADRE_OK)
        rc = world->module->open(&request, id, &world->comm, err);
    if (rc == CADRE_OK && index == 0)
        cadre_log(CADRE_LOG_INFO, "comm", "%d ranks over NCCL", spec->run.ranks);
    return rc;
}

/* ---- ranks that cadre started ---- */

/* A collective of bytes over the segment; its failure is the segment's. */
static cadre_status finish(struct cadre_comm *comm, cadre_status rc, cadre_event done,
                           struct cadre_error *err)
{
    if (rc == CADRE_OK)
        rc = comm->ops->wait(comm, done);
    if (rc != CADRE_OK && cadre_comm_failure(comm, err) == CADRE_OK)
        cadre_fail(err, rc, "the ranks could not meet: %s", cadre_strerror(rc));
    return rc;
}

static cadre_status compare_all(struct cadre_comm *comm, const struct card *mine,
                                struct cadre_error *err)
{
    size_t size = (size_t)comm->size;
    struct card *all = cadre_calloc(size, sizeof *all);
    uint64_t *offsets = cadre_calloc(size + 1, sizeof *offsets);
    cadre_event done = 0;
    cadre_status rc = CADRE_E_RESOURCE;
    if (all && offsets) {
        for (size_t r = 0; r <= size; r++)
            offsets[r] = r * sizeof *all;
        rc = comm->ops->all_gather(comm, "versions", mine, all, offsets, CADRE_U8, 0,
                                   &done);
    }
    rc = finish(comm, rc, done, err);
    for (int r = 1; rc == CADRE_OK && r < comm->size; r++)
        rc = compare(&all[0], &all[r], r, err);
    free(offsets);
    free(all);
    return rc;
}

/* Over the segment: compare, then everybody gets rank 0's id. */
static cadre_status meet_beside(struct cadre_world *world, unsigned char *id,
                                struct cadre_error *err)
{
    struct cadre_comm *comm = world->beside;
    struct card card;
    cadre_event done = 0;
    cadre_status rc;
    CADRE_TRY(open_module(&world->module, err));
    CADRE_TRY(fill_card(world, &card, err)); /* the rest is of one launcher */
    CADRE_TRY(compare_all(comm, &card, err));
    if (comm->rank == 0)
        CADRE_TRY(world->module->make_id(id, err));
    rc = comm->ops->broadcast(comm, "id", id, CADRE_COMM_ID_BYTES, CADRE_U8, 0, 0,
                              &done);
    rc = finish(comm, rc, done, err);
fail:
    return rc;
}

cadre_status cadre_world_open(struct cadre_world *world, const struct cadre_spec *spec,
                              struct cadre_local_segment *segment, int index,
                              struct cadre_error *err)
{
    unsigned char id[CADRE_COMM_ID_BYTES] = {0};
    struct cadre_comm *local = NULL;
    *world = (struct cadre_world){0};
    cadre_status rc = cadre_local_open(segment, index, &local, err);
    if (rc != CADRE_OK) {
        cadre_local_segment_fail(segment, index, err->text);
        return rc;
    }
    if (!uses_nccl(spec, NULL)) {
        world->comm = local;
        return CADRE_OK;
    }
    world->beside = local;
    CADRE_TRY(meet_beside(world, id, err));
    CADRE_TRY(open_nccl(world, spec, index, id, err));
    CADRE_TRY(cadre_world_watch_open(local, world->comm, &world->watch, err));
    return CADRE_OK;
fail:
    if (rc == CADRE_E_UNSUPPORTED || rc == CADRE_E_RESOURCE || rc == CADRE_E_DEVICE)
        cadre_error_prefix(err, "rank %d", index);
    local->ops->abort(local, err->text); /* nothing new where that is why it failed */
    cadre_world_close(world);
    return rc;
}

/* ---- ranks that were started from outside ---- */

/* Both meetings of a job at one place are told apart by the nonce. */
static cadre_status meet(const struct cadre_spec *spec,
                         const struct cadre_launch_outside *outside, const char *what,
                         void *bytes, size_t n, const char *failed,
                         struct cadre_error *err)
{
    const char *nonce = getenv("CADRE_JOB");
    char *name = cadre_format("%s/%s/%d/%s", nonce ? nonce : "", spec->name,
                              outside->size, what);
    struct cadre_rendezvous job = {
        .where = outside->where,
        .job = name,
        .rank = outside->rank,
        .size = outside->size,
        .timeout_s = spec->local.timeout_s,
    };
    if (!name)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the job's name");
    cadre_status rc = cadre_rendezvous_meet(&job, bytes, n, failed, err);
    free(name);
    return rc;
}

cadre_status cadre_world_meet(struct cadre_world *world, const struct cadre_spec *spec,
                              const struct cadre_launch_outside *outside,
                              const struct cadre_world_terms *terms, const char *failed,
                              struct cadre_error *err)
{
    struct card mine, zero;
    struct cadre_error why = {0};
    cadre_status rc;
    CADRE_TRY(open_module(&world->module, err));
    CADRE_TRY(fill_card(world, &mine, err));
    mine.fingerprint = terms->fingerprint;
    mine.first_step = terms->first_step;
    zero = mine;
    CADRE_TRY(meet(spec, outside, "versions", &zero, sizeof zero, failed, err));
    /* rank 0 learns of a difference when all meet again, and says whose it is */
    if (compare(&zero, &mine, outside->rank, &why) != CADRE_OK) {
        unsigned char nothing[CADRE_COMM_ID_BYTES] = {0};
        const char *text = strchr(why.text, ':') + 2;
        meet(spec, outside, "id", nothing, sizeof nothing, text, NULL);
        *err = why;
        rc = why.code;
    }
fail:
    return rc;
}

cadre_status cadre_world_enter(struct cadre_world *world, const struct cadre_spec *spec,
                               const struct cadre_launch_outside *outside,
                               const char *failed, struct cadre_error *err)
{
    unsigned char id[CADRE_COMM_ID_BYTES] = {0};
    struct cadre_error why = {0};
    cadre_status rc = CADRE_OK;
    if (outside->rank == 0 && !failed)
        rc = world->module->make_id(id, &why);
    rc = meet(spec, outside, "id", id, sizeof id, rc == CADRE_OK ? failed : why.text,
              err);
    if (rc == CADRE_OK)
        rc = open_nccl(world, spec, outside->rank, id, err);
    const struct cadre_rendezvous job = {.where = outside->where,
                                         .rank = outside->rank};
    if (rc == CADRE_OK) /* a world is open where all have come, by the id */
        cadre_rendezvous_forget(&job);
    return rc;
}

/* ---- the end ---- */

/* A rank that ends because another told it so lets that one speak first: its abort is
 * what ends the wait. */
static void await_reason(struct cadre_comm *comm)
{
    struct cadre_error reason = {0};
    cadre_event done;
    if (cadre_comm_failure(comm, &reason) == CADRE_OK &&
        comm->ops->barrier(comm, "end of a failed run", 0, &done) == CADRE_OK)
        comm->ops->wait(comm, done);
}

cadre_status cadre_world_tell(struct cadre_world *world, int rank, cadre_status rc,
                              struct cadre_error *err)
{
    struct cadre_comm *comm = world->comm;
    if (!comm || rc == CADRE_OK || rc == CADRE_E_STOPPED)
        return rc;
    if (rc != CADRE_E_ABORTED && rc != CADRE_E_COMM) {
        cadre_error_prefix(err, "rank %d", rank);
        if (world->beside)
            world->beside->ops->abort(world->beside, err->text);
        comm->ops->abort(comm, err->text);
    } else {
        await_reason(comm);
    }
    if (world->watch)
        cadre_world_watch_failure(world->watch, err);
    else
        cadre_comm_failure(comm, err);
    return rc;
}

void cadre_world_step(struct cadre_world *world, int64_t step)
{
    if (world->beside)
        cadre_comm_set_step(world->beside, (uint64_t)step);
}

void cadre_world_close(struct cadre_world *world)
{
    cadre_world_watch_close(world->watch);
    if (world->comm)
        world->comm->ops->destroy(world->comm);
    cadre_device_close(world->device);
    if (world->beside)
        world->beside->ops->destroy(world->beside);
    *world = (struct cadre_world){0};
}
