#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sharding every product over ranks changes only rounding: tensor at 2 and 4 ranks against
# single, GPT-2 and Llama form, tied and untied, with grouped queries, a classification head,
# recomputed blocks, with the rows of activations sharded too, with ddp and zero, as threads and as
# processes.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# Plain sgd: adamw divides what is nearly zero by what is nearly zero.
sgd=(optim.name=sgd optim.momentum=0.9 optim.lr=0.1 train.steps=10 model.heads=4)
llama=(model.arch=llama model.kv_heads=2)
rows=tensor.sequence_parallel=yes

# against NAME STACKS LOSS PARAM [s.k=v]...: single, then each stack, within the limits.
against() {
    local name=$1 stacks=$2 loss=$3 param=$4 stack
    shift 4
    train text "$name-single" 0 "${sgd[@]}" "$@"
    for stack in $stacks; do
        train text "$name-$stack" 0 "${sgd[@]}" "$@" "strategy.stack=$stack"
        close_to "$name-single" "$name-$stack" "$loss" "$param"
        train text "$name-$stack-rows" 0 "${sgd[@]}" "$@" "strategy.stack=$stack" "$rows"
        close_to "$name-single" "$name-$stack-rows" "$loss" "$param"
    done
}

against gpt2 "tensor:2 tensor:4" 1e-6 2e-5
against gpt2-64 "tensor:2" 1e-14 1e-13 train.precision=fp64
against llama "tensor:2 ddp:2,tensor:2" 1e-6 2e-5 "${llama[@]}"
if [ "$slow" = 1 ]; then
    against llama-64 "tensor:2" 1e-14 1e-13 "${llama[@]}" train.precision=fp64
    against untied "tensor:2" 1e-6 2e-5 model.tied=no
    against short "tensor:2 tensor:4" 1e-6 2e-5 train.micro_batch=1 model.context=31
fi

# A classification head, which is not sharded.
beats=(data.task=beats model.head=classify train.steps=6 "${sgd[@]:0:3}")
train ecg beats 0 "${beats[@]}"
train ecg beats-2 0 "${beats[@]}" strategy.stack=tensor:2
close_to beats beats-2 1e-6 2e-5
train ecg beats-2-rows 0 "${beats[@]}" strategy.stack=tensor:2 "$rows"
close_to beats beats-2-rows 1e-6 2e-5

# Ranks as processes, and one rank along the axis, change no bit.
train text gpt2-p 0 "${sgd[@]}" strategy.stack=tensor:2 comm.ranks=processes
same gpt2-tensor:2 gpt2-p
train text rows-p 0 "${sgd[@]}" strategy.stack=tensor:2 "$rows" comm.ranks=processes
same gpt2-tensor:2-rows rows-p
train text one 0 "${sgd[@]}" strategy.stack=tensor:1 "$rows"
same gpt2-single one

# In exact mode, what tensor is stacked with changes no bit either.
stacks="zero:2,tensor:2 pipeline:2,tensor:2,zero:2"
[ "$slow" = 1 ] && stacks="$stacks tensor:2,ddp:2 tensor:2,pipeline:2 zero:2,tensor:2,pipeline:2"
for sharded in no yes; do
    exact=("${sgd[@]}" run.exact=yes "tensor.sequence_parallel=$sharded")
    train text "exact-$sharded" 0 "${exact[@]}" strategy.stack=tensor:2
    for stack in $stacks; do
        train text "exact-$sharded-$stack" 0 "${exact[@]}" "strategy.stack=$stack"
        same "exact-$sharded" "exact-$sharded-$stack"
    done
    train text "exact-$sharded-r" 0 "${exact[@]}" strategy.stack=tensor:2 train.recompute=block
    same "exact-$sharded" "exact-$sharded-r"
done

# The bytes of the README, those of a step and a layer: a micro-batch has n = 2 x 32 x 32 values
# of 4 bytes, and there are 8. Of 2 ranks each sends n of a sum of n, and n/2 of gathering or
# scattering it. Sharded rows gather twice more, and add up two norms' weights and biases of 32
# channels once a step. The core sends 12 chunks of the norm of 8 bytes.
bytes_of_layer() {
    local steps layers sent=()
    for layers in 1 2; do
        for steps in 1 2; do
            train text "bytes-$1" 0 "train.steps=$steps" "model.layers=$layers" \
                strategy.stack=tensor:2 "tensor.sequence_parallel=$1"
            sent+=("$(sed -n 's/.*"comm_bytes": *\([0-9]*\).*/\1/p' "$tmp/bytes-$1/summary.json")")
            rm -r "$tmp/bytes-$1"
        done
    done
    echo $((sent[3] - sent[2] - sent[1] + sent[0]))
}
n=2048
plain=$((2 * (8 * 4 * n * 4 + 12 * 8)))
more=$((2 * (8 * 2 * 4 * n / 2 + 4 * 32 * 4)))
found=$(bytes_of_layer no)
[ "$found" -eq "$plain" ] || fail "a layer sends $found bytes a step, expected $plain"
found=$(bytes_of_layer yes)
[ "$found" -eq $((plain + more)) ] ||
    fail "with sharded rows a layer sends $found bytes a step, expected $plain + $more"

# Collectives, as the waits for them in the trace of a step: 4 L + 4 a micro-batch; with sharded
# rows 10 L + 7, and the sums of the norms' gradients are waited for once.
for sharded in no yes; do
    train text "trace-$sharded" 0 strategy.stack=tensor:2 "tensor.sequence_parallel=$sharded" \
        train.steps=4 log.trace=yes
done
joins() {
    python3 - "$tmp/trace-$1/trace.json" <<'EOF'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
count = lambda name: sum(e.get("ph") == "X" and e["name"].startswith(name) for e in events)
print(count("wait tp"), count("forward of micro-batch"), count("step"))
EOF
}
if command -v python3 >/dev/null; then
    read -r waits passes steps < <(joins no)
    [ "$passes" -gt 0 ] || fail "no passes in the trace"
    [ "$waits" -eq $((12 * passes)) ] || fail "$waits waits in $passes passes, expected 12 each"
    read -r waits passes steps < <(joins yes)
    [ "$waits" -eq $((27 * passes + steps)) ] ||
        fail "with sharded rows $waits waits in $passes passes, expected 27 each and $steps"
else
    echo "SKIP: no python3 to read the trace"
fi

# What is kept of a micro-batch is a quarter on each of four ranks if rows are sharded; tokens
# and three values a token for the loss are whole.
activations() {
    "$cadre" train "$tmp/text.ini" --dry-run --set model.heads=4 --set model.channels=256 \
        --set model.context=256 "$@" | awk '$1 == "activations" { print $3; exit }'
}
all=$(activations)
part=$(activations --set strategy.stack=tensor:4 --set tensor.sequence_parallel=yes)
sums=$(activations --set strategy.stack=tensor:4)
echo "activations: $all MiB whole, $part MiB sharded, $sums MiB with whole rows"
awk -v a="$all" -v p="$part" -v s="$sums" 'BEGIN { exit !(p >= a / 4 && p < a / 4 * 1.01 && s > 1.5 * p) }' ||
    fail "activations are not a quarter"

# A checkpoint goes to another sharding and back: steps of length zero leave every byte of the
# parameters; and a run that continues under another stack has the bits of one never stopped.
exact=("${sgd[@]}" run.exact=yes)
train text stop 0 "${exact[@]}" strategy.stack=tensor:2 train.steps=4
for stack in single tensor:4 zero:2,tensor:2; do
    train text "to-$stack" 0 "${exact[@]}" "strategy.stack=$stack" "checkpoint.resume=$(last stop)" \
        train.steps=6 optim.lr=0
    cmp "$(last stop)/model.safetensors" "$(last "to-$stack")/model.safetensors" ||
        fail "the parameters of tensor:2 came back otherwise from $stack"
done
train text continued 0 "${exact[@]}" strategy.stack=zero:2,tensor:2 "checkpoint.resume=$(last stop)" \
    train.steps=10
for file in model.safetensors optimizer.safetensors; do
    cmp "$(last exact-no)/$file" "$(last continued)/$file" || fail "$file of a continued run"
done

# What cannot be sharded is refused.
train text heads 2 strategy.stack=tensor:4
says heads "'tensor' claims act.complete@tp over 4 ranks: model.heads = 2 is not a multiple"
train text kv 2 "${llama[@]}" model.heads=4 strategy.stack=tensor:4
says kv "model.kv_heads = 2 is not a multiple"
train text hidden 2 model.hidden=65 strategy.stack=tensor:2
says hidden "model.hidden = 65 is not a multiple"
train text twice 2 strategy.stack=tensor:2,tensor:2
says twice "tensor"
train text tokens 2 train.micro_batch=1 model.context=2 model.heads=4 strategy.stack=tensor:4 "$rows"
says tokens "cannot divide the 2 tokens of a micro-batch .* over the 4 ranks"
