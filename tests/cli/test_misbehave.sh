#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A plugin that crashes, exits, or does not return ends the run with one line that names
# plugin, callback, step and rank, with status 1, and leaves no process behind. Signals end
# it whatever a plugin does.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
bad=$(test_plugin misbehave)
let_crash
ulimit -c 0

common=("strategy.stack=ddp:2, $bad:1" train.steps=6 checkpoint.every=0
    train.eval_batches=1)

# wrong RANKS WHERE FAULT PATTERN [s.k=v]...: rank 1 does FAULT in WHERE.
wrong() {
    local name=$1-$2-$3
    train text "$name" 1 "${common[@]}" "comm.ranks=$1" "misbehave.where=$2" \
        "misbehave.fault=$3" "${@:5}"
    says "$name" "$4"
    no_orphan "$name"
    echo "$name: $(grep '^cadre: ' "$tmp/$name.log")"
}

killed="was killed by signal"
for ranks in threads processes; do
    # in the launching process, before there are ranks
    wrong $ranks create segfault "^cadre: plugin 'misbehave' in create: the run $killed 11"
    wrong $ranks create exit "the run ended without finishing: plugin 'misbehave' called exit in create"

    # crashes, with the step where there is one
    wrong $ranks plan abort \
        "^cadre: plugin 'misbehave' in plan: (rank 1|the run) $killed 6 \(Aborted\)"
    wrong $ranks step segfault \
        "^cadre: plugin 'misbehave' in step at step 2: rank 1 $killed 11 \(Segmentation fault\)"
    wrong $ranks on_grad segfault "^cadre: plugin 'misbehave' in on_grad at step 2: rank 1 $killed 11"

    # ends that look like success
    wrong $ranks step exit \
        "rank 1 ended without finishing: plugin 'misbehave' called exit in step at step 2"
    wrong $ranks sync exit-3 \
        "rank 1 ended without finishing.*: plugin 'misbehave' called exit in sync\(GRADS\) at step 2"

    # no end
    wrong $ranks step spin \
        "plugin 'misbehave' has not returned from step for [0-9.]+ s, at step 2 on rank 1" \
        comm.timeout=$((2 * patience))

    # after a failure, which a process has told before
    if [ $ranks = threads ]; then
        wrong $ranks abort spin \
            "plugin 'misbehave' has not returned from abort for [0-9.]+ s, at step 2 on rank 1" \
            comm.timeout=$((2 * patience))
    else
        wrong $ranks abort spin "plugin 'misbehave' failed in step at step 2 without saying why" \
            comm.timeout=$((2 * patience))
    fi

    # without exit handlers: which thread it was cannot be known
    if [ $ranks = threads ]; then
        wrong $ranks on_block quit "(rank 1|a rank) ended without finishing.* at step 2"
    else
        wrong $ranks on_block quit \
            "rank 1 ended without finishing: plugin 'misbehave' called exit in on_block at step 2"
    fi

    # no reason
    wrong $ranks step silent "plugin 'misbehave' failed in step at step 2 without saying why"
    [ "$lean" = 0 ] || continue

    wrong $ranks create abort "^cadre: plugin 'misbehave' in create: the run $killed 6"
    wrong $ranks plan exit "plugin 'misbehave' called exit in plan"
    wrong $ranks plan spin "plugin 'misbehave' has not returned from plan for [0-9.]+ s" \
        comm.timeout=$((2 * patience))
    wrong $ranks bind segfault "^cadre: plugin 'misbehave' in bind: rank 1 $killed 11"
    wrong $ranks bind spin "plugin 'misbehave' has not returned from bind for [0-9.]+ s, on rank 1" \
        comm.timeout=$((2 * patience))
    wrong $ranks on_block segfault "^cadre: plugin 'misbehave' in on_block at step 2: rank 1"
    wrong $ranks on_grad spin "has not returned from on_grad for [0-9.]+ s, at step 2 on rank 1" \
        comm.timeout=$((2 * patience))
    wrong $ranks sync abort "^cadre: plugin 'misbehave' in sync\(GRADS\) at step 2: rank 1 $killed 6"
    wrong $ranks sync spin "has not returned from sync\(GRADS\) for [0-9.]+ s, at step 2 on rank 1" \
        comm.timeout=$((2 * patience))
    wrong $ranks state segfault "^cadre: plugin 'misbehave' in state.*: rank 1 $killed 11"
    wrong $ranks state silent "plugin 'misbehave' failed in state.* without saying why"
    wrong $ranks destroy segfault "^cadre: plugin 'misbehave' in destroy.*: rank 1 $killed 11"
    wrong $ranks destroy exit "plugin 'misbehave' called exit in destroy"
    wrong $ranks step thread "rank 1 ended without finishing|a rank ended without finishing"
    # a process lives on while it has other threads
    wrong $ranks step leave \
        "plugin 'misbehave' (called exit in step|has not returned from step).* at step 2" \
        comm.timeout=$((2 * patience))
done

# one rank, in the main thread
train text alone 1 "strategy.stack=$bad:1" misbehave.rank=0 misbehave.where=step \
    misbehave.fault=segfault
says alone "^cadre: plugin 'misbehave' in step at step 2: rank 0 $killed 11"
train text alone-exit 1 "strategy.stack=$bad:1" misbehave.rank=0 misbehave.where=step \
    misbehave.fault=exit
says alone-exit "rank 0 ended without finishing: plugin 'misbehave' called exit in step at step 2$"

# ---- while it is opened, and by other commands ----
opened() { # NAME FAULT PATTERN COMMAND...
    CADRE_TEST_MISBEHAVE=$2 runs "$1" 1 "$cadre" "${@:4}"
    says "$1" "$3"
}
sets=(--set "strategy.stack=ddp:2, $bad:1")
opened constructor quit "plugin 'misbehave.so' called exit in open" \
    train "$tmp/text.ini" --out "$tmp/constructor" "${sets[@]}"
opened inspected exit "plugin 'misbehave.so' called exit in open" inspect "$bad"
opened inspected-fault segfault "plugin 'misbehave.so' in open: the run $killed 11" inspect "$bad"
runs planned 1 "$cadre" train "$tmp/text.ini" --out "$tmp/planned" "${sets[@]}" --dry-run \
    --set misbehave.where=plan --set misbehave.fault=segfault
says planned "plugin 'misbehave' in plan: the run $killed 11"

# ---- ranks of an external launcher: each has a supervisor of its own ----
start_ranks "file://$tmp/meet" outside "${common[@]}" misbehave.where=step \
    misbehave.fault=segfault
end_ranks outside 1
says outside.1 "plugin 'misbehave' in step at step 2: rank 1 $killed 11"
says outside.0 "rank 1"

# ---- signals: a hung callback has at most ten seconds ----
for ranks in threads processes; do
    start text "deaf-$ranks" "${common[@]}" comm.ranks=$ranks misbehave.where=step \
        misbehave.fault=spin misbehave.step=3 misbehave.mark="$tmp/deaf-$ranks.mark" \
        comm.timeout=100000
    until_so "deaf-$ranks" "the hang" test -e "$tmp/deaf-$ranks.mark"
    kill -TERM "$pid"
    ends "deaf-$ranks" 1
    says "deaf-$ranks" "stopped by a signal without a checkpoint: plugin 'misbehave' has not returned from step for 10 s, at step 3 on rank 1"
    no_orphan "deaf-$ranks"
done
start text twice "${common[@]}" misbehave.where=step misbehave.fault=spin \
    misbehave.mark="$tmp/twice.mark" comm.timeout=100000
until_so twice "the hang" test -e "$tmp/twice.mark"
while kill -INT "$pid" 2>/dev/null; do sleep 0.3; done # the second ends it at once
ends twice 130
no_orphan twice

# ---- nobody watches, for a debugger ----
CADRE_SUPERVISE=no train text unwatched 0 "${common[@]}"
CADRE_SUPERVISE=no runs unwatched-wrong 2 "$cadre" train "$tmp/missing.ini"
says unwatched-wrong "missing.ini"
