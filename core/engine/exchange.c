/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"

enum { VOTES = 3, TIMES = 3, SPEEDS = 2 }; /* numbers of a rank */

cadre_status cadre_exchange_init(struct cadre_exchange *exchange)
{
    size_t n =
        exchange->n_losses + VOTES + (TIMES + SPEEDS) * (size_t)exchange->mesh->ranks;
    exchange->values = cadre_calloc(n, sizeof *exchange->values);
    return exchange->values ? CADRE_OK : CADRE_E_RESOURCE;
}

void cadre_exchange_fini(struct cadre_exchange *exchange)
{
    free(exchange->values);
    exchange->values = NULL;
}

cadre_status cadre_exchange_sum(const struct cadre_exchange *exchange,
                                const char *label, double *values, uint64_t n)
{
    struct cadre_comm *world = exchange->world;
    if (!world || world->size == 1)
        return CADRE_OK;
    cadre_event done;
    cadre_status rc = cadre_comm_all_reduce(world, label, values, values, n, CADRE_F64,
                                            CADRE_SUM, 0, &done);
    double begin = cadre_now_s(); /* as the communicator counts: posting is no wait */
    if (rc == CADRE_OK)
        rc = cadre_comm_wait(world, done);
    cadre_timeline_add(exchange->timeline, CADRE_SPAN_WAIT, label, begin);
    return rc;
}

/* Put this rank's times among those of all ranks, where a schedule may have bubbles.
 * Returns the number of values. */
static uint64_t put_times(const struct cadre_exchange *exchange, double *table)
{
    size_t n = TIMES * (size_t)exchange->mesh->ranks;
    if (!exchange->timeline->axis)
        return 0;
    struct cadre_timeline_row row = cadre_timeline_row(exchange->timeline);
    memset(table, 0, n * sizeof *table);
    memcpy(table + TIMES * (size_t)exchange->mesh->rank, &row, sizeof row);
    return n;
}

/* Put what a micro-batch took on this rank, and whose samples it has, among those of
 * all ranks, where micro-batches are dealt by it. Returns the number of values. */
static uint64_t put_speeds(const struct cadre_exchange *exchange, double *table)
{
    size_t n = SPEEDS * (size_t)exchange->mesh->ranks;
    if (!exchange->data_s)
        return 0;
    memset(table, 0, n * sizeof *table);
    double *mine = table + SPEEDS * (size_t)exchange->mesh->rank;
    mine[0] = cadre_mesh_data_index(exchange->mesh);
    mine[1] = exchange->micro_s;
    return n;
}

static void find_speeds(const struct cadre_exchange *exchange, const double *table)
{
    const int ranks = cadre_mesh_data_size(exchange->mesh);
    if (!exchange->data_s)
        return;
    memset(exchange->data_s, 0, (size_t)ranks * sizeof *exchange->data_s);
    for (int r = 0; r < exchange->mesh->ranks; r++) {
        double *data_s = &exchange->data_s[(int)table[SPEEDS * r]];
        *data_s = fmax(*data_s, table[SPEEDS * r + 1]);
    }
}

static void find_bubbles(struct cadre_exchange *exchange, const double *table,
                         uint64_t step, struct cadre_exchange_outcome *outcome)
{
    const struct cadre_mesh *mesh = exchange->mesh;
    struct cadre_timeline_groups groups = {mesh->ranks, 1, 1};
    if (!exchange->timeline->axis)
        return;
    groups.size = exchange->schedule->size;
    for (int a = mesh->n - 1; &mesh->axis[a] != exchange->schedule; a--)
        groups.stride *= mesh->axis[a].size;
    struct cadre_timeline_idle idle = cadre_timeline_idle(
        (const struct cadre_timeline_row *)(const void *)table, &groups, mesh->rank);
    outcome->span_s = idle.span_s;
    outcome->bubble_s = idle.bubble_s;
    exchange->hidden_s += cadre_timeline_hidden(exchange->timeline, &idle);
    cadre_timeline_keep(exchange->timeline, step, &idle);
}

cadre_status cadre_exchange_losses(struct cadre_exchange *exchange,
                                   const double *losses, uint64_t step,
                                   struct cadre_exchange_outcome *outcome)
{
    const struct cadre_votes *mine = &exchange->votes;
    double *votes = exchange->values + exchange->n_losses, *times = votes + VOTES;
    double *speeds = times;
    uint64_t n = exchange->n_losses;
    if (losses)
        memcpy(exchange->values, losses, n * sizeof *losses);
    else
        memset(exchange->values, 0, n * sizeof *losses);
    if (outcome) {
        votes[0] = mine->stop;
        votes[1] = mine->saving;
        votes[2] = mine->save_failed;
        speeds = times + put_times(exchange, times);
        n = (uint64_t)(speeds - exchange->values) + put_speeds(exchange, speeds);
    }
    cadre_status rc = cadre_exchange_sum(exchange, "losses", exchange->values, n);
    if (rc != CADRE_OK || !outcome)
        return rc;
    *outcome = (struct cadre_exchange_outcome){
        .votes = {votes[0] > 0, votes[1] > 0, votes[2] > 0}};
    find_bubbles(exchange, times, step, outcome);
    find_speeds(exchange, speeds);
    return CADRE_OK;
}
