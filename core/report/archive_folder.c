/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/archive_folder.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"

enum { BLOCK = 512, MOST_BYTES = 1 << 24 };

/* The head of a tar entry, as ustar has it. */
enum { NAME_BYTES = 100, MAGIC_AT = 257 };

static const char readme[] = "README.txt";

static bool is_readme(const char *text, size_t n)
{
    return n >= strlen(CADRE_ARCHIVE_HEAD) &&
           memcmp(text, CADRE_ARCHIVE_HEAD, strlen(CADRE_ARCHIVE_HEAD)) == 0;
}

/* The first bytes of a file; how many. No memory to lack: a folder would be taken for
 * another. */
static size_t read_begin(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(out, 1, size, file) : 0;
    if (file)
        fclose(file);
    return n;
}

bool cadre_archive_folder_is(const char *dir)
{
    char path[4096], begin[BLOCK] = "";
    const int n = snprintf(path, sizeof path, "%s/%s", dir, readme);
    return n > 0 && (size_t)n < sizeof path &&
           is_readme(begin, read_begin(path, begin, sizeof begin));
}

/* The folder that a packed archive unpacks to; false where it is none. */
static bool read_top(const char *path, char *top)
{
    char begin[2 * BLOCK];
    const size_t n = read_begin(path, begin, sizeof begin);
    if (n < sizeof begin || memcmp(begin + MAGIC_AT, "ustar", 5) != 0 ||
        !is_readme(begin + BLOCK, BLOCK))
        return false;
    snprintf(top, NAME_BYTES, "%.*s", NAME_BYTES - 1, begin);
    char *slash = strchr(top, '/');
    if (!slash || strcmp(slash + 1, readme) != 0)
        return false;
    *slash = '\0';
    return true;
}

bool cadre_archive_file_is(const char *path)
{
    char top[NAME_BYTES];
    return read_top(path, top);
}

void cadre_archive_file_describe(const char *path, struct cadre_text *out)
{
    char top[NAME_BYTES];
    if (read_top(path, top))
        cadre_text_printf(out,
                          "archive of runs, packed: `tar -xf %s` makes the folder "
                          "'%s', which `cadre inspect` and `cadre report` take\n",
                          path, top);
}

/* ---- the folder ---- */

/* Who wrote it, from the README's first line. */
static cadre_status put_writer(const char *dir, struct cadre_text *out,
                               struct cadre_error *err)
{
    char *path = cadre_path_join(dir, readme), *text = NULL;
    size_t bytes = 0;
    if (!path)
        return cadre_no_memory(err, "a path");
    cadre_status rc = cadre_path_read_file(path, MOST_BYTES, &text, &bytes, err);
    free(path);
    if (rc != CADRE_OK)
        return rc;
    const char *writer = text + strlen(CADRE_ARCHIVE_HEAD);
    size_t n = strcspn(writer, "\n");
    n -= n > 0 && writer[n - 1] == '.';
    cadre_text_printf(out, ", written by %.*s\n", (int)n, writer);
    free(text);
    return CADRE_OK;
}

static void put_comparison(const char *dir, struct cadre_text *out)
{
    glob_t found = {0};
    char *pattern = cadre_path_join(dir, "certificate-*.json");
    const int is = pattern ? glob(pattern, 0, NULL, &found) : GLOB_NOSPACE;
    out->failed = out->failed || is == GLOB_NOSPACE;
    cadre_text_printf(out,
                      "  %s: a comparison's report and %zu certificate%s; `cadre "
                      "inspect %s` checks them\n",
                      cadre_path_basename(dir), found.gl_pathc,
                      found.gl_pathc == 1 ? "" : "s", dir);
    if (is == 0)
        globfree(&found);
    free(pattern);
}

static void put_run(const struct cadre_runs *runs, size_t i, struct cadre_text *out)
{
    const struct cadre_run_data *run = runs->run[i];
    char state[128];
    const char *stack = cadre_run_data_option(run, "strategy.stack");
    cadre_text_printf(out, "  runs/%s: %s, %s\n", cadre_path_basename(run->dir),
                      stack ? stack : "strategy not known",
                      cadre_run_data_state(run, state, sizeof state));
}

cadre_status cadre_archive_folder_describe(const char *dir, struct cadre_text *out,
                                           struct cadre_error *err)
{
    struct cadre_runs runs = {0};
    char *given[] = {(char *)(uintptr_t)dir};
    char *report = cadre_path_join(dir, "report/report.html");
    cadre_status rc =
        report ? cadre_runs_read(given, 1, &runs, err) : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK) {
        cadre_text_printf(out, "archive of %zu run%s", runs.n, runs.n == 1 ? "" : "s");
        rc = put_writer(dir, out, err);
    }
    if (rc == CADRE_OK && cadre_path_exists(report))
        cadre_text_printf(out, "  report: the report on them, report.html to read\n");
    for (size_t i = 0; rc == CADRE_OK && i < runs.n_comparisons; i++)
        put_comparison(runs.comparison[i], out);
    for (size_t i = 0; rc == CADRE_OK && i < runs.n; i++)
        put_run(&runs, i, out);
    if (rc == CADRE_OK)
        cadre_text_printf(out,
                          "  no checkpoints and no traces; `cadre report %s` makes a "
                          "page and tables of the runs\n",
                          dir);
    cadre_runs_fini(&runs);
    free(report);
    return rc;
}
