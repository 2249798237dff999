/* SPDX-License-Identifier: Apache-2.0 */
/* How a training step on the CPU would go on more cores than there are: every job of
 * the pool runs here on one thread, tile by tile, and the times of its tiles are given
 * in order to 1 to 64 workers, whichever is free first, with the tiles that a device of
 * so many threads makes. What lies between jobs counts as it is. So it shows what
 * cannot scale by construction, jobs of few or unequal tiles and loops of one thread;
 * memory, caches and the clock are those of one core.
 *
 * Usage: bench_scaling; SHAPE (ecg, small, 124M-64), DTYPE (fp32, bf16), STEPS (3) and
 * AT (16) in the environment. A line of a Markdown table a number of threads, the
 * median of the steps; then, for AT threads, where the workers' time goes: addresses of
 * the functions that a job runs (scaling.sh names them), "-" between jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/median.h"
#include "core/device/cpu/pool.h"
#include "tests/support/check_main.h"
#include "tests/support/trainer.h"

enum { MOST_THREADS = 64, MOST_STEPS = 33, MOST_KINDS = 64 };

/* Jobs that run one function. */
struct kind {
    cadre_pool_fn *fn; /* NULL: between jobs */
    double work, span, jobs, tiles; /* seconds; of a step */
};

static struct trace {
    int threads, n_kinds;
    double last; /* when a job ended */
    struct kind kind[MOST_KINDS];
} trace;

static struct kind *kind_of(cadre_pool_fn *fn)
{
    for (int i = 0; i < trace.n_kinds; i++)
        if (trace.kind[i].fn == fn)
            return &trace.kind[i];
    ck_assert_int_lt(trace.n_kinds, MOST_KINDS);
    trace.kind[trace.n_kinds].fn = fn;
    return &trace.kind[trace.n_kinds++];
}

static void between_jobs(double now)
{
    struct kind *serial = kind_of(NULL);
    serial->work += now - trace.last;
    serial->span += now - trace.last;
}

/* The linker gives every caller of cadre_pool_run this one. */
void __wrap_cadre_pool_run(struct cadre_pool *pool, int64_t tiles, cadre_pool_fn *fn,
                           void *arg);
void __wrap_cadre_pool_run(struct cadre_pool *pool, int64_t tiles, cadre_pool_fn *fn,
                           void *arg)
{
    double free_at[MOST_THREADS] = {0}, span = 0, begin = cadre_now_s();
    struct kind *kind = kind_of(fn);
    (void)pool;
    between_jobs(begin);
    for (int64_t tile = 0; tile < tiles; tile++) {
        int first = 0;
        for (int w = 1; w < trace.threads; w++)
            first = free_at[w] < free_at[first] ? w : first;
        fn(arg, tile, 0);
        const double now = cadre_now_s();
        free_at[first] += now - begin;
        kind->work += now - begin;
        span = free_at[first] > span ? free_at[first] : span;
        begin = now;
    }
    kind->span += span;
    kind->jobs++;
    kind->tiles += (double)tiles;
    trace.last = cadre_now_s();
}

static const struct {
    const char *name;
    int64_t layers, channels, heads, vocab, time, batch;
} shapes[] = {{"ecg", 4, 128, 4, 64, 256, 8},
              {"small", 6, 384, 6, 256, 256, 16},
              {"124M-64", 12, 768, 12, 50257, 64, 4}};

static int setting(const char *name, int otherwise, int most)
{
    const char *text = getenv(name);
    const int value = text ? atoi(text) : otherwise;
    return value < 1 ? 1 : value > most ? most : value;
}

static bool is_setting(const char *name, const char *value, const char *otherwise)
{
    const char *text = getenv(name);
    return strcmp(text ? text : otherwise, value) == 0;
}

static void open_trainer(struct test_trainer *t, int threads)
{
    const struct cadre_device_config device = {.kind = "cpu", .threads = threads};
    struct cadre_device *cpu = NULL;
    struct cadre_error err = {0};
    size_t s = 0;
    while (!is_setting("SHAPE", shapes[s].name, "ecg"))
        ck_assert_msg(++s < sizeof shapes / sizeof *shapes, "no such SHAPE");
    const struct cadre_model_config model = {
        .arch = CADRE_ARCH_GPT2,
        .layers = shapes[s].layers,
        .channels = shapes[s].channels,
        .heads = shapes[s].heads,
        .kv_heads = shapes[s].heads,
        .hidden = 4 * shapes[s].channels,
        .context = shapes[s].time,
        .vocab = shapes[s].vocab,
        .tied = true,
        .norm_eps = 1e-5,
        .dtype = is_setting("DTYPE", "bf16", "fp32") ? CADRE_BF16 : CADRE_F32};
    cadre_status rc = cadre_device_open(&device, &cpu, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    test_trainer_open_on(t, cpu, &model, 0, 1, shapes[s].batch, shapes[s].time);
    test_trainer_random_batch(t, 1, t->B, t->T);
}

static void step(struct test_trainer *t, int number)
{
    const struct cadre_optimizer_config adamw = {.kind = CADRE_OPTIMIZER_ADAMW,
                                                 .lr = 1e-4,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.95,
                                                 .eps = 1e-8};
    trace.n_kinds = 0;
    memset(trace.kind, 0, sizeof trace.kind);
    trace.last = cadre_now_s();
    test_trainer_forward(t, t->B, t->T);
    test_trainer_backward(t, false);
    const double norm = test_trainer_grad_norm(t);
    test_trainer_step(t, &adamw, number, norm > 1 ? 1 / norm : 1);
    between_jobs(cadre_now_s());
}

struct totals {
    double work, span, serial, jobs;
};

static struct totals totals_of(void)
{
    struct totals sum = {0};
    for (int i = 0; i < trace.n_kinds; i++) {
        sum.work += trace.kind[i].work;
        sum.span += trace.kind[i].span;
        sum.serial += trace.kind[i].fn ? 0 : trace.kind[i].work;
        sum.jobs += trace.kind[i].jobs;
    }
    return sum;
}

/* Largest first. */
static int by_loss(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;
    const double lost_x = x->span - x->work / trace.threads;
    const double lost_y = y->span - y->work / trace.threads;
    return (lost_x < lost_y) - (lost_x > lost_y);
}

static void print_kinds(double span)
{
    extern char __executable_start[];
    printf("\n| function | of one thread's step | jobs | tiles | waited for at %d "
           "threads |\n|---|---|---|---|---|\n",
           trace.threads);
    const double work = totals_of().work;
    qsort(trace.kind, (size_t)trace.n_kinds, sizeof *trace.kind, by_loss);
    for (int i = 0; i < trace.n_kinds; i++) {
        const struct kind *k = &trace.kind[i];
        const double lost = k->span - k->work / trace.threads;
        if (lost < 0.005 * span)
            continue;
        if (k->fn)
            printf("| %#lx |",
                   (unsigned long)((uintptr_t)k->fn - (uintptr_t)__executable_start));
        else
            printf("| - |");
        printf(" %.1f %% | %.0f | %.0f | %.1f %% |\n", 100 * k->work / work, k->jobs,
               k->tiles, 100 * lost / span);
    }
}

START_TEST(measure)
{
    const int steps = setting("STEPS", 3, MOST_STEPS);
    const int at = setting("AT", 16, MOST_THREADS);
    struct trace lost = {.threads = 1};
    double span = 1, alone = 0; /* seconds of a step on one thread */
    printf("| threads | speed-up at most | efficiency | jobs | between jobs, of one "
           "thread's step |\n|---|---|---|---|---|\n");
    for (int threads = 1; threads <= MOST_THREADS; threads *= 2) {
        double spans[MOST_STEPS];
        struct test_trainer t;
        struct totals sum = {0};
        trace.threads = threads;
        open_trainer(&t, threads);
        test_trainer_init(&t, 1);
        for (int i = 0; i <= steps; i++) {
            step(&t, i + 1);
            sum = totals_of();
            if (i > 0)
                spans[i - 1] = sum.span;
        }
        const double median = cadre_median(spans, (size_t)steps);
        alone = threads == 1 ? median : alone;
        printf("| %d | %.2f | %.0f %% | %.0f | %.2f %% |\n", threads, alone / median,
               100 * alone / median / threads, sum.jobs, 100 * sum.serial / sum.work);
        if (threads == at) {
            lost = trace;
            span = sum.span;
        }
        test_trainer_close(&t);
    }
    trace = lost;
    print_kinds(span);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("bench_scaling");
    TCase *tcase = tcase_create("measure");
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, measure);
    suite_add_tcase(suite, tcase);
    return suite;
}
