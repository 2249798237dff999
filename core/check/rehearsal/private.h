/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a rehearsal do for each other. */
#ifndef CADRE_CHECK_REHEARSAL_PRIVATE_H
#define CADRE_CHECK_REHEARSAL_PRIVATE_H

#include "core/check/rehearsal/player.h"

struct cadre_player *play_player_of(struct cadre_ctx *ctx);
struct cadre_player *play_player_of_axis(const struct cadre_axis *axis);
struct cadre_ctx *play_ctx_of(struct cadre_player *p);
struct cadre_axis *play_axis_of(struct cadre_player *p);
double play_get_value(uint32_t dtype, const void *data, uint64_t element);
void play_put_value(uint32_t dtype, void *data, uint64_t element, double value);
uint64_t play_buf_bytes(const struct cadre_buf *buf);
/* How the model is divided: this player's number among as many parts. The plugin itself
 * divides it, or another one that is not played (divided). */
struct play_division {
    uint64_t part, parts;
};
struct play_division play_division_of(const struct cadre_player *p);
/* The element of the whole entry that local element k of this rank is. */
uint64_t play_logical_element(const struct cadre_player *p, uint32_t entry, uint64_t k);

/* ---- turns (turns.c) ---- */

/* A number below n. [the player whose turn it is] */
uint64_t play_draw(struct rehearsal *all, uint64_t n);
/* Go on with another player or this one. */
void play_take_turns(struct cadre_player *p);
/* Do nothing for some time, while the others go on. */
void play_be_late(struct cadre_player *p, double seconds);
/* Nothing to do until another has made progress; false: nobody can, or all stop. */
bool play_wait_turn(struct cadre_player *p);
void play_begin_turns(struct cadre_player *p);
void play_leave_turns(struct cadre_player *p);
/* All players come here before any goes on; false: all stop. */
bool play_meet(struct cadre_player *p);

/* ---- rules (rules.c) ---- */

void play_break_rule(struct cadre_player *p, enum cadre_rule rule, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Refused where the buffer overlaps what an operation in flight delivers, or, to be
 * written, what it sends. */
cadre_status play_touch(struct cadre_player *p, const void *at, uint64_t bytes,
                        bool write, const char *what);
/* Refused where an operation that was not waited for still has the buffer. */
void play_check_release(struct cadre_player *p, const void *at, uint64_t bytes);
/* A refusal of the host: the rule is broken, and the callback will fail. */
cadre_status play_refuse(struct cadre_player *p, enum cadre_rule rule, const char *fmt,
                         ...) __attribute__((format(printf, 3, 4)));
/* The plugin uses what a rehearsal does not have. */
cadre_status play_beyond(struct cadre_player *p, const char *what);
/* Start of a service call: phase, thread, failures on purpose, turns. */
cadre_status play_enter(struct cadre_player *p, uint32_t phases, const char *what);
/* Is this call the one that fails on purpose? */
bool play_fails_on_purpose(struct cadre_player *p, const char *what);
/* The same without failures on purpose. */
cadre_status play_enter_sure(struct cadre_player *p, uint32_t phases, const char *what);

/* ---- memory and walls (memory.c) ---- */

extern const struct cadre_mem_svc play_mem;
void play_check_blocks(struct cadre_player *p);
void play_free_blocks(struct cadre_player *p);
/* Room for `bytes` against an unreadable page; NULL: no memory. */
void *play_walled(uint64_t bytes);
void play_unwall(void *at, uint64_t bytes);
/* `bytes` bytes of the struct as the plugin is to see it: with extra bytes beyond, or
 * at a wall. One place for each `slot`; valid until the next call with it. */
void *play_present(struct cadre_player *p, uint32_t slot, const void *from,
                   uint32_t bytes);
void play_free_stage(struct cadre_player *p);

/* ---- plan, storage, services, communication ---- */

void play_plan_begin(struct cadre_player *p, struct cadre_plan *out);
/* After the plan function: checks, defaults. */
cadre_status play_plan_finish(struct cadre_player *p);

cadre_status play_lay_out(struct cadre_player *p);
void play_free_storage(struct cadre_player *p);
/* Sum of the gradients of the step over all micro-batches, or over this rank's. */
double play_expected_gradient(const struct cadre_player *p, uint32_t entry,
                              uint64_t element);
double play_own_gradient(const struct cadre_player *p, uint64_t microbatch,
                         uint32_t entry, uint64_t element);

/* What compute work records: it has happened. */
#define COMPUTED_EVENT 1u

/* Read the sums that were reported in this step, and compare them. */
cadre_status play_check_sums(struct cadre_player *p);

extern const struct cadre_mesh_svc play_mesh;
extern const struct cadre_model_svc play_model;
extern const struct cadre_param_svc play_param;
extern const struct cadre_tree_svc play_tree;
extern const struct cadre_stream_svc play_stream;
extern const struct cadre_rng_svc play_rng;
extern const struct cadre_comm_svc play_comm;
extern const struct cadre_ops_svc play_ops;
cadre_status play_host_init(struct cadre_player *p);

/* Wait until the event has happened; the caller is in a service call, or the core. */
/* Bytes of the process's heap in use; 0: not known. */
uint64_t play_heap_in_use(void);
cadre_status play_wait_event(struct cadre_player *p, cadre_event event,
                             const char *who);
void play_free_operations(struct cadre_player *p);

/* ---- passes and steps ---- */

/* places of structs in cadre_player.stage, after those of the services */
#define SLOT_CREATE 12u
#define SLOT_PLAN 13u
#define SLOT_BIND 14u
#define SLOT_STEP 15u
#define SLOT_NEXT 16u
#define SLOT_SYNC 17u
#define SLOT_BLOCK 18u
#define SLOT_GRAD 19u
#define SLOT_REDISTRIBUTE 20u
#define SLOT_UPDATE 21u
#define SLOT_SINK 22u
#define SLOT_END 23u
#define SLOT_PLACE 24u

/* All units of one micro-batch in the order of the core, without a SCHEDULE. */
cadre_status play_run_sequential(struct cadre_player *p);

cadre_status play_run_forward(struct cadre_player *p,
                              const struct cadre_pass_args *args);
cadre_status play_run_backward(struct cadre_player *p,
                               const struct cadre_pass_args *args);
cadre_status play_run_step(struct cadre_player *p, uint64_t step);
cadre_status play_run_syncs(struct cadre_player *p);
cadre_status play_run_evaluation(struct cadre_player *p);
cadre_status play_run_drain(struct cadre_player *p);
/* An OPTIMIZER's updates of one step. */
cadre_status play_run_updates(struct cadre_player *p);
cadre_status play_run_redistributions(struct cadre_player *p, uint32_t unit,
                                      uint32_t microbatch, bool backward);
cadre_status play_run_place(struct cadre_player *p);
/* Write the gradient of one entry, and announce it. */
cadre_status play_raise_gradient(struct cadre_player *p, uint32_t entry,
                                 uint32_t microbatch);
/* Are the values of an entry there and complete? */
cadre_status play_check_values(struct cadre_player *p, uint32_t entry);
cadre_status play_save_state(struct cadre_player *p);
cadre_status play_load_state(struct cadre_player *p, const struct cadre_player *from);
void play_free_state(struct cadre_player *p);

/* A callback of the plugin: sets the phase, watches CPU time, and turns a refusal that
 * the plugin ignored, or an error without text, into a broken rule. `call` is the
 * expression that calls it. */
#define CALLBACK(p, bit, name, call)                                                   \
    (play_callback_begin((p), (bit), (name)), play_callback_end((p), (call)))
void play_callback_begin(struct cadre_player *p, uint32_t phase, const char *name);
cadre_status play_callback_end(struct cadre_player *p, cadre_status rc);

#endif
