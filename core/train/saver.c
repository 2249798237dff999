/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/saver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/tensor/dtype.h"
#include "core/train/snapshot.h"
#include "core/train/snapshot_parts.h"
#include "core/train/states.h"

enum phase { IDLE, BEGIN, WRITE, PUBLISH };

struct cadre_saver {
    struct cadre_rank *rank;
    const struct cadre_spec *spec;
    bool async;
    /* what is being saved; read by the thread, changed while there is none */
    enum phase phase;
    int64_t step;
    struct cadre_loss_scale scale;
    char *root;
    struct cadre_states *states;
    struct cadre_snapshot_piece *pieces;
    size_t n_pieces;
    char *block; /* for parameters and their optimizer states, NULL: none */
    size_t block_bytes, block_used;
    /* the phase's work */
    pthread_t thread;
    bool running; /* a thread is to be joined */
    atomic_bool done;
    cadre_status rc; /* valid once done, as is err */
    struct cadre_error err;
};

cadre_status cadre_saver_create(struct cadre_rank *rank, const struct cadre_spec *spec,
                                struct cadre_saver **out, struct cadre_error *err)
{
    struct cadre_saver *saver = cadre_calloc(1, sizeof *saver);
    if (!saver)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to save checkpoints");
    saver->rank = rank;
    saver->spec = spec;
    saver->async = cadre_options_bool(spec->options, "checkpoint.async");
    *out = saver;
    return CADRE_OK;
}

/* ---- the thread ---- */

static cadre_status write_pieces(const struct cadre_saver *saver,
                                 struct cadre_error *err)
{
    struct cadre_checkpoint_writer *writer = NULL;
    cadre_status rc = cadre_checkpoint_writer_open(saver->root, (uint64_t)saver->step,
                                                   saver->rank->index, &writer, err);
    for (size_t i = 0; rc == CADRE_OK && i < saver->n_pieces; i++)
        rc = cadre_snapshot_write(saver->rank, writer, &saver->pieces[i], err);
    if (rc == CADRE_OK)
        rc = cadre_snapshot_seal(saver->rank, saver->states, writer, saver->root,
                                 saver->step, err);
    cadre_checkpoint_writer_close(writer);
    return rc;
}

static cadre_status do_phase(const struct cadre_saver *saver, struct cadre_error *err)
{
    if (saver->phase == WRITE)
        return write_pieces(saver, err);
    if (saver->rank->index != 0)
        return CADRE_OK;
    if (saver->phase == BEGIN)
        return cadre_snapshot_begin(saver->rank, saver->states, saver->root,
                                    saver->step, err);
    return cadre_snapshot_commit(saver->rank, saver->spec, &saver->scale, saver->root,
                                 saver->step, err);
}

static void *thread_main(void *arg)
{
    struct cadre_saver *saver = arg;
    cadre_log_set_rank(saver->rank->index, saver->spec->run.ranks);
    saver->rc = do_phase(saver, &saver->err);
    atomic_store(&saver->done, true);
    return NULL;
}

static void start(struct cadre_saver *saver, enum phase phase)
{
    bool mine = phase == WRITE || saver->rank->index == 0;
    saver->phase = phase;
    saver->rc = CADRE_OK;
    saver->err = (struct cadre_error){0};
    atomic_store(&saver->done, !mine);
    if (!mine)
        return;
    saver->running = pthread_create(&saver->thread, NULL, thread_main, saver) == 0;
    if (!saver->running) /* no thread to be had: it just takes longer */
        thread_main(saver);
}

static void join(struct cadre_saver *saver)
{
    if (saver->running)
        pthread_join(saver->thread, NULL);
    saver->running = false;
}

/* ---- between steps ---- */

static bool in_block(const struct cadre_saver *saver, const void *data)
{
    const char *at = data;
    return saver->block && at >= saver->block && at < saver->block + saver->block_bytes;
}

static void release(struct cadre_saver *saver)
{
    for (size_t i = 0; i < saver->n_pieces; i++)
        if (!in_block(saver, saver->pieces[i].data))
            cadre_ledger_free(&saver->rank->ledger, (void *)saver->pieces[i].data);
    cadre_states_destroy(saver->states);
    free(saver->pieces);
    free(saver->root);
    saver->states = NULL;
    saver->pieces = NULL;
    saver->n_pieces = 0;
    saver->root = NULL;
    saver->phase = IDLE;
}

void cadre_saver_destroy(struct cadre_saver *saver)
{
    if (!saver)
        return;
    join(saver);
    release(saver);
    cadre_ledger_free(&saver->rank->ledger, saver->block);
    free(saver);
}

/* The run has begun: whatever is wrong now is no longer wrong input. */
static cadre_status as_failure(cadre_status rc, struct cadre_error *err)
{
    if (rc != CADRE_E_INVALID)
        return rc;
    if (err)
        err->code = CADRE_E_IO;
    return CADRE_E_IO;
}

/* [collective] Nobody writes any more, then what was written goes. */
static cadre_status give_up(struct cadre_saver *saver, struct cadre_error *err)
{
    join(saver);
    if (saver->rc != CADRE_OK)
        cadre_fail(err, saver->rc, "%s", saver->err.text);
    cadre_status rc = cadre_snapshot_agree(saver->rank, saver->rc, err);
    if (saver->rank->index == 0)
        cadre_checkpoint_abandon(saver->root, (uint64_t)saver->step, NULL);
    release(saver);
    return as_failure(rc, err);
}

static void advance(struct cadre_saver *saver)
{
    join(saver);
    if (saver->phase == PUBLISH)
        release(saver);
    else
        start(saver, saver->phase + 1);
}

void cadre_saver_vote(const struct cadre_saver *saver)
{
    bool done = atomic_load(&saver->done);
    saver->rank->exchange.votes.saving = saver->phase != IDLE && !done;
    saver->rank->exchange.votes.save_failed =
        saver->phase != IDLE && done && saver->rc != CADRE_OK;
}

cadre_status cadre_saver_turn(struct cadre_saver *saver,
                              const struct cadre_step_report *report,
                              struct cadre_error *err)
{
    if (saver->phase == IDLE || (report->saving && !report->save_failed))
        return CADRE_OK;
    if (report->save_failed)
        return give_up(saver, err);
    advance(saver);
    return CADRE_OK;
}

cadre_status cadre_saver_finish(struct cadre_saver *saver, struct cadre_error *err)
{
    while (saver->phase != IDLE) {
        join(saver);
        double failed = saver->rc != CADRE_OK;
        cadre_status rc = cadre_rank_sum(saver->rank, "checkpoint vote", &failed, 1);
        if (rc != CADRE_OK)
            return cadre_fail(err, rc, "the ranks could not agree on a checkpoint");
        if (failed > 0)
            return give_up(saver, err);
        advance(saver);
    }
    return CADRE_OK;
}

/* ---- a save ---- */

static cadre_status no_memory(struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_RESOURCE,
                      "no memory to copy a checkpoint; set checkpoint.async = no");
}

/* One block for most of it, kept for the saves to come: many of the size of a huge page
 * or two would waste half of what they take, and new pages cost more than the copy. */
static cadre_status reserve(struct cadre_saver *saver, struct cadre_error *err)
{
    const struct cadre_rank *rank = saver->rank;
    saver->block_used = 0;
    saver->block_bytes = cadre_saver_bytes(rank);
    if (saver->block_bytes == 0 || saver->block)
        return CADRE_OK;
    saver->block = cadre_ledger_alloc(&saver->rank->ledger, CADRE_SPACE_HOST,
                                      saver->block_bytes, CADRE_SAVER_TAG);
    return saver->block ? CADRE_OK : no_memory(err);
}

static void *take(struct cadre_saver *saver, size_t bytes)
{
    if (!saver->block || bytes > saver->block_bytes - saver->block_used)
        return cadre_ledger_alloc(&saver->rank->ledger, CADRE_SPACE_HOST, bytes,
                                  CADRE_SAVER_TAG);
    saver->block_used += bytes;
    return saver->block + saver->block_used - bytes;
}

static cadre_status stage(void *arg, const struct cadre_snapshot_piece *piece,
                          struct cadre_error *err)
{
    struct cadre_saver *saver = arg;
    struct cadre_device *device = saver->rank->device;
    size_t bytes = piece->count * saver->rank->store.wide_bytes;
    cadre_status rc = CADRE_OK;
    struct cadre_snapshot_piece *more =
        cadre_realloc(saver->pieces, saver->n_pieces + 1, sizeof *more);
    if (more)
        saver->pieces = more;
    void *copy = more ? take(saver, bytes) : NULL;
    if (!copy)
        return no_memory(err);
    saver->pieces[saver->n_pieces] = *piece;
    saver->pieces[saver->n_pieces].data = copy;
    saver->pieces[saver->n_pieces++].on_host = true;
    if (piece->on_host)
        memcpy(copy, piece->data, bytes);
    else
        rc = device->ops->to_host(device, copy, piece->data, bytes);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "cannot copy '%s' from the device", piece->name);
    return rc;
}

cadre_status cadre_saver_save(struct cadre_saver *saver, int64_t step, bool now,
                              struct cadre_error *err)
{
    cadre_status rc = cadre_saver_finish(saver, err);
    if (rc != CADRE_OK)
        return rc;
    if (now || !saver->async)
        return as_failure(cadre_snapshot_save(saver->rank, saver->spec, step, err),
                          err);
    saver->step = step;
    saver->scale = saver->rank->loss_scale;
    saver->root = cadre_snapshot_root(saver->spec);
    rc = saver->root ? cadre_states_collect(saver->rank, &saver->states, err)
                     : cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    if (rc == CADRE_OK)
        rc = reserve(saver, err);
    if (rc == CADRE_OK)
        rc = cadre_snapshot_each(saver->rank, saver->states, stage, saver, err);
    if (rc == CADRE_OK)
        start(saver, BEGIN);
    else
        release(saver);
    return as_failure(rc, err);
}

uint64_t cadre_saver_bytes(const struct cadre_rank *rank)
{
    const struct cadre_store store = {.model = rank->model, .plan = &rank->plan};
    uint64_t tensors = (uint64_t)cadre_snapshot_moments(rank->spec) + 1, count = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++)
        if (cadre_rank_is_primary_owner(rank, i))
            count += cadre_store_share(&store, i, CADRE_KIND_OPT).count;
    return count * tensors *
           cadre_dtype_bytes(cadre_dtype_wide(rank->model->config.dtype));
}
