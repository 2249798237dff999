/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks run: the instance or core set of their coordinate along the axis. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/mig/choose.h"
#include "plugins/mig/coresets.h"
#include "plugins/mig/mig.h"
#include "plugins/mig/mps.h"

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

/* Sizes of the parts on this machine; NULL: all alike. */
static const uint32_t *sizes_here(const struct cadre_self *self, uint32_t here)
{
    return self->sizes.n ? self->sizes.of + self->index / here * here : NULL;
}

static cadre_status refuse_sets(const struct cadre_self *self, uint32_t sets,
                                uint32_t n_cpus)
{
    const uint32_t first = self->index / sets * sets;
    if (self->sizes.n)
        return cadre_refuse(
            self->host, CADRE_E_INVALID,
            "mig.sizes divides the CPUs into %llu parts of one size, "
            "but there are %u CPUs; use smaller sizes, or mig.pin = no "
            "to share all CPUs",
            (unsigned long long)mig_sizes_sum(&self->sizes, first, sets), n_cpus);
    return cadre_refuse(self->host, CADRE_E_INVALID,
                        "strategy.stack asks for %u core sets, but there are %u CPUs "
                        "to divide; use mig:%u, or mig.pin = no to share all CPUs",
                        sets, n_cpus, n_cpus);
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
                               sizes_here(self, sets), self->index % sets, set);
    if (n == 0) {
        rc = refuse_sets(self, sets, place->n_cpus);
        goto out;
    }
    mig_coresets_print(set, n, text, sizeof text);
    say(self, "rank %u on core set %u of %u: CPU%s %s", place->rank, self->index % sets,
        sets, n > 1 ? "s" : "", text);
    if (place->threads > n && self->index == 0 && !self->sizes.n)
        self->host->log(self->ctx, 1,
                        "ranks have more threads (device.threads) than their core sets "
                        "have CPUs; they will wait for each other");
    rc = place->cpus(place->h, set, n);
out:
    free(set);
    free(core);
    return rc;
}

static uint32_t slices_of(const struct mig_list *list, const struct mig_wants *wants,
                          uint32_t index)
{
    char uuid[NVML_TEXT_BYTES] = "", why[1024];
    if (mig_choose(list, wants, index, uuid, why, sizeof why))
        for (uint32_t i = 0; i < list->n; i++)
            if (strcmp(list->item[i].uuid, uuid) == 0)
                return list->item[i].slices;
    return 0;
}

/* Equal parts of the batch on instances of several sizes: the smallest is the last. */
static void warn_of_sizes(struct cadre_self *self, const struct mig_list *list,
                          const struct mig_wants *wants)
{
    char text[512] = "the MIG instances of this run differ in size, and have as many "
                     "micro-batches each: set mig.sizes =";
    size_t used = strlen(text);
    bool differ = false;
    for (uint32_t k = 0; k < wants->n && used < sizeof text; k++) {
        const uint32_t slices = slices_of(list, wants, k);
        differ = differ || slices != slices_of(list, wants, 0);
        if (slices == 0)
            return; /* the driver does not say */
        used += (size_t)snprintf(text + used, sizeof text - used, " %u", slices);
    }
    if (differ)
        self->host->log(self->ctx, 1, text);
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
        .slices = sizes_here(self, here),
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
    if (chosen && self->averages && self->index == 0 && !self->sizes.n)
        warn_of_sizes(self, list, &wants);
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

/* MPS and time-slicing are told apart, since a comparison is of one of them. */
static cadre_status choose_mps(struct cadre_self *self, const struct cadre_place *place)
{
    char why[256];
    if (self->mps == MIG_MPS_ANY || (self->mps == MIG_MPS_NO && !place->gpu))
        return CADRE_OK;
    if (!place->gpu)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "mig.mps = yes needs a GPU, found a CPU (device.kind); set "
                            "mig.mps = any");
    if (mig_mps_runs(why, sizeof why))
        return self->mps == MIG_MPS_YES
                   ? CADRE_OK
                   : place->env(place->h, "CUDA_MPS_PIPE_DIRECTORY", MIG_MPS_NOWHERE);
    if (self->mps == MIG_MPS_NO)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                        "mig.mps = yes needs CUDA MPS, and %s; start it with "
                        "`nvidia-cuda-mps-control -d`, or leave such runs out "
                        "(compare.runs)",
                        why);
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
    if (self->sizes.n && self->size % count_here(self, place) != 0)
        return cadre_refuse(
            self->host, CADRE_E_UNSUPPORTED,
            "mig.sizes on several machines needs as many parts on each, "
            "found %u parts and %u of them here",
            self->size, count_here(self, place));
    CADRE_TRY(choose_mps(self, place));
    if (!self->pin)
        return CADRE_OK;
    if (place->gpu)
        return place_on_gpu(self, place, count_here(self, place));
    return place_on_cores(self, place, count_here(self, place));
}
