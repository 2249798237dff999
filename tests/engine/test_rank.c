/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/launch/launch.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;

static void setup(void)
{
    rank_fixture_open(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

START_TEST(training_lowers_the_loss_and_repeats)
{
    double first = 0, last = 0;
    uint64_t hash = 0;
    for (int run = 0; run < 2; run++) {
        rank_fixture_start(&f);
        first = rank_fixture_step(&f, 1).loss;
        for (uint64_t step = 2; step <= 30; step++)
            last = rank_fixture_step(&f, step).loss;
        ck_assert_int_eq(cadre_rank_drain(&f.rank), CADRE_OK);
        uint64_t now = rank_fixture_params(&f);
        ck_assert(run == 0 || now == hash);
        hash = now;
        rank_fixture_stop(&f);
    }
    ck_assert_double_lt(last, 0.7 * first);
}
END_TEST

START_TEST(a_batch_that_does_not_divide_names_both_keys)
{
    f.spec.micro_batch = _i ? 3 : 0;
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_int_eq(rc, CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "train.global_batch = 8"));
    ck_assert_ptr_nonnull(strstr(f.err.text, "train.micro_batch = "));
    cadre_rank_fini(&f.rank);
}
END_TEST

/* A rank may be freed at every stage, and a zeroed one too. */
START_TEST(ends_at_every_stage)
{
    cadre_rank_fini(&f.rank);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    rank_fixture_stop(&f);
    f.spec.device.kind = "nonsense";
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert_int_ne(cadre_rank_bind(&f.rank, NULL, 0, &f.err), CADRE_OK);
    rank_fixture_stop(&f);
    f.spec.device.kind = "cpu";
    rank_fixture_start(&f);
}
END_TEST

static cadre_status off_the_chunk(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    return abi->place_range(abi->h, 0, CADRE_KIND_OPT, 1, 5, 0);
}

START_TEST(an_optimizer_range_begins_on_a_chunk)
{
    const struct cadre_strategy_ops ops = {.plan = off_the_chunk};
    rank_fixture_plug(&f, "odd", CADRE_ROLE_DATA, 1, &ops);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(f.err.text, "[1, +5)"));
    ck_assert_ptr_nonnull(strstr(f.err.text, "expected whole units of 4096"));
}
END_TEST

/* ---- what plugins are told of each other's plans ---- */

static bool is_called(struct cadre_self *self, const char *name)
{
    return strcmp(rank_fixture_host(self)->ctx->name, name) == 0;
}

/* Freezes what is not frozen yet: "odds" every other weight, "rest" all. A tied entry
 * follows its owner in the same pass. */
static cadre_status freeze_trained(struct cadre_self *self,
                                   const struct cadre_plan *abi)
{
    const struct cadre_host *host = rank_fixture_host(self);
    const struct cadre_model_svc *model = host->service(host->ctx, CADRE_SERVICE_MODEL);
    const bool odds = is_called(self, "odds");
    for (cadre_param_id id = 0; id < model->n_params(host->ctx); id++) {
        struct cadre_param_info info = {.struct_size = sizeof info};
        CADRE_TRY(model->param(host->ctx, id, &info));
        if (info.tied_to >= 0)
            ck_assert(info.frozen || odds);
        else if (!info.frozen && (!odds || id % 2 == 1))
            CADRE_TRY(abi->train(abi->h, id, 0));
    }
    return CADRE_OK;
}

/* What a plugin froze in the pass before it is not told of in the next. */
START_TEST(own_freezes_are_made_again)
{
    const struct cadre_strategy_ops ops = {.plan = freeze_trained};
    rank_fixture_plug(&f, _i ? "rest" : "odds", CADRE_ROLE_OBSERVER, 1, &ops);
    rank_fixture_plug(&f, _i ? "odds" : "rest", CADRE_ROLE_OBSERVER, 1, &ops);
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    for (uint32_t i = 0; i < f.rank.plan.n_params; i++) {
        const struct cadre_plan_param *at = &f.rank.plan.param[i];
        ck_assert(at->frozen);
        if (f.rank.model->params[i].tied_to < 0)
            ck_assert_str_eq(at->froze, _i || i % 2 == 0 ? "rest" : "odds");
    }
}
END_TEST

static uint64_t elements_seen;

/* "places" keeps a half of entry 0 on this rank; "asks" takes memory for what is there,
 * and places nothing. */
static cadre_status place_half(struct cadre_self *self, const struct cadre_plan *abi)
{
    const struct cadre_host *host = rank_fixture_host(self);
    const struct cadre_param_svc *param = host->service(host->ctx, CADRE_SERVICE_PARAM);
    uint64_t begin, count, half = CADRE_NORM_CHUNK;
    CADRE_TRY(param->range(host->ctx, 0, CADRE_KIND_OPT, &begin, &count));
    if (is_called(self, "asks")) {
        elements_seen = count;
        return CADRE_OK;
    }
    ck_assert_uint_gt(count, half); /* not its own range of the pass before */
    CADRE_TRY(abi->claim(abi->h, "opt.shard", abi->axis, 0));
    return abi->place_range(abi->h, 0, CADRE_KIND_OPT, 0, half, CADRE_SPACE_DEVICE);
}

START_TEST(ranges_are_known_in_any_order)
{
    const struct cadre_strategy_ops ops = {.plan = place_half};
    f.spec.model.vocab = 1024;
    rank_fixture_plug(&f, _i ? "places" : "asks", CADRE_ROLE_DATA, 1, &ops);
    rank_fixture_plug(&f, _i ? "asks" : "places", CADRE_ROLE_DATA, 1, &ops);
    elements_seen = 0;
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_uint_eq(elements_seen, CADRE_NORM_CHUNK);
}
END_TEST

static cadre_status claim_sums(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    return abi->claim(abi->h, "act.complete", "sums", 0);
}

static cadre_status claim_rows(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    return abi->claim(abi->h, "seq.shard", "sums", 0);
}

static cadre_status complete(struct cadre_self *self,
                             const struct cadre_redistribute_ev *ev)
{
    (void)self;
    (void)ev;
    return CADRE_OK;
}

static void refuses_to_plan(const char *text)
{
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_int_eq(rc, CADRE_E_UNSUPPORTED);
    ck_assert_msg(strstr(f.err.text, text), "%s", f.err.text);
    rank_fixture_stop(&f);
    f.err = (struct cadre_error){0};
}

/* ---- states of an optimizer plugin ---- */

static struct cadre_opt_state planned_state;

static cadre_status plan_state(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    for (uint32_t id = 0; id < f.rank.model->n_params; id++) {
        planned_state.param = id;
        if (f.rank.model->params[id].tied_to < 0)
            CADRE_TRY(abi->opt_state(abi->h, &planned_state));
    }
    return CADRE_OK;
}

static cadre_status update_nothing(struct cadre_self *self,
                                   const struct cadre_update_ev *ev)
{
    (void)self;
    (void)ev;
    return CADRE_OK;
}

/* Known from the plan alone, so that --dry-run says it. */
START_TEST(states_that_no_checkpoint_holds_are_refused)
{
    static const struct {
        bool sharded;
        uint32_t dtype, block;
        const char *says;
    } cases[] = {
        {false, CADRE_F32, 2, NULL},
        {true, CADRE_F32, 1, NULL},
        {true, CADRE_F32, 2, NULL},
        {true, CADRE_F32, 4096,
         "has one value for 4096 elements, and act.complete divides"},
        {false, CADRE_I32, 1, "has the dtype i32, which a checkpoint in f32"},
    };
    const struct cadre_strategy_ops optimizer = {.plan = plan_state,
                                                 .update = update_nothing};
    const struct cadre_strategy_ops sums = {.plan = claim_sums,
                                            .on_redistribute = complete};
    planned_state = (struct cadre_opt_state){.struct_size = sizeof planned_state,
                                             .key = "sum",
                                             .dtype = cases[_i].dtype,
                                             .extent = CADRE_OPT_ELEMENTS,
                                             .block = cases[_i].block};
    f.spec.optim.kind = CADRE_OPTIMIZER_PLUGIN;
    if (cases[_i].sharded)
        rank_fixture_plug(&f, "sums", CADRE_ROLE_INTRA, 2, &sums);
    rank_fixture_plug(&f, "optimizer", CADRE_ROLE_OPTIMIZER, 1, &optimizer);
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_int_eq(rc, cases[_i].says ? CADRE_E_UNSUPPORTED : CADRE_OK);
    ck_assert_msg(!cases[_i].says || strstr(f.err.text, cases[_i].says), "%s",
                  f.err.text);
}
END_TEST

START_TEST(a_plugin_completes_sharded_activations)
{
    const struct cadre_strategy_ops mute = {.plan = claim_sums};
    const struct cadre_strategy_ops sums = {.plan = claim_sums,
                                            .on_redistribute = complete};
    const struct cadre_strategy_ops rows = {.plan = claim_rows};
    const struct cadre_strategy_ops *intra[] = {&mute, &sums};
    const char *says[] = {
        "plugin 'sums' claims act.complete, but has no on_redistribute",
        "'rows' claims seq.shard, but 'sums' claims act.complete"};
    rank_fixture_plug(&f, "sums", CADRE_ROLE_INTRA, 2, intra[_i]);
    if (_i == 1)
        rank_fixture_plug(&f, "rows", CADRE_ROLE_OBSERVER, 1, &rows);
    refuses_to_plan(says[_i]);
}
END_TEST

/* Whoever claims act.complete cuts the model, not the first of a role. */
START_TEST(the_claim_cuts_the_model)
{
    const struct cadre_strategy_ops none = {.struct_size = sizeof none};
    const struct cadre_strategy_ops sums = {.plan = claim_sums,
                                            .on_redistribute = complete};
    rank_fixture_plug(&f, "other", CADRE_ROLE_INTRA, 1, &none);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert_int_eq(f.rank.model->tp_size, 1);
    rank_fixture_stop(&f);
    rank_fixture_plug(&f, "sums", CADRE_ROLE_INTRA, 2, &sums);
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 1, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_int_eq(f.rank.model->tp_size, 2);
}
END_TEST

static cadre_status claim_time(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    CADRE_TRY(abi->use_axis(abi->h, abi->axis, CADRE_BATCH_TIME));
    CADRE_TRY(abi->claim(abi->h, "time.shard", abi->axis, 0));
    return abi->reduces(abi->h, abi->axis, 2 * CADRE_REDUCE_OUTER);
}

/* Sums over parts of the time are not those of `single`. */
START_TEST(the_time_is_cut)
{
    const struct cadre_strategy_ops mute = {.plan = claim_time,
                                            .on_grad = rank_fixture_reduce};
    const struct cadre_strategy_ops ops = {.plan = claim_time,
                                           .on_grad = rank_fixture_reduce,
                                           .on_redistribute = complete};
    char signature[CADRE_SIGNATURE_CHARS];
    rank_fixture_plug(&f, "cp", CADRE_ROLE_DATA, 2, _i == 0 ? &mute : &ops);
    if (_i == 0) {
        refuses_to_plan("plugin 'cp' claims time.shard, but has no on_redistribute");
        return;
    }
    if (_i == 1) {
        f.spec.device.kind = "cuda";
        refuses_to_plan("'cp' splits the time of samples (time.shard), which the "
                        "device cuda cannot do; set device.kind = cpu");
        return;
    }
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 1, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_int_eq(f.rank.model->time_rank, 1);
    ck_assert_int_eq(f.rank.model->time_ranks, 2);
    ck_assert_int_eq(f.rank.plan.time, 8);
    ck_assert_int_eq(f.rank.plan.n_microbatches, 4);
    cadre_rank_reduction_signature(&f.rank, signature);
    ck_assert_str_eq(signature, "time.shard@cp:2");
    const struct cadre_host *host = rank_fixture_inside(&f, 0, CADRE_IN_PLAN);
    const struct cadre_model_svc *model = host->service(host->ctx, CADRE_SERVICE_MODEL);
    ck_assert_uint_eq(model->boundary_count(host->ctx), 2 * 8 * 16);
    /* a row meets the keys of the whole time */
    ck_assert_double_eq(model->unit_cost(host->ctx, 1), 16.0 * (12 * 256 + 16 * 16));
}
END_TEST

static cadre_status claim_codec(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    return abi->claim(abi->h, "wire.codec", abi->axis, 0);
}

START_TEST(a_codec_has_both_functions)
{
    const struct cadre_strategy_ops ops = {.plan = claim_codec};
    rank_fixture_plug(&f, "codec", CADRE_ROLE_DATA, 1, &ops);
    refuses_to_plan("plugin 'codec' claims wire.codec, but has no wire and wire_bytes");
}
END_TEST

static int plans;

/* Another answer each time. */
static cadre_status plan_fickly(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    if (plans++ % 2)
        return abi->use_axis(abi->h, abi->axis, CADRE_BATCH_SAME);
    CADRE_TRY(abi->use_axis(abi->h, abi->axis, CADRE_BATCH_SPLIT));
    return abi->reduces(abi->h, abi->axis, 0);
}

START_TEST(plans_that_never_settle_are_refused)
{
    const struct cadre_strategy_ops ops = {.plan = plan_fickly,
                                           .on_grad = rank_fixture_reduce};
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    refuses_to_plan("the plans still change after 4 passes");
    ck_assert_int_eq(plans, CADRE_PLAN_PASSES);
}
END_TEST

static const struct cadre_strategy_ops splits = {.plan = rank_fixture_split,
                                                 .on_grad = rank_fixture_reduce};

START_TEST(the_print_shows_placement_and_memory)
{
    char *text = NULL, total[64];
    size_t size;
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &splits);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 1, &f.err), CADRE_OK);
    FILE *out = open_memstream(&text, &size);
    uint64_t bytes = cadre_rank_print(&f.rank, out);
    fclose(out);
    snprintf(total, sizeof total, " %.3f MiB\n", (double)bytes / 1048576.0);
    ck_assert_ptr_nonnull(strstr(strstr(text, "total"), total));
    ck_assert_ptr_nonnull(strstr(text, "rank 1 of 2  data 1/2"));
    ck_assert_msg(!strstr(text, "claims"), "claims are printed for rank 0 alone");
    ck_assert_ptr_nonnull(strstr(text, "micro-batches: 2 of 4, from 2, every 1"));
    ck_assert_ptr_nonnull(strstr(text, "optimizer states"));
    free(text);
}
END_TEST

static void *no_memory(struct cadre_device *device, size_t bytes)
{
    (void)device;
    (void)bytes;
    return NULL;
}

START_TEST(memory_that_is_not_there_is_told_with_figures)
{
    struct cadre_device *device = NULL;
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    ck_assert_int_eq(cadre_device_open(&config, &device, &f.err), CADRE_OK);
    struct cadre_device_ops ops = *device->ops;
    const struct cadre_device_ops *own = device->ops;
    ops.alloc = no_memory;
    device->ops = &ops;
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    f.rank.device = device;
    f.rank.device_lent = true;
    ck_assert_int_eq(cadre_rank_bind(&f.rank, NULL, 0, &f.err), CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(f.err.text, "no memory for parameters"));
    ck_assert_ptr_nonnull(strstr(f.err.text, "(rank 0 has taken 0.0 MiB of the "));
    ck_assert_ptr_nonnull(strstr(f.err.text, " are free; "));
    cadre_rank_fini(&f.rank);
    device->ops = own;
    cadre_device_close(device);
}
END_TEST

START_TEST(the_print_of_rank_0_shows_claims)
{
    char *text = NULL;
    size_t size;
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &splits);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    FILE *out = open_memstream(&text, &size);
    ck_assert_uint_gt(cadre_rank_print(&f.rank, out), 0);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(text, "reduces gradients along data at level 0"));
    free(text);
}
END_TEST

/* ---- two ranks ---- */

static struct cadre_run_spec specs[2];
static char said[2][1024];
static bool is_owner[2];
static double sums[2];
static bool differ; /* the ranks' runs differ */
static double norms[2], own_norms[2];

static double norm_of_own_grads(const struct cadre_rank *rank)
{
    double sum = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const float *grad = rank->store.param[i].grad;
        for (uint64_t e = 0; e < rank->store.param[i].count; e++)
            if (rank->model->params[i].tied_to < 0)
                sum += (double)grad[e] * grad[e];
    }
    return sqrt(sum);
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    (void)arg;
    struct cadre_rank rank;
    struct cadre_comm *world = NULL;
    struct cadre_error err = {0};
    struct cadre_step_report report;
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    cadre_status rc = cadre_rank_plan(&rank, &specs[index], index, &err);
    if (rc == CADRE_OK) {
        rc = cadre_rank_bind(&rank, world, 0, &err);
        if (rc == CADRE_OK) {
            rank.exchange.votes.stop = index == 1;
            rc = cadre_rank_step(&rank, 1, &report);
            is_owner[index] = cadre_rank_is_primary_owner(&rank, 0);
            norms[index] = report.grad_norm;
            own_norms[index] = norm_of_own_grads(&rank);
            sums[index] = rc == CADRE_OK && report.stop ? report.loss : -1;
        }
        cadre_rank_fini(&rank);
    }
    snprintf(said[index], sizeof said[index], "%s", err.text);
    cadre_comm_destroy(world);
    return rc;
}

static cadre_status run_two(cadre_status (*plan)(struct cadre_self *,
                                                 const struct cadre_plan *),
                            struct cadre_error *err)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    const struct cadre_strategy_ops ops = {
        .plan = plan,
        .on_grad = plan == rank_fixture_split ? rank_fixture_reduce : NULL};
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    specs[0] = f.spec;
    specs[1] = f.spec;
    specs[1].fingerprint += differ;
    return cadre_launch_threads(&config, NULL, rank_main, NULL, err);
}

START_TEST(two_ranks_share_loss_and_votes)
{
    struct cadre_error err = {0};
    cadre_status rc = run_two(rank_fixture_split, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_double_gt(sums[0], 0);
    ck_assert_double_eq(sums[0], sums[1]);
    ck_assert(is_owner[0] && !is_owner[1]);
}
END_TEST

static cadre_status train_sweep(struct cadre_self *self, const struct cadre_plan *plan)
{
    (void)self;
    CADRE_TRY(plan->use_axis(plan->h, "data", CADRE_BATCH_SPLIT));
    CADRE_TRY(plan->claim(plan->h, "param.diverges", "data", 0));
    return plan->by_design(plan->h, "optim.name=sgd");
}

/* Also where parts of the norm are on other ranks and are summed. */
static cadre_status train_parts_differing(struct cadre_self *self,
                                          const struct cadre_plan *plan)
{
    cadre_status rc = train_sweep(self, plan);
    return rc == CADRE_OK ? plan->claim(plan->h, "opt.shard", "data", 0) : rc;
}

START_TEST(diverging_replicas_have_their_own_norm)
{
    struct cadre_error err = {0};
    cadre_status rc = run_two(_i ? train_parts_differing : train_sweep, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_double_ne(own_norms[0], own_norms[1]);
    for (int r = 0; r < 2; r++)
        ck_assert_double_eq_tol(norms[r], own_norms[r], 1e-6 * own_norms[r]);
    ck_assert(is_owner[0] && !is_owner[1]);
}
END_TEST

START_TEST(changes_of_training_are_told)
{
    const struct cadre_strategy_ops ops = {.plan = train_sweep};
    struct cadre_changes changes;
    rank_fixture_start(&f);
    cadre_rank_changes(&f.rank, &changes);
    ck_assert(!changes.diverging && !*changes.by && !*changes.equal);
    ck_assert_uint_eq(changes.period, 1);
    rank_fixture_stop(&f);
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    cadre_rank_changes(&f.rank, &changes);
    ck_assert(changes.diverging);
    ck_assert_str_eq(changes.by, "data");
    ck_assert_str_eq(changes.equal, "optim.name=sgd");
}
END_TEST

START_TEST(ranks_that_differ_are_found)
{
    struct cadre_error err = {0};
    differ = true;
    ck_assert_int_eq(run_two(rank_fixture_split, &err), CADRE_E_INVALID);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(strstr(said[r], "rank 1 does not run what rank 0 runs") != NULL,
                      "%s", said[r]);
}
END_TEST

static cadre_status run_independent(struct cadre_self *self,
                                    const struct cadre_plan *plan)
{
    (void)self;
    return plan->use_axis(plan->h, "data", CADRE_BATCH_INDEPENDENT);
}

START_TEST(independent_runs_make_no_world)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(run_two(run_independent, &err), CADRE_E_INVALID);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(strstr(said[r], "its axis 'data' are independent runs"), "%s",
                      said[r]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rank");
    TCase *tc = tcase_create("rank");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, training_lowers_the_loss_and_repeats);
    tcase_add_loop_test(tc, a_batch_that_does_not_divide_names_both_keys, 0, 2);
    tcase_add_test(tc, ends_at_every_stage);
    tcase_add_loop_test(tc, a_plugin_completes_sharded_activations, 0, 2);
    tcase_add_loop_test(tc, states_that_no_checkpoint_holds_are_refused, 0, 4);
    tcase_add_test(tc, the_claim_cuts_the_model);
    tcase_add_loop_test(tc, the_time_is_cut, 0, 3);
    tcase_add_test(tc, a_codec_has_both_functions);
    tcase_add_test(tc, plans_that_never_settle_are_refused);
    tcase_add_test(tc, an_optimizer_range_begins_on_a_chunk);
    tcase_add_loop_test(tc, own_freezes_are_made_again, 0, 2);
    tcase_add_loop_test(tc, ranges_are_known_in_any_order, 0, 2);
    tcase_add_test(tc, the_print_shows_placement_and_memory);
    tcase_add_test(tc, memory_that_is_not_there_is_told_with_figures);
    tcase_add_test(tc, the_print_of_rank_0_shows_claims);
    tcase_add_test(tc, two_ranks_share_loss_and_votes);
    tcase_add_loop_test(tc, diverging_replicas_have_their_own_norm, 0, 2);
    tcase_add_test(tc, changes_of_training_are_told);
    tcase_add_test(tc, ranks_that_differ_are_found);
    tcase_add_test(tc, independent_runs_make_no_world);
    suite_add_tcase(s, tc);
    return s;
}
