/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/block_probe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/engine/unit_seconds.h"
#include "core/run/spec.h"

enum { MOST = 16, UNITS = 3 /* embedding, block, head */ };

/* The options of a run of such a model, which is never started. */
static cadre_status make_spec(const char *kind, int threads,
                              const struct cadre_block_shape *shape,
                              struct cadre_spec **out, struct cadre_error *err)
{
    const struct cadre_spec_request request = {.name = "block"};
    struct cadre_options *options;
    char text[10][64];
    int n = 0;
#define SET(...) snprintf(text[n++], sizeof text[0], __VA_ARGS__)
    SET("strategy.stack=single");
    SET("device.kind=%s", kind);
    SET("device.threads=%d", threads);
    SET("model.layers=1");
    SET("model.vocab=256");
    SET("model.channels=%lld", (long long)shape->channels);
    SET("model.heads=%lld", (long long)shape->heads);
    SET("model.context=%lld", (long long)shape->time);
    SET("train.micro_batch=%lld", (long long)shape->batch);
    SET("train.global_batch=%lld", (long long)shape->batch);
#undef SET
    CADRE_TRY(cadre_options_create(&options, err));
    for (int i = 0; i < n; i++) {
        const cadre_status rc = cadre_options_set(options, text[i], "a block", err);
        if (rc != CADRE_OK) {
            cadre_options_destroy(options);
            return rc;
        }
    }
    return cadre_spec_create(options, &request, out, err);
}

/* Those that compute at a time; `begin` is made when all were started. */
struct crew {
    const char *kind;
    int threads, repeats;
    const struct cadre_block_shape *shape;
    pthread_mutex_t gate; /* held until then */
    bool run;
    pthread_barrier_t begin;
};

struct member {
    struct crew *crew;
    pthread_t thread;
    double seconds;
    cadre_status rc;
    struct cadre_error err;
};

/* A planned rank of its own. On failure there is none. */
static cadre_status plan_rank(struct crew *crew, struct cadre_spec **spec,
                              struct cadre_rank **out, struct cadre_error *err)
{
    struct cadre_rank *rank;
    CADRE_TRY(make_spec(crew->kind, crew->threads, crew->shape, spec, err));
    rank = cadre_calloc(1, sizeof *rank);
    if (!rank)
        return cadre_no_memory(err, "a rank");
    const cadre_status rc = cadre_rank_plan(rank, &(*spec)->run, 0, err);
    if (rc != CADRE_OK) {
        cadre_rank_fini(rank);
        free(rank);
        return rc;
    }
    *out = rank;
    return CADRE_OK;
}

/* All measure or fail as often, each time together. */
static void time_block(struct member *m, struct cadre_rank *rank,
                       const struct cadre_spec *spec)
{
    double unit[UNITS] = {0}, took[MOST] = {0};
    for (int i = 0; i < m->crew->repeats; i++) {
        pthread_barrier_wait(&m->crew->begin);
        if (rank && m->rc == CADRE_OK)
            m->rc = cadre_unit_seconds_measure(&spec->run, rank->model, unit, &m->err);
        took[i] = m->rc == CADRE_OK ? unit[1] : 0;
    }
    m->seconds = cadre_median(took, (size_t)m->crew->repeats);
}

static void *be_member(void *arg)
{
    struct member *m = arg;
    struct cadre_spec *spec = NULL;
    struct cadre_rank *rank = NULL;
    m->rc = plan_rank(m->crew, &spec, &rank, &m->err);
    pthread_mutex_lock(&m->crew->gate);
    const bool run = m->crew->run;
    pthread_mutex_unlock(&m->crew->gate);
    if (run)
        time_block(m, rank, spec);
    if (rank)
        cadre_rank_fini(rank);
    free(rank);
    cadre_spec_destroy(spec);
    return NULL;
}

static cadre_status run_members(struct member *member, int n, struct crew *crew,
                                struct cadre_error *err)
{
    int started = 0;
    pthread_mutex_init(&crew->gate, NULL);
    pthread_mutex_lock(&crew->gate);
    for (; started < n; started++) {
        member[started].crew = crew;
        if (pthread_create(&member[started].thread, NULL, be_member,
                           &member[started]) != 0)
            break;
    }
    const bool barrier =
        started == n && pthread_barrier_init(&crew->begin, NULL, (unsigned)n) == 0;
    crew->run = barrier;
    pthread_mutex_unlock(&crew->gate);
    for (int i = 0; i < started; i++)
        pthread_join(member[i].thread, NULL);
    if (barrier)
        pthread_barrier_destroy(&crew->begin);
    pthread_mutex_destroy(&crew->gate);
    return barrier ? CADRE_OK
                   : cadre_fail(err, CADRE_E_RESOURCE, "cannot start %d threads", n);
}

cadre_status cadre_block_probe(const char *kind, int threads, int ranks,
                               const struct cadre_block_shape *shape, int repeats,
                               double *seconds, struct cadre_error *err)
{
    struct crew crew = {
        .kind = kind,
        .threads = threads,
        .repeats = repeats < 1      ? 1
                   : repeats > MOST ? MOST
                                    : repeats,
        .shape = shape,
    };
    struct member *member = cadre_calloc((size_t)ranks, sizeof *member);
    if (!member)
        return cadre_no_memory(err, "%d ranks", ranks);
    cadre_status rc = run_members(member, ranks, &crew, err);
    *seconds = 0;
    for (int i = 0; i < ranks && rc == CADRE_OK; i++) {
        *seconds += member[i].seconds / ranks;
        rc = member[i].rc;
        if (rc != CADRE_OK && err)
            *err = member[i].err;
    }
    free(member);
    return rc;
}
