/* SPDX-License-Identifier: Apache-2.0 */
/* The status page of a rank: what it does now and how its last steps went, in the file
 * DIR/status/rank-NNNNN of the run's folder. Other processes read it at any time, also
 * after the rank has died (core/base/rank_seen.h, `cadre top`). Where a rank is inside
 * plugins is told by its slot (status_slot.h), which only the supervisor reads.
 *
 * The file is mapped shared and written with relaxed stores: an update makes no call
 * into the kernel but to read the clock, which takes none. Where the folder is another
 * machine's, a mapping may never reach it: then the page lies in this process's memory,
 * and a thread copies it into the file once a second.
 *
 * What is more than one number lies in cells, whose turn is odd while they are written.
 * A page has a private part, which no other process can damage, and `shared`, which is
 * only written. Every function accepts NULL in place of a page and does nothing. Times
 * are cadre_now_s, in ns where they are integers. */
#ifndef CADRE_BASE_RANK_PAGE_H
#define CADRE_BASE_RANK_PAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/* Of the layout below. A reader refuses another one. */
#define CADRE_RANK_PAGE_MAGIC "cadre rank page"
#define CADRE_RANK_PAGE_VERSION 2u

#define CADRE_RANK_PAGE_OPS 16 /* operations that are told apart, at most 32 */
#define CADRE_RANK_PAGE_EVENTS 1024 /* the last operations, as events */
#define CADRE_RANK_PAGE_STEPS 32 /* the last steps whose times are kept */
#define CADRE_RANK_PAGE_PASSES 256 /* of a step */
#define CADRE_RANK_PAGE_DRAWN 2 /* steps whose passes are kept: ranks differ by one */

enum cadre_rank_state {
    CADRE_RANK_STARTING,
    CADRE_RANK_TRAINING,
    CADRE_RANK_EVALUATING,
    CADRE_RANK_SAVING,
    CADRE_RANK_ENDED, /* its regular end; this one and those below are the last */
    CADRE_RANK_STOPPED, /* by a signal */
    CADRE_RANK_FAILED,
    CADRE_RANK_STATES,
};

/* What the rank's thread is at; its time is told apart by these. */
enum cadre_rank_phase {
    CADRE_PHASE_OTHER, /* the core's own work, and that of plugins */
    CADRE_PHASE_FORWARD,
    CADRE_PHASE_BACKWARD,
    CADRE_PHASE_DATA, /* waits for the loader */
    CADRE_PHASE_COMM, /* waits for an operation of a communicator */
    CADRE_PHASE_OPTIMIZER,
    CADRE_PHASES,
};

/* Written once, before the file has its name. */
struct cadre_rank_page_head {
    char magic[16];
    uint32_t version, bytes; /* of all of the page */
    int32_t rank, ranks;
    int64_t pid, tid; /* its process, its thread */
    double process_begin; /* s after boot, by /proc/PID/stat; 0: not known */
    uint64_t boot; /* a hash of the system's boot id */
    uint64_t pid_namespace; /* the inode; pid means this process inside of it */
    double clock_offset_s; /* of the time of day, less cadre_now_s */
    int64_t first_step, last_step; /* steps done before, and the run's last one */
    int64_t step_tokens;
    uint64_t planned_bytes;
    char host[64], name[64], stack[256];
};

/* A communication operation of the rank, from its post to its end. */
struct cadre_rank_page_op {
    uint64_t number; /* of the rank's operations, from 1; 0: empty */
    double posted_s;
    uint64_t bytes; /* sent by this rank */
    uint64_t step;
    uint64_t ranks; /* of the communicator */
    uint64_t phase; /* enum cadre_rank_phase, of the rank's thread when it was posted */
    char kind[16], label[48], comm[24]; /* "all_reduce", "ddp bucket 3", "dp" */
    char plugin[24]; /* whose callback posted it; "": the core */
};

/* The seconds of a step, which sum to step_s. */
struct cadre_rank_page_step {
    uint64_t step;
    double step_s;
    double compute_s; /* forward and backward */
    double comm_exposed_s, wait_ranks_s,
        bubble_s; /* as in step_report.h, this rank's */
    double data_s, optim_s, other_s;
};

/* Of the last step that is reported. NaN: none. */
struct cadre_rank_page_result {
    uint64_t step;
    double loss, grad_norm, lr;
    double valid_loss; /* of the last evaluation */
};

struct cadre_rank_page_pass {
    uint32_t kind; /* 0 forward, 1 backward, 2 and 3 its two parts: timeline.h */
    uint32_t chunk, microbatch, unused;
    double begin, end; /* s, by cadre_now_s */
};

struct cadre_rank_page_passes {
    uint64_t step, n;
    struct cadre_rank_page_pass pass[CADRE_RANK_PAGE_PASSES];
};

struct cadre_rank_page_said {
    char text[256];
};

#define CADRE_RANK_PAGE_WORDS(type) (sizeof(type) / sizeof(uint64_t))
#define CADRE_RANK_PAGE_CELL(type)                                                     \
    struct {                                                                           \
        _Atomic uint64_t turn;                                                         \
        _Atomic uint64_t word[CADRE_RANK_PAGE_WORDS(type)];                            \
    }

struct cadre_rank_page_shared {
    struct cadre_rank_page_head head;
    _Atomic uint64_t state; /* enum cadre_rank_state */
    _Atomic uint64_t place; /* phase | chunk << 8 | microbatch << 32 */
    _Atomic uint64_t beat_ns; /* when place or state changed last */
    _Atomic uint64_t step; /* that it is in, or has done last; 0: before the first */
    _Atomic uint64_t begun_ns; /* when the first step began; 0: it has not */
    _Atomic uint64_t memory_bytes, memory_peak_bytes; /* as planned_bytes counts them */
    _Atomic uint64_t posted, ended; /* operations */
    _Atomic uint64_t ended_ns[CADRE_RANK_PAGE_OPS]; /* of op; 0: it is pending */
    CADRE_RANK_PAGE_CELL(struct cadre_rank_page_op) op[CADRE_RANK_PAGE_OPS];
    CADRE_RANK_PAGE_CELL(struct cadre_rank_page_step) times[CADRE_RANK_PAGE_STEPS];
    CADRE_RANK_PAGE_CELL(struct cadre_rank_page_result) result;
    CADRE_RANK_PAGE_CELL(struct cadre_rank_page_said) said; /* why it failed */
    CADRE_RANK_PAGE_CELL(struct cadre_rank_page_passes) passes[CADRE_RANK_PAGE_DRAWN];
    /* The flight recorder: operation `number` lies at number % CADRE_RANK_PAGE_EVENTS.
     * It is the last part, which a look at the run does not read. */
    struct {
        _Atomic uint64_t ended_ns; /* 0: it is pending */
        _Atomic uint64_t sequence; /* in its communicator's queue; 0: not known yet */
        CADRE_RANK_PAGE_CELL(struct cadre_rank_page_op) op;
    } event[CADRE_RANK_PAGE_EVENTS];
};

struct cadre_rank_page_copier;

struct cadre_rank_page {
    struct cadre_rank_page_shared *shared;
    struct cadre_rank_page_copier *copier; /* NULL: the file is mapped */
    char *dir; /* the run's folder, owned: where the pages of the others are */
    pthread_t owner; /* the rank's thread */
    /* of the rank's thread */
    uint64_t place;
    double since_s; /* in the present phase */
    double begin_s; /* of the present step */
    double spent_s[CADRE_PHASES]; /* of the present step */
    uint64_t step, n_steps;
    double valid_loss; /* the last one that is not NaN */
    bool schedule; /* a schedule distributes the model over ranks */
    /* under the communicators' lock */
    uint64_t n_posted, n_ended;
    uint32_t pending; /* a bit an entry of `op` */
    uint32_t next; /* entry to try first */
};

/* ---- the file (rank_page_file.c) ---- */

/* What a page begins with. Texts are copied. */
struct cadre_rank_page_request {
    const char *dir; /* the run's folder */
    int rank, ranks;
    const char *name, *stack; /* of the run */
    int64_t first_step, last_step, step_tokens;
    uint64_t planned_bytes;
    bool copied; /* never map the file */
};

/* Make DIR/status and the page of a rank, in place of an older one; it belongs to the
 * calling thread. *out is the caller's. Errors: CADRE_E_IO, CADRE_E_RESOURCE: nobody
 * will see the rank, and it trains as well without. */
cadre_status cadre_rank_page_create(const struct cadre_rank_page_request *request,
                                    struct cadre_rank_page **out,
                                    struct cadre_error *err);

/* The file stays. */
void cadre_rank_page_close(struct cadre_rank_page *page);

/* Remove the pages of an earlier start from the run's folder. [one process, before
 * there are ranks] Errors: CADRE_E_IO. */
cadre_status cadre_rank_page_clear(const char *dir, struct cadre_error *err);

/* "DIR/status/rank-00003"; NULL: no memory. The caller frees it. */
char *cadre_rank_page_path(const char *dir, int rank);

/* This system, as the head of a page names it; zeros where it does not say. */
void cadre_rank_page_here(uint64_t *boot, uint64_t *pid_namespace);

/* ---- the rank's thread (rank_page.c) ---- */

void cadre_rank_page_state(struct cadre_rank_page *page, enum cadre_rank_state state);

/* A phase begins; returns what cadre_rank_page_leave takes. Phases nest, and time
 * counts for the inner one. On another thread than the page's nothing happens. */
uint64_t cadre_rank_page_enter(struct cadre_rank_page *page,
                               enum cadre_rank_phase phase, uint32_t chunk,
                               uint32_t microbatch);
void cadre_rank_page_leave(struct cadre_rank_page *page, uint64_t former);

/* Around an optimizer step. exposed_s and wait_ranks_s are those of its report; what
 * else it waited in CADRE_PHASE_COMM was bubble, where there is a schedule. */
void cadre_rank_page_schedule(struct cadre_rank_page *page);
void cadre_rank_page_begin_step(struct cadre_rank_page *page, uint64_t step);
void cadre_rank_page_end_step(struct cadre_rank_page *page, double exposed_s,
                              double wait_ranks_s);

void cadre_rank_page_memory(struct cadre_rank_page *page, uint64_t now, uint64_t peak);
/* A validation loss of NaN leaves the one before. */
void cadre_rank_page_result(struct cadre_rank_page *page,
                            const struct cadre_rank_page_result *result);
/* At most CADRE_RANK_PAGE_PASSES are kept, the first ones. */
void cadre_rank_page_passes(struct cadre_rank_page *page,
                            const struct cadre_rank_page_passes *passes);
void cadre_rank_page_say(struct cadre_rank_page *page, const char *text);

/* ---- communicators, under their common lock ---- */

/* The low byte of what cadre_rank_page_posted returns where so many are pending that
 * this one is an event, but not among the pending. */
#define CADRE_RANK_PAGE_COUNTED (CADRE_RANK_PAGE_OPS + 1u)

/* An operation is posted: `op` without its number. Returns its number << 8 | its entry,
 * from 1; 0 where there is no page. */
uint64_t cadre_rank_page_posted(struct cadre_rank_page *page,
                                const struct cadre_rank_page_op *op);

/* In ended_ns: it was posted in vain. */
#define CADRE_RANK_PAGE_REFUSED 1u

/* It has ended, or was posted in vain: then at the time 0. Entry 0: it was posted
 * before there was a page. Inline, as communicators are modules too. */
static inline void cadre_rank_page_ended(struct cadre_rank_page *page, uint64_t posted,
                                         double ended_s)
{
    const uint64_t number = posted >> 8, entry = posted & 0xff;
    if (!page || entry == 0)
        return;
    const uint64_t at =
        ended_s > 0 ? (uint64_t)(1e9 * ended_s) : CADRE_RANK_PAGE_REFUSED;
    atomic_store_explicit(&page->shared->ended, ++page->n_ended, memory_order_relaxed);
    if (page->n_posted - number < CADRE_RANK_PAGE_EVENTS)
        atomic_store_explicit(
            &page->shared->event[number % CADRE_RANK_PAGE_EVENTS].ended_ns, at,
            memory_order_relaxed);
    if (entry > CADRE_RANK_PAGE_OPS)
        return;
    page->pending &= ~(1u << (entry - 1));
    atomic_store_explicit(&page->shared->ended_ns[entry - 1], at, memory_order_relaxed);
}

/* A backend has put it into a queue, where it has this number. Right after the post, on
 * the same thread. */
static inline void cadre_rank_page_queued(struct cadre_rank_page *page, uint64_t posted,
                                          uint64_t sequence)
{
    if (page && posted)
        atomic_store_explicit(
            &page->shared->event[(posted >> 8) % CADRE_RANK_PAGE_EVENTS].sequence,
            sequence, memory_order_relaxed);
}

#endif
