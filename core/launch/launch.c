/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads of this process. */
#include "core/launch/launch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "core/comm/local/segment_private.h"
#include "core/launch/status_watch.h"

#define STACK_BYTES (8u << 20)

struct crew {
    struct cadre_local_segment *segment;
    cadre_rank_main main;
    void *arg;
    pthread_mutex_t lock;
    cadre_status first; /* the first status that is an error of the rank's own */
    cadre_status any; /* the first error at all */
};

struct member {
    struct crew *crew;
    int rank;
    pthread_t thread;
    bool started;
    struct cadre_status_slot *slot; /* NULL: nobody watches */
    cadre_status outcome; /* what its main returned */
};

static void note_end(struct crew *crew, cadre_status rc)
{
    pthread_mutex_lock(&crew->lock);
    if (rc != CADRE_OK && crew->any == CADRE_OK)
        crew->any = rc;
    if (rc != CADRE_OK && rc != CADRE_E_ABORTED && crew->first == CADRE_OK)
        crew->first = rc;
    pthread_mutex_unlock(&crew->lock);
}

/* A plugin has ended the thread: pthread_exit, or a cancellation. */
static void left_early(void *arg)
{
    struct member *m = arg;
    struct cadre_status_seen seen = {.rank = m->rank};
    char text[512];
    if (m->slot)
        seen = cadre_status_read(m->slot);
    cadre_status_tell_exit(&seen, 0, text, sizeof text);
    note_end(m->crew, CADRE_E_COMM);
    cadre_local_segment_store_failure(m->crew->segment, CADRE_E_COMM, text);
    cadre_local_segment_ended(m->crew->segment, m->rank);
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct crew *crew = m->crew;
    char why[64];
    cadre_log_set_rank(m->rank, crew->segment->shared->config.size);
    cadre_status_use(m->slot);
    cadre_status_begin(m->slot, m->rank);
    pthread_cleanup_push(left_early, m);
    m->outcome = crew->main(crew->arg, m->rank, crew->segment);
    pthread_cleanup_pop(0);
    cadre_status_finished(m->slot);
    note_end(crew, m->outcome);
    if (m->outcome != CADRE_OK && m->outcome != CADRE_E_STOPPED) {
        snprintf(why, sizeof why, "failed (%s)", cadre_strerror(m->outcome));
        cadre_local_segment_fail(crew->segment, m->rank, why);
    }
    cadre_local_segment_ended(crew->segment, m->rank);
    return NULL;
}

static int start(struct member *m, const struct cadre_launch_place *place)
{
    pthread_attr_t attr;
    int failed = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (place && place->pinned)
        failed = pthread_attr_setaffinity_np(&attr, sizeof place->cpus, &place->cpus);
    if (!failed)
        failed = pthread_create(&m->thread, &attr, member_main, m);
    pthread_attr_destroy(&attr);
    m->started = !failed;
    return failed;
}

/* Where every rank was aborted by another, the first failure has the code. */
static cadre_status outcome(const struct crew *crew, bool not_started)
{
    if (not_started)
        return CADRE_E_RESOURCE;
    if (crew->first != CADRE_OK || crew->any == CADRE_OK)
        return crew->first;
    return cadre_failure_code(&crew->segment->shared->failure);
}

cadre_status cadre_launch_threads(const struct cadre_local_config *config,
                                  const struct cadre_launch_place *place,
                                  cadre_rank_main main, void *arg,
                                  struct cadre_error *err)
{
    struct crew crew = {.main = main, .arg = arg};
    struct cadre_local_config threads = *config;
    struct member *members = NULL;
    char text[1024];
    cadre_status rc;
    pthread_mutex_init(&crew.lock, NULL);
    threads.processes = false;
    CADRE_TRY_OR(cadre_local_segment_create(&threads, &crew.segment, err), fail);
    members = calloc((size_t)config->size, sizeof *members);
    if (!members) {
        rc = cadre_no_memory(err, "%d ranks", config->size);
        goto fail;
    }
    int failed = 0;
    for (int r = 0; r < config->size && !failed; r++) {
        members[r] = (struct member){
            .crew = &crew,
            .rank = r,
            .slot = cadre_status_of_rank(cadre_status_current(), r),
        };
        failed = start(&members[r], place ? &place[r] : NULL);
        if (failed)
            cadre_local_segment_fail(crew.segment, r, "could not be started");
    }
    for (int r = 0; r < config->size; r++)
        if (members[r].started)
            pthread_join(members[r].thread, NULL);
    rc = outcome(&crew, failed);
    if (rc != CADRE_OK) {
        cadre_local_segment_failure(crew.segment, text, sizeof text);
        cadre_fail(err, rc, "%s", text[0] ? text : cadre_strerror(rc));
    }
fail:
    free(members);
    cadre_local_segment_close(crew.segment);
    pthread_mutex_destroy(&crew.lock);
    return rc;
}
