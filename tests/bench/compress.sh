#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/compress.sh [STEPS]: what each ddp.compress sends, costs and gains, as a markdown
# table. Needs a built tree (CADRE_BUILD, or build/) and the ECG records (CADRE_MITDB). Trains
# the model of conf/compare-compress.ini on 2 ranks for STEPS steps (120) without a link, and
# for a few steps over emulated links of 10 and 1 Gb/s, which change times and nothing else.
# A step's time is the lower quartile, since what else the machine does can only add to it; its
# processor time is of one rank, hardly touched by others, and so the price of compressing.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
steps=${1:-120}
timed=24
layers=4 channels=256 context=64 # of conf/compare-compress.ini

measure() { # NAME MODE STEPS LINK; processor seconds go to NAME.cpu
    local TIMEFORMAT='%U %S'
    { time train "$top/conf/compare-compress.ini" "$1" strategy.stack=ddp:2 \
        "ddp.compress=$2" "train.steps=$3" "comm.link=$4" checkpoint.every=0 \
        "data.cache=$tmp/cache"; } 2>"$tmp/$1.cpu"
}

# Bytes that one rank sends in a step, by the formulas of plugins/ddp/README.md.
promised() { # MODE PARAMS
    awk -v mode="$1" -v p="$2" -v L="$layers" -v C="$channels" -v T="$context" 'BEGIN {
        vectors = 13 * L * C + 2 * C
        V = (p - vectors - T * C - 12 * L * C * C) / C
        p += V * C # the tied head is an entry of its own
        split(mode, part, ":")
        k = part[2]
        bytes["none"] = 4 * p
        bytes["bf16"] = bytes["fp16"] = 2 * p
        bytes["int8"] = p * 17 / 16
        bytes["topk"] = 8 * k * p
        bytes["onebit"] = p * 36 / 256
        bytes["powersgd"] = 4 * (vectors + k * (2 * (V + C) + T + C + L * 16 * C))
        print bytes[part[1]]
    }'
}

target=""
echo "| compress | promised MB a step | measured | loss after $steps steps | steps to the" \
    "target | CPU a step | step, no link | 10 Gb/s | 1 Gb/s | target at 10 Gb/s | at 1 Gb/s |"
echo "|---|---|---|---|---|---|---|---|---|---|---|"
for mode in none bf16 fp16 int8 topk:0.1 topk:0.01 powersgd:4 powersgd:16 onebit:24; do
    name=${mode/:/-} short=${mode/:/-}-fast warm=0
    quick=${mode/onebit:*/onebit:2} # its step after the warm-up
    measure "$name" "$mode" "$steps" ""
    measure "$name-fast" "$quick" $timed 1.25:50
    measure "$name-slow" "$quick" $timed 0.125:50
    if [ "$quick" != "$mode" ]; then # the warm-up, which costs what `none` does
        warm=${mode#*:} short=$name-short
        measure "$short" "$mode" $timed ""
    fi
    if [ -z "$target" ]; then # what `none` has reached after two thirds of its steps
        target=$(smooth none | awk -v at=$((steps * 2 / 3)) '$1 == at { print $2 }')
    fi
    reached=$(smooth "$name" | awk -v t="$target" '$2 <= t { print $1; exit }')
    awk -v mode="$mode" -v reached="${reached:-0}" -v from=$timed -v to="$steps" \
        -v want="$(promised "$mode" "$(total "$name" params)")" \
        -v a="$(total "$name" comm_bytes)" -v b="$(total "$short" comm_bytes)" \
        -v loss="$(smooth "$name" | tail -n 1 | cut -d ' ' -f 2)" \
        -v cpu="$(cpu "$name")" -v cpu_short="$(cpu "$short")" \
        -v warm="$warm" -v full_fast="$(quartile none-fast)" -v full_slow="$(quartile none-slow)" \
        -v none="$(quartile "$name")" -v fast="$(quartile "$name-fast")" \
        -v slow="$(quartile "$name-slow")" 'function time(ms, full,    first) {
            first = reached < warm ? reached : warm
            return reached ? sprintf("%.1f s", (first * full + (reached - first) * ms) / 1000) : "-"
        } BEGIN {
        printf "| %s | %.3f | %.3f | %.3f | %s | %.0f ms | %s ms | %s ms | %s ms | %s | %s |\n", mode,
            want / 1e6, (a - b) / (to - from) / 2 / 1e6, loss, reached ? reached : "-",
            1000 * (cpu - cpu_short) / (to - from) / 2, none, fast, slow, time(fast, full_fast), time(slow, full_slow)
    }'
done
echo
# shellcheck disable=SC2016 # the marks are markdown
printf 'Losses are means of 8 steps; the target, %.3f, is what `none` has after %d steps.\n' \
    "$target" $((steps * 2 / 3))
