/* SPDX-License-Identifier: Apache-2.0 */
/* One thread writes, in the order of the list. The others tokenise ahead of it, one
 * record at a time each; if the next record is not taken yet, the writing thread
 * tokenises it itself, so that no core waits for another. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/cores.h"
#include "core/base/memory.h"
#include "core/data/wfdb/ecg_record.h"

/* A record ahead holds its tokens and, while it is read, its samples: a few MB. */
enum { HELPERS_MAX = 15, AHEAD = 2 /* records a core */ };

struct slot {
    bool done;
    cadre_status rc;
    struct cadre_error err;
    bool has_lead;
    struct cadre_ecg_windows windows;
};

struct build {
    const struct cadre_ecg_config *config;
    const struct cadre_record_list *list;
    struct slot *slots; /* (depth); record r is in slot r % depth */
    size_t depth;
    pthread_t helpers[HELPERS_MAX];
    int helper_count;

    /* Guarded by lock. */
    pthread_mutex_t lock;
    pthread_cond_t done; /* a helper finished a record */
    pthread_cond_t room; /* a slot is free, or the end */
    size_t next; /* the first record that is not taken */
    size_t written;
    bool stop;
};

static void tokenise(const struct build *build, size_t r, struct slot *slot)
{
    struct cadre_ecg_record rec;
    slot->err = (struct cadre_error){0};
    slot->rc = cadre_ecg_record_open(&rec, build->config, build->list, r, &slot->err);
    slot->has_lead = slot->rc == CADRE_OK && rec.index >= 0;
    if (slot->has_lead)
        slot->rc = cadre_ecg_windows_init(&slot->windows, &rec, &slot->err);
    cadre_ecg_record_close(&rec);
}

/* Called under the lock, released meanwhile: take the next record and tokenise it. */
static void do_next(struct build *build)
{
    size_t r = build->next++;
    struct slot *slot = &build->slots[r % build->depth];
    pthread_mutex_unlock(&build->lock);
    tokenise(build, r, slot);
    pthread_mutex_lock(&build->lock);
    slot->done = true;
}

static void *help(void *arg)
{
    struct build *build = arg;
    pthread_mutex_lock(&build->lock);
    while (!build->stop && build->next < build->list->count) {
        if (build->next >= build->written + build->depth) {
            pthread_cond_wait(&build->room, &build->lock);
            continue;
        }
        do_next(build);
        pthread_cond_signal(&build->done);
    }
    pthread_mutex_unlock(&build->lock);
    return NULL;
}

static cadre_status write_windows(const struct build *build, size_t r,
                                  const struct slot *slot,
                                  struct cadre_cache_writer *writer)
{
    const struct cadre_ecg_windows *windows = &slot->windows;
    size_t window = (size_t)build->config->window;
    cadre_status rc = cadre_cache_write_record(writer, build->list->names[r]);
    for (size_t i = 0; i < windows->count && rc == CADRE_OK; i++)
        rc = cadre_cache_write_tokens(writer, windows->tokens + windows->first[i],
                                      window);
    if (rc == CADRE_OK)
        rc = cadre_cache_write_labels(writer, windows->labels, windows->count);
    return rc;
}

static cadre_status write_record(struct build *build, size_t r,
                                 struct cadre_cache_writer *writer,
                                 struct cadre_error *err)
{
    struct slot *slot = &build->slots[r % build->depth];
    pthread_mutex_lock(&build->lock);
    if (build->next == r)
        do_next(build);
    while (!slot->done)
        pthread_cond_wait(&build->done, &build->lock);
    pthread_mutex_unlock(&build->lock);
    cadre_status rc = slot->rc;
    if (rc != CADRE_OK && slot->err.code != CADRE_OK)
        cadre_fail(err, rc, "%s", slot->err.text);
    if (rc == CADRE_OK && slot->has_lead)
        rc = write_windows(build, r, slot, writer);
    pthread_mutex_lock(&build->lock);
    cadre_ecg_windows_fini(&slot->windows);
    slot->done = false;
    build->written = r + 1;
    pthread_cond_broadcast(&build->room);
    pthread_mutex_unlock(&build->lock);
    return rc;
}

/* Fewer threads than requested do the same work. They take no signals: those are the
 * caller's. */
static void start_helpers(struct build *build)
{
    sigset_t all, before;
    size_t requested = (size_t)cadre_cores() - 1;
    requested = requested < HELPERS_MAX ? requested : HELPERS_MAX;
    requested = requested < build->list->count ? requested : build->list->count;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while ((size_t)build->helper_count < requested &&
           pthread_create(&build->helpers[build->helper_count], NULL, help, build) == 0)
        build->helper_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_helpers(struct build *build)
{
    pthread_mutex_lock(&build->lock);
    build->stop = true;
    pthread_cond_broadcast(&build->room);
    pthread_mutex_unlock(&build->lock);
    for (int h = 0; h < build->helper_count; h++)
        pthread_join(build->helpers[h], NULL);
}

cadre_status cadre_ecg_build(const struct cadre_ecg_config *config,
                             const struct cadre_record_list *list,
                             struct cadre_cache_writer *writer, struct cadre_error *err)
{
    struct build build = {.config = config,
                          .list = list,
                          .depth = (size_t)(AHEAD * (HELPERS_MAX + 1)),
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .done = PTHREAD_COND_INITIALIZER,
                          .room = PTHREAD_COND_INITIALIZER};
    cadre_status rc = CADRE_OK;
    size_t cores = (size_t)cadre_cores();
    if (AHEAD * cores < build.depth)
        build.depth = AHEAD * cores;
    build.slots = cadre_calloc(build.depth, sizeof *build.slots);
    if (!build.slots)
        return CADRE_E_RESOURCE;
    start_helpers(&build);
    for (size_t r = 0; r < list->count && rc == CADRE_OK; r++)
        rc = write_record(&build, r, writer, err);
    stop_helpers(&build);
    for (size_t s = 0; s < build.depth; s++)
        cadre_ecg_windows_fini(&build.slots[s].windows);
    free(build.slots);
    return rc;
}
