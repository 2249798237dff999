/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the segment that all ranks of a world map. References are offsets from its
 * start, because processes map it at different addresses. Fresh memory is zero, and
 * every structure is valid when zero. */
#ifndef CADRE_COMM_LOCAL_SEGMENT_PRIVATE_H
#define CADRE_COMM_LOCAL_SEGMENT_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/comm/backend.h"
#include "core/comm/local.h"

#define LOCAL_MAGIC 0x3147455345524443ull /* "CDRESEG1" */
#define LOCAL_MAX_RANKS 256
#define LOCAL_LABEL 48
#define LOCAL_CHUNK (1u << 20) /* staged bytes of a rank in a round of a collective */
#define LOCAL_P2P_CHUNK (1u << 17) /* staged bytes of one round of a send */
#define LOCAL_P2P_TURNS 2

/* One rank's side of an operation; in and out are valid among threads only. */
struct shared_call {
    uint32_t kind, dtype, red;
    int32_t root;
    uint64_t count;
    uint64_t offsets_hash;
    uint64_t sequence;
    uint64_t step;
    const void *in;
    void *out;
    uint32_t memory; /* enum cadre_comm_memory */
    int64_t color, key; /* split */
    uint64_t group; /* split: where the leader of a color put the new group */
    char label[LOCAL_LABEL];
};

/* What a rank did last, for messages. Read while it may be written: `version` is odd
 * during a write and the words are atomic. */
#define LOCAL_NOTE_WORDS ((sizeof(struct local_note) + 7) / 8)
struct local_note {
    uint64_t sequence;
    uint32_t kind;
    int32_t peer; /* world rank of a send or recv */
    uint32_t done;
    char label[LOCAL_LABEL];
};
struct shared_note {
    _Atomic uint64_t version;
    _Atomic uint64_t words[LOCAL_NOTE_WORDS];
};

struct shared_rank {
    _Alignas(64) _Atomic uint64_t step;
    /* emulated link: busy until; between: the wire to other nodes */
    _Atomic uint64_t link_free_ns, between_free_ns;
    _Atomic uint32_t opened;
    _Atomic uint32_t ended; /* its thread or process is over */
    _Atomic int32_t
        pid; /* started by an external launcher; 0: watched by its launcher */
    struct shared_note note;
};

/* One direction between two members of a group. The words count messages and chunks and
 * wrap; waiters compare differences. */
struct shared_channel {
    _Alignas(64) struct shared_call call;
    uint64_t done_ns; /* emulated link: not before */
    _Atomic uint32_t sent, taken;
    _Atomic uint32_t chunks_in, chunks_out;
};

struct shared_slot {
    _Alignas(64) struct shared_call call;
    _Atomic uint64_t phase; /* barriers entered */
    _Atomic uint32_t left; /* this member destroyed its communicator */
    int32_t world_rank;
};

struct shared_group {
    uint64_t next; /* the group made before this one, 0 ends */
    int32_t size;
    uint64_t channels; /* size * size shared_channel: from * size + to */
    uint64_t staging; /* size * 2 * LOCAL_CHUNK; 0 among threads */
    uint64_t p2p_staging;
    _Alignas(64) _Atomic uint32_t arrived;
    _Atomic uint32_t generation;
    _Atomic uint64_t last_ns; /* when the last member arrived */
    _Atomic uint32_t copying; /* members inside other members' buffers */
    struct shared_slot slots[];
};

struct shared_segment {
    uint64_t magic, bytes;
    struct cadre_local_config config;
    _Atomic uint64_t used;
    _Atomic uint64_t groups; /* newest */
    uint64_t world;
    _Atomic uint32_t in_vain; /* the failure: a rank was not there in comm.timeout */
    struct cadre_failure failure;
    struct shared_rank ranks[];
};

struct cadre_local_segment {
    struct shared_segment *shared;
    uint64_t bytes; /* of the mapping, which nobody else can change */
    int fd;
};

static inline void *local_at(const struct cadre_local_segment *segment, uint64_t offset)
{
    return (char *)segment->shared + offset;
}

static inline bool local_failed(const struct cadre_local_segment *segment)
{
    return cadre_failure_is_set(&segment->shared->failure);
}

/* Allocate a group of `size` members; NULL where the segment is full. The caller sets
 * world_rank of the slots before the others see it. */
struct shared_group *cadre_local_group_create(struct cadre_local_segment *segment,
                                              int size, uint64_t *offset);

/* Does the group at an offset, which another rank gave, lie in the segment with all of
 * its parts? */
bool cadre_local_group_fits(const struct cadre_local_segment *segment, uint64_t offset);

/* Store the first failure; later ones are ignored. True when it was the first. Wakes
 * every sleeper. */
bool cadre_local_segment_store_failure(struct cadre_local_segment *segment,
                                       cadre_status code, const char *text);

/* Report that its thread or process has ended, to peers that still wait for it. */
void cadre_local_segment_ended(struct cadre_local_segment *segment, int rank);

/* Futex on a shared word: sleep while it is `value`, at most `ns`. */
void cadre_local_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns);
void cadre_local_futex_wake(_Atomic uint32_t *word);
uint64_t cadre_local_now_ns(void);

/* Notes (watch.c). */
void cadre_local_note_write(struct shared_note *note, const struct local_note *from);
/* Was the rank last seen in this operation, and has not left it? */
bool cadre_local_note_is(const struct cadre_local_segment *segment, int rank,
                         const struct cadre_comm_op *op);
/* "was last seen in all_reduce #812 'ddp bucket 3' (step 40)" */
void cadre_local_note_text(const struct cadre_local_segment *segment, int rank,
                           char *text, size_t size);

#endif
