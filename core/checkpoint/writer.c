/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/folder.h"
#include "core/checkpoint/opt_state.h"
#include "core/checkpoint/run_values.h"
#include "core/checkpoint/save.h"

enum phase { IDLE, BEGIN, WRITE, PUBLISH };

struct cadre_writer {
    struct cadre_rank *rank;
    const char *folder; /* the run's */
    bool async;
    /* the current save; read by the thread, changed while no thread runs */
    enum phase phase;
    int64_t step;
    struct cadre_loss_scale scale;
    char *root;
    struct cadre_plugin_state *kept;
    struct cadre_range *staged; /* copies in host memory */
    size_t n_staged;
    char *block; /* for parameters and their optimizer states, NULL: none */
    size_t block_bytes, block_used;
    /* the phase's work */
    pthread_t thread;
    bool running; /* a thread must be joined */
    atomic_bool done;
    cadre_status rc; /* valid once done, as is err */
    struct cadre_error err;
};

cadre_status cadre_writer_create(struct cadre_rank *rank, const char *folder,
                                 struct cadre_writer **out, struct cadre_error *err)
{
    struct cadre_writer *writer = cadre_calloc(1, sizeof *writer);
    if (!writer)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to save checkpoints");
    writer->rank = rank;
    writer->folder = folder;
    writer->async = rank->spec->config->checkpoint.async;
    *out = writer;
    return CADRE_OK;
}

/* ---- the thread ---- */

static cadre_status write_staged(const struct cadre_writer *writer,
                                 struct cadre_error *err)
{
    struct cadre_draft *draft = NULL;
    cadre_status rc = cadre_draft_open(writer->root, (uint64_t)writer->step,
                                       writer->rank->index, &draft, err);
    for (size_t i = 0; rc == CADRE_OK && i < writer->n_staged; i++)
        rc = cadre_range_write(writer->rank, draft, &writer->staged[i], NULL, err);
    if (rc == CADRE_OK)
        rc = cadre_save_seal(writer->rank, writer->kept, draft, writer->root,
                             writer->step, err);
    cadre_draft_close(draft);
    return rc;
}

static cadre_status do_phase(const struct cadre_writer *writer, struct cadre_error *err)
{
    if (writer->phase == WRITE)
        return write_staged(writer, err);
    if (writer->rank->index != 0)
        return CADRE_OK;
    if (writer->phase == BEGIN)
        return cadre_save_begin(writer->rank, writer->kept, writer->root, writer->step,
                                err);
    return cadre_run_values_commit(writer->rank, &writer->scale, writer->root,
                                   writer->step, err);
}

static void *thread_main(void *arg)
{
    struct cadre_writer *writer = arg;
    cadre_log_set_rank(writer->rank->index, writer->rank->spec->ranks);
    writer->rc = do_phase(writer, &writer->err);
    atomic_store(&writer->done, true);
    return NULL;
}

static void start(struct cadre_writer *writer, enum phase phase)
{
    bool mine = phase == WRITE || writer->rank->index == 0;
    writer->phase = phase;
    writer->rc = CADRE_OK;
    writer->err = (struct cadre_error){0};
    atomic_store(&writer->done, !mine);
    if (!mine)
        return;
    writer->running = pthread_create(&writer->thread, NULL, thread_main, writer) == 0;
    if (!writer->running) /* no thread could be started: do the work here */
        thread_main(writer);
}

static void join(struct cadre_writer *writer)
{
    if (writer->running)
        pthread_join(writer->thread, NULL);
    writer->running = false;
}

/* ---- between steps ---- */

static bool in_block(const struct cadre_writer *writer, const void *data)
{
    const char *at = data;
    return writer->block && at >= writer->block &&
           at < writer->block + writer->block_bytes;
}

static void release(struct cadre_writer *writer)
{
    for (size_t i = 0; i < writer->n_staged; i++)
        if (!in_block(writer, writer->staged[i].data))
            cadre_ledger_free(&writer->rank->ledger, (void *)writer->staged[i].data);
    cadre_plugin_state_destroy(writer->kept);
    free(writer->staged);
    free(writer->root);
    writer->kept = NULL;
    writer->staged = NULL;
    writer->n_staged = 0;
    writer->root = NULL;
    writer->phase = IDLE;
}

void cadre_writer_destroy(struct cadre_writer *writer)
{
    if (!writer)
        return;
    join(writer);
    release(writer);
    cadre_ledger_free(&writer->rank->ledger, writer->block);
    free(writer);
}

/* The run has begun: an error is now a failure, not wrong input. */
static cadre_status as_failure(cadre_status rc, struct cadre_error *err)
{
    if (rc != CADRE_E_INVALID)
        return rc;
    if (err)
        err->code = CADRE_E_IO;
    return CADRE_E_IO;
}

/* [collective] Wait until no rank writes, then remove what was written. */
static cadre_status give_up(struct cadre_writer *writer, struct cadre_error *err)
{
    join(writer);
    if (writer->rc != CADRE_OK)
        cadre_fail(err, writer->rc, "%s", writer->err.text);
    cadre_status rc = cadre_save_agree(writer->rank, writer->rc, err);
    if (writer->rank->index == 0)
        cadre_draft_abandon(writer->root, (uint64_t)writer->step, NULL);
    release(writer);
    return as_failure(rc, err);
}

static void advance(struct cadre_writer *writer)
{
    join(writer);
    if (writer->phase == PUBLISH)
        release(writer);
    else
        start(writer, writer->phase + 1);
}

void cadre_writer_vote(const struct cadre_writer *writer)
{
    bool done = atomic_load(&writer->done);
    writer->rank->exchange.votes.saving = writer->phase != IDLE && !done;
    writer->rank->exchange.votes.save_failed =
        writer->phase != IDLE && done && writer->rc != CADRE_OK;
}

cadre_status cadre_writer_turn(struct cadre_writer *writer,
                               const struct cadre_step_report *report,
                               struct cadre_error *err)
{
    if (writer->phase == IDLE || (report->saving && !report->save_failed))
        return CADRE_OK;
    if (report->save_failed)
        return give_up(writer, err);
    advance(writer);
    return CADRE_OK;
}

cadre_status cadre_writer_finish(struct cadre_writer *writer, struct cadre_error *err)
{
    while (writer->phase != IDLE) {
        join(writer);
        double failed = writer->rc != CADRE_OK;
        cadre_status rc = cadre_rank_sum(writer->rank, "checkpoint vote", &failed, 1);
        if (rc != CADRE_OK)
            return cadre_fail(err, rc, "the ranks could not agree on a checkpoint");
        if (failed > 0)
            return give_up(writer, err);
        advance(writer);
    }
    return CADRE_OK;
}

/* ---- a save ---- */

static cadre_status no_memory(struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_RESOURCE,
                      "no memory to copy a checkpoint; set checkpoint.async = no");
}

/* One block for most ranges, kept for later saves: many blocks of a huge page or two
 * would waste half their memory, and new pages cost more than the copy. */
static cadre_status reserve(struct cadre_writer *writer, struct cadre_error *err)
{
    const struct cadre_rank *rank = writer->rank;
    writer->block_used = 0;
    writer->block_bytes = cadre_writer_bytes(rank);
    if (writer->block_bytes == 0 || writer->block)
        return CADRE_OK;
    writer->block = cadre_ledger_alloc(&writer->rank->ledger, CADRE_SPACE_HOST,
                                       writer->block_bytes, CADRE_WRITER_TAG);
    return writer->block ? CADRE_OK : no_memory(err);
}

static void *take(struct cadre_writer *writer, size_t bytes)
{
    if (!writer->block || bytes > writer->block_bytes - writer->block_used)
        return cadre_ledger_alloc(&writer->rank->ledger, CADRE_SPACE_HOST, bytes,
                                  CADRE_WRITER_TAG);
    writer->block_used += bytes;
    return writer->block + writer->block_used - bytes;
}

static cadre_status stage(void *arg, const struct cadre_range *range,
                          struct cadre_error *err)
{
    struct cadre_writer *writer = arg;
    struct cadre_range *more =
        cadre_realloc(writer->staged, writer->n_staged + 1, sizeof *more);
    if (more)
        writer->staged = more;
    void *copy =
        more ? take(writer, range->count * writer->rank->store.wide_bytes) : NULL;
    if (!copy)
        return no_memory(err);
    struct cadre_range *staged = &writer->staged[writer->n_staged++];
    *staged = *range;
    staged->data = copy;
    staged->on_host = true;
    return cadre_range_fetch(writer->rank, range, copy, err);
}

cadre_status cadre_writer_save(struct cadre_writer *writer, int64_t step, bool now,
                               struct cadre_error *err)
{
    CADRE_TRY(cadre_writer_finish(writer, err));
    if (now || !writer->async)
        return as_failure(cadre_save(writer->rank, writer->folder, step, err), err);
    writer->step = step;
    writer->scale = writer->rank->loss_scale;
    writer->root = cadre_folder_root(writer->folder);
    cadre_status rc = writer->root
                          ? cadre_plugin_state_collect(writer->rank, &writer->kept, err)
                          : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK) {
        struct cadre_range_sink sink = {.visit = stage, .arg = writer, .err = err};
        sink.rc = reserve(writer, err);
        rc = cadre_save_each(writer->rank, writer->kept, &sink);
    }
    if (rc == CADRE_OK)
        start(writer, BEGIN);
    else
        release(writer);
    return as_failure(rc, err);
}

uint64_t cadre_writer_bytes(const struct cadre_rank *rank)
{
    const struct cadre_store store = {.model = rank->model, .plan = &rank->plan};
    uint64_t tensors = (uint64_t)cadre_range_moments(rank->spec) + 1, count = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++)
        if (cadre_rank_is_primary_owner(rank, i))
            count += cadre_store_share(&store, i, CADRE_KIND_OPT).count;
    count = count * tensors + cadre_opt_state_count(rank);
    return count * cadre_dtype_bytes(cadre_dtype_wide(rank->model->config.dtype));
}
