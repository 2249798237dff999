#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tokenizer of a model folder: taken without being named, saved with every checkpoint byte
# for byte, and found again there when the folder is gone.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

samples=$CADRE_SRC/tests/samples
hf=$samples/weights/tiny_gpt2
head -c 20000 "$samples/text/alice29.txt" >"$tmp/alice.txt"
cat >"$tmp/tune.ini" <<EOF
[model]
init = $tmp/folder
[data]
path = $tmp/alice.txt
cache = $tmp/cache
[train]
steps = 4
global_batch = 4
micro_batch = 2
eval_batches = 1
[checkpoint]
every = 2
EOF

# give NAME: makes the model folder, with the tokenizer of this sample.
give() {
    rm -rf "$tmp/folder" "$tmp/gone"
    mkdir "$tmp/folder"
    cp "$hf/config.json" "$hf/model.safetensors" "$tmp/folder"
    cp "$samples/tokenizers/$1"/tokenizer* "$tmp/folder"
}

# kept NAME FOLDER: the folder has the tokenizer's files, and the same bytes in them.
kept() {
    local file
    for file in "$samples/tokenizers/$1"/tokenizer*; do
        cmp "$file" "$2/${file##*/}" || fail "$2 has not the tokenizer $1"
    done
}

# named KIND FOLDER: config.json names the tokenizer's start, end and filling; what it does not
# know is as the first folder has it.
named() {
    local want
    case $1 in
    llama3) want="520 524 null" ;;
    gpt2) want="520 520 null" ;;
    qwen2) want="0 522 null" ;;
    llama2 | sp-*) want="1 2 null" ;;
    mistral) want="1 1 null" ;;
    metaspace) want="0 1 null" ;;
    byte) want="null 0 null" ;;
    esac
    [ "$(sed -nE 's/.*_token_id": ([0-9a-z]+).*/\1/p' "$2/config.json" | xargs)" = "$want" ] ||
        fail "$1: the ids of config.json are not $want: $(grep token_id "$2/config.json")"
}

kinds="llama3 sp-bpe"
[ "$lean" = 1 ] || kinds="$kinds gpt2 qwen2 llama2 mistral metaspace sp-unigram sp-bytes"
for kind in $kinds; do
    give "$kind"
    train tune "$kind" 0 train.steps=2
    grep -q "^tokenizer *= *\"*$tmp/folder" "$tmp/$kind/config.ini" ||
        fail "config.ini does not name the tokenizer"
    checkpoint=$(last "$kind")
    kept "$kind" "$checkpoint"
    named "$kind" "$checkpoint"
    "$cadre" inspect "$checkpoint" >"$tmp/seen" || fail "the checkpoint is damaged"

    # a checkpoint is a model folder with its tokenizer: it serves when the first is gone
    runs eval 0 "$cadre" eval "$tmp/tune.ini" --from "$checkpoint"
    mv "$tmp/folder" "$tmp/gone"
    runs again 0 "$cadre" eval "$tmp/tune.ini" --from "$checkpoint"
    cmp "$tmp/eval.out" "$tmp/again.out" || fail "$kind: another loss with the saved tokenizer"
    runs story 0 "$cadre" generate "$tmp/tune.ini" --from "$checkpoint" --prompt "and a one" \
        --tokens 8 --greedy
    grep -q "^and a one" "$tmp/story.out" || fail "$kind: the prompt does not come back"
    train tune "$kind-next" 0 "model.init=$checkpoint" train.steps=2
    kept "$kind" "$(last "$kind-next")"
    named "$kind" "$(last "$kind-next")"
done

# Resumed, sharded or not, it is the same training.
give llama3
for stack in single zero:2; do
    rm -rf "$tmp/resumed"
    train tune resumed 0 train.steps=2 run.exact=yes "strategy.stack=$stack"
    train tune resumed 0 run.exact=yes "strategy.stack=$stack" checkpoint.resume=auto
    kept llama3 "$(last resumed)"
    [ -e "$tmp/whole" ] || train tune whole 0 run.exact=yes
    same whole resumed
done

# A tokenizer that is named wins: a file, another folder, bytes.
train tune file 0 "data.tokenizer=$samples/tokenizers/sp-bpe/tokenizer.model" train.steps=2
kept sp-bpe "$(last file)"
[ ! -e "$(last file)/tokenizer.json" ] || fail "another tokenizer was saved too"
train tune bytes 0 data.tokenizer=byte train.steps=2
[ -z "$(find "$(last bytes)" -name 'tokenizer*')" ] || fail "bytes have no tokenizer to save"
named byte "$(last bytes)"

# Token files have no tokenizer of their own: one that is named is saved and named all the same.
python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<4000H", *(i % 500 for i in range(4000))))' \
    >"$tmp/tokens.bin"
for kind in llama3 byte; do
    spec=$samples/tokenizers/$kind
    [ "$kind" != byte ] || spec=byte
    train tune "tokens-$kind" 0 data.format=tokens "data.path=$tmp/tokens.bin" train.steps=1 \
        "data.tokenizer=$spec" train.eval_batches=0
done
named llama3 "$(last tokens-llama3)"
! grep -q token_id "$(last tokens-byte)/config.json" || fail "ids of no tokenizer"

# llama2.c's is found in a checkpoint as tokenizer.bin.
train tune llama 0 "model.init=$samples/weights/stories260K-hf" train.steps=2 \
    "data.tokenizer=$samples/weights/stories260K/tok512.bin"
cmp "$samples/weights/stories260K/tok512.bin" "$(last llama)/tokenizer.bin"
train tune llama-next 0 "model.init=$(last llama)" train.steps=1
cmp "$samples/weights/stories260K/tok512.bin" "$(last llama-next)/tokenizer.bin"

# Parts that would give other tokens are refused.
sed 's/p{N}{1,3}/p{N}{1,4}/' "$samples/tokenizers/llama3/tokenizer.json" >"$tmp/folder/tokenizer.json"
train tune pattern 2
grep -q "tokenizer.json.: pre_tokenizer is .* which is not supported" "$tmp/pattern.log" ||
    fail "another pattern: $(cat "$tmp/pattern.log")"
