#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre top` of runs at work, killed, stopped and ended, with ranks as threads and as
# processes; what it refuses; and the line that answers a request to stop.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# look NAME: the run's status as JSON, in NAME.json.
look() {
    runs "top-$1" 0 "$cadre" top "$tmp/$1" --once --json
    cp "$tmp/top-$1.out" "$tmp/$1.json"
}

# holds NAME N PATTERN: N lines of the JSON have it.
holds() {
    local n
    n=$(grep -cE -- "$3" "$tmp/$1.json" || true)
    if [ "$n" -ne "$2" ]; then
        cat "$tmp/$1.json"
        fail "$1: $n lines with '$3', expected $2"
    fi
}

# values NAME KEY: of a key, one a line.
values() { sed -nE "s/^ *\"$2\": (.*[^,]),?$/\1/p" "$tmp/$1.json"; }

# frame NAME [COLUMNS]: the frame for people, in NAME.frame; no line is too long.
frame() {
    COLUMNS=${2:-100} runs "frame-$1" 0 "$cadre" top "$tmp/$1" --once
    cp "$tmp/frame-$1.out" "$tmp/$1.frame"
    awk -v most="${2:-100}" 'length($0) > most { exit 1 }' "$tmp/$1.frame" ||
        fail "$1: a line of more than ${2:-100} columns"
}

# shows NAME PATTERN: the frame has it.
shows() {
    if ! grep -qE -- "$2" "$tmp/$1.frame"; then
        cat "$tmp/$1.frame"
        fail "$1: no '$2' in the frame"
    fi
}

# answered NAME PATTERN: the log has one line that answers the signal.
answered() {
    if [ "$(grep -c '^asked to stop: ' "$tmp/$1.log")" -ne 1 ] ||
        ! grep -qE -- "^asked to stop: $2" "$tmp/$1.log"; then
        cat "$tmp/$1.log"
        fail "$1: not one line 'asked to stop: $2'"
    fi
}

# promised NAME: the step after which the answer said it would stop at the latest.
promised() { sed -nE 's/^asked to stop: after step ([0-9]+) at the latest .*/\1/p' "$tmp/$1.log"; }

# ---- ranks that are threads: at work, and held there ----
start text threads train.steps=1000000 strategy.stack=ddp:2 train.eval_every=5
wait_steps threads 12
run=$(run_of "$pid")
kill -STOP "$run"
look threads
holds threads 1 '"state": "running"'
holds threads 2 '"alive": true'
holds threads 2 '"died": false'
grep -qE '"communicator": "(dp|world)"' "$tmp/threads.json" || fail "threads: no communicator"
holds threads 1 '"stack": "ddp:2"'
[ "$(values threads pid | sort -u)" = "$run" ] || fail "threads: another process"
[ "$(values threads loss)" != null ] || fail "threads: no loss"
[ "$(values threads valid_loss)" != null ] || fail "threads: no validation loss"
for key in left_s tokens_per_s tokens_per_s_median; do
    values threads $key | awk '{ exit !($1 > 0) }' || fail "threads: $key is $(values threads $key)"
done
paste <(values threads memory_bytes) <(values threads memory_planned_bytes) |
    awk '!($1 > 0 && $1 <= 1.5 * $2) { exit 1 }' || fail "threads: memory of no plan"
# the parts of the last step are the whole
paste <(values threads step_s) <(values threads compute_s) <(values threads optim_s) \
    <(values threads comm_exposed_s) <(values threads wait_ranks_s) <(values threads bubble_s) \
    <(values threads wait_data_s) <(values threads other_s) |
    awk '{ d = $1 - $2 - $3 - $4 - $5 - $6 - $7 - $8 }
        NF != 8 || d * d > 1e-12 || !($2 > 0) { exit 1 }' || fail "threads: times do not sum up"
frame threads
shows threads '^text  ddp:2  2 ranks  running$'
shows threads '^0\*? .*\((dp|world)\)'
shows threads '^1\*? '
for columns in 60 80 120; do
    frame threads $columns
    shows threads 'phase +for .*memory/planned  last step'
    # memory, two blanks, the bar: nothing is cut off
    shows threads '^1\*? .* [0-9.]+( [KM]?i?B)?/[0-9.]+ [KM]?i?B +[#=~w.d-]+$'
done
frame threads 40

# on a terminal it draws over itself, and gives the terminal back
until_screen() { # WHAT TEXT: until the terminal has got it
    local begin=$SECONDS
    until grep -qF -- "$2" "$tmp/screen" 2>/dev/null; do
        [ $((SECONDS - begin)) -lt "$hang" ] || fail "terminal: no $1 within $hang s"
        sleep 0.05
    done
}
{
    until_screen "frame in the alternate screen" $'\e[?1049h' >&2
    until_screen "second rank" $'1 ' >&2
    printf '\003'
    until_screen "old screen" $'\e[?25h\e[?1049l' >&2
} | script -qfec "exec '$cadre' top '$tmp/threads'" "$tmp/screen" >/dev/null ||
    fail "Ctrl-C ended cadre top with status $?"

# the first signal is answered by what happens, which then happens
kill -CONT "$run"
kill -INT "$pid"
ends threads 4
answered threads "after step [0-9]+ at the latest a checkpoint is saved in '$tmp/threads/checkpoints'"
[ "$(promised threads)" -eq "$(wc -l <"$tmp/threads/metrics.jsonl")" ] ||
    fail "threads: stopped after $(wc -l <"$tmp/threads/metrics.jsonl"), promised $(promised threads)"
look threads
holds threads 3 '"state": "stopped"'
holds threads 2 '"alive": false'
"$cadre" top "$tmp/threads" >"$tmp/piped" || fail "a run that is over, through a pipe"
grep -q "  stopped$" "$tmp/piped" || fail "the frame of a stopped run"

# ---- ranks that are processes: one is killed, and is seen where it was ----
start text killed train.steps=1000000 strategy.stack=ddp:2 comm.ranks=processes
wait_steps killed 3
look killed
[ "$(values killed pid | sort -u | wc -l)" -eq 2 ] || fail "killed: not two processes"
kill -KILL "$(rank_of "$pid" 1)"
ends killed 1
look killed
holds killed 1 '"state": "died"'
holds killed 1 '"died": true'
# what each rank posted last is still there
runs killed-events 0 "$cadre" top "$tmp/killed" --events --json
cp "$tmp/killed-events.out" "$tmp/killed-events.json"
holds killed-events 2 '"known": true'
[ "$(grep -c '"number": ' "$tmp/killed-events.json")" -ge 20 ] || fail "killed: few events"
grep -q '"plugin": "ddp"' "$tmp/killed-events.json" || fail "killed: no event of ddp"
runs killed-rank 0 "$cadre" top "$tmp/killed" --events --rank 1
grep -qE '^rank 1: [0-9]+ events, to step [1-9]' "$tmp/killed-rank.out" || fail "killed: no rank 1"
! grep -q '^rank 0' "$tmp/killed-rank.out" || fail "killed: rank 0 too"
runs no-rank 2 "$cadre" top "$tmp/killed" --events --rank 2
says no-rank "has no rank 2; expected 0 to 1"
runs odd-rank 2 "$cadre" top "$tmp/killed" --events --rank one
says odd-rank 'rank is "one"; expected the number'
holds killed 1 '"state": "training"' # of rank 1
holds killed 1 '"error": ".*rank 1'
[ "$(values killed phase | wc -l)" -eq 2 ] || fail "killed: no phase"
holds killed 2 '"operations_posted": [1-9]'
frame killed
shows killed '^1\*? +died: '
shows killed '^0\*? +failed'
shows killed 'rank 1'
# the reason in full, in as many lines as it takes
frame killed 60
reason=$(sed -nE 's/^ *"error": "(.*rank 1.*)",?$/\1/p' "$tmp/killed.json" | head -n 1)
tr -s ' \n' '  ' <"$tmp/killed.frame" | grep -F -- "$reason" >/dev/null || {
    cat "$tmp/killed.frame"
    fail "killed: not '$reason' in 60 columns"
}

# a restart begins with pages of its own
start text again train.steps=1000000 strategy.stack=ddp:3 comm.ranks=processes \
    train.global_batch=12
wait_steps again 2
kill -TERM "$pid"
ends again 4
answered again 'after step'
[ "$(wc -l <"$tmp/again/metrics.jsonl")" -le "$(promised again)" ] || fail "again: stopped late"
train text again 0 "train.steps=$(($(wc -l <"$tmp/again/metrics.jsonl") + 1))" \
    strategy.stack=ddp:2 checkpoint.resume=auto train.global_batch=12
look again
holds again 3 '"state": "ended"'
[ ! -e "$tmp/again/status/rank-00002" ] || fail "again: a page of the earlier start is left"

# ---- a schedule, and a benchmark, which saves nothing ----
start text stages bench.steps=1000000 strategy.stack=pipeline:2
wait_steps stages 3
frame stages
shows stages 'passes of step [0-9]+'
shows stages '^1 +[.FB0-9]+$'
kill -INT "$pid"
ends stages 4
answered stages 'after step [0-9]+ at the latest the benchmark ends, without a result'

# ---- folders of several runs ----
mkdir -p "$tmp/several/runs"
cp -r "$tmp/threads" "$tmp/several/runs/a"
cp -r "$tmp/killed" "$tmp/several/runs/b"
runs several 0 "$cadre" top "$tmp/several" --once
grep -q "^2 runs in '$tmp/several'" "$tmp/several.out" || fail "several: $(cat "$tmp/several.out")"
grep -q "^  $tmp/several/runs/b  died  step" "$tmp/several.out" || fail "several: no run b"
runs several 0 "$cadre" top "$tmp/several" --json
grep -q '"state": "stopped"' "$tmp/several.out" || fail "several: $(cat "$tmp/several.out")"
# a folder of runs is over where none is at work, a comparison where its report is there too
runs ended 0 timeout "$hang" "$cadre" top "$tmp/several"
grep -q "^2 runs in '$tmp/several'" "$tmp/ended.out" || fail "ended: $(cat "$tmp/ended.out")"
: >"$tmp/several/comparison.ini"
: >"$tmp/several/report.json"
runs over 0 timeout "$hang" "$cadre" top "$tmp/several"
grep -q "^2 runs in '$tmp/several'" "$tmp/over.out" || fail "over: $(cat "$tmp/over.out")"

# ---- what is no run ----
wrong() { # NAME PATTERN FOLDER
    runs "$1" 2 "$cadre" top "$3" --once
    says "$1" "$2"
}
wrong nowhere 'there is no folder' "$tmp/nowhere"
wrong file 'is no folder' "$tmp/text.ini"
mkdir -p "$tmp/empty" "$tmp/foreign/status"
wrong empty 'is no folder of a run' "$tmp/empty"
wrong foreign 'has no status of a run' "$tmp/foreign"
head -c 40000 /dev/zero >"$tmp/foreign/status/rank-00000"
wrong foreign "rank-00000' is no rank's status page" "$tmp/foreign"
cp "$tmp/threads/status/rank-00000" "$tmp/foreign/status/"
printf '\011' | dd of="$tmp/foreign/status/rank-00000" bs=1 seek=16 conv=notrunc status=none
wrong foreign 'is a status page of version 9, this cadre reads version 2' "$tmp/foreign"
head -c 1000 "$tmp/threads/status/rank-00000" >"$tmp/foreign/status/rank-00000"
wrong foreign 'is cut' "$tmp/foreign"

# a page that cannot be made is a warning, and the run goes on
train text nopage 0 train.steps=1
rm -r "$tmp/nopage/status"
touch "$tmp/nopage/status"
train text nopage 0 train.steps=2 checkpoint.resume=auto
grep -q 'cadre top. will not show this rank' "$tmp/nopage.log" || fail "nopage: no warning"
