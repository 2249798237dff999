#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instruction data: the same bits under every strategy, packed or not; packed losses are those
# of the records alone; masked targets count for nothing; evaluations; what is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

samples=$CADRE_SRC/tests/samples/instruct
cat >"$tmp/chat.ini" <<INI
[model]
layers = 2
channels = 32
heads = 4
context = 640
[data]
format = instruct
path = $samples/alpaca_en_demo.json
valid_fraction = 0.25
cache = $tmp/cache
[train]
steps = 3
global_batch = 8
micro_batch = 1
eval_batches = 0
[optim]
lr = 3e-3
clip = 1
INI
llama=(model.arch=llama model.kv_heads=2)
[ "$lean" = 0 ] || sed -i 's/^channels = 32/channels = 16/; s/^steps = 3/steps = 2/' "$tmp/chat.ini"

# value NAME KEY: of the summary.
value() {
    tr -d ' \n' <"$tmp/$1/summary.json" | sed -E "s/.*\"$2\":([-0-9.e+]+).*/\1/"
}

# near A B LIMIT
near() {
    awk -v a="$1" -v b="$2" -v l="$3" \
        'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a + 0 > 0 && d <= l) }' ||
        fail "$1 and $2 differ by more than $3"
}

# ---- the same bits ----
# bits NAME [s.k=v]...: stacks against single, in exact mode, validation too.
bits() {
    local name=$1 stack
    shift
    train chat "$name" 0 run.exact=yes "$@"
    for stack in "${stacks[@]}"; do
        # shellcheck disable=SC2086 # words
        train chat other 0 run.exact=yes "$@" strategy.stack=$stack
        same "$name" other
        [ "$(value other valid_loss)" = "$(value "$name" valid_loss)" ] ||
            fail "$stack: the validation loss is $(value other valid_loss)"
        rm -r "${tmp:?}/other"
    done
}
stacks=(ddp:2 "zero:2 zero.stage=3" pipeline:2)
[ "$lean" = 1 ] || stacks+=("zero:2 zero.stage=1" "zero:2 zero.stage=2"
    "pipeline:2,ddp:2 pipeline.schedule=zb-h1" "ddp:2 train.recompute=block"
    "zero:2 comm.ranks=processes device.threads=2")
bits packed data.pack=yes
stacks=(ddp:2 "zero:2 zero.stage=3 train.recompute=block" "pipeline:2")
bits packed-llama data.pack=yes "${llama[@]}" data.template=chatml
bits plain data.template=plain
[ "$(value packed valid_loss)" != "$(value plain valid_loss)" ] || fail "one template"

# A run goes on under another strategy with the bits of one that never stopped.
train chat on 0 run.exact=yes data.pack=yes train.steps=1
train chat on 0 run.exact=yes data.pack=yes strategy.stack=zero:2 zero.stage=2 \
    checkpoint.resume=auto
same packed on

# Whoever reduces in another order, and replicas that diverge, come close.
train chat tensor 0 data.pack=yes strategy.stack=tensor:2 train.precision=fp64
train chat single 0 data.pack=yes train.precision=fp64
close_to single tensor 1e-13 1e-9
train chat diloco 0 data.pack=yes strategy.stack=diloco:2 diloco.period=1 \
    diloco.outer_lr=1 diloco.outer_momentum=0 \
    optim.name=sgd \
    optim.lr=0.1 optim.clip=0 train.precision=fp64
train chat diloco-1 0 data.pack=yes optim.name=sgd optim.lr=0.1 optim.clip=0 \
    train.precision=fp64
close_to diloco-1 diloco 1e-12 1e-12

# ---- packed records are the records alone ----
# All records in each step, so that windows and records are the same batch.
whole=(train.precision=fp64 optim.name=sgd optim.lr=0.1 optim.clip=0 data.valid_fraction=0.25)
for form in gpt2 llama; do
    arch=()
    [ $form = gpt2 ] || arch=("${llama[@]}")
    train chat "alone-$form" 0 "${whole[@]}" "${arch[@]}" train.global_batch=18
    windows=$(grep -oE ': [0-9]+ to train on' "$tmp/packed.log" | grep -oE '[0-9]+')
    [ "$windows" -lt 18 ] || fail "$windows windows of 18 records"
    train chat "shared-$form" 0 "${whole[@]}" "${arch[@]}" "train.global_batch=$windows" \
        data.pack=yes
    close_to "alone-$form" "shared-$form" 1e-13 1e-12
    near "$(value "alone-$form" valid_loss)" "$(value "shared-$form" valid_loss)" 1e-13
done

# On CUDA, by its stand-in, a few steps of packed records end near the CPU's.
standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ "$lean" = 1 ]; then
    echo "on the stand-in of CUDA records are packed where code is not instrumented"
elif [ -e "$standin/device_cuda.so" ]; then
    few=(data.pack=yes data.template=plain model.context=160 model.layers=1 "${llama[@]}"
        train.global_batch=2 train.eval_batches=1)
    train chat pack-cpu 0 "${few[@]}"
    export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg
    train chat pack-cuda 0 "${few[@]}" device.kind=cuda
    unset CADRE_MODULE_PATH XDG_CACHE_HOME
    close_to pack-cpu pack-cuda 1e-5 1e-3
    near "$(value pack-cpu valid_loss)" "$(value pack-cuda valid_loss)" 1e-5
else
    echo "the stand-in of CUDA was not built (no C++ compiler): packing on it is not tried"
fi

# ---- masked targets ----
long=$(printf 'x%.0s' {1..700})
one='{"prompt": "one", "completion": "two"}'
none='{"prompt": "'$long'", "completion": "never seen"}'
printf '%s\n' "$one" >"$tmp/one.jsonl"
printf '%s\n%s\n' "$one" "$none" >"$tmp/two.jsonl"
printf '%s\n%s\n%s\n' "$none" "$one" "$one" >"$tmp/three.jsonl"
order=(data.shuffle=no data.valid_fraction=0)
train chat one 0 "${order[@]}" "data.path=$tmp/one.jsonl" train.global_batch=1
train chat two 0 "${order[@]}" "data.path=$tmp/two.jsonl" train.global_batch=2
same one two
train chat two-ddp 0 "${order[@]}" "data.path=$tmp/two.jsonl" train.global_batch=2 \
    strategy.stack=ddp:2
close_to two two-ddp 1e-6 1e-4
grep -q 'warn: data: 1 of 2 samples have no target' "$tmp/two.log" || fail "no warning"
grep -q 'warn: data: 1 of 2 records have more than 641 tokens' "$tmp/two.log" ||
    fail "no warning of the record that is cut"
# a step without any target: its loss is 0, and nothing is NaN
train chat three 0 "${order[@]}" "data.path=$tmp/three.jsonl" train.global_batch=1
losses three | grep '^1 0 0$' >/dev/null || fail "a step without targets: $(losses three)"
train chat prompts 0 "${order[@]}" "data.path=$tmp/one.jsonl" train.global_batch=1 \
    data.train_on_prompt=yes
if diff <(losses one) <(losses prompts) >/dev/null; then fail "prompts were not trained on"; fi

# ---- evaluation ----
runs eval 0 "$cadre" eval "$tmp/packed" --json
near "$(tr -d ' \n' <"$tmp/eval.out" | sed -E 's/.*"loss":([0-9.e-]+).*/\1/')" \
    "$(value packed valid_loss)" 1e-6
runs generate 0 "$cadre" generate "$tmp/packed" --prompt Hi --tokens 4

# ---- what is refused ----
# no NAME PATTERN [s.k=v]...
no() {
    train chat "$1" 2 "${@:3}"
    says "$1" "$2"
}
# file NAME PATTERN: of the text on stdin.
file() {
    cat >"$tmp/$1.json"
    no "$1" "$2" "data.path=$tmp/$1.json"
}
cp=$(test_plugin context)
no time "'.*context.*' splits the time of samples .*packed.*set data.pack = no" \
    data.pack=yes "strategy.stack=$cp:2"
train chat time-2 0 "strategy.stack=$cp:2" train.precision=fp64
train chat time-1 0 train.precision=fp64
close_to time-1 time-2 1e-13 1e-8
no pairs "dpo_en_demo.json holds pairs of a chosen and a rejected answer" \
    "data.path=$samples/dpo_en_demo.json"
no listed "v1_dpo_demo.jsonl holds pairs" "data.path=$samples/v1_dpo_demo.jsonl" \
    model.context=2048
no pack-pairs "has pairs of answers, which are not packed" data.pack=yes \
    "data.path=$samples/dpo_en_demo.json"
no template "data.template.*alpaca, chatml, plain.*vicuna" data.template=vicuna
no too-long "alpaca_en_demo.json' line [0-9]+: the record has [0-9]+ tokens, expected at" \
    data.too_long=refuse model.context=200
no experts "model.experts = 4.*data.format = instruct" model.experts=4
no absent "data.path.*no-such" "data.path=$tmp/no-such.json"
refused text-pack "data.pack = yes is for data.format = instruct, found text" data.pack=yes
refused text-prompt "data.train_on_prompt = yes is for" data.train_on_prompt=yes
file key "key.json' line 3: expected the key output, found none" <<'JSON'
[{"instruction": "a", "output": "b"},

 {"instruction": "a"}]
JSON
file shape "shape.json' line 2: expected the keys .*found question, answer" <<'JSON'
{"instruction": "a", "output": "b"}
{"question": "a", "answer": "b"}
JSON
file broken "broken.json' line 3: expected JSON" <<'JSON'
{"instruction": "a", "output": "b"}
{"instruction": "a", "output": "b"}
{"instruction": "a", "output": "b"
JSON
file cut "cut.json' line 2: .*may be cut" <<'JSON'
[{"instruction": "a", "output": "b"},
 {"instruction": "a", "output": "b"
JSON
file role "role.json' line 1: messages: message 2: role: expected .* found tool" <<'JSON'
{"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]}
JSON
file mixed "mixed.json' line 2: expected one answer" <<'JSON'
{"prompt": "a", "completion": "b"}
{"prompt": "a", "chosen": "b", "rejected": "c"}
JSON
file empty "empty.json.*(expected records|empty)" <<<''
printf '{"instruction": "a\377", "output": "b"}\n' | file utf8 "utf8.json' line 1: expected JSON"
