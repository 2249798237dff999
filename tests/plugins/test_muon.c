/* SPDX-License-Identifier: Apache-2.0 */
/* muon against an implementation in plain fp64 loops, and against itself under every
 * stack. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/init.h"
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

/* ---- the file ---- */

START_TEST(exports_one_symbol)
{
    built_plugin_exports_its_entry(built_plugin_load("muon"));
}
END_TEST

START_TEST(describes_itself)
{
    const struct cadre_plugin_handle *muon = built_plugin_load("muon");
    ck_assert_str_eq(muon->desc.id, "org.cadre.muon");
    ck_assert_ptr_null(muon->desc.axis);
    ck_assert_uint_eq(muon->desc.role, CADRE_ROLE_OPTIMIZER);
}
END_TEST

/* ---- the reference ---- */

enum { PARAMS = 40, STEPS = 3 };
static double *start[PARAMS]; /* initial values */
static double *grad[STEPS + 1][PARAMS]; /* at the initial values, by step */
static double *moved[STEPS + 1][PARAMS]; /* the values that muon made of these */
static struct cadre_param param[PARAMS];
static uint32_t n_params, n_units;
static double clipped[STEPS + 1]; /* the factor of the gradients */

static double *copy_of(const double *x, uint64_t n)
{
    double *copy = malloc(n * sizeof *copy);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, x, n * sizeof *copy);
    return copy;
}

static uint64_t count_of(uint32_t i)
{
    return cadre_shape_count(&param[i].shape);
}

/* SGD with a learning rate of 0 leaves the gradients. */
static void take_gradients(struct cadre_rank *rank, int step)
{
    const struct cadre_store *store = &rank->store;
    n_params = store->model->n_params;
    n_units = store->model->n_units;
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

/* out (m, n) = x (m, k) y (k, n), or x y^T where y is (n, k). */
static void times(double *out, const double *x, const double *y, int m, int n, int k,
                  bool transposed)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += x[i * k + l] * (transposed ? y[j * k + l] : y[l * n + j]);
            out[i * n + j] = sum;
        }
}

enum { SIDE = 64 };

/* x (m, n) = NS(x), always with X X^T, as the paper writes it. */
static void newton_schulz(double *x, int m, int n, int steps)
{
    static double gram[SIDE * SIDE], square[SIDE * SIDE], next[SIDE * SIDE];
    double norm = 0;
    for (int i = 0; i < m * n; i++)
        norm += x[i] * x[i];
    for (int i = 0; i < m * n; i++)
        x[i] /= sqrt(norm) + 1e-7;
    for (int step = 0; step < steps; step++) {
        times(gram, x, x, m, m, n, true);
        times(square, gram, gram, m, m, m, false);
        for (int i = 0; i < m * m; i++)
            gram[i] = -4.7750 * gram[i] + 2.0315 * square[i];
        times(next, gram, x, m, n, m, false);
        for (int i = 0; i < m * n; i++)
            x[i] = 3.4445 * x[i] + next[i];
    }
}

struct settings {
    double lr, decay, momentum;
    bool nesterov, match_rms;
    int ns_steps;
};

/* Columns [first, first + n) of a matrix of `columns`, orthogonalized. */
static void orthogonalize(double *x, int rows, int columns, int first, int n, int steps)
{
    static double part[SIDE * SIDE];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < n; c++)
            part[r * n + c] = x[r * columns + first + c];
    newton_schulz(part, rows, n, steps);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < n; c++)
            x[r * columns + first + c] = part[r * n + c];
}

/* GPT-2's matrices are stored (in, out). */
static void check_hidden(uint32_t i, const struct settings *s)
{
    const int rows = (int)param[i].shape.dim[0], columns = (int)param[i].shape.dim[1];
    const uint64_t n = count_of(i);
    const bool packed = strstr(param[i].name, "c_attn") != NULL;
    const int parts = packed ? 3 : 1, width = columns / parts;
    const double more = fmax(rows, width);
    const double scale =
        s->match_rms ? 0.2 * sqrt(more) : sqrt(fmax(1, (double)width / rows));
    double *momentum = calloc(n, sizeof *momentum), *update = calloc(n, sizeof *update);
    for (int step = 1; step <= STEPS; step++) {
        for (uint64_t e = 0; e < n; e++) {
            const double g = grad[step][i][e] * clipped[step];
            momentum[e] = s->momentum * momentum[e] + g;
            update[e] = s->nesterov ? g + s->momentum * momentum[e] : momentum[e];
        }
        for (int p = 0; p < parts; p++)
            orthogonalize(update, rows, columns, p * width, width, s->ns_steps);
        for (uint64_t e = 0; e < n; e++) {
            const double want =
                start[i][e] * (1 - s->lr * s->decay) - s->lr * scale * update[e];
            ck_assert_msg(fabs(moved[step][i][e] - want) <= 1e-9 * s->lr,
                          "%s[%llu] is %.17g at step %d, expected %.17g", param[i].name,
                          (unsigned long long)e, moved[step][i][e], step, want);
        }
    }
    free(momentum);
    free(update);
}

static void check_other(uint32_t i, const struct settings *s)
{
    const double decay = param[i].shape.ndim == 2 ? s->decay : 0;
    for (uint64_t e = 0; e < count_of(i); e++) {
        double m = 0, v = 0;
        for (int step = 1; step <= STEPS; step++) {
            const double g = grad[step][i][e] * clipped[step], lr = 0.5 * s->lr;
            m = 0.8 * m + 0.2 * g;
            v = 0.9 * v + 0.1 * g * g;
            const double root = sqrt(v / (1 - pow(0.9, step))) + 1e-6;
            const double want =
                start[i][e] * (1 - lr * decay) - lr * m / (1 - pow(0.8, step)) / root;
            ck_assert_msg(fabs(moved[step][i][e] - want) <= 1e-9 * lr,
                          "%s[%llu] is %.17g at step %d, expected %.17g", param[i].name,
                          (unsigned long long)e, moved[step][i][e], step, want);
        }
    }
}

#define FP64 "train.precision=fp64 optim.weight_decay=0.25 optim.clip=0.1 "
#define OTHERS                                                                         \
    "muon.adamw_lr=0.5 muon.adamw_beta1=0.8 muon.adamw_beta2=0.9 "                     \
    "muon.adamw_eps=1e-6 "

static const struct {
    const char *sets;
    struct settings settings;
} references[] = {
    {"", {0.01, 0.25, 0.95, true, true, 5}},
    {"muon.nesterov=no muon.momentum=0.5", {0.01, 0.25, 0.5, false, true, 5}},
    {"muon.adjust_lr=original muon.ns_steps=4", {0.01, 0.25, 0.95, true, false, 4}},
};
enum { REFERENCES = sizeof references / sizeof *references };

/* Three steps of every parameter: momentum, moments, clipping, decay, both sizes of an
 * update. One that is applied in each micro-batch, or AdamW in place of Muon, is not
 * this. */
START_TEST(it_computes_what_it_says)
{
    char sets[300];
    int hidden = 0;
    single.each = take_gradients;
    thread_run(&single, FP64 "optim.name=sgd optim.lr=0");
    for (int step = 1; step <= STEPS; step++)
        clipped[step] = fmin(1, 0.1 / (single.norm[step] + 1e-6));
    ck_assert_double_lt(clipped[1], 1);
    run.each = take_values;
    snprintf(sets, sizeof sets, FP64 OTHERS "optim.name=muon optim.lr=0.01 %s",
             references[_i].sets);
    thread_run(&run, sets);
    for (uint32_t i = 0; i < n_params; i++) {
        if (param[i].tied_to >= 0)
            continue;
        const bool block = param[i].unit > 0 && param[i].unit + 1 < n_units;
        if (block && param[i].shape.ndim == 2) {
            check_hidden(i, &references[_i].settings);
            hidden++;
        } else {
            check_other(i, &references[_i].settings);
        }
    }
    ck_assert_int_eq(hidden, 8); /* four of each block */
    free_all();
}
END_TEST

/* Llama's matrices are stored (out, in): the size of the update follows the features,
 * so gate and down, of which one is the other turned, are told apart. */
static double size_of[PARAMS];

static void take_sizes(struct cadre_rank *rank, int step)
{
    const struct cadre_store *store = &rank->store;
    n_params = store->model->n_params;
    for (uint32_t i = 0; i < n_params && step == 1; i++) {
        const double *now = store->param[i].data;
        param[i] = store->model->params[i];
        size_of[i] = 0;
        double *was = calloc(store->param[i].count, sizeof *was);
        ck_assert_ptr_nonnull(was);
        cadre_model_init_range(store->model, i, rank->spec->seed, 0,
                               store->param[i].count, was);
        for (uint64_t e = 0; e < store->param[i].count; e++)
            size_of[i] += (now[e] - was[e]) * (now[e] - was[e]);
        size_of[i] = sqrt(size_of[i]);
        free(was);
    }
}

START_TEST(sizes_follow_the_features)
{
    double total[2] = {0, 0}; /* of gate and of down */
    int checked = 0;
    run.steps = 1;
    run.each = take_sizes;
    thread_run(&run, "train.precision=fp64 optim.weight_decay=0 optim.lr=0.01 "
                     "optim.name=muon muon.adjust_lr=original model.arch=llama "
                     "model.hidden=64");
    for (uint32_t i = 0; i < n_params; i++) {
        const bool gate = strstr(param[i].name, "gate_proj") != NULL;
        const bool down = strstr(param[i].name, "down_proj") != NULL;
        if (!gate && !down)
            continue;
        /* 16 singular values of up to 1.2, some of which may not have come so far */
        const double want = 0.01 * sqrt(16) * (gate ? 2 : 1);
        ck_assert_double_gt(size_of[i], 0.3 * want);
        ck_assert_double_lt(size_of[i], 1.25 * want);
        total[down] += size_of[i];
        checked++;
    }
    ck_assert_int_eq(checked, 4);
    ck_assert_double_gt(total[0], 1.2 * total[1]);
}
END_TEST

/* ---- equality ---- */

#define SIZED "optim.name=muon run.exact=yes model.channels=64 model.heads=4 "

static const char *const exact[] = {
    "ddp:2",
    "ddp:4 train.micro_batch=1",
    "zero:2 zero.stage=1",
    "zero:2 zero.stage=2",
    "zero:4 zero.stage=3 train.micro_batch=1",
    "zero:2 zero.stage=3 train.recompute=block model.arch=llama",
    "zero:2 zero.stage=2 train.precision=bf16",
    "zero:2 zero.stage=1 train.precision=fp64 optim.clip=0.1",
    "zero:2 zero.offload=optimizer",
    "pipeline:2",
    "pipeline:2,zero:2 zero.stage=1",
    "hsdp:2,zero:2 zero.stage=2",
};
enum { EXACT = sizeof exact / sizeof *exact };

START_TEST(has_the_bits_of_single)
{
    char sets[300];
    const size_t n = strcspn(exact[_i], " ");
    snprintf(sets, sizeof sets, SIZED "strategy.stack=single%s", exact[_i] + n);
    thread_run(&single, sets);
    snprintf(sets, sizeof sets, SIZED "strategy.stack=%s", exact[_i]);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s differs by %g", exact[_i],
                  thread_runs_differ(&single, &run));
}
END_TEST

/* The bits among runs of one tensor size; those of `single` within rounding, which the
 * iteration amplifies. */
static const char *const tensor[] = {
    "tensor:2,ddp:2",
    "tensor:2,zero:2 zero.stage=1",
    "zero:2,tensor:2 zero.stage=3",
    "pipeline:2,tensor:2",
};
enum { TENSOR = sizeof tensor / sizeof *tensor };

START_TEST(has_the_bits_of_its_tensor_size)
{
    char sets[300];
    struct thread_run plain = single;
    thread_run(&single, SIZED "strategy.stack=tensor:2");
    thread_run(&plain, SIZED);
    snprintf(sets, sizeof sets, SIZED "strategy.stack=%s", tensor[_i]);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s differs by %g", tensor[_i],
                  thread_runs_differ(&single, &run));
    ck_assert_double_lt(thread_runs_differ(&single, &plain), 1e-4);
}
END_TEST

/* Micro-batches are summed before the update: their number makes no difference. */
START_TEST(one_update_a_step)
{
    thread_run(&single, "optim.name=muon train.precision=fp64 train.micro_batch=8");
    thread_run(&run, "optim.name=muon train.precision=fp64 train.micro_batch=1");
    ck_assert_double_lt(thread_runs_differ(&single, &run), 1e-9);
    thread_run(&run, "optim.name=adamw train.precision=fp64 train.micro_batch=8");
    ck_assert_double_gt(thread_runs_differ(&single, &run), 1e-6);
}
END_TEST

START_TEST(it_learns)
{
    run.steps = 12;
    thread_run(&run, "optim.name=muon optim.lr=0.01");
    ck_assert_double_lt(run.loss[12], run.loss[1] - 0.5);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("muon");
    TCase *tc = tcase_create("muon");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, exports_one_symbol);
    tcase_add_test(tc, describes_itself);
    tcase_add_loop_test(tc, it_computes_what_it_says, 0, REFERENCES);
    tcase_add_test(tc, sizes_follow_the_features);
    tcase_add_loop_test(tc, has_the_bits_of_single, 0, EXACT);
    tcase_add_loop_test(tc, has_the_bits_of_its_tensor_size, 0, TENSOR);
    tcase_add_test(tc, one_update_a_step);
    tcase_add_test(tc, it_learns);
    suite_add_tcase(suite, tc);
    return suite;
}
