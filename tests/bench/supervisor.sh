#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/supervisor.sh [BUILD]: what the supervisor of a run costs, for docs/measuring.md.
# Time and CPU time of a command that does nothing, with and without it, in turns (the middle
# of ROUNDS each, 41, and of their ratios, with its 95 % interval by ranks); memory of its own
# of the supervisor while a run trains, and its CPU time; and the CPU time of a sign of
# progress (bench_status).
. "$(dirname "$0")/lib.sh"
build=$(cd "${1:-build}" && pwd)
cadre=$build/cadre
rounds=${ROUNDS:-41}
make -s -C "$build" bench_status

middle() {
    sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# one NAME CHOICE: seconds and CPU seconds of `cadre options`, into NAME.s and NAME.cpu.
one() {
    local real user sys
    TIMEFORMAT='%R %U %S'
    read -r real user sys < <({ time CADRE_SUPERVISE=$2 "$cadre" options >/dev/null; } 2>&1)
    echo "$real" >>"$tmp/$1.s"
    awk "BEGIN { print $user + $sys }" >>"$tmp/$1.cpu"
}
for ((i = 0; i < rounds; i++)); do
    one without no
    one with yes
done
# ratio WHAT: of pairs of a round: the middle, and the ranks (n -+ 1.96 sqrt n) / 2.
ratio() {
    paste "$tmp/with.$1" "$tmp/without.$1" | awk '$2 > 0 { print $1 / $2 }' | sort -g | awk '
        { v[NR] = $1 }
        END {
            k = int((NR - 1.96 * sqrt(NR)) / 2)
            k = k < 0 ? 0 : k
            printf "%.3f (%.3f to %.3f)", v[int((NR + 1) / 2)], v[k + 1], v[NR - k]
        }'
}
for what in s cpu; do
    name="CPU time"
    [ $what = cpu ] || name="time"
    printf 'a command that does nothing, %s: %s s with, %s s without, ratio %s\n' "$name" \
        "$(middle <"$tmp/with.$what")" "$(middle <"$tmp/without.$what")" "$(ratio $what)"
done

# while a run trains
write_letters train.steps=1000000 checkpoint.every=0 device.threads=1
"$cadre" train "$tmp/run.ini" --out "$tmp/run" --set strategy.stack=ddp:2 2>"$tmp/log" &
pid=$!
until [ -e "$tmp/run/metrics.jsonl" ] && [ "$(wc -l <"$tmp/run/metrics.jsonl")" -ge 2 ]; do
    kill -0 "$pid" || fail "$(cat "$tmp/log")"
    sleep 0.05
done
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
before=$(ticks "$pid")
sleep 20
awk -v t=$(($(ticks "$pid") - before)) -v hz="$(getconf CLK_TCK)" \
    'BEGIN { printf "the supervisor, over 20 s of a run: %.3f %% of a CPU\n", 100 * t / hz / 20 }'
awk '/^(Rss|Pss|Private_Dirty):/ { printf "the supervisor, %s %.1f MiB\n", $1, $2 / 1024 }' \
    "/proc/$pid/smaps_rollup"
kill -INT "$pid"
wait "$pid" || true
"$build/bench_status"
