#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre plan`: candidates of a file on each hardware file of conf/, their seconds and bytes,
# an emitted file that trains; published steps replayed, with the table found by itself; bad
# input, and what is not built, in one line with status 2.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/plan_lib.sh"
conf=$CADRE_SRC/conf
samples=$CADRE_SRC/tests/samples/planner
cd "$tmp"

plan() {
    "$cadre" plan "$@" >out 2>err || {
        cat err
        fail "cadre plan $* ends with status $?"
    }
}

has() {
    grep -qE -- "$1" out || {
        cat out
        fail "no line with '$1'"
    }
}

# ---- candidates ----
seq 1 20000 >data.txt
cat >small.ini <<'END'
[model]
layers = 2
channels = 32
heads = 2
context = 32
[data]
path = data.txt
[train]
steps = 2
global_batch = 8
eval_batches = 1
[checkpoint]
every = 0
END
for hardware in "$conf"/hardware/*.ini; do
    plan small.ini --ranks 2 --hardware "$hardware" --top 1
    has '^forecast, not measured: 3.28e-05 B parameters, .* on 2 x '
    has '^[0-9]+ candidates run, [0-9]+ are refused$'
done
plan "$conf/plan-70b.ini" --ranks 64 --hardware "$conf/hardware/h100.ini" --top 1
has '^ +[0-9]+  tensor 64 does not divide KV heads 8, such as '
has '^ *1  .*tensor:'
# two figures of memory, and what each counts
has '^   stack .* GiB >=  GiB asked  form  +limit  +'
has '^ *1  .* [0-9.]+  +[0-9.]+  .*micro-batch [0-9]+, '
has '^GiB >=: by formulas, .* not scratch, not messages$'
has '^GiB asked: by plugins, all that a run .*, which decides whether it fits$'
has '^76.0 GiB are there, 80 of the device less reserve_gib = 4, which neither figure counts$'

# ---- experts, which tensor does not divide ----
plan small.ini --ranks 2 --hardware "$conf/hardware/h100.ini" --set model.experts=4
has '^forecast, not measured: 8.22e-05 B parameters, 4 experts a block, '
has '^ +[0-9]+  tensor 2 does not divide experts, there are 4'
! grep -qE '^ *[0-9]+  .*tensor:.*micro-batch' out || fail "a stack with tensor and experts is said to run"

# ---- adapters: no gradients and states beside them, and what the plugins ask for is not less ----
plan small.ini --ranks 1 --hardware "$conf/hardware/h100.ini" --json
cp out full.json
plan small.ini --ranks 1 --hardware "$conf/hardware/h100.ini" --json --set tune.method=qlora \
    --set tune.targets=c_attn,mlp.c_proj --set tune.rank=2
cp out few.json
plan small.ini --ranks 1 --hardware "$conf/hardware/h100.ini" --set tune.method=qlora \
    --set tune.rank=2
has '^forecast, not measured: 3.28e-05 B parameters, adapters of rank 2, nf4, global batch '
if command -v python3 >/dev/null; then
    python3 - <<'END' || fail "the forecast of adapters"
import json
full, few = (json.load(open(f))["candidates"] for f in ("full.json", "few.json"))
key = lambda c: (c["stack"], c["micro_batch"], c["recompute"], c["precision"])
full = {key(c): c for c in full if not c["refused"]}
for c in few:
    if c["refused"]:
        continue
    other = full[key(c)]
    assert c["bytes_at_least"]["states"] < other["bytes_at_least"]["states"] / 8, (c, other)
    assert c["bytes_at_least"]["gradients"] < other["bytes_at_least"]["gradients"] / 8, (c, other)
    if c.get("bytes_asked"):
        assert c["bytes_at_least"]["total"] <= c["bytes_asked"], c
END
fi

# ---- as JSON ----
plan "$conf/plan-70b.ini" --ranks 1024 --hardware "$conf/hardware/h100.ini" --top 2 --json
has '"engine": "analytic"'
has '"measured": false'
has '"refused": "needs at least [0-9.]+ GiB, 76.0 are there"'
# of a program that is not Cadre plugins decide nothing
plan small.ini --ranks 2 --hardware "$conf/hardware/h100-nemo.ini" --top 1
has '^GiB asked: by plugins, all that a run of Cadre plans on a rank$'
plan "$conf/plan-70b.ini" --ranks 1024 --hardware "$conf/hardware/h100.ini" --top 2 --json
if command -v python3 >/dev/null; then
    python3 - <<'END' || fail "the JSON of the candidates"
import json
plan = json.load(open("out"))
legal = plan["candidates"][:plan["legal"]]
assert legal and all(c["refused"] is None for c in legal)
assert all(c["refused"] for c in plan["candidates"][plan["legal"]:])
for c in legal:
    assert abs(sum(c["seconds"].values()) / c["step_s"] - 1) < 1e-9, c
    b = c["bytes_at_least"]
    assert b["total"] <= 76 * 2**30
    assert abs(b["weights"] + b["gradients"] + b["states"] + b["activations"] - b["total"]) < 1
    assert c["tensor"] * c["pipeline"] * c["data"] == 1024
    assert c["step_low_s"] < c["step_s"] < c["step_high_s"]
assert all(c["bytes_asked"] <= 76 * 2**30 for c in legal[:2]), "not asked"
END
fi

# ---- what it emits trains ----
plan small.ini --ranks 2 --hardware "$conf/hardware/h100.ini" --set train.precision=fp32
plan small.ini --ranks 2 --hardware "$conf/hardware/h100.ini" --emit best.ini
grep -q '^stack = ' best.ini || fail "no stack in what --emit wrote"
"$cadre" train best.ini --out best >out 2>&1 || {
    cat best.ini out
    fail "what --emit wrote does not train"
}
[ -s best/summary.json ] || fail "training what --emit wrote left no summary"

# ---- what else it answers ----
h100=(--hardware h100) # by its name
plan small.ini --ranks 4 "${h100[@]}" --explain 1 pipeline:2,ddp:2
has '^A  place 1: .*'
has ' decides: [+-][0-9.]+ s of the difference'
plan small.ini --ranks 4 "${h100[@]}" --explain 1 2
has '^memory >=  +[0-9.]+ +[0-9.]+ '
has '^plugins ask  +[0-9.]+ +[0-9.]+ '
has '^memory >=: by formulas, .* neither counts the reserve$'
plan small.ini --ranks 4 "${h100[@]}" --explain 1 2 --json
has '"decides": "'
plan small.ini --ranks 4 "${h100[@]}" --what-if link.bandwidth=+10% --what-if=device.memory_gb_s=x2
has '^link.bandwidth=\+10% '
has '^all together '
plan small.ini --ranks 4 "${h100[@]}" --fit
has 'not to fit in 76.0 GiB \(80 less reserve_gib = 4\)'
plan small.ini --ranks 4 "${h100[@]}" --fit --stack zero:4 --json
has '"layers": '
plan small.ini --ranks 4 "${h100[@]}" --cost --tokens 1e9 --price 2 --top 1
has '^ *1  .* [0-9.]+$'
plan small.ini --ranks 1..4 "${h100[@]}"
has '^ +1  single .* 100.0 %$'
has '^ +4  '

# ---- plugins are asked ----
plan "$conf/plan-70b.ini" --ranks 2048 "${h100[@]}" --top 1
has '^plugins were not asked: Cadre runs 1024 ranks at most'
# A stack that the plan does not know: what its ranks hold is exact.
cat >own.ini <<END
[run]
extends = small.ini
[strategy]
plugin_path = $CADRE_BUILD/tests/plugins/.libs
stack = gossip:2
END
if [ -e "$CADRE_BUILD/tests/plugins/.libs/gossip.so" ]; then
    plan own.ini --ranks 2 "${h100[@]}" --top 1
    has '^the stack of the file, gossip:2: 2 ranks, step at least [0-9.e-]+ s .* GiB on the largest'
else
    echo "SKIP: no plugins of the tests"
fi
# Candidates are refused by the plugins' own reasons: pipeline.balance that fits no stage.
plan small.ini --ranks 2 "${h100[@]}" --set "pipeline.balance=1 1 1 1" --json --top 40
has '"refused": "plugin .pipeline. in plan: pipeline.balance = '

# ---- the machine at hand ----
if [ -z "${CADRE_TEST_LEAN:-}" ]; then
    plan --measure here.ini --set device.kind=cpu --set comm.link=0.5:20
    has '^here.ini: [0-9.]+ fp32 GFLOP/s, .* 0.[34][0-9]* GB/s between ranks$'
    plan small.ini --ranks 2 --hardware here.ini --set train.precision=fp32
    has '^ *1  '
fi
refused "takes --set alone" small.ini --measure here.ini
refused "device.kind, device.threads and comm.link alone" --measure here.ini --set train.steps=1
refused "comm.link" --measure here.ini --set comm.link=fast

# ---- forecasts beside measurements ----
cat >compare.ini <<'END'
[run]
extends = small.ini
[device]
kind = cpu
[compare]
time = no
perturb = no
[run:one]
strategy.stack = single
[run:two]
strategy.stack = pipeline:2
END
"$cadre" compare compare.ini --out compared --predict h100 >out 2>err || {
    cat err
    fail "a comparison with forecasts"
}
[ "$(wc -l <compared/predictions.tsv)" -eq 3 ] || fail "the log of forecasts"
for form in html md; do
    grep -q "Forecast, not measured" "compared/report.$form" || fail "no forecast in report.$form"
done
grep -q '"measured": false' compared/report.json || fail "no forecast in report.json"
status=0
"$cadre" compare compare.ini --out compared2 --predict small.ini >out 2>err || status=$?
if [ "$status" -ne 2 ] || [ -e compared2 ]; then fail "--predict with no hardware file"; fi

# the section of a plugin that a run names by its path is accepted, as where the runs train
printf '[own]\nwidth = 1\n[run:three]\nstrategy.stack = ./own.so:2\n' | cat compare.ini - >own.ini
plan own.ini --ranks 2 --hardware "$conf/hardware/h100.ini"
has '^ *1  '

# ---- published steps ----
plan --replay "$samples/published.csv"
has '^K22T5 +22B +8 .* \*$'
has '^DGXC405 +6 +0 '
cp out first
plan --replay "$samples/published.csv" --hardware "$conf/hardware/texts.tsv"
cmp out first || fail "the table of the build is not that of the tree"
plan --replay "$samples/more.csv" --json
has '"skill": '
has '"cadre_runs_it": false'
{
    head -n 1 "$samples/published.csv"
    sed -n '/^K22T5.*175B/p' "$samples/published.csv"
    sed -n '/^K22T5.*530B/{s/A100-80 Selene/A100-80 Elsewhere/;p;q}' "$samples/published.csv"
} >rows.csv
plan --replay rows.csv
has "^line 4, K22T5 530B: hw 'A100-80 Elsewhere' is not in "
has '^K22T5 +2 +1 '

# ---- what is refused ----
h100=(--hardware "$conf/hardware/h100.ini")
refused "expected CONF with --ranks N and --hardware FILE" small.ini --ranks 2
refused "expected CONF with --ranks N" --ranks 2 "${h100[@]}"
refused "--ranks is '0', expected a whole number from 1" small.ini --ranks 0 "${h100[@]}"
refused "--ranks is 'two'" small.ini --ranks two "${h100[@]}"
refused "no hardware file 'none.ini': .* with Cadre: .*a100-80, .*, h100, " small.ini --ranks 2 \
    --hardware none.ini
refused "folder/none.ini" small.ini --ranks 2 --hardware folder/none.ini
refused "unknown option train.stepz" small.ini --ranks 2 "${h100[@]}" --set train.stepz=1
refused "--explain 1: expected two" small.ini --ranks 2 "${h100[@]}" --explain 1
refused "no candidate 'ddp:3'" small.ini --ranks 2 "${h100[@]}" --explain 1 ddp:3
refused "two questions" small.ini --ranks 2 "${h100[@]}" --fit --cost
refused "expected --tokens T" small.ini --ranks 2 "${h100[@]}" --cost
refused "no number 'width'" small.ini --ranks 2 "${h100[@]}" --what-if link.width=+1%
refused "FIRST below LAST" small.ini --ranks 4..2 "${h100[@]}"
refused "is a curve alone" small.ini --ranks 1..2 "${h100[@]}" --fit
refused "tune.method = qat has no formulas" small.ini --ranks 2 "${h100[@]}" \
    --set tune.method=qat
refused "more.csv|no column" --replay "$conf/plan-70b.ini"
refused "takes a table alone" small.ini --replay rows.csv
sed 's/bandwidth_gb_s = 50/bandwidth_gbps = 50/' "$conf/hardware/h100.ini" >wrong.ini
refused "wrong.ini:[0-9]+: unknown key 'bandwidth_gbps' of \[link:cluster\]" \
    small.ini --ranks 2 --hardware wrong.ini
sed '/bandwidth_gb_s = 50/d' "$conf/hardware/h100.ini" >wrong.ini
refused "wrong.ini: no bandwidth_gb_s in \[link:cluster\]" \
    small.ini --ranks 2 --hardware wrong.ini
