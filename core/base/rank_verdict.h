/* SPDX-License-Identifier: Apache-2.0 */
/* Why an operation does not end: which rank holds it up and what that rank does, from
 * the status pages of all ranks (rank_seen.h) and from /proc where the ranks are
 * processes or threads of this machine. It is asked once, by who has waited in vain. */
#ifndef CADRE_BASE_RANK_VERDICT_H
#define CADRE_BASE_RANK_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

enum cadre_rank_verdict_kind {
    CADRE_VERDICT_UNKNOWN, /* no page, or of another machine */
    CADRE_VERDICT_DEAD, /* its process or thread is gone */
    CADRE_VERDICT_STOPPED, /* SIGSTOP, or a debugger */
    CADRE_VERDICT_MISSING_EXIT, /* it has posted the operation and does not leave it */
    CADRE_VERDICT_DIFFERENT_CALL, /* it waits in another operation */
    CADRE_VERDICT_DATA, /* it waits for the loader */
    CADRE_VERDICT_DISK, /* it saves, or sleeps in the kernel for a device */
    CADRE_VERDICT_SLOW, /* it computes */
    CADRE_VERDICT_MISSING_ENTRY, /* it has not posted the operation, and does nothing */
    CADRE_VERDICTS,
};

/* The operation that is waited for. Texts are borrowed. */
struct cadre_rank_verdict_op {
    const char *kind, *label, *comm; /* as in its page: "world" where it has no name */
    uint64_t sequence;
    /* Nothing of the missing rank answers: where its process cannot be seen from here,
     * its page may be older than what it does. */
    bool silent;
};

struct cadre_rank_verdict {
    enum cadre_rank_verdict_kind kind;
    int rank; /* whom it is about */
    char text[320]; /* "stopped: rank 2 (process 812) ..."; "" where it is unknown */
};

/* `missing` has not come to `op`, for which rank `self` waits; -1: it is not known
 * which. `dir` is the run's folder. Where the missing one waits itself for another
 * rank, it is about that one, and unknown where that one cannot be seen from here. A
 * rank may ask about itself: unknown where it waits, or has posted `op`. Takes about 50
 * ms, in which it looks whether the rank computes. [any thread] */
void cadre_rank_verdict_find(const char *dir, int self, int missing,
                             const struct cadre_rank_verdict_op *op,
                             struct cadre_rank_verdict *out);

/* "missing entry", "stopped", ... */
const char *cadre_rank_verdict_name(enum cadre_rank_verdict_kind kind);

#endif
