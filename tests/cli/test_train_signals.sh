#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGINT, SIGTERM and SIGUSR1: all ranks agree on a step, save, and exit with 4. A second
# SIGINT ends the program at once. No process is left over. No run disturbs another one.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

stopped() { # SIGNAL NAME [s.k=v]...
    local signal=$1 name=$2 step
    shift 2
    start text "$name" train.steps=1000000 "$@"
    wait_steps "$name" 2
    kill "-$signal" "$pid"
    ends "$name" 4
    says "$name" "stopped by a signal.*checkpoint.resume=auto"
    step=$(wc -l <"$tmp/$name/metrics.jsonl")
    [ "$(last "$name")" = "$tmp/$name/checkpoints/$(printf 'step-%08d' "$step")" ] ||
        fail "$name: $step steps in the metrics, but the checkpoint is $(last "$name")"
    [ -e "$tmp/$name/summary.json" ] || fail "$name: no summary"
    grep -q "stopped after step $step of 1000000" "$tmp/$name/run.html" || fail "$name: no page"
    no_orphan "$name"
}
stopped INT single
stopped TERM threads strategy.stack=ddp:2
stopped INT stages "strategy.stack=pipeline:2, tensor:2" pipeline.schedule=interleaved
stopped USR1 processes strategy.stack=ddp:3 comm.ranks=processes train.global_batch=12

# Asked while the ranks are being started: their launcher, or a process that has no handler
# yet, keeps the signal for the first step.
for recompute in none block; do
    rm -rf "$tmp/early"
    start text early train.steps=1000000 strategy.stack=ddp:4 comm.ranks=processes \
        train.recompute=$recompute
    wait_begun early
    kill -TERM "$pid"
    ends early 4
    says early "stopped by a signal"
    no_orphan early
done

# Asked before the last step, which is made: nothing is left to stop or to continue.
batch=8192
[ "$lean" = 1 ] && batch=1024
start text finished train.steps=2 train.global_batch=$batch train.micro_batch=16
wait_begun finished
sleep 0.3 # likely into the first step; whichever it meets, what follows holds
kill -TERM "$pid" 2>/dev/null || true
ends finished "0|4"
if [ "$(wc -l <"$tmp/finished/metrics.jsonl")" -eq 2 ]; then
    grep -q "step 2/2.*valid" "$tmp/finished.log" || fail "finished: not evaluated"
    [ "$(last finished)" = "$tmp/finished/checkpoints/step-00000002" ] ||
        fail "finished: no checkpoint of its last step"
    ! grep -q "stopped by" "$tmp/finished.log" || fail "finished: said to be stopped"
fi

if [ "$slow" = 1 ]; then
    for signal in INT TERM USR1; do
        stopped "$signal" "s-$signal"
        stopped "$signal" "t-$signal" strategy.stack=ddp:4
        stopped "$signal" "p-$signal" strategy.stack=ddp:4 comm.ranks=processes
        stopped "$signal" "x-$signal" "strategy.stack=pipeline:2, zero:2" zero.stage=3 \
            comm.ranks=processes
    done
fi

# A folder at work is nobody else's: the second run is refused, and the first goes on.
start text ours train.steps=1000000 strategy.stack=ddp:2 comm.ranks=processes
wait_steps ours 2
settings checkpoint.resume=auto
runs theirs 2 "$cadre" train "$tmp/text.ini" --out "$tmp/ours" "${sets[@]}"
says theirs "'$tmp/ours' is in use by process [0-9]+ on .*: wait for its end"
before=$(wc -l <"$tmp/ours/metrics.jsonl")
wait_steps ours $((before + 2))
kill -TERM "$pid"
ends ours 4
no_orphan ours
train text ours 0 checkpoint.resume=auto "train.steps=$(($(wc -l <"$tmp/ours/metrics.jsonl") + 1))"

# A step that takes long: the second SIGINT does not wait for its end, after which the status
# would be 4. Two that meet before the program sees one are one, hence more of them.
twice() { # NAME STATUS [s.k=v]...
    local name=$1 ended=$2
    shift 2
    start text "$name" train.steps=1000 train.global_batch=65536 train.micro_batch=16 "$@"
    wait_begun "$name"
    kill -INT "$pid"
    sleep 0.3
    kill -0 "$pid" 2>/dev/null || fail "$name ended before the second SIGINT"
    while kill -INT "$pid" 2>/dev/null; do sleep 0.3; done
    ends "$name" "$ended"
    no_orphan "$name"
}
twice single-twice 130
twice threads-twice 130 strategy.stack=ddp:2
# the launcher lives and reports its ranks
twice processes-twice "1|130" strategy.stack=ddp:2 comm.ranks=processes
