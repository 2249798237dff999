/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/rank_events.h"
#include "core/top/find.h"
#include "core/top/snapshot.h"

/* ---- one event ---- */

static const char *state_name(enum cadre_rank_event_state state)
{
    static const char *const names[] = {"pending", "ended", "refused"};
    return names[state];
}

static double day_s(const struct cadre_rank_seen *seen, double s)
{
    return s + seen->head.clock_offset_s;
}

static void put_json(struct cadre_json *json, const struct cadre_rank_seen *seen,
                     const struct cadre_rank_event *e)
{
    cadre_json_begin_object(json);
    cadre_json_key(json, "number");
    cadre_json_u64(json, e->op.number);
    cadre_json_key(json, "step");
    cadre_json_u64(json, e->op.step);
    cadre_json_put_string(json, "kind", e->op.kind);
    cadre_json_put_string(json, "label", e->op.label);
    cadre_json_put_string(json, "communicator", e->op.comm);
    cadre_json_key(json, "communicator_ranks");
    cadre_json_u64(json, e->op.ranks);
    cadre_json_key(json, "sequence");
    if (e->sequence > 0)
        cadre_json_u64(json, e->sequence);
    else
        cadre_json_null(json);
    cadre_json_key(json, "bytes");
    cadre_json_u64(json, e->op.bytes);
    cadre_json_put_string(json, "plugin", e->op.plugin[0] ? e->op.plugin : NULL);
    cadre_json_put_string(json, "phase",
                          cadre_rank_phase_name((enum cadre_rank_phase)e->op.phase));
    cadre_json_put_string(json, "state", state_name(e->state));
    cadre_json_put_f64(json, "posted", day_s(seen, e->op.posted_s));
    cadre_json_put_f64(json, "ended", day_s(seen, e->ended_s));
    cadre_json_end_object(json);
}

static void put_row(struct cadre_text *out, const struct cadre_rank_seen *seen,
                    const struct cadre_rank_event *e)
{
    char took[32], group[48], sequence[24] = "";
    if (e->state == CADRE_RANK_EVENT_ENDED)
        snprintf(took, sizeof took, "%.3f ms", 1e3 * (e->ended_s - e->op.posted_s));
    else
        snprintf(took, sizeof took, "%s", state_name(e->state));
    snprintf(group, sizeof group, "%s (%llu)", e->op.comm,
             (unsigned long long)e->op.ranks);
    if (e->sequence > 0)
        snprintf(sequence, sizeof sequence, "#%llu", (unsigned long long)e->sequence);
    cadre_text_printf(
        out, "%8llu %6llu %17.6f %12s  %-14s %-7s %-24s %-16s %12llu  %-10s %s\n",
        (unsigned long long)e->op.number, (unsigned long long)e->op.step,
        day_s(seen, e->op.posted_s), took, e->op.kind, sequence, e->op.label, group,
        (unsigned long long)e->op.bytes,
        cadre_rank_phase_name((enum cadre_rank_phase)e->op.phase),
        e->op.plugin[0] ? e->op.plugin : "core");
}

/* ---- one rank ---- */

struct reading {
    const char *dir;
    int rank;
    struct cadre_rank_seen seen;
    struct cadre_rank_event event[CADRE_RANK_PAGE_EVENTS];
    size_t n;
};

static cadre_status read_rank(struct reading *r, struct cadre_error *err)
{
    char *path = cadre_rank_page_path(r->dir, r->rank);
    cadre_status rc = path ? cadre_rank_seen_read(path, &r->seen, err)
                           : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK)
        rc = cadre_rank_events_read(path, r->event, &r->n, err);
    free(path);
    return rc;
}

static void rank_json(struct cadre_json *json, const struct reading *r, const char *why)
{
    cadre_json_begin_object(json);
    cadre_json_put_i64(json, "rank", r->rank);
    cadre_json_put_bool(json, "known", !why);
    if (why)
        cadre_json_put_string(json, "why", why);
    cadre_json_key(json, "events");
    cadre_json_begin_array(json);
    for (size_t i = 0; !why && i < r->n; i++)
        put_json(json, &r->seen, &r->event[i]);
    cadre_json_end_array(json);
    cadre_json_end_object(json);
}

static void rank_table(struct cadre_text *out, const struct reading *r, const char *why)
{
    if (why) {
        cadre_text_printf(out, "rank %d: %s\n", r->rank, why);
        return;
    }
    cadre_text_printf(out, "rank %d: %zu events, to step %llu\n", r->rank, r->n,
                      (unsigned long long)r->seen.step);
    if (r->n > 0)
        cadre_text_printf(out,
                          "%8s %6s %17s %12s  %-14s %-7s %-24s %-16s %12s  %-10s %s\n",
                          "number", "step", "posted at", "took", "kind", "queue",
                          "label", "group (ranks)", "bytes sent", "phase", "plugin");
    for (size_t i = 0; i < r->n; i++)
        put_row(out, &r->seen, &r->event[i]);
}

/* ---- all ---- */

static cadre_status one_run(const char *dir, struct cadre_top_runs *runs,
                            struct cadre_error *err)
{
    CADRE_TRY(cadre_top_find(dir, runs, err));
    return runs->n == 1 ? CADRE_OK
                        : cadre_fail(err, CADRE_E_INVALID,
                                     "'%s' has %zu runs; --events takes the folder of "
                                     "one, such as '%s'",
                                     dir, runs->n, runs->dir[0]);
}

static cadre_status put_all(const struct cadre_top_events_request *request,
                            struct cadre_top_snapshot *snapshot, struct reading *r,
                            struct cadre_text *out, struct cadre_error *err)
{
    struct cadre_json json;
    const int n = snapshot->n;
    if (request->rank >= n)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--rank: '%s' has no rank %d; expected 0 to %d", r->dir,
                          request->rank, n - 1);
    if (request->json) {
        cadre_json_init_text(&json, out, true);
        cadre_json_begin_object(&json);
        cadre_json_put_i64(&json, "format", 1);
        cadre_json_put_string(&json, "dir", r->dir);
        cadre_json_put_f64(&json, "time", cadre_wall_clock_s());
        cadre_json_key(&json, "ranks");
        cadre_json_begin_array(&json);
    }
    for (r->rank = 0; r->rank < n; r->rank++) {
        struct cadre_error why = {0};
        if (request->rank >= 0 && r->rank != request->rank)
            continue;
        const bool ok = read_rank(r, &why) == CADRE_OK;
        if (request->json)
            rank_json(&json, r, ok ? NULL : why.text);
        else
            rank_table(out, r, ok ? NULL : why.text);
    }
    if (!request->json)
        return CADRE_OK;
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    return cadre_json_finish(&json) == CADRE_OK ? CADRE_OK
                                                : cadre_no_memory(err, "the events");
}

cadre_status cadre_top_events(const struct cadre_top_events_request *request,
                              struct cadre_text *out, struct cadre_error *err)
{
    struct cadre_top_runs runs = {0};
    struct cadre_top_snapshot snapshot = {0};
    struct reading *r = cadre_calloc(1, sizeof *r);
    cadre_status rc =
        r ? one_run(request->dir, &runs, err) : cadre_no_memory(err, "the events");
    if (rc == CADRE_OK)
        rc = cadre_top_snapshot_take(runs.dir[0], &snapshot, err);
    if (rc == CADRE_OK) {
        r->dir = runs.dir[0];
        rc = put_all(request, &snapshot, r, out, err);
    }
    if (rc == CADRE_OK && out->failed)
        rc = cadre_no_memory(err, "the events");
    cadre_top_snapshot_fini(&snapshot);
    cadre_top_runs_fini(&runs);
    free(r);
    return rc;
}
