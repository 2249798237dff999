/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/foreign.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MEGATRON "Megatron-LM"
#define TITAN "TorchTitan"
#define HF "Hugging Face"
#define DEEPSPEED "DeepSpeed"
#define TORCH "PyTorch"
#define NANO "nanoGPT"

/* Of several entries of one name, the first is taken. */
static const struct cadre_foreign table[] = {
    /* strategies */
    {MEGATRON, "tensor-model-parallel-size", "strategy.stack", " = tensor:N"},
    {MEGATRON, "pipeline-model-parallel-size", "strategy.stack", " = pipeline:N"},
    {MEGATRON, "data-parallel-size", "strategy.stack", " = ddp:N"},
    {MEGATRON, "num-layers-per-virtual-pipeline-stage", "pipeline.chunks", ""},
    {MEGATRON, "num-virtual-stages-per-pipeline-rank", "pipeline.chunks", ""},
    {MEGATRON, "sequence-parallel", "tensor.sequence_parallel", " = yes"},
    {MEGATRON, "use-distributed-optimizer", "zero.stage", " = 1"},
    {MEGATRON, "use-torch-fsdp2", "zero.stage", " = 3"},
    {MEGATRON, "overlap-grad-reduce", "ddp.overlap", ""},
    {MEGATRON, "ddp-bucket-size", "ddp.bucket_mb", ""},
    {MEGATRON, "optimizer-cpu-offload", "zero.offload", " = optimizer"},
    {TITAN, "parallelism.tensor_parallel_degree", "strategy.stack", " = tensor:N"},
    {TITAN, "parallelism.pipeline_parallel_degree", "strategy.stack", " = pipeline:N"},
    {TITAN, "parallelism.data_parallel_shard_degree", "zero.stage",
     " = 3 with strategy.stack = zero:N"},
    {TITAN, "parallelism.data_parallel_replicate_degree", "strategy.stack",
     " = ddp:N, or hsdp:N over zero"},
    {TITAN, "parallelism.pipeline_parallel_schedule", "pipeline.schedule", ""},
    {DEEPSPEED, "zero_optimization.stage", "zero.stage", ""},
    {DEEPSPEED, "offload_optimizer", "zero.offload", " = optimizer"},
    {DEEPSPEED, "reduce_bucket_size", "zero.bucket_mb", ""},
    {DEEPSPEED, "stage3_prefetch_bucket_size", "zero.prefetch", ""},
    {DEEPSPEED, "zero_hpz_partition_size", "zero.node", " with zero.secondary = node"},
    {DEEPSPEED, "zero_quantized_gradients", "zero.quantize_gradients", " = int8"},
    {DEEPSPEED, "zero_quantized_weights", "zero.quantize_gathers", " = int8"},
    {TORCH, "fully_sharded_data_parallel", "zero.stage", " = 3"},
    {TORCH, "sharding_strategy", "zero.stage", ""},
    {TORCH, "backward_prefetch", "zero.prefetch", ""},
    {TORCH, "bucket_cap_mb", "ddp.bucket_mb", ""},
    /* the model */
    {MEGATRON, "num-layers", "model.layers", ""},
    {MEGATRON, "hidden-size", "model.channels", ""},
    {MEGATRON, "ffn-hidden-size", "model.hidden", ""},
    {MEGATRON, "num-attention-heads", "model.heads", ""},
    {MEGATRON, "num-query-groups", "model.kv_heads", ""},
    {MEGATRON, "seq-length", "model.context", ""},
    {MEGATRON, "max-position-embeddings", "model.context", ""},
    {MEGATRON, "num-experts", "model.experts", ""},
    {MEGATRON, "group-query-attention", "model.kv_heads", ""},
    {MEGATRON, "moe-aux-loss-coeff", "model.expert_balance", ""},
    {MEGATRON, "norm-epsilon", "model.norm_eps", ""},
    {MEGATRON, "rotary-base", "model.rope_theta", ""},
    {MEGATRON, "untie-embeddings-and-output-weights", "model.tied", " = no"},
    {MEGATRON, "kv-channels", "model.head_size", ""},
    {MEGATRON, "add-qkv-bias", "model.qkv_bias", " = yes"},
    {MEGATRON, "qk-layernorm", "model.qk_norm", " = yes"},
    {MEGATRON, "use-rope-scaling", "model.rope_scaling", " = llama3"},
    {MEGATRON, "rope-scaling-factor", "model.rope_factor", ""},
    {TITAN, "training.seq_len", "model.context", ""},
    {TITAN, "model.flavor", "model.arch", ""},
    {TITAN, "model.tokenizer_path", "data.tokenizer", ""},
    {TITAN, "model.hf_assets_path", "data.tokenizer", ""},
    {TITAN, "checkpoint.initial_load_path", "model.init", ""},
    {HF, "model_name_or_path", "model.init", ""},
    {HF, "num_hidden_layers", "model.layers", ""},
    {HF, "intermediate_size", "model.hidden", ""},
    {HF, "num_key_value_heads", "model.kv_heads", ""},
    {HF, "head_dim", "model.head_size", ""},
    {HF, "vocab_size", "model.vocab", ""},
    {HF, "tie_word_embeddings", "model.tied", ""},
    {HF, "max_seq_length", "model.context", ""},
    {NANO, "n_layer", "model.layers", ""},
    {NANO, "n_embd", "model.channels", ""},
    {NANO, "n_head", "model.heads", ""},
    {NANO, "block_size", "model.context", ""},
    {NANO, "init_from", "model.init", ""},
    {NANO, "dataset", "data.path", ""},
    /* data */
    {MEGATRON, "data-path", "data.path", ""},
    {MEGATRON, "tokenizer-model", "data.tokenizer", ""},
    {MEGATRON, "tokenizer-type", "data.tokenizer", ""},
    {MEGATRON, "vocab-file", "data.tokenizer", ""},
    {MEGATRON, "split", "data.valid_fraction", ""},
    {MEGATRON, "num-workers", "data.prefetch", ""},
    {TITAN, "training.dataset", "data.format", ""},
    {TITAN, "training.dataset_path", "data.path", ""},
    /* training */
    {MEGATRON, "micro-batch-size", "train.micro_batch", ""},
    {MEGATRON, "global-batch-size", "train.global_batch", ""},
    {MEGATRON, "train-iters", "train.steps", ""},
    {MEGATRON, "bf16", "train.precision", " = bf16"},
    {MEGATRON, "fp16", "train.precision", " = fp16"},
    {MEGATRON, "initial-loss-scale", "train.loss_scale", ""},
    {MEGATRON, "recompute-granularity", "train.recompute", " = block"},
    {MEGATRON, "recompute-activations", "train.recompute", " = block"},
    {MEGATRON, "eval-interval", "train.eval_every", ""},
    {MEGATRON, "eval-iters", "train.eval_batches", ""},
    {TITAN, "training.local_batch_size", "train.micro_batch", ""},
    {TITAN, "training.global_batch_size", "train.global_batch", ""},
    {TITAN, "training.batch_size", "train.micro_batch", ""},
    {TITAN, "training.mixed_precision_param", "train.precision", ""},
    {TITAN, "training.steps", "train.steps", ""},
    {TITAN, "activation_checkpoint.mode", "train.recompute", " = block"},
    {TITAN, "validation.freq", "train.eval_every", ""},
    {TITAN, "validation.steps", "train.eval_batches", ""},
    {HF, "per_device_train_batch_size", "train.micro_batch", ""},
    {HF, "gradient_checkpointing", "train.recompute", " = block"},
    {HF, "num_train_epochs", "train.epochs", ""},
    {HF, "max_steps", "train.steps", ""},
    {HF, "eval_steps", "train.eval_every", ""},
    {HF, "torch_dtype", "train.precision", ""},
    {DEEPSPEED, "train_micro_batch_size_per_gpu", "train.micro_batch", ""},
    {DEEPSPEED, "train_batch_size", "train.global_batch", ""},
    {DEEPSPEED, "gradient_accumulation_steps", "train.global_batch",
     ", over train.micro_batch and the data ranks"},
    {TORCH, "no_sync", "train.global_batch", ", over train.micro_batch: by itself"},
    {NANO, "batch_size", "train.micro_batch", ""},
    {NANO, "max_iters", "train.steps", ""},
    {NANO, "dtype", "train.precision", ""},
    {"", "activation_checkpointing", "train.recompute", " = block"},
    {"", "mixed_precision", "train.precision", " = bf16"},
    {"", "epochs", "train.epochs", ""},
    {"", "iterations", "train.steps", ""},
    /* the optimizer */
    {MEGATRON, "lr", "optim.lr", ""},
    {MEGATRON, "min-lr", "optim.min_lr", ""},
    {MEGATRON, "lr-decay-style", "optim.schedule", ""},
    {MEGATRON, "lr-warmup-iters", "optim.warmup", ""},
    {MEGATRON, "lr-warmup", "optim.warmup", ""},
    {MEGATRON, "weight-decay", "optim.weight_decay", ""},
    {MEGATRON, "adam-beta1", "optim.beta1", ""},
    {MEGATRON, "adam-beta2", "optim.beta2", ""},
    {MEGATRON, "adam-eps", "optim.eps", ""},
    {MEGATRON, "sgd-momentum", "optim.momentum", ""},
    {MEGATRON, "clip-grad", "optim.clip", ""},
    {MEGATRON, "optimizer", "optim.name", ""},
    {TITAN, "optimizer.name", "optim.name", ""},
    {TITAN, "optimizer.lr", "optim.lr", ""},
    {TITAN, "optimizer.eps", "optim.eps", ""},
    {TITAN, "optimizer.beta1", "optim.beta1", ""},
    {TITAN, "optimizer.beta2", "optim.beta2", ""},
    {TITAN, "optimizer.weight_decay", "optim.weight_decay", ""},
    {TITAN, "lr_scheduler.warmup_steps", "optim.warmup", ""},
    {TITAN, "lr_scheduler.decay_type", "optim.schedule", ""},
    {TITAN, "lr_scheduler.min_lr_factor", "optim.min_lr", ""},
    {TITAN, "training.max_norm", "optim.clip", ""},
    {HF, "learning_rate", "optim.lr", ""},
    {HF, "lr_scheduler_type", "optim.schedule", ""},
    {HF, "warmup_steps", "optim.warmup", ""},
    {HF, "max_grad_norm", "optim.clip", ""},
    {DEEPSPEED, "gradient_clipping", "optim.clip", ""},
    {NANO, "grad_clip", "optim.clip", ""},
    {NANO, "warmup_iters", "optim.warmup", ""},
    /* the run, its files and its ranks */
    {MEGATRON, "seed", "run.seed", ""},
    {MEGATRON, "deterministic-mode", "run.exact", " = yes"},
    {MEGATRON, "save", "run.out", ""},
    {MEGATRON, "save-interval", "checkpoint.every", ""},
    {MEGATRON, "load", "checkpoint.resume", ""},
    {MEGATRON, "async-save", "checkpoint.async", " = yes"},
    {MEGATRON, "log-interval", "log.every", ""},
    {MEGATRON, "profile", "log.trace", " = yes"},
    {MEGATRON, "distributed-backend", "comm.backend", ""},
    {MEGATRON, "distributed-timeout-minutes", "comm.timeout", ", in seconds"},
    {TITAN, "training.seed", "run.seed", ""},
    {TITAN, "training.deterministic", "run.exact", " = yes"},
    {TITAN, "job.dump_folder", "run.out", ""},
    {TITAN, "checkpoint.folder", "run.out", ""},
    {TITAN, "checkpoint.interval", "checkpoint.every", ""},
    {TITAN, "checkpoint.keep_latest_k", "checkpoint.keep", ""},
    {TITAN, "checkpoint.async_mode", "checkpoint.async", " = yes"},
    {TITAN, "checkpoint.load_step", "checkpoint.resume", ""},
    {TITAN, "metrics.log_freq", "log.every", ""},
    {TITAN, "metrics.enable_tensorboard", "log.tensorboard", " = yes"},
    {TITAN, "profiling.enable_profiling", "log.trace", " = yes"},
    {TITAN, "comm.init_timeout_seconds", "comm.timeout", ""},
    {HF, "output_dir", "run.out", ""},
    {HF, "run_name", "run.name", ""},
    {HF, "resume_from_checkpoint", "checkpoint.resume", ""},
    {HF, "save_steps", "checkpoint.every", ""},
    {HF, "save_total_limit", "checkpoint.keep", ""},
    {HF, "logging_steps", "log.every", ""},
    {"", "num_threads", "device.threads", ""},
    {"", "device", "device.kind", ""},
    {"", "backend", "comm.backend", ""},
};
enum { N_TABLE = sizeof table / sizeof table[0] };

/* Words that stand in strategy.stack elsewhere. */
static const char *const strategies[][2] = {
    {"fsdp", "FSDP is zero with zero.stage = 3"},
    {"fsdp1", "FSDP is zero with zero.stage = 3"},
    {"simple_fsdp", "FSDP is zero with zero.stage = 3"},
    {"fsdp2", "FSDP is zero with zero.stage = 3"},
    {"fully_shard", "FSDP is zero with zero.stage = 3"},
    {"fullyshardeddataparallel", "FSDP is zero with zero.stage = 3"},
    {"full_shard", "FSDP's FULL_SHARD is zero with zero.stage = 3"},
    {"shard_grad_op", "FSDP's SHARD_GRAD_OP is zero with zero.stage = 2"},
    {"hybrid_shard", "FSDP's HYBRID_SHARD is hsdp over zero: hsdp:M, zero:N"},
    {"deepspeed", "DeepSpeed's ZeRO is zero, its stage is zero.stage = 1, 2 or 3"},
    {"zero1", "ZeRO-1 is zero with zero.stage = 1"},
    {"zero2", "ZeRO-2 is zero with zero.stage = 2"},
    {"zero3", "ZeRO-3 is zero with zero.stage = 3"},
    {"zero_1", "ZeRO-1 is zero with zero.stage = 1"},
    {"zero_2", "ZeRO-2 is zero with zero.stage = 2"},
    {"zero_3", "ZeRO-3 is zero with zero.stage = 3"},
    {"distributed_optimizer", "a distributed optimizer is zero with zero.stage = 1"},
    {"megatron", "Megatron-LM's tensor parallelism is tensor"},
    {"tp", "tensor parallelism is tensor"},
    {"tensor_parallel", "tensor parallelism is tensor"},
    {"sp", "sequence parallelism is tensor with tensor.sequence_parallel = yes"},
    {"sequence_parallel",
     "sequence parallelism is tensor with tensor.sequence_parallel = yes"},
    {"cp",
     "there is no context parallelism; tensor with tensor.sequence_parallel = yes "
     "divides what lies between the products along the sequence"},
    {"context_parallel", "there is no context parallelism; tensor with "
                         "tensor.sequence_parallel = yes divides what lies between the "
                         "products along the sequence"},
    {"ulysses",
     "there is no Ulysses; tensor with tensor.sequence_parallel = yes divides "
     "what lies between the products along the sequence"},
    {"ep", "there is no expert parallelism; model.experts are sharded by zero"},
    {"expert_parallel",
     "there is no expert parallelism; model.experts are sharded by zero"},
    {"moe", "experts are of the model: model.experts"},
    {"vpp", "virtual pipeline stages are pipeline with pipeline.chunks"},
    {"pp", "pipeline parallelism is pipeline"},
    {"pipeline_parallel", "pipeline parallelism is pipeline"},
    {"gpipe", "GPipe is pipeline with pipeline.schedule = gpipe"},
    {"1f1b", "1F1B is pipeline with pipeline.schedule = 1f1b"},
    {"interleaved", "interleaved 1F1B is pipeline with pipeline.schedule = "
                    "interleaved"},
    {"zero_bubble", "zero bubble is pipeline with pipeline.schedule = zb-h1"},
    {"zb_h1", "zero bubble is pipeline with pipeline.schedule = zb-h1"},
    {"zbv", "zero bubble in two chunks is pipeline with pipeline.schedule = zb-v"},
    {"dualpipe", "DualPipe with half its parameters is pipeline with "
                 "pipeline.schedule = dualpipev"},
    {"looped_bfs", "looped breadth-first is pipeline with pipeline.schedule = "
                   "breadth-first"},
    {"dp", "data parallelism is ddp, or zero for sharded states"},
    {"data_parallel", "data parallelism is ddp, or zero for sharded states"},
    {"distributeddataparallel", "DistributedDataParallel is ddp"},
    {"dataparallel", "DataParallel is ddp"},
    {"horovod", "Horovod's data parallelism is ddp"},
    {"replicate", "replicas are ddp"},
    {"local_sgd", "local SGD is diloco with diloco.outer_lr = 1 and "
                  "diloco.outer_momentum = 0"},
    {"powersgd", "PowerSGD is ddp with ddp.compress = powersgd:K"},
    {"none", "one rank without a strategy is single"},
};

/* Are the two the same, apart from case and dashes? */
static bool same(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        const char x = (char)(*a == '-' ? '_' : tolower((unsigned char)*a));
        const char y = (char)(*b == '-' ? '_' : tolower((unsigned char)*b));
        if (x != y)
            return false;
    }
    return *a == *b;
}

const struct cadre_foreign *cadre_foreign_find(const char *name)
{
    name += strspn(name, "-");
    for (size_t i = 0; i < N_TABLE; i++)
        if (same(table[i].name, name))
            return &table[i];
    return NULL;
}

const struct cadre_foreign *cadre_foreign_key(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot ? cadre_foreign_find(dot + 1) : NULL;
}

const struct cadre_foreign *cadre_foreign_all(size_t *n)
{
    *n = N_TABLE;
    return table;
}

const char *cadre_foreign_say(const struct cadre_foreign *foreign, char *out,
                              size_t size)
{
    snprintf(out, size, "%s%s%s is %s%s here", foreign->name,
             *foreign->of ? " of " : "", foreign->of, foreign->option, foreign->write);
    return out;
}

const char *cadre_foreign_strategy(const char *name)
{
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        if (same(strategies[i][0], name))
            return strategies[i][1];
    return NULL;
}
