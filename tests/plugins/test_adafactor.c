/* SPDX-License-Identifier: Apache-2.0 */
/* adafactor against an implementation in plain fp64 loops, and against itself under
 * every stack. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/thread_run.h"
#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"

static struct spec_fixture f;
static struct thread_run single, run;

static void setup(void)
{
    spec_fixture_open(&f);
    single = run = (struct thread_run){.fixture = &f, .steps = 3};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

START_TEST(describes_itself)
{
    const struct cadre_plugin_handle *plugin = built_plugin_load("adafactor");
    built_plugin_exports_its_entry(plugin);
    ck_assert_str_eq(plugin->desc.id, "org.cadre.adafactor");
    ck_assert_ptr_null(plugin->desc.axis);
    ck_assert_uint_eq(plugin->desc.role, CADRE_ROLE_OPTIMIZER);
}
END_TEST

/* ---- the reference ---- */

enum { PARAMS = 40, STEPS = 3 };
static double *start[PARAMS]; /* initial values */
static double *grad[STEPS + 1][PARAMS]; /* at the initial values, by step */
static double *moved[STEPS + 1][PARAMS]; /* the values that adafactor made of these */
static struct cadre_param param[PARAMS];
static uint32_t n_params;
static double clipped[STEPS + 1]; /* the factor of the gradients */

static double *copy_of(const double *x, uint64_t n)
{
    double *copy = malloc(n * sizeof *copy);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, x, n * sizeof *copy);
    return copy;
}

/* SGD with a learning rate of 0 leaves the gradients. */
static void take_gradients(struct cadre_rank *rank, int step)
{
    const struct cadre_store *store = &rank->store;
    n_params = store->model->n_params;
    ck_assert_uint_le(n_params, PARAMS);
    for (uint32_t i = 0; i < n_params; i++) {
        param[i] = store->model->params[i];
        if (param[i].tied_to >= 0)
            continue;
        grad[step][i] = copy_of(store->param[i].grad, store->param[i].count);
        if (step == 1)
            start[i] = copy_of(store->param[i].data, store->param[i].count);
    }
}

/* Every step begins with the initial values, so that the gradients are those above. */
static void take_values(struct cadre_rank *rank, int step)
{
    const struct cadre_store *store = &rank->store;
    for (uint32_t i = 0; i < n_params; i++) {
        if (param[i].tied_to >= 0)
            continue;
        moved[step][i] = copy_of(store->param[i].data, store->param[i].count);
        memcpy(store->param[i].data, start[i], store->param[i].count * sizeof(double));
    }
}

static void free_all(void)
{
    for (uint32_t i = 0; i < n_params; i++) {
        free(start[i]);
        for (int step = 1; step <= STEPS; step++) {
            free(grad[step][i]);
            free(moved[step][i]);
        }
    }
}

struct settings {
    double decay, clip, eps;
};

enum { SIDE = 512 };

/* update (n, m) of a matrix: algorithm 4, its sums as the paper writes them. */
static void factored(double *update, const double *g, int n, int m, double beta,
                     double eps, double *row, double *column)
{
    double total = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < m; j++)
            sum += g[i * m + j] * g[i * m + j] + eps;
        row[i] = beta * row[i] + (1 - beta) * sum;
        total += row[i];
    }
    for (int j = 0; j < m; j++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += g[i * m + j] * g[i * m + j] + eps;
        column[j] = beta * column[j] + (1 - beta) * sum;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            update[i * m + j] = g[i * m + j] / sqrt(row[i] * column[j] / total);
}

static void check_param(uint32_t i, const struct settings *s, double lr, double decay)
{
    const bool matrix = param[i].shape.ndim == 2;
    const int n = matrix ? (int)param[i].shape.dim[0] : 1;
    const int m = (int)param[i].shape.dim[matrix ? 1 : 0];
    const int count = n * m;
    static double row[SIDE], column[SIDE];
    double *update = calloc((size_t)count, sizeof *update);
    double *g = calloc((size_t)count, sizeof *g);
    double *v = calloc((size_t)count, sizeof *v);
    ck_assert(update && g && v && n <= SIDE && m <= SIDE);
    memset(row, 0, sizeof row);
    memset(column, 0, sizeof column);
    for (int step = 1; step <= STEPS; step++) {
        const double beta = 1 - pow(step, -s->decay);
        double squares = 0;
        for (int e = 0; e < count; e++) {
            g[e] = grad[step][i][e] * clipped[step];
            v[e] = beta * v[e] + (1 - beta) * (g[e] * g[e] + s->eps);
            update[e] = g[e] / sqrt(v[e]);
        }
        if (matrix)
            factored(update, g, n, m, beta, s->eps, row, column);
        for (int e = 0; e < count; e++)
            squares += update[e] * update[e];
        const double over = fmax(1, sqrt(squares / count) / s->clip);
        for (int e = 0; e < count; e++) {
            const double want =
                start[i][e] * (1 - lr * (matrix ? decay : 0)) - lr * update[e] / over;
            ck_assert_msg(fabs(moved[step][i][e] - want) <= 1e-9 * lr,
                          "%s[%d] is %.17g at step %d, expected %.17g", param[i].name,
                          e, moved[step][i][e], step, want);
        }
    }
    free(update);
    free(g);
    free(v);
}

#define FP64 "train.precision=fp64 optim.weight_decay=0.25 optim.clip=0.1 "

static const struct {
    const char *sets;
    struct settings settings;
} references[] = {
    {"", {0.8, 1, 1e-30}},
    {"adafactor.decay=0.5 adafactor.clip=0.3 adafactor.eps=1e-6", {0.5, 0.3, 1e-6}},
};
enum { REFERENCES = sizeof references / sizeof *references };

/* Three steps of every parameter: factors, decay of the moment, both clippings. */
START_TEST(it_computes_what_it_says)
{
    char sets[300];
    single.each = take_gradients;
    thread_run(&single, FP64 "optim.name=sgd optim.lr=0");
    for (int step = 1; step <= STEPS; step++)
        clipped[step] = fmin(1, 0.1 / (single.norm[step] + 1e-6));
    ck_assert_double_lt(clipped[1], 1);
    run.each = take_values;
    snprintf(sets, sizeof sets, FP64 "optim.name=adafactor optim.lr=0.01 %s",
             references[_i].sets);
    thread_run(&run, sets);
    for (uint32_t i = 0; i < n_params; i++)
        if (param[i].tied_to < 0)
            check_param(i, &references[_i].settings, 0.01, 0.25);
    free_all();
}
END_TEST

/* ---- equality ---- */

#define SIZED                                                                          \
    "optim.name=adafactor run.exact=yes model.channels=66 model.heads=6 "              \
    "optim.clip=0.1 "

static const char *const exact[] = {
    "ddp:2",
    "zero:2 zero.stage=1",
    "zero:2 zero.stage=2 train.micro_batch=1",
    "zero:4 zero.stage=3 train.micro_batch=1",
    "zero:2 zero.stage=3 train.recompute=block model.arch=llama model.channels=72",
    "zero:2 zero.stage=2 train.precision=bf16",
    "zero:4 zero.stage=1 train.precision=fp64 train.micro_batch=1",
    "zero:2 zero.offload=optimizer",
    "pipeline:2",
    "pipeline:2,zero:2 zero.stage=1",
    "hsdp:2,zero:2 zero.stage=2",
};
enum { EXACT = sizeof exact / sizeof *exact };

START_TEST(has_the_bits_of_single)
{
    char sets[400];
    const size_t n = strcspn(exact[_i], " ");
    snprintf(sets, sizeof sets, SIZED "strategy.stack=single%s", exact[_i] + n);
    thread_run(&single, sets);
    snprintf(sets, sizeof sets, SIZED "strategy.stack=%s", exact[_i]);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s differs by %g", exact[_i],
                  thread_runs_differ(&single, &run));
}
END_TEST

static const char *const tensor[] = {
    "tensor:2,ddp:2",
    "tensor:2,zero:2 zero.stage=1",
    "zero:2,tensor:2 zero.stage=3",
    "pipeline:2,tensor:2",
};
enum { TENSOR = sizeof tensor / sizeof *tensor };

static const char *const forms[] = {
    "model.channels=72 model.heads=6",
    "model.arch=llama model.channels=72 model.kv_heads=2 model.tied=no",
};
enum { FORMS = sizeof forms / sizeof *forms };

/* With run.exact_parts; GPT-2's form has biases that tensor shards. */
START_TEST(tensor_has_the_bits_of_single)
{
    const char *form = forms[_i / TENSOR], *stack = tensor[_i % TENSOR];
    char sets[512];
    snprintf(sets, sizeof sets, SIZED "run.exact_parts=2 %s strategy.stack=single",
             form);
    thread_run(&single, sets);
    snprintf(sets, sizeof sets, SIZED "run.exact_parts=2 %s strategy.stack=%s", form,
             stack);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s, %s differs by %g", form, stack,
                  thread_runs_differ(&single, &run));
}
END_TEST

START_TEST(has_the_bits_of_its_tensor_size)
{
    char sets[400];
    struct thread_run plain = single;
    thread_run(&single, SIZED "strategy.stack=tensor:2");
    thread_run(&plain, SIZED);
    snprintf(sets, sizeof sets, SIZED "strategy.stack=%s", tensor[_i]);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s differs by %g", tensor[_i],
                  thread_runs_differ(&single, &run));
    ck_assert_double_lt(thread_runs_differ(&single, &plain), 1e-3);
}
END_TEST

/* Micro-batches are summed before the update: their number makes no difference. */
START_TEST(one_update_a_step)
{
    thread_run(&single,
               "optim.name=adafactor train.precision=fp64 train.micro_batch=8");
    thread_run(&run, "optim.name=adafactor train.precision=fp64 train.micro_batch=1");
    ck_assert_double_lt(thread_runs_differ(&single, &run), 1e-9);
    thread_run(&run, "optim.name=adamw train.precision=fp64 train.micro_batch=8");
    ck_assert_double_gt(thread_runs_differ(&single, &run), 1e-6);
}
END_TEST

START_TEST(it_learns)
{
    single.steps = run.steps = 12;
    thread_run(&single, "optim.name=adamw optim.lr=0.01");
    thread_run(&run, "optim.name=adafactor optim.lr=0.01");
    ck_assert_double_gt(single.loss[1] - single.loss[12], 0.3);
    ck_assert_double_gt(run.loss[1] - run.loss[12],
                        0.7 * (single.loss[1] - single.loss[12]));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("adafactor");
    TCase *tc = tcase_create("adafactor");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, describes_itself);
    tcase_add_loop_test(tc, it_computes_what_it_says, 0, REFERENCES);
    tcase_add_loop_test(tc, has_the_bits_of_single, 0, EXACT);
    tcase_add_loop_test(tc, has_the_bits_of_its_tensor_size, 0, TENSOR);
    tcase_add_loop_test(tc, tensor_has_the_bits_of_single, 0, FORMS * TENSOR);
    tcase_add_test(tc, one_update_a_step);
    tcase_add_test(tc, it_learns);
    suite_add_tcase(suite, tc);
    return suite;
}
