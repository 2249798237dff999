/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the fake host: the events of forward and backward in their order. */
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
    float *at = entry->grad;
    double *wide = (double *)(void *)at;
    ck_assert_ptr_nonnull(at);
    for (uint64_t i = 0; i < entry->count; i++) {
        double value = fake->gradient ? fake->gradient(fake, id, i) : 1;
        if (fake->dtype == CADRE_F64)
            wide[i] = value + (add ? wide[i] : 0);
        else
            at[i] = (float)value + (add ? at[i] : 0);
    }
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

static cadre_status forward(struct fake_host *fake, uint32_t mb)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t u = 0; !rc && u < fake->n_units; u++) {
        uint32_t next = u + (u + 1 < fake->n_units);
        if (!has_unit(fake, u))
            continue;
        rc = raise(fake, CADRE_BEFORE_FORWARD, u, next, mb);
        if (!rc && fake->on_forward)
            fake->on_forward(fake, u);
        if (!rc)
            rc = raise(fake, CADRE_AFTER_FORWARD, u, next, mb);
    }
    return rc;
}

static cadre_status give_gradient(struct fake_host *fake, cadre_param_id id,
                                  uint32_t mb)
{
    struct fake_entry *entry = &fake->entry[id];
    bool final = mb + 1 == fake->micro_batches;
    contribute(fake, id, mb > 0 && fake->map != CADRE_MICROBATCHES_CYCLIC);
    struct cadre_buf grad = {sizeof grad, fake->dtype, entry->grad, entry->count, 0, 0};
    struct cadre_grad_ev ev = {
        .struct_size = sizeof ev,
        .flags = final ? CADRE_GRAD_FINAL : 0,
        .param = id,
        .microbatch = mb,
        .ready = ++fake->ready,
        .grad = &grad,
    };
    entry->ready = ev.ready;
    entry->to_come = !final;
    cadre_status rc =
        fake->ops->on_grad ? fake->ops->on_grad(fake->self, &ev) : CADRE_OK;
    entry->posts = fake->posts;
    entry->ready_after = ev.ready;
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
            if (entry->unit == u && !entry->absent && !entry->silent)
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
        if (!rc)
            rc = backward(fake, mb);
    }
    fake->posts_in_backward = fake->posts;
    return rc;
}

cadre_status fake_step(struct fake_host *fake)
{
    const struct cadre_step step = {.struct_size = sizeof step,
                                    .n_microbatches = fake->micro_batches};
    const struct cadre_next next = {sizeof next, 0, fake, run};
    fake->steps++;
    memset(fake->grads, 0, fake->grads_bytes);
    for (uint32_t i = 0; i < fake->n_entries; i++) {
        struct fake_entry *entry = &fake->entry[i];
        entry->to_come = !entry->absent && !entry->silent;
        if (!entry->range[CADRE_KIND_GRAD].placed)
            contribute(fake, i, false);
    }
    return fake->ops->step(fake->self, &step, &next);
}

cadre_status fake_sync(struct fake_host *fake, uint32_t what)
{
    return fake->ops->sync(fake->self, what);
}
