/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps something of every sort in checkpoints: tensors that are the same on all data
 * ranks, summed and averaged, and blobs. Moves nothing. `fault` breaks a rule. */
#include "tests/plugins/state_plugin.h"

#include <stdlib.h>
#include <string.h>

static int is(const struct cadre_self *self, const char *fault)
{
    return strcmp(self->fault, fault) == 0;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    for (int k = 0; k < STATE_KINDS; k++)
        for (uint32_t i = 0; i < STATE_MAX_PARAMS; i++)
            free(self->kept[k][i].data);
    free(self);
}

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(model, MODEL, param),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = in->host;
    self->fault = values->str(values->h, "fault");
    self->split = values->i64(values->h, "split") != 0;
    self->version = 1;
    *out = self;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    struct cadre_axis *axis = self->mesh->axis(self->host->ctx, NULL);
    self->data_rank = self->mesh->rank(axis);
    self->data_ranks = self->mesh->size(axis);
    self->rank = p->rank;
    cadre_status rc = p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT);
    if (rc == CADRE_OK && is(self, "apart"))
        rc = p->claim(p->h, "param.diverges", p->axis, 0);
    return rc;
}

/* With `split`, half of the last rank's share lies in the one before too. */
static void share(const struct cadre_self *self, uint64_t all, uint64_t *begin,
                  uint64_t *count)
{
    uint64_t n = (uint64_t)self->data_ranks, r = (uint64_t)self->data_rank;
    uint64_t end = all * (r + 1) / n;
    *begin = all * r / n;
    if (r > 0)
        *begin -= *begin / 2 < 3 ? *begin / 2 : 3;
    *count = end - *begin;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)in;
    self->n_params = self->model->n_params(self->host->ctx);
    for (uint32_t i = 0; i < self->n_params && i < STATE_MAX_PARAMS; i++) {
        struct cadre_param_info info;
        CADRE_TRY(cadre_param_get(self->host, self->model, i, &info));
        if ((!info.present && !info.copied) || info.tied_to >= 0)
            continue;
        for (int k = 0; k < STATE_KINDS; k++) {
            uint64_t begin = 0, count = info.count;
            if (self->split && k == 0)
                share(self, info.count, &begin, &count);
            if (is(self, "hole") && k == 0)
                count -= 1;
            self->begin[k][i] = begin;
            self->kept[k][i] = cadre_buf_of(calloc(count + 1, 8), count,
                                            is(self, "dtype") ? CADRE_BF16 : info.dtype,
                                            CADRE_SPACE_HOST);
        }
    }
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    (void)self, (void)in;
    return CADRE_OK;
}

static cadre_status state(struct cadre_self *self, const struct cadre_state_sink *sink)
{
    static const char *const keys[STATE_KINDS] = {"same", "sum", "mean"};
    uint32_t version = self->version;
    for (int k = 0; k < STATE_KINDS; k++)
        for (uint32_t i = 0; i < self->n_params; i++) {
            uint32_t combine = CADRE_STATE_SAME + (uint32_t)k;
            if (self->kept[k][i].count == 0)
                continue;
            if (is(self, "part") && self->data_rank == 1 && k == 1)
                continue;
            if (is(self, "twice") && sink->saving)
                sink->tensor(sink->h, keys[k], i, combine, 0, &self->kept[k][i]);
            int wrong = is(self, "key") || (is(self, "one_key") && self->rank == 1);
            cadre_status rc =
                sink->tensor(sink->h, wrong ? "No key" : keys[k], i, combine,
                             self->begin[k][i], &self->kept[k][i]);
            if (rc != CADRE_OK)
                return rc;
        }
    if (is(self, "unlike"))
        self->common = self->rank;
    cadre_status rc = sink->blob(sink->h, "common", version, CADRE_BLOB_REPLICATED,
                                 &self->common, sizeof self->common);
    if (rc == CADRE_OK)
        rc = sink->blob(sink->h, "spare", version, CADRE_BLOB_DROPPABLE, &self->spare,
                        sizeof self->spare);
    if (rc == CADRE_OK && is(self, "per_rank"))
        rc = sink->blob(sink->h, "own", version, CADRE_BLOB_PER_RANK, &self->own,
                        sizeof self->own);
    return rc;
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "fault", .def = "none",
                 .help = "rule to break, or per_rank, apart"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "split", .def = "no",
                 .help = "ranks hold parts of what is the same on all"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .state = state,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.state_plugin",
             .version = "0.1.0", .summary = "keeps tensors and blobs in checkpoints",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
