#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Quantization-aware training: PyTorch's losses, the same bits under every strategy and, but for
# rounding, under tensor, a resume, rounded models, and what is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

samples=$CADRE_SRC/tests/samples
for form in gpt2 llama; do
    cat >"$tmp/$form.ini" <<EOF
[model]
init = $samples/lora/$form
[data]
path = $samples/text/alice29.txt
tokenizer = byte
shuffle = no
valid_fraction = 0.05
cache = $tmp/cache
[train]
steps = 4
global_batch = 4
micro_batch = 1
eval_batches = 2
[tune]
method = qat
group = 8
EOF
done

# ---- 20 AdamW steps of PyTorch (tests/samples/qat/make.py) ----
golden() {
    local form=$1 precision=$2 group=$3 steps=$4 limit=$5
    rm -rf "$tmp/golden"
    train "$form" golden 0 train.precision="$precision" tune.group="$group" \
        train.steps="$steps" data.valid_fraction=0 optim.lr=1e-3 \
        optim.weight_decay=0.1
    awk -v form="$form" -v precision="$precision" -v group="$group" -v steps="$steps" \
        -v limit="$limit" '
        NR == FNR && $1 == form && $2 == precision && $3 == group { want[$4] = $5 }
        NR != FNR {
            d = ($2 - want[$1]) / want[$1]
            d = d < 0 ? -d : d
            worst = d > worst ? d : worst
            n++
        }
        END {
            printf "%s %s, groups of %s: losses of %d steps differ from those of PyTorch by " \
                "%.2g\n", form, precision, group, n, worst
            exit !(n == steps && worst <= limit)
        }' "$samples/qat/golden.tsv" <(losses golden) || fail "not the losses of PyTorch"
}
for form in gpt2 llama; do
    golden $form fp32 8 1 1e-6
    golden $form fp64 256 20 1e-9
    golden $form fp64 8 20 1e-9
done

# ---- every strategy, bit for bit ----
stacks=(ddp:2 "zero:2 zero.stage=1" "zero:2 zero.stage=2" "zero:2 zero.stage=3" pipeline:2
    "pipeline:2,zero:2 zero.stage=2")
[ "$lean" = 0 ] || stacks=("zero:2 zero.stage=3" pipeline:2)
for form in gpt2 llama; do
    train $form $form-exact 0 run.exact=yes
    for stack in "${stacks[@]}"; do
        # shellcheck disable=SC2046,SC2086
        train $form sharded 0 run.exact=yes "strategy.stack=${stack%% *}" \
            $(cut -s -d ' ' -f 2- <<<"$stack")
        same $form-exact sharded
        rm -r "${tmp:?}/sharded"
    done
    train $form recomputed 0 run.exact=yes train.recompute=block
    same $form-exact recomputed
    rm -r "${tmp:?}/recomputed"
done
train llama full 0 run.exact=yes tune.method=full tune.group=256
! diff <(losses llama-exact) <(losses full) >"$tmp/diff" || fail "qat changes nothing"
train llama half 0 train.precision=bf16

# ---- tensor ranks, and sums in parts, but for rounding: in fp64, as in fp32 a code may be
# rounded the other way. The bits of parts are test_train_exact_parts.sh's ----
rows=tensor.sequence_parallel=yes
parts="run.exact=yes run.exact_parts=2"
stacks=("single $parts" tensor:2 "tensor:2 $rows"
    "zero:2,tensor:2 zero.stage=3 train.recompute=block"
    "pipeline:2,tensor:2 $rows pipeline.schedule=zb-h1")
[ "$lean" = 0 ] || stacks=("single $parts" "tensor:2 $rows")
near=(train.precision=fp64 tune.group=4 optim.name=sgd optim.lr=0.1)
for form in gpt2 llama; do
    train $form whole 0 "${near[@]}"
    for stack in "${stacks[@]}"; do
        # shellcheck disable=SC2046,SC2086
        train $form shared 0 "${near[@]}" "strategy.stack=${stack%% *}" \
            $(cut -s -d ' ' -f 2- <<<"$stack")
        close_to whole shared 1e-10 1e-10
        rm -r "${tmp:?}/shared"
    done
    rm -r "${tmp:?}/whole"
done

# ---- a resume under other strategies ----
train llama on 0 run.exact=yes train.steps=2 strategy.stack=ddp:2
train llama on 0 run.exact=yes train.steps=3 checkpoint.resume=auto strategy.stack=zero:2 \
    zero.stage=3
train llama on 0 run.exact=yes checkpoint.resume=auto strategy.stack=pipeline:2
same llama-exact on

# ---- rounded: the same loss, to the bit, in the dtype of training ----
for run in gpt2-exact llama-exact half golden; do
    form=llama
    [ $run != gpt2-exact ] || form=gpt2
    runs merge 0 "$cadre" merge "$tmp/$run" --out "$tmp/$run-int4"
    runs eval 0 "$cadre" eval "$tmp/$run" --set data.valid_fraction=0.05 --json
    precision=$(sed -n 's/^precision = //p' "$tmp/$run/config.ini")
    sed -e "s|^init = .*|init = $tmp/$run-int4|" "$tmp/$form.ini" >"$tmp/int4.ini"
    runs again 0 "$cadre" eval "$tmp/int4.ini" --set tune.quantized=yes \
        --set "train.precision=$precision" --json
    for key in loss accuracy; do
        [ "$(grep "\"$key\"" "$tmp/eval.out")" = "$(grep "\"$key\"" "$tmp/again.out")" ] ||
            fail "$run in $precision: $key of the run and of the rounded model differ:" \
                "$(grep -h "\"$key\"" "$tmp/eval.out" "$tmp/again.out")"
    done
done
# As a plain model, its activations are not rounded.
runs plain 0 "$cadre" eval "$tmp/int4.ini" --set tune.method=full --set tune.group=256 --json
! diff "$tmp/plain.out" "$tmp/again.out" >"$tmp/diff" || fail "tokens are not rounded"
runs twice 2 "$cadre" eval "$tmp/int4.ini"
says twice "quantised already .*int4.safetensors.*set tune.quantized = yes"
runs train-rounded 2 "$cadre" train "$tmp/int4.ini" --set tune.quantized=yes --out "$tmp/no"
says train-rounded "tune.quantized = yes is for evaluating and generating"
runs merge-rounded 2 "$cadre" merge "$tmp/int4.ini" --set tune.quantized=yes --out "$tmp/no"
says merge-rounded "no weights to round"
runs generate 0 "$cadre" generate "$tmp/int4.ini" --set tune.quantized=yes --prompt Alice \
    --tokens 4

# ---- what is refused ----
refused unquantised "tune.quantized = yes, but model.init = '' has no int4.safetensors" \
    tune.method=qat tune.quantized=yes
refused group "tune.group = 8 .* is of quantization, but tune.method = full" tune.group=8
refused rank "tune.rank = 4 .* is of adapters, but tune.method = qat" tune.method=qat \
    tune.rank=4
refused base "tune.base = nf4 is of frozen weights" tune.method=qat tune.base=nf4
refused cut "tune.group = 256 over 2 tensor ranks, expected a divisor of 16, .* of the 32 inputs of \
attention's output" tune.method=qat strategy.stack=tensor:2
refused hidden "tune.group = 8 over 2 tensor ranks, expected a divisor of 18, .* of the 36 inputs of \
the MLP's last product" tune.method=qat tune.group=8 model.hidden=36 strategy.stack=tensor:2
refused experts "tune.method = qat with model.experts" tune.method=qat model.experts=2
refused small "tune.group: expected a whole number from 2 .*found .1" tune.method=qat tune.group=1

# ---- memory: as --dry-run says ----
for stack in single "zero:2 zero.stage=3" pipeline:2 "tensor:2 tune.group=4 $rows" \
    "tensor:2 tune.group=4 $parts"; do
    # shellcheck disable=SC2046,SC2086
    settings "strategy.stack=${stack%% *}" $(cut -s -d ' ' -f 2- <<<"$stack")
    runs dry 0 "$cadre" train "$tmp/llama.ini" --out "$tmp/dry" --dry-run "${sets[@]}"
    runs wet 0 "$cadre" train "$tmp/llama.ini" --out "$tmp/wet" "${sets[@]}"
    most=$(sed -n '/"peak_bytes"/,/]/p' "$tmp/wet/summary.json" | grep -oE '[0-9]+' |
        sort -n | tail -1)
    awk -v bytes="$most" '/^peak memory/ { d = bytes / 2 ^ 20 - $7; exit d * d >= 1e-6 }' \
        "$tmp/dry.out" || fail "$stack: $most bytes at most, $(grep '^peak' "$tmp/dry.out")"
    rm -r "${tmp:?}/wet"
done
