#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ZeRO++ through the program: secondary shards have the bits of `single`, and of plain zero
# where ranks run three micro-batches; any checkpoint resumes under them and theirs under any
# strategy; what is quantized trains near to plain zero, sends what it promises and gives the
# same bits as threads and as processes. Killed ranks end a run, and what cannot be is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

node="zero.stage=3 zero.node=2 zero.secondary=node strategy.stack=zero:4"
codes="zero.quantize_gathers=int8 zero.quantize_gradients=int8"
odd="model.channels=20 model.context=24" # fewer than a unit, no power of 2
# shellcheck disable=SC2086 # words
{
    # ---- secondary shards change no bit ----
    train text single 0 run.exact=yes train.steps=4 $odd
    train text nodes 0 run.exact=yes train.steps=4 $odd $node comm.ranks=processes \
        train.recompute=block
    same single nodes
    three="train.steps=3 train.global_batch=24 train.eval_every=1"
    train text plain 0 $three strategy.stack=zero:4 zero.stage=3
    train text three 0 $three $node zero.prefetch=2
    same plain three

    # ---- a run goes on with them, then without them, and after that elsewhere ----
    train text on 0 run.exact=yes train.steps=1 $odd strategy.stack=pipeline:2
    train text on 0 run.exact=yes train.steps=2 $odd $node checkpoint.resume=auto
    train text on 0 run.exact=yes train.steps=3 $odd strategy.stack=zero:2 zero.stage=2 \
        checkpoint.resume=auto
    train text on 0 run.exact=yes train.steps=4 $odd strategy.stack=hsdp:2,zero:2 \
        zero.stage=3 zero.node=1 zero.secondary=node checkpoint.resume=auto
    same single on

    # ---- what is quantized ----
    train text coded 0 train.steps=6 checkpoint.every=3 $node $codes
    train text processes 0 train.steps=6 $node $codes comm.ranks=processes zero.overlap=no
    same coded processes
    train text uncoded 0 train.steps=6 $node
    close_to uncoded coded 0.02 1
    ! cmp -s "$(last uncoded)/model.safetensors" "$(last coded)/model.safetensors" ||
        fail "quantized runs have the bits of others"
    cp -r "$tmp/coded" "$tmp/again"
    rm -r "$(last again)"
    train text again 0 train.steps=6 $node $codes checkpoint.resume=auto
    same coded again
    train text elsewhere 0 train.steps=7 strategy.stack=ddp:2 \
        "checkpoint.resume=$(last coded)"
    train text quantized 0 train.steps=8 strategy.stack=zero:2 zero.stage=3 $codes \
        "checkpoint.resume=$(last elsewhere)"

    # frozen values in int8 travel in that form, once over all ranks
    frozen=$(test_plugin frozen_int8)
    train text frozen 0 train.steps=4 $node,$frozen:1
    train text frozen-coded 0 train.steps=4 $node,$frozen:1 $codes
    close_to frozen frozen-coded 0.02 1
}

# ---- a gradient that is not finite is not hidden ----
# shellcheck disable=SC2086
train text wild 1 $node $codes optim.name=sgd optim.lr=1000 optim.momentum=0.99 optim.clip=0 \
    train.steps=60
says wild 'not finite at step [0-9]+'

# ---- the plan lists what they take ----
# shellcheck disable=SC2086
{
    settings $node $codes
    "$cadre" train "$tmp/text.ini" --dry-run "${sets[@]}" >"$tmp/plan" || fail "no plan"
}
for tag in 'secondary shards' codes 'quantized gradients' 'dequantized shard'; do
    grep -q "zero: $tag" "$tmp/plan" || fail "--dry-run has no 'zero: $tag'"
done

# ---- a killed rank ----
# shellcheck disable=SC2086
start text killed train.steps=1000000 checkpoint.every=0 $node $codes comm.ranks=processes
wait_steps killed 2
kill -KILL "$(rank_of "$pid" 3)"
ends killed 1
says killed "rank 3"
no_orphan killed

# ---- refused ----
refused stage "zero.secondary = node with zero.stage = 1" strategy.stack=zero:4 zero.node=2 \
    zero.secondary=node
refused size "zero.secondary = node without zero.node" strategy.stack=zero:4 zero.stage=3 \
    zero.secondary=node
# shellcheck disable=SC2086
{
    refused uneven "zero.node = 3 does not divide the 4 ranks along 'dp'" $node zero.node=3
    refused exact "zero.quantize_gathers = int8 rounds .* run.exact = yes forbids" $node \
        $codes run.exact=yes
    refused codecs "'(qz|zero)' and '(qz|zero)' both claim wire.codec@dp" $node $codes \
        "strategy.stack=zero:4,$(test_plugin qz):1"
}
