#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adapters of a frozen model: their bits under every strategy, what travels and what is saved, a
# resume under another strategy, PEFT's folders, merging, and what is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# The frozen model: any trained one.
train text base 0 train.steps=4
base=$(last base)
lora=("model.init=$base" tune.method=lora tune.rank=4 data.tokenizer=byte train.steps=4)

# value NAME KEY: of NAME's summary.json.
value() {
    sed -nE "s/^ *\"$2\": ?([^,]*),?$/\1/p" "$tmp/$1/summary.json" | head -1
}

# ---- step 0: the frozen model's own values ----
train text one-full 0 "model.init=$base" data.tokenizer=byte train.steps=1
train text one-lora 0 "${lora[@]}" train.steps=1
[ "$(losses one-full | cut -d ' ' -f 2)" = "$(losses one-lora | cut -d ' ' -f 2)" ] ||
    fail "adapters change the model before they are trained"

# ---- every strategy, bit for bit ----
train text exact 0 "${lora[@]}" tune.dropout=0.1 run.exact=yes
stacks=(ddp:2 "zero:2 zero.stage=1" "zero:2 zero.stage=2" "zero:2 zero.stage=3" pipeline:2
    "pipeline:2,ddp:2" "pipeline:2,zero:2 zero.stage=2")
[ "$lean" = 0 ] || stacks=(ddp:2 "zero:2 zero.stage=3" pipeline:2)
for stack in "${stacks[@]}"; do
    # shellcheck disable=SC2086
    train text sharded 0 "${lora[@]}" tune.dropout=0.1 run.exact=yes \
        "strategy.stack=${stack%% *}" $(cut -s -d ' ' -f 2- <<<"$stack")
    same exact sharded
    rm -r "${tmp:?}/sharded"
done
train text recomputed 0 "${lora[@]}" tune.dropout=0.1 run.exact=yes train.recompute=block
same exact recomputed

# ---- tensor: adapters are cut like their weights ----
close_adapters() {
    local param
    param=$("$differ" "$(last "$1")/adapter_model.safetensors" \
        "$(last "$2")/adapter_model.safetensors")
    echo "$1 against $2: adapters differ by $param"
    awk -v p="$param" -v limit="$3" 'BEGIN { exit !(p <= limit) }' ||
        fail "$1 against $2: more than $3"
}
train text double 0 "${lora[@]}" tune.dropout=0.1 train.precision=fp64
for stack in tensor:2 "tensor:2 tensor.sequence_parallel=yes" "tensor:2,ddp:2" \
    "pipeline:2,tensor:2"; do
    # shellcheck disable=SC2086
    train text cut 0 "${lora[@]}" tune.dropout=0.1 train.precision=fp64 \
        "strategy.stack=${stack%% *}" $(cut -s -d ' ' -f 2- <<<"$stack")
    close_adapters double cut 1e-10
    rm -r "${tmp:?}/cut"
done

# ---- a resume under another strategy, and over another base ----
train text again 0 "${lora[@]}" run.exact=yes train.steps=8
train text on 0 "${lora[@]}" run.exact=yes strategy.stack=ddp:2
train text on 0 "${lora[@]}" run.exact=yes "strategy.stack=zero:2" zero.stage=3 train.steps=6 \
    checkpoint.resume=auto
train text on 0 "${lora[@]}" run.exact=yes strategy.stack=pipeline:2 train.steps=8 \
    checkpoint.resume=auto
same again on
train text other 0 train.steps=2 run.seed=7
train text on 2 "${lora[@]}" run.exact=yes "model.init=$(last other)" train.steps=10 \
    checkpoint.resume=auto
says on "has adapters of the frozen weights .*name the folder that it was trained with"
# Without a folder the base is what the seed makes.
train text drawn 0 tune.method=lora run.exact=yes train.steps=2
train text drawn 0 tune.method=lora run.exact=yes train.steps=4 checkpoint.resume=auto \
    strategy.stack=zero:2 zero.stage=3
train text drawn-once 0 tune.method=lora run.exact=yes train.steps=4
same drawn drawn-once

# ---- what travels and what is kept ----
train text wire 0 "${lora[@]}" tune.rank=32 strategy.stack=ddp:2 train.eval_batches=1
trained=$(value wire params_trained)
[ "$trained" = $((2 * 32 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32))) ] ||
    fail "$trained parameters train"
[ "$(value wire params)" -gt "$trained" ] || fail "all parameters train"
# bytes of all ranks and four steps, fp32: 2 (R - 1) n
awk -v bytes="$(value wire comm_bytes)" -v n="$trained" 'BEGIN {
    want = 4 * 2 * n * 4
    printf "ddp:2 moved %d bytes, 2 (R - 1) n is %d\n", bytes, want
    exit !(bytes >= want && bytes < 1.01 * want)
}' || fail "more than adapters travel"

# ---- PEFT: its adapters and 20 of its AdamW steps (tests/samples/lora/make.py) ----
lora_samples=$CADRE_SRC/tests/samples/lora
for form in gpt2 llama; do
    cat >"$tmp/$form.ini" <<EOF
[model]
init = $lora_samples/$form
[data]
path = $CADRE_SRC/tests/samples/text/alice29.txt
tokenizer = byte
shuffle = no
valid_fraction = 0
cache = no
[train]
steps = 20
global_batch = 4
micro_batch = 2
[optim]
lr = 1e-2
[tune]
method = lora
adapter = $lora_samples/$form-adapter
EOF
    for precision in fp64 fp32; do
        train "$form" "$form-$precision" 0 train.precision=$precision
        awk -v form=$form -v precision=$precision '
            NR == FNR && $1 == form && $2 == precision { want[$3] = $4 }
            NR != FNR {
                d = ($2 - want[$1]) / want[$1]
                d = d < 0 ? -d : d
                worst = d > worst ? d : worst
                n++
            }
            END {
                printf "%s %s: losses of %d steps differ from those of PEFT by %.2g\n",
                    form, precision, n, worst
                exit !(n == 20 && worst <= (precision == "fp64" ? 1e-9 : 1e-5))
            }' "$lora_samples/golden.tsv" <(losses "$form-$precision") ||
            fail "$form in $precision: not the losses of PEFT"
    done
done
# What a run leaves is such a folder too: its first loss goes on where the other ended.
from=$(last llama-fp64)
train llama went-on 0 train.precision=fp64 train.steps=1 "tune.adapter=$from" data.shuffle=yes
train llama all-at-once 0 train.precision=fp64 train.steps=1 data.shuffle=yes
[ "$(losses went-on)" != "$(losses all-at-once)" ] || fail "tune.adapter was not read"

# ---- evaluating a run, and its merged model ----
for form in gpt2 llama; do
    runs "$form-merge" 0 "$cadre" merge "$tmp/$form-fp32" --out "$tmp/$form-merged"
    runs "$form-eval" 0 "$cadre" eval "$tmp/$form-fp32" --set data.valid_fraction=0.1 --json
    sed -e "s|^init = .*|init = $tmp/$form-merged|" -e '/^\[tune\]/,$d' "$tmp/$form.ini" \
        >"$tmp/merged.ini"
    runs "$form-again" 0 "$cadre" eval "$tmp/merged.ini" --set data.valid_fraction=0.1 --json
    awk -F ': *' '/"loss"/ { loss[++n] = $2 + 0 } END {
        d = loss[1] - loss[2]
        exit !(n == 2 && loss[1] > 0 && d < 1e-5 && d > -1e-5) }' \
        "$tmp/$form-eval.out" "$tmp/$form-again.out" || fail "$form: merged is another model"
done
runs merge-twice 2 "$cadre" merge "$tmp/llama-fp32" --out "$tmp/llama-merged"
says merge-twice "is not empty"
runs merge-full 2 "$cadre" merge "$tmp/base" --out "$tmp/new"
says merge-full "has no adapter"

# A tokenizer that does not lie in the model's folder goes with it, from the run's checkpoint.
stories=$CADRE_SRC/tests/samples/weights
mkdir "$tmp/stories"
cp "$stories/stories260K/tok512.bin" "$tmp/own.bin"
cp "$stories/stories260K-hf/model.safetensors" "$tmp/stories"
grep -v '"[be]os_token_id"' "$stories/stories260K-hf/config.json" >"$tmp/stories/config.json"
sed -e '/^layers/,/^context/d' -e "s|^\[model\]|&\ninit = $tmp/stories\ncontext = 32|" \
    "$tmp/text.ini" >"$tmp/stories.ini"
train stories named 0 "data.tokenizer=$tmp/own.bin" tune.method=lora tune.rank=2 train.steps=1
rm "$tmp/own.bin"
runs named-merge 0 "$cadre" merge "$tmp/named" --out "$tmp/named-merged"
cmp "$stories/stories260K/tok512.bin" "$tmp/named-merged/tokenizer.bin" ||
    fail "a merged model has no tokenizer"
tr -d ' \n' <"$tmp/named-merged/config.json" | grep '"bos_token_id":1.*"eos_token_id":2' >/dev/null ||
    fail "a merged model does not name the marks of its tokenizer"
printf '[model]\ninit = %s\n' "$tmp/named-merged" >"$tmp/named.ini"
runs named-told 0 "$cadre" generate "$tmp/named.ini" --greedy --tokens 9 --prompt Once
grep -q '^Once upon a time' "$tmp/named-told.out" || fail "the merged model tells no story"
# Beside an adapter of others, from data.tokenizer.
sed -i "s|^init = .*|&\n[data]\ntokenizer = $stories/stories260K/tok512.bin|" "$tmp/named.ini"
mkdir "$tmp/peft"
cp "$(last named)"/adapter_* "$tmp/peft"
runs peft-merge 0 "$cadre" merge "$tmp/named.ini" --from "$tmp/peft" --out "$tmp/peft-merged" \
    --set "model.init=$tmp/stories"
cmp "$stories/stories260K/tok512.bin" "$tmp/peft-merged/tokenizer.bin" ||
    fail "a model merged with PEFT's adapter has no tokenizer"

# ---- what is refused ----
refused unused "tune.rank = 4 .* is of adapters, but tune.method = full" tune.rank=4
refused targets "'q' is no module of a gpt2 block" tune.method=lora tune.targets=q
refused parts "tune.dropout = 0.1 with run.exact_parts = 2" tune.method=lora run.exact=yes \
    run.exact_parts=2 tune.dropout=0.1
refused experts "tune.method = lora with model.experts" tune.method=lora model.experts=2
train text full-on 2 train.steps=8 "checkpoint.resume=$(last exact)"
says full-on "tensor .*expected by the model|resume with the \[model\] keys"
# A full run's folder holds all keys, and goes on.
runs base-on 0 "$cadre" train "$tmp/base" --set train.steps=5

# ---- a base that a plugin stores in int8, sharded too ----
frozen=$(test_plugin frozen_int8)
train text stored 0 "${lora[@]}" run.exact=yes "strategy.stack=$frozen:1"
for stack in "zero:2 zero.stage=3" pipeline:2; do
    # shellcheck disable=SC2086
    train text sharded 0 "${lora[@]}" run.exact=yes "strategy.stack=${stack%% *},$frozen:1" \
        $(cut -s -d ' ' -f 2- <<<"$stack")
    same stored sharded
    rm -r "${tmp:?}/sharded"
done

# ---- memory: as --dry-run says ----
for stack in single "zero:2 zero.stage=3" tensor:2 pipeline:2; do
    # shellcheck disable=SC2086
    settings "${lora[@]}" tune.dropout=0.1 "strategy.stack=${stack%% *}" \
        $(cut -s -d ' ' -f 2- <<<"$stack")
    runs dry 0 "$cadre" train "$tmp/text.ini" --out "$tmp/dry" --dry-run "${sets[@]}"
    runs wet 0 "$cadre" train "$tmp/text.ini" --out "$tmp/wet" "${sets[@]}"
    most=$(sed -n '/"peak_bytes"/,/]/p' "$tmp/wet/summary.json" | grep -oE '[0-9]+' |
        sort -n | tail -1)
    # To a KiB: zero allocates a few alignments more than it plans.
    awk -v bytes="$most" '/^peak memory/ { d = bytes / 2 ^ 20 - $7; exit d * d >= 1e-6 }' \
        "$tmp/dry.out" || fail "$stack: $most bytes at most, $(grep '^peak' "$tmp/dry.out")"
    rm -r "${tmp:?}/wet"
done
