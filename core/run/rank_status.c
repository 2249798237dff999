/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/rank_status.h"

#include <math.h>

#include "core/base/log.h"

void cadre_rank_status_open(struct cadre_rank *rank, const struct cadre_spec *spec,
                            uint64_t bytes, int64_t first_step, int64_t last_step)
{
    struct cadre_ledger plan;
    cadre_rank_memory(rank, &plan);
    const struct cadre_rank_page_request request = {
        .dir = spec->out,
        .rank = rank->index,
        .ranks = spec->run.ranks,
        .name = spec->name,
        .stack = spec->stack,
        .first_step = first_step,
        .last_step = last_step,
        .step_tokens = spec->run.global_batch * spec->run.time,
        .planned_bytes = plan.now_bytes + bytes,
    };
    struct cadre_error err = {0};
    if (cadre_rank_page_create(&request, &rank->page, &err) != CADRE_OK)
        cadre_log(CADRE_LOG_WARN, "train",
                  "%s: `cadre top` will not show this rank; training goes on",
                  err.text);
}

/* What cadre.schedule did, for a drawing of the stages. */
static void put_passes(struct cadre_rank *rank)
{
    const struct cadre_timeline *timeline = &rank->timeline;
    struct cadre_rank_page_passes passes;
    passes.step = rank->step;
    passes.n = 0;
    for (size_t i = 0; i < timeline->n && passes.n < CADRE_RANK_PAGE_PASSES; i++) {
        const struct cadre_span *span = &timeline->span[i];
        if (span->kind < CADRE_SPAN_PASSES)
            passes.pass[passes.n++] = (struct cadre_rank_page_pass){
                .kind = (uint32_t)span->kind,
                .chunk = span->chunk,
                .microbatch = span->microbatch,
                .begin = span->begin,
                .end = span->end,
            };
    }
    cadre_rank_page_passes(rank->page, &passes);
}

void cadre_rank_status_step(struct cadre_rank *rank)
{
    if (!rank->page)
        return;
    cadre_rank_page_memory(rank->page, rank->ledger.now_bytes, rank->ledger.peak_bytes);
    if (rank->timeline.axis)
        put_passes(rank);
}

void cadre_rank_status_report(struct cadre_rank *rank,
                              const struct cadre_step_report *report,
                              const struct cadre_valid_result *valid)
{
    const struct cadre_rank_page_result result = {
        .step = report->step,
        .loss = report->loss,
        .grad_norm = report->grad_norm,
        .lr = report->lr,
        .valid_loss = valid->has ? valid->loss : NAN,
    };
    if (report->step > 0)
        cadre_rank_page_result(rank->page, &result);
}

void cadre_rank_status_end(struct cadre_rank *rank, cadre_status rc,
                           const struct cadre_error *err)
{
    if (rc != CADRE_OK)
        cadre_rank_page_say(rank->page, err->text);
    cadre_rank_page_state(rank->page, rc == CADRE_OK          ? CADRE_RANK_ENDED
                                      : rc == CADRE_E_STOPPED ? CADRE_RANK_STOPPED
                                                              : CADRE_RANK_FAILED);
}

void cadre_rank_status_close(struct cadre_rank *rank)
{
    cadre_rank_page_close(rank->page);
    rank->page = NULL;
}
