#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre generate`: kept keys and values, draws, cuts, stops, the end of the context; a published
# text, heartbeats, and what is refused.
set -euo pipefail
cadre=$CADRE_BUILD/cadre
weights=$CADRE_SRC/tests/samples/weights
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

fail() {
    echo "FAIL: $*"
    exit 1
}

# run NAME ARGUMENT...: `cadre generate ARGUMENT...` succeeds; NAME.out and NAME.err keep its text.
run() {
    local name=$1
    shift
    "$cadre" generate "$@" >"$name.out" 2>"$name.err" || {
        cat "$name.err"
        fail "cadre generate $* ends with status $?"
    }
}

same() { cmp "$1.out" "$2.out" || fail "$1 and $2 differ: $3"; }
differ() { ! cmp -s "$1.out" "$2.out" || fail "$1 and $2 are the same: $3"; }

# wrong PATTERN ARGUMENT...: refused as wrong input, before any text, in one line with PATTERN.
wrong() {
    local pattern=$1 status=0
    shift
    "$cadre" generate "$@" >wrong.out 2>wrong.err || status=$?
    [ "$status" = 2 ] || fail "cadre generate $*: status $status"
    [ ! -s wrong.out ] || fail "cadre generate $*: prints $(cat wrong.out)"
    if [ "$(wc -l <wrong.err)" != 1 ] || ! grep -qF -- "$pattern" wrong.err; then
        fail "cadre generate $*: no line with '$pattern': $(cat wrong.err)"
    fi
}

printf '[data]\ntokenizer = %s\n' "$weights/stories260K/tok512.bin" >stories.ini
stories=(stories.ini --from "$weights/stories260K-hf")

# ---- a published text, with and without what is kept ----
run greedy "${stories[@]}" --greedy --tokens 200
(cat "$weights/stories260K/expected_greedy_200.txt" && echo) | cmp - greedy.out ||
    fail "stories260K does not tell its published story"
run whole "${stories[@]}" --greedy --tokens 200 --no-cache
same greedy whole "keys and values that are kept"
for precision in fp64 bf16; do
    run "$precision" "${stories[@]}" --tokens 40 --set "train.precision=$precision"
    run "$precision-whole" "${stories[@]}" --tokens 40 --set "train.precision=$precision" --no-cache
    same "$precision" "$precision-whole" "keys and values that are kept, in $precision"
done

# ---- a random model of each family: what transformers writes (tests/samples/families/make.py) ----
for family in gpt2 llama2 llama3 llama-linear mistral qwen2 qwen3; do
    model=$CADRE_SRC/tests/samples/families/$family
    printf '[model]\ninit = %s\n[data]\ntokenizer = byte\n' "$model" >family.ini
    run family family.ini --set train.precision=fp64 --greedy --prompt Once --tokens 40
    cmp "$model/greedy.bin" family.out || fail "$family: other bytes than transformers'"
done

# ---- draws: of the seed and the place, not of threads, nor of what is kept ----
run one "${stories[@]}" --tokens 60 --set device.threads=1
run again "${stories[@]}" --tokens 60 --seed 1 --set device.threads=3 --set run.seed=1
run seeded "${stories[@]}" --tokens 60 --seed 1 --set device.threads=2
run other "${stories[@]}" --tokens 60 --seed 2
same again seeded "--seed wins over run.seed"
differ seeded other "--seed"
run threads "${stories[@]}" --tokens 60 --set device.threads=3
same one threads "threads"
run prefix "${stories[@]}" --tokens 30
head -c "$(($(stat -c %s prefix.out) - 1))" prefix.out >prefix.text
head -c "$(stat -c %s prefix.text)" one.out | cmp - prefix.text ||
    fail "more tokens change the first ones"

# ---- cuts ----
run top-1 "${stories[@]}" --tokens 200 --top-k 1
same greedy top-1 "--top-k 1 is the likeliest"
run least-p "${stories[@]}" --tokens 200 --top-p 1e-9
same greedy least-p "--top-p near 0 is the likeliest"
run cold "${stories[@]}" --tokens 200 --temperature 0.001
same greedy cold "a temperature near 0 is the likeliest"
run all "${stories[@]}" --tokens 60 --temperature 1 --top-k 512 --top-p 1
same one all "cuts that cut nothing"
run hot "${stories[@]}" --tokens 60 --temperature 3
differ one hot "--temperature"
run cut "${stories[@]}" --tokens 60 --temperature 0.8 --top-k 40 --top-p 0.9
differ one cut "--top-k and --top-p"

# ---- where a text ends ----
text=$(cat greedy.out)
run stop "${stories[@]}" --greedy --tokens 200 --stop "never there" --stop "Lily and" --stop ". She"
[ "$(cat stop.out)" = "${text%%. She*}" ] || fail "--stop: $(cat stop.out)"
run unstopped "${stories[@]}" --greedy --tokens 200 --stop "never there"
same greedy unstopped "a --stop that never comes"
run prompted "${stories[@]}" --greedy --tokens 20 --prompt "Once upon a time" --stop "Once"
[ "$(head -c 16 prompted.out)" = "Once upon a time" ] || fail "--stop ends in the prompt"

# ---- the end of the context ----
run short "${stories[@]}" --tokens 530 --set run.exact=yes --set run.exact_parts=2
if [ "${CADRE_TEST_LEAN:-0}" = 0 ]; then
    run short-whole "${stories[@]}" --tokens 530 --set run.exact=yes --set run.exact_parts=2 \
        --no-cache
    same short short-whole "beyond the context"
fi
grep -q "context of 512 tokens was full after 512: it went on from the last 256" short.err ||
    fail "the end of the context is not said: $(cat short.err)"
run far "${stories[@]}" --tokens 1100
[ "$(grep -c 'was full' far.err)" = 1 ] || fail "the end of the context is said again"
long=$(printf 'Lily went to the park. %.0s' {1..80})
run long "${stories[@]}" --tokens 5 --prompt "$long"
grep -qE "the prompt has [0-9]+ tokens, the model's context is 512: it sees the last 256" long.err ||
    fail "a prompt longer than the context: $(cat long.err)"
# Lines of the log stand before and behind the text, where both go to one place.
"$cadre" generate "${stories[@]}" --tokens 600 --prompt "$long" >both 2>&1 || fail "$(cat both)"
grep -vE '^[0-9:]{8} (warn: )?[a-z]+: ' both >both.text || true
run alone "${stories[@]}" --tokens 600 --prompt "$long"
cmp alone.out both.text || fail "the log stands within the text of a long prompt"
"$cadre" generate "${stories[@]}" --tokens 600 >both 2>&1 || fail "$(cat both)"
[ "$(tail -n 1 both | grep -cE '^[0-9:]{8} generate: the model.s context .* was full')" = 1 ] ||
    fail "the log stands within the text: $(cat both)"

# ---- GPT-2 form: bytes, trained for a moment ----
seq 1 20000 >data.txt
small=(--set model.layers=1 --set model.channels=32 --set model.heads=2)
few=(--set train.steps=3 --set train.eval_batches=1 --set data.cache="$tmp/cache"
    --set optim.warmup=1)
conf=$CADRE_SRC/conf
"$cadre" train "$conf/shakespeare.ini" --out gpt2 "${small[@]}" "${few[@]}" \
    --set data.path=data.txt --set model.context=32 >train.out 2>&1 || fail "$(cat train.out)"
for keep in "" --no-cache; do
    run "gpt2$keep" gpt2 --prompt 123 --tokens 100 $keep
done
same gpt2 gpt2--no-cache "GPT-2 form beyond its context of 32"
[ "$(head -c 3 gpt2.out)" = 123 ] || fail "generate does not begin with its prompt"

# ---- heartbeats ----
export CADRE_MITDB=$CADRE_SRC/tests/samples/mitdb
ecg=("$conf/ecg-foundation.ini" "${small[@]}" "${few[@]}" --set train.precision=fp64)
"$cadre" train "${ecg[@]}" --out ecg >train.out 2>&1 || fail "$(cat train.out)"
for keep in "" --no-cache; do
    run "ecg$keep" "${ecg[@]}" --from ecg --tokens 150 --top-k 20 $keep
done
same ecg ecg--no-cache "heartbeats"
[ "$(wc -l <ecg.out)" = 277 ] || fail "heartbeats: $(wc -l <ecg.out) lines, not 127 and 150"
grep -q "context of 255 tokens was full" ecg.err || fail "heartbeats: the end is not said"
run ecg-greedy "${ecg[@]}" --from ecg --tokens 150 --greedy
differ ecg ecg-greedy "--greedy"

# ---- on the CUDA device, whose runtime the tests' stand-in plays ----
standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ -e "$standin/device_cuda.so" ]; then
    export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg
    head -c 30 greedy.out >few.out
    for keep in "" --no-cache; do
        run "cuda$keep" "${stories[@]}" --greedy --tokens 20 --set device.kind=cuda $keep
        head -c 30 "cuda$keep.out" | cmp - few.out || fail "another text on the CUDA device"
    done
    same cuda cuda--no-cache "keys and values that are kept on the CUDA device"
    unset CADRE_MODULE_PATH
else
    echo "not tried: the CUDA device, whose stand-in was not built (no C++ compiler)"
fi

# ---- what is refused ----
wrong "--temperature 'hot': expected a number" "${stories[@]}" --temperature hot
wrong "temperature is 0, expected a number above 0" "${stories[@]}" --temperature 0
wrong "--top-k '0': expected a number from 1" "${stories[@]}" --top-k 0
wrong "--top-k '-3': expected a number from 1" "${stories[@]}" --top-k=-3
wrong "top-p is 1.5, expected a number above 0 and up to 1" "${stories[@]}" --top-p 1.5
wrong "--seed 'x': expected a number from 0" "${stories[@]}" --seed x
wrong "--tokens '1000001': expected a number from 1 to 1000000" "${stories[@]}" --tokens 1000001
wrong "--greedy and --top-p: the likeliest token is not drawn" "${stories[@]}" --greedy --top-p 0.5
wrong "--stop: text 2 of 2 is empty" "${stories[@]}" --stop a --stop ""
wrong "--stop 'x': heartbeats have no text to end at" "${ecg[@]}" --from ecg --stop x
