/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_draw.h"

#include <math.h>
#include <stdlib.h>

#include "core/cli/plan_ask.h"
#include "core/cli/plan_simulate.h"
#include "core/compare/report/schedule_chart.h"
#include "core/simulate/simulation.h"

enum { MOST_RANKS = 64 }; /* simulated for a picture */
_Static_assert((int)MOST_RANKS <= (int)CADRE_SIMULATION_APART, "each of them runs");

/* One data rank, and twice as many micro-batches as stages: filling, a steady stretch
 * and draining. */
static struct cadre_candidate cut(const struct cadre_candidate *c)
{
    struct cadre_candidate few = *c;
    int64_t m = cadre_candidate_micro_batches(c);
    if (m > 2 * c->pipeline)
        m = 2 * c->pipeline;
    few.data = few.replicas = 1;
    few.zero = 0;
    few.global_batch = m * c->micro_batch;
    return few;
}

static cadre_status make_options(const struct cadre_plan_answers *a,
                                 const struct cadre_candidate *few,
                                 struct cadre_options **out, struct cadre_error *err)
{
    char batch[64];
    snprintf(batch, sizeof batch, "train.global_batch=%lld",
             (long long)few->global_batch);
    CADRE_TRY(cadre_plan_options(a, few, out, err));
    cadre_status rc = cadre_options_set(*out, batch, "the plan", err);
    if (rc == CADRE_OK)
        rc = cadre_cli_plan_check_data(*out, err);
    if (rc == CADRE_OK)
        rc = cadre_simulation_options(*out, err);
    if (rc != CADRE_OK)
        cadre_options_destroy(*out);
    return rc;
}

static cadre_status simulate(const struct cadre_plan_answers *a,
                             const struct cadre_candidate *few,
                             struct cadre_simulation *out, struct cadre_error *err)
{
    const struct cadre_spec_request request = {
        .name = "plan", .given_ranks = (int)cadre_candidate_ranks(few)};
    const struct cadre_simulation_request passes = {.passes = true};
    struct cadre_options *options;
    struct cadre_spec *spec = NULL;
    CADRE_TRY(make_options(a, few, &options, err));
    CADRE_TRY(cadre_spec_create(options, &request, &spec, err));
    const cadre_status rc = cadre_simulate(spec, &a->hardware, &passes, out, err);
    cadre_spec_destroy(spec);
    return rc;
}

/* ---- passes as a schedule ---- */

/* When the first pass of all begins. */
static double begin_of(const struct cadre_simulation *s)
{
    double begin = INFINITY;
    for (int r = 0; r < s->n; r++)
        if (s->rank[r].n_passes > 0)
            begin = fmin(begin, s->rank[r].pass[0].begin);
    return begin;
}

static bool take_rank(struct cadre_replay_rank *out, int rank, double begin,
                      const struct cadre_simulated_rank *from)
{
    static const enum cadre_replay_kind kinds[] = {
        [CADRE_SPAN_FORWARD] = CADRE_REPLAY_FORWARD,
        [CADRE_SPAN_BACKWARD] = CADRE_REPLAY_BACKWARD,
        [CADRE_SPAN_INPUT] = CADRE_REPLAY_INPUT,
        [CADRE_SPAN_WEIGHT] = CADRE_REPLAY_WEIGHT,
    };
    out->rank = rank;
    out->pass = cadre_calloc(from->n_passes + 1, sizeof *out->pass);
    if (!out->pass)
        return false;
    for (size_t i = 0; i < from->n_passes; i++) {
        const struct cadre_span *span = &from->pass[i];
        out->pass[out->n_passes++] =
            (struct cadre_replay_pass){kinds[span->kind], span->chunk, span->microbatch,
                                       span->begin - begin, span->end - begin};
    }
    return true;
}

/* The first rank of each stage: those beside it are in step with it. */
static bool take_stages(struct cadre_replay *out, const struct cadre_candidate *few,
                        const struct cadre_simulation *s)
{
    const int stages = (int)few->pipeline, beside = s->ranks / stages;
    const double begin = begin_of(s);
    out->rank = cadre_calloc((size_t)stages, sizeof *out->rank);
    for (int i = 0; out->rank && i < stages; i++, out->n++)
        if (!take_rank(&out->rank[i], i * beside, begin,
                       &s->rank[(ptrdiff_t)i * beside]))
            return false;
    return out->rank != NULL;
}

static void describe(const struct cadre_candidate *c, const struct cadre_candidate *few,
                     size_t place, const struct cadre_simulation *s,
                     struct cadre_text *note)
{
    char stack[CADRE_CANDIDATE_STACK], form[CADRE_CANDIDATE_FORM];
    cadre_candidate_stack(c, stack, sizeof stack);
    cadre_candidate_form(c, form, sizeof form);
    cadre_text_printf(
        note,
        "Simulated, not measured: place %zu, %s, %s. Drawn are the first rank of each "
        "stage and %lld of %lld micro-batches of one of %lld data ranks, a step of "
        "%.4g s, so that the bubble is larger than that of the whole step. Boxes are "
        "numbered by micro-batch, later chunks of a rank are paler, and what is empty "
        "is bubble or waiting.",
        place, stack, form, (long long)cadre_candidate_micro_batches(few),
        (long long)cadre_candidate_micro_batches(c), (long long)c->data, s->step_s);
}

static cadre_status draw(const struct cadre_candidate *c,
                         const struct cadre_candidate *few, size_t place,
                         const struct cadre_simulation *s, struct cadre_text *drawing,
                         struct cadre_text *note)
{
    struct cadre_replay schedule = {0};
    if (take_stages(&schedule, few, s)) {
        const size_t boxes = cadre_schedule_passes(&schedule);
        if (boxes > CADRE_SCHEDULE_BOXES) {
            cadre_text_printf(note, "Not drawn: %zu passes are too many.", boxes);
        } else {
            cadre_schedule_chart(drawing, "Simulated passes of a step", &schedule);
            describe(c, few, place, s, note);
        }
    } else {
        drawing->failed = true;
    }
    cadre_replay_fini(&schedule);
    return drawing->failed || note->failed ? CADRE_E_RESOURCE : CADRE_OK;
}

cadre_status cadre_plan_draw(const struct cadre_plan_answers *a,
                             struct cadre_text *drawing, struct cadre_text *note,
                             struct cadre_error *err)
{
    const struct cadre_plan_search *search = &a->search;
    struct cadre_simulation s = {0};
    struct cadre_error why = {0};
    cadre_status rc = CADRE_OK;
    size_t i = 0;
    while (i < search->legal && search->found[i].candidate.pipeline < 2)
        i++;
    if (i == search->legal)
        return CADRE_OK;
    const struct cadre_candidate *c = &search->found[i].candidate;
    const struct cadre_candidate few = cut(c);
    if (cadre_candidate_ranks(&few) > MOST_RANKS)
        cadre_text_printf(note,
                          "Not drawn: the %lld ranks of place %zu's pipeline are more "
                          "than the %d that are simulated for a drawing.",
                          (long long)cadre_candidate_ranks(&few), i + 1, MOST_RANKS);
    else if (simulate(a, &few, &s, &why) != CADRE_OK)
        cadre_text_printf(note, "Not drawn: %s", why.text);
    else
        rc = draw(c, &few, i + 1, &s, drawing, note);
    cadre_simulation_fini(&s);
    return rc == CADRE_OK ? rc : cadre_no_memory(err, "the drawing of a schedule");
}
