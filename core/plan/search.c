/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/search.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

struct searching {
    const struct cadre_plan_question *question;
    const struct cadre_hardware *hw;
    struct cadre_plan_search *search;
    size_t room;
    struct cadre_error *err;
};

static struct cadre_plan_found *append(struct searching *s,
                                       const struct cadre_candidate *candidate)
{
    struct cadre_plan_search *out = s->search;
    if (out->n == s->room) {
        const size_t room = s->room ? 2 * s->room : 256;
        void *more = cadre_realloc(out->found, room, sizeof *out->found);
        if (!more)
            return NULL;
        out->found = more;
        s->room = room;
    }
    struct cadre_plan_found *found = &out->found[out->n++];
    *found = (struct cadre_plan_found){.candidate = *candidate, .number = out->n};
    return found;
}

/* `legal` is false where the candidate was refused before its memory was asked for. */
static cadre_status consider(struct searching *s, const struct cadre_candidate *c,
                             bool *legal)
{
    const struct cadre_transformer *t = &s->question->transformer;
    struct cadre_error why = {0};
    struct cadre_plan_found *found = append(s, c);
    if (!found)
        return cadre_no_memory(s->err, "the candidates");
    *legal = cadre_candidate_check(c, t, s->hw, &why) == CADRE_OK;
    if (!*legal) {
        snprintf(found->refused, sizeof found->refused, "%.95s", why.text);
        return CADRE_OK;
    }
    found->forecast = cadre_forecast(t, c, s->hw);
    found->footprint = cadre_footprint(t, c, s->hw);
    if (!cadre_footprint_fits(&found->footprint, s->hw))
        snprintf(found->refused, sizeof found->refused,
                 "needs at least %.1f GiB, %.1f are there",
                 found->footprint.total / 1073741824.0,
                 s->hw->device.memory_gib - s->hw->device.reserve_gib);
    return CADRE_OK;
}

/* What is refused stands for all that has the same reason: it is not varied further. */
static cadre_status vary_recompute(struct searching *s, struct cadre_candidate c,
                                   bool *legal)
{
    for (int full = 0; full < 2 && *legal; full++) {
        c.recompute = full ? CADRE_PLAN_RECOMPUTE_FULL : CADRE_PLAN_RECOMPUTE_NONE;
        CADRE_TRY(consider(s, &c, legal));
    }
    return CADRE_OK;
}

/* ZeRO's stages over all data ranks, and over groups of them that are replicas. */
static cadre_status vary_states(struct searching *s, struct cadre_candidate c,
                                bool *legal)
{
    *legal = true;
    c.replicas = 1;
    for (c.zero = 0; c.zero <= (c.data > 1 ? 3 : 0) && *legal; c.zero++)
        CADRE_TRY(vary_recompute(s, c, legal));
    for (c.replicas = 2; c.replicas <= c.data / 2 && *legal; c.replicas++)
        for (c.zero = 1; c.data % c.replicas == 0 && c.zero <= 3; c.zero++)
            CADRE_TRY(vary_recompute(s, c, legal));
    return CADRE_OK;
}

/* A stack's schedules, at one micro-batch; 1f1b of one chunk is refused for what
 * refuses all. */
static cadre_status vary_schedules(struct searching *s, struct cadre_candidate c,
                                   bool *legal)
{
    static const struct {
        enum cadre_plan_schedule schedule;
        int64_t chunks[2];
    } all[] = {
        {CADRE_PLAN_GPIPE, {1, 1}},       {CADRE_PLAN_ZB_H1, {1, 1}},
        {CADRE_PLAN_INTERLEAVED, {2, 4}}, {CADRE_PLAN_BREADTH_FIRST, {2, 4}},
        {CADRE_PLAN_ZB_V, {2, 2}},        {CADRE_PLAN_DUALPIPEV, {2, 2}},
    };
    c.schedule = CADRE_PLAN_1F1B;
    c.chunks = 1;
    CADRE_TRY(vary_states(s, c, legal));
    for (size_t i = 0; i < sizeof all / sizeof all[0] && *legal && c.pipeline > 1;
         i++) {
        bool more = true;
        c.schedule = all[i].schedule;
        for (c.chunks = all[i].chunks[0]; c.chunks <= all[i].chunks[1] && more;
             c.chunks++)
            CADRE_TRY(vary_states(s, c, &more));
    }
    return CADRE_OK;
}

static cadre_status search_stack(struct searching *s, struct cadre_candidate c)
{
    bool legal = true;
    const int64_t samples = c.global_batch / c.data;
    for (c.micro_batch = 1; c.micro_batch <= 16 && legal; c.micro_batch *= 2)
        if (c.micro_batch == 1 || samples % c.micro_batch == 0)
            CADRE_TRY(vary_schedules(s, c, &legal));
    return CADRE_OK;
}

/* In the dtype of the question, or in each that the device has a peak for. */
static cadre_status vary_dtypes(struct searching *s, struct cadre_candidate c)
{
    static const enum cadre_plan_dtype dtypes[] = {CADRE_PLAN_FP32, CADRE_PLAN_FP16,
                                                   CADRE_PLAN_BF16, CADRE_PLAN_FP64};
    if (!s->question->dtypes)
        return search_stack(s, c);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        c.dtype = dtypes[i];
        if (s->hw->device.peak_tflops[c.dtype] > 0)
            CADRE_TRY(search_stack(s, c));
    }
    return CADRE_OK;
}

/* No two are equal: where memory lacks, qsort leaves equal ones in any order. */
static int by_step(const void *a, const void *b)
{
    const struct cadre_plan_found *x = a, *y = b;
    const bool refused_x = *x->refused, refused_y = *y->refused;
    if (refused_x != refused_y)
        return refused_x - refused_y;
    if (x->forecast.step != y->forecast.step)
        return x->forecast.step < y->forecast.step ? -1 : 1;
    if (x->footprint.total != y->footprint.total)
        return x->footprint.total < y->footprint.total ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static cadre_status search_all(struct searching *s)
{
    const int64_t ranks = s->question->ranks;
    for (int64_t tensor = 1; tensor <= ranks; tensor++) {
        if (ranks % tensor != 0)
            continue;
        for (int64_t pipeline = 1; pipeline <= ranks / tensor; pipeline++) {
            if (ranks / tensor % pipeline != 0)
                continue;
            struct cadre_candidate c = s->question->from;
            c.tensor = tensor;
            c.pipeline = pipeline;
            c.context = 1;
            c.data = ranks / tensor / pipeline;
            c.sequence_parallel = c.sequence_parallel && tensor > 1;
            CADRE_TRY(vary_dtypes(s, c));
        }
    }
    return CADRE_OK;
}

cadre_status cadre_plan_search(struct cadre_plan_search *search,
                               const struct cadre_plan_question *question,
                               const struct cadre_hardware *hw, struct cadre_error *err)
{
    struct searching s = {question, hw, search, 0, err};
    *search = (struct cadre_plan_search){0};
    CADRE_TRY(cadre_transformer_check(&question->transformer, err));
    if (!question->dtypes && hw->device.peak_tflops[question->from.dtype] == 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "%s: has no peak_%s_tflops; give it, or change "
                          "train.precision",
                          hw->name, cadre_plan_dtype_name(question->from.dtype));
    cadre_status rc = search_all(&s);
    if (rc != CADRE_OK) {
        cadre_plan_search_fini(search);
        return rc;
    }
    qsort(search->found, search->n, sizeof *search->found, by_step);
    while (search->legal < search->n && !*search->found[search->legal].refused)
        search->legal++;
    return CADRE_OK;
}

void cadre_plan_search_fini(struct cadre_plan_search *search)
{
    free(search->found);
    *search = (struct cadre_plan_search){0};
}
