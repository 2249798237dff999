/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/arrange.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir, *conf;
static struct cadre_options *options;
static struct cadre_comparison c;
static struct cadre_arrangement arrangement;
static struct cadre_error err;

static void setup(void)
{
    struct cadre_text text = {0};
    dir = test_tmpdir();
    conf = cadre_path_join(dir, "c.ini");
    for (int i = 0; i < 400; i++)
        cadre_text_printf(&text, "some words to learn from %d\n", i);
    fixture_write(dir, "text", cadre_text_str(&text));
    cadre_text_fini(&text);
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    cadre_options_destroy(options);
    test_tmpdir_destroy(dir);
    free(conf);
}

/* Arrange a small training with these sections at its end and --set texts. */
static cadre_status arrange(const char *sections, char *const *sets)
{
    char *text = cadre_format("[model]\nlayers = 1\nchannels = 16\nheads = 2\n"
                              "context = 16\n[data]\npath = %s/text\nwindow = 16\n"
                              "[train]\nsteps = 3\nglobal_batch = 12\n"
                              "micro_batch = 6\n%s",
                              dir, sections);
    fixture_write(dir, "c.ini", text);
    free(text);
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    cadre_status rc = cadre_options_load(options, conf, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    for (char *const *set = sets; set && *set; set++)
        ck_assert_int_eq(cadre_options_set(options, *set, "command line", &err),
                         CADRE_OK);
    const struct cadre_arrange_request request = {options, conf, sets, dir,
                                                  "cadre compare c.ini --json"};
    return cadre_arrange(&request, &c, &arrangement, &err);
}

static void must_arrange(const char *sections)
{
    cadre_status rc = arrange(sections, NULL);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

START_TEST(takes_runs_in_order_with_the_baseline_named)
{
    must_arrange("[compare]\nbaseline = TWO\nwarmup = 1\n[run:one]\n"
                 "run.exact = yes\n[run:two]\ntrain.recompute = block\n");
    ck_assert_uint_eq(c.n, 2);
    ck_assert_uint_eq(c.baseline, 1);
    ck_assert_str_eq(c.run[0].name, "one");
    ck_assert_str_eq(c.run[0].strategy, "single");
    ck_assert(c.run[0].exact && !c.run[1].exact);
    ck_assert_int_eq(c.warmup, 1);
    ck_assert_str_eq(c.title, "c.ini");
    ck_assert_str_eq(c.command, "cadre compare c.ini --json");
    ck_assert_int_eq(c.run[0].steps, 3);
    ck_assert_int_gt(c.run[0].params, 0);
    ck_assert_str_eq(c.run[0].other_training, "");
    ck_assert_uint_eq(c.n_perturbations, 3);
    ck_assert_int_eq(c.perturbation[0].micro_batch, 3);
    ck_assert_int_eq(c.perturbation[0].seed, 0);
    ck_assert_int_eq(c.perturbation[1].micro_batch, 0);
    ck_assert_int_eq(c.perturbation[1].seed, 2);
    ck_assert_uint_ne(c.run[0].setup, c.run[1].setup);
}
END_TEST

START_TEST(another_training_is_told_by_its_keys)
{
    must_arrange("[run:one]\n[run:two]\noptim.lr = 0.001\ndata.prefetch = 1\n"
                 "[run:three]\noptim.lr = 2e-3\nrun.seed = 7\n");
    /* 1e-3 is the default: the same value in other digits */
    ck_assert_str_eq(c.run[1].other_training, "");
    ck_assert_ptr_nonnull(strstr(c.run[2].other_training, "optim.lr (2e-3, baseline"));
    ck_assert_ptr_nonnull(strstr(c.run[2].other_training, "run.seed (7"));
}
END_TEST

START_TEST(limits_are_measured_only_where_they_are_needed)
{
    must_arrange("[run:one]\nrun.exact = yes\n[run:two]\nrun.exact = yes\n"
                 "[run:three]\noptim.lr = 1\n");
    ck_assert_uint_eq(c.n_perturbations, 0);
    ck_assert_str_eq(c.note, "");
}
END_TEST

START_TEST(tensor_parallel_runs_need_limits)
{
    must_arrange("[run:one]\nrun.exact = yes\n[run:two]\nrun.exact = yes\n"
                 "strategy.stack = tensor:2\n[run:three]\nstrategy.stack = tensor:1\n");
    ck_assert_str_eq(c.run[0].sums, "");
    ck_assert_str_eq(c.run[1].sums, "act.complete@tp:2");
    ck_assert_str_eq(c.run[2].sums, "");
    ck_assert_uint_eq(c.n_perturbations, 3);
}
END_TEST

START_TEST(a_layout_names_what_was_chosen)
{
    must_arrange("[run:one]\nrun.exact = yes\n[run:two]\nstrategy.stack = ddp:2\n"
                 "ddp.overlap = no\ncomm.ranks = processes\n");
    ck_assert_ptr_nonnull(strstr(c.run[0].layout, "1 rank, "));
    ck_assert_ptr_nonnull(strstr(c.run[0].layout, ", exact"));
    ck_assert_ptr_nonnull(strstr(c.run[1].layout, "2 ranks as processes, "));
    ck_assert_ptr_nonnull(strstr(c.run[1].layout, ", ddp.overlap = no"));
    ck_assert_ptr_null(strstr(c.run[1].layout, "bucket_mb"));
}
END_TEST

/* Of the whole comparison, but for the time of each run. */
START_TEST(timing_is_chosen)
{
    must_arrange("[compare]\nrounds = 7\nbudget = 2m\npiece = 0.5\nperiod = 4\n"
                 "margin = 0.02\ntarget = 3\n[run]\nseed = 5\n[run:one]\n[run:two]\n"
                 "run.exact = yes\ncompare.time = no\n");
    const struct cadre_timetable *table = &arrangement.timetable;
    ck_assert(table->wanted == 7 && table->budget_s == 120 && table->piece_s == 0.5);
    ck_assert(table->period == 4 && table->seed == 5);
    ck_assert(c.margin == 0.02 && c.target == 3);
    ck_assert_str_eq(c.run[0].untimed, "");
    ck_assert_str_eq(c.run[1].untimed, "compare.time is no");
    ck_assert_uint_eq(c.run[0].setup, c.run[1].setup); /* it has a price */
}
END_TEST

START_TEST(perturbation_can_be_left_out)
{
    must_arrange("[compare]\nperturb = no\n[run:one]\n[run:two]\n");
    ck_assert_uint_eq(c.n_perturbations, 0);
    ck_assert_ptr_nonnull(strstr(c.note, "compare.perturb = yes"));
}
END_TEST

START_TEST(parameters_move_where_no_other_micro_batch_is)
{
    must_arrange("[compare]\nperturbations = 2\n[run:one]\n"
                 "train.global_batch = 1\ntrain.micro_batch = 1\n[run:two]\n"
                 "train.global_batch = 1\ntrain.micro_batch = 1\nrun.exact = yes\n"
                 "bench.warmup = 7\n");
    ck_assert_uint_eq(c.n_perturbations, 2);
    ck_assert_int_eq(c.perturbation[0].micro_batch, 0);
    ck_assert_int_eq(c.perturbation[0].seed, 1);
    ck_assert_int_eq(c.perturbation[1].seed, 2);
    /* set up alike but for run.exact */
    ck_assert_uint_eq(c.run[0].setup, c.run[1].setup);
}
END_TEST

START_TEST(perturbation_divides_the_batch)
{
    ck_assert_int_eq(cadre_arrange_perturbation(16, 4), 2);
    ck_assert_int_eq(cadre_arrange_perturbation(12, 3), 1);
    ck_assert_int_eq(cadre_arrange_perturbation(15, 1), 3);
    ck_assert_int_eq(cadre_arrange_perturbation(1, 1), 0);
}
END_TEST

static const char *plugins(void)
{
    static char text[1200];
    const char *build = getenv("CADRE_BUILD");
    snprintf(text, sizeof text, "[strategy]\nplugin_path = %s/tests/plugins/.libs\n",
             build ? build : ".");
    return text;
}

/* In a comparison with independent runs each run takes the machine if it may. */
START_TEST(instances_are_found_and_the_machine_is_compared)
{
    char *text = cadre_format("%s[device]\nthreads = %d\n[run:one]\n[run:two]\n"
                              "strategy.stack = independent:2\nindependent.pin = no\n"
                              "independent.sweep = optim.lr: 1 2\n",
                              plugins(), _i);
    must_arrange(text);
    free(text);
    ck_assert_int_eq(c.run[0].instances, 0);
    ck_assert_int_eq(c.run[1].instances, 2);
    ck_assert_int_eq(c.run[1].ranks, 2);
    ck_assert_int_eq(c.whole, _i == 0);
    ck_assert_int_eq(arrangement.threads, 0);
    ck_assert_int_eq(c.run[0].threads, _i ? 1 : c.cores);
    ck_assert_int_eq(c.run[1].threads, _i ? 1 : c.cores);
    ck_assert_uint_eq(c.n_perturbations, 0);
    ck_assert_ptr_nonnull(strstr(c.run[1].layout, "2 independent runs, 2 ranks"));
}
END_TEST

START_TEST(a_sweep_is_checked_before_anything_trains)
{
    char *text = cadre_format("%s[run:one]\n[run:two]\nstrategy.stack = independent:2\n"
                              "independent.sweep = optim.lr: 1 2 3\n",
                              plugins());
    ck_assert_int_eq(arrange(text, NULL), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "run two: independent.sweep: optim.lr has 3 values"),
                  "%s", err.text);
    free(text);
}
END_TEST

START_TEST(unset_threads_are_divided)
{
    must_arrange("[device]\nthreads = 0\n[run:one]\n[run:two]\n");
    ck_assert_int_eq(arrangement.threads, c.cores);
    ck_assert_int_eq(c.run[1].threads, c.cores);
}
END_TEST

START_TEST(command_line_wins_over_a_run)
{
    char set[] = "optim.lr=0.5";
    char *const sets[] = {set, NULL};
    ck_assert_int_eq(arrange("[run:one]\n[run:two]\noptim.lr = 1\n", sets), CADRE_OK);
    ck_assert_str_eq(c.run[1].other_training, "");
}
END_TEST

static const struct {
    const char *sections, *says;
} wrong[] = {
    {"", "nothing to compare"},
    {"[run:one]\n[run:two]\ndevice.threads = 2\n",
     "runs of a comparison use the same cores per rank"},
    {"[compare]\nbaseline = three\n[run:one]\n[run:two]\n", "compare.baseline = three"},
    {"[compare]\nruns = one\nbaseline = two\n[run:one]\n[run:two]\n",
     "not one of the runs compared"},
    {"[run:.]\n", "cannot name a folder"},
    {"[compare]\nbudget = soon\n[run:one]\n[run:two]\n",
     "compare.budget: expected a time such as 90"},
    {"[run:one]\n[run:two]\ntrain.micro_batch = 5\n", "run two: "},
    {"[run:one]\n[run:two]\nstrategy.stack = no_such_plugin:2\n", "run two: "},
    {"[run:one]\n[run:two]\ndata.path = /nowhere\n", "run two: "},
    {"[run:one]\ntrain.epochs = few\n[run:two]\n", "run one: "},
    {"[bench]\nsteps = 5\n[run:one]\n", "run one: bench.steps = 5 and"},
    {"[run:one]\n[run:two]\nbench.target = 2.5\n", "bench.target = 2.5 make a"},
};

START_TEST(wrong_input_is_named)
{
    ck_assert_int_ne(arrange(wrong[_i].sections, NULL), CADRE_OK);
    ck_assert_msg(strstr(err.text, wrong[_i].says), "%s", err.text);
    ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

/* A wrong value that all runs have is that of the file, and where one run has another
 * in its place, that of the file too. */
START_TEST(what_runs_share_is_no_fault_of_a_run)
{
    static const char *const sections[] = {
        "[optim]\nclip = much\n[run:one]\n[run:two]\n",
        "[optim]\nclip = much\n[run:one]\noptim.clip = 1\n[run:two]\n",
        "[optim]\nclop = 1\n[run:one]\n[run:two]\n",
    };
    ck_assert_int_eq(arrange(sections[_i], NULL), CADRE_E_INVALID);
    ck_assert_msg(strncmp(err.text, conf, strlen(conf)) == 0, "%s", err.text);
    ck_assert_msg(strstr(err.text, "optim.cl"), "%s", err.text);
}
END_TEST

/* The file's run.name. */
START_TEST(a_comparison_has_a_name)
{
    char *const sets[] = {"train.steps=2", NULL};
    ck_assert_int_eq(arrange("[run]\nname = study\n[run:one]\n[run:two]\n", sets),
                     CADRE_OK);
    ck_assert_str_eq(c.title, "study");
    ck_assert_str_eq(c.run[0].name, "one");
}
END_TEST

START_TEST(a_training_has_a_folder)
{
    char *folder = cadre_arrange_folder("o", "a:moved-2");
    ck_assert_str_eq(folder, "o/runs/a:moved-2");
    free(folder);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("arrange");
    TCase *tc = tcase_create("arrange");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, takes_runs_in_order_with_the_baseline_named);
    tcase_add_test(tc, another_training_is_told_by_its_keys);
    tcase_add_test(tc, limits_are_measured_only_where_they_are_needed);
    tcase_add_test(tc, tensor_parallel_runs_need_limits);
    tcase_add_test(tc, a_layout_names_what_was_chosen);
    tcase_add_test(tc, timing_is_chosen);
    tcase_add_test(tc, perturbation_can_be_left_out);
    tcase_add_test(tc, parameters_move_where_no_other_micro_batch_is);
    tcase_add_test(tc, perturbation_divides_the_batch);
    tcase_add_loop_test(tc, instances_are_found_and_the_machine_is_compared, 0, 2);
    tcase_add_test(tc, a_sweep_is_checked_before_anything_trains);
    tcase_add_test(tc, unset_threads_are_divided);
    tcase_add_test(tc, command_line_wins_over_a_run);
    tcase_add_loop_test(tc, wrong_input_is_named, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_loop_test(tc, what_runs_share_is_no_fault_of_a_run, 0, 3);
    tcase_add_test(tc, a_comparison_has_a_name);
    tcase_add_test(tc, a_training_has_a_folder);
    suite_add_tcase(suite, tc);
    return suite;
}
