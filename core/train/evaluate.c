/* SPDX-License-Identifier: Apache-2.0 */
/* Every batch's sums go to an array indexed by batch, which the ranks fill together; so
 * the totals do not depend on which rank evaluated which batch. */
#include "core/train/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/tensor/dtype.h"

/* Per batch: loss sum, targets, correct, samples, then TP, FP, FN of each class. Of
 * pairs, targets are pairs, and the log-probability of each sample follows, then the
 * logits and the targets of chosen and rejected answers. */
#define HEAD 4
#define LOGITS 4
#define LOGITS_BYTES ((size_t)1 << 20) /* evaluated together, one row at least */

struct work {
    struct cadre_rank *rank;
    const struct cadre_spec *spec;
    int32_t *positions; /* (B, time); NULL unless samples are packed */
    int32_t *inputs, *targets; /* (B, time) of this rank, targets (B) of classes */
    int32_t *whole; /* a sample's inputs, then its targets */
    void *logits;
    int64_t rows; /* that logits holds */
    double *sums, *now; /* now: of the batch that runs, NULL: it counts for nothing */
    size_t width; /* doubles per batch */
    uint64_t each; /* samples that stay together: 2 of pairs, else 1 */
    uint64_t chosen, total; /* of these, those that are evaluated, and all */
    double *losses, *answers; /* (B) of pairs: of each sequence, its loss and logits;
                                 else NULL */
};

/* Sample s of those that are evaluated: they lie evenly over all, so that every long
 * record and every part of a text counts. It is i * total / chosen without
 * overflow. */
static uint64_t sample_at(const struct work *w, uint64_t s)
{
    const uint64_t i = s / w->each;
    return w->each *
               (i * (w->total / w->chosen) + i * (w->total % w->chosen) / w->chosen) +
           s % w->each;
}

static double logit(const struct work *w, int64_t row, int64_t cols, int64_t col)
{
    if (w->rank->model->config.dtype == CADRE_F64)
        return ((const double *)w->logits)[row * cols + col];
    return (double)((const float *)w->logits)[row * cols + col];
}

static int64_t argmax(const struct work *w, int64_t row, int64_t cols)
{
    int64_t best = 0;
    for (int64_t c = 1; c < cols; c++)
        if (logit(w, row, cols, c) > logit(w, row, cols, best))
            best = c;
    return best;
}

static void count_class(double *sums, int64_t guess, int64_t truth)
{
    double *of_guess = sums + HEAD + 3 * guess, *of_truth = sums + HEAD + 3 * truth;
    if (guess == truth) {
        of_truth[0] += 1;
    } else {
        of_guess[1] += 1;
        of_truth[2] += 1;
    }
}

static cadre_status read_batch(struct work *w, uint64_t first, int64_t n,
                               struct cadre_error *err)
{
    const struct cadre_rank_plan *plan = &w->rank->plan;
    const struct cadre_model_config *model = &w->spec->run.model;
    int64_t all = cadre_model_inputs(model, w->spec->run.time);
    int64_t time = cadre_model_inputs(model, plan->time);
    bool classify = model->classes > 0;
    const int32_t *from = w->whole + plan->first_position;
    for (int64_t i = 0; i < n; i++) {
        int32_t *targets = classify ? NULL : w->whole + all;
        int32_t *label = classify ? w->targets + i : NULL;
        uint64_t sample = sample_at(w, first + (uint64_t)i);
        cadre_status rc = cadre_dataset_sample(w->spec->data, CADRE_SPLIT_VALID, sample,
                                               w->whole, targets, label);
        if (rc != CADRE_OK)
            return cadre_fail(err, rc, "cannot read validation sample %llu",
                              (unsigned long long)sample);
        if (w->positions)
            CADRE_TRY(cadre_dataset_positions(w->spec->data, CADRE_SPLIT_VALID, sample,
                                              w->positions + i * time));
        memcpy(w->inputs + i * time, from, (size_t)time * sizeof *from);
        if (!classify)
            memcpy(w->targets + i * time, from + all, (size_t)time * sizeof *from);
    }
    return CADRE_OK;
}

static void count_rows(void *arg, int64_t first, int64_t n)
{
    struct work *w = arg;
    const struct cadre_model_config *model = &w->spec->run.model;
    int64_t cols = model->classes > 0 ? model->classes : model->vocab;
    for (int64_t r = 0; w->now && r < n; r++) {
        int64_t guess = argmax(w, r, cols), truth = w->targets[first + r];
        w->now[2] += guess == truth;
        if (model->classes > 0)
            count_class(w->now, guess, truth);
    }
}

/* Those of the pair that begins with the batch's sample i. */
static void add_answers(const struct work *w, int64_t i, double sums[LOGITS])
{
    const int64_t time = w->rank->plan.time;
    for (int a = 0; a < 2; a++) {
        sums[a] += w->answers[i + a];
        for (int64_t t = 0; t < time; t++)
            sums[2 + a] += w->targets[(i + a) * time + t] >= 0;
    }
}

static cadre_status count_pairs(const struct work *w, uint64_t first, int64_t n,
                                double *sums, struct cadre_error *err)
{
    const struct cadre_preference *preference = &w->rank->preference;
    for (int64_t i = 0; i < n; i++)
        sums[HEAD + i] = -w->losses[i];
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; !preference->measuring && i + 1 < n; i += 2) {
        const uint64_t sample = sample_at(w, first + (uint64_t)i);
        const double *reference = preference->valid + sample;
        double figures[CADRE_PREFERENCE_JUDGED];
        if (isnan(reference[0]) || isnan(reference[1]))
            return cadre_fail(
                err, CADRE_E_INTERNAL,
                "the reference was not measured on validation sample %llu",
                (unsigned long long)sample);
        cadre_preference_judge(&preference->config, sums + HEAD + i, reference, figures,
                               NULL);
        sums[0] += figures[CADRE_PREFERENCE_LOSS];
        sums[1] += 1;
        sums[2] += figures[CADRE_PREFERENCE_ACCURACY];
        add_answers(w, i, sums + HEAD + w->spec->run.micro_batch);
    }
    return CADRE_OK;
}

/* `count`: add the batch to this rank's sums. Strategies may communicate while a batch
 * runs, so every rank runs the same number of batches; surplus ones are not counted. */
static cadre_status one_batch(struct work *w, int64_t batch, bool count,
                              struct cadre_error *err)
{
    const struct cadre_run_spec *run = &w->spec->run;
    uint64_t first = (uint64_t)(batch * run->micro_batch);
    int64_t n = run->micro_batch;
    if (first + (uint64_t)n > w->each * w->chosen)
        n = (int64_t)(w->each * w->chosen - first);
    cadre_status rc = read_batch(w, first, n, err);
    struct cadre_eval eval = {
        .inputs = w->inputs,
        .targets = w->targets,
        .positions = w->positions,
        .batch = n,
        .time = w->rank->plan.time,
        .sequence_losses = w->losses,
        .sequence_logits = w->rank->preference.measuring ? NULL : w->answers,
        .logits = w->logits,
        .some_rows = w->rows,
        .each_rows = count_rows,
        .arg = w,
    };
    double *sums = w->sums + (size_t)batch * w->width;
    w->now = count ? sums : NULL;
    if (rc == CADRE_OK)
        rc = cadre_executor_eval(w->rank->exec, &eval, err);
    if (rc != CADRE_OK || !count || !eval.has_head)
        return rc;
    sums[0] = eval.loss_sum;
    sums[1] = (double)eval.n_targets;
    sums[3] = w->rank->plan.first_position == 0 ? (double)n : 0;
    return w->losses ? count_pairs(w, first, n, sums, err) : CADRE_OK;
}

static void keep_reference(const struct work *w, int64_t batches)
{
    const uint64_t micro = (uint64_t)w->spec->run.micro_batch;
    for (uint64_t s = 0; s < w->each * w->chosen && s < (uint64_t)batches * micro; s++)
        w->rank->preference.valid[sample_at(w, s)] =
            w->sums[s / micro * w->width + HEAD + s % micro];
}

static void add_up_answers(const struct work *w, int64_t batches,
                           struct cadre_evaluation *out)
{
    double total[LOGITS] = {0};
    for (int64_t b = 0; b < batches; b++)
        for (size_t i = 0; i < LOGITS; i++)
            total[i] += w->sums[(size_t)(b + 1) * w->width - LOGITS + i];
    for (int a = 0; a < 2; a++)
        out->logits[a] = total[2 + a] > 0 ? total[a] / total[2 + a] : 0;
}

static void add_up(const struct work *w, int64_t batches, struct cadre_evaluation *out)
{
    double total[HEAD + 3 * CADRE_MAX_CLASSES] = {0};
    for (int64_t b = 0; b < batches; b++)
        for (size_t i = 0; i < HEAD + 3 * (size_t)out->classes; i++)
            total[i] += w->sums[(size_t)b * w->width + i];
    out->loss = total[1] > 0 ? total[0] / total[1] : 0;
    out->targets = (int64_t)total[1];
    out->accuracy = total[1] > 0 ? total[2] / total[1] : 0;
    out->samples = (int64_t)total[3];
    for (int64_t c = 0; c < out->classes; c++)
        out->count[c] = (struct cadre_class_counts){
            (uint64_t)total[HEAD + 3 * c],
            (uint64_t)total[HEAD + 3 * c + 1],
            (uint64_t)total[HEAD + 3 * c + 2],
        };
}

static cadre_status make_work(struct work *w, int64_t batches, struct cadre_error *err)
{
    const struct cadre_run_spec *run = &w->spec->run;
    size_t tokens = (size_t)(run->micro_batch * w->rank->plan.time);
    int64_t inputs = cadre_model_inputs(&run->model, run->time);
    size_t all = run->model.classes > 0 ? (size_t)run->micro_batch : tokens;
    size_t cols =
        (size_t)(run->model.classes > 0 ? run->model.classes : run->model.vocab);
    size_t row = cols * cadre_dtype_bytes(cadre_dtype_wide(run->model.dtype));
    size_t rows = LOGITS_BYTES / row ? LOGITS_BYTES / row : 1;
    const bool pairs = cadre_rank_has_pairs(w->rank);
    bool whole =
        !pairs && (w->rank->model->vocab == run->model.vocab || run->model.classes > 0);
    w->width = HEAD + (pairs ? (size_t)run->micro_batch + LOGITS
                             : 3 * (size_t)run->model.classes);
    if (pairs) {
        w->losses = cadre_calloc((size_t)run->micro_batch, sizeof *w->losses);
        w->answers = cadre_calloc((size_t)run->micro_batch, sizeof *w->answers);
    }
    if (pairs && (!w->losses || !w->answers))
        return cadre_no_memory(err, "evaluation");
    w->inputs = cadre_calloc((size_t)(run->micro_batch * inputs), sizeof *w->inputs);
    w->targets = cadre_calloc(tokens, sizeof *w->targets);
    if (w->spec->data_info.packed)
        w->positions = cadre_calloc(tokens, sizeof *w->positions);
    w->whole = cadre_calloc((size_t)(inputs + run->time), sizeof *w->whole);
    w->rows = (int64_t)(rows < all ? rows : all);
    w->logits = whole ? cadre_calloc((size_t)w->rows, row) : NULL;
    w->sums = cadre_calloc((size_t)batches * w->width, sizeof *w->sums);
    if (w->spec->data_info.packed && !w->positions)
        return cadre_no_memory(err, "evaluation");
    if (!w->inputs || !w->targets || !w->whole || (whole && !w->logits) || !w->sums)
        return cadre_no_memory(err, "evaluation");
    return CADRE_OK;
}

cadre_status cadre_evaluate(struct cadre_rank *rank, const struct cadre_spec *spec,
                            int64_t batches, struct cadre_evaluation *out, bool *has,
                            struct cadre_error *err)
{
    struct work w = {.rank = rank, .spec = spec};
    uint64_t samples = spec->data_info.valid_samples;
    int64_t micro = spec->run.micro_batch;
    int64_t all = (int64_t)((samples + (uint64_t)micro - 1) / (uint64_t)micro);
    int64_t step = cadre_mesh_data_size(&rank->mesh);
    memset(out, 0, sizeof *out);
    out->classes = spec->run.model.classes;
    *has = samples > 0;
    if (!*has)
        return CADRE_OK;
    if (out->classes > CADRE_MAX_CLASSES)
        return cadre_fail(err, CADRE_E_UNSUPPORTED, "%lld classes, expected at most %d",
                          (long long)out->classes, CADRE_MAX_CLASSES);
    if (batches == 0 || batches > all)
        batches = all;
    w.each = spec->data_info.pairs ? 2 : 1;
    w.total = samples / w.each;
    w.chosen = batches == all ? w.total : (uint64_t)(batches * micro) / w.each;
    cadre_status rc = make_work(&w, batches, err);
    for (int64_t b = 0; rc == CADRE_OK && b < batches; b += step) {
        int64_t mine = b + cadre_mesh_data_index(&rank->mesh);
        bool spare = mine >= batches;
        rc = one_batch(&w, spare ? b : mine,
                       !spare && cadre_rank_is_primary_owner_for_loss(rank), err);
    }
    if (rc == CADRE_OK) {
        rc = cadre_rank_sum(rank, "evaluation", w.sums, (uint64_t)batches * w.width);
        if (rc != CADRE_OK)
            cadre_fail(err, rc, "the ranks could not add up the evaluation");
    }
    if (rc == CADRE_OK && rank->preference.measuring)
        keep_reference(&w, batches);
    if (rc == CADRE_OK)
        add_up(&w, batches, out);
    if (rc == CADRE_OK && w.answers)
        add_up_answers(&w, batches, out);
    free(w.losses);
    free(w.answers);
    free(w.inputs);
    free(w.targets);
    free(w.positions);
    free(w.whole);
    free(w.logits);
    free(w.sums);
    return rc;
}

cadre_status cadre_evaluate_reference(struct cadre_rank *rank,
                                      const struct cadre_spec *spec, int64_t batches,
                                      struct cadre_error *err)
{
    struct cadre_evaluation unused;
    bool has;
    rank->preference.measuring = true;
    cadre_status rc = cadre_evaluate(rank, spec, batches, &unused, &has, err);
    rank->preference.measuring = false;
    return rc;
}

static double ratio(uint64_t part, uint64_t other)
{
    return part + other > 0 ? (double)part / (double)(part + other) : 0;
}

double cadre_sensitivity(const struct cadre_class_counts *count)
{
    return ratio(count->true_positive, count->false_negative);
}

double cadre_predictivity(const struct cadre_class_counts *count)
{
    return ratio(count->true_positive, count->false_positive);
}

double cadre_f1(const struct cadre_class_counts *count)
{
    double s = cadre_sensitivity(count), p = cadre_predictivity(count);
    return s + p > 0 ? 2 * s * p / (s + p) : 0;
}
