#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints written during training have the bytes of those written at once, step by step;
# signals and the end of the run wait for them; errors end the run in one line.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

has_checkpoint() { # NAME
    [ -n "$(last "$1")" ]
}

steps_of() { # NAME: its complete checkpoints
    find "$tmp/$1/checkpoints" -name 'step-????????' -printf '%f\n' | sort
}

# alike NAME [s.k=v]...: every checkpoint of a run with async = yes against one without.
alike() {
    local name=$1 step file
    shift
    train text "$name" 0 train.steps=12 checkpoint.every=2 checkpoint.keep=0 "$@"
    train text "$name-async" 0 train.steps=12 checkpoint.every=2 checkpoint.keep=0 \
        checkpoint.async=yes "$@"
    diff <(losses "$name") <(losses "$name-async") >"$tmp/diff" ||
        fail "$name: asynchronous checkpoints changed the losses"
    diff <(steps_of "$name") <(steps_of "$name-async") || fail "$name: other checkpoints"
    for step in $(steps_of "$name"); do
        for file in "$tmp/$name/checkpoints/$step/"*; do
            [ "${file##*/}" = state.json ] ||
                cmp "$file" "$tmp/$name-async/checkpoints/$step/${file##*/}"
        done
    done
    [ -z "$(find "$tmp/$name-async/checkpoints" -name '*.partial')" ] ||
        fail "$name: a partial checkpoint is left"
}
alike single
alike ddp strategy.stack=ddp:2
alike zero strategy.stack=zero:2 zero.stage=3 comm.ranks=processes
state=$(test_plugin state_plugin)
alike states "strategy.stack=ddp:2,$state:2"
if [ "$slow" = 1 ]; then
    alike processes strategy.stack=ddp:4 comm.ranks=processes
    alike sgd optim.name=sgd optim.momentum=0.9 strategy.stack=zero:4 zero.stage=2
    alike llama model.arch=llama train.precision=fp64 strategy.stack=tensor:2
    alike pipeline strategy.stack=pipeline:2
fi

# A signal: the checkpoint of the step it stops at is complete, and the run continues.
start text signal train.steps=1000000 checkpoint.every=1 checkpoint.async=yes \
    strategy.stack=ddp:2 comm.ranks=processes
wait_steps signal 3
kill -TERM "$pid"
ends signal 4
step=$(basename "$(last signal)")
step=$((10#${step#step-}))
[ "$(wc -l <"$tmp/signal/metrics.jsonl")" -eq "$step" ] ||
    fail "the last checkpoint is not of the last step"
train text signal 0 "train.steps=$((step + 2))" checkpoint.resume=auto strategy.stack=ddp:2
train text not-signal 0 "train.steps=$((step + 2))" strategy.stack=ddp:2
same signal not-signal

# A place that can no longer be written ends the run in one line, and the checkpoint before
# stays whole. None is removed (keep = 0) while it is copied.
for ranks in threads processes; do
    start text "lost-$ranks" train.steps=1000000 checkpoint.every=2 checkpoint.async=yes \
        checkpoint.keep=0 strategy.stack=ddp:2 "comm.ranks=$ranks"
    until_so "lost-$ranks" checkpoint has_checkpoint "lost-$ranks"
    kept=$(last "lost-$ranks")
    cp -r "$kept" "$tmp/kept-$ranks"
    try=0
    while [ -d "$tmp/lost-$ranks/checkpoints" ]; do # it may be made again in between
        try=$((try + 1))
        mv "$tmp/lost-$ranks/checkpoints" "$tmp/away-$ranks-$try"
        { echo "in the way" >"$tmp/lost-$ranks/checkpoints"; } 2>/dev/null || true
    done
    ends "lost-$ranks" 1
    says "lost-$ranks" "checkpoints"
    "$cadre" inspect "$tmp/kept-$ranks" >/dev/null
done

# A disk that fills up in the background.
if [ "$(id -u)" -eq 0 ] && mkdir "$tmp/small" && mount -t tmpfs -o size=1064k none "$tmp/small"; then
    trap 'umount "$tmp/small"; clean_up' EXIT
    # status pages and the first checkpoint fit, a second one does not
    train text small/run 1 train.steps=1000000 checkpoint.every=2 checkpoint.keep=0 \
        checkpoint.async=yes strategy.stack=ddp:2
    says small/run "[Nn]o space|full"
    left=$(ls -A "$tmp/small/run/checkpoints")
    [ "$left" = step-00000002 ] || fail "the checkpoints of a full disk are: $left"
    "$cadre" inspect "$(last small/run)" >/dev/null || fail "the one before is not whole"
else
    echo "SKIP: no small file system (needs root and tmpfs)"
fi
