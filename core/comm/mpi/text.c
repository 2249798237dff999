/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, ranks and failures in words. */
#include <stdio.h>
#include <string.h>

#include "core/comm/mpi/private.h"
#include "core/tensor/dtype.h"

#define NAMED 4 /* ranks in a list, and then how many more */

static bool is_message(const struct mpi_op *op)
{
    return op->base.kind == CADRE_COMM_SEND || op->base.kind == CADRE_COMM_RECV;
}

/* " of ranks 0,2" where that is not the world. */
static void members_text(const struct mpi_group *g, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int m = 0; !g->is_world && m < g->base.size && at + 16 < size; m++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", m ? "," : " of ranks ",
                               g->world_ranks[m]);
    if (at + 16 >= size)
        snprintf(text + at, size - at, "...");
}

void cadre_mpi_op_text(const struct mpi_op *op, char *text, size_t size)
{
    char peer[32] = "", members[80], label[96] = "", what[96] = "";
    if (is_message(op))
        snprintf(peer, sizeof peer, " %s rank %d",
                 op->base.kind == CADRE_COMM_SEND ? "to" : "from",
                 op->group->world_ranks[op->base.root]);
    if (op->base.label)
        snprintf(label, sizeof label, " '%s'", op->base.label);
    if (op->base.kind != CADRE_COMM_BARRIER && op->base.kind != CADRE_COMM_SPLIT)
        snprintf(what, sizeof what, "%s, %llu elements, ",
                 cadre_dtype_name(op->base.dtype), (unsigned long long)op->base.count);
    members_text(op->group, members, sizeof members);
    snprintf(text, size, "%s%s #%llu%s (%sstep %llu)%s",
             cadre_comm_kind_name(op->base.kind), peer,
             (unsigned long long)op->base.sequence, label, what,
             (unsigned long long)op->base.step, members);
}

void cadre_mpi_rank_text(const struct mpi_world *w, int rank, char *text, size_t size)
{
    snprintf(text, size, "rank %d (host %s)", rank, w->hosts[rank]);
}

/* ---- missing ranks ---- */

enum verdict { HERE, SILENT, ABSENT, OTHER };

/* May rank r be what `op` waits for? */
static bool takes_part(const struct mpi_op *op, int r)
{
    const struct mpi_group *g = op->group;
    if (is_message(op))
        return g->world_ranks[op->base.root] == r;
    for (int m = 0; m < g->base.size; m++)
        if (g->world_ranks[m] == r)
            return true;
    return false;
}

static enum verdict judge(const struct mpi_op *op, const struct mpi_inquiry *q, int r)
{
    const struct mpi_note *answer = &q->answers[r];
    if (r == op->group->world->context.rank)
        return HERE;
    if (!q->answered[r])
        return SILENT;
    if (!takes_part(op, r))
        return HERE;
    if (answer->sequence < op->base.sequence)
        return ABSENT;
    if (answer->sequence > op->base.sequence || is_message(op))
        return HERE;
    return answer->kind == (uint32_t)op->base.kind && answer->count == op->base.count &&
                   answer->dtype == op->base.dtype
               ? HERE
               : OTHER;
}

/* "rank 2 (host a), rank 3 (host b) and 5 more" of those with the verdict; the first is
 * returned, -1 for none. */
static int list(const struct mpi_op *op, const struct mpi_inquiry *q,
                enum verdict verdict, char *text, size_t size)
{
    const struct mpi_world *w = op->group->world;
    int first = -1, n = 0;
    size_t at = 0;
    text[0] = '\0';
    for (int r = 0; r < w->context.size; r++) {
        char one[96];
        if (judge(op, q, r) != verdict)
            continue;
        first = first < 0 ? r : first;
        cadre_mpi_rank_text(w, r, one, sizeof one);
        if (n++ < NAMED && at < size)
            at +=
                (size_t)snprintf(text + at, size - at, "%s%s", n > 1 ? ", " : "", one);
    }
    if (n > NAMED && at < size)
        snprintf(text + at, size - at, " and %d more", n - NAMED);
    return first;
}

/* What rank `r` does, by its status page, at the end of the text; where that cannot be
 * seen from here, by its own word, or by that of one which waits for nobody. */
static void explain(const struct mpi_op *op, const struct mpi_inquiry *q, int r,
                    char *text, size_t size)
{
    const struct cadre_comm_context *context = &op->group->world->context;
    const bool silent = !q->answered[r];
    const size_t n = strlen(text);
    if (!context->explain || n >= size)
        return;
    context->explain(&op->group->base, &op->base, r, silent, text + n, size - n);
    for (int i = -1; !silent && !text[n] && i < context->size; i++) {
        const int who = i < 0 ? r : i;
        if (q->answered[who])
            snprintf(text + n, size - n, "%s", q->answers[who].doing);
    }
}

void cadre_mpi_late_text(const struct mpi_world *w, const struct mpi_op *op,
                         const struct mpi_inquiry *q, char *text, size_t size)
{
    char who[512], name[256], me[96];
    double limit = w->timeout_s;
    int first = list(op, q, SILENT, who, sizeof who);
    cadre_mpi_op_text(op, name, sizeof name);
    cadre_mpi_rank_text(w, w->context.rank, me, sizeof me);
    if (first >= 0) {
        snprintf(text, size,
                 "%s does not answer: its process has ended or is stopped, or its host "
                 "is cut off; %s "
                 "waited for %g s in %s",
                 who, me, limit, name);
        explain(op, q, first, text, size);
        return;
    }
    first = list(op, q, ABSENT, who, sizeof who);
    if (first >= 0) {
        snprintf(
            text, size,
            "%s has not entered %s, where %s waited for %g s; last seen in %.200s; "
            "look at its log, or raise comm.timeout",
            who, name, me, limit, q->answers[first].text);
        explain(op, q, first, text, size);
        return;
    }
    first = list(op, q, OTHER, who, sizeof who);
    if (first >= 0)
        snprintf(text, size,
                 "%s posted %.200s, where %s posted %s; all must post the same", who,
                 q->answers[first].text, me, name);
    else
        snprintf(text, size,
                 "%s did not end within %g s on %s though all its ranks are there: the "
                 "network may be slow or partly down; raise comm.timeout",
                 name, limit, me);
}
