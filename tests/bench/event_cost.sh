#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/event_cost.sh [BUILD]: what it costs that plugins are called, checked and watched,
# for docs/measuring.md: events a step x CPU time of an event, beside the CPU time of a step
# (bench_executor); what the watched part of an event is (bench_status); DRAIN's comparison of
# replicas (bench_drift); and the supervisor, at the start and while a run trains
# (supervisor.sh). CPU time moves less with the machine's load than time does; ratios are of
# one run, with their 95 % intervals. About a minute.
. "$(dirname "$0")/lib.sh"
build=$(cd "${1:-build}" && pwd)
export OPENBLAS_NUM_THREADS=1
make -s -C "$build" bench_executor bench_drift bench_status >/dev/null

echo "| what | a step | each, CPU time | of a step's CPU time |"
echo "|---|---|---|---|"
for bench in bench_executor bench_drift; do
    "$build/$bench" >"$tmp/log" || fail "$(cat "$tmp/log")"
    grep '^|' "$tmp/log"
done
echo
echo "Of each event, telling who watches: $("$build/bench_status" | sed "s, of CPU.*,,")"
"$here/supervisor.sh" "$build" | grep -v 'an event$'
