/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/config/nearest.h"

/* ---- the list ---- */

static char *name_of(const struct cadre_comparison *c, const struct cadre_task *task)
{
    const char *run = c->run[task->run].name;
    if (task->perturbation >= 0) {
        const struct cadre_perturbation *one = &c->perturbation[task->perturbation];
        return one->micro_batch ? cadre_format("%s:reordered", run)
                                : cadre_format("%s:moved-%" PRId64, run, one->seed);
    }
    return cadre_strdup(run);
}

cadre_status cadre_tasks_create(const struct cadre_comparison *c,
                                struct cadre_task **out, size_t *n_out,
                                struct cadre_error *err)
{
    size_t n = c->n + c->n_perturbations;
    bool failed = false;
    struct cadre_task *tasks = cadre_calloc(n, sizeof *tasks);
    for (size_t i = 0; tasks && i < n; i++) {
        bool run = i < c->n;
        tasks[i].run = run ? i : c->baseline;
        tasks[i].perturbation = run ? -1 : (ptrdiff_t)(i - c->n);
        tasks[i].name = name_of(c, &tasks[i]);
        failed = failed || !tasks[i].name;
    }
    if (!tasks || failed) {
        cadre_tasks_destroy(tasks, n);
        return cadre_no_memory(err, "%zu trainings", n);
    }
    *out = tasks;
    *n_out = n;
    return CADRE_OK;
}

void cadre_tasks_destroy(struct cadre_task *tasks, size_t n)
{
    for (size_t i = 0; tasks && i < n; i++)
        free(tasks[i].name);
    free(tasks);
}

cadre_status cadre_tasks_find(const struct cadre_task *tasks, size_t n,
                              const char *name, const struct cadre_task **found,
                              struct cadre_error *err)
{
    struct cadre_nearest nearest = {0};
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(tasks[i].name, name) == 0) {
            *found = &tasks[i];
            return CADRE_OK;
        }
        cadre_nearest_offer(&nearest, name, tasks[i].name);
    }
    const char *best = nearest.name;
    return cadre_fail(err, CADRE_E_INVALID,
                      "--run %s is not a training of the comparison%s%s%s; --list "
                      "prints them",
                      name, best ? ", did you mean '" : "", best ? best : "",
                      best ? "'" : "");
}

char *cadre_task_folder(const struct cadre_task *task, const char *out)
{
    return cadre_arrange_folder(out, task->name);
}

/* ---- arguments ---- */

/* device.threads, 0: the run's own option. Perturbations are not timed and take all
 * cores, which changes no bit. */
static int threads_of(const struct cadre_task_request *request,
                      const struct cadre_task *task)
{
    const struct cadre_compared_run *run = &request->comparison->run[task->run];
    int share = request->comparison->cores / run->ranks;
    if (request->launched)
        return 0;
    return task->perturbation >= 0 && share > run->threads
               ? share
               : request->arrangement->threads;
}

/* Arguments under construction: the array, and its own texts behind it. */
struct argument_list {
    char **argv;
    size_t n;
    char *text, *end;
};

static void add(struct argument_list *list, const char *argument)
{
    /* exec wants pointers to char and changes nothing */
    list->argv[list->n++] = (char *)argument;
}

static void add_set(struct argument_list *list, const char *key, const char *value)
{
    add(list, "--set");
    add(list, list->text);
    int used =
        snprintf(list->text, (size_t)(list->end - list->text), "%s=%s", key, value);
    list->text += used + 1;
}

static void add_number(struct argument_list *list, const char *key, int64_t value)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, value);
    add_set(list, key, number);
}

/* Only what is timed and how loud it is changes; it starts afresh. */
static void add_piece(struct argument_list *list, const struct cadre_task_piece *piece,
                      bool resume)
{
    if (resume)
        add_set(list, "checkpoint.resume", "no");
    add_set(list, "log.level", "error");
    add_set(list, "log.trace", "no");
    add_set(list, "log.progress", "no");
    if (piece->target > 0) {
        char loss[32];
        snprintf(loss, sizeof loss, "%.17g", piece->target);
        add_set(list, "bench.target", loss);
        add_number(list, "run.seed", piece->seed);
        return;
    }
    add_number(list, "bench.warmup", piece->warmup);
    add_number(list, "bench.steps", piece->steps);
    add_number(list, "bench.windows", piece->windows);
}

cadre_status cadre_task_arguments(const struct cadre_task_request *request,
                                  const struct cadre_task *task, const char *folder,
                                  char ***argv, struct cadre_error *err)
{
    const struct cadre_arrange_request *made = request->request;
    size_t n_sets = 0;
    while (made->sets && made->sets[n_sets])
        n_sets++;
    size_t pointers = 2 * n_sets + 32, texts = strlen(task->name) + 512;
    struct argument_list list = {0};
    list.argv = cadre_calloc(pointers * sizeof(char *) + texts, 1);
    if (!list.argv)
        return cadre_no_memory(err, "arguments");
    list.text = (char *)(list.argv + pointers);
    list.end = list.text + texts;
    add(&list, "cadre"); /* shown by ps */
    add(&list, "train");
    add(&list, made->conf);
    add(&list, "--run");
    add(&list, request->comparison->run[task->run].name);
    add(&list, "--out");
    add(&list, folder);
    for (size_t i = 0; i < n_sets; i++) {
        add(&list, "--set");
        add(&list, made->sets[i]);
    }
    add_set(&list, "run.name", task->name);
    if (threads_of(request, task))
        add_number(&list, "device.threads", threads_of(request, task));
    if (task->perturbation >= 0) {
        const struct cadre_perturbation *one =
            &request->comparison->perturbation[task->perturbation];
        if (one->micro_batch)
            add_number(&list, "train.micro_batch", one->micro_batch);
        else
            add_number(&list, "run.perturb", one->seed);
    }
    if (request->piece)
        add_piece(&list, request->piece, request->arrangement->resume);
    *argv = list.argv;
    return CADRE_OK;
}
