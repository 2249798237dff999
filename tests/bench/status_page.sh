#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/status_page.sh [BUILD]: what the status page of a rank costs, for
# docs/watching.md: the updates of a step x CPU time of an update (bench_rank_page), beside the
# CPU time of a step of a small run under ddp:2, and what `cadre top` takes of a core for 64
# ranks (bench_top). The updates of a step are counted from the run's own numbers: micro-batches
# (data, forward, backward), operations and waits. About 20 s.
. "$(dirname "$0")/lib.sh"
build=$(cd "${1:-build}" && pwd)
cadre=$build/cadre
export TMPDIR=${TMPDIR:-/tmp}
make -s -C "$build" bench_rank_page bench_top >/dev/null

"$build/bench_rank_page" >"$tmp/costs"
phase=$(awk '$1 == "phase" { print $2 }' "$tmp/costs")
operation=$(awk '$1 == "operation" { print $2 }' "$tmp/costs")
step=$(awk '$1 == "step" { print $2 }' "$tmp/costs")

# a run of two ranks; its CPU time over the steps of its second half
write_letters train.steps=60 checkpoint.every=0 device.threads=1 bench.steps=40
TIMEFORMAT='%U %S'
cpu=$({ time "$cadre" train "$tmp/run.ini" --out "$tmp/run" --set strategy.stack=ddp:2 \
    >/dev/null 2>"$tmp/log"; } 2>&1) || fail "$(cat "$tmp/log")"
"$cadre" top "$tmp/run" --once --json >"$tmp/top.json"
steps=$(grep -c . "$tmp/run/metrics.jsonl")
operations=$(sed -nE 's/.*"operations_ended": ([0-9]+).*/\1/p' "$tmp/top.json" | head -n 1)
micro=2 # micro-batches of a rank: global batch 4, 2 ranks

awk -v cpu="$cpu" -v steps="$steps" -v operations="$operations" -v micro="$micro" \
    -v phase="$phase" -v operation="$operation" -v step="$step" 'BEGIN {
    split(cpu, part, " ")
    a_step = (part[1] + part[2]) / steps / 2 # of a rank, with the start of the program
    ops = operations / steps
    cost = (3 * micro + 1) * phase + ops * (phase + operation) + step
    printf "| what | a step | each, CPU time | of a step\x27s CPU time |\n|---|---|---|---|\n"
    printf "| phase | %d | %.1f ns | %.5f %% |\n", 3 * micro + 1 + ops, phase,
        (3 * micro + 1 + ops) * phase / a_step / 1e7
    printf "| operation, with its event | %.1f | %.1f ns | %.5f %% |\n", ops, operation, ops * operation / a_step / 1e7
    printf "| step | 1 | %.1f ns | %.5f %% |\n", step, step / a_step / 1e7
    printf "| all of the page | 1 | %.2f us | %.5f %% |\n", cost / 1e3, cost / a_step / 1e7
}'
echo
"$build/bench_top"
