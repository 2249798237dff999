#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# diloco: a resumed run has the bits of one that never stopped, with each replica's own
# values and states, whatever a replica is made of; other numbers of replicas go on from the
# mean; `cadre compare` holds it to its setting.
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
# shellcheck disable=SC2086 # words
{
    resumed alone 4 strategy.stack=diloco:2 $every
    resumed alone 6 strategy.stack=diloco:2 $every
    resumed zero3 7 strategy.stack=diloco:2,zero:2 zero.stage=3 $every
    if [ "$slow" = 1 ]; then
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

refused exact "run.exact = yes: diloco" strategy.stack=diloco:2 run.exact=yes
refused host "zero.offload = none" strategy.stack=diloco:2,zero:2 zero.offload=optimizer \
    train.precision=bf16

# By design, and equal to single where it must be.
cat >>"$tmp/text.ini" <<EOF
[run:one]
strategy.stack = single
[run:far]
strategy.stack = diloco:2
EOF
compare held 0 train.steps=8 diloco.period=4
grep -qE '^far .*by design' "$tmp/held.out" || fail "diloco is not reported as by design"
grep -q 'trains the same as single with diloco.period=1,' "$tmp/held.out" ||
    fail "its setting is not reported: $(grep far "$tmp/held.out")"
