#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Context parallelism, by a plugin of the tests: the time of every sample over ranks changes
# only rounding. Against single: GPT-2 and Llama form, 2 and 4 ranks, with zero, tensor and
# pipeline, recomputed blocks, as processes; in exact mode equal bits whatever it is stacked
# with; evaluation and resuming; what is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

cp=$(test_plugin context)
# Plain sgd: adamw divides what is nearly zero by what is nearly zero.
sgd=(optim.name=sgd optim.momentum=0.9 optim.lr=0.1 train.steps=6)
llama=(model.arch=llama model.heads=4 model.kv_heads=2 model.tied=no)

# against NAME LOSS PARAM STACKS [s.k=v]...: single, then each stack, within the limits.
against() {
    local name=$1 loss=$2 param=$3 stacks=$4 stack
    shift 4
    train text "$name-single" 0 "${sgd[@]}" "$@"
    for stack in $stacks; do
        train text "$name-$stack" 0 "${sgd[@]}" "$@" "strategy.stack=${stack//cp/$cp}"
        close_to "$name-single" "$name-$stack" "$loss" "$param"
    done
}

against gpt2 1e-6 2e-5 "cp:2 cp:2,zero:2" zero.stage=2
against gpt2-64 1e-14 1e-13 "cp:4 pipeline:2,cp:2" train.precision=fp64
against llama-64 1e-14 1e-13 "cp:2,tensor:2" train.precision=fp64 train.recompute=block \
    "${llama[@]}"
if [ "$slow" = 1 ]; then
    against gpt2-16 1e-2 5e-2 "cp:2" train.precision=bf16
    against llama 1e-6 2e-5 "cp:2 zero:2,cp:2 hsdp:2,cp:2,ddp:2" zero.stage=3 "${llama[@]}"
    against rows-64 1e-14 1e-13 "cp:2,tensor:2" train.precision=fp64 \
        tensor.sequence_parallel=yes model.kv_heads=2
    against zb-64 1e-14 1e-13 "cp:2,pipeline:2" train.precision=fp64 pipeline.schedule=zb-h1
    against micro-64 1e-14 1e-13 "cp:2,zero:2" train.precision=fp64 zero.stage=2 \
        zero.reduce=microbatch
    against whole-64 1e-14 1e-13 "cp:2" train.precision=fp64 train.micro_batch=1 \
        data.prefetch=0
fi

# One rank along the axis changes no bit.
train text one 0 "${sgd[@]}" "strategy.stack=$cp:1" zero.stage=2
same gpt2-single one

# In exact mode sums over the time come last: what else is in the stack changes no bit.
exact=("${sgd[@]}" run.exact=yes)
train text exact 0 "${exact[@]}" "strategy.stack=$cp:2"
stacks="zero:2,cp:2 cp:2,pipeline:2 hsdp:2,cp:2,zero:2"
[ "$slow" = 1 ] && stacks="$stacks cp:2,ddp:2 ddp:4,cp:2 pipeline:2,cp:2,zero:2"
for stack in $stacks; do
    train text "exact-$stack" 0 "${exact[@]}" "strategy.stack=${stack//cp/$cp}" zero.stage=3
    same exact "exact-$stack"
    rm -r "${tmp:?}/exact-$stack"
done
train text exact-p 0 "${exact[@]}" "strategy.stack=$cp:2" comm.ranks=processes \
    device.threads=2 train.recompute=block
same exact exact-p

# A run goes on with another stack, and ends with the bits of one that never stopped.
train text on 0 "${exact[@]}" train.steps=3 "strategy.stack=$cp:2,zero:2" zero.stage=2
train text on 0 "${exact[@]}" "strategy.stack=pipeline:2,$cp:2" checkpoint.resume=auto
same exact on

# Evaluation counts each sample and each target once.
valid() { # NAME KEY
    tr -d ' \n' <"$tmp/$1/summary.json" | sed -E "s/.*\"$2\":([-0-9.e]+).*/\1/"
}
for name in gpt2-64-cp:4 gpt2-64-pipeline:2,cp:2 llama-64-cp:2,tensor:2; do
    single=${name%%-64-*}-64-single
    [ "$(valid "$name" valid_samples)" = "$(valid "$single" valid_samples)" ] ||
        fail "$name evaluated $(valid "$name" valid_samples) samples"
    awk -v a="$(valid "$name" valid_loss)" -v b="$(valid "$single" valid_loss)" \
        'BEGIN { d = a - b; exit !(a + 0 > 0 && d < 1e-12 && d > -1e-12) }' ||
        fail "the validation loss of $name is $(valid "$name" valid_loss)"
done

refused odd "samples of 32 tokens \(model.context\) do not divide evenly over the 3 ranks" \
    "strategy.stack=$cp:3"
refused cyclic "run.exact with the time of samples split over 'cp' needs the sums of whole" \
    "strategy.stack=$cp:2,zero:2" run.exact=yes zero.stage=2 zero.reduce=microbatch
refused level "run.exact with the time .* 'hsdp' reduces along 'rep' at level 64" \
    "strategy.stack=$cp:2,hsdp:2,ddp:2" run.exact=yes hsdp.level=64
train ecg beats 2 data.task=beats model.head=classify "strategy.stack=$cp:2"
says beats "a classification head reads the last token"

# The conformance kit finds no fault in it: sizes that divide, and bits that R alone decides.
runs kit 0 "$cadre" check "$cp" --only E2,R2
grep -q '^# 2 pass, 0 fail' "$tmp/kit.out" || fail "$(cat "$tmp/kit.out")"
