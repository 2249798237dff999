#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.recut: a rank takes several times as long as the others, and at a checkpoint the stages of
# the pipeline are cut again, so that it has fewer units. Losses, gradient norms and checkpoints
# stay those of `single`, bit for bit, with clipping, accumulation, tied weights and recompute,
# under every stack, through a signal, the loss of a rank, and a resume under another stack.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

slow_rank=$(test_plugin slow_rank)
common=(run.exact=yes model.layers=5 train.steps=8 train.global_batch=8 train.eval_batches=1
    train.recompute=block)
# The first rank of the schedule is slow; all pipelines here have two stages.
cuts=("${common[@]}" pipeline.balance=measured run.recut=0.05 checkpoint.every=3
    "strategy.plugin_path=${slow_rank%/*}" slow_rank.times=5)

# first_stage CUT: units of the first of two stages.
first_stage() {
    awk '{ for (i = 1; i <= NF; i += 2) n += $i; print n }' <<<"$1"
}

# was_cut NAME: the log names both cuts, and the slow stage has fewer units than before.
was_cut() {
    local line from to
    line=$(grep -m 1 'run.recut: units of each chunk ' "$tmp/$1.log") ||
        fail "$1: was not cut again: $(cat "$tmp/$1.log")"
    from=$(sed -E 's/.*chunk ([0-9 ]+) become .*/\1/' <<<"$line")
    to=$(sed -E 's/.* become ([0-9 ]+) after step .*/\1/' <<<"$line")
    [ "$(first_stage "$to")" -lt "$(first_stage "$from")" ] ||
        fail "$1: the slow stage has no fewer units: $line"
    grep -q "\"from\": \"$from\"" "$tmp/$1/recuts.json" || fail "$1: $from is not in recuts.json"
}

# recut LIKE NAME STACK [s.k=v]...: has the bits of LIKE, and every step once.
recut() {
    local like=$1 name=$2 stack=$3
    shift 3
    train text "$name" 0 "${cuts[@]}" "strategy.stack=$stack, slow_rank:1" "$@"
    was_cut "$name"
    same "$like" "$name"
    [ "$(wc -l <"$tmp/$name/metrics.jsonl")" -eq 8 ] || fail "$name: other steps in the metrics"
    grep -q '"recuts"' "$tmp/$name/summary.json" || fail "$name: no recuts in summary.json"
    ! grep -q '"comm_bytes": null' "$tmp/$name/summary.json" || fail "$name: bytes are unknown"
}
train text single 0 "${common[@]}"
train text three 0 "${common[@]}" train.global_batch=6 # 3 micro-batches, on 2 stages
recut three threads pipeline:2 train.global_batch=6
grep -q 'stages cut again' "$tmp/threads/run.html" || fail "threads: run.html does not say it"
recut single processes "pipeline:2, zero:2" comm.ranks=processes zero.stage=3 \
    checkpoint.async=yes
if [ "$lean" != 1 ]; then
    # the slow rank is in the other replica, and sets the pace of its stage in both
    recut single replicas "ddp:2, pipeline:2" pipeline.schedule=zb-h1 slow_rank.rank=2
    recut three chunks pipeline:2 pipeline.schedule=interleaved train.global_batch=6
    train text split 0 "${common[@]}" strategy.stack=tensor:2
    recut split both "pipeline:2, tensor:2" comm.ranks=processes
fi

# ---- what it takes ----
train text calm 0 "${cuts[@]}" "strategy.stack=pipeline:2, slow_rank:1" run.recut=1
[ ! -e "$tmp/calm/recuts.json" ] || fail "calm: was cut again, whatever is gained"
same single calm

# Any checkpoint of it resumes under any stack, as do others under it.
cp -r "$tmp/threads" "$tmp/resumed"
rm -r "$tmp/resumed/checkpoints/step-00000006" "$tmp/resumed/checkpoints/step-00000008"
train text resumed 0 "${common[@]}" strategy.stack=zero:1 train.global_batch=6 \
    checkpoint.resume=auto
same three resumed
train text half 0 "${common[@]}" train.steps=2
train text half 0 "${cuts[@]}" "strategy.stack=pipeline:2, slow_rank:1" checkpoint.resume=auto
was_cut half
same single half

# ---- a signal, and the loss of a rank, after the cut ----
is_cut() { # NAME
    grep -q 'run.recut: units' "$tmp/$1.log"
}
start text asked "${cuts[@]}" "strategy.stack=pipeline:2, slow_rank:1" train.steps=1000000
until_so asked "cut" is_cut asked
kill -TERM "$pid"
ends asked 4
no_orphan asked
train text asked 0 "${cuts[@]}" "strategy.stack=pipeline:2, slow_rank:1" \
    train.steps=$(($(wc -l <"$tmp/asked/metrics.jsonl") + 1)) checkpoint.resume=auto

saved() { # NAME BEFORE: there is another checkpoint than BEFORE
    [ "$(last "$1")" != "$2" ]
}
start text lost "${cuts[@]}" "strategy.stack=pipeline:2, ddp:2, slow_rank:1" run.elastic=yes \
    comm.ranks=processes comm.link=1:3000 train.steps=24 checkpoint.every=2 run.recut=0.4
until_so lost "cut" is_cut lost
until_so lost "checkpoint with the new cut" saved lost "$(last lost)"
kill -KILL "$(rank_of "$pid" 1)"
ends lost 0
no_orphan lost
grep -q "run.elastic continues with pipeline:2, ddp:1" "$tmp/lost.log" || fail "lost: lost nobody"
train text longer 0 "${common[@]}" train.steps=24
same longer lost

# ---- refused ----
refused counted "run.recut = 0.1 .* in strategy.stack = pipeline:2 no plugin cuts by them; set" \
    strategy.stack=pipeline:2 run.recut=0.1
refused none "no plugin cuts by them; set pipeline.balance = measured" strategy.stack=ddp:2 \
    run.recut=0.1
refused never "checkpoint.every = 0 makes none on the way" strategy.stack=pipeline:2 \
    pipeline.balance=measured run.recut=0.1 checkpoint.every=0
train text alone 0 "${common[@]}" run.recut=0.1 train.steps=1 # nothing to cut
