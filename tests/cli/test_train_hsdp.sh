#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hsdp against single: checkpoints have the same bits in exact mode, whatever group it
# surrounds, in both orders of the stack, and after a resume with other groups.
# CADRE_TEST_SLOW=1 takes every stage and way of reducing.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

common="run.exact=yes train.steps=4"
# shellcheck disable=SC2086 # words
train text single 0 $common

# held STACK [s.k=v]...
held() {
    # shellcheck disable=SC2086
    train text hsdp 0 $common "strategy.stack=$1" "${@:2}"
    same single hsdp
    rm -r "${tmp:?}/hsdp"
}

if [ "$slow" = 1 ]; then
    for stack in hsdp:2,zero:2 zero:2,hsdp:2 hsdp:2,zero:4; do
        for stage in 1 2 3; do
            for way in "" "hsdp.overlap=no zero.overlap=no" "comm.ranks=processes"; do
                # shellcheck disable=SC2086
                held $stack zero.stage=$stage $way
                if [ $stage != 1 ]; then
                    # shellcheck disable=SC2086
                    held $stack zero.stage=$stage zero.reduce=microbatch $way
                fi
            done
        done
    done
    held hsdp:2,ddp:2
    held hsdp:2,pipeline:2,zero:2 zero.stage=2 pipeline.schedule=zb-h1
else
    held hsdp:2,zero:2 zero.stage=1
    held zero:2,hsdp:2 zero.stage=2 zero.reduce=microbatch
    held hsdp:2,zero:2 zero.stage=3 comm.ranks=processes
fi

# A run goes on with other groups, and ends with the bits of one that never stopped.
train text on 0 run.exact=yes train.steps=2 strategy.stack=hsdp:2,zero:2 zero.stage=2
train text on 0 run.exact=yes train.steps=4 strategy.stack=zero:2,hsdp:2 zero.stage=3 \
    checkpoint.resume=auto
same single on

# The memory is the group's alone.
train text group 0 train.steps=1 strategy.stack=zero:2 zero.stage=3
train text groups 0 train.steps=1 strategy.stack=hsdp:2,zero:2 zero.stage=3
peak() {
    tr -d ' \n' <"$tmp/$1/summary.json" | sed -E 's/.*"peak_bytes":\[?([0-9]+).*/\1/'
}
[[ $(peak group) =~ ^[0-9]+$ ]] || fail "no peak in the summary"
[ "$(peak group)" = "$(peak groups)" ] || fail "hsdp takes memory of its own"

# Two of one level, or of no level, on one axis.
refused levels "level" strategy.stack=hsdp:2,zero:2 hsdp.level=0
refused twice "dp" strategy.stack=hsdp@dp:2,zero:2
