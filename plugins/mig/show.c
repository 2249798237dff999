/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre mig list` and the part of `cadre doctor` about MIG. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/mig/command.h"
#include "plugins/mig/instances.h"

#define GIB 1073741824.0

/* "begins at 0, 2, 4; free 4" */
static void places_text(const struct mig_gpu *gpu, const struct mig_profile *p,
                        char *out, size_t bytes)
{
    uint64_t taken = mig_gpu_taken(gpu);
    size_t n = (size_t)snprintf(out, bytes, "begins at");
    for (uint32_t i = 0; i < p->n_places && n < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, " %u", p->place[i].start);
    if (n < bytes)
        n += (size_t)snprintf(out + n, bytes - n, ", free");
    size_t before = n;
    for (uint32_t i = 0; i < p->n_places && n < bytes; i++)
        if (!(taken & mig_span_bits(p->place[i])))
            n += (size_t)snprintf(out + n, bytes - n, " %u", p->place[i].start);
    if (n == before && n < bytes)
        snprintf(out + n, bytes - n, " none");
}

static cadre_status show_instances(const struct mig_call *call,
                                   const struct mig_gpu *gpu,
                                   const struct mig_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const struct mig_instance *item = &list->item[i];
        char where[64] = "";
        if (item->gpu != gpu->index)
            continue;
        for (uint32_t t = 0; t < gpu->n_taken; t++)
            if (gpu->taken[t].id == item->gi)
                mig_span_text(gpu->taken[t].at, where, sizeof where);
        CADRE_TRY(mig_say(call, "  instance %u:%u  %-11s %6.2f GiB  %3u SMs  %s%s%s\n",
                          item->gpu, item->index, item->profile,
                          (double)item->memory / GIB, item->sms, item->uuid,
                          *where ? "  " : "", where));
    }
    return CADRE_OK;
}

static cadre_status show_gpu(const struct mig_call *call, const struct mig_gpu *gpu,
                             const struct mig_list *list)
{
    char places[256];
    CADRE_TRY(mig_say(call, "GPU %u  %s  %.2f GiB  %s  %s\n", gpu->index, gpu->name,
                      (double)gpu->memory / GIB, gpu->uuid,
                      gpu->on ? "MIG is on" : gpu->mode));
    CADRE_TRY(show_instances(call, gpu, list));
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        const struct mig_profile *p = &gpu->profile[i];
        places_text(gpu, p, places, sizeof places);
        if (gpu->reason[0])
            snprintf(places, sizeof places, "at most %u", p->instances);
        CADRE_TRY(mig_say(call, "  profile %-14s %6.2f GiB  %3u SMs  ", p->name,
                          (double)p->memory / GIB, p->sms));
        if (!gpu->reason[0])
            CADRE_TRY(
                mig_say(call, "%u more of at most %u  ", p->remaining, p->instances));
        CADRE_TRY(mig_say(call, "%s\n", places));
    }
    if (gpu->on && gpu->reason[0])
        return mig_say(call, "  places are not known: %s\n", gpu->reason);
    return CADRE_OK;
}

static cadre_status json_profiles(const struct mig_call *call,
                                  const struct mig_gpu *gpu)
{
    char name[160];
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        const struct mig_profile *p = &gpu->profile[i];
        CADRE_TRY(mig_say(call,
                          "%s\n        {\"name\": \"%s\", \"slices\": %u, \"sms\": %u, "
                          "\"memory\": %llu, \"at_most\": %u, \"remaining\": %u, "
                          "\"places\": [",
                          i ? "," : "", mig_json_text(p->name, name, sizeof name),
                          p->slices, p->sms, (unsigned long long)p->memory,
                          p->instances, p->remaining));
        for (uint32_t k = 0; k < p->n_places; k++)
            CADRE_TRY(mig_say(call, "%s[%u, %u]", k ? ", " : "", p->place[k].start,
                              p->place[k].size));
        CADRE_TRY(mig_say(call, "]}"));
    }
    return CADRE_OK;
}

static cadre_status json_instances(const struct mig_call *call, uint32_t gpu,
                                   const struct mig_list *list)
{
    char name[160], uuid[256];
    const char *comma = "";
    for (uint32_t i = 0; i < list->n; i++) {
        const struct mig_instance *item = &list->item[i];
        if (item->gpu != gpu)
            continue;
        CADRE_TRY(mig_say(call,
                          "%s\n        {\"index\": %u, \"profile\": \"%s\", \"uuid\": "
                          "\"%s\", \"memory\": %llu, \"sms\": %u, \"slices\": %u, "
                          "\"gpu_instance\": %u, \"compute_instance\": %u}",
                          comma, item->index,
                          mig_json_text(item->profile, name, sizeof name),
                          mig_json_text(item->uuid, uuid, sizeof uuid),
                          (unsigned long long)item->memory, item->sms, item->slices,
                          item->gi, item->ci));
        comma = ",";
    }
    return CADRE_OK;
}

static cadre_status json_gpu(const struct mig_call *call, const struct mig_gpu *gpu,
                             const struct mig_list *list)
{
    char name[256], uuid[256], mode[256], reason[600];
    const char *comma = "";
    CADRE_TRY(mig_say(
        call,
        "%s\n    {\"index\": %u, \"name\": \"%s\", \"uuid\": \"%s\", \"memory\": %llu, "
        "\"mig\": \"%s\",\n      \"instances\": [",
        gpu->index ? "," : "", gpu->index, mig_json_text(gpu->name, name, sizeof name),
        mig_json_text(gpu->uuid, uuid, sizeof uuid), (unsigned long long)gpu->memory,
        mig_json_text(gpu->on ? "on" : gpu->mode, mode, sizeof mode)));
    CADRE_TRY(json_instances(call, gpu->index, list));
    CADRE_TRY(mig_say(call, "],\n      \"taken\": ["));
    for (uint32_t i = 0; i < gpu->n_taken; i++, comma = ", ")
        CADRE_TRY(mig_say(call, "%s[%u, %u]", comma, gpu->taken[i].at.start,
                          gpu->taken[i].at.size));
    CADRE_TRY(mig_say(call,
                      "],\n      \"places_unknown\": \"%s\",\n      \"profiles\": [",
                      mig_json_text(gpu->reason, reason, sizeof reason)));
    CADRE_TRY(json_profiles(call, gpu));
    return mig_say(call, "]}");
}

static cadre_status show_all(const struct mig_call *call, const struct mig_list *list,
                             struct mig_gpu *gpu)
{
    uint32_t n = mig_gpu_count(&call->library);
    char reason[1100], driver[256];
    if (call->json)
        CADRE_TRY(mig_say(call,
                          "{\"driver\": \"%s\", \"no_instances\": \"%s\", \"gpus\": [",
                          mig_json_text(call->library.driver, driver, sizeof driver),
                          mig_json_text(list->reason, reason, sizeof reason)));
    for (uint32_t i = 0; i < n; i++) {
        mig_gpu_look(&call->library, i, gpu);
        CADRE_TRY(call->json ? json_gpu(call, gpu, list) : show_gpu(call, gpu, list));
    }
    if (call->json)
        return mig_say(call, "%s]}\n", n ? "\n  " : "");
    if (list->reason[0])
        return mig_say(call, "no MIG instances: %s\n", list->reason);
    return CADRE_OK;
}

cadre_status mig_command_list(const struct mig_call *call)
{
    struct mig_list *list = calloc(1, sizeof *list);
    struct mig_gpu *gpu = calloc(1, sizeof *gpu);
    cadre_status rc;
    if (list && gpu) {
        mig_instances(&call->library, list);
        rc = show_all(call, list, gpu);
    } else {
        rc = mig_refuse(call, CADRE_E_RESOURCE, "no memory");
    }
    free(list);
    free(gpu);
    return rc;
}

cadre_status mig_command_doctor(const struct mig_call *call)
{
    struct mig_list *list = calloc(1, sizeof *list);
    cadre_status rc = CADRE_OK;
    if (!list)
        return mig_refuse(call, CADRE_E_RESOURCE, "no memory");
    mig_instances(&call->library, list);
    if (list->reason[0])
        CADRE_TRY_OR(mig_say(call, "no: %s\n", list->reason), out);
    for (uint32_t i = 0; i < list->n; i++)
        CADRE_TRY_OR(mig_say(call, "%u:%u %s, %.2f GiB, %s\n", list->item[i].gpu,
                             list->item[i].index, list->item[i].profile,
                             (double)list->item[i].memory / GIB, list->item[i].uuid),
                     out);
out:
    free(list);
    return rc;
}
