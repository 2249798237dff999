/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/runs.h"
#include "core/base/json_read.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/path.h"
#include "core/report/archive_folder.h"

enum { MOST_RUNS = 256 };

/* ---- folders ---- */

static cadre_status refuse_twice(const struct cadre_runs *runs, const char *dir,
                                 struct cadre_error *err)
{
    char *real = realpath(dir, NULL);
    bool twice = false;
    for (size_t i = 0; real && i < runs->n; i++) {
        char *other = realpath(runs->run[i]->dir, NULL);
        twice = twice || (other && strcmp(real, other) == 0);
        free(other);
    }
    free(real);
    return twice ? cadre_fail(err, CADRE_E_INVALID,
                              "'%s' is given twice: name each run once", dir)
                 : CADRE_OK;
}

static cadre_status add_run(struct cadre_runs *runs, const char *dir,
                            struct cadre_error *err)
{
    CADRE_TRY(refuse_twice(runs, dir, err));
    if (runs->n == MOST_RUNS)
        return cadre_fail(err, CADRE_E_INVALID,
                          "these are more than %d runs: report on fewer at once",
                          MOST_RUNS);
    void *grown = cadre_realloc(runs->run, runs->n + 1, sizeof *runs->run);
    if (!grown)
        return cadre_no_memory(err, "the runs");
    runs->run = grown;
    struct cadre_run_data *data = cadre_calloc(1, sizeof *data);
    if (!data)
        return cadre_no_memory(err, "a run");
    runs->run[runs->n++] = data;
    return cadre_run_data_read(dir, data, err);
}

/* Folders beside each other by number where their names end in one. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

/* Runs with other rounding, "one:reordered", are no runs of the user's. */
static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, ':');
}

/* Every run in a folder whose name begins with `prefix`; *found counts them. */
static cadre_status add_inside(struct cadre_runs *runs, const char *dir,
                               const char *prefix, size_t *found,
                               struct cadre_error *err)
{
    struct dirent **entries = NULL;
    cadre_status rc = CADRE_OK;
    int n = scandir(dir, &entries, is_visible, by_name);
    for (int i = 0; i < n; i++) {
        char *path = cadre_path_join(dir, entries[i]->d_name);
        bool wanted = strncmp(entries[i]->d_name, prefix, strlen(prefix)) == 0;
        if (rc == CADRE_OK && !path)
            rc = cadre_no_memory(err, "a path");
        if (rc == CADRE_OK && wanted && cadre_run_data_is_run(path)) {
            rc = add_run(runs, path, err);
            ++*found;
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

/* Where a comparison's report has the run: 0 its baseline, then as they stand there. */
static size_t place_of(const json_t *report, const struct cadre_run_data *run)
{
    const char *mine = cadre_path_basename(run->dir);
    const char *base = json_string_value(json_object_get(report, "baseline"));
    const json_t *list = json_object_get(report, "runs");
    if (base && strcmp(base, mine) == 0)
        return 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name =
            json_string_value(json_object_get(json_array_get(list, i), "name"));
        if (name && strcmp(name, mine) == 0)
            return i + 1;
    }
    return SIZE_MAX;
}

/* Runs from `first` on as the comparison in `dir` shows them; others stay behind. */
static void order_as_compared(struct cadre_runs *runs, size_t first, const char *dir)
{
    json_t *report;
    cadre_json_try_file(dir, "report.json", &report, NULL);
    for (size_t i = first + 1; report && i < runs->n; i++) {
        struct cadre_run_data *run = runs->run[i];
        const size_t place = place_of(report, run);
        size_t at = i;
        for (; at > first && place_of(report, runs->run[at - 1]) > place; at--)
            runs->run[at] = runs->run[at - 1];
        runs->run[at] = run;
    }
    json_decref(report);
}

static cadre_status note_comparison(struct cadre_runs *runs, const char *dir,
                                    struct cadre_error *err)
{
    void *grown = cadre_realloc(runs->comparison, runs->n_comparisons + 1,
                                sizeof *runs->comparison);
    if (grown)
        runs->comparison = grown;
    char *copy = grown ? cadre_strdup(dir) : NULL;
    if (!copy)
        return cadre_no_memory(err, "a path");
    runs->comparison[runs->n_comparisons++] = copy;
    return CADRE_OK;
}

/* The comparisons of an archive, in the order of their numbers. */
static cadre_status note_archived(struct cadre_runs *runs, const char *dir,
                                  struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    bool there = true;
    for (int k = 1; there && rc == CADRE_OK; k++) {
        char *path = cadre_format("%s/comparison-%d", dir, k);
        if (!path)
            return cadre_no_memory(err, "a path");
        there = cadre_path_is_dir(path);
        if (there)
            rc = note_comparison(runs, path, err);
        free(path);
    }
    return rc;
}

/* What an archive (archive.h) unpacks to. Its runs are "K-NAME". */
static cadre_status add_archive(struct cadre_runs *runs, const char *dir,
                                struct cadre_error *err)
{
    const size_t first = runs->n;
    size_t found = 0;
    char *inside = cadre_path_join(dir, "runs");
    cadre_status rc = inside ? add_inside(runs, inside, "", &found, err)
                             : cadre_no_memory(err, "a path");
    free(inside);
    if (rc == CADRE_OK && found == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is an archive of runs without runs/: unpack it again",
                          dir);
    for (size_t i = first; i < runs->n; i++) {
        const char *name = runs->run[i]->folder;
        const char *behind = name + strspn(name, "0123456789");
        if (behind > name && behind[0] == '-' && behind[1])
            runs->run[i]->folder = behind + 1;
    }
    return rc == CADRE_OK ? note_archived(runs, dir, err) : rc;
}

/* A run, the instances of independent runs, the runs of an archive or of a comparison.
 */
static cadre_status add_folder(struct cadre_runs *runs, const char *dir,
                               struct cadre_error *err)
{
    const size_t first = runs->n;
    size_t found = 0;
    cadre_status rc;
    if (cadre_run_data_is_run(dir))
        return add_run(runs, dir, err);
    if (cadre_archive_folder_is(dir))
        return add_archive(runs, dir, err);
    if (cadre_archive_file_is(dir))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is a packed archive of runs: unpack it by `tar -xf`, "
                          "and name the folder that this makes",
                          dir);
    rc = add_inside(runs, dir, "instance-", &found, err);
    if (rc != CADRE_OK || found > 0)
        return rc;
    char *inside = cadre_path_join(dir, "runs");
    rc = inside ? add_inside(runs, inside, "", &found, err)
                : cadre_no_memory(err, "a path");
    free(inside);
    if (rc == CADRE_OK && found > 0) {
        order_as_compared(runs, first, dir);
        return note_comparison(runs, dir, err);
    }
    if (rc == CADRE_OK)
        rc =
            cadre_fail(err, CADRE_E_INVALID,
                       "'%s' is no run: expected a folder with metrics.jsonl or "
                       "summary.json, as cadre train leaves it, or one of a comparison",
                       dir);
    return rc;
}

/* ---- names ---- */

/* What a run is called: by its summary, by its folder, by the whole path. */
enum naming { BY_NAME, BY_FOLDER, BY_PATH };

static const char *called(const struct cadre_run_data *run, enum naming how)
{
    return how == BY_NAME ? run->name : how == BY_FOLDER ? run->folder : run->dir;
}

static bool tells_apart(const struct cadre_runs *runs, enum naming how)
{
    for (size_t i = 0; i < runs->n; i++) {
        const char *mine = called(runs->run[i], how);
        for (size_t k = 0; k < i; k++)
            if (strcmp(called(runs->run[k], how), mine) == 0)
                return false;
        if (!*mine)
            return false;
    }
    return true;
}

static cadre_status name_runs(struct cadre_runs *runs, struct cadre_error *err)
{
    enum naming how = tells_apart(runs, BY_NAME)     ? BY_NAME
                      : tells_apart(runs, BY_FOLDER) ? BY_FOLDER
                                                     : BY_PATH;
    runs->name = cadre_calloc(runs->n, sizeof *runs->name);
    bool failed = !runs->name;
    for (size_t i = 0; !failed && i < runs->n; i++) {
        runs->name[i] = cadre_strdup(called(runs->run[i], how));
        failed = !runs->name[i];
    }
    return failed ? cadre_no_memory(err, "names") : CADRE_OK;
}

cadre_status cadre_runs_read(char *const *dir, size_t n, struct cadre_runs *runs,
                             struct cadre_error *err)
{
    *runs = (struct cadre_runs){0};
    for (size_t i = 0; i < n; i++)
        CADRE_TRY(add_folder(runs, dir[i], err));
    CADRE_TRY(name_runs(runs, err));
    cadre_options_diff_fill(&runs->diff,
                            (const struct cadre_run_data *const *)runs->run, runs->n);
    return runs->diff.failed ? cadre_no_memory(err, "the options") : CADRE_OK;
}

void cadre_runs_fini(struct cadre_runs *runs)
{
    for (size_t i = 0; i < runs->n; i++) {
        if (runs->name)
            free(runs->name[i]);
        cadre_run_data_fini(runs->run[i]);
        free(runs->run[i]);
    }
    for (size_t i = 0; i < runs->n_comparisons; i++)
        free(runs->comparison[i]);
    cadre_options_diff_fini(&runs->diff);
    free(runs->comparison);
    free(runs->folder);
    free(runs->name);
    free(runs->run);
    *runs = (struct cadre_runs){0};
}

/* ---- notes ---- */

bool cadre_runs_same_training(const struct cadre_runs *runs, size_t i)
{
    char why[64];
    return i == 0 || cadre_options_diff_same_training(runs->run[0], runs->run[i], why,
                                                      sizeof why);
}

static void note_state(const struct cadre_runs *runs, size_t i, struct cadre_text *out)
{
    const struct cadre_run_data *run = runs->run[i];
    char state[128];
    if (!cadre_run_data_finished(run))
        cadre_text_printf(out, "%s is not complete: %s%s%s.\n", runs->name[i],
                          cadre_run_data_state(run, state, sizeof state),
                          *run->end.why ? ": " : "", run->end.why);
    if (run->unread)
        cadre_text_printf(out,
                          "%s: %zu line%s of metrics.jsonl %s no step and left out.\n",
                          runs->name[i], run->unread, run->unread == 1 ? "" : "s",
                          run->unread == 1 ? "is" : "are");
}

/* Summaries say which version wrote them since 0.2. */
static void note_version(const struct cadre_runs *runs, size_t i,
                         struct cadre_text *out)
{
    const char *build = cadre_run_data_text(runs->run[i], NULL, "build");
    if (build && strcmp(build, PACKAGE_STRING) != 0)
        cadre_text_printf(out, "%s was made by %s, and this report by %s.\n",
                          runs->name[i], build, PACKAGE_STRING);
}

static void note_training(const struct cadre_runs *runs, size_t i,
                          struct cadre_text *out)
{
    char why[512];
    if (i > 0 &&
        !cadre_options_diff_same_training(runs->run[0], runs->run[i], why, sizeof why))
        cadre_text_printf(out, "%s is another training than %s, by %s.\n",
                          runs->name[i], runs->name[0], why);
}

static void note_machine(const struct cadre_runs *runs, size_t i,
                         struct cadre_text *out)
{
    char mine[256], first[256];
    cadre_run_data_machine(runs->run[i], mine, sizeof mine);
    cadre_run_data_machine(runs->run[0], first, sizeof first);
    const bool known = strcmp(mine, "-") != 0 && strcmp(first, "-") != 0;
    if (known && strcmp(mine, first) != 0)
        cadre_text_printf(out, "%s ran on another machine than %s: %s.\n",
                          runs->name[i], runs->name[0], mine);
}

void cadre_runs_notes(const struct cadre_runs *runs, struct cadre_text *out)
{
    for (size_t i = 0; i < runs->n; i++) {
        note_state(runs, i, out);
        note_version(runs, i, out);
        note_machine(runs, i, out);
        note_training(runs, i, out);
    }
}
