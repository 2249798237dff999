#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every file of conf/ runs, for a few steps of a small model; eval, generate, inspect,
# options, doctor and the help; what a terminal and a closed pipe get.
set -euo pipefail
cadre=$CADRE_BUILD/cadre
conf=$CADRE_SRC/conf
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

fail() {
    echo "FAIL: $*"
    exit 1
}

# run NAME ARGUMENT...: `cadre ARGUMENT...` succeeds; NAME.out and NAME.err keep its text.
run() {
    local name=$1
    shift
    "$cadre" "$@" >"$name.out" 2>"$name.err" || {
        cat "$name.err"
        fail "cadre $* ends with status $?"
    }
}

# has NAME PATTERN: NAME.out has such a line.
has() {
    grep -qE "$2" "$1.out" || {
        cat "$1.out"
        fail "$1: no line with '$2'"
    }
}

small=(--set model.layers=1 --set model.channels=32 --set model.heads=2)
few=(--set train.steps=3 --set train.eval_batches=1 --set data.cache="$tmp/cache"
    --set optim.warmup=1)

# smoke NAME SETTING...: conf/NAME.ini is planned as it stands and trained small.
smoke() {
    local name=$1
    shift
    run "$name-plan" train "$conf/$name.ini" --out "$name" --dry-run "$@"
    has "$name-plan" "$name: .*parameters, [0-9]+ steps"
    [ ! -e "$name" ] || fail "$name: --dry-run leaves a folder"
    run "$name-train" train "$conf/$name.ini" --out "$name" "${small[@]}" "${few[@]}" "$@"
    has "$name-train" "3 steps with .* done, in '$name'"
    run "$name-inspect" inspect "$name"
    has "$name-inspect" '"steps": 3'
    run "$name-point" inspect "$name/checkpoints/step-00000003"
    has "$name-point" "^checkpoint: 3 steps, .*every checksum is right"
}

# ---- on what a clone has ----
"$CADRE_SRC/tools/make-tuning" data/tuning >/dev/null
run tuned-plan train "$conf/finetune-lora.ini" --out tuned --dry-run
run tuned train "$conf/finetune-lora.ini" --out tuned "${few[@]}"
has tuned "3 steps with single done, in 'tuned'"
run tuned-merge merge tuned --out merged
run qat train "$conf/finetune-qat.ini" --out qat "${few[@]}"
has qat "3 steps with single done, in 'qat'"
run qat-merge merge qat --out qat-int4
has qat-merge "quantised in 'qat-int4': int4 in groups of 32"
run finetune compare "$conf/compare-finetune.ini" --out finetune --set compare.time=no \
    --set compare.perturb=no --set train.steps=2 --set train.eval_batches=1 \
    --set compare.runs=lora-1,full-1,qlora-1,qat-1,qat-2
for method in full-1 qlora-1 qat-1 qat-2; do
    has finetune "^$method .*independent"
done
run dpo compare "$conf/compare-dpo.ini" --out dpo --set compare.time=no \
    --set compare.perturb=no --set train.steps=2 --set train.eval_batches=1
for run in lora-ddp lora-zero; do
    has dpo "^$run .* exact$"
done
for run in full full-ddp full-zero qlora qlora-ddp qlora-zero; do
    has dpo "^$run .* independent$"
done
cmp dpo/runs/qlora/checkpoints/*/adapter_model.safetensors \
    dpo/runs/qlora-zero/checkpoints/*/adapter_model.safetensors
run tuned-eval eval tuned --set train.eval_batches=1
run pairs train "$conf/finetune-dpo.ini" --out pairs "${few[@]}"
has pairs "3 steps with single done, in 'pairs'"

# ---- the same on CUDA, which the tests' stand-in plays: a step of few tokens ----
standin=$CADRE_BUILD/tests/support/cuda_host/.libs
methods="lora qlora dpo"
[ "${CADRE_TEST_SLOW:-0}" = 0 ] || methods+=" qat" # whose kernels take it ten times as long
step=(--set train.steps=1 --set train.global_batch=2 --set train.micro_batch=2
    --set train.eval_every=0 --set train.eval_batches=1 --set model.context=48
    --set checkpoint.every=0)
first_loss() {
    sed -nE '1s/.*"loss": ?([^,]+),.*/\1/p' "$1/metrics.jsonl"
}
if [ -e "$standin/device_cuda.so" ]; then
    for method in $methods; do
        for kind in cpu cuda; do
            CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg run "on-$kind" train \
                "$conf/finetune-$method.ini" --out "$method-$kind" --set "device.kind=$kind" \
                "${step[@]}"
        done
        grep -q '"device": *"cuda"' "$method-cuda/summary.json" || fail "$method ran elsewhere"
        awk -v a="$(first_loss "$method-cpu")" -v b="$(first_loss "$method-cuda")" \
            'BEGIN { d = a > b ? a - b : b - a; exit !(a > 0 && d <= 1e-5 * a) }' ||
            fail "$method: another loss on CUDA"
    done
    printf '[model]\ninit = data/tuning/model\n' >chat.ini
    for kind in cpu cuda; do
        CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg run "chat-$kind" generate chat.ini \
            --chat --prompt "Tom has a red dog. What colour is it?" --greedy --tokens 8 \
            --set "device.kind=$kind"
    done
    has chat-cuda "^The dog"
    cmp chat-cpu.out chat-cuda.out
else
    echo "SKIP: the stand-in of CUDA was not built: conf/finetune-*.ini on it"
fi

# ---- on text that is always there ----
seq 1 20000 >data.txt
text=(--set data.path=data.txt)
smoke shakespeare "${text[@]}"
smoke compare-precision "${text[@]}" --run bf16
run precision compare "$conf/compare-precision.ini" --out precision "${small[@]}" "${few[@]}" \
    "${text[@]}" --set compare.time=no
for format in fp32 bf16 fp16; do
    has precision "^$format +single .*independent"
done
run text-eval eval "$conf/shakespeare.ini" --out shakespeare "${small[@]}" "${few[@]}" \
    "${text[@]}" --json
grep -q '"bigram_entropy": [0-9]' text-eval.out || fail "eval --json has no bigram entropy"
mkdir -p no-run && touch no-run/notes.txt
status=0
"$cadre" eval "$conf/shakespeare.ini" --out no-run "${small[@]}" "${text[@]}" 2>no-run.err || status=$?
[ "$status" = 2 ] && grep -q "'no-run' has no folder 'checkpoints'" no-run.err ||
    fail "eval: a folder that no run left: $status, $(cat no-run.err)"
for again in one two; do
    run $again generate "$conf/shakespeare.ini" --from shakespeare "${text[@]}" \
        "${small[@]}" --prompt 123 --tokens 20
done
cmp one.out two.out || fail "the same prompt and seed give another text"
[ "$(head -c 3 one.out)" = 123 ] || fail "generate does not begin with its prompt"

# ---- on images ----
CADRE_MNIST=/nowhere "$CADRE_SRC/tools/make-digits" data/mnist 100 >/dev/null
smoke mnist
smoke compare-precision-images --run fp32-2 --set train.global_batch=16
run images-eval eval "$conf/mnist.ini" --from mnist "${small[@]}"
has images-eval '^9 .* [0-9]+$'

# ---- on heartbeats ----
samples=$CADRE_SRC/tests/samples
export CADRE_MITDB=$samples/mitdb
smoke ecg-foundation
smoke ecg-vbd
smoke compare-ecg --run ddp
smoke compare-compress --run topk-1g
smoke compare-mig --run average
run mig compare "$conf/compare-mig.ini" --out mig "${small[@]}" "${few[@]}" \
    --set compare.perturb=no --set compare.time=no
for independent in sliced instances; do
    has mig "^$independent.* mig:2 .* independent$"
    has mig "^$independent: 2 independent runs, together "
done
has mig "^average +mig:2 .* (within|exact)$"
smoke quickstart --run ddp-exact
run vbd-eval eval "$conf/ecg-vbd.ini" --from ecg-vbd "${small[@]}" "${few[@]}"
has vbd-eval "^class +sensitivity +pos. pred. +F1 "
has vbd-eval "^ventricular "

# records FOLDER ENTROPY SECONDS BEATS: what is said of the records and of 119.
records() {
    run ecg-eval eval "$conf/ecg-foundation.ini" --from ecg-foundation "${small[@]}" \
        "${few[@]}" --set "data.path=$1"
    has ecg-eval "^validation records +119, 209$"
    has ecg-eval "^bigram entropy +$2 nats"
    run records inspect "$1"
    has records "^data set: 7 ECG records"
    has records "^  119 .*$3 s at 360 Hz, MLII V1"
    for record in 119 119.hea; do
        run record inspect "$1/$record"
        has record '^WFDB record 119: 2 signals, .*data.format = wfdb'
        has record "$4"
    done
}
records "$samples/mitdb" 0.813228 180.0 "209 annotations, 197 beats"
if [ -e "${CADRE_TEST_DATA:-none}/mitdb/119.hea" ]; then
    records "$CADRE_TEST_DATA/mitdb" 0.840219 1805.6 "2094 annotations, 1987 beats"
fi

# A window of 256 samples, 255 of them inputs: 127 are given and 40 made, in millivolts.
for again in one two; do
    run $again generate "$conf/ecg-foundation.ini" --from ecg-foundation "${small[@]}" \
        "${few[@]}" --tokens 40
done
cmp one.out two.out || fail "the same window and seed give other heartbeats"
awk '!/^-?[0-9]\.[0-9][0-9][0-9][0-9]$/ || $1 < -2.5 || $1 > 2.5 { bad = 1 } END { exit bad || NR != 167 }' \
    one.out || fail "generate: not 167 values: $(head -n 3 one.out)"
run other generate "$conf/ecg-foundation.ini" --from ecg-foundation "${small[@]}" \
    "${few[@]}" --tokens 40 --prompt 5
! cmp -s one.out other.out || fail "generate: window 5 is window 0"
status=0
"$cadre" generate "$conf/ecg-foundation.ini" --from ecg-foundation "${small[@]}" "${few[@]}" \
    --prompt 123456 2>far.err || status=$?
[ "$status" = 2 ] && grep -q "'123456': of ECG data expected a validation window, 0 to " far.err ||
    fail "generate: a window that is not there: $status, $(cat far.err)"
run lines inspect ecg-foundation/metrics.jsonl
has lines "^metrics of a run, a line a step: 3; the last:"
run ini inspect ecg-foundation/config.ini
has ini "^[0-9]+ options, for 1 run; "
run pieces inspect "$CADRE_SRC/tests/samples/tokenizers/sp-bpe/tokenizer.model"
has pieces "^tokenizer of SentencePiece: 560 pieces"
run vocabulary inspect "$samples/gpt2_bpe"
has vocabulary "^folder of a tokenizer .data.tokenizer.: GPT-2's byte-level BPE, [0-9]+ ids, start "
mkdir -p words && printf '{"a": 0, "\\u0000": 1}' >words/vocab.json # a key that jansson refuses
run words inspect words/vocab.json
has words "^vocabulary of 2 tokens; data.tokenizer names its folder"
run instruct inspect "$samples/instruct/alpaca_en_demo.json"
has instruct "^instruction data .data.format = instruct.: 24 records; the last:"
run pairs inspect "$samples/instruct/dpo_en_demo.json"
has pairs "^instruction data .*tune.method = dpo.: 4 pairs of a chosen and a rejected answer"
echo '[{"messages": []}, 3]' >array.json
run array inspect array.json
has array "^JSON array of 2 entries; for data.format = instruct, entry [12]: "
gunzip -c data/mnist/images-idx3-ubyte.gz >plain
for images in data/mnist/images-idx3-ubyte.gz plain; do
    run images inspect "$images"
    has images "^idx file: 100 images of 28 x 28 pixels, 1 channel .data.format = idx.$"
done
run labels inspect data/mnist/labels-idx1-ubyte.gz
has labels "^idx file: 100 labels from 0 to 9 .data.labels"
head -c 900 plain >cut-idx3-ubyte
status=0
"$cadre" inspect cut-idx3-ubyte 2>cut.err || status=$?
[ "$status" = 2 ] && grep -q "the file is cut off" cut.err ||
    fail "inspect of an idx file that is cut off: $status, $(cat cut.err)"
run cache inspect "$(echo cache/*.cache | cut -d' ' -f1)"
has cache "^cache of a tokenised data set: [0-9]+ records"

# ---- published weights ----
weights=$samples/weights
printf '[data]\ntokenizer = %s\n' "$weights/stories260K/tok512.bin" >stories.ini
run stories generate stories.ini --from "$weights/stories260K-hf" --greedy --tokens 200
(cat "$weights/stories260K/expected_greedy_200.txt" && echo) | cmp - stories.out ||
    fail "stories260K does not tell its published story"
run folder inspect "$weights/stories260K-hf"
has folder "llama, 5 layers, 64 channels, 8 heads .4 key/value.*vocabulary 512"
run tensors inspect "$weights/stories260K-hf/model.safetensors"
has tensors "^  [0-9]+ tensors, 2[0-9]+ elements"

run pieces inspect "$weights/stories260K/tok512.bin"
has pieces "^tokenizer of llama2.c: 512 pieces"
# 1 layer, 4 channels, 2 heads of 2 (1 for keys and values), hidden 8, 6 tokens, length 4
{
    printf '\4\0\0\0\10\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\6\0\0\0\4\0\0\0'
    head -c $((4 * (24 + (8 + 32 + 16 + 96) + 4 + 8))) /dev/zero
} >llama2c.bin
run llama2c inspect llama2c.bin
has llama2c "^model of llama2.c: 1 layers, 4 channels, 2 heads .1 key/value.*vocabulary 6"
run report inspect precision/report.json
has report "^report of a comparison"
run summary inspect shakespeare/summary.json
has summary "^summary of a run"
has summary "^  steps = 3"

# ---- what the machine and the program have ----
run text inspect data.txt
has text "^text of [0-9]+ bytes"
run plugin inspect ddp
has plugin "^strategy plugin .*ddp"
"$cadre" options >options.out
for key in $(sed -n 's/^  \([a-z][a-z0-9_]*\) .*/\1/p' options.out); do
    grep -qw "$key" "$CADRE_SRC/docs/configuration.md" ||
        fail "docs/configuration.md does not have the option $key"
done
run doctor doctor
has doctor "^yes +plugin +ddp "
has doctor "^no +cuda "
run findings doctor --json
has findings '"area": "cpu"'
if command -v python3 >/dev/null; then
    python3 -m json.tool <findings.out >/dev/null || fail "doctor --json is no JSON"
    python3 -m json.tool <text-eval.out >/dev/null || fail "eval --json is no JSON"
fi
for command in train compare eval generate merge plan check inspect new plugins options doctor help; do
    run help "$command" --help
    has help "^  cadre $command"
    run same help "$command"
    cmp help.out same.out || fail "help $command is not $command --help"
done
run help --help
grep -wq "cadre plan" help.out || fail "the help does not list plan"
run same -h
cmp help.out same.out || fail "-h is not --help"
for columns in 50 120; do
    COLUMNS=$columns run help compare --help
    has help "^  --fail-if COND"
    if grep -E "^.{$((columns + 1))}" help.out; then
        fail "a line of the help is wider than $columns columns"
    fi
done
# what manual pages and completion are made of
run tables help --json
has tables '"name": "--fail-if"'
has tables '"kind": "assignment"'
has tables '"mig"'
if grep -e '--case' tables.out; then
    fail "an option of the program's own processes is shown"
fi
if command -v python3 >/dev/null; then
    python3 -m json.tool <tables.out >/dev/null || fail "help --json is no JSON"
fi
run version --version
has version "^cadre [0-9]"
run same -V
cmp version.out same.out || fail "-V is not --version"

# ---- where output goes ----
status=0
"$cadre" options >/dev/full 2>full.err || status=$?
[ $status -eq 1 ] && grep -q "cannot write" full.err || fail "a full disk: status $status"
"$cadre" options 2>head.err | head -1 >/dev/null || true
[ ! -s head.err ] || fail "| head: $(cat head.err)"
status=0
"$cadre" train "$conf/shakespeare.ini" --out closed "${small[@]}" "${few[@]}" "${text[@]}" \
    --set log.every=1 >&- 2>&- || status=$?
[ $status -eq 1 ] || fail "stdout and stderr closed: status $status"
[ "$(grep -c '^{"step"' closed/metrics.jsonl)" -eq 3 ] &&
    [ "$(wc -l <closed/metrics.jsonl)" -eq 3 ] || fail "other lines in metrics.jsonl"
run closed inspect closed/checkpoints/step-00000003
run bar train "$conf/shakespeare.ini" --out bar "${small[@]}" "${few[@]}" "${text[@]}" \
    --set log.progress=yes --set run.name=a-name-of-more-letters-than-most-runs-have
tr '\r' '\n' <bar.err | sed 's/\x1b\[K//; /^[0-9][0-9]:[0-9][0-9]:/d' >lines # not the log
grep -q "3/3  loss" lines || fail "no bar"
if grep -E '^.{80}' lines; then
    fail "a line of the bar is wider than a terminal"
fi
