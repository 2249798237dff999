#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.elastic: a process rank that is lost does not end the run. The others continue from the
# last checkpoint in the largest stack that does the same work, and in exact mode the end
# has the bits of a run that lost nobody.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

saved() { # NAME BEFORE: there is another checkpoint than BEFORE
    [ "$(last "$1")" != "$2" ]
}

logged() { # NAME N TEXT: the log has N lines with it
    [ "$(grep -c -- "$3" "$tmp/$1.log")" -eq "$2" ]
}

# lose NAME RANK SIGNAL N STACK: takes a rank away once there is a new checkpoint; the run
# continues with STACK, which is its restart number N.
lose() {
    local name=$1
    until_so "$name" "checkpoint" saved "$name" "$(last "$name")"
    kill "-$3" "$(rank_of "$pid" "$2")"
    until_so "$name" "restart" logged "$name" "$4" "; run.elastic continues with "
    grep -q "rank $2\b.*; run.elastic continues with $5, after step [0-9]" \
        "$tmp/$name.log" || fail "$name: did not say that it continues with $5"
}

# A link that is slow gives time to find and kill ranks, whatever the machine.
common=(run.exact=yes train.steps=30 train.eval_batches=1)
elastic=("${common[@]}" run.elastic=yes comm.ranks=processes comm.link=1:3000
    checkpoint.every=3 log.every=1000)
train text single 0 "${common[@]}"

# survives NAME RANK STACK AFTER [s.k=v]...: the run loses RANK and ends as single.
survives() {
    local name=$1 rank=$2 stack=$3 after=$4
    shift 4
    start text "$name" "${elastic[@]}" "strategy.stack=$stack" "$@"
    lose "$name" "$rank" KILL 1 "$after"
    ends "$name" 0
    no_orphan "$name"
    same single "$name"
    grep -q "30 steps with $after done" "$tmp/$name.out" || fail "$name: $after unsaid"
    grep -qx "stack = ['\"]*${after}['\"]*" "$tmp/$name/config.ini" ||
        fail "$name: config.ini has another stack"
    "$cadre" inspect "$tmp/$name" | grep -A 3 '"restarts"' |
        grep '"lost": 1' >/dev/null ||
        fail "$name: summary.json has no restarts"
    echo "$name: $(grep -o 'run.elastic continues.*' "$tmp/$name.log")"
}
survives ddp 2 ddp:4 ddp:2 checkpoint.keep=0
if [ "$lean" = 0 ]; then
    survives stages 0 "pipeline:2, ddp:2" "pipeline:2, ddp:1"
    survives dealt 1 ddp:4 ddp:3 balance.micro_batches=measured device.pace=0.5
    survives shards 0 zero:4 zero:2 zero.stage=3 checkpoint.async=yes
fi
if [ "$slow" = 1 ]; then
    state=$(test_plugin state_plugin)
    survives keeper 1 "ddp:4, $state:4" "ddp:2, .*state.*:2"
    survives measured 1 "pipeline:2, zero:2" "pipeline:2, zero:1" \
        pipeline.balance=measured pipeline.schedule=zb-h1
    survives wide 3 ddp:4 ddp:2 device.threads=0 run.name=other
fi

# A new rank for the lost one, as often as there is a new checkpoint.
start text replaced "${elastic[@]}" strategy.stack=ddp:2 run.elastic=replace
lose replaced 1 KILL 1 "ddp:2 as before"
lose replaced 0 KILL 2 "ddp:2 as before"
ends replaced 0
no_orphan replaced
same single replaced
grep -q "30 steps with ddp:2 done" "$tmp/replaced.out" || fail "replaced: ddp:2 unsaid"

# Two losses in a row: after the second the last rank runs in the launcher itself. A signal
# then stops it as any other run, and what resumes it ends as single.
start text twice "${elastic[@]}" strategy.stack=ddp:4
lose twice 1 KILL 1 ddp:2
lose twice 0 ABRT 2 ddp:1
until_so twice "checkpoint" saved twice "$(last twice)"
kill -TERM "$pid" || true # it may have ended by itself
ends twice "0|4" # it may have done the few steps that were left
[ "$status" = 0 ] || says twice "stopped by a signal.*checkpoint.resume=auto"
[ "$(grep -c '"lost": 1' "$tmp/twice/restarts.json")" -eq 2 ] || fail "twice: not both recorded"
[ "$status" = 0 ] || train text twice 0 "${common[@]}" checkpoint.resume=auto
same single twice

# A rank that does not answer is lost as well, once it was waited for.
start text hangs "${elastic[@]}" strategy.stack=ddp:2 comm.timeout=$((2 * patience))
lose hangs 1 STOP 1 ddp:1
ends hangs 0
no_orphan hangs
same single hangs

# Before there is a checkpoint, the run begins again: from its first step, or from what it
# resumed itself.
start text early "${elastic[@]}" strategy.stack=ddp:2 checkpoint.every=0
wait_steps early 2
kill -KILL "$(rank_of "$pid" 1)"
ends early 0
grep -q "run.elastic without checkpoint.every" "$tmp/early.log" || fail "early: no warning"
grep -q "continues with ddp:1, from the beginning" "$tmp/early.log" || fail "early: not from the start"
same single early
if [ "$lean" = 0 ]; then
    start text later "${elastic[@]}" strategy.stack=ddp:2 checkpoint.every=0 \
        checkpoint.resume="$tmp/ddp/checkpoints/step-00000006"
    wait_steps later 1
    kill -KILL "$(rank_of "$pid" 0)"
    ends later 0
    grep -q "continues with ddp:1, after step 6" "$tmp/later.log" || fail "later: not from there"
fi

# A signal to the run and a lost rank: the run ends.
start text asked "${elastic[@]}" strategy.stack=ddp:2
until_so asked "checkpoint" saved asked ""
victim=$(rank_of "$pid" 1)
kill -STOP "$victim" # the others wait for it, whatever they are asked
kill -TERM "$pid"
sleep 0.2 # passed on before the rank is gone; where it is not, the run stops all the same
kill -KILL "$victim"
ends asked 4
says asked "stopped by a signal.*checkpoint.resume=auto"
no_orphan asked
train text asked 0 "${common[@]}" checkpoint.resume=auto
same single asked

# What a rank does wrong by itself would come again.
train text wrong 1 "${elastic[@]}" strategy.stack=ddp:2 optim.name=sgd optim.lr=1000 \
    optim.clip=0 train.steps=300 comm.link=
says wrong "the loss is not finite"
[ ! -e "$tmp/wrong/restarts.json" ] || fail "wrong: was restarted"

# A comparison does not notice: its certificate is that of a run that lost nobody.
if [ "$lean" = 0 ]; then
    cat >>"$tmp/text.ini" <<EOF
[run:one]
strategy.stack = single
[run:two]
strategy.stack = ddp:4
run.elastic = yes
comm.ranks = processes
comm.link = 1:3000
checkpoint.every = 3
EOF
    "$cadre" compare "$tmp/text.ini" --out "$tmp/compared" --set run.exact=yes --set compare.time=no \
        --set train.steps=30 >"$tmp/compared.out" 2>"$tmp/compared.log" &
    pid=$!
    started+=("$pid")
    until_so compared "checkpoint" saved compared/runs/two ""
    kill -KILL "$(rank_of "$(run_of "$(run_of "$pid")")" 3)"
    ends compared 0
    no_orphan compared
    grep -q '"lost": 1' "$tmp/compared/runs/two/summary.json" || fail "compared: lost nobody"
    grep -qE '^two .*ddp:4 .* exact$' "$tmp/compared.out" || fail "compared: not exact"
    grep -q 'two lost ranks and continued with ddp:2' "$tmp/compared.out" || fail "compared: no note"
    "$cadre" inspect "$tmp/compared/certificate-two.json" >"$tmp/compared.seen"
    grep -q 'verdict: exact, compared with one' "$tmp/compared.seen" || fail "compared: no verdict"
    grep -q 'has the hashes that it states' "$tmp/compared.seen" || fail "compared: not checked"

    # what was trained is kept, as it was asked for with the stack that it began with
    "$cadre" compare "$tmp/text.ini" --out "$tmp/compared" --set run.exact=yes --set compare.time=no \
        --set train.steps=30 --set checkpoint.resume=auto >"$tmp/again.out" 2>"$tmp/again.log"
    grep -qE '^two .*ddp:4 .* exact$' "$tmp/again.out" || fail "compared again: not exact"
fi

# Ranks of an external launcher are not started again: one of them says so.
for rank in 1 0; do
    CADRE_INIT="file://$tmp/meet" CADRE_RANK=$rank CADRE_WORLD_SIZE=2 \
        CADRE_LOCAL_RANK=$rank "$cadre" train "$tmp/text.ini" --out "$tmp/outside" \
        --set strategy.stack=ddp:2 --set run.elastic=yes --set train.steps=2 \
        >"$tmp/outside-$rank.out" 2>"$tmp/outside-$rank.log" &
    pid=$!
    started+=("$pid")
done
ends outside-0 0
wait # for rank 1
[ "$(cat "$tmp"/outside-?.log | grep -c 'run.elastic.* restarts ranks that cadre starts')" \
    -eq 1 ] || fail "outside: not reported once that run.elastic is not for them"

# Threads are lost all at once.
train text threads 2 strategy.stack=ddp:2 run.elastic=yes
says threads "run.elastic.*comm.ranks = processes"
train text alone 0 run.elastic=yes train.steps=2 # nothing to lose
