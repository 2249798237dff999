/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the fake host: the events of forward and backward in their order. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

double fake_gradient(const struct fake_host *fake, cadre_param_id id, uint64_t element)
{
    const void *at = fake->entry[id].grad;
    return fake->dtype == CADRE_F64 ? ((const double *)at)[element]
                                    : (double)((const float *)at)[element];
}

uint64_t fake_wrong(const struct fake_host *fake, cadre_param_id id, float value)
{
    uint64_t wrong = 0, count = fake->entry[id].count;
    for (uint64_t i = 0; i < (count + FAKE_PAD - 1) / FAKE_PAD * FAKE_PAD; i++)
        wrong += fake_gradient(fake, id, i) != (i < count ? (double)value : 0);
    return wrong;
}

/* One micro-batch's contribution, in place of what is there or added to it. */
static void contribute(struct fake_host *fake, cadre_param_id id, bool add)
{
    const struct fake_entry *entry = &fake->entry[id];
    const struct fake_range *range = &entry->range[CADRE_KIND_GRAD];
    bool part = fake->outer && range->placed;
    uint64_t begin = part ? range->begin : 0,
             count = part ? range->count : entry->count;
    float *at = part ? entry->shard[CADRE_KIND_GRAD] : entry->grad;
    double *wide = (double *)(void *)at;
    ck_assert(at || count == 0);
    for (uint64_t i = 0; i < count; i++) {
        double value = fake->gradient ? fake->gradient(fake, id, begin + i) : 1;
        if (fake->dtype == CADRE_F64)
            wide[i] = value + (add ? wide[i] : 0);
        else
            at[i] = (float)value + (add ? at[i] : 0);
    }
}

/* What the fake host was told of the gradients' way. */
static bool is_cyclic(const struct fake_host *fake)
{
    return fake->map == CADRE_MICROBATCHES_CYCLIC;
}

static bool has_nodes(const struct fake_host *fake)
{
    return fake->map == CADRE_MICROBATCHES_RANGES && fake->plan.exact;
}

static bool must_report(const struct fake_host *fake)
{
    return fake->axis.size > 1 && strstr(fake->claims, "reduces@") != NULL;
}

static uint32_t global_of(const struct fake_host *fake, uint32_t mb)
{
    uint32_t me = (uint32_t)fake->axis.index, ranks = (uint32_t)fake->axis.size;
    return fake->map == CADRE_MICROBATCHES_RANGES ? (uint32_t)fake->first[me] + mb
           : is_cyclic(fake)                      ? mb * ranks + me
                                                  : me * fake->micro_batches + mb;
}

static bool has_unit(const struct fake_host *fake, int64_t unit)
{
    for (uint32_t i = 0; i < fake->n_entries; i++)
        if (fake->entry[i].unit == unit && !fake->entry[i].absent)
            return true;
    return false;
}

static cadre_status raise(struct fake_host *fake, uint32_t kind, uint32_t unit,
                          int64_t next, uint32_t mb)
{
    struct cadre_block_ev ev = {
        .struct_size = sizeof ev,
        .kind = kind,
        .unit = unit,
        .microbatch = mb,
        .next_unit = has_unit(fake, next) ? (int32_t)next : -1,
    };
    return fake->ops->on_block ? fake->ops->on_block(fake->self, &ev) : CADRE_OK;
}

/* A unit that runs waits for its parameters. */
static void end_pending(struct fake_host *fake, uint32_t unit)
{
    for (uint32_t i = 0; i < fake->n_entries; i++) {
        int32_t owner = fake->entry[i].tied_to;
        struct fake_entry *entry = &fake->entry[owner >= 0 ? (uint32_t)owner : i];
        if (fake->entry[i].unit != unit)
            continue;
        fake_end_post(fake, entry->pending);
        entry->pending = 0;
    }
}

static cadre_status forward(struct fake_host *fake, uint32_t mb)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t u = 0; !rc && u < fake->n_units; u++) {
        uint32_t next = u + (u + 1 < fake->n_units);
        if (!has_unit(fake, u))
            continue;
        rc = raise(fake, CADRE_BEFORE_FORWARD, u, next, mb);
        end_pending(fake, u);
        if (!rc && fake->on_forward)
            fake->on_forward(fake, u);
        if (!rc)
            rc = raise(fake, CADRE_AFTER_FORWARD, u, next, mb);
    }
    return rc;
}

/* Sum of the micro-batches of a node of the tree, of one element. */
static float sum_of_node(struct fake_host *fake, cadre_param_id id, uint32_t level,
                         uint64_t index, uint64_t element)
{
    if (level > 0) {
        float left = sum_of_node(fake, id, level - 1, 2 * index, element);
        return left + sum_of_node(fake, id, level - 1, 2 * index + 1, element);
    }
    fake->global_microbatch = (uint32_t)index;
    return fake->gradient ? (float)fake->gradient(fake, id, element) : 1;
}

static uint32_t make_nodes(struct fake_host *fake, cadre_param_id id,
                           struct cadre_grad_node node[FAKE_NODES])
{
    struct fake_entry *entry = &fake->entry[id];
    uint32_t n = fake_nodes(fake, fake->axis.index, node);
    for (uint32_t k = 0; k < n; k++) {
        float *sum = malloc((entry->count + 1) * sizeof *sum);
        for (uint64_t i = 0; i < entry->count; i++)
            sum[i] = sum_of_node(fake, id, node[k].level, node[k].index, i);
        entry->node[k] = sum;
        node[k].sum = (struct cadre_buf){sum, entry->count, CADRE_F32, 0};
    }
    return n;
}

void fake_free_nodes(struct fake_host *fake)
{
    for (uint32_t i = 0; i < fake->n_entries; i++)
        for (int k = 0; k < FAKE_NODES; k++) {
            free(fake->entry[i].node[k]);
            fake->entry[i].node[k] = NULL;
        }
}

/* The gradient that the event is about: the whole, or as a lower level passes it on. */
static struct cadre_buf gradient_of(const struct fake_host *fake,
                                    const struct fake_entry *entry)
{
    const struct fake_range *range = &entry->range[CADRE_KIND_GRAD];
    struct cadre_buf grad = {entry->grad, entry->count, fake->dtype, 0};
    if (fake->outer && range->placed)
        grad = (struct cadre_buf){entry->shard[CADRE_KIND_GRAD], range->count,
                                  fake->dtype, 0};
    return grad;
}

static cadre_status raise_grad(struct fake_host *fake, cadre_param_id id, uint32_t mb,
                               bool final)
{
    struct cadre_grad_node node[FAKE_NODES];
    struct fake_entry *entry = &fake->entry[id];
    struct cadre_buf grad = gradient_of(fake, entry);
    bool ends = final || is_cyclic(fake), nodes = final && has_nodes(fake);
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev,
        .flags =
            (final ? CADRE_GRAD_FINAL : 0) | (fake->outer ? CADRE_GRAD_REDUCED : 0),
        .param = id,
        .microbatch = mb,
        .global_microbatch = global_of(fake, mb),
        .ready = ++fake->ready,
        .grad = nodes || (fake->plan.exact && !ends) ? NULL : &grad,
        .node = nodes ? node : NULL,
        .n_nodes = nodes ? make_nodes(fake, id, node) : 0,
        .map = fake->map,
    };
    entry->ready = ev.ready;
    entry->owed += must_report(fake) && ends;
    cadre_status rc =
        fake->ops->on_grad ? fake->ops->on_grad(fake->self, &ev) : CADRE_OK;
    entry->ready_after = ev.ready;
    return rc;
}

/* A lower level passes on what ends a sum. */
static cadre_status give_gradient(struct fake_host *fake, cadre_param_id id,
                                  uint32_t mb)
{
    struct fake_entry *entry = &fake->entry[id];
    bool final = mb + 1 == fake->micro_batches;
    cadre_status rc = CADRE_OK;
    fake->global_microbatch = global_of(fake, mb);
    contribute(fake, id, mb > 0 && !is_cyclic(fake));
    entry->to_come = !final;
    if (!fake->outer || final || is_cyclic(fake))
        rc = raise_grad(fake, id, mb, final);
    entry->posts = fake->posts;
    return rc;
}

static cadre_status backward(struct fake_host *fake, uint32_t mb)
{
    cadre_status rc = CADRE_OK;
    for (int64_t u = (int64_t)fake->n_units - 1; !rc && u >= 0; u--) {
        if (!has_unit(fake, u))
            continue;
        rc = raise(fake, CADRE_BEFORE_BACKWARD, (uint32_t)u, u - 1, mb);
        for (uint32_t i = 0; !rc && i < fake->n_entries; i++) {
            const struct fake_entry *entry = &fake->entry[fake->order[i]];
            if (entry->unit == u && !entry->absent && !entry->silent && !entry->frozen)
                rc = give_gradient(fake, fake->order[i], mb);
        }
        if (!rc)
            rc = raise(fake, CADRE_AFTER_BACKWARD, (uint32_t)u, u - 1, mb);
    }
    return rc;
}

static cadre_status run(void *h, const struct cadre_step *step)
{
    struct fake_host *fake = h;
    cadre_status rc = CADRE_OK;
    for (uint32_t mb = 0; !rc && mb < step->n_microbatches; mb++) {
        rc = forward(fake, mb);
        fake->posts_at_final = fake->posts;
        if (!rc && !(step->flags & CADRE_STEP_FORWARD))
            rc = backward(fake, mb);
    }
    fake->posts_in_backward = fake->posts;
    return rc;
}

static cadre_status run_step(struct fake_host *fake, uint32_t flags)
{
    const struct cadre_step step = {.struct_size = sizeof step,
                                    .n_microbatches = fake->micro_batches,
                                    .step = (uint64_t)fake->steps,
                                    .flags = flags};
    const struct cadre_next next = {sizeof next, 0, fake, run};
    return fake->ops->step(fake->self, &step, &next);
}

cadre_status fake_step(struct fake_host *fake)
{
    int me = fake->axis.index;
    fake->steps++;
    fake_free_nodes(fake);
    memset(fake->grads, 0, fake->grads_bytes);
    if (fake->map == CADRE_MICROBATCHES_RANGES)
        fake->micro_batches = (uint32_t)(fake->first[me + 1] - fake->first[me]);
    for (uint32_t i = 0; i < fake->n_entries; i++) {
        struct fake_entry *entry = &fake->entry[i];
        entry->to_come = !entry->absent && !entry->silent && !entry->frozen;
        entry->owed = 0;
        if (!entry->range[CADRE_KIND_GRAD].placed && !entry->frozen)
            contribute(fake, i, false);
    }
    return run_step(fake, 0);
}

cadre_status fake_forward_step(struct fake_host *fake)
{
    return run_step(fake, CADRE_STEP_FORWARD);
}

cadre_status fake_sync(struct fake_host *fake, uint32_t what)
{
    const struct cadre_sync in = {
        .struct_size = sizeof in, .what = what, .step = (uint64_t)fake->steps};
    cadre_status rc = fake->ops->sync(fake->self, &in);
    for (uint32_t i = 0; !rc && i < fake->n_entries; i++) {
        struct fake_entry *entry = &fake->entry[i];
        ck_assert_msg(what != CADRE_SYNC_GRADS || entry->owed == 0,
                      "no sum of entry %u was reported", i);
        if (what != CADRE_SYNC_DRAIN)
            continue;
        fake_end_post(fake, entry->pending);
        entry->pending = 0;
    }
    return rc;
}
