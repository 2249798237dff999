/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre mig plan`: the places that WANTED would get. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/mig/command.h"

cadre_status mig_choose_gpu(const struct mig_call *call, struct mig_gpu *out)
{
    uint32_t n = mig_gpu_count(&call->library), on = 0, last = 0;
    if (!call->library.handle)
        return mig_refuse(call, CADRE_E_UNSUPPORTED, "%s", call->library.reason);
    if (n == 0)
        return mig_refuse(call, CADRE_E_UNSUPPORTED, "the driver shows no GPU");
    if (call->gpu >= (int)n)
        return mig_refuse(call, CADRE_E_INVALID,
                          "there is no GPU %d: the driver shows %u, from 0", call->gpu,
                          n);
    if (call->gpu >= 0) {
        mig_gpu_look(&call->library, (uint32_t)call->gpu, out);
        return CADRE_OK;
    }
    for (uint32_t i = 0; i < n; i++) {
        mig_gpu_look(&call->library, i, out);
        on += out->on;
        last = out->on ? i : last;
    }
    if (on > 1 || (on == 0 && n > 1))
        return mig_refuse(call, CADRE_E_INVALID,
                          "there are %u GPUs%s: say which, --gpu N", on ? on : n,
                          on ? " with MIG on" : "");
    mig_gpu_look(&call->library, last, out);
    return CADRE_OK;
}

void mig_forget_taken(struct mig_gpu *gpu)
{
    gpu->n_taken = 0;
    for (uint32_t i = 0; i < gpu->n_profiles; i++)
        gpu->profile[i].remaining = gpu->profile[i].instances;
}

cadre_status mig_fit_wanted(const struct mig_call *call, const struct mig_gpu *gpu,
                            struct mig_wanted *wanted, struct mig_layout *out)
{
    struct mig_gpu *empty;
    struct mig_wanted nearest;
    char why[400], asked[200], near[200];
    if (!gpu->on)
        return mig_refuse(
            call, CADRE_E_UNSUPPORTED,
            "GPU %u (%s): %s, and only with MIG on does the driver say "
            "how it can be divided%s",
            gpu->index, gpu->name, gpu->mode,
            gpu->may_turn_on ? "; `cadre mig apply --admin --enable` turns it on" : "");
    if (gpu->reason[0])
        return mig_refuse(call, CADRE_E_UNSUPPORTED,
                          "GPU %u (%s): the driver does not say how it can be divided, "
                          "most do so to root alone (%s)",
                          gpu->index, gpu->name, gpu->reason);
    if (!mig_wanted_read(gpu, call->wanted, wanted, why, sizeof why))
        return mig_refuse(call, CADRE_E_INVALID, "%s", why);
    empty = calloc(1, sizeof *empty);
    if (!empty)
        return mig_refuse(call, CADRE_E_RESOURCE, "no memory");
    *empty = *gpu;
    if (call->replace)
        mig_forget_taken(empty);
    bool fits = mig_layout_fit(empty, wanted, out);
    if (!fits)
        mig_layout_explain(empty, wanted, &nearest, why, sizeof why);
    free(empty);
    if (fits)
        return CADRE_OK;
    return mig_refuse(call, CADRE_E_UNSUPPORTED,
                      "%s does not fit on GPU %u (%s): %s; the nearest that does: %s",
                      mig_wanted_text(gpu, wanted, asked, sizeof asked), gpu->index,
                      gpu->name, why,
                      mig_wanted_text(gpu, &nearest, near, sizeof near));
}

static cadre_status print_plan(const struct mig_call *call, const struct mig_gpu *gpu,
                               const struct mig_wanted *wanted,
                               const struct mig_layout *layout)
{
    char text[400], where[64];
    CADRE_TRY(mig_say(call, "GPU %u (%s): %s fits\n", gpu->index, gpu->name,
                      mig_wanted_text(gpu, wanted, text, sizeof text)));
    if (call->replace && gpu->n_taken)
        CADRE_TRY(mig_say(call, "  in place of the %u that are there\n", gpu->n_taken));
    for (uint32_t i = 0; i < layout->n; i++) {
        const struct mig_profile *p = &gpu->profile[layout->item[i].profile];
        CADRE_TRY(mig_say(call, "  %-14s %6.2f GiB  %3u SMs  %s\n", p->name,
                          (double)p->memory / 1073741824.0, p->sms,
                          mig_span_text(layout->item[i].at, where, sizeof where)));
    }
    return CADRE_OK;
}

static cadre_status print_json(const struct mig_call *call, const struct mig_gpu *gpu,
                               const struct mig_layout *layout)
{
    char name[256];
    CADRE_TRY(mig_say(call, "{\"gpu\": %u, \"name\": \"%s\", \"instances\": [",
                      gpu->index, mig_json_text(gpu->name, name, sizeof name)));
    for (uint32_t i = 0; i < layout->n; i++) {
        const struct mig_profile *p = &gpu->profile[layout->item[i].profile];
        CADRE_TRY(mig_say(call,
                          "%s\n  {\"profile\": \"%s\", \"start\": %u, \"size\": %u, "
                          "\"memory\": %llu, \"sms\": %u}",
                          i ? "," : "", mig_json_text(p->name, name, sizeof name),
                          layout->item[i].at.start, layout->item[i].at.size,
                          (unsigned long long)p->memory, p->sms));
    }
    return mig_say(call, "]}\n");
}

cadre_status mig_command_plan(const struct mig_call *call)
{
    struct mig_gpu *gpu = calloc(1, sizeof *gpu);
    struct mig_wanted wanted = {0};
    struct mig_layout layout = {0};
    if (!gpu)
        return mig_refuse(call, CADRE_E_RESOURCE, "no memory");
    cadre_status rc;
    CADRE_TRY_OR(mig_choose_gpu(call, gpu), out);
    CADRE_TRY_OR(mig_fit_wanted(call, gpu, &wanted, &layout), out);
    rc = call->json ? print_json(call, gpu, &layout)
                    : print_plan(call, gpu, &wanted, &layout);
out:
    free(gpu);
    return rc;
}
