#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pipeline: every schedule has the bits of `single`, alone and in stacks, whatever the
# number of stages, what a rank is, tied or not; it evaluates, saves and resumes; the
# slots are those promised; what cannot be partitioned is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

common="run.exact=yes train.steps=4 train.global_batch=16"

# shellcheck disable=SC2086 # words
run() { # NAME STATUS [s.k=v]...
    local name=$1 status=$2
    shift 2
    train text "$name" "$status" $common "$@"
}

valid() {
    tail -n 1 "$tmp/$1/metrics.jsonl" | grep -o '"valid_loss": [^,}]*'
}

# piped REFERENCE SCHEDULE STACK [s.k=v]...: the same bits as the reference.
piped() {
    local reference=$1
    run piped 0 "pipeline.schedule=$2" "strategy.stack=$3" "${@:4}"
    same "$reference" piped
    [ "$(valid "$reference")" = "$(valid piped)" ] || fail "$*: validation differs"
    rm -r "$tmp/piped"
}

run tied 0
run four 0 model.layers=6
run llama 0 model.arch=llama model.kv_heads=1 model.layers=3
# Instrumented builds do every N-th thing of a loop: another one of each schedule and stage.
turn=0
sampled() { # N: whether this one is done
    turn=$((turn + 1))
    [ "$lean" != 1 ] || [ $((turn % $1)) -eq 0 ]
}
for schedule in gpipe 1f1b interleaved zb-h1; do
    ! sampled 3 || piped tied "$schedule" pipeline:2
    ! sampled 3 || piped tied "$schedule" "pipeline:2, ddp:2" train.recompute=block
    ! sampled 3 || piped four "$schedule" pipeline:4 model.layers=6 comm.ranks=processes
    ! sampled 3 || piped llama "$schedule" pipeline:2 model.arch=llama model.kv_heads=1 \
        model.layers=3
done
piped tied 1f1b pipeline:1
piped tied interleaved pipeline:1
piped tied zb-h1 pipeline:3 train.recompute=block
piped tied 1f1b pipeline:2 'pipeline.balance=1 3'
piped four interleaved pipeline:2 model.layers=6 pipeline.balance=measured
piped four interleaved pipeline:2 model.layers=6 pipeline.chunks=4

# Over data ranks that share states, gradients and parameters; the hints of what comes next
# are what stage 3 fetches ahead by.
for stage in 1 2 3; do
    for schedule in 1f1b interleaved zb-h1; do
        sampled 4 || continue
        piped four "$schedule" "pipeline:2, zero:2" model.layers=6 "zero.stage=$stage" \
            zero.prefetch=2
    done
done
piped four zb-h1 "pipeline:2, zero:2" model.layers=6 zero.stage=3 zero.reduce=microbatch \
    comm.ranks=processes train.recompute=block

# A tensor run has its own bits, and a pipeline of it has those.
for rows in no yes; do
    [ "$lean" != 1 ] || [ $rows = yes ] || continue
    option="tensor.sequence_parallel=$rows"
    run tensor 0 strategy.stack=tensor:2 "$option"
    for schedule in gpipe zb-h1; do
        piped tensor "$schedule" "pipeline:2, tensor:2" "$option"
    done
    piped tensor 1f1b "pipeline:2, tensor:2, zero:2" "$option" zero.stage=3
    rm -r "$tmp/tensor"
done

if [ "$slow" = 1 ]; then
    run odd 0 train.global_batch=14
    run few 0 train.global_batch=4 model.layers=6
    run llama64 0 model.arch=llama model.layers=6 train.precision=fp64
    count=0
    for schedule in gpipe 1f1b interleaved zb-h1; do
        for stages in 1 2 3 4; do
            for recompute in none block; do # the two models take turns, or both run
                if [ "$full" = 1 ] || [ $(((count + count / 2 + count / 8) % 2)) -eq 0 ]; then
                    piped four "$schedule" "pipeline:$stages" model.layers=6 \
                        "train.recompute=$recompute"
                fi
                if [ "$full" = 1 ] || [ $(((count + count / 2 + count / 8) % 2)) -eq 1 ]; then
                    piped llama64 "$schedule" "pipeline:$stages" model.arch=llama \
                        model.layers=6 train.precision=fp64 comm.ranks=processes \
                        "train.recompute=$recompute"
                fi
                count=$((count + 1))
            done
        done
        piped odd "$schedule" pipeline:2 train.global_batch=14
        piped four "$schedule" "ddp:2, pipeline:3" model.layers=6
        piped four "$schedule" "pipeline:2, ddp:4" model.layers=6
        piped few "$schedule" pipeline:3 train.global_batch=4 model.layers=6
    done
fi

# The heads of classification too.
sets="run.exact=yes train.steps=3 data.task=vbd model.head=classify model.layers=3"
# shellcheck disable=SC2086
train ecg vbd 0 $sets
for schedule in 1f1b zb-h1; do
    # shellcheck disable=SC2086
    train ecg "vbd-$schedule" 0 $sets strategy.stack=pipeline:2 \
        "pipeline.schedule=$schedule"
    same vbd "vbd-$schedule"
done

# One's checkpoint continues under the other.
run on 0 strategy.stack=pipeline:2 train.steps=6 "checkpoint.resume=$(last tied)"
run through 0 train.steps=6
[ "$(losses through | tail -n 2)" = "$(losses on)" ] || fail "resumed otherwise"
run back 0 train.steps=6 "checkpoint.resume=$(last on)" train.steps=7
run further 0 train.steps=7
[ "$(losses further | tail -n 1)" = "$(losses back)" ] || fail "went back otherwise"

# The slots of each rank, at 8 micro-batches.
slots() { # SCHEDULE STACK WANT...
    local schedule=$1 stack=$2
    "$cadre" train "$tmp/text.ini" --dry-run --set model.layers=6 --set "strategy.stack=$stack" \
        --set train.global_batch=16 --set "pipeline.schedule=$schedule" >"$tmp/plan" 2>&1 ||
        fail "--dry-run of $stack: $(cat "$tmp/plan")"
    [ "$(sed -n 's/.*, \([0-9]*\) in flight.*/\1/p' "$tmp/plan" | tr '\n' ' ')" = "$3 " ] ||
        fail "$schedule, $stack: expected $3 slots, found: $(cat "$tmp/plan")"
}
slots gpipe pipeline:2 '8 8'
slots gpipe 'pipeline:2, ddp:2' '4 4 4 4'
slots 1f1b pipeline:4 '4 3 2 1'
slots zb-h1 pipeline:4 '4 4 4 4'
slots interleaved pipeline:2 '4 2 3 1'
# chunks of 1 and 2 blocks, of 2 and 1: fewer than 4 * 1 + 2 * 2 and 3 * 2 + 1 * 1
[ "$(sed -n 's/.*together: \([0-9]*\) blocks.*/\1/p' "$tmp/plan" | tr '\n' ' ')" = "7 6 " ] ||
    fail "blocks of interleaved: $(cat "$tmp/plan")"

refused stages '5 stages.*4 units.*model.layers = 2' strategy.stack=pipeline:5
refused chunks6 '6 chunks.*4 units' strategy.stack=pipeline:2 pipeline.chunks=3 \
    pipeline.schedule=interleaved
refused chunks 'pipeline.chunks = 2 with pipeline.schedule = 1f1b' \
    strategy.stack=pipeline:2 pipeline.chunks=2
refused word "pipeline.balance: expected counted, measured, or.*found 'even'" strategy.stack=pipeline:2 \
    pipeline.balance=even
refused sum '2 chunks of 5 units, expected 2 chunks .* of 4 units' \
    strategy.stack=pipeline:2 'pipeline.balance=2 3'
