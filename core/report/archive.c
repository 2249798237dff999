/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/archive.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/path.h"
#include "core/page/build.h"
#include "core/report/archive_folder.h"
#include "core/report/tar.h"

enum { NAME_CHARS = 60 };

struct archive {
    const struct cadre_runs *runs;
    char top[NAME_CHARS + 1]; /* the folder that it unpacks to */
    struct cadre_tar tar;
};

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

cadre_status cadre_archive_check_name(const char *path, struct cadre_error *err)
{
    const char *base = cadre_path_basename(path);
    if (ends_in(base, ".tar"))
        return CADRE_OK;
    if (ends_in(base, ".gz") || ends_in(base, ".tgz") || ends_in(base, ".xz") ||
        ends_in(base, ".bz2") || ends_in(base, ".zst"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--archive %s: Cadre writes archives without compression; "
                          "name it .tar, and compress it afterwards, as by gzip",
                          path);
    return cadre_fail(err, CADRE_E_INVALID,
                      "--archive %s: expected a name that ends in .tar", path);
}

/* A name as part of a path: letters, digits and . _ + - are kept. */
static void put_part(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (; *name && n + 1 < size; name++) {
        bool kept = isalnum((unsigned char)*name) || strchr("_+-", *name) ||
                    (*name == '.' && n > 0);
        out[n++] = kept ? *name : '_';
    }
    out[n] = 0;
}

/* ---- folders ---- */

static int is_taken(const struct dirent *entry)
{
    static const char *const ends[] = {".ini", ".json", ".jsonl",
                                       ".csv", ".md",   ".html"};
    if (entry->d_name[0] == '.' || strncmp(entry->d_name, "trace", 5) == 0)
        return 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_in(entry->d_name, ends[i]))
            return 1;
    return 0;
}

/* By bytes, whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static cadre_status add_file(struct archive *archive, const char *dir,
                             const char *inside, const char *file,
                             struct cadre_error *err)
{
    struct stat info;
    char *from = cadre_path_join(dir, file);
    char *name = cadre_format("%s/%s/%s", archive->top, inside, file);
    cadre_status rc = CADRE_OK;
    if (!from || !name)
        rc = cadre_no_memory(err, "a path");
    else if (lstat(from, &info) == 0 && S_ISREG(info.st_mode))
        rc = cadre_tar_add_file(&archive->tar, name, from, err);
    free(from);
    free(name);
    return rc;
}

static cadre_status add_folder(struct archive *archive, const char *dir,
                               const char *inside, struct cadre_error *err)
{
    struct dirent **entries = NULL;
    cadre_status rc = CADRE_OK;
    int n = scandir(dir, &entries, is_taken, by_name);
    for (int i = 0; i < n; i++) {
        if (rc == CADRE_OK)
            rc = add_file(archive, dir, inside, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

/* ---- README.txt ---- */

static void put_run(const struct cadre_runs *runs, size_t i, struct cadre_text *out)
{
    const struct cadre_run_data *run = runs->run[i];
    char part[NAME_CHARS + 1], machine[256], state[128];
    const char *build = cadre_run_data_text(run, NULL, "build");
    const char *stack = cadre_run_data_option(run, "strategy.stack");
    put_part(runs->name[i], part, sizeof part);
    cadre_text_printf(out,
                      "runs/%zu-%s/\n    run:      %s\n    strategy: %s\n    state:    "
                      "%s\n    machine:  %s\n    version:  %s\n",
                      i + 1, part, runs->name[i], stack ? stack : "not known",
                      cadre_run_data_state(run, state, sizeof state),
                      cadre_run_data_machine(run, machine, sizeof machine),
                      build ? build : "not known: its summary.json does not say");
}

static void put_readme(const struct archive *archive, bool report,
                       struct cadre_text *out)
{
    const struct cadre_runs *runs = archive->runs;
    cadre_text_printf(out, CADRE_ARCHIVE_HEAD "%s.\n\n", cadre_page_build());
    if (report)
        cadre_text_printf(out, "report/          the report on these runs: report.html "
                               "to read, .json, .csv and .md\n");
    for (size_t i = 0; i < runs->n_comparisons; i++)
        cadre_text_printf(out,
                          "comparison-%zu/    a comparison's report, its certificates "
                          "and every timed piece (pieces.jsonl)\n",
                          i + 1);
    cadre_text_printf(out,
                      "runs/K-NAME/     a run:\n"
                      "  config.ini     every option; trains the same again\n"
                      "  summary.json   its figures, machine, memory by kind\n"
                      "  metrics.jsonl  a line a step: losses, times, learning rate\n"
                      "  bench.json     of a benchmark: the times of its windows\n"
                      "  passes.json    of a pipeline: the passes of one step\n"
                      "  run.html       the run on a page\n"
                      "Checkpoints and traces are not in it.\n\n");
    for (size_t i = 0; i < runs->n; i++)
        put_run(runs, i, out);
}

/* With the time of the first run's steps, so that it is the same again. */
static cadre_status add_readme(struct archive *archive, bool report,
                               struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct stat info = {0};
    char *name = cadre_format("%s/README.txt", archive->top);
    char *first = cadre_path_join(archive->runs->run[0]->dir, "metrics.jsonl");
    if (!first || stat(first, &info) != 0)
        info.st_mtime = 0;
    put_readme(archive, report, &text);
    cadre_status rc =
        name && !text.failed
            ? cadre_tar_add_text(&archive->tar, name, cadre_text_str(&text), text.len,
                                 info.st_mtime, err)
            : cadre_no_memory(err, "README.txt");
    cadre_text_fini(&text);
    free(first);
    free(name);
    return rc;
}

/* ---- the whole ---- */

static cadre_status add_all(struct archive *archive, const char *report,
                            struct cadre_error *err)
{
    const struct cadre_runs *runs = archive->runs;
    char inside[NAME_CHARS + 32], part[NAME_CHARS + 1];
    CADRE_TRY(add_readme(archive, report != NULL, err));
    if (report)
        CADRE_TRY(add_folder(archive, report, "report", err));
    for (size_t i = 0; i < runs->n_comparisons; i++) {
        snprintf(inside, sizeof inside, "comparison-%zu", i + 1);
        CADRE_TRY(add_folder(archive, runs->comparison[i], inside, err));
    }
    for (size_t i = 0; i < runs->n; i++) {
        put_part(runs->name[i], part, sizeof part);
        snprintf(inside, sizeof inside, "runs/%zu-%s", i + 1, part);
        CADRE_TRY(add_folder(archive, runs->run[i]->dir, inside, err));
    }
    return CADRE_OK;
}

cadre_status cadre_archive_write(const struct cadre_runs *runs, const char *report,
                                 const char *path, struct cadre_error *err)
{
    struct archive archive = {.runs = runs};
    put_part(cadre_path_basename(path), archive.top, sizeof archive.top);
    if (ends_in(archive.top, ".tar"))
        archive.top[strlen(archive.top) - strlen(".tar")] = 0;
    CADRE_TRY(cadre_tar_open(path, &archive.tar, err));
    cadre_status rc = add_all(&archive, report, err);
    if (rc == CADRE_OK)
        return cadre_tar_close(&archive.tar, err);
    cadre_tar_discard(&archive.tar);
    return rc;
}
