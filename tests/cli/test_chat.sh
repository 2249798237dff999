#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Chat templates of model folders: instruction data by them under every strategy, conversations
# of `cadre generate --chat`, what checkpoints keep of them, and what is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

"$CADRE_SRC/tools/make-tuning" "$tmp/tuning" >/dev/null
cat >"$tmp/chat.ini" <<INI
[model]
init = $tmp/tuning/model
context = 128
[data]
format = instruct
path = $tmp/tuning/instruct.jsonl
cache = $tmp/cache
[tune]
method = lora
[train]
steps = 3
global_batch = 4
micro_batch = 1
eval_batches = 1
[run]
exact = yes
INI

# ---- training: the folder's template is the default, under every strategy ----
train chat single 0
grep -q '^template *= *model' "$tmp/single/config.ini" || fail "config.ini: not the folder's template"
for stack in ddp:2 "zero:2 zero.stage=3"; do
    # shellcheck disable=SC2086 # words
    train chat other 0 strategy.stack=$stack
    diff <(losses single) <(losses other) || fail "$stack: other losses"
    cmp "$tmp"/{single,other}/checkpoints/step-00000003/adapter_model.safetensors
    rm -r "$tmp/other"
done
train chat alpaca 0 data.template=alpaca
if diff <(losses single) <(losses alpaca) >/dev/null; then fail "data.template = alpaca is not taken"; fi
# our chatml on this tokenizer differs from the template in what ends the last answer alone
train chat chatml 0 data.template=chatml
if diff <(losses single) <(losses chatml) >/dev/null; then fail "data.template = chatml is not taken"; fi

# ---- conversations: the answers that the model was trained to give ----
# asks NAME STATUS ARGUMENT...
asks() {
    local name=$1 status=$2
    shift 2
    runs "$name" "$status" "$cadre" generate "$@" --greedy --tokens 40
}
printf '[model]\ninit = %s\n' "$tmp/tuning/model" >"$tmp/model.ini"
asks one 0 "$tmp/model.ini" --chat --prompt "Tom has a red dog. What colour is it?"
[ "$(cat "$tmp/one.out")" = "The dog is red." ] || fail "an answer: $(cat "$tmp/one.out")"
asks raw 0 "$tmp/model.ini" --prompt "<|im_start|>user
Tom has a red dog. What colour is it?<|im_end|>
<|im_start|>assistant
" --stop "<|im_end|>"
tail -n 1 "$tmp/raw.out" | cmp - "$tmp/one.out" || fail "the template's text: $(cat "$tmp/raw.out")"
printf 'Tom has a red dog. What colour is it?\n\nHow much is 4 and 1?' |
    asks two 0 "$tmp/model.ini" --chat
[ "$(wc -l <"$tmp/two.out")" = 2 ] || fail "two messages: $(cat "$tmp/two.out")"
head -n 1 "$tmp/two.out" | cmp - "$tmp/one.out" || fail "the first of two messages"
asks system 0 "$tmp/model.ini" --chat --system "Ann has a blue cat." --prompt "What colour is it?"
if cmp -s "$tmp/one.out" "$tmp/system.out"; then fail "--system changes nothing"; fi
# generation_config.json and --stop end an answer too
cp -r "$tmp/tuning/model" "$tmp/short"
printf '{"eos_token_id": [258, %d]}' "'d" >"$tmp/short/generation_config.json"
printf '[model]\ninit = %s\n' "$tmp/short" >"$tmp/short.ini"
asks short 0 "$tmp/short.ini" --chat --prompt "Tom has a red dog. What colour is it?"
[ "$(cat "$tmp/short.out")" = "The " ] || fail "eos_token_id: $(cat "$tmp/short.out")"
asks stop 0 "$tmp/model.ini" --chat --prompt "Tom has a red dog. What colour is it?" --stop " dog"
[ "$(cat "$tmp/stop.out")" = "The" ] || fail "--stop: $(cat "$tmp/stop.out")"

# A run's checkpoint has the template, and so has what is merged from it.
asks run 0 "$tmp/single" --chat --prompt "What day comes after Monday?"
checkpoint=$(echo "$tmp"/single/checkpoints/step-*)
cmp "$checkpoint/chat_template.jinja" "$tmp/tuning/model/chat_template.jinja"
runs merge 0 "$cadre" merge "$tmp/single" --out "$tmp/merged"
cmp "$tmp/merged/chat_template.jinja" "$tmp/tuning/model/chat_template.jinja"

# Both name the tokenizer's end, so that others' programs stop there: the merged folder as what the
# first one's config.json lacks, a checkpoint of the whole model by itself.
! grep -q token_id "$tmp/tuning/model/config.json" || fail "the model names its end by itself"
train chat whole 0 tune.method=full train.steps=1
whole=$(last whole)
for folder in "$tmp/merged" "$whole"; do
    grep -q '"eos_token_id": 258' "$folder/config.json" || fail "$folder: no end is named"
    grep -q '"pad_token_id": 256' "$folder/config.json" || fail "$folder: nothing to fill up with"
done
grep -q '"bos_token_id": null' "$whole/config.json" || fail "a start that no tokenizer has"
cp -r "$tmp/tuning/model" "$tmp/listed"
sed 's/^{$/{ "eos_token_id": [7, 258],/' "$tmp/tuning/model/config.json" >"$tmp/listed/config.json"
runs listed 0 "$cadre" merge "$tmp/single" --out "$tmp/list" --set "model.init=$tmp/listed"
tr -d ' \n' <"$tmp/list/config.json" | grep '"eos_token_id":\[7,258\]' >/dev/null ||
    fail "a list of ends was replaced"

# transformers' generate stops by that alone, with the answer that Cadre gives.
if "${PYTHON:-python3}" -c 'import torch, transformers' 2>"$tmp/import.log"; then
    for folder in "$tmp/merged" "$whole"; do
        printf '[model]\ninit = %s\n' "$folder" >"$tmp/stops.ini"
        asks stops 0 "$tmp/stops.ini" --chat --prompt "Tom has a red dog. What colour is it?"
        "${PYTHON:-python3}" - "$folder" >"$tmp/theirs.out" 2>"$tmp/theirs.log" <<'END' ||
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
chat = [{"role": "user", "content": "Tom has a red dog. What colour is it?"}]
inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt",
                                       return_dict=True)
ids = model.generate(**inputs, max_new_tokens=40, do_sample=False)[0].tolist()
assert ids[-1] == tokenizer.eos_token_id == model.config.eos_token_id, ids
assert model.config.pad_token_id == tokenizer.pad_token_id
assert len(ids) < inputs["input_ids"].shape[1] + 40
print(tokenizer.decode(ids[inputs["input_ids"].shape[1]:-1]))
END
            fail "transformers: $(tail -n 3 "$tmp/theirs.log")"
        cmp "$tmp/theirs.out" "$tmp/stops.out" || fail "transformers: $(cat "$tmp/theirs.out")"
    done
else
    echo "SKIP: PYTHON has no torch and transformers: their generate was not tried"
fi

# ---- what is refused ----
no() {
    train chat "$1" 2 "${@:3}"
    says "$1" "$2"
}
no none "data.template = model: '.*/tokenizers/qwen2' has no chat template" data.template=model \
    "data.tokenizer=$CADRE_SRC/tests/samples/tokenizers/qwen2" model.init= model.vocab=0
cp -r "$tmp/tuning/model" "$tmp/odd"
printf 'a\n{%% for m in messages %%}{{ m|pprint }}{%% endfor %%}' >"$tmp/odd/chat_template.jinja"
no filter "instruct.jsonl' line 1: the chat template of '.*chat_template.jinja': line 2: the filter pprint" \
    "model.init=$tmp/odd"
printf '{%% raw %%}' >"$tmp/odd/chat_template.jinja"
no raw "chat_template.jinja': line 1: the block raw is not read here" "model.init=$tmp/odd"
asks raw-chat 2 "$tmp/model.ini" --set "model.init=$tmp/odd" --chat --prompt Hi
says raw-chat " --chat: the chat template of .*line 1: the block raw"
printf "{{ messages[-1].content if add_generation_prompt else raise_exception('Ask me') }}" \
    >"$tmp/odd/chat_template.jinja"
no raised "line 1: the template says: Ask me" "model.init=$tmp/odd"
asks system-alone 2 "$tmp/model.ini" --system Hi
says system-alone " --system 'Hi': expected --chat too"
