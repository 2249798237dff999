/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/check.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/check/catalogue.h"
#include "core/check/groups/groups.h"
#include "core/check/record.h"
#include "core/check/report.h"
#include "core/check/runner.h"
#include "core/check/waivers.h"
#include "core/checkpoint/format/file.h"

#define QUICK_LIMIT_S 10.0

/* ---- what was asked ---- */

static cadre_status take_number(const char *flag, const char *text, uint64_t *out,
                                struct cadre_error *err)
{
    char *end = NULL;
    if (!text)
        return CADRE_OK;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (errno || end == text || *end || !isdigit((unsigned char)*text))
        return cadre_fail(err, CADRE_E_INVALID, "%s %s: expected a whole number", flag,
                          text);
    return CADRE_OK;
}

/* "90s", "10m", "1h". */
static cadre_status take_time(const char *text, double *out, struct cadre_error *err)
{
    char *end = NULL;
    if (!text)
        return CADRE_OK;
    *out = strtod(text, &end);
    double unit = strcmp(end, "s") == 0   ? 1
                  : strcmp(end, "m") == 0 ? 60
                  : strcmp(end, "h") == 0 ? 3600
                                          : 0;
    *out *= unit;
    if (end == text || !(*out > 0 && *out <= 7 * 86400.0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--fuzz %s: expected a time, such as 90s, 10m or 1h", text);
    return CADRE_OK;
}

/* Before minutes of checks, not after them. */
static cadre_status check_writable(const char *path, struct cadre_error *err)
{
    char *dir = path ? cadre_path_dirname(path) : NULL;
    cadre_status rc = CADRE_OK;
    if (path && !dir)
        return cadre_no_memory(err, "the path '%s'", path);
    if (path && cadre_path_is_dir(path))
        rc = cadre_fail(err, CADRE_E_IO, "cannot write '%s': it is a folder", path);
    else if (path && access(dir, W_OK) != 0)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", path);
    free(dir);
    return rc;
}

struct asked {
    struct cadre_check_results results;
    struct cadre_waivers waivers;
    double fuzz_s;
    uint64_t seed;
};

static cadre_status take_request(const struct cadre_check_request *request,
                                 struct asked *asked, struct cadre_error *err)
{
    char path[4096];
    bool *chosen;
    const char *only = request->only;
    asked->seed = CADRE_CHECK_SEED;
    CADRE_TRY(take_number("--seed", request->seed, &asked->seed, err));
    CADRE_TRY(take_number("--reproduce", request->reproduce, &asked->seed, err));
    CADRE_TRY(take_time(request->fuzz, &asked->fuzz_s, err));
    CADRE_TRY(check_writable(request->json, err));
    CADRE_TRY(check_writable(request->junit, err));
    CADRE_TRY(check_writable(request->html, err));
    /* a plugin that is not there is wrong input, not a failed check */
    CADRE_TRY(cadre_check_find(request->plugin, path, sizeof path, err));
    if (request->waive)
        CADRE_TRY(cadre_waivers_read(request->waive, &asked->waivers, err));
    CADRE_TRY(
        cadre_check_results_init(&asked->results, request->plugin, asked->seed, err));
    asked->results.quick = request->quick;
    chosen = cadre_calloc(asked->results.n, sizeof *chosen);
    if (!chosen)
        return cadre_no_memory(err, "the checks");
    /* who fuzzes, or repeats a trial, asks for nothing else */
    if (!only && (request->fuzz || request->reproduce))
        only = "fuzz";
    cadre_status rc = cadre_catalogue_choose(only, request->quick, chosen, err);
    for (size_t i = 0; i < asked->results.n; i++)
        asked->results.result[i].chosen = chosen[i];
    free(chosen);
    return rc;
}

/* ---- one check, in this process ---- */

static cadre_status run_case(const struct cadre_check_request *request,
                             struct cadre_error *err)
{
    struct cadre_case c = {
        .check = cadre_catalogue_find(request->one_case),
        .plugin = request->plugin,
        .folder = request->folder,
        .seed = CADRE_CHECK_SEED,
        .quick = request->quick,
        .reproduce = request->reproduce != NULL,
    };
    if (!c.check || !c.folder)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--case is for the kit's own processes; see --only");
    CADRE_TRY(take_number("--seed", request->seed, &c.seed, err));
    CADRE_TRY(take_number("--reproduce", request->reproduce, &c.seed, err));
    CADRE_TRY(take_time(request->fuzz, &c.fuzz_s, err));
    CADRE_TRY(cadre_case_run(&c, err));
    /* what a plugin has left to run at the end of a process must not run */
    fflush(NULL);
    _exit(0);
}

/* ---- all of them ---- */

struct progress {
    struct asked *asked;
    size_t next; /* in the catalogue: the first that was not printed */
    size_t printed;
};

/* In the order of the catalogue, as soon as all before are done. */
static void on_done(void *h, const struct cadre_check_result *result)
{
    struct progress *progress = h;
    struct cadre_check_results *results = &progress->asked->results;
    size_t at = (size_t)(result - results->result);
    cadre_waivers_apply(&progress->asked->waivers, &results->result[at]);
    for (; progress->next < results->n; progress->next++) {
        const struct cadre_check_result *next = &results->result[progress->next];
        if (next->chosen && !next->done)
            return;
        if (next->chosen)
            cadre_tap_put(stdout, ++progress->printed, results, next);
    }
}

static cadre_status write_files(const struct cadre_check_request *request,
                                const struct cadre_check_results *results,
                                struct cadre_error *err)
{
    if (request->json)
        CADRE_TRY(cadre_check_results_write(results, cadre_check_results_json,
                                            request->json, err));
    if (request->junit)
        CADRE_TRY(cadre_check_results_write(results, cadre_check_results_junit,
                                            request->junit, err));
    if (request->html)
        CADRE_TRY(cadre_check_results_write(results, cadre_check_results_html,
                                            request->html, err));
    return CADRE_OK;
}

static cadre_status conclude(const struct cadre_check_results *results,
                             struct cadre_error *err)
{
    char ids[256] = "";
    size_t bad = cadre_check_results_bad(results);
    size_t faults = cadre_check_results_count(results, CADRE_CHECK_HOST_FAULT);
    for (size_t i = 0; i < results->n; i++) {
        const struct cadre_check_result *result = &results->result[i];
        size_t used = strlen(ids);
        if (result->done && cadre_check_status_is_bad(result->verdict.status))
            snprintf(ids + used, sizeof ids - used, "%s%s", used ? ", " : "",
                     result->check->id);
    }
    if (bad == 0)
        return CADRE_OK;
    if (bad == faults)
        return cadre_fail(err, CADRE_E_ABORTED,
                          "%zu checks of '%s' could not be carried out: %s", bad,
                          results->plugin, ids);
    return cadre_fail(err, CADRE_E_DIFFERS, "%zu check%s of '%s' failed: %s", bad,
                      bad == 1 ? "" : "s", results->plugin, ids);
}

static cadre_status make_folder(char *path, size_t bytes, struct cadre_error *err)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, bytes, "%s/cadre-check-XXXXXX", base && *base ? base : "/tmp");
    if (mkdtemp(path))
        return CADRE_OK;
    return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot make a folder in '%s'",
                            base && *base ? base : "/tmp");
}

static cadre_status run_kit(const struct cadre_check_request *request,
                            struct asked *asked, struct cadre_error *err)
{
    char folder[4096], said[4096];
    struct progress progress = {.asked = asked};
    const struct cadre_runner runner = {
        .results = &asked->results,
        .fuzz_s = asked->fuzz_s,
        .reproduce = request->reproduce != NULL,
        .folder = folder,
        .limit_s = request->quick ? QUICK_LIMIT_S : 0,
        .done = on_done,
        .h = &progress,
    };
    CADRE_TRY(make_folder(folder, sizeof folder, err));
    cadre_tap_begin(stdout, cadre_check_results_chosen(&asked->results));
    fflush(stdout);
    cadre_status rc = cadre_runner_run(&runner, err);
    cadre_file_remove_tree(folder, NULL);
    if (rc != CADRE_OK)
        return rc;
    cadre_tap_end(stdout, &asked->results);
    cadre_check_record(&asked->results, said, sizeof said);
    if (*said)
        printf("# %s\n", said);
    CADRE_TRY(write_files(request, &asked->results, err));
    return conclude(&asked->results, err);
}

cadre_status cadre_check(const struct cadre_check_request *request,
                         struct cadre_error *err)
{
    struct asked *asked;
    if (request->one_case)
        return run_case(request, err);
    asked = cadre_calloc(1, sizeof *asked);
    if (!asked)
        return cadre_no_memory(err, "the checks");
    cadre_status rc = take_request(request, asked, err);
    if (rc == CADRE_OK)
        rc = run_kit(request, asked, err);
    cadre_check_results_fini(&asked->results);
    free(asked);
    return rc;
}
