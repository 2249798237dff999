/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/inquiry.h"

#include <string.h>

#include "core/checkpoint/writer.h"

static int blocks_of(const struct cadre_rank *rank)
{
    const int layers = (int)rank->model->config.layers;
    int blocks = 0;
    if (rank->plan.n_chunks == 0)
        return layers;
    /* unit 0 is the embedding, the last one the head */
    for (int i = 0; i < rank->plan.n_chunks; i++) {
        const int begin = (int)rank->plan.chunk[i].begin;
        const int end = (int)rank->plan.chunk[i].end;
        blocks += (end > layers + 1 ? layers + 1 : end) - (begin < 1 ? 1 : begin);
    }
    return blocks;
}

static bool is_known(const char *plugin)
{
    static const char *const known[] = {"ddp", "zero", "hsdp", "pipeline", "tensor"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(plugin, known[i]) == 0)
            return true;
    return false;
}

static cadre_status ask(const struct cadre_spec *spec, int index,
                        struct cadre_inquiry *out, struct cadre_error *err)
{
    struct cadre_rank rank;
    struct cadre_ledger table;
    CADRE_TRY(cadre_rank_plan(&rank, &spec->run, index, err));
    if (spec->config.checkpoint.async)
        cadre_ledger_note(&rank.plan.planned, CADRE_SPACE_HOST,
                          cadre_writer_bytes(&rank), CADRE_WRITER_TAG);
    cadre_rank_memory(&rank, &table);
    const int blocks = blocks_of(&rank);
    if (out->asked == 0 || table.now_bytes > out->bytes)
        out->largest = index;
    out->bytes = table.now_bytes > out->bytes ? table.now_bytes : out->bytes;
    out->blocks = blocks > out->blocks ? blocks : out->blocks;
    out->micro_batches = rank.plan.n_microbatches > out->micro_batches
                             ? rank.plan.n_microbatches
                             : out->micro_batches;
    out->time = rank.plan.time > out->time ? rank.plan.time : out->time;
    out->tensor = rank.model->tp_size > 1 ? rank.model->tp_size : 1;
    out->params = cadre_model_count(rank.model);
    out->asked++;
    cadre_rank_fini(&rank);
    return CADRE_OK;
}

cadre_status cadre_inquiry(struct cadre_options *options_take, int ranks, int every,
                           struct cadre_inquiry *out, struct cadre_error *err)
{
    const struct cadre_spec_request request = {
        .name = "plan", .given_ranks = ranks, .local_ranks = ranks};
    struct cadre_spec *spec = NULL;
    CADRE_TRY(cadre_spec_create(options_take, &request, &spec, err));
    struct cadre_inquiry found = {.ranks = spec->run.ranks};
    cadre_status rc = CADRE_OK;
    for (int i = 0; i < spec->n_stacked; i++)
        found.claims_other = found.claims_other || !is_known(spec->run.plugin[i]->name);
    for (int i = 0; i < found.ranks && rc == CADRE_OK; i += every > 0 ? every : 1)
        rc = ask(spec, i, &found, err);
    cadre_spec_destroy(spec);
    if (rc == CADRE_OK)
        *out = found;
    return rc;
}
