#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# diloco: a resumed run has the bits of one that never stopped, with each replica's own
# values and states, whatever a replica is made of, also while a fragment is in flight; other
# numbers of replicas go on from the mean; a replica that was killed comes back from the last
# checkpoint; `cadre compare` holds it to its setting.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# resumed NAME STEP [s.k=v]...: stopped after STEP of 12 steps, between outer steps and at one.
resumed() {
    local name=$1 at=$2
    shift 2
    train text "$name-part" 0 "train.steps=$at" "$@"
    train text "$name-part" 0 train.steps=12 checkpoint.resume=auto "$@"
    [ -d "$tmp/$name" ] || train text "$name" 0 train.steps=12 "$@"
    same "$name" "$name-part"
    rm -r "${tmp:?}/$name-part"
    echo "$name: stopped after step $at, the same bits"
}
every="diloco.period=4 optim.warmup=3"
stream="$every diloco.fragments=2 diloco.overlap=2 diloco.mixing=0.5"
# shellcheck disable=SC2086 # words
{
    resumed alone 4 strategy.stack=diloco:2 $every
    resumed alone 6 strategy.stack=diloco:2 $every
    resumed zero3 7 strategy.stack=diloco:2,zero:2 zero.stage=3 $every
    resumed turns 6 strategy.stack=diloco:2 $every diloco.fragments=3
    resumed stream 7 strategy.stack=diloco:2 $stream # between post and apply
    resumed stream 8 strategy.stack=diloco:2 $stream # one is applied, another posted
    if [ "$slow" = 1 ]; then
        for at in 1 2 3 4 5 6 9 10 11; do
            resumed stream $at strategy.stack=diloco:2 $stream
        done
        resumed streams 7 strategy.stack=diloco:2,zero:2 zero.stage=3 $stream
        resumed stages 5 strategy.stack=diloco:2,pipeline:2 $stream
        resumed zero1 7 strategy.stack=zero:2,diloco:2 zero.stage=1 $every
        resumed zero2 6 strategy.stack=diloco:2,zero:2 zero.stage=2 $every
        resumed half 6 strategy.stack=diloco:2,zero:2 train.precision=bf16 $every
        resumed pipeline 5 strategy.stack=diloco:2,pipeline:2 $every
        resumed ball 6 strategy.stack=diloco:3 diloco.nesterov=no train.global_batch=12 $every
    fi
}

# Evaluations between two outer steps see the mean and change nothing.
# shellcheck disable=SC2086
{
    train text plain 0 strategy.stack=diloco:2,zero:2 zero.stage=2 train.steps=12 $every
    train text looked 0 strategy.stack=diloco:2,zero:2 zero.stage=2 train.steps=12 $every \
        train.eval_every=1 checkpoint.every=3
}
same plain looked

# Another number of replicas, and another strategy, go on.
train text other 0 strategy.stack=diloco:2 train.steps=6 diloco.period=4
train text other 0 strategy.stack=diloco:4 train.steps=8 diloco.period=4 checkpoint.resume=auto
train text other 0 strategy.stack=ddp:2 train.steps=10 checkpoint.resume=auto
[ "$(wc -l <"$tmp/other/metrics.jsonl")" -eq 10 ] || fail "not ten steps"

# A fragment in flight at another number of replicas, and under other options.
# shellcheck disable=SC2086
{
    train text flight 0 strategy.stack=diloco:2 train.steps=7 $stream
    cp -r "$tmp/flight" "$tmp/flight-4"
    train text flight-4 0 strategy.stack=diloco:4 train.steps=10 $stream checkpoint.resume=auto
    ! grep -q 'was in flight' "$tmp/flight-4.log" || fail "the same options drop a fragment"
    train text flight 0 strategy.stack=diloco:2 train.steps=10 $stream diloco.period=8 \
        checkpoint.resume=auto
    grep -q 'a fragment was in flight under other diloco.fragments' "$tmp/flight.log" ||
        fail "a fragment that is dropped is not logged"
}

# A replica is killed. Without run.elastic the run ends, and continues whole from its last
# checkpoint, with the bits of one that lost nobody; with it the replicas that are left go on, or a
# new one joins them, again with these bits.
link="comm.ranks=processes comm.link=1:3000 checkpoint.every=3"
has_checkpoint() {
    [ -n "$(last "$1")" ]
}
# lose NAME [s.k=v]...: starts a run and kills rank 1 once there is a checkpoint.
lose() {
    # shellcheck disable=SC2086
    start text "$1" $stream $link "${@:2}"
    until_so "$1" "checkpoint" has_checkpoint "$1"
    kill -KILL "$(rank_of "$pid" 1)"
}
lose killed strategy.stack=diloco:2 train.steps=24
ends killed 1
no_orphan killed
# shellcheck disable=SC2086
train text killed 0 strategy.stack=diloco:2 train.steps=24 $stream checkpoint.resume=auto
# shellcheck disable=SC2086
train text whole 0 strategy.stack=diloco:2 train.steps=24 $stream
same whole killed
lose rejoined strategy.stack=diloco:2 train.steps=24 run.elastic=replace
ends rejoined 0
no_orphan rejoined
grep -q 'run.elastic continues with diloco:2 as before, after step [0-9]' "$tmp/rejoined.log" ||
    fail "nobody took the place of the replica that was lost"
same whole rejoined
lose fewer strategy.stack=diloco:3 train.steps=24 train.global_batch=12 run.elastic=yes
ends fewer 0
no_orphan fewer
grep -q 'run.elastic continues with diloco:2, after step [0-9]' "$tmp/fewer.log" ||
    fail "the replicas that were left did not go on"
[ "$(wc -l <"$tmp/fewer/metrics.jsonl")" -eq 24 ] || fail "fewer: not 24 steps"

refused exact "run.exact = yes: diloco" strategy.stack=diloco:2 run.exact=yes
refused units "diloco.fragments = 5, but the model has 4 units" strategy.stack=diloco:2 \
    diloco.fragments=5
refused crowded "diloco.overlap = 3 steps, but a fragment is sent every 2" \
    strategy.stack=diloco:2 diloco.period=4 diloco.fragments=2 diloco.overlap=3
refused host "zero.offload = none" strategy.stack=diloco:2,zero:2 zero.offload=optimizer \
    train.precision=bf16

# By design, and equal to single where it must be.
cat >>"$tmp/text.ini" <<EOF
[run:one]
strategy.stack = single
[run:far]
strategy.stack = diloco:2
[run:turns]
strategy.stack = diloco:2
diloco.fragments = 2
diloco.overlap = 1
diloco.mixing = 0.5
EOF
compare held 0 train.steps=8 diloco.period=4
grep -qE '^far .*by design' "$tmp/held.out" || fail "diloco is not reported as by design"
grep -q 'trains the same as single with diloco.period=1,' "$tmp/held.out" ||
    fail "its setting is not reported: $(grep far "$tmp/held.out")"
grep -qE '^turns .*by design' "$tmp/held.out" || fail "fragments are not reported as by design"
tr '\n' ' ' <"$tmp/held.out" |
    grep -q 'trains the same as single with diloco.period=1, diloco.overlap=0, diloco.mixing=0,' ||
    fail "their setting is not reported: $(grep turns "$tmp/held.out")"
