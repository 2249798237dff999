#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A stack with an axis of independent runs: each instance trains as if it were alone, where
# the plugin requested and with its values of the sweep; one that is killed leaves the other
# running; a signal stops both with checkpoints, from which they continue.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

both=("strategy.plugin_path=$CADRE_BUILD/tests/plugins/.libs" strategy.stack=independent:2)
# The CPUs this process may use, one a line.
mapfile -t cpus < <(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status |
    tr ',' '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)

# shows FILE PATTERN: a file below $tmp has such a line.
shows() {
    if ! grep -qE -- "$2" "$tmp/$1"; then
        cat "$tmp/$1"
        fail "$1: no line with '$2'"
    fi
}

# statuses NAME A B: what instances.json says of each instance.
statuses() {
    local found
    found=$(sed -nE 's/^      "status": "(.*)",/\1/p' "$tmp/$1/instances.json" | tr '\n' ' ')
    [ "$found" = "$2 $3 " ] || fail "$1: instances are '$found', expected '$2 $3'"
}

# worker NAME K: the process of instance K of the run in $pid, which supervises the
# instance's own; nothing before it is there.
worker() {
    pgrep -P "$(run_of "$pid")" -f -- "--out $tmp/$1/instance-$2( |\$)" || true
}
has_worker() {
    [ -n "$(worker "$1" "$2")" ]
}

# ---- each as if it were alone ----
train text two 0 "${both[@]}" "independent.sweep=optim.lr: 3e-3 1e-3, run.seed: 1 2"
train text one-0 0 optim.lr=3e-3 run.seed=1
train text one-1 0 optim.lr=1e-3 run.seed=2
same two/instance-0 one-0
same two/instance-1 one-1
statuses two "done" "done"
shows two.out '^0 +done .* optim.lr = 3e-3, run.seed = 1$'
shows two.out '^1 +done .* optim.lr = 1e-3, run.seed = 2$'
shows two.out '^all .*best: instance 0$'
shows two.out '^text: 20 steps with independent:2 done'
shows two.log 'instance 1: train: text-1: step 20/20'
shows two/summary.json '^  "ranks": 2,'
shows two/summary.json '^  "tokens": 20480,'
shows two/summary.json '^  "best": 0,'
shows two/config.ini '^sweep = '
[ ! -e "$tmp/two/cache" ] || fail "two: the instances share no cache of data"
# what was done is not done again
train text two 0 "${both[@]}" "independent.sweep=optim.lr: 3e-3 1e-3, run.seed: 1 2" \
    checkpoint.resume=auto
shows two.log 'instance 1: single, .* \[done before\]'
! grep -q 'step ' "$tmp/two.log" || fail "two: trained again"

# worlds of several ranks
train text pair 0 run.exact=yes
kinds="threads processes"
[ "$lean" = 0 ] || kinds=threads
for ranks in $kinds; do
    train text "ranks-$ranks" 0 "${both[0]}" "strategy.stack=independent:2, ddp:2" run.exact=yes \
        "comm.ranks=$ranks"
    same "ranks-$ranks/instance-0" pair
    same "ranks-$ranks/instance-1" pair
    shows "ranks-$ranks/summary.json" '^  "ranks": 4,'
    shows "ranks-$ranks/instance-1/summary.json" '"stack": "ddp:2"'
done

# ---- plans and refusals, which leave nothing ----
"$cadre" train "$tmp/text.ini" --out "$tmp/dry" --dry-run --set "${both[0]}" \
    --set "${both[1]}" --set "independent.sweep=model.layers: 1 2" >"$tmp/dry.out"
shows dry.out '^instance 0 of 2: model.layers = 1$'
shows dry.out '^text-1: single, .* 20 steps of 16 x 32 tokens'
[ "$(grep -c '^peak memory: rank' "$tmp/dry.out")" -eq 2 ] || fail "dry: not two plans"
refused() { # PATTERN [s.k=v]...
    local pattern=$1
    shift
    train text refused 2 "${both[@]}" "$@"
    says refused "$pattern"
    [ ! -e "$tmp/refused" ] || fail "a refused run left a folder ($*)"
}
refused "independent.sweep: unknown option optim.lx, the nearest is optim.lr" \
    "independent.sweep=optim.lx: 1 2"
refused "independent.sweep: optim.lr has 3 values, expected 2, one for each instance" \
    "independent.sweep=optim.lr: 1 2 3"
refused "independent.sweep: optim.lr: expected a number" "independent.sweep=optim.lr: 1e-3 fast"
refused "independent.sweep: data.path cannot differ between instances" \
    "independent.sweep=data.path: /a /b"
refused "instance 1: optim.min_lr = 1 is more than optim.lr" optim.schedule=cosine \
    "independent.sweep=optim.min_lr: 0 1"
refused "requests TEST_CLASH=0 and TEST_CLASH=1 for ranks of instance 0" \
    "strategy.stack=independent:2, ddp:2" independent.clash=yes
CADRE_INIT=tcp://127.0.0.1:9 CADRE_RANK=0 CADRE_WORLD_SIZE=2 CADRE_LOCAL_RANK=0 \
    refused "strategy.stack = independent:2 makes 2 independent runs, .*job array"
train text two 2 "${both[@]}"
says two "holds a run already"

# ---- compared with other runs: independent, by the sum of all instances ----
cp "$tmp/text.ini" "$tmp/compared.ini"
cat >>"$tmp/compared.ini" <<EOF
[device]
threads = 0
[strategy]
plugin_path = $CADRE_BUILD/tests/plugins/.libs
[run:whole]
strategy.stack = single
[run:parts]
strategy.stack = independent:2
independent.sweep = optim.lr: 3e-3 1e-3
EOF
"$cadre" compare "$tmp/compared.ini" --out "$tmp/compared" --set train.steps=6 \
    --set compare.rounds=2 --set compare.piece=0.01 \
    >"$tmp/compared.out" 2>"$tmp/compared.log" || fail "compared: status $?"
[ "$(grep -c '"run": "parts", "round": [12], .*"failure": null, .*"period_s": [0-9]' \
    "$tmp/compared/pieces.jsonl")" -ge 2 ] || fail "compared: parts has no timed pieces"
shows compared.out '^parts +independent:2 .* independent$'
shows compared.out '^parts: 2 independent runs, together [0-9.]+ times the tokens per second'
tr '\n' ' ' <"$tmp/compared.out" >"$tmp/compared.unwrapped"
shows compared.unwrapped 'N: 1, as every run'
shows compared/report.json '"options": \{|"optim.lr": "1e-3"'
shows compared/report.csv '^parts,independent:2,2,.*,independent,none,.*,2.$'
shows compared/report.html '<h2>Instances</h2>'
"$cadre" inspect "$tmp/compared" >"$tmp/compared.seen"
[ "$(grep -c 'has the hashes that it states' "$tmp/compared.seen")" -eq 2 ] ||
    fail "compared: inspect does not check both certificates"
rm "$tmp/compared/runs/whole/metrics.jsonl" # parts is known by its instances
if "$cadre" compare "$tmp/compared.ini" --out "$tmp/compared" --set train.steps=6 \
    >"$tmp/compared.out" 2>"$tmp/compared.log"; then
    fail "compared: trained over an old comparison"
fi
says compared 'holds a comparison already'
rm -r "$tmp/compared/runs/whole"
"$cadre" compare "$tmp/compared.ini" --out "$tmp/compared" --set train.steps=6 --set compare.time=no \
    --set checkpoint.resume=auto >"$tmp/compared.out" 2>"$tmp/compared.log" ||
    fail "compared, again: status $?"
grep -q 'parts: .*done before' "$tmp/compared.log" || fail "compared: parts was trained again"

# ---- where they run ----
begin() { # NAME [s.k=v]...
    local name=$1
    shift
    start text "$name" "${both[@]}" train.steps=1000000 "$@"
    until_so "$name" "instance 0" has_worker "$name" 0
    until_so "$name" "instance 1" has_worker "$name" 1
    wait_steps "$name/instance-0" 2
    wait_steps "$name/instance-1" 2
}
touch "$tmp/stop.log"
mkdir -p "$tmp/stop" "$tmp/killed" "$tmp/orphaned"
for name in stop killed orphaned; do # until_so shows them
    for k in 0 1; do mkdir -p "$tmp/$name" && touch "$tmp/$name/instance-$k.log"; done
done
begin stop
for k in 0 1; do
    seen=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$(worker stop $k)/status")
    [ "$seen" = "${cpus[$((k % ${#cpus[@]}))]}" ] || fail "instance $k is on CPUs $seen"
    grep -zqx "TEST_INDEPENDENT=$k" "/proc/$(worker stop $k)/environ" ||
        fail "instance $k has another TEST_INDEPENDENT"
done

# ---- Ctrl-C: both stop after a checkpoint, and continue ----
kill -INT "$pid"
ends stop 4
no_orphan stop
statuses stop stopped stopped
grep -q "^cadre: stopped by a signal; checkpoints are in '$tmp/stop/instance-\*'" \
    "$tmp/stop.log" || fail "stop: not said"
most=0
for k in 0 1; do
    done_before[k]=$(wc -l <"$tmp/stop/instance-$k/metrics.jsonl")
    [ "${done_before[k]}" -gt "$most" ] && most=${done_before[k]}
done
train text stop 0 "${both[@]}" checkpoint.resume=auto "train.steps=$((most + 2))"
for k in 0 1; do
    shows stop.log "instance $k: train: resuming from .*instance-$k/.* after step ${done_before[k]}$"
    has_steps "stop/instance-$k" $((most + 2)) || fail "stop: instance $k is not whole"
done
statuses stop "done" "done"

# ---- one that is killed leaves the other running ----
begin killed "independent.sweep=train.steps: 300 1000000"
other=$(run_of "$(worker killed 0)")
kill -STOP "$other" || true # it likely has steps to make after the end of instance 1
kill -KILL "$(worker killed 1)"
until_so killed "end of instance 1" eval '! has_worker killed 1'
kill -CONT "$other" || true
ends killed 1
has_steps killed/instance-0 300 || fail "killed: instance 0 did not finish"
statuses killed "done" failed
shows killed.log 'sweep: instance 1 was ended by signal 9'
says killed '1 of 2 instances failed \(1\)'
shows killed/summary.json '^  "ranks": 1,'
shows killed.out '^1 +failed '
no_orphan killed

# ---- none outlives the one that started it ----
begin orphaned
kill -KILL "$pid"
ends orphaned 137
no_orphan orphaned
