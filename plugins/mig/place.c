/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks run: the instance or core set of their coordinate along the axis. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugins/mig/choose.h"
#include "plugins/mig/coresets.h"
#include "plugins/mig/mig.h"

#define SYS_CPU "/sys/devices/system/cpu"

__attribute__((format(printf, 2, 3))) static void say(struct cadre_self *self,
                                                      const char *format, ...)
{
    char text[384];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    self->host->log(self->ctx, 3, text);
}

/* Instances are of one machine: of those along the axis, this many are on it. */
static uint32_t count_here(const struct cadre_self *self,
                           const struct cadre_place *place)
{
    if (place->local_ranks == 0 || place->local_ranks >= place->ranks)
        return self->size;
    const uint64_t here = (uint64_t)self->size * place->local_ranks / place->ranks;
    return here ? (uint32_t)here : 1;
}

static cadre_status place_on_cores(struct cadre_self *self,
                                   const struct cadre_place *place, uint32_t sets)
{
    char text[256];
    uint32_t *set = calloc(place->n_cpus + 1u, sizeof *set);
    uint64_t *core = calloc(place->n_cpus + 1u, sizeof *core);
    uint32_t n = 0;
    cadre_status rc = CADRE_OK;
    if (!set || !core) {
        rc = cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u CPUs",
                          place->n_cpus);
        goto out;
    }
    mig_coresets_read(SYS_CPU, place->cpu, place->n_cpus, core);
    n = mig_coresets_partition(place->cpu, core, place->n_cpus, sets,
                               self->index % sets, set);
    if (n == 0) {
        rc = cadre_refuse(self->host, CADRE_E_INVALID,
                          "strategy.stack asks for %u core sets, but there are %u CPUs "
                          "to divide; use mig:%u, or mig.pin = no to share all CPUs",
                          sets, place->n_cpus, place->n_cpus);
        goto out;
    }
    mig_coresets_print(set, n, text, sizeof text);
    say(self, "rank %u on core set %u of %u: CPU%s %s", place->rank, self->index % sets,
        sets, n > 1 ? "s" : "", text);
    if (place->threads > n && self->index == 0)
        self->host->log(self->ctx, 1,
                        "ranks have more threads (device.threads) than their core sets "
                        "have CPUs; they will wait for each other");
    rc = place->cpus(place->h, set, n);
out:
    free(set);
    free(core);
    return rc;
}

/* NVML finds the instances: it ignores CUDA_VISIBLE_DEVICES and does not initialize
 * CUDA. */
static cadre_status choose(struct cadre_self *self, const struct cadre_place *place,
                           uint32_t here, char uuid[NVML_TEXT_BYTES])
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const struct mig_wants wants = {
        .profile = self->profile,
        .instances = self->instances,
        .visible = visible ? visible : "",
        .given = place->external != 0,
        .share = self->share != 0,
        .n = here,
    };
    char why[1024];
    struct mig_library library;
    struct mig_list *list = calloc(1, sizeof *list);
    if (!list)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for a list");
    mig_library_open(&library);
    mig_instances(&library, list);
    mig_library_close(&library);
    const bool chosen =
        mig_choose(list, &wants, self->index % here, uuid, why, sizeof why);
    free(list);
    return chosen ? CADRE_OK : self->host->fail(self->ctx, CADRE_E_INVALID, why);
}

static cadre_status place_on_gpu(struct cadre_self *self,
                                 const struct cadre_place *place, uint32_t here)
{
    char uuid[NVML_TEXT_BYTES] = "";
    const uint32_t together = place->ranks / self->size;
    if (together > 1 && !self->share)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "strategy.stack puts %u ranks on each of %u MIG instances: "
                            "set mig.share = yes if they fit, or take mig:%u alone",
                            together, self->size, place->ranks);
    CADRE_TRY(choose(self, place, here, uuid));
    say(self, "rank %u on MIG instance %s", place->rank, uuid);
    return place->env(place->h, "CUDA_VISIBLE_DEVICES", uuid);
}

cadre_status mig_place(struct cadre_self *self, const struct cadre_place *place)
{
    if (!CADRE_HAS(place, n_cpus))
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "the host does not say which CPUs there are");
    if (self->averages && self->size > 1 && place->nccl)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "NCCL cannot communicate between MIG instances: "
                            "set comm.backend = local, which sums gradients through "
                            "host memory");
    if (!self->pin)
        return CADRE_OK;
    if (place->gpu)
        return place_on_gpu(self, place, count_here(self, place));
    return place_on_cores(self, place, count_here(self, place));
}
