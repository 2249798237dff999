/* SPDX-License-Identifier: Apache-2.0 */
/* Every batch's sums go to an array indexed by batch, which the ranks fill together; so
 * the totals do not depend on which rank evaluated which batch. */
#include "core/train/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/tensor/dtype.h"

/* Per batch: loss sum, targets, correct, samples, then TP, FP, FN of each class. */
#define HEAD 4
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
    uint64_t chosen, total; /* samples that are evaluated, of those there are */
};

/* Sample i of those that are evaluated: they lie evenly over all, so that every long
 * record and every part of a text counts. It is i * total / chosen without
 * overflow. */
static uint64_t sample_at(const struct work *w, uint64_t i)
{
    return i * (w->total / w->chosen) + i * (w->total % w->chosen) / w->chosen;
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

/* `count`: add the batch to this rank's sums. Strategies may communicate while a batch
 * runs, so every rank runs the same number of batches; surplus ones are not counted. */
static cadre_status one_batch(struct work *w, int64_t batch, bool count,
                              struct cadre_error *err)
{
    const struct cadre_run_spec *run = &w->spec->run;
    uint64_t first = (uint64_t)(batch * run->micro_batch);
    int64_t n = run->micro_batch;
    if (first + (uint64_t)n > w->chosen)
        n = (int64_t)(w->chosen - first);
    cadre_status rc = read_batch(w, first, n, err);
    struct cadre_eval eval = {
        .inputs = w->inputs,
        .targets = w->targets,
        .positions = w->positions,
        .batch = n,
        .time = w->rank->plan.time,
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
    return CADRE_OK;
}

static void add_up(const struct work *w, int64_t batches, struct cadre_evaluation *out)
{
    double total[HEAD + 3 * CADRE_MAX_CLASSES] = {0};
    for (int64_t b = 0; b < batches; b++)
        for (size_t i = 0; i < w->width; i++)
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
    bool whole = w->rank->model->vocab == run->model.vocab || run->model.classes > 0;
    w->width = HEAD + 3 * (size_t)run->model.classes;
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
    w.total = samples;
    w.chosen = batches == all ? samples : (uint64_t)(batches * micro);
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
    if (rc == CADRE_OK)
        add_up(&w, batches, out);
    free(w.inputs);
    free(w.targets);
    free(w.positions);
    free(w.whole);
    free(w.logits);
    free(w.sums);
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
