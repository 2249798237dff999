/* SPDX-License-Identifier: Apache-2.0 */
/* Training in parts: what is saved is what was there, wherever it continues. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/check/groups/training.h"

#define SHORT_PERIOD 2 /* of a plugin that has the option */

/* ---- runs in parts ---- */

struct part {
    const char *out;
    char stack[PATH_MAX + 24]; /* empty: as the subject's */
    int ranks;
    int steps; /* to come to */
    bool resumes;
};

/* Steps of the first part: whole periods, so that what replicas keep apart is together
 * where it is not saved apart. */
static int first_steps(const struct cadre_subject *subject)
{
    int period = subject->period > 8 ? 0 : (int)subject->period;
    return period == 0 ? 0 : period * (period == 1 ? 3 : 4 / period + 1);
}

static bool run_part(struct cadre_case *c, const struct cadre_subject *subject,
                     const struct part *part, bool *refused)
{
    struct cadre_sets sets = {0};
    struct cadre_trained trained;
    if (part->stack[0])
        cadre_sets_add(&sets, "strategy.stack=%.240s", part->stack);
    else
        cadre_subject_stack(subject, part->ranks, &sets);
    cadre_sets_add(&sets, "run.exact=%s", subject->exact ? "yes" : "no");
    cadre_sets_add(&sets, "train.steps=%d", part->steps);
    cadre_sets_add(&sets, "checkpoint.every=%d", first_steps(subject));
    cadre_sets_add(&sets, "checkpoint.keep=0");
    if (part->resumes)
        cadre_sets_add(&sets, "checkpoint.resume=auto");
    if (cadre_subject_has(subject, "period"))
        cadre_sets_add(&sets, "%s.period=%d", subject->plugin->name, SHORT_PERIOD);
    /* replicas that are not kept continue from the mean of their states */
    if (subject->diverges && !subject->keeps)
        cadre_sets_add(&sets, "optim.name=sgd");
    const struct cadre_training training = {.out = part->out, .sets = &sets};
    if (!cadre_train_once(c, &training, &trained))
        return false;
    if (refused)
        *refused = trained.ended && trained.status == 2;
    if (trained.ended && trained.status == 0)
        return true;
    if (!refused || !*refused)
        cadre_case_fail(c, "%s %s to step %d: %s", sets.text[0],
                        part->resumes ? "resumed" : "trained", part->steps,
                        trained.text);
    return false;
}

static bool can_resume(struct cadre_case *c, struct cadre_subject *subject)
{
    if (!cadre_subject_take(c, subject))
        return false;
    if (cadre_subject_has(subject, "period"))
        subject->period = SHORT_PERIOD;
    if (first_steps(subject) > 0)
        return true;
    cadre_case_unsupported(c,
                           "its work repeats every %llu steps only; set a shorter "
                           "period as the option's default to have it checked",
                           (unsigned long long)subject->period);
    return false;
}

static int world(const struct cadre_subject *subject)
{
    return subject->plugin->desc.axis ? 2 : 1;
}

static void same_layout(struct cadre_case *c)
{
    struct cadre_subject subject;
    bool refused = false;
    if (!can_resume(c, &subject))
        return;
    int n = first_steps(&subject), ranks = world(&subject);
    const struct part whole = {.out = "whole", .ranks = ranks, .steps = 2 * n};
    const struct part first = {.out = "parts", .ranks = ranks, .steps = n};
    const struct part second = {
        .out = "parts", .ranks = ranks, .steps = 2 * n, .resumes = true};
    if (!run_part(c, &subject, &whole, &refused)) {
        if (refused)
            cadre_case_refused(c, "refused on %d ranks", ranks);
        return;
    }
    if (run_part(c, &subject, &first, NULL) && run_part(c, &subject, &second, NULL))
        cadre_runs_alike(c, "whole", "parts", true, true);
}

/* ---- other stacks ---- */

/* To another stack and back, against the run in one piece. */
static void there_and_back(struct cadre_case *c, const struct cadre_subject *subject,
                           const struct part *between, const char *out)
{
    int n = first_steps(subject), ranks = world(subject);
    bool refused = false;
    const struct part first = {.out = out, .ranks = ranks, .steps = n};
    struct part second = *between;
    const struct part third = {
        .out = out, .ranks = ranks, .steps = 3 * n, .resumes = true};
    second.out = out;
    second.steps = 2 * n;
    second.resumes = true;
    if (c->failing || !run_part(c, subject, &first, NULL) ||
        !run_part(c, subject, &second, &refused))
        return;
    /* a model or a time that is divided over another number of ranks sums in another
     * order */
    bool bits = subject->exact && !subject->time &&
                subject->plugin->desc.role != CADRE_ROLE_INTRA;
    if (run_part(c, subject, &third, NULL))
        /* another stack does not keep the plugin's own states up to date */
        cadre_runs_alike(c, "whole", out, bits, !between->stack[0]);
}

static void other_layouts(struct cadre_case *c)
{
    struct cadre_subject subject;
    bool refused = false;
    if (!can_resume(c, &subject))
        return;
    if (subject.by_design) {
        cadre_case_unsupported(c, "by design another stack is another training");
        return;
    }
    int n = first_steps(&subject);
    const struct part whole = {
        .out = "whole", .ranks = world(&subject), .steps = 3 * n};
    const struct part between[] = {{.ranks = 4},
                                   {.ranks = 1},
                                   {.stack = "single"},
                                   {.stack = "ddp:2"},
                                   {.stack = "zero:2"}};
    static const char *const names[] = {"by-4", "by-1", "by-single", "by-ddp",
                                        "by-zero"};
    if (!run_part(c, &subject, &whole, &refused)) {
        if (refused)
            cadre_case_refused(c, "refused on %d ranks", world(&subject));
        return;
    }
    bool optimizer = subject.plugin->desc.role == CADRE_ROLE_OPTIMIZER;
    for (size_t i = 0; i < sizeof between / sizeof between[0] && !c->failing; i++)
        if (!optimizer || !between[i].stack[0])
            there_and_back(c, &subject, &between[i], names[i]);
}

/* ---- R3, R6: in rehearsals ---- */

static void damaged(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_rehearsal_report report;
    if (!plugin)
        return;
    if (!plugin->ops.state) {
        cadre_case_unsupported(c, "the plugin keeps no state");
        return;
    }
    for (uint64_t i = 0; i < 24 && !c->failing; i++) {
        const struct cadre_rehearsal_setup setup = {.plugin = plugin,
                                                    .ranks = plugin->desc.axis ? 2 : 1,
                                                    .seed = c->seed + i,
                                                    .reload = true,
                                                    .damaged = true};
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
        if (report.rule[CADRE_RULE_MEMORY].broken)
            cadre_case_fail(c, "after a load of random bytes: %s",
                            report.rule[CADRE_RULE_MEMORY].text);
        if (report.rule[CADRE_RULE_TEXT].broken)
            cadre_case_fail(c, "refuses damaged state without saying why: %s",
                            report.rule[CADRE_RULE_TEXT].text);
    }
}

static void described_alike(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_rehearsal_report report;
    if (!plugin)
        return;
    if (!plugin->ops.state) {
        cadre_case_unsupported(c, "the plugin keeps no state");
        return;
    }
    for (int ranks = 1; ranks <= (plugin->desc.axis ? 4 : 1) && !c->failing; ranks++) {
        const struct cadre_rehearsal_setup setup = {
            .plugin = plugin, .ranks = ranks, .seed = c->seed, .reload = true};
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
        if (report.rule[CADRE_RULE_STATE].broken)
            cadre_case_fail(c, "%s", report.rule[CADRE_RULE_STATE].text);
    }
}

/* ---- R5 ---- */

static void compare_folders(struct cadre_case *c, const char *a, const char *b)
{
    DIR *dir = opendir(a);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry;
         entry = readdir(dir)) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".safetensors") != 0)
            continue;
        char *one = cadre_path_join(a, entry->d_name), *data = NULL;
        char *other = cadre_path_join(b, entry->d_name), *again = NULL;
        size_t bytes = 0, others = 0;
        bool same =
            one && other &&
            cadre_path_read_file(one, 1 << 28, &data, &bytes, NULL) == CADRE_OK &&
            cadre_path_read_file(other, 1 << 28, &again, &others, NULL) == CADRE_OK &&
            bytes == others && memcmp(data, again, bytes) == 0;
        if (!same)
            cadre_case_fail(c, "two runs with the same settings write another '%s'",
                            entry->d_name);
        free(data);
        free(again);
        free(one);
        free(other);
    }
    if (dir)
        closedir(dir);
}

static void same_bytes(struct cadre_case *c)
{
    struct cadre_subject subject;
    bool refused = false;
    if (!can_resume(c, &subject))
        return;
    int n = first_steps(&subject), ranks = world(&subject);
    const struct part first = {.out = "one", .ranks = ranks, .steps = n};
    const struct part second = {.out = "two", .ranks = ranks, .steps = n};
    if (!run_part(c, &subject, &first, &refused)) {
        if (refused)
            cadre_case_refused(c, "refused on %d ranks", ranks);
        return;
    }
    if (!run_part(c, &subject, &second, NULL))
        return;
    char *a = cadre_format("%s/one/checkpoints/step-%08d", c->folder, n);
    char *b = cadre_format("%s/two/checkpoints/step-%08d", c->folder, n);
    if (a && b)
        compare_folders(c, a, b);
    free(a);
    free(b);
}

#define CHECK(ID, TITLE, WHY, SLOW, RUN)                                               \
    {                                                                                  \
        .id = ID, .group = "state", .title = TITLE, .why = WHY,                        \
        .see = "docs/check.md", .level = CADRE_LEVEL_RESUMABLE, .needs = "D6",         \
        .limit_s = 120, .slow = SLOW, .run = RUN                                       \
    }

static const struct cadre_check checks[] = {
    CHECK("R1", "a run in two parts is the run in one",
          "What is not saved begins again at zero.", true, same_layout),
    CHECK(
        "R2", "to other numbers of ranks and other stacks, and back",
        "A state that is said to be a sum, and is none, comes back with another size.",
        true, other_layouts),
    CHECK("R3", "random bytes in its state are refused, or harmless",
          "A checkpoint outlives the version that wrote it.", false, damaged),
    CHECK("R5", "two runs write the same bytes",
          "An address, a time or unset memory in a state makes digests useless.", true,
          same_bytes),
    CHECK("R6", "state is described alike each time, and comes back as it was",
          "A save lists its entries first and reads them then.", false,
          described_alike),
};

const struct cadre_check_group cadre_check_state = {"state", checks,
                                                    sizeof checks / sizeof checks[0]};
