#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every known way in which a strategy silently changes training, planted, and what the
# comparison says of it: in limits and in exact mode the faulty run differs, the same stack
# without the fault does not. What leaves replicas that differ ends its training itself.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

faulty=$CADRE_BUILD/cadre_faulty
data=$(test_plugin fault_data)
schedule=$(test_plugin split_schedule)

# run NAME STACK [KEY=VALUE]: a run of the comparison at hand.
run() {
    printf '[run:%s]\nstrategy.stack = %s\n%s\n' "$1" "$2" "${3-}" >>"$tmp/text.ini"
}

run single single
run good_ddp ddp:2
run good_data "$data:2"
run good_stages "$schedule:2"
run good_zero zero:2 "zero.stage = 3"
# of the core, by the name of the run (tests/support/fault.c)
run loss_per_rank ddp:2
run loss_per_micro_batch ddp:2
run drop_last ddp:2
run bf16_states ddp:2
run random_per_shard zero:2 "zero.stage = 3"
run cursor_per_rank ddp:2
run norm_of_shards "$data:2"
run norm_of_replicas "$data:2"
run tied_gradient "$schedule:2"
run tied_values "$schedule:2"
run order ddp:2
# of a plugin
run factor "$data:2" "fault_data.fault = factor"
run good_four "$data:4"
run ranks_in_turn "$data:4" "fault_data.fault = order"

# caught_by NAME [s.k=v]...: the comparison, by the program that makes the mistakes.
caught_by() {
    local name=$1 cadre=$faulty
    shift
    compare "$name" 3 train.steps=6 train.global_batch=8 train.micro_batch=1 model.layers=2 \
        train.eval_batches=1 log.level=warn "$@"
    tr '\n' ' ' <"$tmp/$name.out" >"$tmp/$name.words"
}

verdict() { # NAME RUN VERDICT
    grep -qE "^$2 .* $3\$" "$tmp/$1.out" || {
        cat "$tmp/$1.out"
        fail "$1: run $2 is not '$3'"
    }
}

caught() { # NAME RUN WHY: where and in what it first differs
    verdict "$1" "$2" differs
    grep -qE "$2 \([^)]*\) did NOT train the same as single: $3" "$tmp/$1.words" || {
        cat "$tmp/$1.out"
        fail "$1: no reason '$3' for $2"
    }
}

norm="the gradient's norm at step"
caught_by limits
for good in good_ddp good_data good_stages good_zero good_four order ranks_in_turn; do
    verdict limits "$good" '(within|exact)'
done
caught limits loss_per_rank "$norm 1"
caught limits loss_per_micro_batch "$norm 1"
caught limits drop_last "$norm 1"
caught limits bf16_states ''
caught limits random_per_shard 'the loss at step 1'
caught limits cursor_per_rank 'the loss at step 2'
caught limits norm_of_shards "$norm 1"
caught limits tied_gradient "$norm 1"
caught limits tied_values 'the loss at step 2'
caught limits factor "$norm 1"
caught limits norm_of_replicas "$norm 1"

# bits_tell NAME: what must be so in a comparison of exact runs.
bits_tell() {
    for good in good_ddp good_data good_stages good_zero good_four; do
        verdict "$1" "$good" exact
    done
    local bits='has other bits'
    caught "$1" order "$norm 1 $bits"
    caught "$1" ranks_in_turn "$norm 1 $bits"
    caught "$1" bf16_states ".*step 2 $bits"
    caught "$1" drop_last "$norm 1 $bits"
    caught "$1" loss_per_rank "$norm 1 $bits"
    caught "$1" loss_per_micro_batch "$norm 1 $bits"
    caught "$1" random_per_shard "the loss at step 1 $bits"
    caught "$1" cursor_per_rank "the loss at step 2 $bits"
    caught "$1" norm_of_shards "$norm 1 $bits"
    caught "$1" tied_gradient "$norm 1 $bits"
    caught "$1" tied_values "the loss at step 2 $bits"
    caught "$1" factor "$norm 1 $bits"
    caught "$1" norm_of_replicas "$norm 1 $bits"
}
caught_by bits run.exact=yes
bits_tell bits
if [ "$slow" = 1 ]; then
    caught_by processes run.exact=yes comm.ranks=processes
    bits_tell processes
fi

# Replicas that are not equal any more end their own training.
run random_per_rank ddp:2
run stale "$data:2" "fault_data.fault = stale"
for name in random_per_rank stale; do
    status=0
    "$faulty" train "$tmp/text.ini" --run "$name" --out "$tmp/$name" --set train.steps=6 \
        --set train.global_batch=8 --set train.micro_batch=1 --set model.layers=2 \
        --set train.eval_batches=1 >"$tmp/$name.out" 2>&1 || status=$?
    if [ "$status" -ne 1 ] || ! grep -q "replicas differ: .* axis '" "$tmp/$name.out"; then
        cat "$tmp/$name.out"
        fail "$name: status $status, expected 1 and replicas that differ"
    fi
done

# An optimizer of matrices that advances once a micro-batch, or is AdamW in silence, where a run
# has several ranks: one that is right has the bits of `single`.
planted=$CADRE_BUILD/tests/check/planted
few="compare.runs=single, good_ddp, good_zero"
compare right 0 train.steps=4 train.global_batch=8 train.micro_batch=1 run.exact=yes "$few" \
    train.eval_batches=1 "optim.name=$planted/base_optimizer.so"
for name in planted_41 planted_42; do
    caught_by "$name" run.exact=yes train.steps=4 "$few" "optim.name=$planted/$name.so"
    caught "$name" good_ddp '.*step [23] has other bits'
    caught "$name" good_zero '.*step [23] has other bits'
done
