#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A schedule of a third-party plugin: two chunks a rank, activations sent, backward in INPUT
# and WEIGHT. It trains with the bits of the sequential one, alone and above ddp,
# with tied weights on two stages, evaluates, saves and resumes; and one that breaks the
# rules gets an error that names it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

plugin=$(test_plugin split_schedule)
common="run.exact=yes train.steps=4 train.global_batch=8"

# shellcheck disable=SC2086 # words
run() { # NAME STATUS [s.k=v]...
    local name=$1 status=$2
    shift 2
    train text "$name" "$status" $common "$@"
}

valid() {
    tail -n 1 "$tmp/$1/metrics.jsonl" | grep -o '"valid_loss": [^,}]*'
}

run sequential 0
for stack in "$plugin:1" "$plugin:2" "$plugin:2, ddp:2"; do
    run split 0 "strategy.stack=$stack"
    same sequential split
    [ "$(valid sequential)" = "$(valid split)" ] || fail "$stack: validation differs"
    rm -r "$tmp/split"
done
run split 0 "strategy.stack=$plugin:2" comm.ranks=processes train.recompute=block
same sequential split

# Partitioned by measured costs, which every rank gets: the same bits for any partition.
for ranks in threads processes; do
    rm -r "$tmp/split"
    run split 0 "strategy.stack=$plugin:2" split_schedule.measured=yes comm.ranks=$ranks
    same sequential split
    [ "$(grep -c '^ *[0-9]' "$tmp/split/unit_seconds.json")" -eq 4 ] ||
        fail "$ranks: expected the seconds of 4 units in unit_seconds.json"
done
[ ! -e "$tmp/sequential/unit_seconds.json" ] || fail "costs that nobody asked for"

# Another run's checkpoint, values of tied weights on both stages too; and untied ones.
run on 0 "strategy.stack=$plugin:2" train.steps=6 "checkpoint.resume=$(last sequential)"
run through 0 train.steps=6
[ "$(losses through | tail -n 2)" = "$(losses on)" ] || fail "resumed otherwise"
run llama 0 model.arch=llama
run llama-split 0 model.arch=llama "strategy.stack=$plugin:2"
same llama llama-split

run overlap 2 "strategy.stack=$plugin:2" split_schedule.fault=overlap
says overlap "runs unit 1 of the model 2 times"
run edge 1 "strategy.stack=$plugin:1" split_schedule.fault=edge
says edge 'needs a buffer'
run order 1 "strategy.stack=$plugin:1" split_schedule.fault=order
says order 'expected micro-batches in ascending order'
run skip 1 "strategy.stack=$plugin:1" split_schedule.fault=skip
says skip 'the schedule ended after backward of 3 of 4'
