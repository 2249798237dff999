#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A file system that becomes read-only in the midst of a save, and a clock that is set back by an
# hour (tests/support/odd_machine.c): the first ends the run by one line and leaves the checkpoint
# before whole, from which another strategy continues to the bits of an undisturbed run; the second
# changes no bit, no time of a step and no choice of a checkpoint. A checkpoint that one rank does not
# see yet, as on a network file system, is continued by no rank, and stays.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
shim=$CADRE_BUILD/tests/support/.libs/odd_machine.so
[ -e "$shim" ] || fail "no $shim: make check builds it"
if grep -qE '^SAN_CFLAGS = .*sanitize' "$CADRE_BUILD/Makefile"; then
    skip "a sanitizer must be loaded first"
fi

common=(run.exact=yes model.channels=64 model.context=16 train.steps=8 checkpoint.every=2
    checkpoint.keep=2 train.eval_batches=1 train.global_batch=8 device.threads=1
    log.progress=no comm.timeout=60)
train text whole 0 "${common[@]}"

# ---- read-only ----

# The Nth change of a file of the second checkpoint fails: its folder, a file, its bytes, a name.
modes=(
    "strategy.stack=single checkpoint.async=no"
    "strategy.stack=ddp:2 checkpoint.async=yes"
    "strategy.stack=zero:2 zero.stage=3 comm.ranks=processes checkpoint.async=no"
)
changes=(1 2 3 5 8 13)
[ "$slow" = 0 ] || changes=({1..400}) # more than a save has
made=0
for n in "${changes[@]}"; do
    read -ra sets <<<"${modes[n % ${#modes[@]}]}"
    rm -rf "$tmp/run" "$tmp/read-only"
    settings "${common[@]}" "${sets[@]}"
    status=0
    LD_PRELOAD=$shim ODD_BELOW=$tmp/run ODD_INSIDE=step-00000004 ODD_AFTER=$n \
        ODD_MARK=$tmp/read-only "$cadre" train "$tmp/text.ini" --out "$tmp/run" "${sets[@]}" \
        >"$tmp/run.out" 2>"$tmp/run.log" || status=$?
    if [ ! -e "$tmp/read-only" ]; then # a save has fewer changes
        [ "$status" -eq 0 ] || fail "change $n: status $status: $(cat "$tmp/run.log")"
        break
    fi
    [ "$status" -eq 1 ] || fail "change $n (${sets[*]}): status $status: $(cat "$tmp/run.log")"
    says run 'Read-only file system'
    no_orphan run
    "$cadre" inspect "$tmp/run/checkpoints/step-00000002" >"$tmp/seen" 2>&1 ||
        fail "change $n: the checkpoint before is not whole: $(cat "$tmp/seen")"
    made=$((made + 1))
    train text run 0 "${common[@]}" strategy.stack=zero:2 checkpoint.resume=auto
    same run whole
done
[ "$made" -ge 4 ] || fail "only $made changes of a save failed"
echo "$made times read-only in the midst of a save"

# ---- the clock ----

# from the moment that the second checkpoint has its name
settings "${common[@]}" strategy.stack=ddp:2 comm.ranks=processes checkpoint.keep=0 \
    checkpoint.async=no
LD_PRELOAD=$shim ODD_CLOCK=$tmp/back/checkpoints/step-00000004 \
    "$cadre" train "$tmp/text.ini" --out "$tmp/back" "${sets[@]}" \
    >"$tmp/back.out" 2>"$tmp/back.log" || fail "back: $(cat "$tmp/back.log")"
same back whole
[ "$(basename "$(last back)")" = step-00000008 ] || fail "back: the last checkpoint is $(last back)"
times=$(sed -nE 's/.*"time": ([0-9.]+).*/\1/p' "$tmp/back/metrics.jsonl")
awk 'NR > 1 && $1 < before - 3000 { back++ } { before = $1 } END { exit back != 1 }' <<<"$times" ||
    fail "back: the clock was not set back once: $times"
sed -nE 's/.*"step_s": ([^,]+).*/\1/p' "$tmp/back/metrics.jsonl" |
    awk '!($1 > 0 && $1 < 600) { bad = 1 } END { exit bad || NR != 8 }' ||
    fail "back: times of steps: $(cat "$tmp/back/metrics.jsonl")"
train text back 0 "${common[@]}" train.steps=10 checkpoint.resume=auto
grep -q 'resuming from .*step-00000008.* after step 8' "$tmp/back.log" || fail "back: $(cat "$tmp/back.log")"
"$cadre" report "$tmp/back" --out "$tmp/back-page" >"$tmp/page.out" || fail "back: no report"

# ---- a checkpoint that is not seen yet ----

ranks=("${common[@]}" strategy.stack=ddp:2 checkpoint.resume=auto device.kind=cpu)
start_ranks "file://$tmp/meet" late "${ranks[@]}" train.steps=4
end_ranks late 0
for blind in 0 1; do
    before=() before[blind]="env LD_PRELOAD=$shim ODD_HIDDEN=step-00000004"
    start_ranks "file://$tmp/meet-$blind" late "${ranks[@]}"
    pid=${pids[0]} && ends late.0 1
    pid=${pids[1]} && ends late.1 2 # it is the one that differs
    cat "$tmp"/late.?.log | grep 'cadre: rank 1: it resumes after step ., rank 0 after step .: ' \
        >"$tmp/told" || fail "rank $blind is blind: $(cat "$tmp"/late.?.log)"
    [ "$(basename "$(last late)")" = step-00000004 ] || fail "rank $blind is blind: $(last late) is last"
done
before=()
start_ranks "file://$tmp/meet" late "${ranks[@]}"
end_ranks late 0
same late whole
