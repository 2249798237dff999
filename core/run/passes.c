/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/passes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/run/gather.h"

static const char *const medians[] = {"forward_s", "backward_s", "input_s", "weight_s"};
static const char letters[] = "FBIW";
static const char FILE_NAME[] = "passes.json";
enum { SCHEMA_VERSION = 1 };

static void put_chunk(const struct cadre_rank *rank, int c, struct cadre_text *out)
{
    const struct cadre_chunk *chunk = &rank->plan.chunk[c];
    cadre_text_printf(out, "%s{\"begin\": %u, \"end\": %u", c ? ", " : "", chunk->begin,
                      chunk->end);
    for (int k = 0; k < CADRE_SPAN_PASSES; k++)
        cadre_text_printf(
            out, ", \"%s\": %.9g", medians[k],
            cadre_timeline_median(&rank->timeline, c, (enum cadre_span_kind)k));
    cadre_text_printf(out, "}");
}

/* The rank with index 0 on the schedule's axis and this rank's indices on the others.
 */
static int group_of(const struct cadre_rank *rank)
{
    const struct cadre_axis *axis = rank->stages.axis;
    int stride = 1;
    for (int a = rank->mesh.n - 1; &rank->mesh.axis[a] != axis; a--)
        stride *= rank->mesh.axis[a].size;
    return rank->index - axis->index * stride;
}

static void put_rank(const struct cadre_rank *rank, struct cadre_text *out)
{
    const struct cadre_timeline *timeline = &rank->timeline;
    cadre_text_printf(out, "{\"rank\": %d, \"group\": %d, \"index\": %d, \"chunks\": [",
                      rank->index, group_of(rank), rank->stages.axis->index);
    for (int c = 0; c < rank->plan.n_chunks; c++)
        put_chunk(rank, c, out);
    cadre_text_printf(out, "],\n \"passes\": [");
    for (size_t i = 0; i < timeline->n_best; i++) {
        const struct cadre_span *span = &timeline->best[i];
        cadre_text_printf(out, "%s[\"%c\", %u, %u, %.9f, %.9f]",
                          i % 4 ? ", "
                          : i   ? ",\n  "
                                : "",
                          letters[span->kind], span->chunk, span->microbatch,
                          span->begin - timeline->best_begin,
                          span->end - timeline->best_begin);
    }
    cadre_text_printf(out, "]}");
}

/* A run resumed without a schedule does not keep what it did with one. */
static cadre_status forget_older(const struct cadre_spec *spec, struct cadre_error *err)
{
    char *path = cadre_path_join(spec->out, FILE_NAME);
    if (!path)
        return cadre_no_memory(err, "a path");
    cadre_status rc = CADRE_OK;
    if (unlink(path) != 0 && errno != ENOENT)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot remove '%s'", path);
    free(path);
    return rc;
}

cadre_status cadre_passes_write(struct cadre_rank *rank, const struct cadre_spec *spec,
                                struct cadre_error *err)
{
    const struct cadre_timeline *timeline = &rank->timeline;
    struct cadre_text mine = {0};
    struct cadre_json json;
    struct cadre_text head = {0};
    if (!timeline->axis || timeline->best_step == 0)
        return rank->index == 0 ? forget_older(spec, err) : CADRE_OK;
    cadre_json_init_text(&json, &head, false);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, SCHEMA_VERSION); /* the rest is one line a rank */
    cadre_text_printf(&head,
                      ", \"step\": %" PRIu64 ", \"span_s\": %.9g, \"ranks\": [\n",
                      timeline->best_step, timeline->best_s);
    const char *const around[2] = {cadre_text_str(&head), "\n]}\n"};
    put_rank(rank, &mine);
    mine.failed = mine.failed || head.failed;
    cadre_status rc = cadre_gather_file(rank, &mine, spec->out, FILE_NAME, around, err);
    cadre_text_fini(&mine);
    cadre_text_fini(&head);
    return rc;
}
