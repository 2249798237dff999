/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/efficiency.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/device/module.h"
#include "core/model/flops.h"

static cadre_status count_flops(const struct cadre_spec *spec,
                                const struct cadre_rank *rank,
                                struct cadre_efficiency *out, struct cadre_error *err)
{
    const uint32_t n = rank->model->n_params;
    bool *frozen = cadre_calloc(n, sizeof *frozen);
    if (!frozen)
        return cadre_no_memory(err, "%u flags", n);
    for (uint32_t i = 0; i < n; i++)
        frozen[i] = rank->plan.param[i].frozen;
    const struct cadre_flops flops =
        cadre_model_flops(rank->model, spec->run.time, frozen, spec->run.recompute);
    out->flops = flops.model;
    out->hardware_flops = flops.hardware;
    free(frozen);
    return CADRE_OK;
}

static void peak_of_gpus(const struct cadre_spec *spec,
                         const struct cadre_energy *energy,
                         struct cadre_efficiency *out)
{
    struct cadre_device_identity gpu;
    struct cadre_peak peak;
    cadre_device_identify_cuda(spec->run.device.index, &gpu);
    cadre_peak_gpu(gpu.name, spec->run.model.dtype, &peak);
    out->peak_flops = energy->gpus * peak.flops;
    if (isfinite(peak.flops))
        snprintf(out->source, sizeof out->source, "%d x %s", energy->gpus, peak.source);
    else
        snprintf(out->source, sizeof out->source, "%s", peak.source);
}

/* Ranks that share cores have these once. */
static void peak_of_cores(const struct cadre_spec *spec, const struct cadre_site *site,
                          struct cadre_efficiency *out)
{
    struct cadre_peak peak;
    const double threads = (double)spec->run.ranks * spec->run.device.threads,
                 there = (double)site->cores * cadre_peak_core_share(""),
                 cores = fmin(threads, there);
    cadre_peak_core(spec->run.model.dtype, "", &peak);
    if (site->kinds > 1) {
        snprintf(out->source, sizeof out->source,
                 "the ranks ran on %d kinds of processors; set report.peak_flops",
                 site->kinds);
        return;
    }
    out->peak_flops = cores * peak.flops;
    if (isfinite(peak.flops))
        snprintf(out->source, sizeof out->source, "computed: %g core%s x %s", cores,
                 cores == 1 ? "" : "s", peak.source);
    else
        snprintf(out->source, sizeof out->source, "%s", peak.source);
}

cadre_status
cadre_efficiency_find(const struct cadre_spec *spec, const struct cadre_rank *rank,
                      const struct cadre_site *site, const struct cadre_energy *energy,
                      struct cadre_efficiency *out, struct cadre_error *err)
{
    const struct cadre_config_report *config = &spec->config.report;
    *out = (struct cadre_efficiency){.peak_flops = NAN,
                                     .price_per_hour = config->price_per_hour,
                                     .hosts = site->n_hosts};
    CADRE_TRY(count_flops(spec, rank, out, err));
    if (config->peak_flops > 0) {
        out->peak_flops = spec->run.ranks * config->peak_flops;
        snprintf(out->source, sizeof out->source, "stated: %d ranks x %g FLOP/s",
                 spec->run.ranks, config->peak_flops);
    } else if (spec->gpu) {
        peak_of_gpus(spec, energy, out);
    } else {
        peak_of_cores(spec, site, out);
    }
    return CADRE_OK;
}

static void put_price(const struct cadre_efficiency *efficiency, double tokens_per_s,
                      double time_s, struct cadre_json *json)
{
    const double hourly = efficiency->price_per_hour * efficiency->hosts;
    if (hourly <= 0)
        return;
    cadre_json_key(json, "price");
    cadre_json_begin_object(json);
    cadre_json_put_f64(json, "per_hour", efficiency->price_per_hour);
    cadre_json_put_i64(json, "hosts", efficiency->hosts);
    cadre_json_put_f64(json, "run", hourly * time_s / 3600);
    cadre_json_put_f64(json, "per_million_tokens",
                       tokens_per_s > 0 ? 1e6 * hourly / 3600 / tokens_per_s
                                        : (double)NAN);
    cadre_json_end_object(json);
}

void cadre_efficiency_write(const struct cadre_efficiency *efficiency,
                            double tokens_per_s, double time_s, struct cadre_json *json)
{
    const double share = tokens_per_s / efficiency->peak_flops;
    const bool known = isfinite(efficiency->peak_flops);
    const char *source = efficiency->source;
    cadre_json_put_f64(json, "flops_per_token", efficiency->flops);
    cadre_json_put_f64(json, "hardware_flops_per_token", efficiency->hardware_flops);
    cadre_json_put_f64(json, "peak_flops", efficiency->peak_flops);
    cadre_json_put_string(json, "peak_source", known ? source : NULL);
    cadre_json_put_f64(json, "mfu", efficiency->flops * share);
    cadre_json_put_f64(json, "hfu", efficiency->hardware_flops * share);
    cadre_json_put_string(json, "mfu_why", known ? NULL : source);
    put_price(efficiency, tokens_per_s, time_s, json);
}
