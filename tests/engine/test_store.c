/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/engine/layout/store.h"
#include "core/model/init.h"
#include "tests/support/check_main.h"

static struct cadre_error err;
static struct cadre_model *model;
static struct cadre_mesh mesh;
static struct cadre_rank_plan plan;
static struct cadre_ledger ledger;
static struct cadre_store store;

static void make(uint32_t dtype)
{
    const struct cadre_model_config config = {.arch = CADRE_ARCH_GPT2,
                                              .layers = 1,
                                              .channels = 6,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .hidden = 24,
                                              .context = 5,
                                              .vocab = 11,
                                              .tied = true,
                                              .norm_eps = 1e-5,
                                              .dtype = dtype};
    const struct cadre_device_config device = {.kind = "cpu", .threads = 1};
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_init(&mesh, NULL, 0, 0, &err), CADRE_OK);
    memset(&ledger, 0, sizeof ledger);
    ck_assert_int_eq(cadre_device_open(&device, &ledger.device, &err), CADRE_OK);
    struct cadre_plan_request request = {
        .model = model, .mesh = &mesh, .microbatches = 1};
    ck_assert_int_eq(cadre_rank_plan_init(&plan, &request, &err), CADRE_OK);
    ck_assert_int_eq(cadre_rank_plan_finish(&plan, &request, &err), CADRE_OK);
}

static void setup(void)
{
    make(CADRE_F32);
}

static void teardown(void)
{
    cadre_store_fini(&store);
    cadre_ledger_fini(&ledger);
    cadre_rank_plan_fini(&plan);
    cadre_device_close(ledger.device);
    cadre_model_destroy(model);
}

static void open_store(enum cadre_optimizer_kind optimizer, uint64_t seed)
{
    cadre_status rc =
        cadre_store_init(&store, model, &plan, &ledger, optimizer, seed, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void place(uint32_t param, uint32_t kind, uint64_t begin, uint64_t count)
{
    plan.param[param].share[kind] = (struct cadre_share){true, begin, count, 0};
}

static uint32_t tied_entry(void)
{
    for (uint32_t i = 0; i < model->n_params; i++)
        if (model->params[i].tied_to >= 0)
            return i;
    ck_abort_msg("no tied entry");
    return 0;
}

START_TEST(gradients_lie_in_table_order_and_padded)
{
    open_store(CADRE_OPTIMIZER_ADAMW, 1);
    size_t at = 0;
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_store_param *p = &store.param[i];
        ck_assert_uint_eq(store.grad_offset[i], at);
        ck_assert_ptr_eq(p->grad, store.grad_base + at);
        ck_assert_uint_eq((uintptr_t)p->grad % 64, 0);
        at += (p->count * 4 + 63) / 64 * 64;
    }
    ck_assert_uint_eq(store.grad_bytes, at);
}
END_TEST

START_TEST(a_tied_entry_has_a_gradient_and_nothing_else)
{
    open_store(CADRE_OPTIMIZER_ADAMW, 1);
    uint32_t tied = tied_entry();
    uint32_t owner = (uint32_t)model->params[tied].tied_to;
    ck_assert_ptr_eq(store.param[tied].data, store.param[owner].data);
    ck_assert_ptr_ne(store.param[tied].grad, store.param[owner].grad);
    ck_assert_ptr_null(store.param[tied].exp_avg);
    ck_assert_ptr_null(cadre_store_opt_data(&store, tied));
    ck_assert_ptr_null(cadre_store_opt_grad(&store, tied));
    float elsewhere;
    cadre_store_attach(&store, owner, &elsewhere);
    ck_assert_ptr_eq(model->params[tied].data, &elsewhere);
    cadre_store_attach(&store, owner, NULL);
    ck_assert_ptr_null(store.param[tied].data);
}
END_TEST

START_TEST(states_by_optimizer)
{
    open_store(_i ? CADRE_OPTIMIZER_SGD : CADRE_OPTIMIZER_ADAMW, 1);
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (model->params[i].tied_to >= 0)
            continue;
        ck_assert_ptr_nonnull(store.param[i].exp_avg);
        ck_assert_int_eq(store.param[i].exp_avg_sq == NULL, _i);
    }
}
END_TEST

/* The planned table is what is then allocated, entry by entry. */
START_TEST(planned_is_taken)
{
    struct cadre_ledger planned = {0};
    place(1, CADRE_KIND_OPT, 0, 5);
    place(2, CADRE_KIND_PARAM, 0, 1);
    cadre_store_note(model, &plan, CADRE_OPTIMIZER_ADAMW, &planned);
    open_store(CADRE_OPTIMIZER_ADAMW, 1);
    ck_assert_int_eq(planned.n, ledger.n);
    for (int i = 0; i < ledger.n; i++) {
        ck_assert_str_eq(planned.entry[i].tag, ledger.entry[i].tag);
        ck_assert_uint_eq(planned.entry[i].bytes, ledger.entry[i].bytes);
    }
}
END_TEST

/* However a parameter is sharded, the initial values are those of the whole. */
START_TEST(initial_values_are_equal_when_sharded)
{
    open_store(CADRE_OPTIMIZER_ADAMW, 9);
    uint32_t wte = 0;
    uint64_t count = store.param[wte].count;
    float *whole = malloc(count * sizeof *whole);
    memcpy(whole, store.param[wte].data, count * sizeof *whole);
    bool some = false;
    for (uint64_t i = 0; i < count; i++)
        some |= whole[i] != 0;
    ck_assert(some);
    for (uint64_t begin = 0; begin < count; begin += 17) {
        uint64_t n = count - begin < 17 ? count - begin : 17;
        cadre_store_fini(&store);
        place(wte, CADRE_KIND_PARAM, begin, n);
        open_store(CADRE_OPTIMIZER_ADAMW, 9);
        ck_assert_ptr_null(store.param[wte].data);
        ck_assert_mem_eq(store.param[wte].data_shard, whole + begin, n * sizeof *whole);
    }
    free(whole);
}
END_TEST

/* States in host memory are accounted separately, and are contiguous. */
START_TEST(states_in_host_memory)
{
    struct cadre_ledger planned = {0};
    place(1, CADRE_KIND_OPT, 0, 3);
    place(3, CADRE_KIND_OPT, 0, 2);
    plan.param[1].share[CADRE_KIND_OPT].space = CADRE_SPACE_HOST;
    plan.param[3].share[CADRE_KIND_OPT].space = CADRE_SPACE_HOST;
    cadre_store_note(model, &plan, CADRE_OPTIMIZER_ADAMW, &planned);
    open_store(CADRE_OPTIMIZER_ADAMW, 1);
    uint64_t host = 0;
    for (int i = 0; i < ledger.n; i++)
        if (ledger.entry[i].space == CADRE_SPACE_HOST)
            host += ledger.entry[i].bytes;
    ck_assert_uint_eq(host, 2 * (64 + 64)); /* two ranges, each padded, of two states */
    ck_assert_uint_eq(planned.now_bytes, ledger.now_bytes);
    ck_assert_ptr_eq(store.param[3].exp_avg, (char *)store.param[1].exp_avg + 64);
    ck_assert_ptr_eq(store.param[3].exp_avg_sq, (char *)store.param[1].exp_avg_sq + 64);
    ck_assert_ptr_nonnull(store.param[2].exp_avg);
}
END_TEST

START_TEST(shares_of_the_optimizer)
{
    place(1, CADRE_KIND_OPT, 4, 3);
    place(2, CADRE_KIND_OPT, 0, 0);
    place(3, CADRE_KIND_OPT, 6, 2);
    place(3, CADRE_KIND_PARAM, 5, 4);
    place(3, CADRE_KIND_GRAD, 6, 2);
    open_store(CADRE_OPTIMIZER_ADAMW, 1);
    struct cadre_share share = cadre_store_share(&store, 1, CADRE_KIND_OPT);
    ck_assert_uint_eq(share.begin, 4);
    ck_assert_uint_eq(share.count, 3);
    ck_assert_ptr_eq(cadre_store_opt_data(&store, 1), (float *)store.param[1].data + 4);
    ck_assert_ptr_eq(cadre_store_opt_grad(&store, 1), (float *)store.param[1].grad + 4);
    ck_assert_ptr_null(cadre_store_opt_data(&store, 2));
    ck_assert_ptr_null(store.param[2].exp_avg);
    ck_assert_ptr_eq(cadre_store_opt_data(&store, 3),
                     (float *)store.param[3].data_shard + 1);
    ck_assert_ptr_eq(cadre_store_opt_grad(&store, 3), store.param[3].grad_shard);
    ck_assert_uint_eq(store.grad_offset[3], SIZE_MAX);
    share = cadre_store_share(&store, 4, CADRE_KIND_OPT);
    ck_assert_uint_eq(share.count, store.param[4].count);
}
END_TEST

START_TEST(what_other_ranks_run_takes_nothing)
{
    for (uint32_t i = 0; i < model->n_params; i++)
        plan.param[i].present = model->params[i].unit == 1;
    open_store(CADRE_OPTIMIZER_ADAMW, 1);
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_store_param *p = &store.param[i];
        bool here = plan.param[i].present;
        ck_assert_int_eq(p->data != NULL, here);
        ck_assert_int_eq(p->grad != NULL, here);
        ck_assert_int_eq(p->exp_avg != NULL, here);
    }
}
END_TEST

static const uint32_t narrow[] = {CADRE_BF16, CADRE_F16};

/* Make the fixture again with 16-bit parameters. */
static void remake(uint32_t dtype)
{
    teardown();
    make(dtype);
}

static void check_rounded(const void *data, const float *wide, uint64_t n)
{
    struct cadre_device *device = ledger.device;
    uint16_t *expected = malloc(n * sizeof *expected);
    ck_assert_int_eq(device->ops->cast(device, model->config.dtype, expected, CADRE_F32,
                                       wide, (int64_t)n),
                     CADRE_OK);
    ck_assert_mem_eq(data, expected, n * sizeof *expected);
    free(expected);
}

/* Master values are those that an fp32 run begins with, and parameters round them. */
START_TEST(masters_are_wide_and_parameters_rounded)
{
    open_store(CADRE_OPTIMIZER_ADAMW, 9);
    uint64_t count = store.param[0].count;
    float *wide = malloc(count * sizeof *wide);
    memcpy(wide, store.param[0].data, count * sizeof *wide);
    remake(narrow[_i]);
    open_store(CADRE_OPTIMIZER_ADAMW, 9);
    ck_assert_uint_eq(store.elem_bytes, 2);
    ck_assert_uint_eq(store.wide_bytes, 4);
    ck_assert_ptr_eq(cadre_store_opt_data(&store, 0), store.param[0].master);
    ck_assert_ptr_eq(cadre_store_opt_rounded(&store, 0), store.param[0].data);
    ck_assert_mem_eq(store.param[0].master, wide, count * sizeof *wide);
    check_rounded(store.param[0].data, wide, count);
    ck_assert_ptr_null(store.param[tied_entry()].master);
    free(wide);
}
END_TEST

/* Sharding changes neither master nor rounded values; all kinds are padded alike. */
START_TEST(masters_of_a_range)
{
    struct cadre_ledger planned = {0};
    remake(narrow[_i]);
    place(0, CADRE_KIND_PARAM, 10, 20);
    place(0, CADRE_KIND_OPT, 15, 7);
    place(0, CADRE_KIND_GRAD, 12, 12);
    cadre_store_note(model, &plan, CADRE_OPTIMIZER_ADAMW, &planned);
    open_store(CADRE_OPTIMIZER_ADAMW, 9);
    for (int i = 0; i < ledger.n; i++) {
        ck_assert_str_eq(planned.entry[i].tag, ledger.entry[i].tag);
        ck_assert_uint_eq(planned.entry[i].bytes, ledger.entry[i].bytes);
    }
    float whole[64];
    cadre_model_init_range(model, 0, 9, 0, 64, whole);
    ck_assert_mem_eq(store.param[0].master, whole + 15, 7 * sizeof(float));
    check_rounded(store.param[0].data_shard, whole + 10, 20);
    ck_assert_ptr_eq(cadre_store_opt_rounded(&store, 0),
                     (uint16_t *)store.param[0].data_shard + 5);
    ck_assert_ptr_eq(cadre_store_opt_grad(&store, 0),
                     (float *)store.param[0].grad_shard + 3);
    ck_assert_uint_eq(store.grad_offset[1], 32 * sizeof(float));
    for (int i = 0; i < 20; i++)
        whole[i] = (float)i + 0.3F;
    ck_assert_int_eq(cadre_store_put(&store, 0, whole), CADRE_OK);
    ck_assert_mem_eq(store.param[0].master, whole + 5, 7 * sizeof(float));
    check_rounded(store.param[0].data_shard, whole, 20);
}
END_TEST

/* Where parameters are wide there are no master values. */
START_TEST(wide_parameters_have_no_masters)
{
    open_store(CADRE_OPTIMIZER_ADAMW, 1);
    for (uint32_t i = 0; i < model->n_params; i++) {
        ck_assert_ptr_null(store.param[i].master);
        ck_assert_ptr_null(cadre_store_opt_rounded(&store, i));
    }
    for (int i = 0; i < ledger.n; i++)
        ck_assert_str_ne(ledger.entry[i].tag, "master values");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("store");
    TCase *tc = tcase_create("store");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, gradients_lie_in_table_order_and_padded);
    tcase_add_test(tc, a_tied_entry_has_a_gradient_and_nothing_else);
    tcase_add_loop_test(tc, states_by_optimizer, 0, 2);
    tcase_add_test(tc, planned_is_taken);
    tcase_add_test(tc, initial_values_are_equal_when_sharded);
    tcase_add_test(tc, states_in_host_memory);
    tcase_add_test(tc, shares_of_the_optimizer);
    tcase_add_test(tc, what_other_ranks_run_takes_nothing);
    tcase_add_loop_test(tc, masters_are_wide_and_parameters_rounded, 0, 2);
    tcase_add_loop_test(tc, masters_of_a_range, 0, 2);
    tcase_add_test(tc, wide_parameters_have_no_masters);
    suite_add_tcase(s, tc);
    return s;
}
