#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.exact_parts = P: tensor has the bits of `single`, of losses, gradient norms, parameters and
# optimizer states, whatever its size and whatever it is stacked with; GPT-2 and Llama form, tied
# and untied, grouped queries, sharded rows, recomputed blocks, every precision, sizes that are odd
# on a rank, three micro-batches, clipping, adapters of every weight, rounded products. Where P does
# not fit, one line says why; a resume under another P says so.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

steps=3
[ "$slow" != 1 ] || steps=10
# On each of 4 ranks 33 hidden channels and 65 tokens of the vocabulary; 31 tokens a sequence.
common="run.exact=yes model.hidden=132 model.vocab=260 model.context=31 train.steps=$steps
    optim.clip=0.5 checkpoint.every=$steps"
gpt2="$common model.heads=4 model.channels=36"
llama="$common model.arch=llama model.heads=8 model.kv_heads=4 model.channels=48"
rows=tensor.sequence_parallel=yes

# each NAME STACKS [s.k=v]...: `single`, and every stack with its bits. A stack that ends with +
# shards rows too.
each() {
    local name=$1 stacks=$2 stack run
    shift 2
    train text "$name" 0 "$@"
    for stack in $stacks; do
        run=$name-$stack
        if [ "${stack%+}" != "$stack" ]; then
            train text "$run" 0 "$@" "strategy.stack=${stack%+}" "$rows"
        else
            train text "$run" 0 "$@" "strategy.stack=$stack"
        fi
        same "$name" "$run"
        rm -r "${tmp:?}/$run"
    done
}

three="train.global_batch=6" # micro-batches of 2
lora="tune.method=lora tune.targets=all tune.rank=3"
qat="tune.method=qat tune.group=3"
# shellcheck disable=SC2086 # words
{
    each gpt2-2 "tensor:2 tensor:2+" $gpt2 run.exact_parts=2 $three
    each gpt2-4 "tensor:2 tensor:4 tensor:4+" $gpt2 run.exact_parts=4 $three \
        train.recompute=block model.tied=no
    each llama-4 "tensor:4 tensor:2+" $llama run.exact_parts=4 $three
    each stacked "tensor:2,ddp:2 zero:2,tensor:2 pipeline:2,tensor:2,zero:2 ddp:2 pipeline:2" \
        $gpt2 run.exact_parts=4 zero.stage=3 pipeline.schedule=zb-h1
    each bf16 "tensor:2 tensor:4+" $gpt2 run.exact_parts=4 train.precision=bf16
    each fp64 "tensor:4" $llama run.exact_parts=4 train.precision=fp64 device.threads=2
    each gpt2-lora "tensor:2 tensor:4+ pipeline:2,tensor:2" $gpt2 run.exact_parts=4 $lora $three
    each llama-lora "tensor:2+ tensor:4 zero:2,tensor:2" $llama run.exact_parts=4 $lora \
        train.precision=bf16 zero.stage=3
    each gpt2-qat "tensor:2 tensor:4+ pipeline:2,tensor:2" $gpt2 run.exact_parts=4 $qat $three \
        train.precision=bf16
    each llama-qat "tensor:2+ tensor:4 zero:2,tensor:2" $llama run.exact_parts=4 $qat zero.stage=3 \
        train.recompute=block
    if [ "$slow" = 1 ]; then
        each six "tensor:3 tensor:6 tensor:3+" $gpt2 run.exact_parts=6 model.heads=6 \
            model.vocab=258
        each fp16 "tensor:4 tensor:2+" $llama run.exact_parts=4 train.precision=fp16
        each replicas "hsdp:2,tensor:2,zero:2 tensor:4,pipeline:2" $llama run.exact_parts=4 \
            model.layers=4 zero.stage=2 pipeline.schedule=interleaved comm.ranks=processes
        each muon "tensor:2 tensor:4 zero:2,tensor:2" $gpt2 run.exact_parts=4 optim.name=muon
        each q-lora "tensor:2 tensor:4+ hsdp:2,tensor:2,zero:2" $llama run.exact_parts=4 $lora \
            tune.targets=q,v,down,up train.recompute=block zero.stage=3
    fi
}

# A classification head is not sharded.
beats="data.task=beats model.head=classify run.exact=yes run.exact_parts=2 train.steps=$steps"
# shellcheck disable=SC2086
{
    train ecg beats 0 $beats
    train ecg beats-2 0 $beats strategy.stack=tensor:2
    train ecg beats-2-rows 0 $beats strategy.stack=tensor:2 "$rows"
}
same beats beats-2
same beats beats-2-rows

# The option does something, and P is in the files.
# shellcheck disable=SC2086
train text one 0 $gpt2 $three
if (same gpt2-2 one) >"$tmp/said" 2>&1; then
    fail "two parts have the bits of one"
fi
grep -q '"exact_parts": 2' "$tmp/gpt2-2/summary.json" || fail "summary.json has no exact_parts"
grep -q '"exact_parts": *"2"' "$(last gpt2-2)/state.json" || fail "state.json has no exact_parts"

# A resume under another stack has the bits of a run that never stopped; under another P it is
# another training, which is said.
# shellcheck disable=SC2086
{
    train text half 0 $gpt2 $three run.exact_parts=2 strategy.stack=tensor:2 train.steps=1 \
        checkpoint.every=1
    train text rest 0 $gpt2 $three run.exact_parts=2 "checkpoint.resume=$(last half)"
    train text other 0 $gpt2 $three run.exact_parts=4 "checkpoint.resume=$(last half)"
}
for file in model.safetensors optimizer.safetensors; do
    cmp "$(last gpt2-2)/$file" "$(last rest)/$file" || fail "$file of a resumed run"
done
grep -q "was trained with run.exact_parts = 2, and continues with 4: its bits differ" \
    "$tmp/other.log" || fail "no warning that the parts are others"

# refused PATTERN [s.k=v]...
refused() {
    local pattern=$1
    shift
    # shellcheck disable=SC2086
    train text refused 2 $gpt2 "$@"
    says refused "$pattern"
    [ ! -e "$tmp/refused" ] || fail "$*: refused, but its folder is there"
}
refused "run.exact_parts = 2 cuts the sums of exact mode, found run.exact = no" run.exact=no \
    run.exact_parts=2
refused "model.heads = 4 is not a multiple of run.exact_parts = 3" run.exact_parts=3
refused "model.vocab = 261 is not a multiple of run.exact_parts = 2" run.exact_parts=2 \
    model.vocab=261
refused "run.exact_parts = 2 over 4 tensor ranks, expected a power of two of parts on each" \
    run.exact_parts=2 strategy.stack=tensor:4
refused "run.exact_parts = 12 over 4 tensor ranks" model.heads=12 model.vocab=264 \
    run.exact_parts=12 strategy.stack=tensor:4
refused "model.head_rows = 8, expected 0 with run.exact_parts = 2" run.exact_parts=2 \
    model.head_rows=8
refused "model.experts = 2, expected 0 with run.exact_parts = 2" run.exact_parts=2 \
    model.experts=2
