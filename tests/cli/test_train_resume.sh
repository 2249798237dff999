#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run that stopped and continues has the bits of one that never stopped.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# stopped_and_resumed NAME [s.k=v]...: stopped by a signal whenever it arrives, then resumed
# for three steps more; against a run of as many steps without a stop.
stopped_and_resumed() {
    local name=$1 step sets
    shift
    sets=(optim.warmup=20 "$@")
    start text "$name-stopped" train.steps=1000000 "${sets[@]}"
    wait_steps "$name-stopped" 2
    kill -INT "$pid"
    ends "$name-stopped" 4
    step=$(basename "$(last "$name-stopped")")
    step=$((10#${step#step-} + 3))
    train text "$name-stopped" 0 "train.steps=$step" checkpoint.resume=auto "${sets[@]}"
    grep -q "resuming from" "$tmp/$name-stopped.log" || fail "$name-stopped began again"
    train text "$name" 0 "train.steps=$step" "${sets[@]}"
    same "$name" "$name-stopped"
    echo "$name: stopped after step $((step - 3)), resumed, the same bits"
}
stopped_and_resumed single
stopped_and_resumed ddp strategy.stack=ddp:2
if [ "$slow" = 1 ]; then
    stopped_and_resumed processes strategy.stack=ddp:2 comm.ranks=processes
    stopped_and_resumed bitwise run.exact=yes strategy.stack=ddp:4
    stopped_and_resumed sgd optim.name=sgd optim.momentum=0.9
    stopped_and_resumed wide train.precision=fp64 model.arch=llama
fi

# train.steps may differ on resume: 5 steps, then 12. The metrics continue at step 6.
train text short 0 train.steps=5
train text short 0 train.steps=12 checkpoint.resume=auto
train text whole 0 train.steps=12
same short whole
# The summary is of the whole run, as that of one that never stopped.
whole_run() { # NAME: what does not depend on time
    grep -E '"(first_step|steps|tokens|loss_first|loss_last|valid_loss|comm_bytes)"' \
        "$tmp/$1/summary.json"
}
diff <(whole_run short) <(whole_run whole) || fail "the summary of a resumed run has other figures"
train text short-2 0 train.steps=5 strategy.stack=ddp:2
train text short-2 0 train.steps=12 checkpoint.resume=auto strategy.stack=ddp:2
train text whole-2 0 train.steps=12 strategy.stack=ddp:2
[ "$(whole_run short-2 | grep -c .)" -eq 7 ] || fail "figures are missing"
diff <(whole_run short-2 | grep -v comm_bytes) <(whole_run whole-2 | grep -v comm_bytes) ||
    fail "the summary of a resumed run of two ranks has other figures"

# A schedule that ends elsewhere is told in one line, and only then.
jumps() { # NAME N: lines that say so
    [ "$(grep -c 'the learning rate jumps' "$tmp/$1.log")" -eq "$2" ] || {
        cat "$tmp/$1.log"
        fail "$1: expected $2 lines about the learning rate"
    }
}
jumps short 0 # a constant rate
train text curve 0 train.steps=6 optim.schedule=cosine checkpoint.every=3 checkpoint.keep=0
train text curve-on 0 train.steps=6 optim.schedule=cosine strategy.stack=ddp:2 \
    checkpoint.resume="$tmp/curve/checkpoints/step-00000003"
jumps curve-on 0
train text curve 0 train.steps=12 optim.schedule=cosine checkpoint.resume=auto \
    strategy.stack=ddp:2
jumps curve 1
grep -qE "curve/checkpoints/step-00000006' was saved at 0, and this run has 0\.0015 at step 6 \
\(optim.lr = 0\.003, cosine until train.steps = 12\)" "$tmp/curve.log" ||
    fail "the line about the learning rate: $(grep jumps "$tmp/curve.log")"

# checkpoint.every and keep; resume from one in the middle, into another folder.
train text every 0 train.steps=12 checkpoint.every=3 checkpoint.keep=0
count() {
    find "$tmp/$1/checkpoints" -name 'step-*' | wc -l
}
[ "$(count every)" -eq 4 ] || fail "expected four checkpoints"
same every whole
train text middle 0 train.steps=12 checkpoint.resume="$tmp/every/checkpoints/step-00000006"
[ "$(wc -l <"$tmp/middle/metrics.jsonl")" -eq 6 ] || fail "not the last six steps"
cmp "$(last middle)/model.safetensors" "$(last whole)/model.safetensors"
train text keep 0 train.steps=12 checkpoint.every=3 checkpoint.keep=2
[ "$(count keep)" -eq 2 ] || fail "expected two checkpoints"

# A killed run continues from its last checkpoint, and loses only the steps since.
start text killed train.steps=100000 checkpoint.every=4
wait_steps killed 6
kill -9 "$pid"
wait "$pid" || true
step=$(basename "$(last killed)")
step=$((10#${step#step-}))
train text killed 0 "train.steps=$((step + 4))" checkpoint.resume=auto checkpoint.every=4
train text not-killed 0 "train.steps=$((step + 4))" checkpoint.every=4
same killed not-killed

# Another strategy continues where one stopped, in exact mode without changing a bit.
train text exact 0 run.exact=yes train.steps=8
train text part 0 run.exact=yes train.steps=4 strategy.stack=ddp:2
train text part 0 run.exact=yes train.steps=6 strategy.stack=ddp:4 checkpoint.resume=auto \
    comm.ranks=processes
train text part 0 run.exact=yes train.steps=8 checkpoint.resume=auto
same exact part

# What does not fit is refused in words, and the run is left as it was.
cp -r "$tmp/short" "$tmp/before"
refused() { # PATTERN [s.k=v]...
    local pattern=$1
    shift
    train text short 2 train.steps=20 checkpoint.resume=auto "$@"
    says short "$pattern"
}
refused "run.seed = 1337, this run has 5" run.seed=5
refused "train.global_batch = 32" train.global_batch=32
refused "optim.name = adamw, this run has sgd" optim.name=sgd
refused "trained on other data" data.valid_fraction=0.2
refused "h.0|h.2|wte" model.layers=3
cmp "$tmp/short/metrics.jsonl" "$tmp/before/metrics.jsonl"
cmp "$(last short)/model.safetensors" "$(last before)/model.safetensors"
