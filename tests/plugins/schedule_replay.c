/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugins/schedule_replay.h"

#include <string.h>

int schedule_replay_init(struct schedule_replay *r, const struct pipeline_shape *shape)
{
    static const double cost[] = {1, 2, 1, 1};
    memset(r, 0, sizeof *r);
    memcpy(r->cost, cost, sizeof cost);
    r->shape = *shape;
    for (uint32_t i = 0; i < shape->stages; i++) {
        struct player *p = &r->player[i];
        if (pipeline_list_init(&p->list, &r->shape, i))
            return -1;
        for (uint32_t g = 0; g < 2; g++)
            for (uint32_t c = 0; c < MAX_CHUNKS; c++)
                for (uint32_t m = 0; m < MAX_MICROBATCHES; m++)
                    p->came[g][c][m] = -1;
    }
    return 0;
}

void schedule_replay_fini(struct schedule_replay *r)
{
    for (uint32_t i = 0; i < r->shape.stages; i++)
        pipeline_list_fini(&r->player[i].list);
}

/* May rank i run the action as far as its input and the room for its output go? Sets
 * its time to that of the input. */
static int ready(struct schedule_replay *r, uint32_t i,
                 const struct pipeline_action *action)
{
    struct player *p = &r->player[i];
    struct pipeline_message m;
    if (pipeline_takes(&r->shape, i, action, &m)) {
        double came = p->came[m.gradient][m.chunk][m.microbatch];
        if (came < 0)
            return 0;
        p->time = came > p->time ? came : p->time;
    }
    return !pipeline_gives(&r->shape, i, action, &m) || !r->buffers ||
           p->sent[m.rank] < r->player[m.rank].taken[i] + r->buffers +
                                 pipeline_waiting(&r->shape, i, m.rank);
}

static void finish(struct schedule_replay *r, uint32_t i,
                   const struct pipeline_action *action)
{
    struct player *p = &r->player[i];
    struct pipeline_message m;
    if (pipeline_takes(&r->shape, i, action, &m))
        p->taken[m.rank]++;
    if (pipeline_gives(&r->shape, i, action, &m)) {
        double *came = &r->player[m.rank].came[m.gradient][m.chunk][m.microbatch];
        r->twice |= *came >= 0;
        *came = p->time;
        p->sent[m.rank]++;
    }
}

/* Actions that rank i runs as one: two where devices overlap them. The last rank's
 * first pair is not, so that its micro-batch comes back sooner. */
static uint32_t together(struct schedule_replay *r, uint32_t i)
{
    struct player *p = &r->player[i];
    const struct pipeline_action *action = &p->list.action[p->at];
    if (r->pair == 0 || p->at + 1 == p->list.n || action[0].kind != PIPELINE_FORWARD ||
        action[1].kind != PIPELINE_BACKWARD)
        return 1;
    return i == r->shape.stages - 1 && !p->alone ? 1 : 2;
}

/* Run rank i's next actions if their input is there and their output has a free buffer.
 */
static int play_one(struct schedule_replay *r, uint32_t i)
{
    struct player *p = &r->player[i];
    if (p->at == p->list.n)
        return 0;
    const struct pipeline_action *action = &p->list.action[p->at];
    uint32_t n = together(r, i);
    for (uint32_t k = 0; k < n; k++)
        if (!ready(r, i, &action[k]))
            return 0;
    double cost = n == 2 ? r->pair : r->cost[action->kind];
    if (p->at == 0)
        p->begin = p->time;
    p->time += cost;
    p->busy += cost;
    for (uint32_t k = 0; k < n; k++)
        finish(r, i, &action[k]);
    p->at += n;
    p->alone |= action->kind == PIPELINE_BACKWARD;
    return 1;
}

double schedule_replay_run(struct schedule_replay *r)
{
    double end = 0;
    int moved = 1;
    while (moved) {
        moved = 0;
        for (uint32_t i = 0; i < r->shape.stages; i++)
            while (play_one(r, i))
                moved = 1;
    }
    for (uint32_t i = 0; i < r->shape.stages; i++) {
        const struct player *p = &r->player[i];
        if (p->at < p->list.n || r->twice)
            return -1;
        end = p->time > end ? p->time : end;
    }
    return end;
}

double schedule_replay_idle(const struct schedule_replay *r, double time)
{
    double idle = 0;
    for (uint32_t i = 0; i < r->shape.stages; i++)
        if (time - r->player[i].busy > idle)
            idle = time - r->player[i].busy;
    return idle;
}
