/* SPDX-License-Identifier: Apache-2.0 */
/* The training of `single`: each check trains the plugin's stack and the baseline with
 * something that strategies have got wrong, and lets `cadre compare` judge. */
#include <stdio.h>
#include <string.h>

#include "core/check/groups/training.h"

static struct cadre_trial *add(struct cadre_trial_table *t, int ranks, const char *name)
{
    struct cadre_trial *trial = cadre_trials_add(t, name);
    cadre_subject_stack(&t->subject, ranks, &trial->sets);
    return trial;
}

static int sizes(const struct cadre_case *c)
{
    return c->quick ? 1 : 3;
}

/* 2 and 4 ranks, and 3: each with a power of two of micro-batches on a rank, which
 * exact mode asks for. `tweak` adds what the check is about to the baseline. */
static void over_sizes(struct cadre_case *c, void (*tweak)(struct cadre_trial_table *))
{
    for (int three = 0; three <= (c->quick ? 0 : 1) && !c->failing; three++) {
        struct cadre_trial_table t;
        if (!cadre_trials_begin(c, &t))
            return;
        cadre_sets_add(&t.base, "train.global_batch=%d", three ? 12 : 8);
        if (tweak)
            tweak(&t);
        if (three) {
            add(&t, 3, "ranks-3");
        } else {
            add(&t, 2, "ranks-2");
            if (!c->quick)
                add(&t, 4, "ranks-4");
        }
        cadre_trials_compare(c, &t);
    }
}

/* ---- E1 ---- */

static void one_precision(struct cadre_case *c, const char *precision, int ranks)
{
    struct cadre_trial_table t;
    if (c->failing || !cadre_trials_begin(c, &t))
        return;
    cadre_sets_add(&t.base, "train.precision=%s", precision);
    add(&t, ranks, "one");
    cadre_trials_compare(c, &t);
}

static void same_training(struct cadre_case *c)
{
    over_sizes(c, NULL);
    if (c->quick)
        return;
    one_precision(c, "fp32", 1);
    one_precision(c, "fp64", 2);
    one_precision(c, "bf16", 2);
    one_precision(c, "fp16", 2);
}

/* ---- E2 to E7 ---- */

/* Three micro-batches on each of 2 ranks are no power of two: within limits. */
static void odd_sizes(struct cadre_case *c)
{
    for (int ranks = 2; ranks <= (c->quick ? 2 : 3) && !c->failing; ranks++) {
        struct cadre_trial_table t;
        if (!cadre_trials_begin(c, &t))
            return;
        bool heads = t.subject.plugin->desc.role == CADRE_ROLE_INTRA;
        cadre_sets_add(&t.base, "model.channels=%d", heads ? 42 : 33);
        cadre_sets_add(&t.base, "model.context=%d", t.subject.time ? 6 : 9);
        cadre_sets_add(&t.base, "model.vocab=%d", heads ? 258 : 277);
        cadre_sets_add(&t.base, "train.global_batch=6");
        if (ranks == 2)
            cadre_sets_add(&t.base, "run.exact=no");
        add(&t, ranks, ranks == 2 ? "ranks-2" : "ranks-3");
        cadre_trials_compare(c, &t);
    }
}

static void tie(struct cadre_trial_table *t)
{
    cadre_sets_add(&t->base, "model.tied=yes");
}

static void untie(struct cadre_trial_table *t)
{
    cadre_sets_add(&t->base, "model.tied=no");
}

static void tied(struct cadre_case *c)
{
    over_sizes(c, tie);
    if (!c->failing)
        over_sizes(c, untie);
}

static void accumulation(struct cadre_case *c)
{
    static const int microbatches[] = {3, 1, 4};
    for (int i = 0; i < sizes(c) && !c->failing; i++) {
        struct cadre_trial_table t;
        if (!cadre_trials_begin(c, &t))
            return;
        cadre_sets_add(&t.base, "train.global_batch=%d", 2 * microbatches[i]);
        if (microbatches[i] == 3)
            cadre_sets_add(&t.base, "run.exact=no");
        add(&t, 2, "ranks-2");
        cadre_trials_compare(c, &t);
    }
}

static void overflow(struct cadre_case *c)
{
    struct cadre_trial_table t;
    if (!cadre_trials_begin(c, &t))
        return;
    cadre_sets_add(&t.base, "train.precision=fp16");
    cadre_sets_add(&t.base, "train.loss_scale=4294967296");
    cadre_sets_add(&t.base, "train.steps=6");
    add(&t, 2, "ranks-2");
    cadre_trials_compare(c, &t);
}

static void clip(struct cadre_trial_table *t)
{
    cadre_sets_add(&t->base, "optim.clip=0.05");
}

static void clipping(struct cadre_case *c)
{
    over_sizes(c, clip);
}

/* The setting of by_design may name the optimizer itself; it wins. */
static void optimizers(struct cadre_case *c)
{
    static const char *const names[] = {"sgd", "adamw", "muon"};
    for (int i = 0; i < sizes(c) && !c->failing; i++) {
        struct cadre_trial_table t;
        if (!cadre_trials_begin(c, &t))
            return;
        if (t.subject.plugin->desc.role == CADRE_ROLE_OPTIMIZER) {
            cadre_case_unsupported(c, "the plugin is an optimizer itself");
            return;
        }
        cadre_sets_add(&t.base, "optim.name=%s", names[i]);
        if (i == 0)
            cadre_sets_add(&t.base, "optim.momentum=0.9");
        add(&t, 2, "ranks-2");
        cadre_trials_compare(c, &t);
    }
}

/* ---- E8 ---- */

/* Which parameters are frozen is another plugin's matter; a rehearsal plays it. */
static void frozen(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_rehearsal_report report;
    for (int ranks = 2; plugin && ranks <= 3 && !c->failing; ranks++) {
        const struct cadre_rehearsal_setup setup = {.plugin = plugin,
                                                    .ranks =
                                                        plugin->desc.axis ? ranks : 1,
                                                    .seed = c->seed,
                                                    .frozen = true};
        struct cadre_rehearsal_setup trained = setup;
        trained.frozen = false;
        if (!cadre_case_rehearse(c, &trained, &report))
            return;
        if (report.end == CADRE_REHEARSAL_FAILED) {
            cadre_case_unsupported(c, "not to be seen behind another failure: %s",
                                   report.text);
            return;
        }
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
        if (report.end == CADRE_REHEARSAL_FAILED)
            cadre_case_fail(c, "with a block of frozen parameters: %s", report.text);
        for (int rule = 0; rule < CADRE_RULES && !c->failing; rule++)
            if (report.rule[rule].broken)
                cadre_case_fail(c, "with a block of frozen parameters: %s",
                                report.rule[rule].text);
        if (report.end == CADRE_REHEARSAL_REFUSED)
            cadre_case_refused(c, "%s", report.text);
        if (report.end == CADRE_REHEARSAL_BEYOND)
            cadre_case_unsupported(c, "%s", report.text);
    }
}

/* ---- E9, E10 ---- */

static void recompute(struct cadre_case *c)
{
    struct cadre_trial_table t;
    if (!cadre_trials_begin(c, &t))
        return;
    for (int ranks = 2; ranks <= (c->quick ? 2 : 4); ranks += 2) {
        struct cadre_trial *trial = add(&t, ranks, ranks == 2 ? "ranks-2" : "ranks-4");
        cadre_sets_add(&trial->sets, "train.recompute=block");
    }
    cadre_trials_compare(c, &t);
}

/* The training itself differs; `cadre compare` trains the setting that must not. */
static void by_design(struct cadre_case *c)
{
    struct cadre_trial_table t;
    if (!cadre_trials_begin(c, &t))
        return;
    if (!t.subject.by_design) {
        cadre_case_unsupported(c, "it trains as the others do");
        return;
    }
    struct cadre_trial *trial = &t.trial[t.n++];
    snprintf(trial->name, sizeof trial->name, "as-it-is");
    cadre_subject_stack(&t.subject, 2, &trial->sets);
    cadre_trials_compare(c, &t);
}

#define CHECK(ID, TITLE, WHY, SLOW, RUN)                                               \
    {                                                                                  \
        .id = ID, .group = "equality", .title = TITLE, .why = WHY,                     \
        .see = "docs/check.md", .level = CADRE_LEVEL_EXACT, .needs = "D6",             \
        .limit_s = 120, .slow = SLOW, .run = RUN                                       \
    }

static const struct cadre_check checks[] = {
    CHECK("E1", "the training of single, on 1 to 4 ranks, in every precision",
          "It is what a strategy is for.", false, same_training),
    CHECK("E2", "odd sizes, which no number of ranks divides",
          "The remainder is what vector code and ranges forget.", false, odd_sizes),
    CHECK("E3", "embedding and head tied, and not",
          "One weight with two gradients, on two stages of a pipeline.", true, tied),
    CHECK("E4", "1, 3 and 4 micro-batches a rank",
          "A gradient is final at the last of them only.", true, accumulation),
    CHECK("E5", "a step that overflows in fp16 is left out on all ranks",
          "One rank that updates has diverged for good.", true, overflow),
    CHECK("E6", "clipping that has an effect",
          "A value that two ranks hold must count once in the norm.", true, clipping),
    CHECK("E7", "sgd, AdamW and an optimizer of whole matrices",
          "A wrong factor or range shows under some and not under others.", true,
          optimizers),
    CHECK("E8", "frozen parameters",
          "They have no gradient, and who waits for it waits for ever.", false, frozen),
    CHECK("E9", "recomputing activations changes nothing",
          "Forward events come a second time, within backward.", true, recompute),
    CHECK("E10", "by design: the setting that it names trains as the others do",
          "Without it a mistake passes for a design.", true, by_design),
};

const struct cadre_check_group cadre_check_equality = {
    "equality", checks, sizeof checks / sizeof checks[0]};
