/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compare/fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/safetensors.h"
#include "core/run/bench.h"
#include "tests/support/check_main.h"

static void must(cadre_status rc, const struct cadre_error *err)
{
    ck_assert_msg(rc == CADRE_OK, "%s", err->text);
}

void fixture_write(const char *dir, const char *name, const char *text)
{
    struct cadre_error err = {0};
    char *path = cadre_path_join(dir, name);
    must(cadre_path_make_dirs(dir, &err), &err);
    must(cadre_path_write_file(path, text, strlen(text), &err), &err);
    free(path);
}

const char *fixture_set(int argc, char **argv, const char *key)
{
    const char *found = NULL;
    size_t n = strlen(key);
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], "--set") == 0 && strncmp(argv[i + 1], key, n) == 0 &&
            argv[i + 1][n] == '=')
            found = argv[i + 1] + n + 1;
    return found;
}

int fixture_bench(int argc, char **argv, const char *folder, double step_s)
{
    const char *steps = fixture_set(argc, argv, "bench.steps");
    const char *warmup = fixture_set(argc, argv, "bench.warmup");
    const char *windows = fixture_set(argc, argv, "bench.windows");
    struct cadre_error err = {0};
    if (fixture_set(argc, argv, "bench.target"))
        steps = "10";
    if (!steps)
        return -1;
    struct cadre_bench bench = {
        .warmup = warmup ? atoll(warmup) : 0,
        .steps = atoll(steps),
        .tokens = 100,
        .start_s = 0.01,
        .reached = step_s > 0,
        .n = windows ? (size_t)atoll(windows) : 1,
    };
    bench.parts = (struct cadre_step_parts){
        .known = true,
        .part =
            {[CADRE_PART_COMPUTE] = 0.5 * step_s, [CADRE_PART_DATA] = 0.125 * step_s},
        .exposed = {1, {{"dp", 0.25 * step_s}}}};
    for (size_t i = 0; i < bench.n; i++)
        bench.window[i] = (struct cadre_bench_window){
            (double)bench.steps * fabs(step_s), NAN, 0.125 * fabs(step_s)};
    return cadre_path_make_dirs(folder, &err) == CADRE_OK &&
                   cadre_bench_write(folder, &bench, &err) == CADRE_OK
               ? 0
               : 1;
}

void fixture_model(const char *path, const float values[FIXTURE_PARAMS])
{
    const struct cadre_safetensors_spec spec = {
        .name = "w", .dtype = CADRE_F32, .ndim = 2, .dim = {2, 3}};
    struct cadre_safetensors *file;
    struct cadre_error err = {0};
    must(cadre_safetensors_create(path, &spec, 1, &err), &err);
    must(cadre_safetensors_open(path, true, &file, &err), &err);
    must(cadre_safetensors_write_range(file, 0, 0, FIXTURE_PARAMS, values, &err), &err);
    cadre_safetensors_close(file);
}

void fixture_states(const char *path, const float values[FIXTURE_PARAMS], double shift)
{
    const struct cadre_safetensors_spec specs[] = {
        {.name = "w.exp_avg", .dtype = CADRE_F32, .ndim = 2, .dim = {2, 3}},
        {.name = "w.exp_avg_sq", .dtype = CADRE_F32, .ndim = 2, .dim = {2, 3}}};
    struct cadre_safetensors *file;
    struct cadre_error err = {0};
    float moved[FIXTURE_PARAMS];
    memcpy(moved, values, sizeof moved);
    moved[1] = (float)((double)moved[1] + shift);
    must(cadre_safetensors_create(path, specs, 2, &err), &err);
    must(cadre_safetensors_open(path, true, &file, &err), &err);
    must(cadre_safetensors_write_range(file, 0, 0, FIXTURE_PARAMS, moved, &err), &err);
    must(cadre_safetensors_write_range(file, 1, 0, FIXTURE_PARAMS, values, &err), &err);
    cadre_safetensors_close(file);
}

static void write_metrics(const char *dir, const struct fixture_run *run, int steps,
                          double step_s)
{
    struct cadre_text text = {0};
    double factor = run->norm_factor > 0 ? run->norm_factor : 1;
    for (int k = 1; k <= steps; k++) {
        cadre_text_printf(&text, "{\"step\": %d, \"tokens\": %d, ", k, 100 * k);
        if (k == run->nan_step)
            cadre_text_printf(&text, "\"loss\": null, ");
        else
            cadre_text_printf(&text, "\"loss\": %.17g, ",
                              3.0 - 0.1 * k + run->loss_shift);
        if (k == run->skipped_step)
            cadre_text_printf(&text, "\"grad_norm\": null, ");
        else
            cadre_text_printf(&text, "\"grad_norm\": %.17g, ", 2.0 / k * factor);
        cadre_text_printf(&text, "\"lr\": 0.001, \"step_s\": %.17g}\n",
                          k <= 2 ? 10 * step_s : step_s);
    }
    fixture_write(dir, "metrics.jsonl", cadre_text_str(&text));
    cadre_text_fini(&text);
}

static void write_checkpoint(const char *dir, const struct fixture_run *run, int steps)
{
    struct cadre_error err = {0};
    float values[FIXTURE_PARAMS] = {0.5F, 1.0F, -2.0F, 0.0F, 1e-3F, 3.0F};
    char *folder = cadre_format("%s/checkpoints/step-%08d", dir, steps);
    char *path = cadre_path_join(folder, "model.safetensors");
    char *states = cadre_path_join(folder, "optimizer.safetensors");
    must(cadre_path_make_dirs(folder, &err), &err);
    fixture_states(states, values, run->state_shift);
    free(states);
    values[1] = (float)((double)values[1] + run->param_shift);
    fixture_model(path, values);
    free(path);
    free(folder);
}

static void make_one(const char *folder, const struct fixture_run *run)
{
    int steps = run->steps ? run->steps : 6, ranks = run->ranks ? run->ranks : 1;
    double step_s = run->step_s > 0 ? run->step_s : 0.1;
    struct cadre_text text = {0};
    cadre_text_printf(&text,
                      "{\"name\": \"x\", \"stack\": \"ddp\", \"ranks\": %d, "
                      "\"device\": \"cpu\", \"steps\": %d, \"tokens\": %d, "
                      "\"time_s\": 1.5, \"step_s_median\": 9, \"tokens_per_s\": 9, "
                      "\"loss_first\": 2.9, \"loss_last\": 2.4, \"peak_bytes\": [",
                      ranks, steps, 100 * steps);
    for (int r = 0; r < ranks; r++)
        cadre_text_printf(&text, "%s%d", r ? ", " : "", 1000 + r);
    cadre_text_printf(&text, "], \"comm_bytes\": 12, \"comm_exposed_s\": 0.25, "
                             "\"bubble_fraction\": 0, \"params\": 6");
    if (run->algorithms)
        cadre_text_printf(&text,
                          ", \"gemm\": {\"library\": \"lib 1\", "
                          "\"algorithms\": \"%s\"}",
                          run->algorithms);
    cadre_text_printf(&text, "%s%s}\n", run->site ? ", " : "",
                      run->site ? run->site : "");
    fixture_write(folder, "summary.json", cadre_text_str(&text));
    cadre_text_fini(&text);
    write_metrics(folder, run, steps, step_s);
    if (run->passes)
        fixture_write(folder, "passes.json", FIXTURE_PASSES);
    if (!run->no_checkpoint)
        write_checkpoint(folder, run, steps);
}

static void make_instances(const char *folder, const struct fixture_run *run)
{
    struct cadre_text text = {0};
    cadre_text_printf(&text,
                      "{\"name\": \"x\", \"ranks\": %d, \"steps\": 6, \"tokens\": %d, "
                      "\"peak_bytes\": [5], \"best\": %d, \"instances\": [",
                      run->instances, 600 * run->instances, run->instances - 1);
    for (int k = 0; k < run->instances; k++) {
        struct fixture_run one = *run;
        char *path = cadre_format("%s/instance-%d", folder, k);
        one.instances = 0;
        one.loss_shift -= k;
        make_one(path, &one);
        free(path);
        cadre_text_printf(&text,
                          "%s{\"instance\": %d, \"folder\": \"instance-%d\", "
                          "\"status\": \"done\", \"options\": {\"optim.lr\": \"%d\"}}",
                          k ? ", " : "", k, k, k);
    }
    cadre_text_printf(&text, "]}\n");
    fixture_write(folder, "summary.json", cadre_text_str(&text));
    cadre_text_fini(&text);
}

char *fixture_make(const char *dir, const struct fixture_run *run)
{
    static int made; /* names may be hostile, so folders are numbered */
    char *folder = cadre_format("%s/run-%d", dir, made++);
    if (run->instances)
        make_instances(folder, run);
    else
        make_one(folder, run);
    return folder;
}

static void read_into(const char *dir, const struct fixture_run *run,
                      struct cadre_record *record)
{
    struct cadre_error err = {0};
    char *folder = fixture_make(dir, run);
    must(cadre_record_read(folder, record, &err), &err);
    free(folder);
}

void fixture_compare(const char *dir, const struct fixture_run *runs, size_t n,
                     const struct fixture_run *perturbation, struct cadre_comparison *c)
{
    memset(c, 0, sizeof *c);
    c->title = cadre_strdup("made.ini");
    c->run = cadre_calloc(n, sizeof *c->run);
    c->n = n;
    c->cores = 4;
    c->warmup = 2;
    for (size_t i = 0; i < n; i++) {
        struct cadre_compared_run *run = &c->run[i];
        run->name = cadre_strdup(runs[i].name);
        run->ranks = runs[i].ranks ? runs[i].ranks : 1;
        run->instances = runs[i].instances;
        run->strategy = run->ranks == 1 ? cadre_strdup("single")
                                        : cadre_format("ddp:%d", run->ranks);
        run->layout = cadre_strdup("as made");
        run->other_training = cadre_strdup("");
        run->threads = 1;
        run->exact = runs[i].exact;
        snprintf(run->sums, sizeof run->sums, "%s", runs[i].sums ? runs[i].sums : "");
        snprintf(run->changes.by, sizeof run->changes.by, "%s",
                 runs[i].changed_by ? runs[i].changed_by : "");
        run->changes.diverging = runs[i].diverging;
        run->micro_batch = 4;
        run->eps = 0x1p-23;
        run->coarse = runs[i].coarse;
        read_into(dir, &runs[i], &run->record);
    }
    if (perturbation) {
        c->n_perturbations = 3;
        c->perturbation = cadre_calloc(3, sizeof *c->perturbation);
        c->perturbation[0].micro_batch = 2;
        for (int p = 0; p < 3; p++) {
            c->perturbation[p].seed = p;
            read_into(dir, perturbation, &c->perturbation[p].record);
        }
    }
}

void fixture_judge(const char *dir, const struct fixture_run *runs, size_t n,
                   const struct fixture_run *perturbation, struct cadre_comparison *c)
{
    struct cadre_error err = {0};
    fixture_compare(dir, runs, n, perturbation, c);
    must(cadre_comparison_judge(c, &err), &err);
}
