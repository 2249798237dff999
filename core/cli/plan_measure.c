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
#include "core/plan/block_fit.h"
#include "core/train/block_probe.h"
#include "core/train/probe.h"

static const double SECONDS = 20;
enum { REPEATS = 4, ROUNDS = 5, SHAPES = 4, MOST_RANKS = 64, MOST_DEVICES = 256 };
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

/* What was measured is the peak, so that parts of it are 1. Rows of a small model stay
 * in caches, which a copy of 64 MiB does not. */
static struct cadre_hardware hardware_of(const struct cadre_probe *p)
{
    static const enum cadre_plan_dtype dtype[CADRE_PROBE_DTYPES] = {
        CADRE_PLAN_FP32, CADRE_PLAN_FP16, CADRE_PLAN_BF16, CADRE_PLAN_FP64};
    struct cadre_hardware hw = {.node_devices = MOST_DEVICES};
    for (int i = 0; i < CADRE_PROBE_DTYPES; i++)
        hw.device.peak_tflops[dtype[i]] = p->flops_s[i] / 1e12;
    hw.device.memory_gib = memory_of(p) / GIB;
    hw.device.reserve_gib = fmin(1, memory_of(p) / GIB / 8);
    hw.device.memory_gb_s = fmax(p->copy_bytes_s, p->rows_bytes_s) / 1e9;
    hw.device.memory_efficiency = hw.device.product_efficiency = 1;
    hw.device.product_half_gflop = p->half_flops / 1e9;
    hw.device.attention_fused = true;
    hw.device.attention_efficiency =
        fmin(1, p->attention_flops_s / p->flops_s[CADRE_PROBE_F32]);
    hw.device.update_gb_s = p->update_bytes_s / 1e9;
    hw.device.op_us = p->op_s * 1e6;
    return hw;
}

/* Rates become those of a rank while all compute. */
static void share(struct cadre_hardware *hw, double alone)
{
    hw->device.alone_speedup = 1 / alone;
    *hw = cadre_hardware_alone(hw);
    hw->device.alone_speedup = alone;
}

/* In turns: all ranks that the machine has cores for at a time, and one alone. */
static cadre_status measure_blocks(struct cadre_hardware *hw, const char *kind,
                                   int threads, struct cadre_error *err)
{
    const int most = cadre_cores() / threads;
    const int ranks = most < 1 ? 1 : most > MOST_RANKS ? MOST_RANKS : most;
    double all[SHAPES][ROUNDS], one[SHAPES][ROUNDS], alone = 0;
    struct cadre_block_sample sample[SHAPES];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < SHAPES; i++) {
            CADRE_TRY(cadre_block_probe(kind, threads, ranks, &shapes[i], REPEATS,
                                        &all[i][round], err));
            CADRE_TRY(cadre_block_probe(kind, threads, 1, &shapes[i], REPEATS,
                                        &one[i][round], err));
        }
    for (int i = 0; i < SHAPES; i++) {
        const struct cadre_block_shape *s = &shapes[i];
        sample[i] = (struct cadre_block_sample){s->channels, s->heads, s->time,
                                                s->batch, cadre_median(all[i], ROUNDS)};
        alone += fmax(1, sample[i].seconds / cadre_median(one[i], ROUNDS)) / SHAPES;
    }
    share(hw, alone);
    cadre_block_fit(hw, sample, SHAPES);
    return CADRE_OK;
}

/* ---- the file ---- */

static void describe(struct cadre_text *out, const struct cadre_probe *p,
                     const struct cadre_hardware *hw)
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
    for (int i = 0; i < CADRE_PLAN_DTYPES; i++)
        if (hw->device.peak_tflops[i] > 0)
            cadre_text_printf(out, "peak_%s_tflops = %.6g\n", cadre_plan_dtype_name(i),
                              hw->device.peak_tflops[i]);
    cadre_text_printf(
        out,
        "memory_gib = %.6g\nreserve_gib = %.3g\nmemory_gb_s = %.4g\n"
        "memory_efficiency = %.4g\nproduct_efficiency = %.4g\n"
        "product_half_gflop = %.4g\nattention = fused\nattention_efficiency = %.4g\n"
        "update_gb_s = %.4g\nop_us = %.4g\nalone_speedup = %.4g\n",
        hw->device.memory_gib, hw->device.reserve_gib, hw->device.memory_gb_s,
        hw->device.memory_efficiency, hw->device.product_efficiency,
        hw->device.product_half_gflop, hw->device.attention_efficiency,
        hw->device.update_gb_s, hw->device.op_us, hw->device.alone_speedup);
}

static void describe_links(struct cadre_text *out, const struct cadre_probe *p)
{
    static const char *const levels[] = {"node", "cluster"};
    cadre_text_printf(out, "\n[node]\ndevices = %d\n", MOST_DEVICES);
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
    struct cadre_hardware hw;
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
    hw = hardware_of(&probe);
    CADRE_TRY(measure_blocks(&hw, kind, threads, err));
    describe(&out, &probe, &hw);
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
