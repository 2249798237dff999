#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.exact = yes: the same bits of losses, gradient norms, parameters and optimizer states
# whatever the number of ranks, what a rank is, how many threads it has, and whether
# activations are computed again. CADRE_TEST_SLOW=1 takes every pair of these and of the forms of
# the model, =2 every combination.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

steps=6
if [ "$slow" = 1 ]; then
    steps=20
fi
exact() { # NAME [s.k=v]...
    local name=$1
    shift
    train text "$name" 0 run.exact=yes train.steps=$steps "$@"
}

# Every size, kind of rank, number of threads and recompute of one model; a quarter of them
# otherwise, of which the four models have different ones.
models=0
every() { # NAME [s.k=v]...
    local name=$1 n ranks threads recompute run at count=0
    shift
    exact "$name" "$@"
    for n in 1 2 4 8; do
        for ranks in threads processes; do
            for threads in 1 2; do
                for recompute in none block; do
                    at=$((count + count / 4 + models))
                    count=$((count + 1))
                    [ "$full" = 1 ] || [ $((at % 4)) -eq 0 ] || continue
                    run=$name-$n-$ranks-$threads-$recompute
                    exact "$run" "$@" "strategy.stack=ddp:$n" "comm.ranks=$ranks" \
                        "device.threads=$threads" "train.recompute=$recompute"
                    same "$name" "$run"
                    rm -r "${tmp:?}/$run"
                done
            done
        done
    done
    exact "$name-single" "$@" device.threads=2 train.recompute=block
    same "$name" "$name-single"
    models=$((models + 1))
}

llama="model.arch=llama model.kv_heads=1"
if [ "$slow" = 1 ]; then
    for arch in "model.arch=gpt2" "$llama"; do
        for precision in fp32 fp64; do
            # shellcheck disable=SC2086 # words
            every "${arch//[^a-z0-9]/-}-$precision" $arch "train.precision=$precision"
        done
    done
else
    exact gpt2
    exact gpt2-2 strategy.stack=ddp:2 device.threads=2
    exact gpt2-4 strategy.stack=ddp:4 comm.ranks=processes train.recompute=block
    same gpt2 gpt2-2
    same gpt2 gpt2-4
    # shellcheck disable=SC2086
    exact llama $llama train.precision=fp64 train.recompute=block device.threads=2
    # shellcheck disable=SC2086
    exact llama-2 $llama train.precision=fp64 strategy.stack=ddp:2 ddp.bucket_mb=0.05
    same llama llama-2
fi

# A number of micro-batches that is no power of two, on one rank.
exact odd train.global_batch=14
exact odd-1 train.global_batch=14 strategy.stack=ddp:1 train.recompute=block
same odd odd-1

# The heads of classification too.
sets="run.exact=yes train.steps=$steps data.task=vbd model.head=classify"
# shellcheck disable=SC2086
train ecg vbd 0 $sets
# shellcheck disable=SC2086
train ecg vbd-2 0 $sets strategy.stack=ddp:2
same vbd vbd-2

# Without exact the bits are another matter: the mode does something.
train text loose 0 train.steps=$steps
if (same gpt2 loose) >"$tmp/said" 2>&1 || [ ! -e "$tmp/loose/summary.json" ]; then
    fail "a run without run.exact has the bits of exact mode"
fi
