/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/energy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/memory.h"

/* Containers of one machine have host names of their own and the same counters. */
static uint64_t kernel_key(const char *host)
{
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(id, sizeof id, file))
        id[0] = '\0';
    if (file)
        fclose(file);
    const char *key = *id ? id : host;
    return cadre_hash_of(key, strlen(key), 0);
}

static void take_meter(const struct cadre_meter *meter, struct cadre_energy_rank *out)
{
    if (gethostname(out->host, sizeof out->host) != 0)
        snprintf(out->host, sizeof out->host, "unknown");
    out->host[sizeof out->host - 1] = '\0';
    out->kernel = kernel_key(out->host);
    out->uses_gpu = meter->has_gpu;
    snprintf(out->gpu, sizeof out->gpu, "%s", meter->pci);
    out->mig = meter->gpu.mig;
    out->packages = meter->packages.n;
    out->steps = meter->steps;
    memcpy(out->seconds, meter->seconds, sizeof out->seconds);
    memcpy(out->package_j, meter->package_j, sizeof out->package_j);
    memcpy(out->gpu_j, meter->gpu_j, sizeof out->gpu_j);
    snprintf(out->why, sizeof out->why, "%s", meter->packages.why);
    snprintf(out->gpu_why, sizeof out->gpu_why, "%s", meter->gpu.why);
}

/* ---- all ranks ---- */

/* Is no earlier rank on the same machine, with `gpu` on the same GPU? */
static bool is_first(const struct cadre_energy_rank *seen, int r, bool gpu)
{
    for (int k = 0; k < r; k++)
        if (seen[k].kernel == seen[r].kernel &&
            (!gpu || strcmp(seen[k].gpu, seen[r].gpu) == 0))
            return false;
    return true;
}

/* The first reason, with the host's name where there are several. */
static void explain(char *to, size_t size, const struct cadre_energy_rank *rank,
                    const char *why, int hosts)
{
    if (*to)
        return;
    if (hosts > 1)
        snprintf(to, size, "%s: %s", rank->host, why);
    else
        snprintf(to, size, "%s", why);
}

static void add_packages(const struct cadre_energy_rank *rank, struct cadre_energy *out)
{
    const double steps = rank->package_j[CADRE_METER_STEPS],
                 total = steps + rank->package_j[CADRE_METER_OTHER];
    out->packages += rank->packages;
    out->package_j += steps > 0 ? steps : (double)NAN;
    out->package_total_j += total > 0 ? total : (double)NAN;
    if (!(steps > 0) || !(total > 0))
        explain(out->why, sizeof out->why, rank,
                *rank->why ? rank->why : "the counters of the packages stand still",
                out->hosts);
}

static void add_gpu(const struct cadre_energy_rank *rank, struct cadre_energy *out)
{
    const double steps = rank->gpu_j[CADRE_METER_STEPS],
                 total = steps + rank->gpu_j[CADRE_METER_OTHER];
    out->gpus++;
    out->mig = out->mig || rank->mig;
    out->gpu_j += steps > 0 ? steps : (double)NAN;
    out->gpu_total_j += total > 0 ? total : (double)NAN;
    if (!(steps > 0) || !(total > 0))
        explain(out->gpu_why, sizeof out->gpu_why, rank,
                *rank->gpu_why ? rank->gpu_why
                               : "the GPU's energy counter stands still",
                out->hosts);
}

void cadre_energy_of(const struct cadre_energy_rank *seen, int ranks,
                     struct cadre_energy *out)
{
    out->hosts = out->packages = out->gpus = 0;
    out->uses_gpu = out->mig = false;
    out->steps = seen[0].steps;
    out->steps_s = seen[0].seconds[CADRE_METER_STEPS];
    out->total_s = out->steps_s + seen[0].seconds[CADRE_METER_OTHER];
    out->package_j = out->package_total_j = out->gpu_j = out->gpu_total_j = 0;
    out->why[0] = out->gpu_why[0] = '\0';
    for (int r = 0; r < ranks; r++)
        out->hosts += is_first(seen, r, false);
    for (int r = 0; r < ranks; r++) {
        out->uses_gpu = out->uses_gpu || seen[r].uses_gpu;
        if (is_first(seen, r, false))
            add_packages(&seen[r], out);
        if (seen[r].uses_gpu && is_first(seen, r, true))
            add_gpu(&seen[r], out);
    }
    if (!out->uses_gpu) {
        out->gpu_j = out->gpu_total_j = NAN;
        snprintf(out->gpu_why, sizeof out->gpu_why, "the run uses no GPU");
    }
}

cadre_status cadre_energy_gather(struct cadre_rank *rank, struct cadre_meter *meter,
                                 struct cadre_energy *out, struct cadre_error *err)
{
    const size_t ranks = (size_t)rank->mesh.ranks;
    struct cadre_energy_rank *all = cadre_calloc(ranks, sizeof *all);
    cadre_status rc = all ? CADRE_OK : CADRE_E_RESOURCE;
    if (rc == CADRE_OK) {
        cadre_meter_read(meter, cadre_now_s());
        take_meter(meter, &all[rank->index]);
        if (rank->world && rank->world->size > 1)
            rc = cadre_comm_gather_records(rank->world, "energy", &all[rank->index],
                                           all, sizeof *all);
    }
    if (rc == CADRE_OK)
        cadre_energy_of(all, (int)ranks, out);
    free(all);
    return rc == CADRE_OK ? rc
                          : cadre_fail(err, rc, "cannot ask all ranks for energy: %s",
                                       cadre_strerror(rc));
}

/* ---- the object ---- */

static bool knows_packages(const struct cadre_energy *energy)
{
    return isfinite(energy->package_j);
}

double cadre_energy_step_j(const struct cadre_energy *energy)
{
    double joules = energy->uses_gpu ? energy->gpu_j : energy->package_j;
    if (energy->uses_gpu && knows_packages(energy))
        joules += energy->package_j;
    return energy->shared || energy->steps <= 0 ? (double)NAN
                                                : joules / (double)energy->steps;
}

static void put_text(struct cadre_json *json, const char *key, const char *text)
{
    cadre_json_put_string(json, key, *text ? text : NULL);
}

static const char *plural(int n)
{
    return n > 1 ? "s" : "";
}

/* "2 packages of 1 host" and "4 GPUs", as far as their energy is known. */
static void name_parts(const struct cadre_energy *energy, char *packages, char *gpus,
                       size_t size)
{
    packages[0] = gpus[0] = '\0';
    if (knows_packages(energy))
        snprintf(packages, size, "%d package%s of %d host%s", energy->packages,
                 plural(energy->packages), energy->hosts, plural(energy->hosts));
    if (energy->uses_gpu && isfinite(energy->gpu_j))
        snprintf(gpus, size, "%d %sGPU%s", energy->gpus, energy->mig ? "whole " : "",
                 plural(energy->gpus));
}

/* Whose energy, and where from. */
static void put_scope(const struct cadre_energy *energy, struct cadre_json *json)
{
    char scope[224] = "", packages[64], gpus[64];
    name_parts(energy, packages, gpus, sizeof packages);
    const bool both = *packages && *gpus, any = *packages || *gpus;
    if (any)
        snprintf(scope, sizeof scope, "%s%s%s, with all that ran on them%s%s", packages,
                 both ? " and " : "", gpus,
                 *gpus && energy->mig ? "; the run used MIG instances" : "",
                 energy->shared ? "; other runs of the sweep shared them" : "");
    put_text(json, "source",
             both        ? "RAPL (powercap), NVML"
             : *packages ? "RAPL (powercap)"
             : any       ? "NVML"
                         : "");
    put_text(json, "scope", scope);
}

void cadre_energy_write(const struct cadre_energy *energy, struct cadre_json *json)
{
    const double step_j = cadre_energy_step_j(energy);
    const bool idle = energy->hosts == 1 && energy->idle_w > 0;
    cadre_json_begin_object(json);
    cadre_json_put_f64(json, "package_j", energy->package_j);
    cadre_json_put_f64(json, "package_total_j", energy->package_total_j);
    cadre_json_put_f64(json, "gpu_j", energy->gpu_j);
    cadre_json_put_f64(json, "gpu_total_j", energy->gpu_total_j);
    cadre_json_put_f64(json, "idle_w", idle ? energy->idle_w : (double)NAN);
    cadre_json_put_f64(json, "j_per_step", step_j);
    cadre_json_put_f64(json, "j_per_token", step_j / energy->step_tokens);
    cadre_json_put_i64(json, "measured_steps", energy->steps);
    cadre_json_put_f64(json, "steps_s", energy->steps_s);
    cadre_json_put_f64(json, "total_s", energy->total_s);
    put_scope(energy, json);
    put_text(json, "why",
             isfinite(step_j)    ? ""
             : energy->shared    ? "other runs of the sweep share the machine"
             : energy->uses_gpu  ? energy->gpu_why
             : energy->steps > 0 ? energy->why
                                 : "no step was measured");
    put_text(json, "package_why", energy->why);
    put_text(json, "gpu_why", energy->gpu_why);
    cadre_json_end_object(json);
}
