#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# zero against single: the same bits in exact mode for every stage, size, way of reducing,
# prefetch and offload; close to it otherwise. CADRE_TEST_SLOW=1 takes every pair of these and
# of three models, =2 every combination.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

steps=4
exact() { # NAME [s.k=v]...
    local name=$1
    shift
    train text "$name" 0 run.exact=yes train.steps=$steps "$@"
}

# held BASE [s.k=v]...: a run of zero with these has the bits of BASE.
held() {
    local base=$1
    shift
    exact zero "$@"
    same "$base" zero
    rm -r "${tmp:?}/zero"
}

# Every stage, size and way of reducing of one model, in one of three ways to fetch and to
# compute; in all of them where every combination is asked for.
models=0
cells=0
every() { # BASE [s.k=v]...
    local base=$1 ranks stage reduce way
    local ways=(
        ""
        "zero.prefetch=0 zero.overlap=no train.recompute=block device.threads=2"
        "zero.prefetch=3 zero.bucket_mb=0.01 zero.offload=optimizer comm.ranks=processes"
    )
    shift
    for ranks in 1 2 4; do
        for stage in 1 2 3; do
            for reduce in step microbatch; do
                if [ "$stage-$reduce" = 1-microbatch ]; then
                    continue
                fi
                for way in 0 1 2; do
                    [ "$full" = 1 ] || [ $(((way + cells + models) % 3)) -eq 0 ] || continue
                    # shellcheck disable=SC2086 # words
                    held "$base" "$@" "strategy.stack=zero:$ranks" "zero.stage=$stage" \
                        "zero.reduce=$reduce" ${ways[way]}
                done
                cells=$((cells + 1))
            done
        done
    done
    models=$((models + 1))
}

llama="model.arch=llama model.kv_heads=1"
odd="model.channels=20 model.heads=2 model.context=24" # fewer than a unit, no power of 2
exact gpt2
# shellcheck disable=SC2086 # words
exact llama $llama train.precision=fp64
# shellcheck disable=SC2086
exact odd $odd
if [ "$slow" = 1 ]; then
    every gpt2
    # shellcheck disable=SC2086
    every llama $llama train.precision=fp64
    # shellcheck disable=SC2086
    every odd $odd
else
    held gpt2 strategy.stack=zero:2
    held gpt2 strategy.stack=zero:4 zero.stage=2 zero.reduce=microbatch
    held gpt2 strategy.stack=zero:2 zero.stage=3 comm.ranks=processes
    # shellcheck disable=SC2086
    held llama $llama train.precision=fp64 strategy.stack=zero:4 zero.stage=3 \
        train.recompute=block zero.prefetch=0
    # shellcheck disable=SC2086
    held odd $odd strategy.stack=zero:4 zero.stage=3 zero.reduce=microbatch \
        zero.overlap=no zero.offload=optimizer
fi

# Below a pipeline, whose stages share the tied weights; backward in two parts too.
stages="strategy.stack=pipeline:2,zero:2"
if [ "$slow" = 1 ]; then
    for schedule in gpipe 1f1b zb-h1; do
        for stage in 1 2 3; do
            held gpt2 "$stages" "pipeline.schedule=$schedule" "zero.stage=$stage"
            # shellcheck disable=SC2086
            held llama $llama train.precision=fp64 "$stages" \
                "pipeline.schedule=$schedule" "zero.stage=$stage" zero.prefetch=2
            if [ "$stage" != 1 ]; then
                # shellcheck disable=SC2086
                held odd $odd "$stages" "pipeline.schedule=$schedule" \
                    "zero.stage=$stage" zero.reduce=microbatch train.recompute=block
            fi
        done
    done
else
    held gpt2 "$stages" zero.stage=3 zero.reduce=microbatch pipeline.schedule=zb-h1
fi

# Gathered parameters stay within what the plan said, wherever the schedule goes on after a
# pass: the last unit and the first one of another chunk, here the largest, at once.
large="model.vocab=1000 model.tied=no model.layers=4 run.exact=yes train.steps=2"
# shellcheck disable=SC2086
train text large 0 $large
for ahead in 1 2; do
    for way in "pipeline:1,zero:2 gpipe" "pipeline:1,zero:2 zb-h1" \
        "pipeline:2,zero:2 interleaved" "pipeline:2,zero:2 gpipe"; do
        # shellcheck disable=SC2086
        train text far 0 $large "strategy.stack=${way% *}" "pipeline.schedule=${way#* }" \
            zero.stage=3 "zero.prefetch=$ahead"
        same large far
        rm -r "$tmp/far"
    done
done

# Without exact only the order of the sums differs.
train text single 0
for stage in 1 2 3; do
    train text "close-$stage" 0 strategy.stack=zero:4 "zero.stage=$stage"
    close_to single "close-$stage" 1e-6 2e-2
done

# What makes no sense is refused before anything is made.
train text refused 2 strategy.stack=zero:2 zero.reduce=microbatch
says refused 'zero.reduce = microbatch with zero.stage = 1'
train text both 2 strategy.stack=ddp:2,zero:2
says both "'(ddp|zero)'.*'(ddp|zero)'"

# The summary says where memory went, host memory separately.
train text memory 0 train.steps=2 strategy.stack=zero:2 zero.stage=3 zero.offload=optimizer
for tag in parameters gradients 'optimizer states (host)' 'zero: gathered parameters'; do
    grep -F "\"$tag\": [" "$tmp/memory/summary.json" >/dev/null || fail "no memory of $tag"
done
if grep -F '"optimizer states": [' "$tmp/memory/summary.json"; then
    fail "optimizer states on the device in spite of zero.offload"
fi
[ ! -e "$tmp/refused" ] || fail "a refused run left a folder"
