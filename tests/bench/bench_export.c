/* SPDX-License-Identifier: Apache-2.0 */
/* What traces and figures for other programs cost, in CPU time: of a step of the ECG
 * model (4 layers, 128 channels, 8 x 256 tokens) on the CPU device with one thread,
 * and of what is done beside it. In turns, 20 rounds; prints how many there are a
 * step, medians, and the shares of the step with their 95 % intervals (the 6th and the
 * 15th of the ratios of a round), as lines of a markdown table, and Check's own line.
 * What is done once a second is counted as often as the step's own time says. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/median.h"
#include "core/export/export.h"
#include "core/export/openmetrics.h"
#include "core/export/trace.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

enum { SLICES = 100000, STEPS = 1000, TEXTS = 200, ROUNDS = 20, LOW = 5, HIGH = 14 };

static struct spec_fixture f;
static struct cadre_rank rank;
static struct cadre_trace trace;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double whole_step(int64_t number)
{
    struct cadre_step_report report = {0};
    const double began = cpu_s();
    ck_assert_int_eq(cadre_rank_step(&rank, (uint64_t)number, &report), CADRE_OK);
    return cpu_s() - began;
}

/* A unit's slice; without detail, what is left of it in other steps. */
static double one_slice(bool detail)
{
    cadre_timeline_detail(&rank.timeline, detail, SLICES);
    cadre_timeline_begin_step(&rank.timeline);
    const double began = cpu_s();
    for (int i = 0; i < SLICES; i++)
        cadre_timeline_end_unit(&rank.timeline, CADRE_SPAN_FORWARD, (uint32_t)i & 3, 0,
                                cadre_timeline_begin_unit(&rank.timeline));
    const double each = (cpu_s() - began) / SLICES;
    cadre_timeline_detail(&rank.timeline, false, 0);
    cadre_timeline_begin_step(&rank.timeline);
    return each;
}

/* What a step that is not recorded does for the trace. */
static double one_step_without(void)
{
    const struct cadre_step_report report = {.step = 1};
    const double began = cpu_s();
    for (int64_t i = 0; i < STEPS; i++) {
        cadre_trace_begin(&trace, -9 - i, NULL);
        cadre_trace_step(&trace, -9 - i, 0, &report);
    }
    return (cpu_s() - began) / STEPS;
}

static double one_event(struct cadre_export *export)
{
    const struct cadre_step_report report = {
        .step = 1, .loss = 2, .grad_norm = 1, .lr = 1e-3, .times = {.step_s = 0.1}};
    const struct cadre_valid_result none = {0};
    const double began = cpu_s();
    for (int64_t i = 1; i <= STEPS; i++)
        ck_assert_int_eq(cadre_export_step(export, i, &report, &none, &f.err), 0);
    return (cpu_s() - began) / STEPS;
}

static double one_text(const char *path)
{
    struct cadre_openmetrics run = {.run = "bench", .stack = "single", .device = "cpu"};
    uint64_t bytes;
    const double began = cpu_s();
    for (int i = 0; i < TEXTS; i++) {
        cadre_memory_resident(&bytes, NULL);
        run.resident_bytes = (double)bytes;
        ck_assert_int_eq(cadre_openmetrics_write(path, &run, &f.err), CADRE_OK);
    }
    return (cpu_s() - began) / TEXTS;
}

/* A line of the table: n of `each` seconds in a round, and their share of its step. */
static void print_row(const char *name, double n, double each[ROUNDS],
                      const double whole[ROUNDS])
{
    double share[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        share[i] = 100 * n * each[i] / whole[i];
    double middle = cadre_median(share, ROUNDS); /* sorted now */
    double one = cadre_median(each, ROUNDS) * 1e9;
    printf("| %s | %.3g | %.*f %s | %.5f %% (%.5f to %.5f) |\n", name, n, one < 1e3,
           one < 1e3 ? one : one * 1e-3, one < 1e3 ? "ns" : "us", middle, share[LOW],
           share[HIGH]);
}

START_TEST(measure)
{
    static const char model[] =
        "model.layers=4 model.channels=128 model.heads=4 model.context=256 "
        "train.global_batch=8 train.micro_batch=8 device.kind=cpu device.threads=1 "
        "optim.clip=1 log.tensorboard=yes log.trace=yes data.valid_fraction=0.1";
    double whole[ROUNDS], on[ROUNDS], off[ROUNDS], without[ROUNDS], event[ROUNDS];
    double text[ROUNDS], sorted[ROUNDS];
    char path[1200];
    struct cadre_export *export;
    spec_fixture_open(&f);
    struct cadre_spec *spec = spec_fixture_make(&f, model);
    ck_assert_int_eq(mkdir(spec->out, 0777), 0);
    spec_fixture_rank(&f, spec, &rank);
    cadre_trace_init(&trace, &rank, spec, 0, spec->steps);
    ck_assert_int_eq(cadre_export_open(spec, &rank, 0, &export, &f.err), CADRE_OK);
    snprintf(path, sizeof path, "%s/bench.prom", f.dir);
    for (int64_t i = 0; i < 2; i++)
        whole_step(i + 1);
    for (int i = 0; i < ROUNDS; i++) {
        sorted[i] = whole[i] = whole_step(i + 3);
        on[i] = one_slice(true);
        off[i] = one_slice(false);
        without[i] = one_step_without();
        event[i] = one_event(export);
        text[i] = one_text(path);
    }
    double units = 2 * rank.model->n_units, step_s = cadre_median(sorted, ROUNDS);
    print_row("slice of a unit, in a recorded step", units, on, whole);
    print_row("slice of a unit, in others", units, off, whole);
    print_row("the trace, in others", 1, without, whole);
    print_row("`log.tensorboard`", 1, event, whole);
    print_row("`log.openmetrics`, once a second", step_s, text, whole);
    cadre_export_close(export);
    cadre_trace_fini(&trace);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("bench_export");
    TCase *tcase = tcase_create("measure");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, measure);
    suite_add_tcase(suite, tcase);
    return suite;
}
