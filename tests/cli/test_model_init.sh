#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folders of each family of Hugging Face (tests/samples/families) are trained under every
# strategy with the bits of single, saved in the form of their family, evaluated, resumed and
# taken up again; what a folder has that Cadre would not compute is refused by name.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

families=$CADRE_SRC/tests/samples/families
cat >"$tmp/tune.ini" <<INI
[data]
path = $tmp/text.txt
tokenizer = byte
cache = $tmp/cache
[train]
steps = 3
global_batch = 8
micro_batch = 1
eval_batches = 2
[optim]
lr = 1e-3
clip = 1
[run]
exact = yes
INI

# tune NAME FAMILY STATUS [s.k=v]...
tune() {
    train tune "$1" "$3" "model.init=$families/$2" "${@:4}"
}

# has FAMILY NAME 'KEY = VALUE'...: the run's config.ini has these lines.
has() {
    local line
    for line in "${@:2}"; do
        grep -qxF "$line" "$tmp/$1/config.ini" || fail "$1: config.ini has no '$line'"
    done
}

each=(gpt2 llama2 llama3 llama-linear mistral qwen2 qwen3)
[ "$lean" != 1 ] || each=(llama3 qwen2 qwen3)
for family in "${each[@]}"; do
    tune "$family" "$family" 0
    tune zero "$family" 0 strategy.stack=zero:2 zero.stage=3
    same "$family" zero
    tune pipeline "$family" 0 strategy.stack=pipeline:2 train.recompute=block
    same "$family" pipeline
    tune both "$family" 0 strategy.stack=pipeline:2,zero:2 zero.stage=3 comm.ranks=processes
    same "$family" both
    # what tensor cuts is summed in another order
    tune wide "$family" 0 train.precision=fp64
    tune tensor "$family" 0 train.precision=fp64 strategy.stack=tensor:2
    close_to wide tensor 1e-12 1e-8
    tune rows "$family" 0 train.precision=fp64 strategy.stack=tensor:2,ddp:2 \
        tensor.sequence_parallel=yes
    close_to wide rows 1e-12 1e-8
    rm -r "$tmp/zero" "$tmp/pipeline" "$tmp/both" "$tmp/wide" "$tmp/tensor" "$tmp/rows"

    # config.ini is the run again, and a checkpoint is such a folder
    runs again 0 "$cadre" train "$tmp/$family/config.ini" --out "$tmp/again"
    same "$family" again
    tune resumed "$family" 0 train.steps=5 strategy.stack=zero:2 zero.stage=3 \
        "checkpoint.resume=$(last "$family")"
    tune longer "$family" 0 train.steps=5
    cmp "$(last resumed)/model.safetensors" "$(last longer)/model.safetensors" ||
        fail "$family: resumed under zero:2 it is not what it is without a break"
    train tune taken 0 "model.init=$(last "$family")" train.steps=1
    train tune same 0 "model.init=$(last "$family")" train.steps=1 strategy.stack=pipeline:2
    same taken same
    runs eval 0 "$cadre" eval "$tmp/$family/config.ini"
    rm -r "$tmp/again" "$tmp/resumed" "$tmp/longer" "$tmp/taken" "$tmp/same"
done

if [ -d "$tmp/mistral" ]; then
    has mistral 'head_size = 6' 'arch = llama' 'context = 48'
    has gpt2 'arch = gpt2'
    has llama-linear 'rope_scaling = linear' 'rope_factor = 2.5'
fi
has llama3 'rope_scaling = llama3' 'rope_factor = 4' 'rope_low = 1' 'rope_high = 4' \
    'rope_original = 24' 'rope_theta = 5e+02'
has qwen2 'qkv_bias = yes' 'tied = yes'
has qwen3 'qk_norm = yes' 'head_size = 10'

# written FAMILY TEXT...: the checkpoint's config.json has these.
written() {
    local text
    for text in "${@:2}"; do
        tr -d ' \n' <"$(last "$1")/config.json" | grep -F "$text" >/dev/null ||
            fail "$1: config.json has no $text"
    done
}
written qwen2 '"model_type":"qwen2"' '"Qwen2ForCausalLM"'
written qwen3 '"model_type":"qwen3"' '"Qwen3ForCausalLM"' '"head_dim":10'
written llama3 '"rope_scaling":{"rope_type":"llama3","factor":4' '"model_type":"llama"'

# A model of each form from scratch, with its gradients' norm under tensor parallelism
for form in qkv_bias=yes "qk_norm=yes model.head_size=12" rope_scaling=linear; do
    # shellcheck disable=SC2086 # words
    scratch="model.arch=llama model.$form"
    # shellcheck disable=SC2086
    train text scratch 0 train.steps=3 train.precision=fp64 $scratch
    # shellcheck disable=SC2086
    train text split 0 train.steps=3 train.precision=fp64 $scratch strategy.stack=tensor:2
    close_to scratch split 1e-12 1e-8
    rm -r "$tmp/scratch" "$tmp/split"
done

# ---- refused ----

refuse() { # NAME PATTERN FAMILY [s.k=v]...
    tune "$1" "$3" 2 "${@:4}"
    says "$1" "$2"
}
refuse theta 'model.rope_theta = 1000 .* has 500' llama3 model.rope_theta=1000
refuse kind 'model.rope_scaling = none .* has llama3' llama3 model.rope_scaling=none
refuse bias 'model.qkv_bias = no .* has yes' qwen2 model.qkv_bias=no
refuse eps 'model.norm_eps' qwen2 model.norm_eps=1e-6
refuse heads 'model.head_size = 4 .* has 10' qwen3 model.head_size=4
refuse untied 'model.tied = yes .* has no' llama2 model.tied=yes
refuse parts 'model.qk_norm = yes with run.exact_parts = 2' qwen3 run.exact_parts=2
refused gpt 'model.qkv_bias is set, but model.arch = gpt2' model.qkv_bias=yes
refused all 'model.qkv_bias and model.qk_norm' model.arch=llama model.qkv_bias=yes \
    model.qk_norm=yes

# changed FAMILY SED: a copy of a folder with another config.json.
changed() {
    rm -rf "$tmp/folder"
    cp -r "$families/$1" "$tmp/folder"
    sed -i "$2" "$tmp/folder/config.json"
}
changed mistral 's/"sliding_window": 48/"sliding_window": 47/'
train tune window 2 "model.init=$tmp/folder"
says window '"sliding_window": expected null, or at least the context of 48, found 47'
train tune short 0 "model.init=$tmp/folder" model.context=47
has short 'context = 47'
tune long llama2 2 model.context=49
says long 'model.context = 49 .* has 48'
tune fewer gpt2 2 model.context=47
says fewer 'model.context = 47 .* has 48'
changed llama3 's/"llama3"/"yarn"/'
train tune yarn 2 "model.init=$tmp/folder"
says yarn '"rope_type": expected .*found "yarn"'
changed qwen3 's/"use_cache": true/"logit_scale": 2/'
train tune scale 2 "model.init=$tmp/folder"
says scale '"logit_scale"'

# A head of its own in a folder that calls it tied: refused, or kept where the run says so.
changed llama2 's/"tie_word_embeddings": false/"tie_word_embeddings": true/'
train tune head 2 "model.init=$tmp/folder"
says head "lm_head.weight.*model.tied = no"
train tune own 0 "model.init=$tmp/folder" model.tied=no
[ "$lean" = 1 ] || same llama2 own
