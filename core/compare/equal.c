/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/equal.h"
#include "core/base/json_read.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/compare/child.h"
#include "core/config/config.h"

/* The comparison of one run's setting. */
struct check {
    struct cadre_compared_run *run;
    char *folder, *ini; /* owned */
    int64_t steps;
};

/* Two runs: single, and the run, with the run's own options. */
static cadre_status write_ini(const struct check *check, struct cadre_error *err)
{
    FILE *file = fopen(check->ini, "w");
    if (!file)
        return cadre_fail(err, CADRE_E_IO, "cannot write '%s'", check->ini);
    cadre_options_write_values(check->run->options, file);
    fputs("\n[run:single]\nrun.name = single\nstrategy.stack = single\n"
          "device.pace =\n"
          "\n[run:equal]\nrun.name = equal\n",
          file);
    /* said of the run itself: single has to accept the section of a plugin that is
     * named by its path */
    fprintf(file, "strategy.stack = %s\n",
            cadre_options_raw(check->run->options, "strategy.stack"));
    bool failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    return failed ? cadre_fail(err, CADRE_E_IO, "cannot write '%s'", check->ini)
                  : CADRE_OK;
}

size_t cadre_equal_most(const char *text)
{
    size_t n = 2;
    for (; *text; text++)
        n += *text == ',' ? 2 : 0;
    return n;
}

size_t cadre_equal_arguments(char *text, char **argv, size_t n)
{
    static const char set[] = "--set";
    for (char *rest = text; rest && *rest;) {
        char *one = rest + strspn(rest, " ,");
        rest = strchr(one, ',');
        if (rest)
            *rest++ = 0;
        if (!*one)
            continue;
        argv[n++] = (char *)(uintptr_t)set; /* exec changes nothing */
        argv[n++] = one;
    }
    return n;
}

static cadre_status run_check(const struct check *check,
                              const struct cadre_supervise_watch *watch,
                              struct cadre_child_failure *failure,
                              struct cadre_error *err)
{
    char steps[48];
    char *text = cadre_strdup(check->run->changes.equal);
    cadre_status rc;
    snprintf(steps, sizeof steps, "train.steps=%" PRId64, check->steps);
    /* clang-format off: an option and its value a line */
    char *const fixed[] = {
        "cadre",
        "compare",
        check->ini,
        "--out",
        check->folder,
        "--set",
        "compare.runs=single, equal",
        "--set",
        "compare.vary=",
        "--set",
        "compare.baseline=single",
        "--set",
        "compare.time=no",
        "--set",
        "compare.perturb=yes",
        "--set",
        "compare.equal=no",
        "--set",
        "checkpoint.resume=no",
        "--set",
        "train.eval_every=0",
        "--set",
        steps,
    };
    /* clang-format on */
    const size_t n = sizeof fixed / sizeof *fixed;
    char **argv =
        text ? cadre_calloc(n + cadre_equal_most(text) + 1, sizeof *argv) : NULL;
    if (argv) {
        memcpy(argv, fixed, sizeof fixed);
        cadre_equal_arguments(text, argv, n);
        const struct cadre_child child = {argv, "equal", check->folder};
        rc = cadre_child_run(watch, &child, failure, err);
    } else {
        rc = cadre_no_memory(err, "a setting");
    }
    free(argv);
    free(text);
    return rc;
}

/* "exact", "within" or "differs". */
static bool equal_of(const char *name, enum cadre_equal *equal)
{
    for (int e = CADRE_EQUAL_EXACT; e <= CADRE_EQUAL_DIFFERS; e++)
        if (name && strcmp(name, cadre_equal_name((enum cadre_equal)e)) == 0) {
            *equal = (enum cadre_equal)e;
            return true;
        }
    return false;
}

/* What the comparison's report says of the run. */
static void read_verdict(struct check *check)
{
    struct cadre_equal_setting *setting = &check->run->setting;
    json_t *root;
    cadre_json_try_file(check->folder, "report.json", &root, NULL);
    json_t *runs = json_object_get(root, "runs"), *run;
    size_t i;
    json_array_foreach(runs, i, run)
    {
        const char *name = json_string_value(json_object_get(run, "name"));
        const char *said = json_string_value(json_object_get(run, "why"));
        if (!name || strcmp(name, "equal") != 0)
            continue;
        setting->judged =
            equal_of(json_string_value(json_object_get(run, "equal")), &setting->equal);
        snprintf(setting->why, sizeof setting->why, "%.255s", said ? said : "");
    }
    if (!setting->judged && !*setting->why)
        snprintf(setting->why, sizeof setting->why, "its comparison left no verdict");
    json_decref(root);
}

static cadre_status check_run(struct check *check,
                              const struct cadre_supervise_watch *watch,
                              struct cadre_error *err)
{
    struct cadre_child_failure failure = {0};
    struct cadre_equal_setting *setting = &check->run->setting;
    cadre_log(CADRE_LOG_INFO, "compare",
              "%s: by design; with %s it must train the same as single: %" PRId64
              " steps",
              check->run->name, check->run->changes.equal, check->steps);
    CADRE_TRY(write_ini(check, err));
    CADRE_TRY(run_check(check, watch, &failure, err));
    read_verdict(check);
    /* a difference has an exit status of its own */
    if (failure.failed && !setting->judged)
        snprintf(setting->why, sizeof setting->why,
                 "it failed with %.60s: see '%.160s'", failure.why, check->folder);
    return CADRE_OK;
}

static cadre_status check_one(struct cadre_compared_run *run, const char *out,
                              int64_t steps, const struct cadre_supervise_watch *watch,
                              struct cadre_error *err)
{
    struct check check = {
        .run = run,
        .folder = cadre_format("%s/equal/%s", out, run->name),
        .ini = cadre_format("%s/equal/%s.ini", out, run->name),
        .steps = steps < run->steps ? steps : run->steps,
    };
    char *parent = cadre_path_join(out, "equal");
    cadre_status rc = check.folder && check.ini && parent
                          ? cadre_path_make_dirs(parent, err)
                          : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK)
        rc = check_run(&check, watch, err);
    free(parent);
    free(check.folder);
    free(check.ini);
    return rc;
}

cadre_status cadre_equal_settings(struct cadre_comparison *comparison, const char *out,
                                  const struct cadre_supervise_watch *watch,
                                  struct cadre_error *err)
{
    struct cadre_config config;
    cadre_config_fill(&config, comparison->run[0].options);
    for (size_t i = 0; i < comparison->n; i++) {
        struct cadre_compared_run *run = &comparison->run[i];
        if (!*run->changes.equal || *run->failure || run->instances)
            continue;
        if (config.compare.equal)
            CADRE_TRY(check_one(run, out, config.compare.equal_steps, watch, err));
        else
            snprintf(run->setting.why, sizeof run->setting.why, "compare.equal is no");
    }
    return CADRE_OK;
}
