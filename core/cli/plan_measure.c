/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/plan_measure.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cores.h"
#include "core/base/json.h"
#include "core/base/median.h"
#include "core/base/path.h"
#include "core/config/config.h"
#include "core/plan/block_cost.h"
#include "core/train/block_probe.h"
#include "core/train/probe.h"

static const double SECONDS = 20;
enum { REPEATS = 4, ROUNDS = 5, SHAPES = 4, MOST_RANKS = 64 };
static const double GIB = 1073741824.0;

/* Of the memory that the machine has, where the device does not say. */
static double memory_of(const struct cadre_probe *p)
{
    if (p->memory_bytes > 0)
        return p->memory_bytes;
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

/* ---- blocks ---- */

/* None that tests/bench/plan_here.sh forecasts. */
static const struct cadre_block_shape shapes[SHAPES] = {
    {64, 2, 96, 2}, {160, 5, 64, 3}, {256, 8, 96, 2}, {448, 7, 128, 2}};

/* What the formulas take of a block's products and rows: parts of the measured rates.
 * Of products more than 1 where something slowed these while they were measured. */
struct parts {
    double products, rows;
    double alone; /* how much faster a rank is while the others idle */
};

/* The hardware as far as a block asks for it. */
static struct cadre_hardware one_rank(const struct cadre_probe *p, struct parts parts)
{
    struct cadre_hardware hw = {.node_devices = 1};
    hw.device.peak_tflops[CADRE_PLAN_FP32] = p->flops_s[CADRE_PROBE_F32] / 1e12;
    hw.device.product_efficiency = parts.products;
    hw.device.product_half_gflop = p->half_flops / 1e9;
    hw.device.memory_gb_s = fmax(p->copy_bytes_s, p->rows_bytes_s) / 1e9;
    hw.device.memory_efficiency = parts.rows;
    hw.device.op_us = p->op_s * 1e6;
    hw.device.attention_fused = true;
    hw.device.attention_efficiency =
        fmin(1, p->attention_flops_s / p->flops_s[CADRE_PROBE_F32]);
    return hw;
}

/* The formula's seconds of a block. */
static double forecast(const struct cadre_hardware *hw,
                       const struct cadre_block_shape *s)
{
    const struct cadre_transformer t = {.layers = 1,
                                        .channels = s->channels,
                                        .heads = s->heads,
                                        .kv_heads = s->heads,
                                        .hidden = 4 * s->channels,
                                        .vocab = 1,
                                        .context = s->time};
    const struct cadre_candidate c = {.tensor = 1,
                                      .pipeline = 1,
                                      .context = 1,
                                      .data = 1,
                                      .micro_batch = s->batch,
                                      .dtype = CADRE_PLAN_FP32};
    const struct cadre_block_cost cost = cadre_block_cost(&t, &c, hw);
    return cost.forward + cost.backward;
}

/* Forecast over measured: the mean of the shapes, and their variance around 1. */
static double compare(const struct cadre_probe *p, struct parts parts,
                      const double measured[SHAPES], double *variance)
{
    const struct cadre_hardware hw = one_rank(p, parts);
    double sum = 0;
    *variance = 0;
    for (int i = 0; i < SHAPES; i++) {
        const double ratio = forecast(&hw, &shapes[i]) / measured[i];
        sum += ratio / SHAPES;
        *variance += pow(ratio - 1, 2) / SHAPES;
    }
    return sum;
}

/* The two parts with which blocks take nearest to what they were measured to take: for
 * each of products the one of rows that makes the mean right, in [0.01, 1]. */
static void fit_parts(const struct cadre_probe *p, const double measured[SHAPES],
                      struct parts *best)
{
    double least = INFINITY, variance;
    for (int percent = 150; percent >= 30; percent--) {
        struct parts at = {percent / 100.0, 1, best->alone};
        double low = 0.01, high = 1;
        for (int i = 0; i < 40; i++) {
            at.rows = sqrt(low * high);
            *(compare(p, at, measured, &variance) > 1 ? &low : &high) = at.rows;
        }
        compare(p, at, measured, &variance);
        if (variance < least) {
            least = variance;
            *best = at;
        }
    }
}

/* Rates of `p` become those of a rank while all compute. */
static void share(struct cadre_probe *p, double alone)
{
    for (int i = 0; i < CADRE_PROBE_DTYPES; i++)
        p->flops_s[i] /= alone;
    p->copy_bytes_s /= alone;
    p->rows_bytes_s /= alone;
    p->attention_flops_s /= alone;
    p->update_bytes_s /= alone;
    p->op_s *= alone;
}

/* In turns: all ranks that the machine has cores for at a time, and one alone. */
static cadre_status measure_blocks(struct cadre_probe *p, const char *kind,
                                   struct parts *parts, struct cadre_error *err)
{
    const int ranks = (int)fmax(1, fmin(MOST_RANKS, cadre_cores() / p->threads));
    double all[SHAPES][ROUNDS], one[SHAPES][ROUNDS], measured[SHAPES];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < SHAPES; i++) {
            CADRE_TRY(cadre_block_probe(kind, p->threads, ranks, &shapes[i], REPEATS,
                                        &all[i][round], err));
            CADRE_TRY(cadre_block_probe(kind, p->threads, 1, &shapes[i], REPEATS,
                                        &one[i][round], err));
        }
    parts->alone = 0;
    for (int i = 0; i < SHAPES; i++) {
        measured[i] = cadre_median(all[i], ROUNDS);
        parts->alone += fmax(1, measured[i] / cadre_median(one[i], ROUNDS)) / SHAPES;
    }
    share(p, parts->alone);
    fit_parts(p, measured, parts);
    return CADRE_OK;
}

/* ---- the file ---- */

static void put_peaks(struct cadre_text *out, const struct cadre_probe *p,
                      struct parts parts)
{
    static const char *const names[CADRE_PROBE_DTYPES] = {"fp32", "fp16", "bf16",
                                                          "fp64"};
    for (int i = 0; i < CADRE_PROBE_DTYPES; i++)
        if (p->flops_s[i] > 0)
            cadre_text_printf(out, "peak_%s_tflops = %.6g\n", names[i],
                              p->flops_s[i] / 1e12 * fmax(1, parts.products));
}

static void describe(struct cadre_text *out, const struct cadre_probe *p,
                     struct parts parts)
{
    char host[64] = "here", date[CADRE_JSON_DATE];
    gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = '\0';
    cadre_text_printf(
        out,
        "# Measured by `cadre plan --measure` on %s, %s: one rank on a %s of %d "
        "thread%s.\n# Medians of products of 64 and 768 rows, a copy of 64 MiB, a "
        "norm, attention, AdamW,\n# and of transfers between two ranks of the local "
        "transport. product_efficiency and\n# memory_efficiency are fitted to blocks "
        "of 64 to 448 channels. Nothing is taken to overlap.\n"
        "[hardware]\nname = %s\naccounting = cadre\n\n[device]\n",
        host, cadre_json_date(date), p->device, p->threads, p->threads > 1 ? "s" : "",
        host);
    /* rows of a small model stay in caches, which a copy of 64 MiB does not */
    const double fastest = fmax(p->copy_bytes_s, p->rows_bytes_s);
    put_peaks(out, p, parts);
    cadre_text_printf(
        out,
        "memory_gib = %.6g\nreserve_gib = %.3g\nmemory_gb_s = %.4g\n"
        "memory_efficiency = %.4g\nproduct_efficiency = %.4g\nproduct_half_gflop = "
        "%.4g\n"
        "attention = fused\nattention_efficiency = %.4g\nupdate_gb_s = %.4g\n"
        "op_us = %.4g\nalone_speedup = %.4g\n",
        memory_of(p) / GIB, fmin(1, memory_of(p) / GIB / 8), fastest / 1e9, parts.rows,
        fmin(1, parts.products), p->half_flops / 1e9,
        fmin(1, p->attention_flops_s / p->flops_s[CADRE_PROBE_F32]),
        p->update_bytes_s / 1e9, p->op_s * 1e6, parts.alone);
}

static void describe_links(struct cadre_text *out, const struct cadre_probe *p)
{
    static const char *const levels[] = {"node", "cluster"};
    cadre_text_printf(out, "\n[node]\ndevices = 256\n");
    for (int i = 0; i < 2; i++)
        cadre_text_printf(out,
                          "\n[link:%s]\nbandwidth_gb_s = %.4g\nlatency_us = %.4g\n"
                          "efficiency = 1\n",
                          levels[i], p->link_bytes_s[i] / 1e9,
                          p->link_latency_s[i] * 1e6);
    cadre_text_printf(out, "\n[software]\npipeline_beside = yes\n");
}

static bool taken(const char *assignment)
{
    return strncmp(assignment, "device.", 7) == 0 ||
           strncmp(assignment, "comm.link=", 10) == 0;
}

static cadre_status find_device(const struct cadre_cli_args *args, char kind[16],
                                int *threads, struct cadre_link link[2],
                                struct cadre_error *err)
{
    struct cadre_options *options;
    struct cadre_config config;
    CADRE_TRY(cadre_options_create(&options, err));
    cadre_status rc = CADRE_OK;
    for (int i = 0; i < args->set.n && rc == CADRE_OK; i++)
        rc = taken(args->set.item[i])
                 ? cadre_options_set(options, args->set.item[i], "command line", err)
                 : cadre_fail(err, CADRE_E_INVALID,
                              "--set %s: --measure takes device.kind, device.threads "
                              "and comm.link alone",
                              args->set.item[i]);
    if (rc == CADRE_OK)
        rc = cadre_options_resolve(options, err);
    if (rc == CADRE_OK) {
        cadre_config_fill(&config, options);
        snprintf(kind, 16, "%s", config.device.kind);
        *threads = config.device.threads > 0 ? (int)config.device.threads : 1;
        rc = cadre_link_parse(config.comm.link, &link[0], &link[1], err);
    }
    cadre_options_destroy(options);
    return rc;
}

cadre_status cadre_plan_measure(const struct cadre_cli_args *args,
                                struct cadre_error *err)
{
    struct cadre_probe probe;
    struct cadre_text out = {0};
    struct cadre_link link[2] = {{0}};
    char kind[16];
    int threads;
    struct parts parts = {1, 1, 1};
    if (args->words.n > 0 || args->plan.ranks || args->plan.replay ||
        args->plan.hardware)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--measure writes a hardware file and takes --set alone: no "
                          "CONF, --ranks, --hardware or --replay");
    CADRE_TRY(find_device(args, kind, &threads, link, err));
    CADRE_TRY(cadre_probe(&probe, kind, threads, link, SECONDS, err));
    if (probe.link_bytes_s[0] <= 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "--measure: links between GPUs are not measured yet; write "
                          "them by hand beside conf/hardware/h100.ini, or measure the "
                          "CPU: --set device.kind=cpu");
    CADRE_TRY(measure_blocks(&probe, kind, &parts, err));
    describe(&out, &probe, parts);
    describe_links(&out, &probe);
    cadre_status rc =
        out.failed ? cadre_no_memory(err, "the hardware file")
                   : cadre_path_write_file(args->plan.measure, out.data, out.len, err);
    if (rc == CADRE_OK)
        printf("%s: %.4g fp32 GFLOP/s, %.4g GB/s of memory, %.4g GB/s between ranks\n",
               args->plan.measure, probe.flops_s[CADRE_PROBE_F32] / 1e9,
               probe.copy_bytes_s / 1e9, probe.link_bytes_s[0] / 1e9);
    cadre_text_fini(&out);
    return rc;
}
