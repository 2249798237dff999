#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 at random instants of a run that does little but save: the latest complete
# checkpoint always loads, the next run clears what is half-written and continues, under
# another stack, and at the end has the bits of a run that was never killed.
# CADRE_TEST_SEED chooses the instants.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
kills=12
[ "$slow" = 1 ] && kills=60
[ "$full" = 1 ] && kills=200
kills=${CADRE_KILLS:-$kills} # ./check --long: 1,000
RANDOM=${CADRE_TEST_SEED:-20}

common=(run.exact=yes model.channels=64 model.context=16 checkpoint.every=1
    checkpoint.keep=2 train.eval_batches=1 train.global_batch=8 optim.warmup=20
    device.threads=1 log.progress=no)
state=$(test_plugin state_plugin)
modes=(
    "strategy.stack=single checkpoint.async=no"
    "strategy.stack=ddp:2 checkpoint.async=yes"
    "strategy.stack=zero:2 zero.stage=3 comm.ranks=processes checkpoint.async=yes"
    "strategy.stack=ddp:2,$state:2 comm.ranks=processes checkpoint.async=no"
    "strategy.stack=pipeline:2 checkpoint.async=yes"
    "strategy.stack=single checkpoint.async=yes"
)

at_work() { # the run has saved something new
    [ "$(last run)" != "$before" ]
}

# Every third kill may come before the run has saved anything, the others come later. There
# are more kills than asked for where none was in the midst of a save.
midst=0
saved=0
for ((i = 0; i < kills || (midst == 0 && i < 20 * kills); i++)); do
    read -ra sets <<<"${modes[i % ${#modes[@]}]}"
    before=$(last run)
    start text run train.steps=1000000 checkpoint.resume=auto "${common[@]}" "${sets[@]}"
    [ $((i % 3)) -eq 0 ] || until_so run save at_work
    sleep "0.$(printf '%03d' $((RANDOM % 360)))"
    run=$(run_of "$pid")
    # shellcheck disable=SC2046,SC2086 # process ids
    kill -9 "$pid" $run $([ -z "$run" ] || pgrep -P "$run") 2>/dev/null ||
        fail "it ended by itself: $(cat "$tmp/run.log")"
    { wait "$pid"; } 2>/dev/null || true
    no_orphan run
    if grep -E "checkpoint skipped|^cadre:" "$tmp/run.log"; then
        fail "kill $i: a checkpoint was not whole"
    fi
    if compgen -G "$tmp/run/checkpoints/*.partial" >/dev/null; then
        midst=$((midst + 1))
    fi
    for dir in "$tmp/run/checkpoints/"step-????????; do
        [ -d "$dir" ] || continue
        "$cadre" inspect "$dir" >"$tmp/inspect" 2>&1 ||
            fail "kill $i (${sets[*]}): $(cat "$tmp/inspect")"
    done
    step=$(basename "$(last run)")
    step=$((10#0${step#step-}))
    [ "$step" -ge "$saved" ] || fail "kill $i: step $step, there was a checkpoint of $saved"
    saved=$step
done
[ "$midst" -gt 0 ] || fail "no kill was in the midst of a save"
echo "$i kills, $midst in the midst of a save; $saved steps"

train text run 0 "train.steps=$((saved + 2))" checkpoint.resume=auto "${common[@]}"
! compgen -G "$tmp/run/checkpoints/*.partial" || fail "what a kill left is still there"
train text whole 0 "train.steps=$((saved + 2))" "${common[@]}" checkpoint.every=0
same run whole
