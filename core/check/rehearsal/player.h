/* SPDX-License-Identifier: Apache-2.0 */
/* The players of a rehearsal and what each of them holds. Private to the folder. */
#ifndef CADRE_CHECK_REHEARSAL_PLAYER_H
#define CADRE_CHECK_REHEARSAL_PLAYER_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <cadre/strategy.h>

#include "core/base/error.h"
#include "core/check/rehearsal/rehearsal.h"
#include "core/config/options.h"

/* ---- the model that is not there ---- */

#define UNITS 5u /* embedding, three blocks, head */
#define ENTRIES 29u
#define BATCH 2u
#define TIME 12u
#define CHANNELS 12u
#define RANGE_UNIT 16u
#define STEPS_MAX 16u
#define MICROBATCHES_MAX 64u
#define CHUNKS CADRE_MAX_CHUNKS

#define OWNED 0u /* of a part: the values that the optimizer updates */

struct part { /* a rank's part of an entry, of one kind */
    bool placed;
    uint64_t begin, count;
    uint32_t space;
    char *data; /* the host's storage, at a multiple of 64 bytes */
};

struct entry {
    bool present, copied, frozen;
    uint64_t local[2], count; /* of this rank; local[1] is 1 for a vector */
    uint32_t split;
    bool partial;
    struct part part[4]; /* by CADRE_KIND_*, and OWNED */
    char *value, *grad; /* full local storage in use: the host's or the plugin's */
    bool value_attached, grad_attached; /* it is the plugin's */
    bool grad_fresh; /* the next contribution overwrites */
    cadre_event pending;
    cadre_event busy; /* after which the gradient may be written again */
    uint32_t due, reported; /* sums of this step: announced, and reported */
    double *want; /* what its values should be now; tied entries have none */
    struct cadre_buf pending_sum; /* reported, and not read yet */
    cadre_event sum_ready;
};

/* Values are a function of where they belong: of an entry's logical element, and of a
 * micro-batch. */
const char *play_entry_name(uint32_t entry);
uint32_t play_entry_unit(uint32_t entry);
int32_t play_entry_tied_to(uint32_t entry);
uint32_t play_entry_shape(uint32_t entry, uint64_t shape[2]); /* returns ndim */
uint32_t play_entry_split(uint32_t entry);
double play_first_value(uint32_t entry, uint64_t element);
double play_microbatch_gradient(uint64_t step, uint64_t microbatch, uint32_t entry,
                                uint64_t element);
double play_activation(uint32_t boundary, uint64_t microbatch, uint64_t element);
double play_activation_gradient(uint32_t boundary, uint64_t microbatch,
                                uint64_t element);

/* ---- a player ---- */

/* phases, as bits */
#define IN_NOTHING 0u
#define IN_CREATE CADRE_DURING_CREATE
#define IN_PLAN CADRE_DURING_PLAN
#define IN_BIND CADRE_DURING_BIND
#define IN_STEP CADRE_DURING_STEP
#define IN_SYNC CADRE_DURING_SYNC
#define IN_STATE CADRE_DURING_STATE
#define IN_UPDATE 64u
#define IN_DESTROY 128u
#define IN_PLACE 256u
#define IN_RUN (IN_STEP | IN_SYNC | IN_STATE | IN_UPDATE)
#define IN_ANY 0xffffu

struct block { /* of cadre.mem */
    char *data;
    uint64_t bytes;
    char tag[CADRE_TAG_CHARS];
    bool freed;
};

struct tag {
    char name[CADRE_TAG_CHARS];
    uint32_t space;
    uint64_t planned, now, most;
};

enum operation_kind {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    ALL_TO_ALL,
    ALL_TO_ALL_V,
    BARRIER,
    SEND,
    RECV,
};

struct operation {
    enum operation_kind kind;
    uint32_t red;
    struct cadre_buf in, out; /* data NULL: none */
    uint64_t offsets[CADRE_REHEARSAL_RANKS + 1], in_offsets[CADRE_REHEARSAL_RANKS + 1];
    int32_t peer; /* root, to, from */
    char label[64];
    cadre_event after;
    uint64_t number; /* of its kind of matching: collectives, or sends or receives with
                        this peer */
    char *before; /* bytes of `in` when it started */
    char *result; /* bytes of `out` once it is computed */
    bool started, computed, finished;
};

struct plan_result {
    uint32_t batch; /* of use_axis; 0: not said */
    uint32_t level;
    bool reduces, by_design, diverges, keeps, schedule, completes, sharded_rows, time,
        places_device, codec, opt_shard, param_place;
    uint32_t map;
    uint64_t first[CADRE_REHEARSAL_RANKS + 1];
    struct {
        uint32_t begin, end, live, flags;
    } chunk[CHUNKS];
    uint32_t n_chunks, live_blocks, n_claims;
    uint64_t period;
    uint64_t hash; /* of what must be equal on all ranks */
    char equal[256];
    uint32_t n_tags;
    struct tag tag[32];
    uint32_t n_states;
    struct cadre_opt_state opt_state[ENTRIES * 4];
    char opt_key[ENTRIES * 4][CADRE_KEY_CHARS];
    bool opt_matrix[ENTRIES];
};

enum player_condition { READY, WAITING, GONE };

struct state_record { /* an entry of the plugin's state */
    char key[CADRE_KEY_CHARS];
    cadre_param_id param; /* UINT32_MAX: a blob */
    uint32_t policy; /* or combine */
    uint64_t begin, bytes;
    char *data;
};

struct stage { /* a struct as the plugin sees it */
    char *at;
    uint32_t bytes;
};
#define SLOTS 32u

struct callback { /* that runs; they nest: on_grad in step */
    uint32_t phase;
    const char *name;
    double cpu_s; /* at the begin of the inner one */
    sigset_t mask; /* likewise */
    int rounding;
};
#define CALLBACK_DEPTH 8u

struct cadre_player {
    struct rehearsal *all;
    int rank;
    pthread_t thread;
    enum player_condition condition;
    uint64_t seen; /* progress when it began to wait */
    struct cadre_self *self;
    struct cadre_host *host;
    struct cadre_values *values;
    struct cadre_host plain_host;
    struct cadre_values plain_values;
    struct cadre_values known; /* the options' own */
    uint32_t phase;
    const char *callback; /* "on_grad", for messages */
    struct callback outer[CALLBACK_DEPTH];
    uint32_t depth;
    uint32_t last_phase; /* of the callback that ended last */
    uint64_t step; /* of the step that runs or ran */
    struct cadre_error failure; /* the first refusal */
    struct plan_result plan;
    uint64_t rank_microbatches, first_microbatch, microbatch_stride;
    struct entry entry[ENTRIES];
    char *storage; /* of all kinds */
    uint64_t storage_bytes;
    struct operation **operation;
    uint32_t n_operations, cap_operations;
    uint64_t collectives, sends[CADRE_REHEARSAL_RANKS], receives[CADRE_REHEARSAL_RANKS];
    uint64_t sent; /* bytes in this step */
    uint64_t sent_in[STEPS_MAX + 1];
    struct block *block;
    uint32_t n_blocks, cap_blocks;
    uint32_t calls;
    double late_until_s; /* by the monotonic clock */
    struct state_record *state;
    uint32_t n_state, cap_state;
    struct stage stage[SLOTS];
    /* of the step that runs */
    unsigned char passed[CHUNKS][MICROBATCHES_MAX]; /* PASSED_* */
    uint32_t live[CHUNKS]; /* activations kept now */
    uint32_t next_runs; /* how often a plugin's step has called next->run */
    bool stepping; /* inside of ops->step */
    uint32_t chunk_now;
    bool evaluating;
    uint64_t polls; /* unsuccessful tests in a row */
};

struct rehearsal {
    const struct cadre_rehearsal_setup *setup;
    struct cadre_rehearsal_report *report;
    const struct cadre_plugin_handle *plugin;
    const struct cadre_strategy_ops *ops;
    const struct cadre_options *options; /* resolved */
    int ranks;
    uint64_t microbatches; /* of a step, over all ranks */
    uint32_t steps;
    uint32_t dtype, element;
    uint64_t key, draws; /* random numbers */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int turn; /* the player that runs; -1: nobody yet */
    uint64_t progress;
    uint32_t met, meetings;
    bool stop; /* a rank failed: nothing is waited for any more */
    bool stuck; /* a call of abort goes on: nothing is freed */
    struct cadre_player player[CADRE_REHEARSAL_RANKS];
    const struct cadre_player *saved; /* whose state is loaded; NULL: none is */
};

#endif
