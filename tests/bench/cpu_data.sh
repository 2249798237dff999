#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/cpu_data.sh [BUILD]: data and start-up on the CPU, as markdown tables: how fast a
# set of the size of MIT-BIH's 48 records is tokenised, what a step waits for data, and how
# long `cadre train` takes to its first step. Needs a built tree with `make bench_data
# bench_rates` (made here where make can) and about 300 MB in TMPDIR. CADRE_MITDB names
# MIT-BIH records to copy until they are 48; without it they are a sawtooth in that format.
. "$(dirname "$0")/lib.sh"
build=${1:-build}
[ -x "$build/cadre" ] || fail "there is no program '$build/cadre'; name a built tree"
build=$(cd "$build" && pwd)
cadre=$build/cadre
make -s -C "$build" bench_data bench_rates >/dev/null
records=48

copy_records() {
    local heads=("$CADRE_MITDB"/*.hea) i from name
    [ -e "${heads[0]}" ] || fail "CADRE_MITDB=$CADRE_MITDB holds no record"
    for ((i = 0; i < records; i++)); do
        from=${heads[i % ${#heads[@]}]%.hea}
        name=$(printf 'r%03d' "$i")
        sed "s/\b${from##*/}\b/$name/" "$from.hea" >"$tmp/records/$name.hea"
        cp "$from.dat" "$tmp/records/$name.dat"
        cp "$from.atr" "$tmp/records/$name.atr"
    done
}

# 2160 beats of 300 samples: two leads of a sawtooth in format 212, annotations of code 1
# in little-endian words of code << 10 | step.
make_records() {
    local i name beat sum
    beat=$(awk 'BEGIN { for (t = 0; t < 300; t++)
        printf "\\%03o\\%03o\\%03o", t % 256, int(t / 256) * 17, t % 256 }')
    # every sample of a beat counts, 2160 times, in a checksum of 16 bits with a sign
    sum=$(((299 * 300 * 1080 + 32768) % 65536 - 32768))
    printf "$beat%.0s" $(seq 2160) >"$tmp/dat"
    { printf ',\005%.0s' $(seq 2160); printf '\0\0'; } >"$tmp/atr"
    for ((i = 0; i < records; i++)); do
        name=$(printf 'r%03d' "$i")
        printf '%s 2 360 648000\n' "$name" >"$tmp/records/$name.hea"
        printf '%s.dat 212 200 12 0 0 %d 0 %s\n' "$name" "$sum" MLII "$name" "$sum" V5 \
            >>"$tmp/records/$name.hea"
        cp "$tmp/dat" "$tmp/records/$name.dat"
        cp "$tmp/atr" "$tmp/records/$name.atr"
    done
}

# ---- tokenising ----

table_tokens() {
    local made copy in out make_s map_s
    made=$("$build/bench_data" "$tmp/records" "$tmp/cache") || fail "bench_data failed"
    copy=$("$build/bench_rates" cpu f32 256 256 "$(nproc)" | field copy_gbytes_s)
    in=$(cat "$tmp"/records/*.dat "$tmp"/records/*.atr | wc -c)
    out=$(cat "$tmp"/cache/tokens-*.cache | wc -c)
    make_s=$(field make_s <<<"$made") map_s=$(field map_s <<<"$made")
    echo "### $records records to tokens"
    echo
    echo "Floor: bytes read once and written once at the machine's rate of copies,"
    echo "$copy GB/s read and written with $(nproc) threads. Files are in the page cache."
    echo
    echo "| what | MB read | MB written | seconds | input GB/s | Msamples/s | floor, s | of the floor |"
    echo "|---|---|---|---|---|---|---|---|"
    awk -v in_="$in" -v out="$out" -v s="$make_s" -v m="$map_s" -v c="$copy" 'BEGIN {
        floor = (in_ + out) / c / 1e9
        printf "| tokenise, write, verify | %.1f | %.1f | %.4f | %.2f | %.0f | %.4f | %.2f |\n",
            in_ / 1e6, out / 1e6, s, in_ / s / 1e9, in_ / 3 * 2 / s / 1e6, floor, floor / s
        floor = out / c / 1e9
        printf "| map and verify at a start | %.1f | 0 | %.4f | %.2f | %.0f | %.4f | %.2f |\n",
            out / 1e6, m, out / m / 1e9, out / 2 / m / 1e6, floor, floor / m
    }'
    echo
}

# ---- training runs ----

# measure [s.k=v]...: one run of the ECG model into $tmp/run
measure() {
    train "$top/conf/ecg-foundation.ini" run data.path="$tmp/records" \
        data.cache="$tmp/cache" data.valid_records=r000 train.eval_every=0 \
        train.eval_batches=1 checkpoint.every=0 "$@"
}

later() { # KEY: the median of the steps after the first two
    tail -n +3 "$tmp/run/metrics.jsonl" | field "$1" | median
}

# The stack's options: "single", "ddp:2", "ddp:2 processes".
stack_of() {
    echo "strategy.stack=${1%% *}"
    [ "$1" = "${1%processes}" ] || echo comm.ranks=processes
}

row_wait() { # MODEL STACK FORMAT STEPS [s.k=v]...
    local model=$1 stack=$2 format=$3 steps=$4 wait step
    shift 4
    mapfile -t set < <(stack_of "$stack")
    measure train.steps="$steps" "${set[@]}" "$@"
    wait=$(later wait_data_s) step=$(later step_s)
    awk -v m="$model" -v k="$stack" -v f="$format" -v w="$wait" -v s="$step" 'BEGIN {
        printf "| %s | %s | %s | %.3f | %.1f | %.3f %% |\n", m, k, f, s * 1e3, w * 1e6,
            100 * w / s }'
}

table_wait() {
    local stack
    local small=(model.layers=1 model.channels=32 model.heads=2)
    local text=(data.format=text data.path="$top/COPYING")
    local tokens=(data.format=tokens data.path="$tmp/tokens.bin" model.vocab=256)
    iconv -f latin1 -t utf-16le "$top/COPYING" >"$tmp/tokens.bin" # 16-bit ids
    echo "### What a step waits for data"
    echo
    echo "Medians after two steps. The small model (1 layer of 32 channels) asks for data as"
    echo "fast as any step may."
    echo
    echo "| model | stack | data | step, ms | wait, us | of the step |"
    echo "|---|---|---|---|---|---|"
    for stack in single ddp:2 "ddp:2 processes"; do
        row_wait ECG "$stack" wfdb 8
        row_wait small "$stack" wfdb 60 "${small[@]}"
        row_wait small "$stack" text 60 "${small[@]}" "${text[@]}" data.valid_records=
        row_wait small "$stack" tokens 60 "${small[@]}" "${tokens[@]}" data.valid_records=
    done
    echo
}

# row_start STACK CACHE: seconds until the first step begins (metrics.jsonl is made then),
# and of the first step over the median one.
row_start() {
    local stack=$1 cache=$2 begin made first step i begins=() firsts=() steps=()
    mapfile -t set < <(stack_of "$stack")
    for i in 1 2 3; do
        [ "$cache" = warm ] || rm -rf "$tmp/cache"
        begin=$(date +%s.%N)
        measure train.steps=4 "${set[@]}"
        made=$(stat -c %.9X "$tmp/run/metrics.jsonl")
        begins+=("$(awk -v a="$made" -v b="$begin" 'BEGIN { print a - b }')")
        first=$(head -n 1 "$tmp/run/metrics.jsonl" | field step_s)
        firsts+=("$first")
        steps+=("$(later step_s)")
    done
    middle() { printf '%s\n' "$@" | median; }
    awk -v k="$stack" -v c="$cache" -v b="$(middle "${begins[@]}")" \
        -v f="$(middle "${firsts[@]}")" -v s="$(middle "${steps[@]}")" 'BEGIN {
        printf "| %s | %s | %.3f | %.3f | %.3f | %.3f | %.3f |\n", k, c, b, b / 0.5, f, s,
            f - s }'
}

table_start() {
    local stack
    echo "### From \`cadre train\` to the first step, the ECG model"
    echo
    echo "Seconds from the start of the process until the first step begins (target 0.5), and"
    echo "what the first step takes over the median of the later ones. Medians of 3 starts."
    echo "Tokens: \"cold\" makes the cache of $records records first, \"warm\" finds it."
    echo
    echo "| stack | tokens | start, s | of the target | first step, s | later step, s | first - later, s |"
    echo "|---|---|---|---|---|---|---|"
    for stack in single ddp:2 "ddp:2 processes"; do
        row_start "$stack" cold
        row_start "$stack" warm
    done
    echo
}

mkdir -p "$tmp/records" "$tmp/cache"
if [ -n "${CADRE_MITDB:-}" ]; then copy_records; else make_records; fi
sync -f "$tmp" # nothing of this is still on its way to the disk when time counts
table_tokens
table_wait
table_start
