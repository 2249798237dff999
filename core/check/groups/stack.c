/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin beside others, over axes of other names, and beside itself. */
#include <stdio.h>
#include <string.h>

#include "core/check/groups/training.h"

static bool begin(struct cadre_case *c, struct cadre_trial_table *t)
{
    if (!cadre_trials_begin(c, t))
        return false;
    /* so that tensor can divide them */
    cadre_sets_add(&t->base, "model.heads=6");
    cadre_sets_add(&t->base, "model.vocab=276");
    return true;
}

static struct cadre_trial *add(struct cadre_trial_table *t, const char *name,
                               const char *between, const char *a, const char *b)
{
    char stack[640]; /* of two names with their sizes */
    struct cadre_trial *trial = cadre_trials_add(t, name);
    snprintf(stack, sizeof stack, "%s%s%s", a, between, b);
    cadre_sets_add(&trial->sets, "strategy.stack=%.240s", stack);
    return trial;
}

static uint32_t role_of(const struct cadre_trial_table *t)
{
    return t->subject.plugin->desc.role;
}

/* ---- S1 ---- */

/* Both orders of the text, since it must not matter. */
static void add_pair(struct cadre_trial_table *t, const char *partner, const char *name,
                     const char *setting)
{
    char own[300], other[32], names[2][32];
    snprintf(own, sizeof own, "%.256s%s", t->subject.stack,
             t->subject.plugin->desc.axis ? ":2" : "");
    snprintf(other, sizeof other, "%s:2", partner);
    snprintf(names[0], sizeof names[0], "%s-after", name);
    snprintf(names[1], sizeof names[1], "%s-before", name);
    struct cadre_trial *first = add(t, names[0], ", ", own, other);
    struct cadre_trial *second = add(t, names[1], ", ", other, own);
    if (setting) {
        cadre_sets_add(&first->sets, "%s", setting);
        cadre_sets_add(&second->sets, "%s", setting);
    }
}

/* A reducer above another's shards, on an axis of its own. */
static void add_hybrid(struct cadre_trial_table *t, int stage)
{
    char own[300], name[32];
    snprintf(own, sizeof own, "%.256s@out:2", t->subject.stack);
    snprintf(name, sizeof name, "over-zero-%d", stage);
    struct cadre_trial *trial = add(t, name, ", ", own, "zero:2");
    cadre_sets_add(&trial->sets, "%s.level=16", t->subject.plugin->name);
    cadre_sets_add(&trial->sets, "zero.stage=%d", stage);
}

static void add_optimizer(struct cadre_trial_table *t)
{
    static const char *const stacks[] = {"ddp:2", "zero:2", "pipeline:2", "tensor:2"};
    static const char *const names[] = {"ddp", "zero", "pipeline", "tensor"};
    for (int i = 0; i < 4; i++)
        add(t, names[i], "", stacks[i], "");
}

/* A rehearsal names what is taken for the part of a rank, or for a rank of the axis,
 * and is not; a training may be refused for it, as for any other reason. */
static bool beside_a_division(struct cadre_case *c, const struct cadre_subject *subject)
{
    const struct cadre_plugin_handle *plugin = subject->plugin;
    const struct cadre_rehearsal_setup setup = {
        .plugin = plugin,
        .ranks = plugin->desc.axis ? 2 : 1,
        .seed = c->seed,
        .divided = true,
    };
    struct cadre_rehearsal_report report;
    if (plugin->desc.role == CADRE_ROLE_INTRA ||
        plugin->desc.role == CADRE_ROLE_OPTIMIZER)
        return true;
    if (!cadre_case_rehearse(c, &setup, &report))
        return false;
    for (int rule = 0; rule < CADRE_RULES; rule++)
        if (report.rule[rule].broken)
            cadre_case_fail(c, "beside tensor:3, which divides the parameters: %s",
                            report.rule[rule].text);
    if (!c->failing && report.end == CADRE_REHEARSAL_FAILED)
        cadre_case_fail(c, "beside tensor:3, which divides the parameters: %s",
                        report.text);
    return !c->failing;
}

static void beside_others(struct cadre_case *c)
{
    struct cadre_trial_table t;
    if (!begin(c, &t) || !beside_a_division(c, &t.subject))
        return;
    if (role_of(&t) == CADRE_ROLE_OPTIMIZER) {
        add_optimizer(&t);
    } else if (role_of(&t) == CADRE_ROLE_DATA) {
        add_pair(&t, "pipeline", "pipeline", NULL);
        add_pair(&t, "tensor", "tensor", NULL);
        if (cadre_subject_has(&t.subject, "level") && !t.subject.by_design) {
            add_hybrid(&t, 2);
            add_hybrid(&t, 3);
        }
    } else {
        add_pair(&t, "ddp", "ddp", NULL);
        add_pair(&t, "zero", "zero", "zero.stage=3");
        if (role_of(&t) == CADRE_ROLE_SCHEDULE)
            add_pair(&t, "tensor", "tensor", NULL);
        else if (role_of(&t) == CADRE_ROLE_INTRA)
            add_pair(&t, "pipeline", "pipeline", NULL);
    }
    cadre_trials_compare(c, &t);
}

/* ---- S2 ---- */

static const char *rival_of(const struct cadre_trial_table *t)
{
    const char *name = t->subject.plugin->name;
    switch (role_of(t)) {
    case CADRE_ROLE_SCHEDULE:
        return "pipeline";
    case CADRE_ROLE_INTRA:
        return "tensor";
    default:
        return strcmp(name, "ddp") == 0 ? "zero" : "ddp";
    }
}

/* A second one of the same effect: on the same axis where both reduce, else on one of
 * its own. */
static void clash(struct cadre_case *c)
{
    struct cadre_trial_table t;
    struct cadre_trained trained;
    if (!begin(c, &t))
        return;
    if (role_of(&t) == CADRE_ROLE_OBSERVER || role_of(&t) == CADRE_ROLE_OPTIMIZER) {
        cadre_case_unsupported(c, "a plugin of this role has no effect of its own");
        return;
    }
    const char *rival = rival_of(&t), *axis = t.subject.plugin->desc.axis;
    bool data = role_of(&t) == CADRE_ROLE_DATA;
    struct cadre_sets sets = {0};
    cadre_sets_add(&sets, "strategy.stack=%.200s:2, %s@%s:2", t.subject.stack, rival,
                   data ? axis : "rival");
    const struct cadre_training dry = {.out = "dry", .sets = &sets, .dry = true};
    if (!cadre_train_once(c, &dry, &trained))
        return;
    if (!trained.ended || trained.signal)
        cadre_case_fail(c, "%s: planning does not end, or crashes: %s", sets.text[0],
                        trained.text);
    else if (trained.status != 2)
        cadre_case_fail(c, "%s is not refused (status %d)", sets.text[0],
                        trained.status);
    else if (!strstr(trained.text, t.subject.plugin->name) ||
             !strstr(trained.text, rival))
        cadre_case_fail(c, "%s is refused without naming both: %s", sets.text[0],
                        trained.text);
}

/* ---- S3 ---- */

static void other_axes(struct cadre_case *c)
{
    struct cadre_trial_table t;
    char own[300], again[300];
    if (!begin(c, &t))
        return;
    if (!t.subject.plugin->desc.axis) {
        cadre_case_unsupported(c, "the plugin has no axis");
        return;
    }
    snprintf(own, sizeof own, "%.256s@site:2", t.subject.stack);
    snprintf(again, sizeof again, "%.256s:2", t.subject.stack);
    add(&t, "renamed", "", own, "");
    struct cadre_trial *twice = add(&t, "twice", ", ", own, again);
    if (cadre_subject_has(&t.subject, "level"))
        cadre_sets_add(&twice->sets, "%s@site.level=16", t.subject.plugin->name);
    cadre_trials_compare(c, &t);
    if (t.trial[0].refused)
        cadre_case_fail(c, "%s is refused: %s", own, t.trial[0].text);
}

#define CHECK(ID, TITLE, WHY, RUN)                                                     \
    {                                                                                  \
        .id = ID, .group = "stack", .title = TITLE, .why = WHY,                        \
        .see = "docs/check.md", .level = CADRE_LEVEL_STACKABLE, .needs = "D6",         \
        .limit_s = 120, .slow = true, .run = RUN                                       \
    }

static const struct cadre_check checks[] = {
    CHECK("S1", "beside plugins of other axes, in both orders of the text",
          "Ranks of the world are not those of the axis, storage may be sharded, parts "
          "are local.",
          beside_others),
    CHECK("S2", "another plugin with the same effect is refused, and both are named",
          "Two that reduce would sum twice.", clash),
    CHECK("S3", "on an axis of another name, and twice",
          "The axis is what strategy.stack says, not what the plugin is used to.",
          other_axes),
};

const struct cadre_check_group cadre_check_stack = {"stack", checks,
                                                    sizeof checks / sizeof checks[0]};
