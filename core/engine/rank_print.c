/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank's plan says: for people, for comparisons. */
#include <stdio.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/engine/rank.h"

void cadre_rank_reduction_signature(const struct cadre_rank *rank,
                                    char out[CADRE_SIGNATURE_CHARS])
{
    const bool parts = rank->model->parts > 0; /* the bits are those of any cut */
    size_t used = 0;
    out[0] = 0;
    if (parts)
        used = (size_t)snprintf(out, CADRE_SIGNATURE_CHARS, "exact_parts:%lld",
                                (long long)rank->model->config.exact_parts);
    for (int i = 0; i < rank->plan.n_claims; i++) {
        const struct cadre_claim *claim = &rank->plan.claim[i];
        bool model = strcmp(claim->effect, "act.complete") == 0 ||
                     strcmp(claim->effect, "seq.shard") == 0;
        bool time = strcmp(claim->effect, "time.shard") == 0;
        bool experts = strcmp(claim->effect, "expert.shard") == 0;
        int ranks = model     ? rank->model->tp_size
                    : time    ? rank->model->time_ranks
                    : experts ? rank->model->ep_size
                              : 1;
        if (ranks == 1 || (model && parts))
            continue;
        int n = snprintf(out + used, CADRE_SIGNATURE_CHARS - used, "%s%.24s@%.16s:%d",
                         used ? ", " : "", claim->effect, claim->axis, ranks);
        used += (size_t)n < CADRE_SIGNATURE_CHARS - used ? (size_t)n : 0;
    }
}

void cadre_rank_changes(const struct cadre_rank *rank, struct cadre_changes *out)
{
    size_t used = 0;
    *out = (struct cadre_changes){
        .period = cadre_rank_plan_period(&rank->plan),
        .diverging = cadre_rank_diverging_axis(rank) != NULL,
    };
    for (int i = 0; i < rank->plan.n_designs; i++) {
        int n = snprintf(out->by + used, sizeof out->by - used, "%s%s",
                         used ? ", " : "", rank->plan.design[i].plugin);
        used += (size_t)n < sizeof out->by - used ? (size_t)n : 0;
    }
    cadre_rank_plan_equal(&rank->plan, out->equal, sizeof out->equal);
}

static void print_claims(const struct cadre_rank *rank, FILE *out)
{
    const struct cadre_rank_plan *plan = &rank->plan;
    fprintf(out, "rank %d of %d", rank->index, rank->mesh.ranks);
    for (int i = 0; i < rank->mesh.n; i++)
        fprintf(out, "  %s %d/%d", rank->mesh.axis[i].name, rank->mesh.axis[i].index,
                rank->mesh.axis[i].size);
    fputc('\n', out);
    for (int i = 0; rank->index == 0 && i < plan->n_claims; i++)
        fprintf(out, "  %-16s claims %s%s%s\n", plan->claim[i].plugin,
                plan->claim[i].effect, plan->claim[i].axis[0] ? "@" : "",
                plan->claim[i].axis);
    for (int i = 0; rank->index == 0 && i < plan->n_reducers; i++)
        fprintf(out, "  %-16s reduces gradients along %s at level %u\n",
                plan->reducer[i].plugin, plan->reducer[i].axis->name,
                plan->reducer[i].level);
    for (int i = 0; rank->index == 0 && i < plan->n_designs; i++)
        fprintf(out, "  %-16s differs by design, equal with %s\n",
                plan->design[i].plugin, plan->design[i].equal);
    for (int c = 0; c < plan->n_chunks; c++)
        fprintf(out, "  chunk %d: units %u to %u, %u in flight\n", c,
                plan->chunk[c].begin, plan->chunk[c].end - 1, plan->chunk[c].live);
    if (plan->live_blocks)
        fprintf(out, "  chunks together: %u blocks kept at most\n", plan->live_blocks);
    fprintf(out, "  micro-batches: %lld of %lld, from %lld, every %lld\n",
            (long long)plan->n_microbatches,
            (long long)(rank->spec->global_batch / rank->spec->micro_batch),
            (long long)plan->first_microbatch, (long long)plan->microbatch_stride);
    if (plan->most > 0)
        fprintf(out, "  micro-batches change: memory is for %lld at most\n",
                (long long)plan->most);
}

uint64_t cadre_rank_print(const struct cadre_rank *rank, FILE *out)
{
    static const char *const spaces[] = {"device", "pinned", "host"};
    struct cadre_ledger table;
    char size[CADRE_BYTES_CHARS];
    cadre_rank_memory(rank, &table);
    print_claims(rank, out);
    for (int i = 0; i < table.n; i++)
        fprintf(out, "  %-32s %-6s %16s\n", table.entry[i].tag,
                spaces[table.entry[i].space % 3],
                cadre_bytes_text((double)table.entry[i].bytes, 3, size));
    fprintf(out, "  %-32s %-6s %16s\n", "total", "",
            cadre_bytes_text((double)table.now_bytes, 3, size));
    return table.now_bytes;
}
