/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/pieces.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/format/file.h"
#include "core/run/bench.h"
#include "core/run/restarts.h"

/* ---- keeping ---- */

static void keep_in(struct cadre_pieces *pieces, struct cadre_piece **kept, size_t *n)
{
    free(*kept);
    *kept = NULL;
    *n = 0;
    pieces->kept = kept;
    pieces->n = n;
    pieces->room = 0;
}

void cadre_pieces_to_target(struct cadre_pieces *pieces)
{
    struct cadre_comparison *c = pieces->comparison;
    keep_in(pieces, &c->target_piece, &c->n_target_pieces);
}

/* Times that were seen before the rounds were begun anew are kept beside them, as
 * pieces-1.jsonl and so on: nobody has to believe that they were not chosen. */
static cadre_status keep_earlier(const char *out, const char *path, int *attempts,
                                 struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    char *kept = NULL;
    *attempts = 0;
    struct stat st;
    do {
        free(kept);
        kept = cadre_format("%s/pieces-%d.jsonl", out, *attempts + 1);
        if (!kept)
            return cadre_no_memory(err, "a path");
        *attempts += cadre_path_exists(kept);
    } while (cadre_path_exists(kept));
    if (stat(path, &st) == 0 && st.st_size > 0) {
        if (rename(path, kept) == 0)
            ++*attempts;
        else
            rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot rename '%s' to '%s'",
                                  path, kept);
    }
    free(kept);
    return rc;
}

cadre_status cadre_pieces_open(struct cadre_pieces *pieces,
                               const struct cadre_task_request *request,
                               struct cadre_comparison *comparison,
                               const struct cadre_supervise_watch *watch,
                               struct cadre_error *err)
{
    const char *out = request->request->out;
    char *folder = cadre_path_join(out, "pieces");
    char *path = cadre_path_join(out, "pieces.jsonl");
    cadre_status rc = CADRE_OK;
    *pieces = (struct cadre_pieces){
        .request = *request, .comparison = comparison, .watch = watch};
    keep_in(pieces, &comparison->piece, &comparison->n_pieces);
    for (size_t i = 0; i < comparison->n; i++)
        comparison->run[i].n_parts = 0;
    if (!folder || !path)
        rc = cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && cadre_path_exists(folder))
        rc = cadre_file_remove_tree(folder, err);
    if (rc == CADRE_OK)
        rc = keep_earlier(out, path, &comparison->attempts, err);
    if (rc == CADRE_OK && !(pieces->file = fopen(path, "w")))
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", path);
    free(folder);
    free(path);
    return rc;
}

void cadre_pieces_close(struct cadre_pieces *pieces)
{
    if (pieces->file)
        fclose(pieces->file);
    pieces->file = NULL;
}

static void put_load(struct cadre_json *json, const struct cadre_load *load)
{
    const struct {
        const char *key;
        double value;
    } all[] = {
        {"wall_s", load->wall_s},           {"own_s", load->own_s},
        {"foreign_s", load->foreign_s},     {"steal_s", load->steal_s},
        {"throttled_s", load->throttled_s}, {"mhz", load->mhz},
        {"thermal", load->thermal},         {"gpu_mhz", load->gpu_mhz},
        {"gpu_watts", load->gpu_watts},     {"gpu_celsius", load->gpu_celsius},
        {"gpu_others", load->gpu_others},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        cadre_json_put_f64(json, all[i].key, all[i].value);
}

/* bench: NULL where it failed. */
static cadre_status write_line(struct cadre_pieces *pieces,
                               const struct cadre_piece *piece,
                               const struct cadre_bench *bench,
                               const struct cadre_child_failure *failure,
                               struct cadre_error *err)
{
    struct cadre_json json;
    cadre_json_init(&json, pieces->file, false);
    cadre_json_begin_object(&json);
    cadre_json_put_string(&json, "run", pieces->comparison->run[piece->run].name);
    cadre_json_put_i64(&json, "round", piece->round);
    cadre_json_put_i64(&json, "repeats_round", piece->repeats_round);
    cadre_json_put_i64(&json, "place", piece->place);
    cadre_json_put_i64(&json, "half", piece->half);
    cadre_json_put_bool(&json, "to_target", pieces->request.piece->target > 0);
    cadre_json_put_string(&json, "failure", failure->failed ? failure->why : NULL);
    cadre_json_put_f64(&json, "begin_s", piece->begin_s);
    cadre_json_put_f64(&json, "start_s", piece->start_s);
    cadre_json_put_f64(&json, "period_s", piece->period_s);
    cadre_json_put_f64(&json, "bubble_fraction", piece->bubble_fraction);
    cadre_json_put_f64(&json, "comm_exposed_s", piece->comm_exposed_s);
    cadre_json_put_f64(&json, "j_per_token", piece->joules_per_token);
    cadre_json_key(&json, "step_parts");
    if (bench)
        cadre_step_parts_put(&json, &bench->parts, cadre_bench_step_s(bench));
    else
        cadre_json_null(&json);
    put_load(&json, &piece->load);
    cadre_json_end_object(&json);
    bool written = cadre_json_finish(&json) == CADRE_OK && fflush(pieces->file) == 0;
    if (!written)
        return cadre_fail_errno(err, CADRE_E_IO, errno,
                                "cannot write '%s/pieces.jsonl'",
                                pieces->request.request->out);
    return CADRE_OK;
}

static cadre_status keep(struct cadre_pieces *pieces, const struct cadre_piece *piece,
                         struct cadre_error *err)
{
    if (*pieces->n == pieces->room) {
        size_t room = 2 * pieces->room + 64;
        struct cadre_piece *more = realloc(*pieces->kept, room * sizeof *more);
        if (!more)
            return cadre_no_memory(err, "%zu pieces", room);
        *pieces->kept = more;
        pieces->room = room;
    }
    (*pieces->kept)[(*pieces->n)++] = *piece;
    return CADRE_OK;
}

/* Its parts of a step, as fractions of it. */
static cadre_status keep_parts(const struct cadre_pieces *pieces,
                               const struct cadre_piece *piece,
                               const struct cadre_bench *bench, struct cadre_error *err)
{
    struct cadre_compared_run *run = &pieces->comparison->run[piece->run];
    double values[CADRE_STEP_PARTS_VALUES];
    if (piece->round == 0 || pieces->kept != &pieces->comparison->piece)
        return CADRE_OK;
    struct cadre_step_parts *more =
        realloc(run->parts, (run->n_parts + 1) * sizeof *more);
    if (!more)
        return cadre_no_memory(err, "%zu pieces", run->n_parts + 1);
    run->parts = more;
    more += run->n_parts++;
    *more = bench->parts;
    cadre_step_parts_values(more, values);
    cadre_step_parts_set(more, values, 1 / cadre_bench_step_s(bench));
    return CADRE_OK;
}

void cadre_pieces_drop(struct cadre_pieces *pieces, size_t run)
{
    if (pieces->kept == &pieces->comparison->piece)
        pieces->comparison->run[run].n_parts = 0;
    struct cadre_piece *kept = *pieces->kept;
    size_t left = 0;
    for (size_t i = 0; i < *pieces->n; i++)
        if (kept[i].run != run)
            kept[left++] = kept[i];
    *pieces->n = left;
}

/* ---- running ---- */

/* Seconds a step, for as many tokens as the baseline's step has where there are
 * several instances. */
static double value_of(const struct cadre_comparison *c,
                       const struct cadre_compared_run *run,
                       const struct cadre_bench *bench)
{
    double step_s = cadre_bench_step_s(bench);
    if (run->instances)
        step_s *= cadre_record_step_tokens(&c->run[c->baseline].record) / bench->tokens;
    return step_s;
}

static void fill(const struct cadre_pieces *pieces, const struct cadre_bench *bench,
                 struct cadre_piece *piece)
{
    const struct cadre_comparison *c = pieces->comparison;
    double windows = 0;
    piece->period_s = pieces->request.piece->target > 0
                          ? bench->window[0].seconds
                          : value_of(c, &c->run[piece->run], bench);
    piece->bubble_fraction = piece->comm_exposed_s = 0;
    for (size_t i = 0; i < bench->n; i++) {
        windows += bench->window[i].seconds;
        piece->bubble_fraction += bench->window[i].bubble_fraction / (double)bench->n;
        piece->comm_exposed_s += bench->window[i].comm_exposed_s / (double)bench->n;
    }
    piece->timed_s = windows;
    /* a launcher may hide when the process began */
    piece->start_s =
        isfinite(bench->start_s) ? bench->start_s : piece->load.wall_s - windows;
}

/* Of the timed steps; NaN where the piece does not tell. */
static double joules_of(const char *folder)
{
    struct cadre_record record = {0};
    double joules = NAN;
    if (cadre_record_read_summary(folder, &record, NULL) == CADRE_OK)
        joules = cadre_record_number_in(&record, "energy", "j_per_token");
    cadre_record_fini(&record);
    return joules;
}

static void fail_piece(struct cadre_child_failure *failure, const char *why)
{
    *failure = (struct cadre_child_failure){.failed = true, .status = CADRE_E_ABORTED};
    snprintf(failure->why, sizeof failure->why, "%.120s", why);
}

/* The child, and what it measured. */
static cadre_status train(struct cadre_pieces *pieces, const struct cadre_task *task,
                          const char *folder, struct cadre_bench *bench,
                          struct cadre_child_failure *failure, struct cadre_error *err)
{
    char **argv = NULL;
    const struct cadre_task_piece *what = pieces->request.piece;
    CADRE_TRY(cadre_task_arguments(&pieces->request, task, folder, &argv, err));
    const struct cadre_child child = {argv, task->name, folder};
    cadre_status rc = cadre_child_run(pieces->watch, &child, failure, err);
    free(argv);
    if (failure->failed) {
        char how[sizeof failure->why];
        snprintf(how, sizeof how, "failed with %.100s", failure->why);
        fail_piece(failure, how);
    }
    if (rc != CADRE_OK || failure->failed)
        return rc;
    struct cadre_error why = {0};
    char *restarted = cadre_restarts_first(folder); /* by run.elastic */
    if (restarted)
        fail_piece(failure, "lost ranks and went on without them");
    else if (cadre_bench_read(folder, bench, &why) != CADRE_OK)
        fail_piece(failure, why.text);
    else if (!bench->reached)
        fail_piece(failure, "did not reach compare.target");
    else if (bench->n != (size_t)what->windows || !(bench->window[0].seconds > 0) ||
             (what->target <= 0 && bench->steps != what->steps))
        fail_piece(failure, "left other windows than were asked for");
    free(restarted);
    return CADRE_OK;
}

static void number_failure(const struct cadre_pieces *pieces,
                           struct cadre_child_failure *failure)
{
    char why[sizeof failure->why];
    snprintf(why, sizeof why, "piece %d %.110s", pieces->made, failure->why);
    memcpy(failure->why, why, sizeof why);
}

cadre_status cadre_pieces_run(struct cadre_pieces *pieces, const struct cadre_piece *of,
                              const struct cadre_task_piece *what,
                              struct cadre_child_failure *failure,
                              struct cadre_error *err)
{
    const struct cadre_compared_run *run = &pieces->comparison->run[of->run];
    const struct cadre_task task = {run->name, of->run, -1};
    struct cadre_piece piece = *of;
    struct cadre_bench bench;
    struct cadre_load_counters counters;
    char *folder =
        cadre_format("%s/pieces/%s", pieces->request.request->out, run->name);
    cadre_status rc = folder ? CADRE_OK : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && cadre_path_exists(folder))
        rc = cadre_file_remove_tree(folder, err);
    if (rc == CADRE_OK) {
        pieces->request.piece = what;
        pieces->began_s = pieces->made++ ? pieces->began_s : cadre_now_s();
        piece.begin_s = cadre_now_s() - pieces->began_s;
        piece.start_s = piece.period_s = NAN;
        piece.bubble_fraction = piece.comm_exposed_s = NAN;
        piece.joules_per_token = NAN;
        cadre_load_begin(&counters);
        rc = train(pieces, &task, folder, &bench, failure, err);
        cadre_load_end(&counters, run->gpu, &piece.load);
    }
    if (rc == CADRE_OK && failure->failed)
        number_failure(pieces, failure);
    else if (rc == CADRE_OK) {
        fill(pieces, &bench, &piece);
        piece.joules_per_token = joules_of(folder);
    }
    if (rc == CADRE_OK && !failure->failed)
        rc = keep(pieces, &piece, err);
    if (rc == CADRE_OK && !failure->failed)
        rc = keep_parts(pieces, &piece, &bench, err);
    if (rc == CADRE_OK)
        rc = write_line(pieces, &piece, failure->failed ? NULL : &bench, failure, err);
    free(folder);
    return rc;
}
