#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.elastic: a process rank that is lost does not end the run. The others go on from the
# last checkpoint in the largest stack that does the same work, and in exact mode the end
# has the bits of a run that lost nobody.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# child PARENT RANK: process id of a rank of the launcher PARENT.
child() {
    local one
    for one in $(pgrep -P "$1"); do
        if { tr '\0' '\n' <"/proc/$one/environ"; } 2>/dev/null |
            grep -x "CADRE_RANK=$2" >/dev/null; then # -q would cut tr off: pipefail
            echo "$one"
        fi
    done
}

saved() { # NAME BEFORE: there is another checkpoint than BEFORE
    [ "$(last "$1")" != "$2" ]
}

told() { # NAME N TEXT: the log has N lines with it
    [ "$(grep -c -- "$3" "$tmp/$1.log")" -eq "$2" ]
}

# lose NAME RANK SIGNAL N STACK: takes a rank away once there is a new checkpoint; the run
# goes on with STACK, which is its restart number N.
lose() {
    local name=$1
    until_so "$name" "checkpoint" saved "$name" "$(last "$name")"
    kill "-$3" "$(child "$pid" "$2")"
    until_so "$name" "restart" told "$name" "$4" "; run.elastic goes on with "
    grep -q "rank $2 .*; run.elastic goes on with $5, after step [0-9]" \
        "$tmp/$name.log" || fail "$name: did not say that it goes on with $5"
}

# A link that is slow gives time to find and kill ranks, whatever the machine.
common=(run.exact=yes train.steps=30 train.eval_batches=1)
elastic=("${common[@]}" run.elastic=yes comm.ranks=processes comm.link=1:8000
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
    grep -qx "stack = ['\"]*$after['\"]*" "$tmp/$name/config.ini" ||
        fail "$name: config.ini has another stack"
    "$cadre" inspect "$tmp/$name" | grep -A 3 '"restarts"' | grep -q '"lost": 1' ||
        fail "$name: summary.json has no restarts"
    echo "$name: $(grep -o 'run.elastic goes on.*' "$tmp/$name.log")"
}
survives ddp 2 ddp:4 ddp:2
survives stages 0 "pipeline:2, ddp:2" "pipeline:2, ddp:1"
