/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/outdir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/options.h"

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Files that only a run or a comparison leaves, or a report. */
static bool is_ours(const char *name, enum cadre_outdir_use use)
{
    static const char *const of_a_report[] = {"report.json", "run.html"};
    static const char *const names[] = {
        "config.ini",    "metrics.jsonl",  "summary.json",
        "restarts.json", "recuts.json",    "instances.json",
        "bench.json",    "comparison.ini", "report.json",
    };
    return use == CADRE_OUTDIR_REPORT
               ? is_one_of(name, of_a_report, 2)
               : is_one_of(name, names, sizeof names / sizeof names[0]);
}

/* Batch systems and shells put a job's output beside its results. */
static bool is_log(const char *name)
{
    static const char *const ends[] = {".log", ".out", ".err"};
    const char *dot = strrchr(name, '.');
    return dot && is_one_of(dot, ends, sizeof ends / sizeof ends[0]);
}

/* Is there anything in it? Of what cannot be read, nothing is known. */
static bool is_empty_folder(const char *dir, const char *name)
{
    char *path = cadre_path_join(dir, name);
    DIR *open = path && cadre_path_is_dir(path) ? opendir(path) : NULL;
    bool empty = open != NULL;
    for (struct dirent *entry; open && empty && (entry = readdir(open));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (open)
        closedir(open);
    free(path);
    return empty;
}

static cadre_status begins_as_ours(const char *path, bool *ours,
                                   struct cadre_error *err)
{
    static const char begin[] = CADRE_OPTIONS_HEAD;
    char line[sizeof begin] = "";
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(line, 1, sizeof begin - 1, file) : 0;
    const int why = file && !ferror(file) ? 0 : errno;
    const int failed = why == EISDIR ? 0 : why; /* a folder is not ours */
    if (file)
        fclose(file);
    *ours = n == sizeof begin - 1 && memcmp(line, begin, n) == 0;
    return failed ? cadre_fail_errno(err, CADRE_E_IO, failed, "--out: cannot read '%s'",
                                     path)
                  : CADRE_OK;
}

/* A run would replace it. */
static cadre_status check_config(const char *dir, struct cadre_error *err)
{
    char *path = cadre_path_join(dir, "config.ini");
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    bool ours = true;
    if (rc == CADRE_OK && cadre_path_exists(path))
        rc = begins_as_ours(path, &ours, err);
    if (rc == CADRE_OK && !ours)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "--out: '%s' is no file of a run, which would replace it; "
                        "choose another folder",
                        path);
    free(path);
    return rc;
}

/* The first file there that only a run, or only a comparison, leaves. */
static const char *mark_of(const char *dir, enum cadre_outdir_use use)
{
    static const char *const of_a_run[] = {"metrics.jsonl", "summary.json",
                                           "checkpoints",   "instances.json",
                                           "restarts.json", NULL};
    static const char *const of_a_comparison[] = {"comparison.ini", NULL};
    static const char *const of_a_report[] = {"report.json", NULL};
    const char *const *mark = use == CADRE_OUTDIR_RUN          ? of_a_run
                              : use == CADRE_OUTDIR_COMPARISON ? of_a_comparison
                                                               : of_a_report;
    while (*mark && !cadre_path_has(dir, *mark))
        mark++;
    return *mark;
}

/* Their files would lie among each other, some under the same names. */
static cadre_status check_use(const char *dir, enum cadre_outdir_use use,
                              struct cadre_error *err)
{
    static const char *const name[] = {"run", "comparison", "report"};
    const bool run = use == CADRE_OUTDIR_RUN;
    const char *other = mark_of(dir, run ? CADRE_OUTDIR_COMPARISON : CADRE_OUTDIR_RUN);
    if (!other || mark_of(dir, use))
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "--out: the folder '%s' holds a %s (%s), and this is a %s: choose "
        "another one",
        dir, run ? "comparison" : "run", other, name[use]);
}

cadre_status cadre_outdir_check(const char *dir, enum cadre_outdir_use use,
                                struct cadre_error *err)
{
    char foreign[256] = "";
    bool ours = false;
    const bool report = use == CADRE_OUTDIR_REPORT;
    if (!report)
        CADRE_TRY(check_config(dir, err));
    CADRE_TRY(check_use(dir, use, err));
    DIR *open = opendir(dir);
    if (!open) /* not there yet, or told by who makes it */
        return CADRE_OK;
    for (struct dirent *entry; (entry = readdir(open));) {
        const char *name = entry->d_name;
        ours = ours || is_ours(name, use);
        if (name[0] != '.' && !is_log(name) && !is_empty_folder(dir, name) &&
            !is_ours(name, use))
            snprintf(foreign, sizeof foreign, "%s", name);
    }
    closedir(open);
    if (ours || !foreign[0])
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "--out: the folder '%s' holds other files ('%s'); expected a new "
                      "or empty folder, or %s: choose another one, such as '%s/%s'",
                      dir, foreign, report ? "one with a report" : "a run's own", dir,
                      report ? "report" : "run");
}
