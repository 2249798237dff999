#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/quantized.sh [STEPS]: what zero's quantized gathers and gradients send, cost and
# gain, as a markdown table. Needs a built tree (CADRE_BUILD, or build/) and the ECG records
# (CADRE_MITDB). Trains the model of conf/compare-compress.ini under zero:2 of stage 3 for STEPS
# steps (120) without a link, and for a few steps over emulated links of 10 and 1 Gb/s, which
# change times and nothing else. A step's time is the lower quartile, its processor time is of
# one rank (see compress.sh).
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
steps=${1:-120}
timed=24
layers=4 channels=256 context=64 # of conf/compare-compress.ini

measure() { # NAME STEPS LINK [s.k=v]...; processor seconds go to NAME.cpu
    local TIMEFORMAT='%U %S'
    { time train "$top/conf/compare-compress.ini" "$1" strategy.stack=zero:2 zero.stage=3 \
        "train.steps=$2" "comm.link=$3" checkpoint.every=0 "data.cache=$tmp/cache" \
        "${@:4}"; } 2>"$tmp/$1.cpu"
}

# Bytes that one rank sends in a step with one micro-batch: gathers for forward and backward,
# and gradients. The tied head is gathered once more, and its gradient is an entry of its own.
promised() { # GATHERS GRADIENTS
    awk -v values="$1" -v grads="$2" -v p="$(total none-none params)" \
        -v L="$layers" -v C="$channels" -v T="$context" 'BEGIN {
        bytes["none"] = 4
        bytes["int8"] = 17 / 16
        tied = p - 13 * L * C - 2 * C - T * C - 12 * L * C * C
        print ((2 * p + tied) * bytes[values] + (p + tied) * bytes[grads]) / 2
    }'
}

target=""
echo "| gathers | gradients | promised MB a step | measured | loss after $steps steps | steps" \
    "to the target | CPU a step | step, no link | 10 Gb/s | 1 Gb/s | target at 10 Gb/s |" \
    "at 1 Gb/s |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
for mode in "none none" "int8 none" "none int8" "int8 int8"; do
    read -r gathers gradients <<<"$mode"
    name=$gathers-$gradients
    codes=("zero.quantize_gathers=$gathers" "zero.quantize_gradients=$gradients")
    measure "$name" "$steps" "" "${codes[@]}"
    measure "$name-fast" $timed 1.25:50 "${codes[@]}"
    measure "$name-slow" $timed 0.125:50 "${codes[@]}"
    if [ -z "$target" ]; then # what is reached without codes after two thirds of the steps
        target=$(smooth "$name" | awk -v at=$((steps * 2 / 3)) '$1 == at { print $2 }')
    fi
    reached=$(smooth "$name" | awk -v t="$target" '$2 <= t { print $1; exit }')
    awk -v mode="$gathers | $gradients" -v reached="${reached:-0}" -v from=$timed \
        -v to="$steps" -v want="$(promised "$gathers" "$gradients")" \
        -v a="$(total "$name" comm_bytes)" -v b="$(total "$name-fast" comm_bytes)" \
        -v loss="$(smooth "$name" | tail -n 1 | cut -d ' ' -f 2)" \
        -v cpu="$(cpu "$name")" -v cpu_short="$(cpu "$name-fast")" \
        -v none="$(quartile "$name")" -v fast="$(quartile "$name-fast")" \
        -v slow="$(quartile "$name-slow")" 'function time(ms) {
            return reached ? sprintf("%.1f s", reached * ms / 1000) : "-"
        } BEGIN {
        printf "| %s | %.3f | %.3f | %.3f | %s | %.0f ms | %s ms | %s ms | %s ms | %s | %s |\n", mode,
            want / 1e6, (a - b) / (to - from) / 2 / 1e6, loss, reached ? reached : "-",
            1000 * (cpu - cpu_short) / (to - from) / 2, none, fast, slow, time(fast), time(slow)
    }'
done
echo
printf 'Losses are means of 8 steps; the target, %.3f, is what plain zero has after %d steps.\n' \
    "$target" $((steps * 2 / 3))
