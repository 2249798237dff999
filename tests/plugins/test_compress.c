/* SPDX-License-Identifier: Apache-2.0 */
/* ddp.compress: every mode on ranks that are threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_ranks.h"

static const struct cadre_plugin_handle *ddp;
static struct fake_ranks all;
static const char *bucket_mb;

/* The modes with residuals come last. */
static const char *const modes[] = {"bf16",       "fp16",       "int8",
                                    "topk:1",     "topk:0.1",   "topk:0.0001",
                                    "powersgd:1", "powersgd:3", "onebit:1"};
enum { MODES = sizeof modes / sizeof *modes, FIRST_KEEPING = 2 };

/* Steps until a mode compresses. */
static int first_of(const char *mode)
{
    return strcmp(mode, "onebit:1") == 0 ? 2 : 1;
}

#define N_PARAMS 3

/* Values of many magnitudes, others on every rank and in every step. */
static double rough(const struct fake_host *fake, cadre_param_id id, uint64_t i)
{
    uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u +
                 (uint64_t)fake->axis.index * 0x632be59bd9b4e019u +
                 id * 0xd1342543de82ef95u + (uint64_t)fake->steps * 0xaf251af3b0f025b5u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 31;
    return ((double)(h & 0xffff) / 32768 - 1) / (double)(1 + (h >> 60));
}

static double zero(const struct fake_host *fake, cadre_param_id id, uint64_t i)
{
    return 0;
}

static void set_entry(cadre_param_id id, uint64_t rows, uint64_t columns)
{
    all.rank[0].entry[id].count = rows * (columns ? columns : 1);
    all.rank[0].entry[id].columns = columns;
}

/* Two matrices and a vector between them on n ranks. */
static void open_ranks(int n, uint32_t dtype)
{
    fake_ranks_init(&all, &ddp->ops, n, N_PARAMS);
    all.rank[0].dtype = dtype;
    set_entry(0, 40, 30);
    set_entry(1, 77, 0);
    set_entry(2, 20, 33);
    all.rank[0].gradient = rough;
    fake_set(&all.rank[0], "overlap", "%s", "yes");
    fake_set(&all.rank[0], "bucket_mb", "%s", bucket_mb);
    fake_set(&all.rank[0], "compress", "%s", "none");
    fake_set(&all.rank[0], "level", "0");
    fake_set(&all.rank[0], "node", "0");
}

static void setup(void)
{
    ddp = built_plugin_load("ddp");
    bucket_mb = "25";
    open_ranks(2, CADRE_F32);
}

static void teardown(void)
{
    fake_ranks_fini(&all);
}

static void restart_as(const char *mode, int n, uint32_t dtype)
{
    fake_ranks_fini(&all);
    open_ranks(n, dtype);
    fake_set(&all.rank[0], "compress", "%s", mode);
    cadre_status rc = fake_ranks_start(&all);
    ck_assert_msg(rc == CADRE_OK, "%s: %s", mode, all.rank[0].failure);
}

static void restart(const char *mode, int n)
{
    restart_as(mode, n, CADRE_F32);
}

static uint64_t count_of(cadre_param_id id)
{
    return all.rank[0].entry[id].count;
}

static double sum_of(cadre_param_id id, uint64_t i)
{
    double sum = 0;
    for (int r = 0; r < all.n; r++) {
        double value = all.rank[0].gradient(&all.rank[r], id, i);
        sum += all.rank[0].dtype == CADRE_F64 ? value : (double)(float)value;
    }
    return sum;
}

/* ---- residuals, as a checkpoint sees them ---- */

enum { SLOTS = 2 * N_PARAMS, BLOBS = 8 };

struct residuals {
    double *sum[SLOTS]; /* over the ranks asked; then those of tied entries */
    int tensors, blobs;
    int rank; /* that is asked now */
    uint64_t held; /* of onebit */
    char *blob[FAKE_RANKS][BLOBS];
    uint64_t bytes[FAKE_RANKS][BLOBS];
    bool only_tensors;
};

static double *slot_of(struct residuals *kept, const char *key, cadre_param_id id)
{
    bool tied = strcmp(key, "residual_tied") == 0;
    ck_assert(tied || strcmp(key, "residual") == 0);
    double **slot = &kept->sum[id + (tied ? N_PARAMS : 0)];
    if (!*slot)
        *slot = calloc(count_of(id), sizeof **slot);
    return *slot;
}

static cadre_status save_tensor(void *h, const char *key, cadre_param_id id,
                                uint32_t combine, uint64_t begin,
                                const struct cadre_buf *data)
{
    struct residuals *kept = h;
    double *sum = slot_of(kept, key, id);
    ck_assert_uint_eq(combine, CADRE_STATE_SUM);
    ck_assert_uint_eq(begin + data->count, count_of(id));
    ck_assert_int_eq(all.rank[0].entry[id].tied_to, -1);
    for (uint64_t i = 0; i < data->count; i++)
        sum[i] += data->dtype == CADRE_F64 ? ((const double *)data->data)[i]
                                           : (double)((float *)data->data)[i];
    kept->tensors++;
    return CADRE_OK;
}

static cadre_status load_tensor(void *h, const char *key, cadre_param_id id,
                                uint32_t combine, uint64_t begin,
                                const struct cadre_buf *data)
{
    const double *sum = slot_of(h, key, id);
    for (uint64_t i = 0; i < data->count; i++)
        ((float *)data->data)[i] = (float)(sum[i] / all.n);
    return CADRE_OK;
}

static int blob_number(const char *key)
{
    ck_assert(strncmp(key, "bucket_", 7) == 0 && atoi(key + 7) < BLOBS);
    return atoi(key + 7);
}

static cadre_status save_blob(void *h, const char *key, uint32_t version,
                              uint32_t policy, void *data, uint64_t bytes)
{
    struct residuals *kept = h;
    if (strcmp(key, "held") == 0) {
        ck_assert_uint_eq(policy, CADRE_BLOB_REPLICATED);
        memcpy(&kept->held, data, bytes);
        return CADRE_OK;
    }
    int n = blob_number(key);
    ck_assert_uint_eq(policy, CADRE_BLOB_DROPPABLE);
    free(kept->blob[kept->rank][n]);
    kept->blob[kept->rank][n] = malloc(bytes);
    kept->bytes[kept->rank][n] = bytes;
    memcpy(kept->blob[kept->rank][n], data, bytes);
    kept->blobs++;
    return CADRE_OK;
}

/* Left as it is where there is none, or one of another size. */
static cadre_status load_blob(void *h, const char *key, uint32_t version,
                              uint32_t policy, void *data, uint64_t bytes)
{
    const struct residuals *kept = h;
    if (strcmp(key, "held") == 0) {
        memcpy(data, &kept->held, bytes);
        return CADRE_OK;
    }
    int n = blob_number(key);
    if (!kept->only_tensors && kept->bytes[kept->rank][n] == bytes)
        memcpy(data, kept->blob[kept->rank][n], bytes);
    return CADRE_OK;
}

static void ask_all(struct residuals *kept, bool saving)
{
    const struct cadre_state_sink sink = {
        .struct_size = sizeof sink,
        .saving = saving,
        .h = kept,
        .blob = saving ? save_blob : load_blob,
        .tensor = saving ? save_tensor : load_tensor,
    };
    for (kept->rank = 0; kept->rank < all.n; kept->rank++)
        ck_assert_int_eq(ddp->ops.state(all.rank[kept->rank].self, &sink), CADRE_OK);
}

static void residuals_free(struct residuals *kept)
{
    for (int i = 0; i < SLOTS; i++)
        free(kept->sum[i]);
    for (int r = 0; r < FAKE_RANKS; r++)
        for (int n = 0; n < BLOBS; n++)
            free(kept->blob[r][n]);
    memset(kept, 0, sizeof *kept);
}

/* ---- sums ---- */

START_TEST(all_ranks_have_the_same_bits)
{
    for (uint32_t dtype = CADRE_F32; dtype <= CADRE_F64; dtype++)
        for (int n = 2; n <= 5; n++) {
            restart_as(modes[_i], n, dtype);
            for (int step = 0; step < 3; step++) {
                fake_ranks_step(&all);
                ck_assert_msg(fake_ranks_same(&all), "%s, %d ranks", modes[_i], n);
            }
        }
}
END_TEST

/* The sums and the residuals together are the gradients, up to rounding. */
START_TEST(nothing_is_lost)
{
    for (int n = 2; n <= 3; n++) {
        struct residuals kept = {0};
        double *arrived[N_PARAMS], *given[N_PARAMS];
        restart(modes[_i], n);
        for (uint32_t id = 0; id < N_PARAMS; id++) {
            arrived[id] = calloc(count_of(id), sizeof(double));
            given[id] = calloc(count_of(id), sizeof(double));
        }
        for (int step = 0; step < 6; step++) {
            fake_ranks_step(&all);
            for (uint32_t id = 0; id < N_PARAMS; id++)
                for (uint64_t i = 0; i < count_of(id); i++) {
                    arrived[id][i] += fake_gradient(&all.rank[0], id, i);
                    given[id][i] += sum_of(id, i);
                }
        }
        ask_all(&kept, true);
        ck_assert_int_ge(kept.tensors, 2 * n);
        for (uint32_t id = 0; id < N_PARAMS; id++) {
            for (uint64_t i = 0; i < count_of(id); i++)
                ck_assert_double_eq_tol(arrived[id][i] +
                                            (kept.sum[id] ? kept.sum[id][i] : 0),
                                        given[id][i], 6 * n * 4e-6);
            free(arrived[id]);
            free(given[id]);
        }
        residuals_free(&kept);
    }
}
END_TEST

START_TEST(dense_sums_are_near)
{
    static const double limit[] = {0x1p-7, 0x1p-10, 1.0 / 127};
    restart(modes[_i], 4);
    fake_ranks_step(&all);
    for (uint32_t id = 0; id < N_PARAMS; id++)
        for (uint64_t i = 0; i < count_of(id); i++)
            ck_assert_double_eq_tol(fake_gradient(&all.rank[2], id, i), sum_of(id, i),
                                    5 * limit[_i]);
}
END_TEST

/* Two ranks of a matrix that is one product each: rank 2 finds the sum at once. */
static double product(const struct fake_host *fake, cadre_param_id id, uint64_t i)
{
    uint64_t columns = fake->entry[id].columns ? fake->entry[id].columns : 1;
    int rank = fake->axis.index;
    return (1 + sin((double)(i / columns) + rank)) *
           cos((double)(i % columns) * (rank + 2));
}

START_TEST(low_rank_is_found)
{
    restart("powersgd:2", 2);
    all.rank[0].gradient = product;
    fake_ranks_step(&all);
    for (uint32_t id = 0; id < N_PARAMS; id++)
        for (uint64_t i = 0; i < count_of(id); i++)
            ck_assert_double_eq_tol(fake_gradient(&all.rank[1], id, i), sum_of(id, i),
                                    2e-5);
    ck_assert(fake_gradient(&all.rank[0], 1, 5) ==
              (double)((float)product(&all.rank[0], 1, 5) +
                       (float)product(&all.rank[1], 1, 5)));
}
END_TEST

START_TEST(the_largest_are_sent_unchanged)
{
    uint64_t whole = 0, n = count_of(0);
    restart("topk:0.1", 2);
    fake_ranks_step(&all);
    for (uint64_t i = 0; i < n; i++) {
        double a = (double)(float)rough(&all.rank[0], 0, i);
        double b = (double)(float)rough(&all.rank[1], 0, i), got;
        got = fake_gradient(&all.rank[0], 0, i);
        ck_assert(got == 0 || got == a || got == b || got == (double)(float)(a + b));
        whole += got != 0;
    }
    ck_assert(whole >= n / 10 && whole <= 2 * (n / 10));
}
END_TEST

static double constant(const struct fake_host *fake, cadre_param_id id, uint64_t i)
{
    return 1 + (double)(i % 7) * 0.25;
}

/* In the long run the mean of the sums is the gradient. */
START_TEST(feedback_brings_the_rest)
{
    enum { STEPS = 60 };
    double *mean = calloc(count_of(0), sizeof *mean);
    restart("topk:0.1", 2);
    all.rank[0].gradient = constant;
    for (int step = 0; step < STEPS; step++) {
        fake_ranks_step(&all);
        for (uint64_t i = 0; i < count_of(0); i++)
            mean[i] += fake_gradient(&all.rank[0], 0, i) / STEPS;
    }
    for (uint64_t i = 0; i < count_of(0); i++)
        ck_assert_double_eq_tol(mean[i], sum_of(0, i), 0.5 * sum_of(0, i));
    free(mean);
}
END_TEST

START_TEST(zero_stays_zero)
{
    restart(modes[_i], 3);
    all.rank[0].gradient = zero;
    for (int step = 0; step < 2; step++) {
        fake_ranks_step(&all);
        for (uint32_t id = 0; id < N_PARAMS; id++)
            for (uint64_t i = 0; i < count_of(id); i++)
                ck_assert(fake_gradient(&all.rank[0], id, i) == 0);
    }
    all.rank[0].gradient = rough;
    fake_ranks_step(&all);
    fake_ranks_step(&all);
    ck_assert(fake_gradient(&all.rank[0], 0, 0) != 0 || !strncmp(modes[_i], "topk", 4));
}
END_TEST

static double bad_value;
static uint32_t bad_param;

static double spoilt(const struct fake_host *fake, cadre_param_id id, uint64_t i)
{
    bool here =
        fake->axis.index == 1 && id == bad_param && i == fake->entry[id].count - 2;
    return here ? bad_value : rough(fake, id, i);
}

/* A gradient that is not finite on one rank is not finite on any, in that parameter. */
START_TEST(non_finite_values_arrive)
{
    static const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t v = 0; v < 3; v++)
        for (bad_param = 0; bad_param < 3; bad_param++) {
            uint64_t bad = 0, elsewhere = 0;
            restart(modes[_i], 3);
            bad_value = values[v];
            all.rank[0].gradient = spoilt;
            for (int step = 0; step < first_of(modes[_i]); step++)
                fake_ranks_step(&all);
            for (uint32_t id = 0; id < N_PARAMS; id++)
                for (uint64_t i = 0; i < count_of(id); i++) {
                    bool good = isfinite(fake_gradient(&all.rank[0], id, i));
                    bad += !good && id == bad_param;
                    elsewhere += !good && id != bad_param;
                }
            ck_assert_uint_gt(bad, 0);
            ck_assert_uint_eq(elsewhere, 0);
        }
}
END_TEST

/* ---- buckets, bytes, memory ---- */

static char *gradients_after(int steps)
{
    for (int step = 0; step < steps; step++)
        fake_ranks_step(&all);
    char *copy = malloc(all.rank[0].grads_bytes);
    memcpy(copy, all.rank[0].grads, all.rank[0].grads_bytes);
    return copy;
}

/* Except in int8 and onebit, where the bucket decides which rank keeps the error of a
 * sum: there the first step that is compressed is the last one that is the same. */
START_TEST(buckets_change_no_bit)
{
    const bool keeps_errors_of_sums = strcmp(modes[_i], "int8") == 0 || _i == MODES - 1;
    const int steps = keeps_errors_of_sums ? first_of(modes[_i]) : 3;
    restart(modes[_i], 3);
    char *one = gradients_after(steps);
    ck_assert_int_gt(all.rank[0].posts_in_backward, 0);
    bucket_mb = "0.001";
    restart(modes[_i], 3);
    char *many = gradients_after(steps);
    ck_assert_int_ge(all.rank[0].posts, 3);
    ck_assert(memcmp(one, many, all.rank[0].grads_bytes) == 0);
    fake_ranks_stop(&all);
    fake_set(&all.rank[0], "overlap", "%s", "no");
    ck_assert_int_eq(fake_ranks_start(&all), CADRE_OK);
    char *late = gradients_after(steps);
    ck_assert_int_eq(all.rank[0].posts_in_backward, 0);
    ck_assert(memcmp(one, late, all.rank[0].grads_bytes) == 0);
    free(one);
    free(many);
    free(late);
}
END_TEST

/* By the README's formulas; a block is 64 elements, of onebit 256, and slices are whole
 * blocks: onebit has one of 1280, 256 and 768 elements for the three here, and slices
 * of three blocks. */
START_TEST(bytes_are_those_promised)
{
    enum { N = 40 * 30 + 77 + 20 * 33 };
    static const struct {
        const char *mode;
        double bytes; /* an R-th part, without the */
    } want[] = {
        {"none", 2.0 * 4 * N},
        {"bf16", 2.0 * 2 * N},
        {"int8", 2.0 * 1.0625 * N},
        {"topk:0.1", 4.0 * 8 * (120 + 8 + 66)},
        {"powersgd:3", 2.0 * 4 * (3 * (40 + 30) + 3 * (20 + 33) + 77)},
        {"onebit:1", 2.0 * (32 + 4) * 4 * 3},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        restart(want[i].mode, 4);
        for (int step = 0; step < first_of(want[i].mode); step++)
            fake_ranks_step(&all);
        double slack = i < 3 ? 2.0 * 4 * 64 * 4 : 4 * 32;
        ck_assert_double_eq_tol((double)all.bytes[1], want[i].bytes * 3 / 4, slack);
    }
}
END_TEST

START_TEST(memory_is_planned)
{
    for (int i = 0; i < 6; i++) {
        bool one = i >= 3; /* bucket, or one for each gradient */
        int n = 2 + i % 3;
        bucket_mb = one ? "1" : "0.001";
        restart(modes[_i], n);
        double block = _i == MODES - 1 ? 256 : 64;
        double rounding = (one ? 2.0 : 3.0 * 8) * (block * 4 + 4) * n;
        ck_assert_double_eq_tol((double)all.rank[0].planned, (double)all.rank[0].taken,
                                rounding);
        ck_assert_uint_gt(all.rank[0].planned, 0);
        ck_assert_uint_ge(all.rank[0].planned, all.rank[0].most);
    }
}
END_TEST

/* ---- checkpoints ---- */

START_TEST(a_resumed_run_has_the_same_bits)
{
    struct residuals kept = {0};
    bucket_mb = "0.004";
    restart(modes[_i], 3);
    free(gradients_after(3));
    ask_all(&kept, true);
    ck_assert_int_ge(kept.blobs, 2 * 3);
    char *want = gradients_after(2);
    fake_ranks_stop(&all);
    ck_assert_int_eq(fake_ranks_start(&all), CADRE_OK);
    all.rank[0].steps = 3;
    ask_all(&kept, false);
    char *got = gradients_after(2);
    ck_assert(memcmp(want, got, all.rank[0].grads_bytes) == 0);
    free(got);
    residuals_free(&kept);
    free(want);
}
END_TEST

/* Other ranks, other buckets, a tied entry: the sum of what is to come stays. */
START_TEST(another_size_keeps_the_sum)
{
    struct residuals before = {0}, after = {0};
    restart(modes[_i], 2);
    for (int n = 2; n <= 3; n++) {
        fake_ranks_stop(&all);
        set_entry(2, 40, 30);
        all.rank[0].entry[2].tied_to = 0;
        ck_assert_int_eq(fake_ranks_start(&all), CADRE_OK);
        if (n == 2) {
            free(gradients_after(2));
            ask_all(&before, true);
            ck_assert_ptr_nonnull(before.sum[N_PARAMS]);
            bucket_mb = "0.001";
            restart(modes[_i], 3);
        }
    }
    before.only_tensors = true;
    ask_all(&before, false);
    ask_all(&after, true);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        ck_assert(!before.sum[slot] == !after.sum[slot]);
        for (uint64_t i = 0; before.sum[slot] && i < count_of(slot % N_PARAMS); i++)
            ck_assert_double_eq_tol(after.sum[slot][i], before.sum[slot][i], 1e-5);
    }
    residuals_free(&before);
    residuals_free(&after);
}
END_TEST

/* Bytes of another layout with the same size are not taken. */
START_TEST(a_blob_of_another_layout_is_left)
{
    struct residuals kept = {0}, now = {0};
    restart("topk:0.1", 2);
    free(gradients_after(2));
    ask_all(&kept, true);
    restart("topk:0.2", 2);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (kept.sum[slot])
            memset(kept.sum[slot], 0, count_of(slot) * sizeof(double));
    ask_all(&kept, false);
    ask_all(&now, true);
    for (uint64_t i = 0; i < count_of(0); i++)
        ck_assert(now.sum[0][i] == 0);
    residuals_free(&kept);
    residuals_free(&now);
}
END_TEST

/* ---- refusals ---- */

START_TEST(exact_mode_is_refused)
{
    all.rank[0].plan.exact = 1;
    ck_assert_int_eq(fake_ranks_start(&all), CADRE_OK);
    fake_ranks_stop(&all);
    fake_set(&all.rank[0], "compress", "%s", modes[_i]);
    ck_assert_int_eq(fake_ranks_start(&all), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(all.rank[0].failure, "run.exact = yes forbids"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("compress");
    TCase *tc = tcase_create("compress");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, all_ranks_have_the_same_bits, 0, MODES);
    tcase_add_loop_test(tc, nothing_is_lost, FIRST_KEEPING, MODES);
    tcase_add_loop_test(tc, dense_sums_are_near, 0, 3);
    tcase_add_test(tc, low_rank_is_found);
    tcase_add_test(tc, the_largest_are_sent_unchanged);
    tcase_add_test(tc, feedback_brings_the_rest);
    tcase_add_loop_test(tc, zero_stays_zero, 0, MODES);
    tcase_add_loop_test(tc, non_finite_values_arrive, 0, MODES);
    tcase_add_loop_test(tc, buckets_change_no_bit, 0, MODES);
    tcase_add_test(tc, bytes_are_those_promised);
    tcase_add_loop_test(tc, memory_is_planned, 0, MODES);
    tcase_add_loop_test(tc, a_resumed_run_has_the_same_bits, FIRST_KEEPING, MODES);
    tcase_add_loop_test(tc, another_size_keeps_the_sum, FIRST_KEEPING, MODES);
    tcase_add_test(tc, a_blob_of_another_layout_is_left);
    tcase_add_loop_test(tc, exact_mode_is_refused, 0, MODES);
    suite_add_tcase(s, tc);
    return s;
}
