/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/runs_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/path.h"
#include "core/base/terminal.h"
#include "core/report/archive.h"
#include "core/report/run_page.h"
#include "core/report/runs.h"
#include "core/run/outdir.h"

enum { REPORT_LIMIT = 1 << 28 };

static const char DEFAULT_OUT[] = "report";

/* A run's page says who wrote it. */
static bool is_run_page(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    const bool is =
        cadre_path_read_file(path, REPORT_LIMIT, &text, &bytes, NULL) == CADRE_OK &&
        strstr(text, "<dt>page written by</dt><dd>cadre ");
    free(text);
    return is;
}

/* Without a report.json the other files that a report has are somebody's own. */
static cadre_status refuse_foreign(const char *dir, bool single,
                                   struct cadre_error *err)
{
    static const char *const written[] = {"run.html", "report.html", "report.md",
                                          "report.csv"};
    cadre_status rc = CADRE_OK;
    for (size_t i = single ? 0 : 1; i < (single ? 1 : 4) && rc == CADRE_OK; i++) {
        char *path = cadre_path_join(dir, written[i]);
        if (!path)
            return cadre_no_memory(err, "a path");
        if (cadre_path_exists(path) && !(single && is_run_page(path)))
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "--out: '%s' is no file of a report, which would replace "
                            "it; choose another folder",
                            path);
        free(path);
    }
    return rc;
}

/* Does DIR hold the report of a comparison, or another file, which must not be
 * replaced? */
static cadre_status refuse_other(const char *dir, struct cadre_error *err)
{
    char *path = cadre_path_join(dir, "report.json"), *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    cadre_status rc = path ? CADRE_OK : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && cadre_path_exists(path)) {
        rc = cadre_path_read_file(path, REPORT_LIMIT, &text, &bytes, err);
        if (rc == CADRE_OK)
            rc = cadre_json_try(text, bytes, 0, path, &root, err);
        const char *kind = json_string_value(json_object_get(root, "kind"));
        if (rc == CADRE_OK && (!kind || strcmp(kind, CADRE_RUNS_KIND) != 0))
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "'%s' is of another report, such as a comparison's: choose "
                            "another --out",
                            path);
    } else if (rc == CADRE_OK) {
        rc = refuse_foreign(dir, false, err);
        if (rc == CADRE_OK)
            rc = cadre_outdir_check(dir, CADRE_OUTDIR_REPORT, err);
    }
    json_decref(root);
    free(text);
    free(path);
    return rc;
}

/* Is DIR another run's folder, whose page must not be replaced, or one of others? The
 * run's own may hold what it likes. */
static cadre_status refuse_other_run(const struct cadre_run_data *run, const char *dir,
                                     struct cadre_error *err)
{
    if (!cadre_run_data_is_run(dir)) {
        CADRE_TRY(cadre_outdir_check(dir, CADRE_OUTDIR_REPORT, err));
        return refuse_foreign(dir, true, err);
    }
    char *mine = realpath(run->dir, NULL), *there = realpath(dir, NULL);
    const int why = errno;
    const bool known = mine && there, other = known && strcmp(mine, there) != 0;
    free(mine);
    free(there);
    if (!known)
        return cadre_fail_errno(err, CADRE_E_IO, why,
                                "cannot tell whether --out '%s' is the folder of '%s'",
                                dir, run->dir);
    return other ? cadre_fail(err, CADRE_E_INVALID,
                              "--out: '%s' is the folder of another run than '%s', "
                              "whose run.html would be replaced: choose another one",
                              dir, run->dir)
                 : CADRE_OK;
}

static cadre_status
write_form(const struct cadre_runs *runs, const char *dir, const char *name,
           void (*form)(const struct cadre_runs *, struct cadre_text *),
           struct cadre_error *err)
{
    struct cadre_text text = {0};
    char *path = cadre_path_join(dir, name);
    form(runs, &text);
    cadre_status rc =
        path && !text.failed
            ? cadre_path_write_file(path, cadre_text_str(&text), text.len, err)
            : cadre_no_memory(err, "%s", name);
    cadre_text_fini(&text);
    free(path);
    return rc;
}

static cadre_status write_report(struct cadre_runs *runs, const char *dir,
                                 struct cadre_error *err)
{
    runs->folder = realpath(dir, NULL);
    CADRE_TRY(write_form(runs, dir, "report.json", cadre_runs_json, err));
    CADRE_TRY(write_form(runs, dir, "report.csv", cadre_runs_csv, err));
    CADRE_TRY(write_form(runs, dir, "report.md", cadre_runs_markdown, err));
    return write_form(runs, dir, "report.html", cadre_runs_page, err);
}

/* The user named the folder, or it is the run's. */
static cadre_status make_out(const char *dir, struct cadre_error *err)
{
    if (cadre_path_make_dirs(dir, err) == CADRE_OK)
        return CADRE_OK;
    cadre_error_prefix(err, "--out");
    return CADRE_E_INVALID;
}

static cadre_status write_files(struct cadre_runs *runs,
                                const struct cadre_runs_report_request *request,
                                const char *out, struct cadre_error *err)
{
    const bool single = runs->n == 1;
    CADRE_TRY(single ? refuse_other_run(runs->run[0], out, err)
                     : refuse_other(out, err));
    CADRE_TRY(make_out(out, err));
    cadre_status rc = single ? cadre_run_page_save(runs->run[0], out, err)
                             : write_report(runs, out, err);
    if (rc == CADRE_E_IO && !request->out)
        cadre_error_prefix(err, "give --out DIR to write elsewhere");
    if (rc == CADRE_OK && request->archive)
        rc = cadre_archive_write(runs, single ? NULL : out, request->archive, err);
    return rc;
}

static cadre_status print_json(const struct cadre_runs *runs, FILE *to,
                               struct cadre_error *err)
{
    struct cadre_text text = {0};
    cadre_runs_json(runs, &text);
    const bool bad = text.failed || fputs(cadre_text_str(&text), to) < 0;
    cadre_text_fini(&text);
    return bad ? cadre_fail(err, CADRE_E_IO, "cannot print the figures as JSON")
               : CADRE_OK;
}

static cadre_status print(const struct cadre_runs *runs,
                          const struct cadre_runs_report_request *request,
                          const char *out, FILE *to, struct cadre_error *err)
{
    struct cadre_text table = {0}, where = {0};
    cadre_runs_table(runs, cadre_terminal_columns(fileno(to)), &table);
    cadre_text_printf(&where, "%s/%s", out,
                      runs->n == 1 ? "run.html"
                                   : "report.html, report.md, report.csv, report.json");
    bool bad = table.failed || where.failed || fputs(cadre_text_str(&table), to) < 0 ||
               !cadre_terminal_write(to, runs->n == 1 ? "Page: " : "Report: ",
                                     runs->n == 1 ? 6 : 8, cadre_text_str(&where));
    if (request->archive)
        bad = !cadre_terminal_write(to, "Archive: ", 9, request->archive) || bad;
    cadre_text_fini(&where);
    cadre_text_fini(&table);
    return bad ? cadre_fail(err, CADRE_E_IO,
                            "cannot print the table; the report is '%s'", out)
               : CADRE_OK;
}

cadre_status cadre_runs_report(const struct cadre_runs_report_request *request,
                               FILE *to, struct cadre_error *err)
{
    struct cadre_runs runs = {0};
    if (request->archive)
        CADRE_TRY(cadre_archive_check_name(request->archive, err));
    cadre_status rc = cadre_runs_read(request->dir, request->n, &runs, err);
    if (rc == CADRE_OK) {
        const char *own = runs.n == 1 ? runs.run[0]->dir : DEFAULT_OUT;
        const char *out = request->out ? request->out : own;
        runs.command = request->command;
        rc = write_files(&runs, request, out, err);
        if (rc == CADRE_OK)
            rc = request->json ? print_json(&runs, to, err)
                               : print(&runs, request, out, to, err);
    }
    cadre_runs_fini(&runs);
    return rc;
}
