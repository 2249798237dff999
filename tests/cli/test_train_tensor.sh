#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cutting every product over ranks changes rounding alone: tensor at 2 and 4 ranks against
# single, GPT-2 and Llama form, tied and untied, with grouped queries, a classification head,
# recomputed blocks, under ddp, as threads and as processes.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# Plain sgd: adamw divides what is nearly zero by what is nearly zero.
sgd=(optim.name=sgd optim.momentum=0.9 optim.lr=0.1 train.steps=10 model.heads=4)
llama=(model.arch=llama model.kv_heads=2)

# against NAME STACKS LOSS PARAM [s.k=v]...: single, then each stack, within the limits.
against() {
    local name=$1 stacks=$2 loss=$3 param=$4 stack
    shift 4
    train text "$name-single" 0 "${sgd[@]}" "$@"
    for stack in $stacks; do
        train text "$name-$stack" 0 "${sgd[@]}" "$@" "strategy.stack=$stack"
        close_to "$name-single" "$name-$stack" "$loss" "$param"
    done
}

against gpt2 "tensor:2 tensor:4" 1e-6 2e-5
against gpt2-64 "tensor:2" 1e-14 1e-13 train.precision=fp64
against llama "tensor:2 ddp:2,tensor:2" 1e-6 2e-5 "${llama[@]}"
if [ "$slow" = 1 ]; then
    against llama-64 "tensor:2" 1e-14 1e-13 "${llama[@]}" train.precision=fp64
    against untied "tensor:2" 1e-6 2e-5 model.tied=no
fi

# Ranks as processes, and one rank along the axis, change no bit.
train text gpt2-p 0 "${sgd[@]}" strategy.stack=tensor:2 comm.ranks=processes
same gpt2-tensor:2 gpt2-p
train text one 0 "${sgd[@]}" strategy.stack=tensor:1
same gpt2-single one

# In exact mode, what tensor is stacked with changes no bit either.
train text exact-2 0 "${sgd[@]}" run.exact=yes strategy.stack=tensor:2
train text exact-22 0 "${sgd[@]}" run.exact=yes strategy.stack=tensor:2,ddp:2
same exact-2 exact-22
train text exact-r 0 "${sgd[@]}" run.exact=yes strategy.stack=ddp:2,tensor:2 train.recompute=block
same exact-2 exact-r

# What cannot be cut is refused.
train text heads 2 strategy.stack=tensor:4
says heads "'tensor' claims act.complete@tp over 4 ranks: model.heads = 2 is not a multiple"
train text kv 2 "${llama[@]}" model.heads=4 strategy.stack=tensor:4
says kv "model.kv_heads = 2 is not a multiple"
train text hidden 2 model.hidden=65 strategy.stack=tensor:2
says hidden "model.hidden = 65 is not a multiple"
train text twice 2 strategy.stack=tensor:2,tensor:2
says twice "tensor"
