/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/gather.h"

#include <stdlib.h>

#include "core/base/path.h"

/* Who wants the texts, on rank 0. */
struct taker {
    void (*take)(void *arg, int from, const char *text, size_t bytes);
    void *arg;
};

static void append(void *arg, int from, const char *text, size_t bytes)
{
    struct cadre_text *all = arg;
    (void)from;
    if (bytes > 0 && all->len > 0)
        cadre_text_append(all, ",\n", 2);
    cadre_text_append(all, text, bytes);
}

/* Rank `from` broadcasts its text: over NCCL a rank sends to its neighbours only. */
static cadre_status pass_on(struct cadre_comm *world, const char *label, int from,
                            const struct cadre_text *mine, size_t bytes,
                            const struct taker *taker)
{
    cadre_status rc = CADRE_OK;
    cadre_event done;
    char *received = NULL;
    if (bytes > 0 && world->rank != from && !(received = malloc(bytes)))
        return CADRE_E_RESOURCE;
    char *text = received ? received : mine->data;
    if (bytes > 0)
        rc = cadre_comm_broadcast(world, label, text, bytes, CADRE_U8, from, 0, &done);
    if (bytes > 0 && rc == CADRE_OK)
        rc = cadre_comm_wait(world, done);
    if (rc == CADRE_OK && world->rank == 0)
        taker->take(taker->arg, from, text, bytes);
    free(received);
    return rc;
}

static cadre_status exchange(struct cadre_comm *world, const char *label,
                             const struct cadre_text *mine, const double *bytes,
                             const struct taker *taker)
{
    cadre_status rc = CADRE_OK;
    for (int r = 1; rc == CADRE_OK && r < world->size; r++)
        rc = pass_on(world, label, r, mine, (size_t)bytes[r], taker);
    return rc;
}

cadre_status cadre_gather_each(struct cadre_rank *rank, const char *label,
                               const struct cadre_text *mine,
                               void (*take)(void *arg, int from, const char *text,
                                            size_t bytes),
                               void *arg, struct cadre_error *err)
{
    const struct taker taker = {take, arg};
    size_t ranks = (size_t)rank->mesh.ranks;
    double *bytes = cadre_calloc(ranks, sizeof *bytes);
    cadre_status rc = CADRE_E_RESOURCE;
    if (bytes && !mine->failed) {
        bytes[rank->index] = (double)mine->len;
        rc = cadre_rank_sum(rank, label, bytes, ranks);
    }
    if (rc == CADRE_OK && rank->index == 0)
        take(arg, 0, cadre_text_str(mine), mine->len);
    if (rc == CADRE_OK && rank->world)
        rc = exchange(rank->world, label, mine, bytes, &taker);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "the ranks could not send their %s to rank 0: %s", label,
                   cadre_strerror(rc));
    free(bytes);
    return rc;
}

cadre_status cadre_gather_text(struct cadre_rank *rank, const char *label,
                               const struct cadre_text *mine, struct cadre_text *all,
                               struct cadre_error *err)
{
    cadre_status rc = cadre_gather_each(rank, label, mine, append, all, err);
    if (rc == CADRE_OK && all->failed)
        rc = cadre_no_memory(err, "%s of all ranks", label);
    return rc;
}

cadre_status cadre_gather_file(struct cadre_rank *rank, const struct cadre_text *mine,
                               const char *dir, const char *name,
                               const char *const around[2], struct cadre_error *err)
{
    struct cadre_text all = {0}, file = {0};
    cadre_status rc = cadre_gather_text(rank, name, mine, &all, err);
    if (rc == CADRE_OK && rank->index == 0) {
        char *path = cadre_path_join(dir, name);
        cadre_text_printf(&file, "%s", around[0]);
        cadre_text_append(&file, cadre_text_str(&all), all.len);
        cadre_text_printf(&file, "%s", around[1]);
        if (path && !file.failed)
            rc = cadre_path_write_file(path, cadre_text_str(&file), file.len, err);
        else
            rc = cadre_no_memory(err, "%s", name);
        free(path);
    }
    cadre_text_fini(&all);
    cadre_text_fini(&file);
    return rc;
}
