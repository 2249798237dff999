/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank was last doing, so that messages can explain a hang. */
#include <stdio.h>
#include <string.h>

#include "core/comm/local/segment_private.h"

void cadre_local_note_write(struct shared_note *note, const struct local_note *from)
{
    uint64_t words[LOCAL_NOTE_WORDS] = {0};
    memcpy(words, from, sizeof *from);
    atomic_fetch_add(&note->version, 1);
    for (size_t i = 0; i < LOCAL_NOTE_WORDS; i++)
        atomic_store(&note->words[i], words[i]);
    atomic_fetch_add(&note->version, 1);
}

/* A writer that died midway leaves mixed text, which stays within its bounds. */
static void note_read(struct shared_note *note, struct local_note *to)
{
    uint64_t words[LOCAL_NOTE_WORDS];
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t before = atomic_load(&note->version);
        for (size_t i = 0; i < LOCAL_NOTE_WORDS; i++)
            words[i] = atomic_load(&note->words[i]);
        if (before % 2 == 0 && atomic_load(&note->version) == before)
            break;
    }
    memcpy(to, words, sizeof *to);
    to->label[LOCAL_LABEL - 1] = '\0';
}

bool cadre_local_note_is(const struct cadre_local_segment *segment, int rank,
                         const struct cadre_comm_op *op)
{
    struct local_note n;
    note_read(&segment->shared->ranks[rank].note, &n);
    return n.kind == (uint32_t)op->kind && n.sequence == op->sequence && !n.done &&
           strncmp(n.label, cadre_comm_op_label(op), sizeof n.label - 1) == 0;
}

void cadre_local_note_text(const struct cadre_local_segment *segment, int rank,
                           char *text, size_t size)
{
    struct shared_rank *r = &segment->shared->ranks[rank];
    struct local_note n;
    char peer[32] = "";
    note_read(&r->note, &n);
    unsigned long long step = atomic_load(&r->step);
    if (!atomic_load(&r->opened)) {
        snprintf(text, size, "never opened its communicator");
        return;
    }
    if (n.kind == CADRE_COMM_IDLE) {
        snprintf(text, size, "has posted nothing yet (step %llu)", step);
        return;
    }
    if (n.kind == CADRE_COMM_SEND)
        snprintf(peer, sizeof peer, " to rank %d", n.peer);
    if (n.kind == CADRE_COMM_RECV)
        snprintf(peer, sizeof peer, " from rank %d", n.peer);
    snprintf(text, size, "%s %s%s #%llu '%s' (step %llu)",
             n.done ? "last completed" : "was last seen in",
             cadre_comm_kind_name(n.kind), peer, (unsigned long long)n.sequence,
             n.label, step);
}
