#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/event_cost.sh [BUILD]: what it costs that plugins are called, checked and watched,
# for docs/measuring.md: events a step x CPU time of an event, beside the CPU time of a step
# (bench_executor); what the watched part of an event is (bench_status); DRAIN's comparison of
# replicas (bench_drift); and the supervisor, at the start and while a run trains
# (supervisor.sh). CPU time moves less with the machine's load than time does; ratios are of
# one run, with their 95 % intervals. About two minutes; `tools/update-docs event_cost` puts it in.
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
told=$("$build/bench_status" | sed "s, of CPU.*,,")
"$here/supervisor.sh" "$build" >"$tmp/supervisor"
awk -v told="$told" '
    # ratio N (A to B)
    function ratio(line) { sub(/.*ratio /, "", line); return line }
    /does nothing, time: / { with = $7 * 1e3; without = $10 * 1e3 }
    /does nothing, CPU time: / { cpu = ratio($0) }
    /over 20 s of a run: / { share = $9 }
    /Private_Dirty: / { own = $(NF - 1) }
    END {
        printf "%s of an event tell the supervisor who is called. It takes %s at the start", told, \
            with - without < 1 ? "less than 1 ms" : sprintf("%.0f ms", with - without)
        printf " (a command that does nothing takes %.0f ms with it and %.0f ms without; CPU time", \
            with, without
        printf " %s times), %s %% of a CPU while a run trains, and %s MiB of its own.", cpu, share, own
        print " In brackets: 95 % intervals of medians."
    }' "$tmp/supervisor" | fold -s -w 100 | sed 's/ *$//'
