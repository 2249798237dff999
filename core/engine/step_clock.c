/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/step_clock.h"

#include <math.h>

#include "core/base/clock.h"

_Static_assert(CADRE_STEP_AXES == 1 + CADRE_MAX_AXES + CADRE_MAX_DERIVED,
               "a part for the world and each axis");

/* The world's, then those of the axes; NULL where there is none. */
static const struct cadre_comm *comm_of(const struct cadre_rank *rank, int i)
{
    const struct cadre_mesh *mesh = &rank->mesh;
    if (i == 0)
        return rank->world;
    return i <= mesh->n ? mesh->axis[i - 1].comm : mesh->derived[i - 1 - mesh->n].comm;
}

static const char *name_of(const struct cadre_mesh *mesh, int i)
{
    if (i == 0)
        return "world";
    return i <= mesh->n ? mesh->axis[i - 1].name : mesh->derived[i - 1 - mesh->n].name;
}

static int count_of(const struct cadre_mesh *mesh)
{
    return 1 + mesh->n + mesh->n_derived;
}

static void read_charged(const struct cadre_rank *rank, double *charged_s)
{
    for (int i = 0; i < count_of(&rank->mesh); i++) {
        struct cadre_comm_stats stats = {0};
        const struct cadre_comm *comm = comm_of(rank, i);
        if (comm)
            cadre_comm_read_stats(comm, &stats);
        charged_s[i] = stats.charged_s;
    }
}

void cadre_step_clock_begin(const struct cadre_rank *rank,
                            struct cadre_step_clock *clock)
{
    clock->start_s = cadre_now_s();
    clock->data_s = cadre_executor_wait_s(rank->exec);
    cadre_rank_comm(rank, &clock->comm);
    read_charged(rank, clock->charged_s);
}

void cadre_step_clock_divide(double total_s, int schedule, double *part_s, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += part_s[i] = fmax(part_s[i], 0);
    double beyond = sum - total_s;
    if (beyond > 0 && schedule >= 0) {
        double hidden = fmin(beyond, part_s[schedule]);
        part_s[schedule] -= hidden;
        sum -= hidden;
    }
    for (int i = 0; i < n && sum > total_s; i++)
        part_s[i] *= total_s / sum;
    if (sum < total_s && n > 0)
        part_s[0] += total_s - sum;
}

/* comm_exposed_s by axis. */
static void divide_exposed(const struct cadre_rank *rank,
                           const struct cadre_step_clock *clock,
                           struct cadre_step_times *times)
{
    const struct cadre_mesh *mesh = &rank->mesh;
    const int n = count_of(mesh);
    int schedule = -1;
    double part_s[CADRE_STEP_AXES];
    read_charged(rank, part_s);
    for (int i = 0; i < n; i++) {
        part_s[i] -= clock->charged_s[i];
        if (i > 0 && i <= mesh->n && &mesh->axis[i - 1] == rank->exchange.schedule)
            schedule = i;
    }
    cadre_step_clock_divide(times->comm_exposed_s, schedule, part_s, n);
    times->n_exposed = 0;
    for (int i = 0; i < n; i++)
        if (comm_of(rank, i))
            times->exposed[times->n_exposed++] =
                (struct cadre_step_exposed){name_of(mesh, i), part_s[i]};
}

void cadre_step_clock_end(const struct cadre_rank *rank,
                          const struct cadre_step_clock *clock,
                          struct cadre_step_times *times)
{
    struct cadre_comm_stats comm;
    cadre_rank_comm(rank, &comm);
    times->step_s = cadre_now_s() - clock->start_s;
    times->wait_data_s = cadre_executor_wait_s(rank->exec) - clock->data_s;
    times->comm_s = comm.busy_s - clock->comm.busy_s;
    double waited_s = fmax(comm.waited_s - clock->comm.waited_s, 0);
    times->comm_exposed_s = fmin(waited_s, comm.exposed_s - clock->comm.exposed_s);
    times->wait_ranks_s = waited_s - times->comm_exposed_s;
    /* samples are waited for inside passes */
    times->compute_s = rank->device->ops->async
                           ? (double)NAN
                           : fmax(rank->timeline.pass_s - times->wait_data_s, 0);
    divide_exposed(rank, clock, times);
}
