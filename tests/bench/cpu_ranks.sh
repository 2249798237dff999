#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/cpu_ranks.sh [BUILD]: what several ranks on the CPU cost, as markdown tables.
# Needs a built tree (BUILD, default build) and two cores that nobody else uses. RANKS chooses
# tables (ddp floor zero exact pipeline link executor; default all of them), ROUNDS the turns
# of each (5).
#
# What is compared runs in turns: all runs of a table are started, stopped, and then let go one
# after another for a few steps, again and again. A neighbour that slows the machine for seconds
# so slows all of them. The step in which a run was stopped does not count; a turn gives the
# median of its steps, a round the ratio of two turns, the table the median of the rounds and
# their range.
. "$(dirname "$0")/lib.sh"
build=${1:-build}
cadre=$build/cadre
read -ra tables <<<"${RANKS:-ddp floor zero exact pipeline link executor}"
rounds=${ROUNDS:-5}
declare -A pids dirs # of a group of runs that have their turn together

finish() {
    local p
    for p in ${pids[*]:-}; do
        kill -KILL "$p" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 1' INT TERM

[ -x "$cadre" ] || fail "no program '$cadre': build the tree, or name its folder"
read -ra cpu <<<"$(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '
    { for (i = $1; i <= (NF > 1 ? $2 : $1); i++) printf "%d ", i }')"
[ ${#cpu[@]} -ge 2 ] || fail "needs two cores, this process may use ${#cpu[@]}"

model() { # NAME LAYERS CHANNELS HEADS TIME VOCAB: its ini
    write_ini "$tmp/$1.ini" "model.layers=$2" "model.channels=$3" "model.heads=$4" \
        "model.context=$5" "model.vocab=$6" "data.path=$top/COPYING" \
        "data.cache=$tmp/cache" train.steps=1000000000 train.eval_batches=1 optim.clip=1 \
        device.kind=cpu device.threads=1 checkpoint.every=0 log.level=warn
}
model small 6 384 6 256 256
model ecg 4 128 4 256 256
model 124m 12 768 12 64 50257

# ---- turns

# start GROUP CPUS SHAPE [SETTING...]: one more run of a group. Without a supervisor the
# process that is stopped and continued is the run.
start() {
    local group=$1 cpus=$2 shape=$3 sets s
    shift 3
    settings "$@"
    read -ra s <<<"${pids[$group]:-}"
    local dir=$tmp/run-$group-${#s[@]}
    CADRE_SUPERVISE=no taskset -c "$cpus" "$cadre" train "$tmp/$shape.ini" --out "$dir" "${sets[@]}" \
        >/dev/null 2>"$dir.log" 3>&- &
    pids[$group]+=" $!"
    dirs[$group]+=" $dir"
}

lines() { # DIR: steps done
    if [ -f "$1/metrics.jsonl" ]; then wc -l <"$1/metrics.jsonl"; else echo 0; fi
}

# advance GROUP STEPS: until each of its runs has made so many more.
advance() {
    local d p from=() i=0
    read -ra p <<<"${pids[$1]}"
    for d in ${dirs[$1]}; do
        from+=("$(lines "$d")")
    done
    for d in ${dirs[$1]}; do
        while [ $(($(lines "$d") - from[i])) -lt "$2" ]; do
            kill -0 "${p[$i]}" 2>/dev/null || fail "$(cat "$d.log")"
            sleep 0.1
        done
        i=$((i + 1))
    done
}

# ready GROUP: let it warm up for two steps, then stop it.
ready() {
    advance "$1" 2
    kill -STOP ${pids[$1]}
    : >"$tmp/$1.turns"
}

# turn GROUP STEPS: the seconds of a step, of several runs the harmonic mean, which is
# what their tokens a second together come to.
turn() {
    local d skip=()
    for d in ${dirs[$1]}; do
        skip+=("$(lines "$d")")
    done
    kill -CONT ${pids[$1]}
    advance "$1" $(($2 + 1))
    kill -STOP ${pids[$1]}
    local i=0
    for d in ${dirs[$1]}; do
        tail -n +$((skip[i] + 2)) "$d/metrics.jsonl" | field step_s >"$tmp/one"
        cat "$tmp/one" >>"$tmp/$1.$i.all"
        middle <"$tmp/one"
        i=$((i + 1))
    done | awk '{ s += 1 / $1 } END { printf "%.6f\n", NR / s }' >>"$tmp/$1.turns"
}

middle() {
    sort -g | awk '{ v[NR] = $1 } END {
        printf "%.6f\n", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'
}

# in_turns STEPS GROUP...
in_turns() {
    local steps=$1 r g
    shift
    for ((r = 0; r < rounds; r++)); do
        for g in "$@"; do
            turn "$g" "$steps"
        done
    done
}

stop() { # GROUP...
    local g
    for g in "$@"; do
        kill -KILL ${pids[$g]} 2>/dev/null || true
        wait ${pids[$g]} 2>/dev/null || true
        rm -rf ${dirs[$g]}
        unset "pids[$g]" "dirs[$g]"
    done
}

# ratio A B: seconds of A over those of B, "median (lowest to highest)" over the rounds.
ratio() {
    paste "$tmp/$1.turns" "$tmp/$2.turns" | awk '{ printf "%.6f\n", $1 / $2 }' |
        sort -g | awk '{ v[NR] = $1 } END {
            printf "%.3f (%.3f to %.3f)", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2,
                v[1], v[NR] }'
}

seconds() { # GROUP
    middle <"$tmp/$1.turns"
}

both=${cpu[0]},${cpu[1]}

# ranks GROUP SHAPE BATCH STACK [SETTING...]: two ranks of one thread, BATCH sequences each.
ranks() {
    local group=$1 shape=$2 b=$3 stack=$4
    shift 4
    start "$group" "$both" "$shape" "strategy.stack=$stack" "train.micro_batch=$b" \
        "train.global_batch=$((2 * b))" "$@"
    ready "$group"
}

# bound GROUP SHAPE BATCH: two runs of one rank side by side, which never meet.
bound() {
    local c
    for c in "${cpu[0]}" "${cpu[1]}"; do
        start "$1" "$c" "$2" strategy.stack=single "train.micro_batch=$3" \
            "train.global_batch=$3"
    done
    ready "$1"
}

# ---- ddp against two runs that never meet

ddp_row() { # SHAPE WHAT BATCH STEPS
    bound bound "$1" "$3"
    ranks ddp "$1" "$3" ddp:2
    in_turns "$4" ddp bound
    echo "| $1 | $2, batch $3 a rank | $(seconds bound) | $(seconds ddp) |" \
        "$(ratio bound ddp) | 0.985 |"
    stop ddp bound
}

ddp_ecg() {
    ddp_row ecg weak 8 5
    ddp_row ecg strong 4 8
}

ddp_small() {
    ddp_row small weak 16 2
    ddp_row small strong 8 4
}

table_ddp() {
    echo "ddp:2, one thread a rank, against two runs of one rank side by side, one a core, with"
    echo "the same micro-batches: the tokens a second of the first over those of the second."
    echo
    echo "| shape | scaling | two runs, s a step | ddp:2 | efficiency | target |"
    echo "|---|---|---|---|---|---|"
    local s
    for s in ${SHAPES:-ecg small}; do
        "ddp_$s"
    done
}

# ---- 124M: two cores, one memory bus

table_floor() {
    local copy
    [ -x "$build/bench_comm" ] || fail "no $build/bench_comm: make -C $build bench_comm"
    copy=$("$build/bench_comm" 2 | awk '/threads/ { on = 1 }
        on && $1 == 67108864 { print $1 / 1e9 / $8, $3 / 1e6 / $1, $1 / 1e9 / $8 / $1 }')
    bound bound 124m 4
    ranks ddp 124m 4 ddp:2
    in_turns 3 ddp bound
    # every gradient, the tied head's separately, fp32
    echo "124M, batch 4 x 64 tokens a rank: an all_reduce of G bytes in place among two ranks"
    echo "reads both ranks' G and writes both: what two copies of G, one a rank, move. Floor:"
    echo "the two runs side by side, and then that time, as no core is free to hide it."
    echo
    echo "| G, MB | copying 64 MiB on both, GB/s a rank | G copied, s | two runs | floor | ddp:2 | of the floor | target |"
    echo "|---|---|---|---|---|---|---|---|"
    awk -v copy="$copy" -v b="$(seconds bound)" -v d="$(seconds ddp)" 'BEGIN {
        split(copy, c, " ")
        n = 2 * 50257 * 768 + 64 * 768 + 12 * (12 * 768 * 768 + 13 * 768) + 2 * 768
        g = 4 * n
        t = g * c[3]
        printf "| %.0f | %.1f | %.3f | %.3f | %.3f | %.3f | %.3f | 0.97 |\n", g / 1e6,
            1e-9 / c[3], t, b, b + t, d, (b + t) / d }'
    stop ddp bound
}

# ---- zero against ddp

table_zero() {
    local s b g of
    echo "zero:2 against ddp:2, one thread a rank: seconds of a step over those of ddp."
    echo
    echo "| shape | stage | ratio | target |"
    echo "|---|---|---|---|"
    for s in ${SHAPES:-ecg small}; do
        b=8
        ranks ddp "$s" $b ddp:2
        for g in 1 2 3; do
            ranks zero$g "$s" $b zero:2 zero.stage=$g
        done
        in_turns $([ "$s" = ecg ] && echo 5 || echo 1) ddp zero1 zero2 zero3
        for g in 1 2 3; do
            of=1.03
            [ $g -lt 3 ] || of=1.10
            echo "| $s, batch $b a rank | $g | $(ratio zero$g ddp) | $of |"
        done
        stop ddp zero1 zero2 zero3
    done
}

# ---- exact mode

table_exact() {
    local stack n
    echo "run.exact = yes against no, ECG model, 8 micro-batches of 8 a rank: seconds of a step"
    echo "over those without."
    echo
    echo "| stack | ratio | target |"
    echo "|---|---|---|"
    for stack in single ddp:2 pipeline:2; do
        n=$((8 * 8))
        [ $stack != ddp:2 ] || n=$((2 * n))
        local cpus=$both e
        [ $stack != single ] || cpus=${cpu[0]}
        for e in no yes; do
            start "exact-$e" "$cpus" ecg strategy.stack=$stack train.micro_batch=8 \
                train.global_batch=$n run.exact=$e
            ready "exact-$e"
        done
        in_turns 1 exact-no exact-yes
        echo "| $stack | $(ratio exact-yes exact-no) | 1.05 |"
        stop exact-no exact-yes
    done
}

# ---- pipeline against its schedule

table_pipeline() {
    local s
    cat >"$tmp/pipeline.ini" <<INI
[run]
extends = $tmp/ecg.ini
[train]
steps = 12
micro_batch = 4
global_batch = 32
[compare]
baseline = gpipe
perturb = no
runs = gpipe, 1f1b, interleaved, zb-h1
INI
    for s in gpipe 1f1b interleaved zb-h1; do
        printf '[run:%s]\nstrategy.stack = pipeline:2\npipeline.schedule = %s\n' $s $s
    done >>"$tmp/pipeline.ini"
    taskset -c "$both" "$cadre" compare "$tmp/pipeline.ini" --out "$tmp/pipeline" >/dev/null \
        2>"$tmp/log" || fail "$(cat "$tmp/log")"
    echo "pipeline:2, ECG model, 8 micro-batches of 4: idle share of the span of the passes, and"
    echo "that of the schedule replayed with the median time of each chunk's passes; the span is"
    echo "then so much longer than replayed."
    echo
    echo "| schedule | idle | replayed | span over replayed | target |"
    echo "|---|---|---|---|---|"
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { m = $at["bubble_fraction"]; r = $at["bubble_replayed"]
          printf "| %s | %.3f | %.3f | %.3f | 1.05 |\n", $1, m, r, (1 - r) / (1 - m) }' \
        "$tmp/pipeline/report.csv"
}

# ---- an emulated link

# link_row SHAPE BATCH BUCKET_MB NAME GBPS: from the trace of a run.
link_row() {
    rm -rf "$tmp/link"
    taskset -c "$both" "$cadre" train "$tmp/$1.ini" --out "$tmp/link" --set train.steps=10 \
        --set "train.micro_batch=$2" --set "train.global_batch=$((2 * $2))" \
        --set strategy.stack=ddp:2 --set "ddp.bucket_mb=$3" --set "comm.link=$5:10" \
        --set log.trace=yes --set log.trace_steps=8 >/dev/null 2>"$tmp/log" ||
        fail "$(cat "$tmp/log")"
    tr -d '"{}' <"$tmp/link/trace.json" | sed 's/args://; s/,$//' | awk -F, \
        -v rate="$5" -v latency=10 -v head="| $1, batch $2 | $3 | $4 |" '
        function value(name,    i, p) {
            for (i = 1; i <= NF; i++) {
                p = index($i, ":")
                if (substr($i, 1, p - 1) == name) return substr($i, p + 1)
            }
        }
        { name = value("name"); kind = value("cat"); step = value("step") }
        kind == "pass" && name == "backward" && value("tid") == 0 {
            end[step] = value("ts") + value("dur"); back[step] = value("dur") }
        kind == "wait" && name == "wait dp" && value("tid") == 0 {
            left[step] = value("ts") + value("dur") }
        kind == "comm" && value("ph") == "b" && name ~ /ddp bucket/ {
            b = name; sub(/.*bucket /, "", b)
            t = value("ts") + 0
            if (t > at[step, b]) at[step, b] = t
            bytes[b] = value("bytes")
            if (b + 1 > n) n = b + 1 }
        END {
            for (s in end) {
                done = 0; total = 0
                for (b = 0; b < n; b++) {
                    took = bytes[b] / rate / 1000 + latency
                    done = (at[s, b] > done ? at[s, b] : done) + took
                    total += took
                }
                promised = done > end[s] ? done - end[s] : 0
                measured = left[s] - end[s]
                print promised, measured, total, back[s], measured / promised, n, head
            } }' | sort -g -k 5 | awk '{ v[NR] = $0 } END {
            k = int((NR + 1) / 2); split(v[k], f, " "); head = v[k]; sub(/^[^|]*/, "", head)
            printf "%s %d | %.1f | %.1f | %.2f | %.2f | %.3f | 0.9 to 1.1 |\n", head, f[6],
                f[4] / 1000, f[3] / 1000, f[1] / 1000, f[2] / 1000, f[5] }'
}

table_link() {
    echo "ddp:2 over an emulated link (comm.link, 10 us), times in ms. Arithmetic: a bucket starts"
    echo "at max(ready on both ranks, end of the one before); exposed is what ends after backward."
    echo
    echo "| shape | bucket_mb | link | buckets | backward | on the link | exposed, arithmetic | measured | ratio | target |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    for s in ${SHAPES:-ecg small}; do
        if [ "$s" = ecg ]; then
            link_row ecg 8 25 "10 Gb/s" 1.25
            link_row ecg 8 25 "1 Gb/s" 0.125
            link_row ecg 8 1 "10 Gb/s" 1.25
            link_row ecg 8 1 "1 Gb/s" 0.125
        else
            link_row small 4 25 "10 Gb/s" 1.25
            link_row small 4 25 "1 Gb/s" 0.125
            link_row small 4 4 "1 Gb/s" 0.125
        fi
    done
}

# ---- the executor

table_executor() {
    [ -x "$build/bench_executor" ] ||
        fail "no $build/bench_executor: make -C $build bench_executor"
    echo "A step of the ECG model, batch 8, one thread, with a plugin that hears every event."
    echo
    echo "| what | a step | one takes | of the step | target |"
    echo "|---|---|---|---|---|"
    taskset -c "${cpu[0]}" "$build/bench_executor" >"$tmp/log" 2>&1 ||
        fail "$(tail -n 3 "$tmp/log")"
    grep '^|' "$tmp/log"
}

# ---- main

for t in "${tables[@]}"; do
    declare -F "table_$t" >/dev/null || fail "no table '$t'"
    echo "### $t"
    echo
    "table_$t"
    echo
done
