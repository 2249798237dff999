/* SPDX-License-Identifier: Apache-2.0 */
/* Every option of the core, and the field of struct cadre_config that it fills.
 * `cadre options` and docs/configuration.md come from here. */
#include <math.h>

#include "core/config/config.h"
#include "core/config/option_set.h"

/* How a field is filled follows from its type. */
#define FIELD(sec, name)                                                               \
    _Generic(((struct cadre_config *)0)->sec.name,                                     \
        bool: CADRE_FIELD_BOOL,                                                        \
        int64_t: CADRE_FIELD_I64,                                                      \
        double: CADRE_FIELD_F64,                                                       \
        const char *: CADRE_FIELD_TEXT,                                                \
        unsigned: CADRE_FIELD_CHOICE)

#define KEY(sec, name, kind, ...)                                                      \
    {                                                                                  \
        .section = #sec,                                                               \
        .option = {.struct_size = sizeof(struct cadre_option),                         \
                   .type = CADRE_OPTION_##kind,                                        \
                   .key = #name,                                                       \
                   __VA_ARGS__},                                                       \
        .offset = offsetof(struct cadre_config, sec.name), .field = FIELD(sec, name),  \
    }
#define BOOL(sec, name, value, text) KEY(sec, name, BOOL, .def = value, .help = text)
#define STR(sec, name, value, text) KEY(sec, name, STR, .def = value, .help = text)
#define I64(sec, name, value, least, most, text)                                       \
    KEY(sec, name, I64, .def = value, .help = text, .min = least, .max = most)
#define F64(sec, name, value, least, most, text)                                       \
    KEY(sec, name, F64, .def = value, .help = text, .min = least, .max = most)
#define ENUM(sec, name, value, words, text)                                            \
    KEY(sec, name, ENUM, .def = value, .help = text, .choices = words)

static const struct cadre_config_key table[] = {
    STR(run, name, "", "name of the run in reports; empty means run"),
    I64(run, seed, "1337", 0, INFINITY, "seed of every random number"),
    STR(run, out, "runs",
        "folder in which run folders are made; --out names the run's own folder"),
    BOOL(run, exact, "no",
         "bit-identical training under every strategy and number of ranks"),
    I64(run, exact_parts, "1", 1, 256,
        "P > 1: what tensor cuts is summed in P parts: same bits for every tensor:N"),
    STR(run, extends, "", "ini file to read first, relative to this one"),
    I64(run, perturb, "0", 0, 1e9,
        "N > 0: a 1-ulp perturbation of the initial parameters, seed N"),
    BOOL(run, memory_check, "yes",
         "refuse a run that is predicted to take more memory than is free"),
    BOOL(run, elastic, "no", "continue with fewer ranks when one is lost"),
    F64(run, recut, "0", 0, 1,
        "at a checkpoint, cut stages again if the slowest gets faster by this part"),
    ENUM(model, arch, "gpt2", "gpt2, llama", "architecture of the transformer"),
    I64(model, layers, "4", 1, 4096, "transformer blocks"),
    I64(model, channels, "128", 1, 1048576, "hidden size (the residual stream)"),
    I64(model, heads, "4", 1, 65536, "attention heads; must divide channels"),
    I64(model, kv_heads, "0", 0, 65536,
        "key and value heads, for grouped-query attention (llama); 0 means heads"),
    I64(model, hidden, "0", 0, 16777216,
        "intermediate width of the MLP; 0 means 4 x channels (gpt2), 8/3 x (llama)"),
    I64(model, context, "256", 1, 16777216, "longest sequence in tokens"),
    I64(model, vocab, "0", 0, 16777216,
        "vocabulary size; 0 means that of the data or the tokenizer"),
    ENUM(model, head, "lm", "lm, classify", "what the model predicts"),
    STR(model, init, "", "folder to start from: a checkpoint or a Hugging Face model"),
    ENUM(model, tied, "auto", "auto, yes, no",
         "embedding and head share their weights; auto: gpt2 yes, llama no"),
    F64(model, rope_theta, "10000", 1, 1e12, "base of the rotary positions (llama)"),
    I64(model, experts, "0", 0, 1024,
        "experts of each block's MLP, of which each token takes one; 0: a plain MLP"),
    F64(model, expert_balance, "0.01", 0, 1,
        "weight of the loss that spreads tokens over experts evenly"),
    I64(model, head_rows, "0", 0, 1e9,
        "rows of logits computed at once; 0: all, if they take at most 1 GiB"),
    F64(model, norm_eps, "1e-5", 1e-12, 0.1, "epsilon of LayerNorm and RMSNorm"),
    ENUM(data, format, "text", "text, tokens, wfdb", "kind of data"),
    STR(data, path, "",
        "file or folder of the data, beside the ini file or in the working directory"),
    STR(data, tokenizer, "byte",
        "byte, a folder with GPT-2's vocabulary, or a tokenizer file of llama2.c"),
    I64(data, window, "256", 2, 16777216,
        "ECG samples of the window around a beat; text uses model.context"),
    I64(data, levels, "64", 2, 65536, "tokens: quantisation levels of an ECG sample"),
    F64(data, range_mv, "2.5", 1e-3, 1000,
        "ECG samples are clipped to plus or minus this many millivolts"),
    STR(data, lead, "MLII", "ECG lead; records without it are skipped"),
    ENUM(data, task, "foundation", "foundation, beats, vbd",
         "target for ECG data: next sample, AAMI class, ventricular or not"),
    F64(data, valid_fraction, "0.1", 0, 0.9, "fraction of data kept for validation"),
    STR(data, valid_records, "",
        "ECG records kept for validation, such as 119, 209; empty: by valid_fraction"),
    BOOL(data, shuffle, "yes", "shuffle the samples again in each epoch"),
    I64(data, prefetch, "2", 0, 1024, "batches read ahead; 0: each read in its step"),
    BOOL(data, pinned, "yes", "batches in page-locked memory (GPU)"),
    STR(data, cache, "auto",
        "folder of the token cache; auto: next to the runs, no: no cache"),
    I64(train, steps, "100", 0, 1e15, "optimizer steps; 0 means train.epochs decides"),
    I64(train, epochs, "0", 0, 1e9, "passes over the data where train.steps is 0"),
    I64(train, global_batch, "8", 1, 1e9,
        "sequences of one optimizer step, over all ranks and micro-batches"),
    I64(train, micro_batch, "4", 1, 1e9,
        "sequences of one forward and backward; gradients accumulate to global_batch"),
    ENUM(train, precision, "fp32", "fp32, fp64, bf16, fp16",
         "number format of compute; 16-bit formats keep fp32 master values"),
    I64(train, loss_scale, "65536", 1, 4294967296.0,
        "fp16: initial dynamic loss scale, a power of two"),
    ENUM(train, recompute, "none", "none, block",
         "activation checkpointing: block computes activations again in backward"),
    I64(train, eval_every, "0", 0, 1e15,
        "steps between evaluations; 0 means at the end only"),
    I64(train, eval_batches, "20", 0, 1e9,
        "validation batches of an evaluation, spread evenly over all data; 0: all"),
    STR(optim, name, "adamw",
        "adamw, sgd, lion, adamw8bit, or a plugin: muon, adafactor"),
    F64(optim, lr, "1e-3", 0, 1000, "learning rate, the peak of the schedule"),
    F64(optim, min_lr, "0", 0, 1000, "learning rate at the end of cosine and linear"),
    ENUM(optim, schedule, "constant", "constant, cosine, linear",
         "learning rate after warm-up"),
    I64(optim, warmup, "0", 0, 1e15, "steps of linear warm-up from 0 to lr"),
    F64(optim, momentum, "0", 0, 1, "momentum of sgd"),
    F64(optim, weight_decay, "0.1", 0, 1000,
        "decoupled weight decay of tensors of 2 or more dimensions"),
    F64(optim, beta1, "0.9", 0, 1, "decay of the first moment; of lion's update"),
    F64(optim, beta2, "0.95", 0, 1,
        "decay of adamw's second moment; of lion's momentum"),
    F64(optim, eps, "1e-8", 0, 1, "epsilon of adamw and adamw8bit"),
    F64(optim, clip, "0", 0, 1e9, "gradient clipping: largest global norm; 0: off"),
    ENUM(device, kind, "auto", "auto, cpu, cuda",
         "device that computes; auto: a GPU if there is one"),
    I64(device, threads, "1", 0, 4096,
        "CPU cores of one rank; 0 means all cores, divided among the ranks"),
    BOOL(device, epilogues, "yes",
         "fuse biases and GELU into cublasLt's products where that is faster (GPU)"),
    STR(device, pace, "",
        "simulate slow ranks (CPU): a fraction of full speed for each, as 1, 0.5"),
    ENUM(comm, backend, "auto", "auto, local, mpi, nccl", "how ranks communicate"),
    ENUM(comm, ranks, "threads", "threads, processes",
         "what Cadre starts as a rank on this machine"),
    STR(comm, link, "",
        "simulate a link: GBps:latency_us, or two, inside nodes and between them"),
    I64(comm, node, "0", 0, 1024,
        "simulate nodes of that many adjacent ranks; 0: the ranks of a host are one"),
    F64(comm, timeout, "60", 0.1, 1e6, "seconds without progress before the run ends"),
    STR(strategy, stack, "single",
        "strategies and ranks of each, slowest mesh axis first: pipeline:2, zero:2"),
    STR(strategy, plugin_path, "",
        "folders with strategy plugins, separated by colons, searched first"),
    STR(balance, micro_batches, "off",
        "micro-batches of data ranks: off (as many each), measured, or shares as 2, 1"),
    F64(balance, limit, "2", 1, 1e6,
        "most micro-batches of a rank under measured, as a multiple of an even share"),
    I64(checkpoint, every, "0", 0, 1e15,
        "steps between checkpoints; 0 means at the end only"),
    I64(checkpoint, keep, "2", 0, 1e9, "latest checkpoints kept; 0 means all"),
    BOOL(checkpoint, async, "no", "write checkpoints while training continues"),
    STR(checkpoint, resume, "no",
        "no, auto (the run's latest checkpoint) or a checkpoint's folder"),
    ENUM(log, level, "info", "error, warn, info, debug, trace",
         "least severe messages that are shown"),
    I64(log, every, "10", 1, 1e9,
        "steps between progress lines where there is no terminal"),
    BOOL(log, page, "yes", "write run.html, a page with the run's curves, at its end"),
    BOOL(log, trace, "no", "record what ranks do in a few steps: trace.json"),
    I64(log, trace_steps, "3", 1, 1000,
        "steps that are recorded, the first after compare.warmup"),
    ENUM(log, trace_format, "perfetto", "perfetto, kineto",
         "trace.json (Perfetto), or trace/rank-N.json (Holistic Trace Analysis)"),
    BOOL(log, tensorboard, "no", "write loss, rates and memory for TensorBoard"),
    STR(log, openmetrics, "",
        "file for Prometheus, in the run's folder unless absolute; empty means none"),
    ENUM(log, progress, "auto", "auto, yes, no", "progress bar; auto: on a terminal"),
    STR(compare, baseline, "",
        "run that the others are compared with; empty means the first"),
    STR(compare, runs, "",
        "runs to compare, such as one, two; empty means every [run:NAME]"),
    STR(compare, vary, "",
        "makes a run of each combination: \"train.micro_batch: 1 2; run.seed: 1 2 3\""),
    BOOL(compare, perturb, "yes",
         "train the baseline again with other rounding, to measure limits"),
    I64(compare, perturbations, "3", 2, 16,
        "how many such runs; fewer cost less and widen the limits"),
    BOOL(compare, equal, "yes",
         "train runs that differ by design once more, with the setting that must not"),
    I64(compare, equal_steps, "20", 1, 1e9, "steps of such a training, at most"),
    I64(compare, warmup, "2", 0, 1e9, "first steps, left out of the times"),
    BOOL(compare, time, "yes",
         "measure speed in rounds; no, also in [run:NAME]: compare training alone"),
    I64(compare, rounds, "0", 0, 200,
        "rounds of short timed trainings; 0: 8, or more for many runs"),
    STR(compare, budget, "0",
        "time for the rounds, such as 90s or 10m, which sets their number; 0: none"),
    F64(compare, piece, "1", 0.001, 1e6,
        "least seconds that are timed each time, of at least 10 steps"),
    I64(compare, period, "1", 1, 1e6,
        "steps after which a strategy's work repeats: whole periods are timed"),
    F64(compare, target, "0", 0, 1e9,
        "training loss to which runs that change training are timed; 0: they are not"),
    F64(compare, margin, "0.01", 0, 1,
        "relative difference of speed below which none is shown"),
    I64(bench, steps, "0", 0, 1e9, "benchmark: steps of a timed window; 0: a training"),
    I64(bench, warmup, "2", 0, 1e9, "steps before the first window"),
    I64(bench, windows, "1", 1, 64, "windows, one after the other"),
    F64(bench, target, "0", 0, 1e9,
        "benchmark: time until the training loss is at most this; 0: none"),
    I64(bench, target_steps, "10", 1, 1e9,
        "latest steps whose mean loss is compared with bench.target"),
    F64(report, peak_flops, "0", 0, 1e30,
        "peak FLOP/s of one rank's device, for MFU; 0: from a table or computed"),
    F64(report, price_per_hour, "0", 0, 1e12,
        "price of one machine an hour, in any currency; 0: no cost is reported"),
    F64(energy, idle, "0.5", 0, 60,
        "seconds of idle power before a training where it can be read; 0: none"),
};

const struct cadre_config_key *cadre_option_table(size_t *n)
{
    *n = sizeof table / sizeof table[0];
    return table;
}
