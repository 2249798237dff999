#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lion, AdamW with states of 8 bits and Adafactor: saved under one strategy and resumed under
# another they train as in one piece under `single`, bit for bit; replicas that are kept go on with
# their own states. What cannot be is refused in one line. Equality under every stack is that of
# tests/plugins/test_own_optimizers.c and test_adafactor.c.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# Sizes that neither ranks nor blocks divide; 8 micro-batches a step, clipped; a tied head.
common="run.exact=yes train.steps=4 model.channels=66 model.heads=2 train.recompute=block"
common+=" optim.clip=0.5 train.eval_batches=1"

# moved NAME FROM TO: half of a run under FROM, the rest under TO, each with its options.
moved() {
    local name=$1 from=$2 to=$3
    # shellcheck disable=SC2086 # words
    train text moved 0 $common "optim.name=$name" train.steps=2 \
        "strategy.stack=${from%% *}" $(cut -s -d ' ' -f 2- <<<"$from")
    # shellcheck disable=SC2086
    train text moved 0 $common "optim.name=$name" checkpoint.resume=auto \
        "strategy.stack=${to%% *}" $(cut -s -d ' ' -f 2- <<<"$to")
    echo "$name, $from, then $to"
    same "single-$name" moved
    rm -r "${tmp:?}/moved"
}

for name in lion adamw8bit adafactor; do
    # shellcheck disable=SC2086
    train text "single-$name" 0 $common "optim.name=$name"
    moved "$name" "zero:4 zero.stage=3" "pipeline:2"
    if [ "$lean" = 0 ]; then
        moved "$name" "ddp:2" "zero:2 zero.stage=1 zero.offload=optimizer"
        moved "$name" "single" "hsdp:2,zero:2 zero.stage=2"
    fi
done

# Replicas that diverge: the second half has the bits of a run in one piece.
for name in adamw8bit adafactor; do
    diloco="${common/exact=yes/exact=no} diloco.period=3 optim.name=$name"
    # shellcheck disable=SC2086
    train text replicas 0 $diloco "strategy.stack=diloco:2, zero:2"
    # shellcheck disable=SC2086
    train text halves 0 $diloco "strategy.stack=diloco:2, zero:2" train.steps=2
    # shellcheck disable=SC2086
    train text halves 0 $diloco "strategy.stack=diloco:2, zero:2" checkpoint.resume=auto
    same replicas halves
    rm -r "${tmp:?}/replicas" "${tmp:?}/halves"
done

# Other precisions train; a step that overflows changes nothing.
for name in lion adamw8bit adafactor; do
    # shellcheck disable=SC2086
    train text half 0 $common train.steps=2 "optim.name=$name" train.precision=fp16 \
        train.loss_scale=4294967296 strategy.stack=zero:2
    rm -r "${tmp:?}/half"
done

# shellcheck disable=SC2086
refused other "was trained with optim.name = adamw8bit, this run has adamw;" $common \
    train.steps=6 "checkpoint.resume=$(last single-adamw8bit)"
refused tensor "exp_avg_absmax.*act.complete" optim.name=adamw8bit strategy.stack=tensor:2
refused misspelt "the nearest is adamw8bit" optim.name=adamw8bits

# Blocks of 256 that tensor parallelism leaves whole: there, and back.
common="run.exact=yes run.exact_parts=2 train.steps=4 model.channels=512 model.heads=2 model.layers=1"
common+=" optim.clip=0.5 train.eval_batches=1"
rm -r "$tmp/single-adamw8bit"
# shellcheck disable=SC2086
train text single-adamw8bit 0 $common optim.name=adamw8bit
moved adamw8bit "tensor:2" "zero:2 zero.stage=3"
if [ "$lean" = 0 ]; then
    moved adamw8bit "ddp:2" "tensor:2,zero:2"
fi
