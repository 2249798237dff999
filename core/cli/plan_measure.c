/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_measure.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/path.h"
#include "core/config/config.h"
#include "core/train/probe.h"

static const double SECONDS = 20;
static const double GIB = 1073741824.0;

/* Of the memory that the machine has, where the device does not say. */
static double memory_of(const struct cadre_probe *p)
{
    if (p->memory_bytes > 0)
        return p->memory_bytes;
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static void put_peaks(struct cadre_text *out, const struct cadre_probe *p)
{
    static const char *const names[CADRE_PROBE_DTYPES] = {"fp32", "fp16", "bf16",
                                                          "fp64"};
    for (int i = 0; i < CADRE_PROBE_DTYPES; i++)
        if (p->flops_s[i] > 0)
            cadre_text_printf(out, "peak_%s_tflops = %.6g\n", names[i],
                              p->flops_s[i] / 1e12);
}

/* What was measured is the peak, so that the parts of it are 1. */
static void describe(struct cadre_text *out, const struct cadre_probe *p)
{
    char host[64] = "here", date[CADRE_JSON_DATE];
    gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = '\0';
    cadre_text_printf(
        out,
        "# Measured by `cadre plan --measure` on %s, %s: one rank on a %s of %d "
        "thread%s.\n# Medians of products of 64 and 768 rows, a copy of 64 MiB, a "
        "norm, attention, AdamW,\n# and of transfers between two ranks of the local "
        "transport. Parts that overlap are assumptions.\n"
        "[hardware]\nname = %s\naccounting = cadre\n\n[device]\n",
        host, cadre_json_date(date), p->device, p->threads, p->threads > 1 ? "s" : "",
        host);
    /* rows of a small model stay in caches, which a copy of 64 MiB does not */
    const double fastest = fmax(p->copy_bytes_s, p->rows_bytes_s);
    put_peaks(out, p);
    cadre_text_printf(
        out,
        "memory_gib = %.6g\nreserve_gib = %.3g\nmemory_gb_s = %.4g\n"
        "memory_efficiency = %.4g\nproduct_efficiency = 1\nproduct_half_gflop = %.4g\n"
        "attention = fused\nattention_efficiency = %.4g\nupdate_gb_s = %.4g\n"
        "op_us = %.4g\n",
        memory_of(p) / GIB, fmin(1, memory_of(p) / GIB / 8), fastest / 1e9,
        p->rows_bytes_s / fastest, p->half_flops / 1e9,
        fmin(1, p->attention_flops_s / p->flops_s[CADRE_PROBE_F32]),
        p->update_bytes_s / 1e9, p->op_s * 1e6);
}

static void describe_links(struct cadre_text *out, const struct cadre_probe *p)
{
    static const char *const levels[] = {"node", "cluster"};
    cadre_text_printf(out, "\n[node]\ndevices = 256\n");
    for (int i = 0; i < 2; i++)
        cadre_text_printf(out,
                          "\n[link:%s]\nbandwidth_gb_s = %.4g\nlatency_us = %.4g\n"
                          "efficiency = 1\n",
                          levels[i], p->link_bytes_s / 1e9, p->link_latency_s * 1e6);
    cadre_text_printf(out, "\n[software]\noverlap_gather = 0\n");
}

static cadre_status find_device(const struct cadre_cli_args *args, char kind[16],
                                int *threads, struct cadre_error *err)
{
    struct cadre_options *options;
    struct cadre_config config;
    CADRE_TRY(cadre_options_create(&options, err));
    cadre_status rc = CADRE_OK;
    for (int i = 0; i < args->set.n && rc == CADRE_OK; i++)
        rc = strncmp(args->set.item[i], "device.", 7) == 0
                 ? cadre_options_set(options, args->set.item[i], "command line", err)
                 : cadre_fail(err, CADRE_E_INVALID,
                              "--set %s: --measure takes device.kind and "
                              "device.threads alone",
                              args->set.item[i]);
    if (rc == CADRE_OK)
        rc = cadre_options_resolve(options, err);
    if (rc == CADRE_OK) {
        cadre_config_fill(&config, options);
        snprintf(kind, 16, "%s", config.device.kind);
        *threads = config.device.threads > 0 ? (int)config.device.threads : 1;
    }
    cadre_options_destroy(options);
    return rc;
}

cadre_status cadre_plan_measure(const struct cadre_cli_args *args,
                                struct cadre_error *err)
{
    struct cadre_probe probe;
    struct cadre_text out = {0};
    char kind[16];
    int threads;
    if (args->words.n > 0 || args->plan.ranks || args->plan.replay ||
        args->plan.hardware)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--measure writes a hardware file and takes --set alone: no "
                          "CONF, --ranks, --hardware or --replay");
    CADRE_TRY(find_device(args, kind, &threads, err));
    CADRE_TRY(cadre_probe(&probe, kind, threads, SECONDS, err));
    if (probe.link_bytes_s <= 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "--measure: links between GPUs are not measured yet; write "
                          "them by hand beside conf/hardware/h100.ini, or measure the "
                          "CPU: --set device.kind=cpu");
    describe(&out, &probe);
    describe_links(&out, &probe);
    cadre_status rc =
        out.failed ? cadre_no_memory(err, "the hardware file")
                   : cadre_path_write_file(args->plan.measure, out.data, out.len, err);
    if (rc == CADRE_OK)
        printf("%s: %.4g fp32 GFLOP/s, %.4g GB/s of memory, %.4g GB/s between ranks\n",
               args->plan.measure, probe.flops_s[CADRE_PROBE_F32] / 1e9,
               probe.copy_bytes_s / 1e9, probe.link_bytes_s / 1e9);
    cadre_text_fini(&out);
    return rc;
}
