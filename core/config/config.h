/* SPDX-License-Identifier: Apache-2.0 */
/* The core's configuration of a run, typed. It is filled once, from resolved options;
 * what trains reads its fields and asks for no key by name. `cadre options` says what
 * each key means; option_table.c binds keys to fields. A new key is a line there and a
 * field here. */
#ifndef CADRE_CONFIG_CONFIG_H
#define CADRE_CONFIG_CONFIG_H

#include "core/config/options.h"

/* Of keys that choose: in the order of their choices. */
enum cadre_config_arch { CADRE_CONFIG_GPT2, CADRE_CONFIG_LLAMA, CADRE_CONFIG_VIT };
enum cadre_config_rope {
    CADRE_CONFIG_ROPE_NONE,
    CADRE_CONFIG_ROPE_LINEAR,
    CADRE_CONFIG_ROPE_LLAMA3
};
enum cadre_config_head { CADRE_CONFIG_LM, CADRE_CONFIG_CLASSIFY };
enum cadre_config_layout { CADRE_CONFIG_NCHW, CADRE_CONFIG_NHWC };
enum cadre_config_switch { CADRE_CONFIG_AUTO, CADRE_CONFIG_YES, CADRE_CONFIG_NO };
enum cadre_config_precision {
    CADRE_CONFIG_FP32,
    CADRE_CONFIG_FP64,
    CADRE_CONFIG_BF16,
    CADRE_CONFIG_FP16,
};
enum cadre_config_recompute { CADRE_CONFIG_NONE, CADRE_CONFIG_BLOCK };
enum cadre_config_base { CADRE_CONFIG_BASE_FULL, CADRE_CONFIG_BASE_NF4 };
enum cadre_config_schedule {
    CADRE_CONFIG_CONSTANT,
    CADRE_CONFIG_COSINE,
    CADRE_CONFIG_LINEAR,
};
enum cadre_config_backend {
    CADRE_CONFIG_BACKEND_AUTO,
    CADRE_CONFIG_BACKEND_LOCAL,
    CADRE_CONFIG_BACKEND_MPI,
    CADRE_CONFIG_BACKEND_NCCL,
};
enum cadre_config_trace { CADRE_CONFIG_PERFETTO, CADRE_CONFIG_KINETO };
enum cadre_config_gemm {
    CADRE_CONFIG_GEMM_AUTO,
    CADRE_CONFIG_GEMM_CADRE,
    CADRE_CONFIG_GEMM_LIBRARY
};
enum cadre_config_elastic {
    CADRE_CONFIG_ELASTIC_NO,
    CADRE_CONFIG_ELASTIC_YES,
    CADRE_CONFIG_ELASTIC_REPLACE,
};
enum cadre_config_ranks { CADRE_CONFIG_THREADS, CADRE_CONFIG_PROCESSES };

enum cadre_config_adapters {
    CADRE_CONFIG_ADAPTERS_NONE,
    CADRE_CONFIG_ADAPTERS_LORA,
    CADRE_CONFIG_ADAPTERS_QLORA,
};
enum cadre_config_tune_method {
    CADRE_CONFIG_TUNE_FULL,
    CADRE_CONFIG_TUNE_LORA,
    CADRE_CONFIG_TUNE_QLORA,
    CADRE_CONFIG_TUNE_DPO,
    CADRE_CONFIG_TUNE_QAT,
};

struct cadre_config_run {
    const char *name, *out, *extends;
    int64_t seed, perturb, exact_parts, verify, recheck;
    double recut;
    enum cadre_config_elastic elastic;
    bool exact, memory_check, trust;
};

struct cadre_config_model {
    enum cadre_config_arch arch;
    enum cadre_config_head head;
    enum cadre_config_switch tied;
    enum cadre_config_rope rope_scaling;
    int64_t layers, channels, heads, kv_heads, head_size, hidden, context, vocab,
        head_rows, experts, rope_original, patch;
    double rope_theta, rope_factor, rope_low, rope_high, norm_eps, expert_balance;
    bool qkv_bias, qk_norm;
    const char *init;
};

struct cadre_config_data {
    const char *format, *path, *tokenizer, *lead, *task, *valid_records, *cache,
        *template, *too_long;
    const char *labels, *mean, *std;
    enum cadre_config_layout layout;
    int64_t window, levels, prefetch, classes, shift;
    double range_mv, valid_fraction;
    bool shuffle, pinned, flip, train_on_prompt, pack;
};

struct cadre_config_train {
    int64_t steps, epochs, global_batch, micro_batch, loss_scale;
    int64_t eval_every, eval_batches;
    enum cadre_config_precision precision;
    enum cadre_config_recompute recompute;
};

struct cadre_config_optim {
    const char *name;
    double lr, min_lr, momentum, weight_decay, beta1, beta2, eps, clip;
    int64_t warmup;
    enum cadre_config_schedule schedule;
};

struct cadre_config_tune {
    enum cadre_config_tune_method method;
    enum cadre_config_base base;
    const char *targets, *adapter;
    int64_t rank, group;
    double alpha, dropout;
    bool rslora, quantized;
    /* of dpo */
    enum cadre_config_adapters adapters;
    double beta, label_smoothing;
    const char *reference;
};

struct cadre_config_device {
    const char *kind;
    int64_t threads;
    bool epilogues;
    enum cadre_config_gemm gemm;
    const char *pace;
};

struct cadre_config_comm {
    enum cadre_config_backend backend;
    enum cadre_config_ranks ranks;
    const char *link;
    int64_t node;
    double timeout, heartbeat;
};

struct cadre_config_strategy {
    const char *stack, *plugin_path;
};

struct cadre_config_balance {
    const char *micro_batches;
    double limit;
};

struct cadre_config_checkpoint {
    const char *resume;
    int64_t every, keep;
    bool async;
};

struct cadre_config_log {
    const char *level, *openmetrics;
    int64_t every, trace_steps;
    bool page, tensorboard, trace;
    enum cadre_config_switch progress;
    enum cadre_config_trace trace_format;
};

struct cadre_config_compare {
    const char *baseline, *runs, *vary;
    const char *budget;
    int64_t perturbations, equal_steps, warmup, rounds, period, order;
    double margin, piece, target;
    bool perturb, equal, time;
};

struct cadre_config_bench {
    int64_t steps, warmup, windows, target_steps;
    double target;
};

struct cadre_config_report {
    double peak_flops, price_per_hour;
};

struct cadre_config_energy {
    double idle;
};

struct cadre_config {
    struct cadre_config_run run;
    struct cadre_config_model model;
    struct cadre_config_data data;
    struct cadre_config_train train;
    struct cadre_config_optim optim;
    struct cadre_config_tune tune;
    struct cadre_config_device device;
    struct cadre_config_comm comm;
    struct cadre_config_strategy strategy;
    struct cadre_config_balance balance;
    struct cadre_config_checkpoint checkpoint;
    struct cadre_config_log log;
    struct cadre_config_compare compare;
    struct cadre_config_bench bench;
    struct cadre_config_report report;
    struct cadre_config_energy energy;
};

/* Fill every field. The options are resolved; texts are borrowed from them until they
 * change. [any thread] */
void cadre_config_fill(struct cadre_config *config,
                       const struct cadre_options *options);

#endif
