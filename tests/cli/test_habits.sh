#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What users expect of a command line: a run's folder where CONF stands, JSON, options found by
# a pattern, what a run says at its start, data beside its file, folders of others left alone.
# shellcheck source-path=SCRIPTDIR source=train_lib.sh
. "$CADRE_SRC/tests/cli/train_lib.sh"
cd "$tmp"
few=(--set train.steps=2 --set train.eval_batches=1 --set train.global_batch=4)

# said NAME PATTERN: NAME.log has such a line. silent NAME PATTERN: it has none.
said() {
    grep -qE "$2" "$1.log" || { cat "$1.log"; fail "$1: nothing is said of '$2'"; }
}
silent() {
    ! grep -E "$2" "$1.log" || fail "$1: something is said of '$2'"
}

# value FILE KEY: of a line of indented JSON, without quotes.
value() {
    sed -nE 's/^ *"'"$2"'": "?([^",]*)"?,?$/\1/p' "$1" | head -1
}

# same_bits A B: the two runs end with the same parameters.
same_bits() {
    cmp "$1"/checkpoints/step-*/model.safetensors "$2"/checkpoints/step-*/model.safetensors ||
        fail "$1 and $2 end with other parameters"
}

# ---- a run's folder where CONF stands ----
runs first 0 "$cadre" train text.ini --out=first "${few[@]}"
runs again 0 "$cadre" train first --out again
said again "repeating the run of 'first' by its config.ini"
same_bits first again
runs done 2 "$cadre" train first
said done "done 2 steps already"
rm -r again/checkpoints/step-00000002 again/summary.json
sed -i 2,\$d again/metrics.jsonl
runs on 0 "$cadre" train again # without a checkpoint: from its beginning
said on "continuing the run in 'again' by its config.ini"
same_bits first again
runs longer 0 "$cadre" train again --set train.steps=3 --set comm.ranks=processes \
    --set strategy.stack=ddp:2
said longer "resuming from .*step-00000002' after step 2"
[ "$(wc -l <again/metrics.jsonl)" -eq 3 ] || fail "train DIR: other lines than three steps"
runs eval 0 "$cadre" eval first
runs eval-ini 0 "$cadre" eval first/config.ini
sed 's|^parameters .*||' eval.out >a
sed 's|^parameters .*||' eval-ini.out >b
cmp a b || fail "eval of a folder is not that of its config.ini"
runs say 0 "$cadre" generate first --prompt the --tokens 4
runs none 2 "$cadre" train "$CADRE_SRC/conf"
said none "is a folder without config.ini"

cat text.ini - >two.ini <<'INI'
[compare]
perturb = no
time = no
[run:one]
strategy.stack = single
[run:two]
strategy.stack = ddp:2
INI
runs compare 0 "$cadre" compare two.ini --out both "${few[@]}" --json
runs on 0 "$cadre" compare both
said on "continuing the comparison in 'both'"
said on "run 1 of 2, one.*done before"
said on "run 2 of 2, two.*done before"
runs without 0 "$cadre" train two.ini --out without "${few[@]}"
said without "the file has the runs of a comparison, and none of them is trained: .*--run NAME"
runs with 0 "$cadre" train two.ini --out with --run two "${few[@]}"
silent with 'runs of a comparison'
runs kineto 0 "$cadre" train text.ini --out kineto "${few[@]}" --set log.trace_format=kineto
said kineto "log.trace_format = kineto does nothing without log.trace = yes"
runs pages 0 "$cadre" report with without --out pages
runs pages 0 "$cadre" inspect pages
grep -qx 'report on 2 runs, not ranked' pages.out || fail "pages: $(cat pages.out)"
cp -r both stopped
rm stopped/report.json
runs stopped 0 "$cadre" inspect stopped
grep -q 'comparison without a report: ' stopped.out || fail "stopped: $(cat stopped.out)"
runs wrong 2 "$cadre" train both
said wrong "folder of a comparison, whose runs are in 'both/runs'"
runs wrong 2 "$cadre" compare first
said wrong "folder of one run"
grep -qx 'steps = 2' both/comparison.ini || fail "comparison.ini lacks what --set said"

# ---- prose is wrapped on a terminal, and a line a finding for scripts ----
# fits NAME COMMAND...: on a terminal of 60 columns, in NAME.screen; only a word is wider. Without
# one it is in NAME.out.
fits() {
    local name=$1
    shift
    runs "$name" 0 "$@"
    printf '%q ' env -u COLUMNS "$@" >"$name.command"
    script -qec "stty cols 60; $(cat "$name.command") 2>/dev/null" /dev/null </dev/null |
        tr -d '\r' >"$name.screen" || fail "$name ends with another status on a terminal"
    # (the widest indent leaves 34)
    if ! awk 'length($0) > 60 && length($NF) <= 34 { print; bad = 1 } END { exit bad }' \
        "$name.screen"; then
        fail "$name: lines of more than 60 columns"
    fi
}
# on_terminal NAME COMMAND...: and the words are the same; of a report, whose table has fewer
# columns, those from "Report:" on.
words() {
    if grep '^Report: ' "$1" >report.line; then
        sed -n '/^Report: /,$p' "$1"
    else
        cat "$1"
    fi | tr -s ' \n' '\n\n'
}
on_terminal() {
    local name=$1
    fits "$@"
    cmp <(words "$name.out") <(words "$name.screen") || {
        cat "$name.screen"
        fail "$name: other words on a terminal"
    }
}
# lines NAME PATTERN: each line of NAME.out has it, and its screen has more lines.
lines() {
    ! grep -vE "$2" "$1.out" || fail "$1: a finding takes more than a line"
    [ "$(wc -l <"$1.screen")" -gt "$(wc -l <"$1.out")" ] || fail "$1 is not wrapped"
}
on_terminal doctor "$cadre" doctor
lines doctor '^(cadre |(yes|no|warning) +[a-z]+ +[^ ])'
grep -qE '^ {20}[^ ]' doctor.screen || fail "doctor: not indented to its text"
on_terminal options "$cadre" options optim.lr
lines options '^(\[|  [a-z]| {21}|$)'
on_terminal checks "$cadre" check --list
lines checks '^( |[a-z]|$)'
on_terminal plugins "$cadre" plugins
fits dry "$cadre" train text.ini --out dry --dry-run # what the program takes is not always the same
# a table with what does not fit below
fits plan "$cadre" plan text.ini --ranks 4 --hardware h100 --top 3
[ "$(grep -c '^ *2  ' plan.out)" -eq 1 ] || fail "plan: a candidate takes more than a line"
[ "$(grep -c '^ *2  ' plan.screen)" -gt 1 ] || fail "plan is not wrapped"
for question in "--explain 1 2" "--what-if link.bandwidth=x2" --fit "--cost --tokens 1e9"; do
    # shellcheck disable=SC2086 # words
    fits plan "$cadre" plan text.ini --ranks 4 --hardware h100 --top 3 $question
done
fits plan "$cadre" plan text.ini --ranks 1..4 --hardware h100
on_terminal wide-eval "$cadre" eval first
lines wide-eval '^[a-z, ]+  +[^ ]'
train ecg beats-run 0 train.steps=1 data.task=beats model.head=classify
on_terminal beats "$cadre" eval beats-run
grep -qE '^class +sensitivity +pos. pred. +F1 +TP +FP +FN$' beats.screen || fail "no table of classes: $(cat beats.out beats.screen)"
on_terminal collect "$cadre" compare two.ini --out both "${few[@]}" --collect
grep -qE '^Report: both/report.html, .*: certificate-NAME.json$' collect.out || fail "no Report:"
grep -qE '^Report: both/report.html' collect.screen || fail "no Report: on the terminal"
long=(run-of-long-name-{1..4})
for name in "${long[@]}"; do
    runs "$name" 0 "$cadre" train text.ini --out "$name" "${few[@]}" --set "run.seed=${name: -1}"
done
on_terminal many "$cadre" report "${long[@]}" --out many
grep -A9 '^option ' many.screen | grep -E '^option .*-4$' >/dev/null ||
    fail "many: the options of a run are not on the terminal: $(cat many.screen)"
on_terminal side "$cadre" report with without --out a-folder/with-a-name/of-the-report
grep -qE '^Report: a-folder/.*/report.html, report.md, report.csv, report.json$' side.out ||
    fail "no Report: of runs"

# ---- JSON, and nothing else on stdout ----
json() { # NAME FILTER WANT
    if command -v python3 >/dev/null; then
        local got
        got=$(python3 -c 'import json, sys
o = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    o = o[int(key)] if isinstance(o, list) else o[key]
print(o)' "$1.out" "$2") || fail "$1.out: no JSON with $2"
        [ "$got" = "$3" ] || fail "$1: $2 is '$got', expected '$3'"
    fi
}
json compare status done
json compare folder both
json compare runs.1.name two
json compare runs.1.is_baseline False
runs json 0 "$cadre" train text.ini --out json "${few[@]}" --json
json json status done
json json folder json
json json steps 2
json json bench_step_s None
runs processes 0 "$cadre" train text.ini --out processes "${few[@]}" --json \
    --set strategy.stack=ddp:2 --set comm.ranks=processes
json processes ranks 2
runs bench 0 "$cadre" train text.ini --json --set bench.steps=1 --set run.out="$tmp"
json bench folder "$tmp/text-bench"
runs plan 0 "$cadre" train text.ini --json --dry-run
json plan status planned
json plan folder None
runs failed 2 "$cadre" train text.ini --json --set model.heads=3
json failed exit_status 2
said failed "model.heads"
runs unknown 2 "$cadre" train none.ini --json
json unknown status "wrong input"

# ---- options ----
runs some 0 "$cadre" options seq_len
grep -q '^  context ' some.out || fail "TorchTitan's seq_len is not found"
runs blanks 0 "$cadre" options "Gradient accumulation"
grep -q '^  global_batch ' blanks.out || fail "gradient_accumulation is not found by a blank"
runs none 2 "$cadre" options 'no such thing'
said none "no option has 'no such thing'"
runs all 0 "$cadre" options --json
for key in zero.stage ddp.compress optim.lr; do
    grep -q "\"key\": \"$key\"" all.out || fail "options --json lacks $key"
done

# ---- what a run says at its start ----
said json "train: text: single on 1 rank \(cpu\), gpt2, [0-9 ]+ parameters, fp32"
said json "data: $tmp/text.txt \(text\), samples of 32 tokens: [0-9 ]+ to train on, .*takes 2 "
said json "steps: 1 to 2, each of 4 samples = 128 tokens; [0-9]+ steps are an epoch"
said json "cores: 1 of $(cores); memory: about [0-9.]+ MiB needed of [0-9.]+ [MGT]iB free"
[ "$(grep -c ' train: ' json.log)" -le 8 ] || fail "a run says too much at its start"
cores=$(cores)
for key in started sample_tokens steps_per_epoch needed_bytes data_path cores_here; do
    grep -q "\"$key\": " json/summary.json || fail "summary.json: no $key in setup"
done
[ "$(value json/summary.json cores_here)" = "$cores" ] || fail "cores_here is not $cores"
[ "$(value json/summary.json step_tokens)" = 128 ] || fail "step_tokens is not 128"
silent json "take turns"
runs many 0 "$cadre" train text.ini --out many --set train.steps=1 --set train.eval_batches=1 \
    --set device.threads=$((cores + 1))
said many "warn.*: 1 rank x $((cores + 1)) threads on $cores core"
runs quiet 0 "$cadre" train text.ini --out quiet --set train.steps=1 \
    --set train.eval_batches=1 --set log.level=error
[ ! -s quiet.log ] || fail "log.level = error says: $(cat quiet.log)"
runs ecg 0 "$cadre" train ecg.ini --out ecg --set train.steps=1 --set train.eval_batches=1
runs tuned 0 "$cadre" train ecg.ini --out tuned --set train.steps=1 --set train.eval_batches=1 \
    --set model.init=ecg/checkpoints/step-00000001 --set data.valid_records=100
said tuned "model.init = .*was trained on these validation records: 100;"

# ---- memory that is not there ----
huge=(--set model.layers=4096 --set model.channels=262144 --set model.heads=8)
runs huge 2 "$cadre" train text.ini --dry-run "${huge[@]}"
said huge "the run needs [0-9.]+ TiB of this machine's memory, and [0-9.]+ [GTM]iB are "
said huge "train.recompute = block.*run.memory_check = no"
[ "$(wc -l <huge.log)" -eq 1 ] || fail "more than one line: $(cat huge.log)"
grep -q '^  total .* TiB$' huge.out || fail "the plan has no TiB"
runs huge 2 "$cadre" train text.ini --out huge "${huge[@]}"
said huge "the run needs [0-9.]+ TiB"
[ ! -e huge ] || fail "a run that does not fit leaves a folder"
runs huge 0 "$cadre" train text.ini --dry-run "${huge[@]}" --set run.memory_check=no
# Addresses that the shell limits: of one process, of two. (OpenBLAS waits for more, at its start.)
limited() (
    export OPENBLAS_NUM_THREADS=1
    ulimit -v 700000
    exec "$cadre" "$@"
)
if limited --version >/dev/null 2>&1; then
    large=(--set model.layers=8 --set model.channels=512 --set model.heads=8
        --set strategy.stack=ddp:2 --set train.micro_batch=1)
    runs limited 2 limited train text.ini --dry-run "${large[@]}"
    said limited "the run needs [0-9.]+ MiB of this machine's memory, and [0-9.]+ MiB are left by ulimit -v"
    runs limited 0 limited train text.ini --dry-run "${large[@]}" --set comm.ranks=processes
fi

# ---- data beside its file ----
mkdir -p near/deep
cp text.txt near/deep/own.txt
sed 's|^path = .*|path = own.txt|' text.ini >near/deep/own.ini
runs near 0 "$cadre" train near/deep/own.ini --out near/run --set train.steps=1 \
    --set train.eval_batches=1
grep -qx "path = $tmp/near/deep/own.txt" near/run/config.ini || fail "data.path is not absolute"
cp text.txt here.txt
sed 's|^path = .*|path = here.txt|' text.ini >near/here.ini
runs here 0 "$cadre" train near/here.ini --dry-run

# ---- folders of others ----
mkdir other
touch other/Makefile
runs other 2 "$cadre" train text.ini --out other
said other "the folder 'other' holds other files \('Makefile'\)"
[ ! -e other/.lock ] || fail "a folder that is refused has a lock"
runs other 2 "$cadre" compare two.ini --out other
said other "holds other files"
[ "$(ls other)" = Makefile ] || fail "a folder of others was written to"

# ---- what was typed for another plugin, and models where runs are expected ----
runs idle 0 "$cadre" train text.ini --out idle --set train.steps=1 --set zero.stage=3
said idle "warn.*--set zero.stage does nothing: strategy.stack = single has no zero"
mkdir published
touch published/model.safetensors
runs published 2 "$cadre" generate published
said published "'published' is a model without .*name an ini file, and the model by --from"
runs published 2 "$cadre" train published
said published "and the model by model.init"

cat >bytes.ini <<INI
[data]
path = text.txt
[model]
init = ecg/checkpoints/step-00000001
INI
runs bytes 2 "$cadre" train bytes.ini --dry-run
said bytes "model.init = .* has a vocabulary of .*: read the data by the tokenizer"

# ---- quickstart ----
if [ -e "$CADRE_SRC/quickstart" ]; then
    "$CADRE_SRC/quickstart" --help >help.out
    grep -q -- --download help.out || fail "quickstart --help says nothing of --download"
fi
