#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cutting every product over ranks changes rounding alone: tensor at 2 and 4 ranks against
# single, GPT-2 and Llama form, tied and untied, with grouped queries, a classification head,
# recomputed blocks, with the rows of activations cut too, with ddp and zero, as threads and as
# processes.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# Plain sgd: adamw divides what is nearly zero by what is nearly zero.
sgd=(optim.name=sgd optim.momentum=0.9 optim.lr=0.1 train.steps=10 model.heads=4)
llama=(model.arch=llama model.kv_heads=2)
rows=tensor.sequence_parallel=yes

# against NAME STACKS LOSS PARAM [s.k=v]...: single, then each stack, within the limits.
against() {
    local name=$1 stacks=$2 loss=$3 param=$4 stack
    shift 4
    train text "$name-single" 0 "${sgd[@]}" "$@"
    for stack in $stacks; do
        train text "$name-$stack" 0 "${sgd[@]}" "$@" "strategy.stack=$stack"
        close_to "$name-single" "$name-$stack" "$loss" "$param"
        train text "$name-$stack-rows" 0 "${sgd[@]}" "$@" "strategy.stack=$stack" "$rows"
        close_to "$name-single" "$name-$stack-rows" "$loss" "$param"
    done
}

against gpt2 "tensor:2 tensor:4" 1e-6 2e-5
against gpt2-64 "tensor:2" 1e-14 1e-13 train.precision=fp64
against llama "tensor:2 ddp:2,tensor:2" 1e-6 2e-5 "${llama[@]}"
if [ "$slow" = 1 ]; then
    against llama-64 "tensor:2" 1e-14 1e-13 "${llama[@]}" train.precision=fp64
    against untied "tensor:2" 1e-6 2e-5 model.tied=no
    against short "tensor:2 tensor:4" 1e-6 2e-5 train.micro_batch=1 model.context=31
fi

# A classification head, which is not cut.
if [ -e "$mitdb/100.hea" ]; then
    beats=(data.task=beats model.head=classify train.steps=6 "${sgd[@]:0:3}")
    train ecg beats 0 "${beats[@]}"
    train ecg beats-2 0 "${beats[@]}" strategy.stack=tensor:2
    close_to beats beats-2 1e-6 2e-5
    train ecg beats-2-rows 0 "${beats[@]}" strategy.stack=tensor:2 "$rows"
    close_to beats beats-2-rows 1e-6 2e-5
else
    echo "SKIP: no ECG records"
fi

# Ranks as processes, and one rank along the axis, change no bit.
train text gpt2-p 0 "${sgd[@]}" strategy.stack=tensor:2 comm.ranks=processes
same gpt2-tensor:2 gpt2-p
train text rows-p 0 "${sgd[@]}" strategy.stack=tensor:2 "$rows" comm.ranks=processes
same gpt2-tensor:2-rows rows-p
train text one 0 "${sgd[@]}" strategy.stack=tensor:1 "$rows"
same gpt2-single one

# In exact mode, what tensor is stacked with changes no bit either.
stacks="tensor:2,ddp:2 zero:2,tensor:2"
[ "$slow" = 1 ] && stacks="$stacks ddp:2,tensor:2 tensor:2,zero:2"
for cut in no yes; do
    exact=("${sgd[@]}" run.exact=yes "tensor.sequence_parallel=$cut")
    train text "exact-$cut" 0 "${exact[@]}" strategy.stack=tensor:2
    for stack in $stacks; do
        train text "exact-$cut-$stack" 0 "${exact[@]}" "strategy.stack=$stack"
        same "exact-$cut" "exact-$cut-$stack"
    done
    train text "exact-$cut-r" 0 "${exact[@]}" strategy.stack=tensor:2 train.recompute=block
    same "exact-$cut" "exact-$cut-r"
done

# The bytes of the README, a step more or less apart. A micro-batch has n = 2 x 32 x 32 values
# and 64 tokens; L = 2 layers, 8 micro-batches, 4 bytes a value, 2 ranks: a rank's sum of n values
# sends n of them, gathering or scattering n/2. Cut rows gather 2 L + 1 times more, and add up
# 2 L + 1 norms' weights and biases of 32 channels once a step. The core sends a sum of 9 losses
# and of 28 chunks of the norm, in 8 bytes a value.
bytes_of_step() {
    local steps n
    for steps in 1 2; do
        train text "bytes-$1-$steps" 0 "train.steps=$steps" strategy.stack=tensor:2 \
            "tensor.sequence_parallel=$1"
        n[steps]=$(sed -n 's/.*"comm_bytes": *\([0-9]*\).*/\1/p' "$tmp/bytes-$1-$steps/summary.json")
    done
    echo $((n[2] - n[1]))
}
n=2048
plain=$((2 * (8 * (10 * n + 3 * 64) * 4 + (9 + 28) * 8)))
rows_add=$((2 * (8 * 5 * n / 2 * 4 + 5 * 2 * 32 * 4)))
found=$(bytes_of_step no)
[ "$found" -eq "$plain" ] || fail "tensor:2 sends $found bytes a step, expected $plain"
found=$(bytes_of_step yes)
[ "$found" -eq $((plain + rows_add)) ] ||
    fail "with cut rows $found bytes a step, expected $plain + $rows_add"

# What cannot be cut is refused.
train text heads 2 strategy.stack=tensor:4
says heads "'tensor' claims act.complete@tp over 4 ranks: model.heads = 2 is not a multiple"
train text kv 2 "${llama[@]}" model.heads=4 strategy.stack=tensor:4
says kv "model.kv_heads = 2 is not a multiple"
train text hidden 2 model.hidden=65 strategy.stack=tensor:2
says hidden "model.hidden = 65 is not a multiple"
train text twice 2 strategy.stack=tensor:2,tensor:2
says twice "tensor"
train text tokens 2 train.micro_batch=1 model.context=2 model.heads=4 strategy.stack=tensor:4 "$rows"
says tokens "cannot deal the 2 tokens of a micro-batch .* to the 4 ranks"
