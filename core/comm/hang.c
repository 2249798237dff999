/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/hang.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rank_page.h"
#include "core/base/rank_verdict.h"

void cadre_comm_hang_text(const struct cadre_comm *comm, const struct cadre_comm_op *op,
                          int missing, bool silent, char *text, size_t size)
{
    struct cadre_comm_context *context = comm->context;
    const struct cadre_rank_verdict_op waited = {
        .kind = cadre_comm_kind_name(op->kind),
        .label = cadre_comm_op_label(op),
        .comm = comm->name ? comm->name : "world",
        .sequence = op->sequence,
        .silent = silent,
    };
    struct cadre_rank_verdict verdict;
    text[0] = '\0';
    pthread_mutex_lock(&context->lock); /* the page may be closed meanwhile */
    char *dir = context->page ? cadre_strdup(context->page->dir) : NULL;
    pthread_mutex_unlock(&context->lock);
    if (!dir)
        return;
    cadre_rank_verdict_find(dir, context->rank, missing, &waited, &verdict);
    free(dir);
    if (verdict.text[0])
        snprintf(text, size, "; %s", verdict.text);
}
