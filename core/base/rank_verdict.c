/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/rank_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/memory.h"
#include "core/base/rank_events.h"
#include "core/base/rank_seen.h"

#define LOOKS 5
#define LOOK_NS 10000000L
#define COMPUTES 0.2 /* of the time between looks on a CPU: it computes */
#define MOST_LOOKED_AT 256 /* ranks, where the one to name is to be found */

const char *cadre_rank_verdict_name(enum cadre_rank_verdict_kind kind)
{
    static const char *const names[CADRE_VERDICTS] = {
        "unknown",          "dead",           "stopped",
        "missing exit",     "different call", "waiting for data",
        "waiting for disk", "slow",           "missing entry"};
    return kind < CADRE_VERDICTS ? names[kind] : "unknown";
}

/* ---- what its thread does ---- */

struct activity {
    bool gone, stopped;
    int on_disk, running; /* looks at which it was */
    double cpu; /* of the time between the looks */
};

/* The state of a thread ("R", "S", ...) and its time on a CPU; false: it is gone. */
static bool look_at(const struct cadre_rank_page_head *head, char *state,
                    uint64_t *cpu_ns)
{
    char path[96], line[512];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%lld/task/%lld/stat", (long long)head->pid,
             (long long)head->tid);
    FILE *file = fopen(path, "re");
    const char *end =
        file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (file)
        fclose(file);
    if (!end || end[1] != ' ')
        return false;
    *state = end[2];
    snprintf(path, sizeof path, "/proc/%lld/task/%lld/schedstat", (long long)head->pid,
             (long long)head->tid);
    file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file))
        ns = strtoull(line, NULL, 10);
    if (file)
        fclose(file);
    *cpu_ns = ns;
    return true;
}

static struct activity observe(const struct cadre_rank_page_head *head)
{
    struct activity a = {0};
    uint64_t first = 0, last = 0;
    for (int i = 0; i < LOOKS && !a.gone; i++) {
        char state = 0;
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        a.gone = !look_at(head, &state, &last) || state == 'Z' || state == 'X';
        a.stopped = state == 'T' || state == 't';
        a.on_disk += state == 'D';
        a.running += state == 'R';
        first = i == 0 ? last : first;
    }
    a.cpu = (double)(last - first) / ((LOOKS - 1) * (double)LOOK_NS);
    return a;
}

/* ---- of one rank ---- */

static bool read_page(const char *dir, int rank, struct cadre_rank_seen *seen)
{
    char *path = cadre_rank_page_path(dir, rank);
    const bool ok = path && cadre_rank_seen_read(path, seen, NULL) == CADRE_OK;
    free(path);
    return ok;
}

/* Is this how an operation that `op` waits for is posted on another rank? A message's
 * page has no peer: only between two ranks is it known for which one it is. */
static bool is_posted_as(const struct cadre_rank_page_op *other,
                         const struct cadre_rank_verdict_op *op)
{
    const bool sends = strcmp(op->kind, "send") == 0;
    const bool receives = strcmp(op->kind, "recv") == 0;
    const char *kind = sends ? "recv" : receives ? "send" : op->kind;
    return strcmp(other->kind, kind) == 0 && strcmp(other->comm, op->comm) == 0 &&
           (other->ranks == 2 || !(sends || receives));
}

/* Has the rank posted the operation, which has not ended there? */
static bool has_posted(const char *dir, int rank,
                       const struct cadre_rank_verdict_op *op)
{
    struct cadre_rank_event *event =
        cadre_calloc(CADRE_RANK_PAGE_EVENTS, sizeof *event);
    char *path = cadre_rank_page_path(dir, rank);
    bool found = false;
    size_t n = 0;
    if (event && path)
        (void)cadre_rank_events_read(path, event, &n, NULL);
    for (size_t i = 0; i < n && !found; i++)
        found = event[i].state == CADRE_RANK_EVENT_PENDING &&
                event[i].sequence == op->sequence && is_posted_as(&event[i].op, op);
    free(event);
    free(path);
    return found;
}

/* It waits for an operation that it has posted. */
static bool waits(const struct cadre_rank_seen *seen)
{
    return seen->has_pending && seen->phase == CADRE_PHASE_COMM;
}

static enum cadre_rank_verdict_kind classify(const struct cadre_rank_seen *seen,
                                             bool posted)
{
    if (seen->alive == CADRE_RANK_GONE)
        return CADRE_VERDICT_DEAD;
    const bool here = seen->alive == CADRE_RANK_ALIVE;
    const struct activity a = here ? observe(&seen->head) : (struct activity){0};
    if (a.gone)
        return CADRE_VERDICT_DEAD;
    if (a.stopped)
        return CADRE_VERDICT_STOPPED;
    if (posted)
        return CADRE_VERDICT_MISSING_EXIT;
    if (waits(seen))
        return CADRE_VERDICT_DIFFERENT_CALL;
    if (seen->phase == CADRE_PHASE_DATA)
        return CADRE_VERDICT_DATA;
    if (seen->state == CADRE_RANK_SAVING || a.on_disk > LOOKS / 2)
        return CADRE_VERDICT_DISK;
    if (a.running > LOOKS / 2 || a.cpu > COMPUTES)
        return CADRE_VERDICT_SLOW;
    return here ? CADRE_VERDICT_MISSING_ENTRY : CADRE_VERDICT_UNKNOWN;
}

/* What it does, for the line. */
static void describe(enum cadre_rank_verdict_kind kind,
                     const struct cadre_rank_seen *seen, char *text, size_t size)
{
    const long long pid = seen->head.pid;
    const char *phase = cadre_rank_phase_name(seen->phase);
    const struct cadre_rank_page_op *op = &seen->pending.op;
    text[0] = '\0';
    switch (kind) {
    case CADRE_VERDICT_DEAD:
        snprintf(text, size, "is gone; it was in %s", phase);
        break;
    case CADRE_VERDICT_STOPPED:
        snprintf(text, size, "is stopped by a signal: kill -CONT %lld continues it",
                 pid);
        break;
    case CADRE_VERDICT_MISSING_EXIT:
        snprintf(text, size, "has posted it and does not leave it");
        break;
    case CADRE_VERDICT_DIFFERENT_CALL:
        snprintf(text, size, "waits in %s '%s' of %s", op->kind, op->label, op->comm);
        break;
    case CADRE_VERDICT_DATA:
        snprintf(text, size, "waits for its data loader for %.1f s", seen->phase_s);
        break;
    case CADRE_VERDICT_DISK:
        snprintf(text, size, "%s for %.1f s",
                 seen->state == CADRE_RANK_SAVING ? "saves" : "waits for a device",
                 seen->phase_s);
        break;
    case CADRE_VERDICT_SLOW:
        snprintf(text, size,
                 "computes, in %s for %.1f s; raise comm.timeout where it "
                 "may take longer",
                 phase, seen->phase_s);
        break;
    case CADRE_VERDICT_MISSING_ENTRY:
        snprintf(text, size, "has not posted it, and does nothing, in %s for %.1f s",
                 phase, seen->phase_s);
        break;
    default:
        break;
    }
}

static void conclude(enum cadre_rank_verdict_kind kind, int rank,
                     const struct cadre_rank_seen *seen, struct cadre_rank_verdict *out)
{
    char what[200];
    out->kind = kind;
    out->rank = rank;
    describe(kind, seen, what, sizeof what);
    if (what[0])
        snprintf(out->text, sizeof out->text,
                 "%s: rank %d (process %lld, step %llu) %s",
                 cadre_rank_verdict_name(kind), rank, (long long)seen->head.pid,
                 (unsigned long long)seen->step, what);
}

/* At one look: dead, stopped, or else unknown. */
static enum cadre_rank_verdict_kind glance(const struct cadre_rank_seen *seen)
{
    char state = 0;
    uint64_t cpu_ns;
    if (seen->alive == CADRE_RANK_GONE)
        return CADRE_VERDICT_DEAD;
    if (seen->alive != CADRE_RANK_ALIVE)
        return CADRE_VERDICT_UNKNOWN;
    if (!look_at(&seen->head, &state, &cpu_ns) || state == 'Z' || state == 'X')
        return CADRE_VERDICT_DEAD;
    return state == 'T' || state == 't' ? CADRE_VERDICT_STOPPED : CADRE_VERDICT_UNKNOWN;
}

/* A rank that waits for no other one holds up all that do: the first that is dead or
 * stopped, else the first one which does not wait, and has not posted `op` (NULL:
 * whatever it has posted). False: there is none. What it does may be unknown. */
static bool find_root(const char *dir, int self, int missing,
                      const struct cadre_rank_verdict_op *op, int ranks,
                      struct cadre_rank_verdict *out)
{
    struct cadre_rank_seen *seen = cadre_calloc(1, sizeof *seen);
    enum cadre_rank_verdict_kind kind = CADRE_VERDICT_UNKNOWN;
    int root = -1;
    for (int r = 0; seen && r < ranks && r < MOST_LOOKED_AT; r++) {
        if (r == self || r == missing || !read_page(dir, r, seen))
            continue;
        kind = glance(seen);
        if (kind != CADRE_VERDICT_UNKNOWN) {
            root = r;
            break;
        }
        if (root < 0 && !waits(seen) && !(op && has_posted(dir, r, op)))
            root = r;
    }
    if (root >= 0 && kind == CADRE_VERDICT_UNKNOWN && read_page(dir, root, seen))
        kind = classify(seen, false);
    if (root >= 0 && kind != CADRE_VERDICT_UNKNOWN)
        conclude(kind, root, seen, out);
    free(seen);
    return root >= 0;
}

static bool is_same_op(const struct cadre_rank_page_op *a,
                       const struct cadre_rank_page_op *b)
{
    return strcmp(a->kind, b->kind) == 0 && strcmp(a->label, b->label) == 0 &&
           strcmp(a->comm, b->comm) == 0;
}

/* Ranks wait in different operations, and for each other: the one to name is of the
 * fewer. True: that is `self`. */
static bool is_outvoted(const char *dir, int self, const struct cadre_rank_seen *other)
{
    struct cadre_rank_seen *mine = cadre_calloc(2, sizeof *mine), *seen = mine + 1;
    int with_me = 0, with_other = 0;
    const bool known = mine && read_page(dir, self, mine) && mine->has_pending;
    for (int r = 0; known && r < other->head.ranks && r < MOST_LOOKED_AT; r++) {
        if (!read_page(dir, r, seen) || !seen->has_pending)
            continue;
        with_me += is_same_op(&seen->pending.op, &mine->pending.op);
        with_other += is_same_op(&seen->pending.op, &other->pending.op);
    }
    free(mine);
    return known && with_me < with_other;
}

/* Of the asking rank itself, for one that cannot see it. */
static void look_at_self(const char *dir, int self,
                         const struct cadre_rank_verdict_op *op,
                         const struct cadre_rank_seen *seen,
                         struct cadre_rank_verdict *out)
{
    if (!waits(seen) && !has_posted(dir, self, op))
        conclude(classify(seen, false), self, seen, out);
}

/* The missing rank waits in another operation. */
static void settle(const char *dir, int self, int missing, struct cadre_rank_seen *seen,
                   struct cadre_rank_verdict *out)
{
    if (find_root(dir, self, missing, NULL, seen->head.ranks, out))
        return;
    if (is_outvoted(dir, self, seen) && read_page(dir, self, seen))
        missing = self;
    conclude(CADRE_VERDICT_DIFFERENT_CALL, missing, seen, out);
}

void cadre_rank_verdict_find(const char *dir, int self, int missing,
                             const struct cadre_rank_verdict_op *op,
                             struct cadre_rank_verdict *out)
{
    struct cadre_rank_seen *seen = cadre_calloc(1, sizeof *seen);
    *out = (struct cadre_rank_verdict){.kind = CADRE_VERDICT_UNKNOWN, .rank = missing};
    if (dir && seen && missing < 0 && read_page(dir, self, seen)) {
        find_root(dir, self, missing, op, seen->head.ranks, out);
    } else if (dir && seen && missing == self && read_page(dir, self, seen)) {
        look_at_self(dir, self, op, seen, out);
    } else if (dir && seen && missing >= 0 && read_page(dir, missing, seen) &&
               !(op->silent && seen->alive == CADRE_RANK_ELSEWHERE)) {
        const enum cadre_rank_verdict_kind kind =
            classify(seen, has_posted(dir, missing, op));
        if (kind == CADRE_VERDICT_DIFFERENT_CALL)
            settle(dir, self, missing, seen, out);
        else
            conclude(kind, missing, seen, out);
    }
    free(seen);
}
