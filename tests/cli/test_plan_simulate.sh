#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre plan --simulate`: a step of a file's own stack by the code that trains. Its bytes are
# those that a run leaves in summary.json; seconds by cause sum to the step; a strategy that is
# built out of the tree needs no change here; a plugin that asks for the seconds of units gets
# those of the hardware; the trace is marked; bad input is one line and status 2.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/plan_lib.sh"
h100=$CADRE_SRC/conf/hardware/h100.ini
cd "$tmp"

seq 1 4000 >data.txt
small_model

simulate() {
    local ranks=$1
    shift
    "$cadre" plan small.ini --ranks "$ranks" --hardware "$h100" --simulate "$@" >out 2>err || {
        cat err
        fail "--simulate --ranks $ranks $* ends with status $?"
    }
}

has() {
    grep -qE -- "$1" out || {
        cat out
        fail "no line with '$1'"
    }
}

# ini KEY: of small.ini
ini() {
    sed -nE "s/^$1 *= *//p" small.ini
}

# number KEY FILE: the first number of the key in a JSON text.
number() {
    sed -nE "s/^.*\"$1\": \[?([0-9.e+-]+).*$/\1/p" "$2" | head -n 1
}

# ---- for people ----
simulate 2 --set strategy.stack=ddp:2
has '^simulated, not measured: 0\.2205 M parameters with ddp:2 on 2 x h100, seconds of a step$'
has '^  step +[0-9.e-]+ s  100\.0 %$'
has '^  exposed communication dp +[0-9.e-]+ s'
has '^  optimizer states +[0-9]+ device$'
awk '/^  step /{ step = $2; next } / s +-?[0-9.]+ %$/{ sum += $(NF - 3) }
     END { exit !(step > 0 && (sum - step) ^ 2 < (1e-5 * step) ^ 2) }' out ||
    fail "the causes do not sum to the step"

! grep -q 'does not fit' out || fail "a small model does not fit"
sed 's/^memory_gib = .*/memory_gib = 4.001/' "$h100" >tiny.ini
"$cadre" plan small.ini --ranks 1 --hardware tiny.ini --simulate >out 2>err || fail "a tiny device"
has 'does not fit: .* are there, 4.001 GiB of the device less reserve_gib = 4, which is not in'

# ---- bytes are those of a run ----
train() {
    rm -rf run
    "$cadre" train small.ini --out run "$@" >log 2>&1 || {
        cat log
        fail "train $*"
    }
}
stacks=("ddp:2 2" "pipeline:2 2")
[ "$lean" = 1 ] || stacks+=("zero:2 2" "tensor:2 2")
for row in "${stacks[@]}"; do
    stack=${row% *}
    simulate "${row#* }" --json --set "strategy.stack=$stack"
    train --set "strategy.stack=$stack"
    [ "$(number peak_bytes out)" -gt 1000000 ] || fail "$stack: no bytes"
    grep -qE "\b$(number peak_bytes out)\b" run/summary.json ||
        fail "$stack: $(number peak_bytes out) bytes simulated, a run has others"
done
if command -v python3 >/dev/null; then
    python3 - <<'END' || fail "the JSON of tensor:2 or the last stack"
import json
s = json.load(open("out"))
assert s["engine"] == "simulation" and s["measured"] is False and len(s["by_rank"]) == 2
part, step = s["seconds"], s["step_s"]
axes = part.pop("comm_exposed_axis_s")
total = sum(part.values()) - 2 * part["excess_s"] + sum(axes.values())
assert abs(total / step - 1) < 1e-9, (total, step)
for r in s["by_rank"]:
    assert r["peak_bytes"] >= max(m["peak_bytes"] for m in r["memory"])
END
fi

# ---- a strategy built out of the tree, stacked; units cost what the hardware says ----
mkdir plugins
cc=${CC:-cc}
${cc#ccache } -std=c11 -O1 -fPIC -shared -I"$CADRE_SRC/include" -o plugins/localsgd.so \
    "$CADRE_SRC/examples/plugin-localsgd/localsgd.c"
simulate 4 --set strategy.stack=localsgd:2,pipeline:2 --set strategy.plugin_path=plugins \
    --set localsgd.period=3 --set pipeline.balance=measured --json
[ "$(number steps out)" = 3 ] || fail "a period of 3 steps is not simulated whole"
awk -v b="$(number sent_bytes out)" 'BEGIN { exit !(b > 0) }' || fail "localsgd sends nothing"

# ---- experts: each gets as many rows as any other ----
wide=(--set model.experts=4 --set train.micro_batch=1)
sends() { # GLOBAL_BATCH STACK: bytes of a rank
    simulate 2 --json "${wide[@]}" --set "train.global_batch=$1" --set "strategy.stack=$2"
    number sent_bytes out
}
spread=$CADRE_BUILD/tests/plugins/.libs/experts.so:2
sent=$(($(sends 4 ddp:2) - $(sends 2 ddp:2))) # of one micro-batch more: its loss
sent=$(($(sends 4 "$spread") - $(sends 2 "$spread") - sent))
# forward and backward half of the fp32 rows go to the other rank and back, and once all counts
[ "$sent" = $(($(ini layers) * (4 * $(ini context) * $(ini channels) * 4 / 2 + 4 * 4))) ] ||
    fail "experts over two ranks send $sent bytes for a micro-batch"
grep -q '"experts_balanced": true' out || fail "the answer does not say that experts are balanced"
simulate 1 "${wide[@]}"
has '^experts get the rows in turn, each as many as any other: '
if [ "$lean" = 0 ]; then
    simulate 1 --json "${wide[@]}"
    train "${wide[@]}"
    grep -qE "\b$(number peak_bytes out)\b" run/summary.json || fail "experts take other bytes"
fi

# ---- ranks that represent others ----
simulate 1024 --set strategy.stack=pipeline:2,ddp:512 --set train.global_batch=1024
has '^8 ranks were simulated, which did the same where they represent others$'
simulate 1024 --set strategy.stack=pipeline:2,ddp:512 --set train.global_batch=1024 --json
[ "$(sed -nE 's/^ *"represents": ([0-9]+),$/\1/p' out | paste -sd+ | bc)" = 1024 ] ||
    fail "not every rank is represented once"

# ---- the trace ----
simulate 4 --set strategy.stack=pipeline:2,tensor:2 --trace step.json
grep -q '"simulated":true' step.json || fail "the trace is not marked"
grep -q 'simulated: nothing was measured' step.json || fail "the trace's process is not marked"
[ "$(grep -c '"name":"step"' step.json)" = 4 ] || fail "the trace has no step of each rank"
! grep -q 'resident memory\|"loss"' step.json || fail "the trace has what was never there"
if command -v python3 >/dev/null; then
    python3 - <<'END' || fail "the trace"
import json
events = json.load(open("step.json"))["traceEvents"]
steps = [e for e in events if e["name"] == "step"]
assert all(e["ts"] < 1e6 and 0 < e["dur"] < 1e6 for e in steps), steps
assert any(e.get("cat") == "comm" for e in events)
END
fi

# ---- bad input ----
hw=(--hardware "$h100")
refused "given with CONF, --ranks N and --hardware" small.ini --simulate --ranks 2
refused "--ranks is '65537', expected a whole number from 1 to 65536" \
    small.ini --simulate --ranks 65537 "${hw[@]}"
refused "has to run 300 of the 300 ranks of strategy.stack = ddp:300 .--trace and --chakra have each" \
    small.ini --simulate --ranks 300 "${hw[@]}" --set strategy.stack=ddp:300 \
    --set train.global_batch=300 --set train.micro_batch=1 --chakra none
refused "has to run 510 of the 510 .* .on their nodes, .*none is like others" \
    small.ini --simulate --ranks 510 "${hw[@]}" --set strategy.stack=ddp:170,tensor:3 \
    --set train.global_batch=170 --set train.micro_batch=1 --set model.heads=3 \
    --set model.channels=48 --set model.vocab=258
refused "has to run 320 of the 320 .* .simulated ranks 1 and [0-9]* do not post the same" \
    small.ini --simulate --ranks 320 "${hw[@]}" --set strategy.stack=hsdp:2,zero:160 \
    --set train.global_batch=320 --set train.micro_batch=1
refused "leave --emit out" small.ini --simulate --ranks 1 "${hw[@]}" --emit x.ini
refused "add --simulate" small.ini --ranks 1 "${hw[@]}" --trace x.json
refused "fp64 cannot be simulated" small.ini --simulate --ranks 1 "${hw[@]}" \
    --set train.precision=fp64
refused "model.head = classify cannot be simulated" small.ini --simulate --ranks 1 "${hw[@]}" \
    --set model.head=classify
refused "model.arch = vit cannot be simulated" small.ini --simulate --ranks 1 "${hw[@]}" \
    --set model.arch=vit
refused "data.format = instruct cannot be simulated" small.ini --simulate --ranks 1 "${hw[@]}" \
    --set data.format=instruct
refused "model.vocab is 0" small.ini --simulate --ranks 1 "${hw[@]}" --set data.format=tokens
refused "--ranks is 3, and strategy.stack = ddp:2 is of 2 ranks" small.ini --simulate --ranks 3 "${hw[@]}" --set strategy.stack=ddp:2
refused "stage" small.ini --simulate --ranks 8 "${hw[@]}" --set strategy.stack=pipeline:8
refused "none.ini" small.ini --simulate --ranks 1 --hardware none.ini
refused "'none' is no folder" small.ini --simulate --ranks 1 "${hw[@]}" --trace none/x.json
echo "ok: plan --simulate"
