#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pipeline's schedules whose first rank also ends the model (zb-v, dualpipev), and
# breadth-first: the bits of `single` where nothing divides, tied and not, clipped, with 3 and
# more micro-batches a rank, with activation checkpointing, in stacks, through a checkpoint; the
# slots and bytes are those promised; what they cannot do is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# 5 blocks over 4 and 6 chunks, 3 heads, 29 tokens; micro-batches of 2
common="run.exact=yes train.steps=3 train.eval_batches=2 model.layers=5 model.channels=36
    model.heads=3 model.context=29 optim.clip=0.5"

# shellcheck disable=SC2086 # words
run() { # NAME STATUS [s.k=v]...
    train text "$1" "$2" $common "${@:3}"
}

valid() {
    tail -n 1 "$tmp/$1/metrics.jsonl" | grep -o '"valid_loss": [^,}]*'
}

# piped REFERENCE SCHEDULE STACK [s.k=v]...: the same bits as the reference.
piped() {
    run piped 0 "pipeline.schedule=$2" "strategy.stack=$3" "${@:4}"
    echo "${*:2}"
    same "$1" piped
    [ "$(valid "$1")" = "$(valid piped)" ] || fail "${*:2}: validation differs"
    rm -r "$tmp/piped"
}

three="train.global_batch=6" # micro-batches
six="train.global_batch=12"
llama="model.arch=llama model.kv_heads=1"
run tied3 0 $three
run tied6 0 $six
run llama6 0 $six $llama
# shellcheck disable=SC2086 # words
{
    piped tied3 zb-v pipeline:2 $three train.recompute=block
    piped tied6 zb-v pipeline:3 $six comm.ranks=processes
    piped llama6 zb-v pipeline:3 $six $llama
    piped tied6 zb-v pipeline:1 $six
    piped tied6 dualpipev pipeline:2 $six
    piped tied6 dualpipev pipeline:3 $six train.recompute=block
    piped llama6 dualpipev pipeline:3 $six $llama 'pipeline.balance=1 2 1 1 1 1'
    piped tied3 breadth-first pipeline:2 $three
    piped tied6 breadth-first pipeline:2 $six pipeline.chunks=3 train.recompute=block
    piped llama6 breadth-first pipeline:3 $six $llama
}

if [ "$slow" = 1 ]; then # deeper: 16 parts of 16 units, 16 micro-batches
    deep="model.layers=14 train.global_batch=32"
    # shellcheck disable=SC2086
    run deep 0 $deep
    for stages in 4 5 8; do
        for schedule in zb-v dualpipev breadth-first; do
            # shellcheck disable=SC2086
            piped deep $schedule "pipeline:$stages" $deep
        done
    done
    rm -r "$tmp/deep"
fi

# Over data ranks, each with 4 micro-batches, and over tensor.
run tied8 0 train.global_batch=16
for line in "zb-v 1" "dualpipev 2" "breadth-first 3" "zb-v 3" "dualpipev 3"; do
    read -r schedule stage <<<"$line"
    piped tied8 "$schedule" "pipeline:2, zero:2" train.global_batch=16 \
        "zero.stage=$stage" zero.prefetch=2
done
piped tied8 zb-v "pipeline:2, zero:2" train.global_batch=16 zero.stage=2 \
    zero.reduce=microbatch train.recompute=block
piped tied8 zb-v "ddp:2, pipeline:3" train.global_batch=16
heads="model.heads=2 model.channels=32" # tensor divides heads
# shellcheck disable=SC2086
{
    run tensor 0 $six $heads strategy.stack=tensor:2
    piped tensor zb-v "pipeline:2, tensor:2" $six $heads
    piped tensor dualpipev "pipeline:2, tensor:2" $six $heads
}

# One's checkpoint continues under the other.
run on 0 $six strategy.stack=pipeline:2 pipeline.schedule=zb-v train.steps=4 \
    "checkpoint.resume=$(last tied6)"
run through 0 $six train.steps=4
[ "$(losses through | tail -n 1)" = "$(losses on)" ] || fail "resumed otherwise"
run back 0 $six strategy.stack=pipeline:3 pipeline.schedule=dualpipev train.steps=5 \
    "checkpoint.resume=$(last on)"
run further 0 $six train.steps=5
[ "$(losses further | tail -n 1)" = "$(losses back)" ] || fail "went back otherwise"

# slots SCHEDULE STACK IN-FLIGHT [BLOCKS]: each chunk's in the plan of 6 micro-batches, and the
# sum that a rank keeps at most, where a chunk has one block.
slots() {
    local sets in_flight together
    # shellcheck disable=SC2086
    settings $common $six "pipeline.schedule=$1" "strategy.stack=$2" model.layers=$((2 * ${2#*:}))
    "$cadre" train "$tmp/text.ini" --dry-run "${sets[@]}" \
        --set "pipeline.balance=2$(printf ' 1%.0s' $(seq $((2 * ${2#*:} - 2)))) 2" \
        >"$tmp/plan" 2>&1 || fail "--dry-run of $*: $(cat "$tmp/plan")"
    in_flight=$(sed -n 's/.*, \([0-9]*\) in flight.*/\1/p' "$tmp/plan" | tr '\n' ' ')
    together=$(sed -n 's/.*together: \([0-9]*\) blocks.*/\1/p' "$tmp/plan" | tr '\n' ' ')
    [ "$in_flight, $together" = "$3 , $4 " ] ||
        fail "$1, $2: expected $3 slots, $4 together, found: $(cat "$tmp/plan")"
}
slots zb-v pipeline:2 '4 1 3 2' '4 4'
slots zb-v pipeline:3 '6 1 5 2 4 3' '6 6 6'
slots dualpipev pipeline:2 '4 1 3 2' '5 5'
slots dualpipev pipeline:3 '6 1 5 2 4 3' '7 7 7'
slots breadth-first pipeline:2 '6 6 6 6' '12 12'

# sent SCHEDULE [s.k=v]...: bytes of a step of 6 micro-batches, in $bytes.
sent() {
    local steps before=0 after=0
    for steps in 1 2; do
        rm -rf "$tmp/sent"
        run sent 0 $six strategy.stack=pipeline:2 checkpoint.every=0 train.eval_every=0 \
            "pipeline.schedule=$1" "${@:2}" train.steps=$steps
        before=$after
        after=$(sed -nE 's/^  "comm_bytes": *([0-9]+).*/\1/p' "$tmp/sent/summary.json")
    done
    bytes=$((after - before))
}
# Both uses of a tied weight are on the first rank where chunks run back: nothing is sent, but for
# what ranks tell each other besides, which differs by some bytes.
sent zb-v
tied=$bytes
sent zb-v model.tied=no
untied=$bytes
sent 1f1b
there=$bytes
sent 1f1b model.tied=no
alone=$bytes
echo "zb-v sends $tied bytes tied, $untied not; 1f1b $there and $alone"
[ $((tied - untied)) -lt 1000 ] || fail "zb-v sends $((tied - untied)) bytes of a tied weight"
[ $((there - alone)) -gt 10000 ] || fail "1f1b sends no tied weight"
# 4 (p-1) m a, of which 2 (P-1) m a would be that of other chunks
a=$((4 * 2 * 29 * 36))
awk -v b="$tied" -v w=$((4 * 6 * a)) 'BEGIN { exit !(b >= w && b < 1.02 * w) }' ||
    fail "zb-v sends $tied bytes a step, expected $((4 * 6 * a))"

# A chunk of one unit is gathered for all of its micro-batches at once.
single_units="model.layers=4 pipeline.chunks=3 zero.stage=3 train.global_batch=16"
# shellcheck disable=SC2086
sent breadth-first $single_units "strategy.stack=pipeline:2, zero:2"
breadth=$bytes
# shellcheck disable=SC2086
sent interleaved $single_units "strategy.stack=pipeline:2, zero:2"
depth=$bytes
echo "over zero stage 3 breadth-first sends $breadth bytes, interleaved $depth"
[ "$breadth" -lt $((depth * 3 / 4)) ] || fail "breadth-first gathers as often as interleaved"

refused few 'dualpipev with 2 stages: 3 micro-batches on each rank, expected at least 4' \
    strategy.stack=pipeline:2 pipeline.schedule=dualpipev train.global_batch=6
refused half 'dualpipev with 2 stages: 3 micro-batches on each rank' \
    "strategy.stack=pipeline:2, ddp:2" pipeline.schedule=dualpipev train.global_batch=12
refused three 'pipeline.chunks = 3 with pipeline.schedule = zb-v: expected 2' \
    strategy.stack=pipeline:2 pipeline.schedule=zb-v pipeline.chunks=3
refused one 'pipeline.chunks = 1 with pipeline.schedule = breadth-first: expected 2 or more' \
    strategy.stack=pipeline:2 pipeline.schedule=breadth-first pipeline.chunks=1
refused units '3 stages and pipeline.chunks is 2: 6 chunks.*4 units' \
    strategy.stack=pipeline:3 pipeline.schedule=zb-v
