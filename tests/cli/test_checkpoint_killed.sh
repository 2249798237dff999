#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 at random instants of a run that does little but save: the latest complete
# checkpoint always loads, the next run clears what is half-written and goes on, under
# another stack, and at the end has the bits of a run that was never killed.
# CADRE_TEST_SEED chooses the instants.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
kills=12
[ "$slow" = 1 ] && kills=200
RANDOM=${CADRE_TEST_SEED:-20}

common=(run.exact=yes model.channels=64 model.context=16 checkpoint.every=1
    checkpoint.keep=2 train.eval_batches=1 train.global_batch=8 optim.warmup=20
    device.threads=1 log.progress=no)
state=$CADRE_BUILD/tests/plugins/.libs/state_plugin.so
modes=(
    "strategy.stack=single checkpoint.async=no"
    "strategy.stack=ddp:2 checkpoint.async=yes"
    "strategy.stack=zero:2 zero.stage=3 comm.ranks=processes checkpoint.async=yes"
    "strategy.stack=ddp:2,$state:2 comm.ranks=processes checkpoint.async=no"
    "strategy.stack=pipeline:2 checkpoint.async=yes"
    "strategy.stack=single checkpoint.async=yes"
)

midst=0
saved=0
for ((i = 0; i < kills; i++)); do
    read -ra sets <<<"${modes[i % ${#modes[@]}]}"
    start text run train.steps=1000000 checkpoint.resume=auto "${common[@]}" "${sets[@]}"
    sleep "0.$(printf '%03d' $((60 + RANDOM % 300)))"
    # shellcheck disable=SC2046 # process ids
    kill -9 "$pid" $(pgrep -P "$pid") 2>/dev/null || fail "it ended by itself: $(cat "$tmp/run.log")"
    { wait "$pid"; } 2>/dev/null || true
    while [ -n "$(orphans)" ]; do sleep 0.01; done
    if grep -E "passed over|^cadre:" "$tmp/run.log"; then
        fail "kill $i: a checkpoint was not whole"
    fi
    partial=$(find "$tmp/run/checkpoints" -name '*.partial' 2>/dev/null | wc -l)
    [ "$partial" -eq 0 ] || midst=$((midst + 1))
    for dir in "$tmp/run/checkpoints/"step-????????; do
        [ -d "$dir" ] || continue
        "$cadre" inspect "$dir" >"$tmp/inspect" 2>&1 ||
            fail "kill $i (${sets[*]}): $(cat "$tmp/inspect")"
    done
    step=0
    [ ! -d "$tmp/run/checkpoints" ] || step=$(basename "$(last run)")
    step=$((10#${step#step-}))
    [ "$step" -ge "$saved" ] || fail "kill $i: step $step, there was a checkpoint of $saved"
    saved=$step
done
[ "$midst" -gt 0 ] || fail "no kill was in the midst of a save"
echo "$kills kills, $midst in the midst of a save; $saved steps"

train text run 0 "train.steps=$((saved + 2))" checkpoint.resume=auto "${common[@]}"
[ -z "$(find "$tmp/run/checkpoints" -name '*.partial')" ] || fail "what a kill left is still there"
train text whole 0 "train.steps=$((saved + 2))" "${common[@]}" checkpoint.every=0
same run whole
