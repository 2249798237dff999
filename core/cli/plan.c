/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre plan`: forecasts from a hardware file, of candidates for a configuration or of
 * published steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/cli/cli.h"
#include "core/cli/plan_answers.h"
#include "core/cli/plan_ask.h"
#include "core/cli/plan_hardware.h"
#include "core/cli/plan_html.h"
#include "core/cli/plan_measure.h"
#include "core/cli/plan_predict.h"
#include "core/cli/plan_simulate.h"
#include "core/plan/backtest.h"
#include "core/plan/search.h"
#include "core/plugin/plugin.h"

#define MAP "texts.tsv"

/* ---- replay ---- */

/* The errors that intervals are made of; none where the table is not installed. */
static cadre_status load_intervals(struct cadre_intervals *intervals,
                                   struct cadre_error *err)
{
    char path[PATH_MAX];
    *intervals = (struct cadre_intervals){0};
    return cadre_cli_hardware_beside("errors.tsv", path)
               ? cadre_intervals_load(intervals, path, err)
               : CADRE_OK;
}

static cadre_status replay(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_backtest table;
    struct cadre_intervals intervals;
    char beside[PATH_MAX];
    if (args->conf || args->plan.ranks || args->plan.emit || args->set.n)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--replay takes a table alone: no CONF, --ranks, --emit or "
                          "--set");
    if (!args->plan.hardware && !cadre_cli_hardware_beside(MAP, beside))
        return cadre_fail(err, CADRE_E_INVALID,
                          "no table of hardware texts beside the program or in "
                          "%s/hardware; name one: --hardware FILE.tsv",
                          CADRE_CONFDIR);
    const char *map = args->plan.hardware ? args->plan.hardware : beside;
    CADRE_TRY(cadre_backtest(&table, args->plan.replay, map, err));
    cadre_status rc = load_intervals(&intervals, err);
    if (rc == CADRE_OK && args->json)
        rc = cadre_backtest_print_json(&table, &intervals, stdout);
    else if (rc == CADRE_OK)
        cadre_backtest_print(&table, &intervals, stdout);
    cadre_intervals_fini(&intervals);
    cadre_backtest_fini(&table);
    return rc;
}

/* ---- candidates ---- */

static cadre_status take_whole(const char *name, const char *text, int64_t most,
                               int64_t *out, struct cadre_error *err)
{
    char *end;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || value < 1 || value > most)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s is '%s', expected a whole number from 1 to %lld", name,
                          text, (long long)most);
    *out = value;
    return CADRE_OK;
}

/* An ini file that trains the best one. */
static cadre_status emit(const struct cadre_cli_args *args,
                         const struct cadre_plan_search *search,
                         struct cadre_error *err)
{
    char stack[CADRE_CANDIDATE_STACK];
    struct cadre_text out = {0};
    if (search->legal == 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "--emit: no candidate can run, nothing was written");
    const struct cadre_candidate *c = &search->found[0].candidate;
    char *conf = cadre_path_absolute(args->conf);
    cadre_candidate_stack(c, stack, sizeof stack);
    cadre_text_printf(&out,
                      "# The best of `cadre plan` for %s ranks on %s.\n[run]\n"
                      "extends = %s\n\n[strategy]\nstack = %s\n",
                      args->plan.ranks, args->plan.hardware, conf ? conf : "", stack);
    if (c->zero)
        cadre_text_printf(&out, "\n[zero]\nstage = %lld\n", (long long)c->zero);
    if (c->pipeline > 1)
        cadre_text_printf(&out, "\n[pipeline]\nschedule = %s\nchunks = %lld\n",
                          cadre_plan_schedule_name(cadre_candidate_schedule(c)),
                          (long long)c->chunks);
    cadre_text_printf(&out,
                      "\n[train]\nmicro_batch = %lld\nrecompute = %s\n"
                      "precision = %s\n",
                      (long long)c->micro_batch,
                      c->recompute == CADRE_PLAN_RECOMPUTE_FULL ? "block" : "none",
                      cadre_plan_dtype_name(c->dtype));
    cadre_status rc =
        !conf || out.failed
            ? cadre_no_memory(err, "the file of --emit")
            : cadre_path_write_file(args->plan.emit, out.data, out.len, err);
    cadre_text_fini(&out);
    free(conf);
    return rc;
}

static cadre_status check_words(const struct cadre_cli_args *args,
                                struct cadre_error *err)
{
    if (!args->conf || !args->plan.ranks || !args->plan.hardware)
        return cadre_fail(err, CADRE_E_INVALID,
                          "expected CONF with --ranks N and --hardware FILE, or "
                          "--replay FILE.csv; usage: cadre plan %s",
                          cadre_command_plan.synopsis);
    if (args->words.n > (args->plan.explain ? 2 : 1))
        return cadre_fail(err, CADRE_E_INVALID, "'%s' is one argument too many",
                          args->words.item[args->words.n - 1]);
    if (args->plan.explain && args->words.n < 2)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--explain %s: expected two, CONF --explain A B",
                          args->plan.explain);
    if (args->plan.emit && args->set.n)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--emit writes a file that extends CONF: put what --set says "
                          "into CONF");
    return CADRE_OK;
}

/* The question of a file, as options say it. */
static cadre_status load_question(const struct cadre_cli_args *args,
                                  struct cadre_plan_question *q,
                                  struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    CADRE_TRY(cadre_cli_load(args, &options, err));
    cadre_status rc = cadre_plugin_allow_sections(NULL, 0, options, err);
    if (rc == CADRE_OK)
        rc = cadre_options_resolve(options, err);
    if (rc == CADRE_OK)
        rc = cadre_plan_question_of(options, q, err);
    cadre_options_destroy(options);
    return rc;
}

static cadre_status take_ranks(const char *text, int64_t range[2],
                               struct cadre_error *err)
{
    char first[24];
    const char *dots = strstr(text, "..");
    if (!dots) {
        CADRE_TRY(take_whole("--ranks", text, 65536, &range[0], err));
        range[1] = range[0];
        return CADRE_OK;
    }
    snprintf(first, sizeof first, "%.*s", (int)(dots - text < 23 ? dots - text : 23),
             text);
    CADRE_TRY(take_whole("the first of --ranks", first, 65536, &range[0], err));
    CADRE_TRY(take_whole("the last of --ranks", dots + 2, 65536, &range[1], err));
    if (range[0] >= range[1])
        return cadre_fail(err, CADRE_E_INVALID,
                          "--ranks is '%s', expected FIRST..LAST with FIRST below LAST",
                          text);
    return CADRE_OK;
}

static cadre_status find_candidates(const struct cadre_cli_args *args,
                                    struct cadre_error *err)
{
    struct cadre_plan_answers a = {.args = args, .top = 10};
    int64_t range[2] = {0, 0};
    cadre_status rc;
    CADRE_TRY(check_words(args, err));
    CADRE_TRY(take_ranks(args->plan.ranks, range, err));
    if (args->plan.top)
        CADRE_TRY(take_whole("--top", args->plan.top, 1000000, &a.top, err));
    CADRE_TRY(cadre_cli_hardware_load(&a.hardware, args->plan.hardware, err));
    CADRE_TRY(load_question(args, &a.question, err));
    CADRE_TRY_OR(load_intervals(&a.intervals, err), out);
    if (range[1] > range[0]) {
        rc = cadre_plan_answer_curve(&a, range, err);
        goto out;
    }
    a.question.ranks = range[0];
    CADRE_TRY_OR(cadre_plan_search(&a.search, &a.question, &a.hardware, err), out);
    CADRE_TRY_OR(cadre_plan_ask(&a, (size_t)a.top, err), out);
    CADRE_TRY_OR(cadre_plan_ask_own(&a, err), out);
    if (args->plan.html)
        CADRE_TRY_OR(cadre_plan_html_write(&a, err), out);
    CADRE_TRY_OR(cadre_plan_answer(&a, err), out);
    if (args->plan.html && !args->json)
        printf("\nPage: %s\n", args->plan.html);
    if (args->plan.emit)
        rc = emit(args, &a.search, err);
out:
    cadre_plan_search_fini(&a.search);
    cadre_intervals_fini(&a.intervals);
    return rc;
}

static cadre_status plan(const struct cadre_cli_args *args, struct cadre_error *err)
{
    CADRE_TRY(cadre_plan_html_check(args, err));
    if (args->plan.measure)
        return cadre_plan_measure(args, err);
    if (args->plan.simulate)
        return cadre_cli_plan_simulate(args, err);
    if (args->plan.trace || args->plan.chakra)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s is of a simulated step: add --simulate",
                          args->plan.trace ? "--trace" : "--chakra");
    return args->plan.replay ? replay(args, err) : find_candidates(args, err);
}

static const struct cadre_cli_option options[] = {
    {.name = "--ranks",
     .argument = "N",
     .field = CADRE_CLI_FIELD(plan.ranks),
     .help = "how many ranks, one on each device; FIRST..LAST is a scaling curve of "
             "powers of two"},
    {.name = "--hardware",
     .argument = "FILE",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(plan.hardware),
     .help =
         "the hardware file, or the name of one that comes with Cadre, such as "
         "h100; with --replay the table that says which such file stands for a text "
         "in the column hw"},
    {.name = "--top",
     .argument = "K",
     .field = CADRE_CLI_FIELD(plan.top),
     .help = "candidates to print; default 10"},
    {.name = "--emit",
     .argument = "FILE.ini",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(plan.emit),
     .help = "write an ini file that trains the best candidate; it extends CONF"},
    {.name = "--html",
     .argument = "FILE",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(plan.html),
     .help = "write the list as a page, with bars of seconds and bytes and a simulated "
             "drawing of the first pipeline"},
    {.name = "--replay",
     .argument = "FILE.csv",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(plan.replay),
     .help = "set forecasts beside the published steps of a table, with their errors"},
    CADRE_CLI_OPTION_SET,
    CADRE_CLI_OPTION_JSON,
    {.name = "--explain",
     .argument = "A",
     .field = CADRE_CLI_FIELD(plan.explain),
     .help = "why A or B, the argument that follows, is faster; each is a place in the "
             "list or a stack"},
    {.name = "--what-if",
     .argument = "KEY=CHANGE",
     .field = CADRE_CLI_FIELD(plan.what_if),
     .repeats = true,
     .help = "what a change of the hardware file does: link.bandwidth=+10%"},
    {.name = "--fit",
     .field = CADRE_CLI_FIELD(plan.fit),
     .help = "the largest model, context and micro-batch that fit"},
    {.name = "--stack",
     .argument = "A",
     .field = CADRE_CLI_FIELD(plan.stack),
     .help =
         "the candidate of --fit: a place in the list or a stack; default the best"},
    {.name = "--cost",
     .field = CADRE_CLI_FIELD(plan.cost),
     .help = "hours and price of training on --tokens"},
    {.name = "--tokens",
     .argument = "T",
     .field = CADRE_CLI_FIELD(tokens),
     .help = "how many tokens to train on, as 15e12"},
    {.name = "--price",
     .argument = "P",
     .field = CADRE_CLI_FIELD(plan.price),
     .help = "of one device and hour; default device.price_per_hour of the hardware "
             "file"},
    {.name = "--measure",
     .argument = "FILE.ini",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(plan.measure),
     .help = "measure one rank of this machine for some seconds and write its hardware "
             "file; --set device.kind and device.threads say what a rank has"},
    {.name = "--simulate",
     .field = CADRE_CLI_FIELD(plan.simulate),
     .help = "run the step of CONF's own stack on simulated devices and links, with "
             "the plugins that will train"},
    {.name = "--trace",
     .argument = "FILE",
     .kind = CADRE_CLI_FILE,
     .field = CADRE_CLI_FIELD(plan.trace),
     .help = "with --simulate: write a trace of the simulated step for Perfetto"},
    {.name = "--chakra",
     .argument = "DIR",
     .kind = CADRE_CLI_FOLDER,
     .field = CADRE_CLI_FIELD(plan.chakra),
     .help = "with --simulate: write the simulated step as Chakra execution traces, "
             "which ASTRA-sim reads: DIR/step.RANK.et and DIR/comm_groups.json"},
    {0},
};

const struct cadre_cli_command cadre_command_plan = {
    .name = "plan",
    .synopsis = "CONF --ranks N --hardware FILE [--top K] [--explain A B] "
                "[--what-if KEY=CHANGE]... [--fit [--stack A]] [--cost --tokens T "
                "[--price P]] [--emit FILE.ini] [--html FILE] "
                "[--set SECTION.KEY=VALUE]... [--json] | "
                "CONF --ranks N --hardware FILE --simulate [--trace FILE] "
                "[--chakra DIR] [--set SECTION.KEY=VALUE]... [--json] | "
                "--replay FILE.csv [--json]",
    .summary = "forecast time and memory of a step for every stack on N ranks",
    .details =
        "Nothing is run: figures are forecasts of formulas (docs/planning.md) and "
        "numbers of a hardware file, such as those in conf/hardware. Stacks of "
        "tensor, pipeline and data or sharded data parallelism are ranked by the "
        "seconds of a step; each refused one has its reason.\n\n"
        "--replay shows how far such forecasts are from published steps, in the "
        "columns of tests/samples/planner/published.csv.",
    .argument = "CONF",
    .kind = CADRE_CLI_CONF,
    .least = 0,
    .most = CADRE_CLI_MANY,
    .options = options,
    .run = plan,
};
