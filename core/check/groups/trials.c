/* SPDX-License-Identifier: Apache-2.0 */
/* Several runs against a baseline, judged by `cadre compare`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/check/groups/training.h"
#include "core/checkpoint/format/file.h"
#include "core/compare/verdict/comparison.h"
#include "core/compare/verdict/judge.h"
#include "core/run/record.h"

#define COMPARE_LIMIT_S 60.0

/* ---- comparing ---- */

static struct cadre_sets whole(const struct cadre_sets *base,
                               const struct cadre_trial *trial)
{
    struct cadre_sets sets = *base;
    for (int i = 0; i < trial->sets.n; i++)
        cadre_sets_add(&sets, "%s", trial->sets.text[i]);
    return sets;
}

/* Refusals are found one by one: a comparison that has one trains nothing. */
static bool probe(struct cadre_case *c, const struct cadre_sets *base,
                  struct cadre_trial *trial)
{
    const struct cadre_sets sets = whole(base, trial);
    struct cadre_trained trained;
    const struct cadre_training dry = {.out = "dry", .sets = &sets, .dry = true};
    if (!cadre_train_once(c, &dry, &trained))
        return false;
    snprintf(trial->text, sizeof trial->text, "%s", trained.text);
    trial->refused = trained.ended && trained.status == 2;
    if (trial->refused || (trained.ended && trained.status == 0))
        return true;
    cadre_case_fail(c, "%s: --dry-run %s: %s", trial->name,
                    !trained.ended ? "does not end" : "fails", trained.text);
    return false;
}

static void write_sets(FILE *file, const struct cadre_sets *sets)
{
    for (int i = 0; i < sets->n; i++) {
        const char *equals = strchr(sets->text[i], '=');
        if (equals)
            fprintf(file, "%.*s = %s\n", (int)(equals - sets->text[i]), sets->text[i],
                    equals + 1);
    }
}

static bool write_comparison(struct cadre_case *c, const struct cadre_sets *base,
                             const struct cadre_trial *trials, int n)
{
    char *path = cadre_path_join(c->folder, "compare.ini");
    FILE *file = path ? fopen(path, "we") : NULL;
    if (file) {
        fprintf(file,
                "[run]\nextends = kit.ini\n[compare]\nbaseline = base\nperturb = no\n"
                "time = no\nequal = %s\nequal_steps = 4\n[run:base]\n",
                trials[0].settled ? "no" : "yes");
        write_sets(file, base);
    }
    for (int i = 0; file && i < n; i++)
        if (!trials[i].refused) {
            fprintf(file, "[run:%s]\n", trials[i].name);
            const struct cadre_sets sets = whole(base, &trials[i]);
            write_sets(file, &sets);
        }
    bool good = file && fclose(file) == 0;
    if (!good)
        cadre_case_host_fault(c, "cannot write a comparison");
    free(path);
    return good;
}

static const char *text_of(const json_t *run, const char *key)
{
    const char *text = json_string_value(json_object_get(run, key));
    return text ? text : "";
}

/* A run that failed says why in its own log: once more, to have its words. */
static void find_reason(struct cadre_case *c, const struct cadre_sets *base,
                        struct cadre_trial *trial, const char *failure)
{
    const struct cadre_sets sets = whole(base, trial);
    const struct cadre_training again = {.out = trial->name, .sets = &sets};
    struct cadre_trained trained;
    snprintf(trial->text, sizeof trial->text, "%s", failure);
    if (cadre_train_once(c, &again, &trained) && (!trained.ended || trained.status))
        snprintf(trial->text, sizeof trial->text, "%s%.480s",
                 trained.ended ? "" : "does not end; ", trained.text);
}

static void judge_run(struct cadre_case *c, const struct cadre_sets *base,
                      const json_t *run, struct cadre_trial *trial)
{
    bool aside = !trial->settled && *text_of(run, "equal_setting");
    const char *equal = text_of(run, aside ? "setting_equal" : "equal");
    const char *failure = text_of(run, "failure");
    trial->alike = strcmp(equal, "exact") == 0 || strcmp(equal, "within") == 0;
    if (*failure)
        find_reason(c, base, trial, failure);
    else if (aside)
        snprintf(trial->text, sizeof trial->text,
                 "with '%s' it says that it trains as the others do: %s",
                 text_of(run, "equal_setting"), text_of(run, "setting_why"));
    else
        snprintf(trial->text, sizeof trial->text, "%s", text_of(run, "why"));
    if (!trial->alike)
        cadre_case_fail(c, "%s: %s", trial->name,
                        trial->text[0] ? trial->text : "was not judged");
}

static void read_report(struct cadre_case *c, const struct cadre_sets *base,
                        struct cadre_trial *trials, int n,
                        const struct cadre_trained *trained)
{
    json_t *report;
    cadre_json_try_file(c->folder, "compared/report.json", &report, NULL);
    const json_t *runs = json_object_get(report, "runs");
    size_t at;
    const json_t *run;
    if (!runs)
        cadre_case_fail(c, "the comparison %s: %s",
                        trained->ended ? "failed" : "did not end", trained->text);
    json_array_foreach(
        runs, at, run) for (int i = 0; i < n;
                            i++) if (strcmp(text_of(run, "name"), trials[i].name) == 0)
        judge_run(c, base, run, &trials[i]);
    json_decref(report);
}

bool cadre_trials_begin(struct cadre_case *c, struct cadre_trial_table *t)
{
    memset(t, 0, sizeof *t);
    if (!cadre_subject_take(c, &t->subject))
        return false;
    cadre_subject_stack(&t->subject, 0, &t->base);
    cadre_sets_add(&t->base, "run.exact=%s", t->subject.exact ? "yes" : "no");
    return true;
}

struct cadre_trial *cadre_trials_add(struct cadre_trial_table *t, const char *name)
{
    struct cadre_trial *trial = &t->trial[t->n++];
    snprintf(trial->name, sizeof trial->name, "%s", name);
    trial->settled = t->subject.by_design;
    if (trial->settled)
        cadre_subject_equal(&t->subject, &t->base, &trial->sets);
    return trial;
}

void cadre_trials_compare(struct cadre_case *c, struct cadre_trial_table *t)
{
    const struct cadre_sets *base = &t->base;
    struct cadre_trial *trials = t->trial;
    const int n = t->n;
    const struct cadre_check_process how = {.limit_s = COMPARE_LIMIT_S};
    struct cadre_trained trained;
    int refused = 0;
    for (int i = 0; i < n; i++) {
        if (!probe(c, base, &trials[i]))
            return;
        refused += trials[i].refused;
    }
    if (refused == n) {
        cadre_case_refused(c, "%s", trials[0].text);
        return;
    }
    if (!write_comparison(c, base, trials, n))
        return;
    char *conf = cadre_path_join(c->folder, "compare.ini");
    char *out = cadre_path_join(c->folder, "compared");
    const char *argv[] = {"cadre", "compare", conf, "--out", out, NULL};
    if (out)
        cadre_file_remove_tree(out, NULL);
    if (conf && out && cadre_check_program(c, argv, &how, &trained)) {
        read_report(c, base, trials, n, &trained);
        if (!c->failing)
            cadre_case_note(c, "%d runs alike, %d refused", n - refused, refused);
    }
    free(conf);
    free(out);
}

/* ---- two runs ---- */

static bool read_run(struct cadre_case *c, const char *name, struct cadre_record *out)
{
    struct cadre_error err = {0};
    char *folder = cadre_path_join(c->folder, name);
    bool good = folder && cadre_record_read(folder, out, &err) == CADRE_OK;
    if (!good)
        cadre_case_fail(c, "the run '%s' left no whole record: %s", name, err.text);
    free(folder);
    return good;
}

static void compare_file(struct cadre_case *c, const struct cadre_record *a,
                         const struct cadre_record *b, const char *file, bool bits)
{
    struct cadre_param_diff diff = {0};
    struct cadre_error err = {0};
    char *one = cadre_record_checkpoint(a, file);
    char *other = cadre_record_checkpoint(b, file);
    if (!one || !other || (!cadre_path_exists(one) && !cadre_path_exists(other)))
        goto out;
    if (cadre_param_diff(one, other, "", &diff, &err) != CADRE_OK)
        cadre_case_fail(c, "%s: %s", file, err.text);
    else if (bits ? !diff.same_bits : !(diff.max <= 1e-3 * (diff.largest + 1e-3)))
        cadre_case_fail(c, "%s differs by %.3g, most in '%s'", file, diff.max,
                        diff.worst);
out:
    free(one);
    free(other);
}

bool cadre_runs_alike(struct cadre_case *c, const char *a, const char *b, bool bits,
                      bool states)
{
    struct cadre_record one = {0}, other = {0};
    if (read_run(c, a, &one) && read_run(c, b, &other)) {
        if (one.n != other.n)
            cadre_case_fail(c, "%s has %zu steps, %s has %zu", a, one.n, b, other.n);
        for (size_t i = 0; i < one.n && i < other.n && bits; i++)
            if (one.step[i].loss != other.step[i].loss ||
                one.step[i].grad_norm != other.step[i].grad_norm) {
                cadre_case_fail(
                    c,
                    "step %zu of %s has loss %.9g and norm %.9g, of %s %.9g "
                    "and %.9g",
                    i + 1, a, one.step[i].loss, one.step[i].grad_norm, b,
                    other.step[i].loss, other.step[i].grad_norm);
                break;
            }
        compare_file(c, &one, &other, "model.safetensors", bits);
        compare_file(c, &one, &other, "optimizer.safetensors", bits);
        if (states)
            compare_file(c, &one, &other, "strategy.safetensors", bits);
    }
    cadre_record_fini(&one);
    cadre_record_fini(&other);
    return !c->failing;
}
