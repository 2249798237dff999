#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every strategy and every legal stack of them, against `single`, in exact mode: the same
# bits of losses, gradient norms, parameters and optimizer states after 6 steps with
# accumulation and clipping. Stacks with tensor have the bits of each other, and stay
# close to `single`; with run.exact_parts they have its bits. Plugins along renamed axes,
# unequal numbers of micro-batches, divisions that change in the middle and Muon as optimizer
# are among them. Replicas of diloco have the losses of `single` under the setting that it
# names, whatever a replica is made of. Illegal stacks are refused, naming both plugins and
# the effect.
# CADRE_TEST_LEAN takes every third stack; CADRE_TEST_SLOW=1 takes 12 steps and every pair of stack, form of the model, precision,
# optimizer and kind of rank; =2 takes 30 and every combination of them.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

ranges=$(test_plugin ranges)
split_schedule=$(test_plugin split_schedule)
common="run.exact=yes train.steps=30 model.layers=4 strategy.plugin_path=${ranges%/*}"
if [ "$slow" != 1 ]; then
    common="${common/=30/=6}"
elif [ "$full" != 1 ]; then
    common="${common/=30/=12}" # past every change that a list asks for
fi

# Stack and further options of each line are trained; the bits are those of `single`.
alike='
ddp:2
ddp:4
zero:2             zero.stage=1
zero:2             zero.stage=2
zero:2             zero.stage=2 zero.reduce=microbatch run.recheck=2
zero:2             zero.stage=3
zero:4             zero.stage=3 zero.reduce=microbatch
zero:4             zero.stage=1 zero.offload=optimizer run.verify=1
zero:4             zero.stage=3 zero.node=2 zero.secondary=node
zero:4             zero.stage=2 zero.node=2 zero.two_levels=yes
pipeline:2         pipeline.schedule=gpipe
pipeline:2         pipeline.schedule=1f1b
pipeline:2         pipeline.schedule=interleaved
pipeline:2         pipeline.schedule=zb-h1
pipeline:4         pipeline.schedule=1f1b
pipeline:4         pipeline.schedule=zb-h1
pipeline:2         pipeline.schedule=breadth-first
pipeline:2         pipeline.schedule=zb-v run.recheck=1
pipeline:2         pipeline.schedule=dualpipev
pipeline:2, ddp:2  pipeline.schedule=interleaved
pipeline:2, ddp:2  pipeline.schedule=zb-v
ddp:2, pipeline:2  pipeline.schedule=zb-h1
pipeline:2, zero:2 zero.stage=1 pipeline.schedule=gpipe
pipeline:2, zero:2 zero.stage=2 pipeline.schedule=zb-h1
pipeline:2, zero:2 zero.stage=3 pipeline.schedule=interleaved
pipeline:2, zero:2 zero.stage=3 pipeline.schedule=1f1b zero.reduce=microbatch
pipeline:2, zero:2 zero.stage=3 pipeline.schedule=interleaved zero.prefetch=2
pipeline:2, zero:4 zero.stage=3 pipeline.schedule=zb-h1 zero.node=2 zero.secondary=node run.verify=2
pipeline:2, zero:2 zero.stage=2 pipeline.schedule=zb-h1 zero.reduce=microbatch
pipeline:2, zero:2 zero.stage=3 pipeline.schedule=zb-v
pipeline:2, zero:2 zero.stage=2 pipeline.schedule=dualpipev
pipeline:2, zero:2 zero.stage=3 pipeline.schedule=breadth-first
pipeline:2, mig:2  pipeline.schedule=interleaved mig.pin=no
pipeline:2, mig:2  pipeline.schedule=zb-h1 mig.pin=no mig.sizes=5,3
hsdp:2
hsdp:2, ddp:2
hsdp:2, ddp:4      ddp.node=2
zero:2, hsdp:2     zero.stage=2 zero.reduce=microbatch
hsdp:2, zero:2     zero.stage=3 run.recheck=1
hsdp:2, zero:2     zero.stage=3 zero.node=1 zero.secondary=node
hsdp:2, zero:4     zero.stage=3 zero.node=2 zero.secondary=node zero.two_levels=yes
pipeline:2, hsdp:2 pipeline.schedule=zb-h1
ddp@site:2, ddp:2  ddp@site.level=16
ddp@site:2, pipeline@depth:2, zero:2 ddp@site.level=16 zero.stage=2 zero.reduce=microbatch
ddp:2, ranges:1    ranges.first=0,3,8
pipeline:2, ddp:2, ranges:1 ranges.first=0,5,8
ddp:2              balance.micro_batches=3,5/3:6,2
pipeline:2, ddp:2  balance.micro_batches=5,3 pipeline.schedule=zb-h1 run.verify=1
'
# These have the bits of tensor:2.
split='
tensor:2, ddp:2
tensor:2, ddp:4              ddp.node=2 comm.node=4
tensor:2, zero:2             zero.stage=3
tensor:2, zero:2             zero.stage=3 zero.node=1 zero.secondary=node
tensor:2, zero:4             zero.stage=1 zero.node=2 zero.two_levels=yes
pipeline:2, tensor:2         pipeline.schedule=zb-h1 run.recheck=1
pipeline:2, tensor:2         pipeline.schedule=zb-v
pipeline:2, tensor:2, zero:2 zero.stage=2 run.verify=1
hsdp:2, tensor:2, zero:2     zero.stage=1
ddp@site:2, tensor:2, ranges:1 ranges.first=0,5,8
tensor:2, ddp:2              balance.micro_batches=5,3/4:1,7
'
# With run.exact_parts they, and tensor:2, have the bits of `single`.
joined='
tensor:2
tensor:2                     tensor.sequence_parallel=yes
'"${split#?}"'tensor:2, hsdp:2, ddp:2      tensor.sequence_parallel=yes run.recheck=2
tensor:2, pipeline:2, ddp:2  pipeline.schedule=interleaved
'
# Parts of matrices that Muon needs whole, for the short test; the long one has all stacks.
matrices='
zero:2             zero.stage=2
pipeline:2, zero:2 zero.stage=3 pipeline.schedule=interleaved run.verify=1
'
# Replicas of diloco, each made of these.
replicas='
diloco:2, zero:2     zero.stage=3
diloco:2
zero:2, diloco@far:2 zero.stage=1
diloco@far:2, hsdp:2
diloco:2, pipeline:2 pipeline.schedule=zb-h1 run.recheck=2
diloco:2, zero:2     zero.stage=2 diloco.fragments=3 run.verify=1
'

# Of `parts` parts of the lines of a list, the one that is trained; 0 of 1 has them all.
part=0
parts=1

# split_line: $line into $stack and $options.
split_line() {
    stack=$(sed -E 's/ +[a-z]+(@[a-z]+)?\..*//' <<<"$line")
    options=${line#"$stack"}
}

# each LIST REFERENCE [s.k=v]...: trains every line of a list that is in the part.
each() {
    local list=$1 reference=$2 line stack options n=0
    shift 2
    while read -r line; do
        [ -n "$line" ] || continue
        [ $((n++ % parts)) -eq "$part" ] || continue
        split_line
        # shellcheck disable=SC2086 # words
        train text run 0 $common "$@" "strategy.stack=$stack" $options
        echo "$line $*"
        same "$reference" run
        rm -r "$tmp/run"
    done <<<"$list"
}

# outer [s.k=v]...: replicas under the setting that diloco names are `single`, but for rounding.
outer() {
    local line stack options n=0
    set -- "$@" run.exact=no diloco.period=1 diloco.outer_lr=1 diloco.outer_momentum=0 \
        optim.name=sgd optim.momentum=0 optim.clip=0 optim.lr=0.1
    # shellcheck disable=SC2086
    train text outer-single 0 $common "$@"
    while read -r line; do
        [ -n "$line" ] || continue
        [ $((n++ % parts)) -eq "$part" ] || continue
        split_line
        # shellcheck disable=SC2086
        train text outer 0 $common "$@" "strategy.stack=$stack" $options
        echo "$line"
        close_to outer-single outer 1e-6 1e-5
        rm -r "$tmp/outer"
    done <<<"$replicas"
}

# model NAME [s.k=v]...: one form of the model under every stack.
model() {
    local name=$1 limit=1e-5
    shift
    [[ " $* " != *" train.precision=fp64 "* ]] || limit=1e-12
    # shellcheck disable=SC2086
    train text "$name" 0 $common "$@"
    each "$alike" "$name" "$@"
    # shellcheck disable=SC2086
    train text "$name-split" 0 $common "$@" strategy.stack=tensor:2
    close_to "$name" "$name-split" "$limit" 1
    each "$split" "$name-split" "$@"
    # shellcheck disable=SC2086
    train text "$name-joined" 0 $common run.exact_parts=2 "$@"
    each "$joined" "$name-joined" run.exact_parts=2 "$@"
}

# each_optimizer: the other optimizers, each with another part of the stacks. What shards
# products is refused with coded states of this model, whose blocks it would cut.
each_optimizer() {
    local name
    for name in lion coded factored; do
        # shellcheck disable=SC2086
        train text "$name" 0 $common ${!name}
        each "$alike" "$name" ${!name}
        part=$(((part + 1) % parts))
    done
    for name in lion factored; do
        # shellcheck disable=SC2086
        train text "$name-split" 0 $common ${!name} strategy.stack=tensor:2
        each "$split" "$name-split" ${!name}
        # shellcheck disable=SC2086
        train text "$name-joined" 0 $common run.exact_parts=2 ${!name}
        each "$joined" "$name-joined" run.exact_parts=2 ${!name}
    done
}

processes="comm.ranks=processes train.recompute=block"
llama="model.arch=llama model.kv_heads=2 model.heads=4 model.tied=no"
muon="optim.name=muon muon.ns_steps=2"
lion="optim.name=lion" coded="optim.name=adamw8bit" factored="optim.name=adafactor"
# Each stack runs under two models that have nothing in common, which are all pairs; Muon
# meets every form, precision and kind of rank.
# shellcheck disable=SC2086
if [ "$slow" != 1 ]; then
    [ "$lean" = 0 ] || parts=3
    model gpt2
    train text muon 0 $common $muon
    each "$matrices" muon $muon
    train text coded 0 $common $coded
    each "$matrices" coded $coded
    parts=3 outer
else
    [ "$full" = 1 ] || parts=4
    model gpt2-32 train.precision=fp32 $muon
    part=$((1 % parts)) model gpt2-64 train.precision=fp64
    part=$((2 % parts)) model llama-32 $llama train.precision=fp32
    part=$((3 % parts)) model llama-64 $llama train.precision=fp64 $muon
    part=$((3 % parts)) model gpt2-32-processes train.precision=fp32 $processes
    part=$((2 % parts)) model gpt2-64-processes train.precision=fp64 $processes $muon
    each_optimizer
    part=$((1 % parts)) model llama-32-processes $llama train.precision=fp32 $processes $muon
    part=0 model llama-64-processes $llama train.precision=fp64 $processes
    parts=1 part=0 outer
fi

# refused STACK PATTERN [s.k=v]...: one line that says why, before anything is made.
refused() {
    local stack=$1 pattern=$2
    shift 2
    train text refused 2 "strategy.stack=$stack" "$@"
    says refused "$pattern"
    [ ! -e "$tmp/refused" ] || fail "$stack: refused, but its folder is there"
}
refused "ddp:2, zero:2" "'ddp' and 'zero' both reduce gradients along 'dp'"
refused "pipeline:2, $split_schedule:2" \
    "'pipeline' and 'split_schedule' both claim schedule.order"
refused "pipeline:8" "pipeline.*(layers|units)" # 2 layers
refused "tensor:4" "tensor.*heads" # 2 heads
refused "pipeline:2, pipeline:2" "is listed twice"
refused "ddp:2, zero:4" "share the axis 'dp'"
