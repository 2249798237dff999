/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/top/run_fixture.h"

#include <math.h>
#include <stdio.h>

#include "core/base/memory.h"
#include "tests/support/check_main.h"

static void make_op(struct cadre_rank_seen *seen)
{
    seen->has_ended = true;
    seen->posted = seen->ended = 7;
    seen->last = (struct cadre_rank_seen_op){
        .op = {.number = 7, .posted_s = 1, .bytes = 3 << 20, .step = 4, .ranks = 2},
        .age_s = 0.25};
    snprintf(seen->last.op.kind, sizeof seen->last.op.kind, "all_reduce");
    snprintf(seen->last.op.label, sizeof seen->last.op.label, "ddp bucket 3");
    snprintf(seen->last.op.comm, sizeof seen->last.op.comm, "dp");
}

static void make_rank(struct cadre_rank_seen *seen, int r, int n, int steps)
{
    seen->head = (struct cadre_rank_page_head){
        .rank = r, .ranks = n, .pid = 100 + r, .last_step = 100, .step_tokens = 1000};
    snprintf(seen->head.name, sizeof seen->head.name, "first");
    snprintf(seen->head.stack, sizeof seen->head.stack, "ddp:%d", n);
    snprintf(seen->head.host, sizeof seen->head.host, "node");
    seen->head.planned_bytes = 200 << 20;
    seen->memory_bytes = 150 << 20;
    seen->memory_peak_bytes = 160 << 20;
    seen->state = CADRE_RANK_TRAINING;
    seen->phase = CADRE_PHASE_BACKWARD;
    seen->microbatch = 3;
    seen->phase_s = 0.5;
    seen->begun_s = 0.1 * steps;
    seen->step = (uint64_t)steps + 1;
    seen->result = (struct cadre_rank_page_result){.step = (uint64_t)steps,
                                                   .loss = 2.5,
                                                   .grad_norm = 0.75,
                                                   .lr = 1e-3,
                                                   .valid_loss = NAN};
    seen->n_times = (size_t)steps;
    for (int k = 0; k < steps; k++)
        seen->times[k] = (struct cadre_rank_page_step){
            .step = (uint64_t)k + 1,
            .step_s = 0.1,
            .compute_s = 0.06,
            .optim_s = 0.01,
            .comm_exposed_s = 0.01,
            .wait_ranks_s = 0.01,
            .data_s = 0.01,
        };
    make_op(seen);
}

void run_fixture_make(struct cadre_top_snapshot *s, int n, int steps)
{
    *s = (struct cadre_top_snapshot){.dir = cadre_strdup("runs/first"), .n = n};
    s->rank = cadre_calloc((size_t)n, sizeof *s->rank);
    ck_assert_ptr_nonnull(s->rank);
    for (int r = 0; r < n; r++) {
        s->rank[r].known = true;
        make_rank(&s->rank[r].seen, r, n, steps);
    }
    cadre_top_snapshot_conclude(s);
}

void run_fixture_slow(struct cadre_top_snapshot *s, int r, int k, double more_s)
{
    s->rank[r].seen.times[k].compute_s += more_s;
    s->rank[r].seen.times[k].step_s += more_s;
}
