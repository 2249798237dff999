/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/json.h"
#include "core/top/frame.h"

static void put_i64_or_null(struct cadre_json *json, const char *key, int64_t value)
{
    cadre_json_key(json, key);
    if (value < 0)
        cadre_json_null(json);
    else
        cadre_json_i64(json, value);
}

static void put_u64(struct cadre_json *json, const char *key, uint64_t value)
{
    cadre_json_key(json, key);
    cadre_json_u64(json, value);
}

static void put_alive(struct cadre_json *json, const struct cadre_rank_seen *seen)
{
    cadre_json_key(json, "alive");
    if (seen->alive != CADRE_RANK_ELSEWHERE) {
        cadre_json_bool(json, seen->alive == CADRE_RANK_ALIVE);
        return;
    }
    cadre_json_null(json);
    cadre_json_put_string(json, "alive_why",
                          "it runs on another host or in another container");
}

static void put_op(struct cadre_json *json, const char *key, bool has,
                   const struct cadre_rank_seen_op *seen)
{
    cadre_json_key(json, key);
    if (!has) {
        cadre_json_null(json);
        return;
    }
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "kind", seen->op.kind);
    cadre_json_put_string(json, "label", seen->op.label);
    cadre_json_put_string(json, "communicator", seen->op.comm);
    put_u64(json, "communicator_ranks", seen->op.ranks);
    put_u64(json, "bytes", seen->op.bytes);
    put_u64(json, "step", seen->op.step);
    put_u64(json, "number", seen->op.number);
    cadre_json_put_f64(json, "age_s", seen->age_s);
    cadre_json_end_object(json);
}

static void put_step(struct cadre_json *json, const struct cadre_rank_page_step *step)
{
    cadre_json_key(json, "last_step");
    if (!step) {
        cadre_json_null(json);
        return;
    }
    cadre_json_begin_object(json);
    put_u64(json, "step", step->step);
    cadre_json_put_f64(json, "step_s", step->step_s);
    cadre_json_put_f64(json, "compute_s", step->compute_s);
    cadre_json_put_f64(json, "optim_s", step->optim_s);
    cadre_json_put_f64(json, "comm_exposed_s", step->comm_exposed_s);
    cadre_json_put_f64(json, "wait_ranks_s", step->wait_ranks_s);
    cadre_json_put_f64(json, "bubble_s", step->bubble_s);
    cadre_json_put_f64(json, "wait_data_s", step->data_s);
    cadre_json_put_f64(json, "other_s", step->other_s);
    cadre_json_end_object(json);
}

static void put_known(struct cadre_json *json, const struct cadre_top_rank *rank)
{
    const struct cadre_rank_seen *seen = &rank->seen;
    const bool pass =
        seen->phase == CADRE_PHASE_FORWARD || seen->phase == CADRE_PHASE_BACKWARD;
    cadre_json_put_string(json, "host", seen->head.host);
    cadre_json_put_i64(json, "pid", seen->head.pid);
    put_alive(json, seen);
    cadre_json_put_bool(json, "died", rank->died);
    cadre_json_put_string(json, "state", cadre_rank_state_name(seen->state));
    cadre_json_put_string(json, "phase", cadre_rank_phase_name(seen->phase));
    put_i64_or_null(json, "chunk", pass ? (int64_t)seen->chunk : -1);
    put_i64_or_null(json, "microbatch", pass ? (int64_t)seen->microbatch : -1);
    cadre_json_put_f64(json, "heartbeat_age_s", seen->phase_s);
    put_u64(json, "step", seen->step);
    put_u64(json, "operations_posted", seen->posted);
    put_u64(json, "operations_ended", seen->ended);
    put_op(json, "pending", seen->has_pending, &seen->pending);
    put_op(json, "last", seen->has_ended, &seen->last);
    put_u64(json, "memory_bytes", seen->memory_bytes);
    put_u64(json, "memory_peak_bytes", seen->memory_peak_bytes);
    put_u64(json, "memory_planned_bytes", seen->head.planned_bytes);
    put_step(json, cadre_top_last_step(rank));
    cadre_json_put_string(json, "error", seen->said[0] ? seen->said : NULL);
}

static void put_rank(struct cadre_json *json, int r, const struct cadre_top_rank *rank)
{
    cadre_json_begin_object(json);
    cadre_json_put_i64(json, "rank", r);
    cadre_json_put_bool(json, "known", rank->known);
    if (rank->known)
        put_known(json, rank);
    else
        cadre_json_put_string(json, "why", rank->why);
    cadre_json_end_object(json);
}

static void put_run(struct cadre_json *json, const struct cadre_top_snapshot *s)
{
    const struct cadre_rank_seen *lead = &s->lead->seen;
    cadre_json_put_i64(json, "format", CADRE_TOP_FORMAT);
    cadre_json_put_f64(json, "time", s->time_s);
    cadre_json_put_string(json, "dir", s->dir);
    cadre_json_put_string(json, "name", lead->head.name);
    cadre_json_put_string(json, "stack", lead->head.stack);
    cadre_json_put_string(json, "state", cadre_top_state_name(s->state));
    put_i64_or_null(json, "step", s->step);
    put_i64_or_null(json, "last_step", s->last_step);
    cadre_json_put_f64(json, "left_s", s->left_s);
    cadre_json_put_f64(json, "tokens_per_s", s->tokens_per_s);
    cadre_json_put_f64(json, "tokens_per_s_median", s->tokens_per_s_median);
    cadre_json_put_i64(json, "median_steps", (int64_t)lead->n_times);
    cadre_json_put_f64(json, "loss", lead->result.loss);
    cadre_json_put_f64(json, "grad_norm", lead->result.grad_norm);
    cadre_json_put_f64(json, "lr", lead->result.lr);
    cadre_json_put_f64(json, "valid_loss", lead->result.valid_loss);
    put_i64_or_null(json, "slowest", s->slowest);
    cadre_json_put_f64(json, "slower_by", s->slower_by);
}

cadre_status cadre_top_frame_json(const struct cadre_top_snapshot *snapshot,
                                  struct cadre_text *out)
{
    struct cadre_json json;
    cadre_json_init_text(&json, out, true);
    cadre_json_begin_object(&json);
    put_run(&json, snapshot);
    cadre_json_key(&json, "ranks");
    cadre_json_begin_array(&json);
    for (int r = 0; r < snapshot->n; r++)
        put_rank(&json, r, &snapshot->rank[r]);
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    return cadre_json_finish(&json);
}
