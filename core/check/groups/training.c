/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/groups/training.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"

#define TRAIN_LIMIT_S 20.0

void cadre_sets_add(struct cadre_sets *sets, const char *fmt, ...)
{
    char text[sizeof sets->text[0]];
    int at = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t key = strcspn(text, "=") + 1;
    while (at < sets->n && strncmp(sets->text[at], text, key) != 0)
        at++;
    if (at == CADRE_TRIAL_SETS)
        return;
    memcpy(sets->text[at], text, sizeof text);
    sets->n += at == sets->n;
}

/* ---- files ---- */

static FILE *create_file(struct cadre_case *c, const char *name)
{
    char *path = cadre_path_join(c->folder, name);
    FILE *file = path ? fopen(path, "we") : NULL;
    if (!file)
        cadre_case_host_fault(c, "cannot write '%s': %s", path ? path : name,
                              strerror(errno));
    free(path);
    return file;
}

static bool write_text(struct cadre_case *c)
{
    static const char *const words[] = {"the",   "heart", "beats", "and",      "a",
                                        "model", "reads", "what",  "the",      "lead",
                                        "has",   "found", "there", "yesterday"};
    FILE *file = create_file(c, "text.txt");
    unsigned x = 7;
    for (int i = 0; file && i < 3000; i++) {
        x = (x * 1103 + 12345) % 65536;
        fprintf(file, "%s%s", words[x % 14], x % 97 == 0 ? ".\n" : " ");
    }
    if (!file || fclose(file) == 0)
        return file != NULL;
    cadre_case_host_fault(c, "cannot write the text to train on");
    return false;
}

/* Odd where it can be, and the smallest that has every part. Heads and
 * vocabulary are divided by tensor parallelism, `time` over 2 to 4 ranks. */
static bool write_conf(struct cadre_case *c, bool divided, bool time)
{
    FILE *file = create_file(c, "kit.ini");
    if (!file)
        return false;
    fprintf(file,
            "[run]\nseed = %llu\n"
            "[model]\nlayers = 3\nchannels = 24\nheads = %d\ncontext = %d\nvocab = %d\n"
            "[data]\npath = %s/text.txt\ncache = no\n"
            "[train]\nsteps = 4\nglobal_batch = 8\nmicro_batch = 1\neval_batches = 1\n"
            "[optim]\nlr = 3e-3\nclip = 0.7\n[device]\nkind = cpu\n"
            "[comm]\ntimeout = 10\n[log]\nprogress = no\n",
            (unsigned long long)(c->seed % 1000000007), divided ? 6 : 3, time ? 12 : 8,
            divided ? 276 : 259, c->folder);
    if (fclose(file) == 0)
        return true;
    cadre_case_host_fault(c, "cannot write the ini file of a training");
    return false;
}

/* ---- the subject ---- */

static bool can_train(struct cadre_case *c, const struct cadre_subject *subject,
                      bool exact)
{
    struct cadre_sets sets = {0};
    struct cadre_trained trained;
    cadre_subject_stack(subject, 2, &sets);
    cadre_sets_add(&sets, "run.exact=%s", exact ? "yes" : "no");
    const struct cadre_training dry = {.out = "dry", .sets = &sets, .dry = true};
    return cadre_train_once(c, &dry, &trained) && trained.ended && trained.status == 0;
}

bool cadre_subject_take(struct cadre_case *c, struct cadre_subject *out)
{
    struct cadre_rehearsal_report report;
    *out = (struct cadre_subject){.plugin = cadre_case_plugin(c), .period = 1};
    if (!out->plugin)
        return false;
    if (out->plugin->desc.role == CADRE_ROLE_PLACEMENT) {
        cadre_case_unsupported(c, "a plugin of the role PLACEMENT takes no part in a "
                                  "step");
        return false;
    }
    snprintf(out->stack, sizeof out->stack, "%s",
             strchr(c->plugin, '/') ? out->plugin->path : out->plugin->name);
    const struct cadre_rehearsal_setup setup = {.plugin = out->plugin,
                                                .ranks = out->plugin->desc.axis ? 2 : 1,
                                                .seed = c->seed,
                                                .until = CADRE_UNTIL_PLANNED};
    if (!cadre_case_rehearse(c, &setup, &report) || !write_text(c) ||
        !write_conf(c, out->plugin->desc.role == CADRE_ROLE_INTRA, report.time))
        return false;
    out->by_design = report.by_design;
    out->diverges = report.diverges;
    out->time = report.time;
    out->keeps = report.keeps;
    out->period = report.period ? report.period : 1;
    snprintf(out->equal, sizeof out->equal, "%s", report.equal);
    /* by design only the limits are promised */
    out->exact = !out->by_design && can_train(c, out, true);
    return true;
}

void cadre_subject_stack(const struct cadre_subject *subject, int ranks,
                         struct cadre_sets *sets)
{
    bool optimizer = subject->plugin->desc.role == CADRE_ROLE_OPTIMIZER;
    if (optimizer)
        cadre_sets_add(sets, "optim.name=%s", subject->plugin->name);
    if (optimizer && strchr(subject->stack, '/'))
        cadre_sets_add(sets, "strategy.plugin_path=%.*s",
                       (int)(cadre_path_basename(subject->stack) - subject->stack - 1),
                       subject->stack);
    if (ranks == 0 || (optimizer && ranks == 1))
        cadre_sets_add(sets, "strategy.stack=single");
    else if (optimizer)
        cadre_sets_add(sets, "strategy.stack=ddp:%d", ranks);
    else if (!subject->plugin->desc.axis)
        cadre_sets_add(sets, "strategy.stack=%.200s, ddp:%d", subject->stack, ranks);
    else
        cadre_sets_add(sets, "strategy.stack=%.200s:%d", subject->stack, ranks);
}

void cadre_subject_equal(const struct cadre_subject *subject, struct cadre_sets *base,
                         struct cadre_sets *run)
{
    char text[256], *rest = NULL;
    snprintf(text, sizeof text, "%s", subject->equal);
    for (char *one = strtok_r(text, ",", &rest); one;
         one = strtok_r(NULL, ",", &rest)) {
        one = cadre_strip(one);
        const char *dot = strchr(one, '.'), *equals = strchr(one, '=');
        if (dot && (!equals || dot < equals)) {
            cadre_sets_add(base, "%s", one);
            cadre_sets_add(run, "%s", one);
        } else if (*one) {
            cadre_sets_add(run, "%s.%s", subject->plugin->name, one);
        }
    }
}

bool cadre_subject_has(const struct cadre_subject *subject, const char *key)
{
    const struct cadre_plugin *desc = &subject->plugin->desc;
    const char *at = (const char *)desc->options;
    for (uint32_t i = 0; i < desc->n_options; i++, at += desc->option_stride)
        if (strcmp(((const struct cadre_option *)(const void *)at)->key, key) == 0)
            return true;
    return false;
}

/* ---- running ---- */

/* The line that the program ends with; else the end of what it said. */
static void find_text(const char *output, char *out, size_t bytes)
{
    char tail[2048], *line = NULL;
    cadre_check_process_tail(output, tail, sizeof tail);
    for (char *at = tail; (at = strstr(at, "cadre: ")); at++)
        if (at == tail || at[-1] == '\n')
            line = at;
    if (!line)
        line = strrchr(tail, '\n') ? strrchr(tail, '\n') + 1 : tail;
    snprintf(out, bytes, "%.*s", (int)strcspn(line, "\n"), line);
}

bool cadre_check_program(struct cadre_case *c, const char *const *argv,
                         const struct cadre_check_process *how,
                         struct cadre_trained *out)
{
    char *output = cadre_path_join(c->folder, "said");
    struct cadre_check_process process = *how;
    struct cadre_error err = {0};
    process.argv = (char *const *)(uintptr_t)argv;
    process.output = output;
    if (!output || cadre_check_process_run(&process, &err) != CADRE_OK) {
        cadre_case_host_fault(c, "%s", output ? err.text : "no memory");
        free(output);
        return false;
    }
    *out = (struct cadre_trained){.ended = !process.timed_out,
                                  .status = process.status,
                                  .signal = process.signal,
                                  .cpu_s = process.cpu_s};
    find_text(output, out->text, sizeof out->text);
    free(output);
    return true;
}

bool cadre_train_once(struct cadre_case *c, const struct cadre_training *training,
                      struct cadre_trained *out)
{
    const char *argv[2 * CADRE_TRIAL_SETS + 8];
    char *conf = cadre_path_join(c->folder, "kit.ini");
    char *folder = cadre_path_join(c->folder, training->out);
    const struct cadre_check_process how = {
        .limit_s = training->limit_s > 0 ? training->limit_s : TRAIN_LIMIT_S,
        .file_kib = training->file_kib};
    int n = 0;
    argv[n++] = "cadre";
    argv[n++] = "train";
    argv[n++] = conf;
    argv[n++] = "--out";
    argv[n++] = folder;
    if (training->dry)
        argv[n++] = "--dry-run";
    for (int i = 0; i < training->sets->n; i++) {
        argv[n++] = "--set";
        argv[n++] = training->sets->text[i];
    }
    argv[n] = NULL;
    bool done = conf && folder && cadre_check_program(c, argv, &how, out);
    free(conf);
    free(folder);
    return done;
}
