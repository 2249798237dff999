#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Strategies on the CUDA device, whose runtime the tests' stand-in plays and which runs
# everything as late as it may: they train as the CPU does, also those that differ by design. Where the stand-in was not
# built, this skips.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ ! -e "$standin/device_cuda.so" ]; then
    echo "SKIP: the stand-in of CUDA was not built (no C++ compiler)"
    exit 77
fi
export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg

# SGD: where a gradient is near zero, AdamW would make a step of its rounding
small="model.channels=16 model.context=16 train.steps=2 train.global_batch=12 \
    train.eval_batches=1 optim.name=sgd optim.lr=0.1"

# cuda NAME [s.k=v]...: a run on the device ends where the CPU's does.
cuda() {
    train text "$1" 0 device.kind=cuda $small "${@:2}"
    grep -q '"device": *"cuda"' "$tmp/$1/summary.json" || fail "$1 ran elsewhere"
    close_to cpu "$1" 1e-5 1e-5
}

train text cpu 0 device.kind=cpu $small
cuda single # six micro-batches a step: both graphs
cuda zero strategy.stack=zero:2 zero.stage=2 zero.reduce=microbatch
if grep -q 'share GPU' "$tmp/zero.log"; then
    fail "zero: a message names GPUs that do not exist"
fi
export CADRE_STANDIN_DEVICES=3 # threads take the first, and say so
cuda shared strategy.stack=ddp:2
[ "$(grep -c 'share GPU 0 of 3; comm.ranks = processes' "$tmp/shared.log")" -eq 1 ] ||
    fail "shared: threads do not say that they share a GPU"
unset CADRE_STANDIN_DEVICES
cuda pipeline strategy.stack=pipeline:2 pipeline.schedule=zb-h1
if [ "$lean" != 1 ]; then
    cuda turning strategy.stack=pipeline:2 pipeline.schedule=zb-v
    cuda chunked model.head_rows=10 data.pinned=no train.recompute=block
    cuda ddp strategy.stack=ddp:2 ddp.bucket_mb=0.01
    cuda gathered strategy.stack=zero:2 zero.stage=3 zero.bucket_mb=0.01
    cuda offload strategy.stack=zero:2 zero.offload=optimizer
    cuda tensor strategy.stack=tensor:2
    cuda rows strategy.stack=tensor:2 tensor.sequence_parallel=yes
fi

# both NAME LOSS PARAM [s.k=v]...: what differs from single by design ends on the device where
# it ends on the CPU.
both() {
    train text "$1-cpu" 0 device.kind=cpu $small "${@:4}"
    train text "$1" 0 device.kind=cuda $small "${@:4}"
    close_to "$1-cpu" "$1" "$2" "$3"
}
both streaming 1e-5 1e-5 strategy.stack=diloco:2 train.steps=5 diloco.period=2 \
    diloco.fragments=2 diloco.overlap=1 diloco.mixing=0.5
if [ "$lean" != 1 ]; then
    # the sign of a moment that is nearly zero is that of its rounding: losses alone
    both onebit 1e-3 3 strategy.stack=ddp:2 train.steps=5 ddp.compress=onebit:2 \
        ddp.bucket_mb=0.01 optim.name=adamw optim.lr=1e-3
fi
