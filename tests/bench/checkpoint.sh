#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/checkpoint.sh [BUILD]: what saving takes of a rank, for docs/checkpoints.md.
# Trains 10.8 million parameters in fp32 on processes and saves once in the midst. For the
# rank that took most: the host memory (resident) at its peak during the save above its peak
# in a step without one, next to the bytes of the whole checkpoint and of the rank's own part;
# and the time between the step's end and the next one's, less what that one took. Fails where a rank took more than 16 MiB, or
# with async its own part and 16 MiB.
. "$(dirname "$0")/lib.sh"
build=$(cd "${1:-build}" && pwd)
write_letters train.steps=1000000 checkpoint.every=24 device.threads=1

kib() { awk -v field="$1:" '$1 == field { print $2 }' "/proc/$2/status"; }
now() { date +%s%N; }
lines() { if [ -e "$tmp/run/metrics.jsonl" ]; then wc -l <"$tmp/run/metrics.jsonl"; else echo 0; fi; }
until_step() { while [ "$(lines)" -lt "$1" ]; do sleep 0.005; done; }

# measure STACK ASYNC RANKS: prints a row.
measure() {
    local pid ranks=() before=() r begin end most=0 extra
    rm -rf "$tmp/run"
    # shellcheck disable=SC2086 # several options
    CADRE_SUPERVISE=no "$build/cadre" train "$tmp/run.ini" --out "$tmp/run" \
        --set comm.ranks=processes \
        --set "strategy.stack=$1" --set zero.stage=3 --set "checkpoint.async=$2" \
        2>"$tmp/log" &
    pid=$!
    until_step 2
    mapfile -t ranks < <(pgrep -P "$pid")
    for r in "${ranks[@]}"; do echo 5 >"/proc/$r/clear_refs"; done
    until_step 12
    for r in "${ranks[@]}"; do
        before+=("$(kib VmHWM "$r")")
        echo 5 >"/proc/$r/clear_refs"
    done
    until_step 24
    begin=$(now)
    until_step 25
    end=$(now)
    until [ -e "$tmp/run/checkpoints/step-00000024" ]; do sleep 0.005; done
    for r in "${!ranks[@]}"; do
        extra=$(($(kib VmHWM "${ranks[r]}") - before[r]))
        [ "$extra" -le "$most" ] || most=$extra
    done
    kill -9 "$pid" "${ranks[@]}" 2>/dev/null || true
    { wait "$pid"; } 2>/dev/null || true
    awk -v stack="$1" -v async="$2" -v ranks="$3" -v extra="$most" \
        -v whole="$(stat -c %s "$tmp/run/checkpoints/step-00000024/"*.safetensors |
            awk '{ n += $1 } END { print n }')" \
        -v gap_ns="$((end - begin))" -v step_s="$(sed -n 25p "$tmp/run/metrics.jsonl" |
            sed -E 's/.*"step_s": ?([^,]+),.*/\1/')" 'BEGIN {
        own = whole / ranks / 1048576
        printf "| %s | %s | %.1f | %.1f | %.1f | %.0f |\n", stack, async, whole / 1048576, own,
            extra / 1024, gap_ns / 1e6 - step_s * 1e3
        exit extra / 1024 > 16 + (async == "yes" ? own : 0)
    }'
}

echo "| stack | async | checkpoint, MiB | a rank writes, MiB | a rank takes, MiB | training waits, ms |"
echo "|---|---|---|---|---|---|"
bad=0
for async in no yes; do
    measure zero:2 "$async" 2 || bad=1
    measure zero:4 "$async" 4 || bad=1
    measure pipeline:2 "$async" 2 || bad=1
done
exit $bad
