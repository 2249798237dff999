#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train.precision = bf16 and fp16: near fp32, the same bits under every strategy that
# promises them, resumed by another, and overflows skipped by all ranks alike.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

# The last loss of a run.
last_loss() {
    tail -n1 "$tmp/$1/metrics.jsonl" | sed -E 's/.*"loss": ?([^,]+),.*/\1/'
}

# near A B: the last losses of the two runs differ by less than 2 %. Rounding to 8 bits of
# mantissa is 0.4 % of a value; losses here have fallen by a third and more.
near() {
    awk -v a="$(last_loss "$1")" -v b="$(last_loss "$2")" 'BEGIN {
        d = a > b ? a - b : b - a
        print "last losses", a, "and", b
        exit !(d < 0.02 * b)
    }' || fail "$1 does not train as $2 does"
}

# ---- near fp32, and not fp32 itself ----
for conf in text ecg; do
    train "$conf" "$conf-fp32" 0
    for precision in bf16 fp16; do
        train "$conf" "$conf-$precision" 0 train.precision=$precision
        near "$conf-$precision" "$conf-fp32"
        ! cmp -s "$(last "$conf-$precision")/model.safetensors" \
            "$(last "$conf-fp32")/model.safetensors" || fail "$precision computes in fp32"
    done
done
train text llama-fp32 0 model.arch=llama
train text llama-bf16 0 model.arch=llama train.precision=bf16 train.recompute=block
near llama-bf16 llama-fp32
grep -q '"loss_scale": 65536, "skipped": false' "$tmp/text-fp16/metrics.jsonl" ||
    fail "fp16 reports no loss scale"
! grep -q loss_scale "$tmp/text-bf16/metrics.jsonl" || fail "bf16 scales its loss"
head -c 1000 "$(last text-bf16)/model.safetensors" | grep -a '"dtype": *"F32"' >/dev/null ||
    fail "a checkpoint does not hold fp32 masters"

# ---- one rank or several, one placement or another: the same bits ----
four="model.layers=4"
precisions="bf16 fp16"
[ "$lean" != 1 ] || precisions=bf16
for precision in $precisions; do
    exact="run.exact=yes train.steps=6 train.precision=$precision $four"
    train text "$precision" 0 $exact
    train text "$precision-ddp" 0 $exact strategy.stack=ddp:2
    train text "$precision-zero" 0 $exact strategy.stack=zero:2 zero.stage=3
    train text "$precision-pipeline" 0 $exact strategy.stack=pipeline:2
    for stack in ddp zero pipeline; do
        same "$precision" "$precision-$stack"
    done
    train text "$precision-tensor" 0 $exact strategy.stack=tensor:2
    train text "$precision-both" 0 $exact "strategy.stack=ddp:2, tensor:2"
    same "$precision-tensor" "$precision-both"
    near "$precision-tensor" "$precision"
done
train text bf16-zero-offload 0 run.exact=yes train.steps=6 train.precision=bf16 $four \
    strategy.stack=zero:2 zero.stage=2 zero.offload=optimizer comm.ranks=processes
same bf16 bf16-zero-offload

# ---- a checkpoint's masters continue under any strategy ----
for precision in $precisions; do
    exact="run.exact=yes train.precision=$precision $four"
    go="$exact checkpoint.resume=auto"
    train text "$precision-parts" 0 $exact train.steps=2 strategy.stack=zero:2 zero.stage=3
    train text "$precision-parts" 0 $go train.steps=4 strategy.stack=pipeline:2
    train text "$precision-parts" 0 $go train.steps=6
    same "$precision" "$precision-parts"
done
# begun in one precision, gone on in another
train text mixed 0 $four run.exact=yes train.steps=2 train.precision=bf16
train text mixed 0 $four run.exact=yes train.steps=6 checkpoint.resume=auto
near mixed bf16

# ---- overflows ----
# 2^32 times the gradients is more than fp16 holds: steps are skipped until they fit, by all
# ranks alike, and count for neither the learning rate nor the optimizer.
over="train.precision=fp16 train.loss_scale=4294967296 run.exact=yes optim.warmup=5"
train text over 0 $over
skipped=$(grep -c '"skipped": true' "$tmp/over/metrics.jsonl" || true)
if [ "$skipped" -eq 0 ] || [ "$skipped" -ge 20 ]; then
    fail "$skipped of 20 steps are skipped"
fi
echo "a loss scale of 2^32: $skipped of 20 steps skipped"
head -n1 "$tmp/over/metrics.jsonl" | grep '"grad_norm": null.*"skipped": true' >/dev/null ||
    fail "the first step is not skipped"
train text none 0 $over train.steps=1
train text begin 0 $over train.steps=1 train.precision=fp32 optim.lr=0 optim.weight_decay=0
cmp "$(last none)/model.safetensors" "$(last begin)/model.safetensors" ||
    fail "a skipped step changes parameters"
for stack in ddp:2 pipeline:2; do
    train text "over-$stack" 0 $over "strategy.stack=$stack"
    same over "over-$stack"
done
train text over-zero 0 $over strategy.stack=zero:2 zero.stage=3 comm.ranks=processes
same over over-zero
# the scale and the counts are in the checkpoint
train text over-parts 0 $over train.steps=$((skipped - 1))
train text over-parts 0 $over train.steps=$((skipped + 2)) checkpoint.resume=auto \
    strategy.stack=ddp:2
train text over-parts 0 $over checkpoint.resume=auto checkpoint.async=yes \
    checkpoint.every=1
same over over-parts
grep -q '"loss_scale_good"' "$(last over-parts)/state.json" ||
    fail "the loss scale is not saved"

# ---- refused in words ----
train text refused 2 train.precision=fp16 strategy.stack=ddp:2 ddp.compress=topk:0.1
says refused "ddp.compress = int8, topk.*train.precision = fp16"
train text refused 2 train.precision=fp16 train.loss_scale=1000
says refused "train.loss_scale = 1000.*power of two"
