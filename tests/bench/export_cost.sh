#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/export_cost.sh [BUILD]: what traces and figures for other programs cost, for
# docs/interchange.md: events a step x CPU time of an event, beside the CPU time of a step
# (bench_export). CPU time moves less with the machine's load than time does; ratios are of one
# run, with their 95 % intervals. All of it, at the upper ends, must be at most 0.5 % of a step, else
# the status is 1. Half a minute.
. "$(dirname "$0")/lib.sh"
build=$(cd "${1:-build}" && pwd)
export OPENBLAS_NUM_THREADS=1
make -s -C "$build" bench_export >/dev/null

echo "| what | a step | each, CPU time | of a step's CPU time |"
echo "|---|---|---|---|"
"$build/bench_export" >"$tmp/log" || fail "$(cat "$tmp/log")"
grep '^|' "$tmp/log"
awk -F '|' '/^\|/ { sub(/.* to /, "", $5); sub(/\).*/, "", $5); sum += $5 }
    END {
        printf "\nall of it at most %.3f %%, of 0.5 %% allowed\n", sum
        exit !(sum > 0 && sum <= 0.5)
    }' "$tmp/log"
