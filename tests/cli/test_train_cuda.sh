#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training on the CUDA device, whose runtime the tests' stand-in plays: a few steps of both
# model forms end near the CPU's, and what runs late is waited for. Where the stand-in was
# not built, this skips.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ ! -e "$standin/device_cuda.so" ]; then
    echo "SKIP: the stand-in of CUDA was not built (no C++ compiler)"
    exit 77
fi
export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg

last_loss() {
    tail -n1 "$tmp/$1/metrics.jsonl" | sed -E 's/.*"loss": ?([^,]+),.*/\1/'
}

# near A B LIMIT: the last losses differ by less than LIMIT of themselves.
near() {
    awk -v a="$(last_loss "$1")" -v b="$(last_loss "$2")" -v limit="$3" 'BEGIN {
        d = a > b ? a - b : b - a
        print "last losses", a, "and", b
        exit !(d <= limit * b)
    }' || fail "$1 does not train as $2 does"
}

small="train.steps=3 train.global_batch=2 train.micro_batch=1 train.eval_batches=1 \
    model.context=16 model.layers=1"
[ "$lean" = 0 ] || small=${small/steps=3/steps=2}
train text cpu 0 device.kind=cpu $small
train text cuda 0 device.kind=cuda $small
near cuda cpu 1e-4
train text llama-cpu 0 device.kind=cpu model.arch=llama $small
train text llama-cuda 0 device.kind=cuda model.arch=llama run.verify=2 $small
near llama-cuda llama-cpu 1e-4
train text bf16-cpu 0 device.kind=cpu train.precision=bf16 $small
train text bf16-cuda 0 device.kind=cuda train.precision=bf16 run.verify=1 $small
near bf16-cuda bf16-cpu 1e-2

# Rounded products: in fp64, as in fp32 a code may be rounded the other way.
archs="gpt2 llama"
[ "$lean" = 0 ] || archs=llama
for arch in $archs; do
    qat="tune.method=qat tune.group=8 train.precision=fp64 model.arch=$arch"
    train text qat-$arch-cpu 0 device.kind=cpu $qat $small
    train text qat-$arch-cuda 0 device.kind=cuda $qat $small
    near qat-$arch-cuda qat-$arch-cpu 1e-12
done

# Dropout: in every step and micro-batch the CPU's masks, which a captured pass would repeat.
lora="tune.method=lora tune.rank=4 tune.dropout=0.5 optim.lr=0.05 data.tokenizer=byte \
    train.precision=fp64 $small train.steps=5"
train text lora-cpu 0 device.kind=cpu "model.init=$(last cpu)" $lora
train text lora-cuda 0 device.kind=cuda "model.init=$(last cpu)" $lora run.verify=1
near lora-cuda lora-cpu 1e-12

# Attention over the keys of other ranks is the CPU's alone. `auto` finds the device later, where
# there is a driver; any library plays it.
context=$(test_plugin context)
mkdir "$tmp/driver"
cp "$context" "$tmp/driver/libcuda.so.1"
export LD_LIBRARY_PATH=$tmp/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for kind in cuda auto; do
    refused context-$kind "'context' splits the time .*, which the device cuda cannot do" \
        device.kind=$kind "strategy.stack=$context:2" $small
done
refused experts 'model.experts = 2 with device.kind = cuda, which takes a GPU' \
    device.kind=cuda model.experts=2
[ ! -e "$tmp/experts" ] || fail "a run that is refused leaves no folder"
