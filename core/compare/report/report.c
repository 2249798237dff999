/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of all forms of the report, and its files. */
#include "core/compare/report/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/path.h"
#include "core/compare/report/report_private.h"
#include "core/compare/report/report_seeds.h"
#include "core/compare/report/sentences.h"
#include "core/compare/verdict/certificate.h"
#include "core/compare/verdict/figures.h"
#include "core/compare/verdict/seeds.h"
#include "core/run/format.h"

enum { ROUNDS_TOLD = 3 }; /* disturbed rounds that notes tell, of possibly all */

bool cadre_report_is_timed(const struct cadre_comparison *c)
{
    return c->speed.n_rounds > 0;
}

const char *cadre_report_where(const struct cadre_comparison *c)
{
    if (cadre_report_is_timed(c))
        return c->whole ? CADRE_FORMULA_ROUNDS_WHOLE : CADRE_FORMULA_ROUNDS;
    return c->whole ? CADRE_FORMULA_WHOLE : CADRE_FORMULA_WHERE;
}

const char *cadre_report_date(char *out, size_t size)
{
    char date[CADRE_JSON_DATE];
    snprintf(out, size, "%s", cadre_json_date(date));
    return out;
}

double cadre_report_step_s(const struct cadre_compared_run *run)
{
    double timed = run->speed.period_s.value;
    return timed > 0 ? timed : *run->failure ? (double)NAN : run->step_s;
}

double cadre_report_bubble(const struct cadre_compared_run *run)
{
    double timed = run->speed.bubble_fraction.value;
    return isfinite(timed) ? timed
                           : cadre_record_number(&run->record, "bubble_fraction");
}

double cadre_report_exposed_s(const struct cadre_compared_run *run)
{
    double timed = run->speed.comm_exposed_s.value;
    return isfinite(timed) ? timed
                           : cadre_record_number(&run->record, "comm_exposed_s") /
                                 cadre_record_number(&run->record, "steps");
}

size_t cadre_report_rounds(const struct cadre_comparison *c, size_t run)
{
    const bool to_target = c->run[run].to_target;
    const struct cadre_piece *piece = to_target ? c->target_piece : c->piece;
    const size_t n = to_target ? c->n_target_pieces : c->n_pieces;
    size_t rounds = 0;
    for (size_t i = 0; i < n; i++) {
        bool counts = piece[i].run == run && piece[i].round > 0;
        for (size_t k = 0; counts && k < i; k++)
            counts = piece[k].run != run || piece[k].round != piece[i].round;
        rounds += counts;
    }
    return rounds;
}

bool cadre_report_is_disturbed(const struct cadre_comparison *c,
                               const struct cadre_piece *piece)
{
    for (size_t i = 0; i < c->speed.n_rounds; i++)
        if (c->speed.round[i].round == piece->round)
            return c->speed.round[i].disturbed;
    return false;
}

bool cadre_report_is_doubtful(const struct cadre_compared_run *run)
{
    return *run->failure || !run->fair || *run->implausible ||
           (run->equal == CADRE_EQUAL_DIFFERS && !run->by_design);
}

ptrdiff_t cadre_report_fastest(const struct cadre_comparison *c)
{
    ptrdiff_t first = cadre_report_is_timed(c) ? c->speed.fastest : -1;
    if (first < 0)
        return -1;
    const struct cadre_compared_run *run = &c->run[first];
    bool wrong =
        *run->failure || (run->equal == CADRE_EQUAL_DIFFERS && !run->by_design);
    return wrong ? -1 : first;
}

bool cadre_report_is_judged(const struct cadre_comparison *c, size_t i)
{
    return !*c->run[i].failure && !*c->run[cadre_seeds_baseline(c, i)].failure;
}

void cadre_report_equality(const struct cadre_comparison *c, size_t i, char *out,
                           size_t size)
{
    const struct cadre_compared_run *run = &c->run[i];
    const struct cadre_margin *loss = &run->margin[CADRE_QUANTITY_LOSS];
    if (*run->failure)
        snprintf(out, size, "failed");
    else if (i == c->baseline)
        snprintf(out, size, "baseline");
    else if (cadre_seeds_baseline(c, i) == i)
        snprintf(out, size, "its seed's baseline");
    else if (!cadre_report_is_judged(c, i))
        snprintf(out, size, "not judged");
    else if (run->equal == CADRE_EQUAL_WITHIN)
        snprintf(out, size, "within (%.1e of %.1e)%s%s", loss->diff, loss->limit,
                 run->bit_identical < 0 ? "" : ", bits of ",
                 run->bit_identical < 0 ? "" : c->run[run->bit_identical].name);
    else
        snprintf(out, size, "%s%s", cadre_equal_name(run->equal),
                 run->by_design ? " by design" : "");
}

void cadre_report_sentences(const struct cadre_comparison *c, struct cadre_text *out)
{
    struct cadre_sentences said = {0};
    cadre_sentences_fill(&said, c);
    for (size_t i = 0; i < said.n; i++)
        cadre_text_printf(out, "%s\n", said.of[i].text);
    out->failed = out->failed || said.failed;
    cadre_sentences_fini(&said);
}

static void note_measured(const struct cadre_comparison *c, struct cadre_text *out)
{
    size_t moved = 0;
    cadre_text_printf(out,
                      "Limits are measured: %.3g times what rounding changes in "
                      "%zu more runs of %s (",
                      c->factor, c->n_perturbations, c->run[c->baseline].name);
    for (size_t p = 0; p < c->n_perturbations; p++)
        if (c->perturbation[p].micro_batch)
            cadre_text_printf(out, "with train.micro_batch = %" PRId64,
                              c->perturbation[p].micro_batch);
        else
            moved++;
    if (moved)
        cadre_text_printf(out,
                          "%s%zu from parameters moved by one unit in the last "
                          "place",
                          moved < c->n_perturbations ? ", and " : "", moved);
    cadre_text_printf(out,
                      "). They took %.1f s; compare.perturb = no leaves them out.\n",
                      cadre_comparison_perturbed_s(c));
}

static void note_limits(const struct cadre_comparison *c, struct cadre_text *out)
{
    bool measured = false, stated = false;
    for (size_t i = 0; i < c->n; i++) {
        if (i == c->baseline)
            continue;
        measured = measured || c->run[i].limit == CADRE_LIMIT_MEASURED;
        stated = stated || c->run[i].limit == CADRE_LIMIT_STATED;
    }
    if (measured)
        note_measured(c, out);
    if (measured && cadre_comparison_is_chaotic(c))
        cadre_text_printf(out,
                          "Equality is judged up to step %" PRId64
                          ": after it this training is chaotic, and limits let pass "
                          "1 %% of a loss or 10 %% of a norm.\n",
                          c->judged_steps);
    if (stated)
        cadre_text_printf(out,
                          "Limits are stated, not measured: at step k, %seps k of the "
                          "value, and only the first %" PRId64
                          " steps are judged%s%s.\n",
                          c->run[c->baseline].coarse > 0 ? "" : "64 ", c->judged_steps,
                          *c->note ? "; " : "", c->note);
}

/* Hosts of a run as one text. */
static void put_hosts(const struct cadre_compared_run *run, struct cadre_text *out)
{
    const json_t *hosts = cadre_record_hosts(&run->record);
    size_t n = json_array_size(hosts), shown = n > 4 ? 3 : n;
    for (size_t i = 0; i < shown; i++)
        cadre_text_printf(out, "%s%s", i ? ", " : "",
                          json_string_value(json_array_get(hosts, i)));
    if (shown < n)
        cadre_text_printf(out, " and %zu more", n - shown);
}

/* Runs started by others may have had other hosts: on one kind of processor that is
 * fair, and noted. */
static void note_hosts(const struct cadre_comparison *c, struct cadre_text *out)
{
    const json_t *first = cadre_record_hosts(&c->run[c->baseline].record);
    bool elsewhere = false;
    for (size_t i = 0; i < c->n; i++) {
        const json_t *hosts = cadre_record_hosts(&c->run[i].record);
        elsewhere = elsewhere || (first && hosts && !json_equal(first, hosts));
    }
    for (size_t i = 0; elsewhere && i < c->n; i++) {
        cadre_text_printf(out, "%s%s on ",
                          i ? "; " : "The runs had other hosts: ", c->run[i].name);
        put_hosts(&c->run[i], out);
    }
    if (elsewhere)
        cadre_text_printf(out, ".\n");
}

static void note_round(const struct cadre_comparison *c,
                       const struct cadre_speed_round *round, struct cadre_text *out)
{
    cadre_text_printf(out, "Round %d was disturbed: %s%s%s.\n", round->round,
                      round->why, round->run < 0 ? "" : " in ",
                      round->run < 0 ? "" : c->run[round->run].name);
}

static void note_followed(const struct cadre_comparison *c, struct cadre_text *out)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        const struct cadre_compared_run *base = &c->run[c->baseline];
        const int followed = run->speed.followed;
        if (!followed || run->speed.verdict == CADRE_SPEED_NOT_RANKED)
            continue;
        cadre_text_printf(out,
                          "More load came with %s than with %s: it is given back, and "
                          "the interval of the speedup of %s is as much wider.\n",
                          followed > 0 ? run->name : base->name,
                          followed > 0 ? base->name : run->name, run->name);
    }
}

static void note_unknown_load(const struct cadre_comparison *c, struct cadre_text *out)
{
    const struct cadre_speed *speed = &c->speed;
    size_t unknown = 0;
    for (size_t i = 0; i < speed->n_rounds; i++)
        unknown += isnan(speed->round[i].foreign);
    if (unknown > 0)
        cadre_text_printf(out,
                          "What other processes took is not known here in %zu of these "
                          "rounds: then %s.\n",
                          unknown,
                          c->mirrored ? "only a run's two pieces show a disturbance"
                                      : "nothing shows a disturbance");
}

/* How many rounds, and which of them were disturbed by what. */
static void note_rounds(const struct cadre_comparison *c, struct cadre_text *out)
{
    const struct cadre_speed *speed = &c->speed;
    if (speed->n_rounds == 0)
        return;
    cadre_text_printf(out, "%zu rounds%s; %zu of them disturbed.\n", speed->n_rounds,
                      c->mirrored ? ", two pieces of each run in each" : "",
                      speed->n_disturbed);
    note_unknown_load(c, out);
    note_followed(c, out);
    if (c->attempts > 0)
        cadre_text_printf(out,
                          "The rounds were begun anew: the pieces of %d earlier "
                          "attempt%s are in pieces-1.jsonl and so on.\n",
                          c->attempts, c->attempts == 1 ? "" : "s");
    for (size_t i = 0, told = 0; i < speed->n_rounds && told < ROUNDS_TOLD; i++)
        if (speed->round[i].disturbed) {
            note_round(c, &speed->round[i], out);
            told++;
        }
    if (speed->n_disturbed > ROUNDS_TOLD)
        cadre_text_printf(out, "%zu more were, as report.json says.\n",
                          speed->n_disturbed - ROUNDS_TOLD);
    if (speed->despite_load)
        cadre_text_printf(out,
                          "Fewer than 6 rounds were undisturbed. Verdicts are from all "
                          "rounds, and only where neither twice the CPU time that "
                          "others took nor what a run's two pieces differ by explains "
                          "the difference; intervals of speedup are wider by that.\n");
    else if (speed->n_disturbed > 0)
        cadre_text_printf(out, "Verdicts are made with and without disturbed rounds; "
                               "where the two differ, no difference was shown.\n");
}

/* Rounds are benchmarks, which run with the stages that a run begins with. */
static void note_recuts(const struct cadre_comparison *c, struct cadre_text *out)
{
    for (size_t i = 0; i < c->n; i++) {
        const char *from, *to;
        int64_t step;
        const size_t n = cadre_record_recuts(&c->run[i].record, &step, &from, &to);
        if (n > 0)
            cadre_text_printf(out,
                              "%s cut its stages again %zu time%s while it trained, "
                              "last after step %" PRId64
                              " (units of each chunk %s to %s); its rounds were timed "
                              "with the stages that it begins with.\n",
                              c->run[i].name, n, n > 1 ? "s" : "", step, from, to);
    }
}

static void note_restarts(const struct cadre_compared_run *run, struct cadre_text *out)
{
    const char *from, *restarted = cadre_record_restarted(&run->record, &from);
    if (restarted && from && strcmp(restarted, from) == 0)
        cadre_text_printf(out,
                          "%s lost ranks, which were replaced: steps since the last "
                          "checkpoint were trained again.\n",
                          run->name);
    else if (restarted)
        cadre_text_printf(out,
                          "%s lost ranks and continued with %s, so its times are not "
                          "those of %s alone.\n",
                          run->name, restarted, run->strategy);
}

/* What went between the nodes of a run, where it had several. */
static void note_nodes(const struct cadre_compared_run *run, struct cadre_text *out)
{
    const double nodes = cadre_record_number(&run->record, "nodes");
    const double all = cadre_record_number(&run->record, "comm_bytes");
    const double between = cadre_record_number(&run->record, "comm_between_bytes");
    if (!(nodes > 1))
        return;
    cadre_text_printf(out, "%s: %.0f %snodes", run->name, nodes,
                      run->simulated_nodes ? "simulated " : "");
    if (all > 0 && between >= 0)
        cadre_text_printf(out, "; %.3g of %.3g MB sent went between them",
                          between / 1e6, all / 1e6);
    cadre_text_printf(out, "%s.\n", run->simulated_nodes ? " (comm.node)" : "");
}

/* Of trainings apart in time, which rank nothing. */
static void note_spread(const struct cadre_comparison *c, struct cadre_text *out)
{
    const char *lead = "Time of a step in these trainings, which rank nothing, and its "
                       "middle half: ";
    for (size_t i = 0; i < c->n && !cadre_report_is_timed(c); i++) {
        const struct cadre_compared_run *run = &c->run[i];
        char median[32], from[32], to[32];
        double low, high;
        cadre_record_middle_s(&run->record, c->warmup, cadre_comparison_last_step(c),
                              &low, &high);
        if (*run->failure || !isfinite(low) || !isfinite(run->step_s))
            continue;
        cadre_text_printf(out, "%s%s %s (%s to %s)", lead, run->name,
                          cadre_format_seconds(run->step_s, median, sizeof median),
                          cadre_format_seconds(low, from, sizeof from),
                          cadre_format_seconds(high, to, sizeof to));
        lead = "; ";
    }
    if (strcmp(lead, "; ") == 0)
        cadre_text_printf(out, ".\n");
}

void cadre_report_notes(const struct cadre_comparison *c, struct cadre_text *out)
{
    note_rounds(c, out);
    note_spread(c, out);
    if (cadre_comparison_has_instances(c))
        cadre_text_printf(out, "%s.\n", CADRE_FORMULA_SWEEP);
    note_limits(c, out);
    note_hosts(c, out);
    cadre_report_note_consumption(c, out);
    cadre_report_note_predictions(c, out);
    cadre_report_seeds_notes(c, out);
    note_recuts(c, out);
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        if (!run->fair)
            cadre_text_printf(out, "fair: false for %s: %s.\n", run->name, run->unfair);
        if (*run->implausible)
            cadre_text_printf(out, "Implausible figures of %s (marked !): %s.\n",
                              run->name, run->implausible);
        if (run->to_target)
            cadre_text_printf(out,
                              "%s changes training by design: its speedup and verdict "
                              "are those of the time to a training loss of %g, %.3g s "
                              "where %s took %.3g s; each round has another seed.\n",
                              run->name, c->target, run->target_s.value,
                              c->run[c->baseline].name,
                              c->run[c->baseline].target_s.value);
        if (run->schedule.n > 0)
            cadre_text_printf(
                out,
                "%s: bubble %.1f %% of the schedule's span, %.1f %% where its passes "
                "are replayed without delays.\n",
                run->name, 100 * cadre_report_bubble(run), 100 * run->bubble_replayed);
        note_restarts(run, out);
        if (run->simulated_link)
            cadre_text_printf(out, "%s ran over a simulated link (comm.link).\n",
                              run->name);
        if (run->simulated_pace)
            cadre_text_printf(out, "%s ran with simulated slow ranks (device.pace).\n",
                              run->name);
        note_nodes(run, out);
        if (run->instances)
            cadre_text_printf(
                out,
                "%s is %d trainings, which are compared with nothing; its "
                "losses are those of the best, instance %zu.\n",
                run->name, run->instances, run->record.best);
        if (run->equal == CADRE_EQUAL_INDEPENDENT && *run->other_training &&
            !cadre_seeds_only(run))
            cadre_text_printf(out,
                              "%s is another training and is not compared with the "
                              "baseline; it differs in %s.\n",
                              run->name, run->other_training);
    }
}

static cadre_status write_text(const char *dir, const char *name,
                               const struct cadre_text *text, struct cadre_error *err)
{
    char *path = cadre_path_join(dir, name);
    cadre_status rc;
    if (path && !text->failed)
        rc = cadre_path_write_file(path, cadre_text_str(text), text->len, err);
    else
        rc = cadre_no_memory(err, "%s", name);
    free(path);
    return rc;
}

static cadre_status
write_one(const struct cadre_comparison *c, const char *dir, const char *name,
          void (*form)(const struct cadre_comparison *, struct cadre_text *),
          struct cadre_error *err)
{
    struct cadre_text text = {0};
    form(c, &text);
    cadre_status rc = write_text(dir, name, &text, err);
    cadre_text_fini(&text);
    return rc;
}

static cadre_status write_certificate(const struct cadre_comparison *c, size_t run,
                                      const char *dir, struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char *name = cadre_certificate_file(&c->run[run]);
    cadre_json_init_text(&json, &text, true);
    cadre_certificate_put(&json, c, run);
    cadre_status rc = cadre_json_finish(&json);
    if (rc != CADRE_OK || !name)
        rc = cadre_no_memory(err, "a certificate");
    else
        rc = write_text(dir, name, &text, err);
    cadre_text_fini(&text);
    free(name);
    return rc;
}

cadre_status cadre_report_write(const struct cadre_comparison *c, const char *dir,
                                struct cadre_error *err)
{
    CADRE_TRY(write_one(c, dir, "report.json", cadre_report_json, err));
    CADRE_TRY(write_one(c, dir, "report.csv", cadre_report_csv, err));
    CADRE_TRY(write_one(c, dir, "report.md", cadre_report_markdown, err));
    CADRE_TRY(write_one(c, dir, "report.html", cadre_report_html, err));
    for (size_t i = 0; i < c->n; i++)
        if (!*c->run[i].failure)
            CADRE_TRY(write_certificate(c, i, dir, err));
    return CADRE_OK;
}
