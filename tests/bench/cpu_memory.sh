#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/cpu_memory.sh [BUILD]: memory of training on the CPU, as Markdown tables: what
# --dry-run says against what the processes had in memory (VmHWM, by summary.json's
# resident_bytes), activations next to those that PyTorch keeps (where PYTHON has it), what
# train.recompute = block saves and costs, and the longest context of GPT-2 124M in 8 GiB
# (PyTorch's by a line through its peaks at 1,024 and 3,072 tokens). Two steps a run; bytes do not
# depend on the load of the machine, the times of the table before the last do.
#
# environment: PYTHON (python3), SHAPES (small ecg llama 124M-64 124M-256; "tiny" for a trial),
#   SECTIONS (plan torch recompute context), STACKS (those of the first table; "single" alone for less)
. "$(dirname "$0")/lib.sh"
build=${1:-build}
[ -x "$build/cadre" ] || fail "there is no program '$build/cadre'; name a built tree"
cadre=$(cd "$build" && pwd)/cadre
python=${PYTHON:-python3}
read -ra shapes <<<"${SHAPES:-small ecg llama 124M-64 124M-256}"
read -ra sections <<<"${SECTIONS:-plan torch recompute context}"
read -ra stacks <<<"${STACKS:-single ddp:2 zero:2/1 zero:2/2 zero:2/3 pipeline:2}"
begin() { # SHAPE
    take "$1"
    write_shape "$tmp/run.ini" train.steps=2 comm.ranks=processes
}

# measure [SECTION.KEY=VALUE]...: plan and summary of a run.
measure() {
    settings "$@"
    "$cadre" train "$tmp/run.ini" --dry-run "${sets[@]}" >"$tmp/plan"
    train "$tmp/run.ini" out "$@"
}

# The largest of an array of the summary, in MiB.
most() {
    awk -v key="\"$1\":" '
        $1 == key { inside = 1; next }
        inside && /\]/ { exit }
        inside && $1 + 0 > top { top = $1 + 0 }
        END { printf "%.3f", top / 1048576 }' "$tmp/out/summary.json"
}

# What the plan says that the process takes, in MiB.
planned() {
    awk '/^in memory: about/ { print $4 * ($5 == "GiB" ? 1024 : 1) }' "$tmp/plan"
}

row_of_plan() { # SHAPE DTYPE THREADS STACK
    local stack=${4%/*} set=()
    [[ $4 != */* ]] || set=("zero.stage=${4#*/}")
    [ "$stack" = single ] || set+=("train.micro_batch=$((micro / 2))")
    measure "train.precision=$2" "device.threads=$3" "strategy.stack=$stack" "${set[@]}"
    awk -v name="| $1 | $2 | $3 | $4" -v p="$(planned)" -v m="$(most resident_bytes)" \
        'BEGIN { printf "%s | %.1f | %.1f | %.3f |\n", name, p, m, p / m }'
}

against_the_plan() {
    local name dtype threads stack
    echo
    echo "Peak memory of the largest process, MiB:"
    echo
    echo "| shape | precision | threads | stack | --dry-run | measured | ratio |"
    echo "|---|---|---|---|---|---|---|"
    for name in "${shapes[@]}"; do
        begin "$name"
        for dtype in fp32 bf16; do
            for stack in "${stacks[@]}"; do
                for threads in 1 2; do
                    [ "$stack" = single ] || [ "$threads" = 1 ] || continue
                    row_of_plan "$name" $dtype $threads "$stack"
                done
            done
        done
    done
}

next_to_pytorch() {
    local name dtype how args line
    if ! "$python" -c 'import torch' 2>/dev/null; then
        echo
        echo "PyTorch: $python has none."
        return 0
    fi
    echo
    echo "Activations kept for the backward, KiB a token:"
    echo
    echo "| shape | precision | recompute | Cadre | PyTorch | ratio |"
    echo "|---|---|---|---|---|---|"
    for name in "${shapes[@]}"; do
        begin "$name"
        for dtype in fp32 bf16; do
            for how in none block; do
                args=(--arch "$arch" --layers "$layers" --channels "$channels"
                    --heads "$heads" --kv-heads "$kv" --hidden "$hidden" --vocab "$vocab"
                    --batch "$micro" --time "$time" --precision "$dtype")
                [ $how = none ] || args+=(--recompute)
                line=$("$python" "$here/activations_torch.py" "${args[@]}")
                "$cadre" train "$tmp/run.ini" --dry-run --set train.precision=$dtype \
                    --set train.recompute=$how >"$tmp/plan"
                awk -v name="| $name | $dtype | $how" -v n=$((micro * time)) \
                    -v theirs="$(sed 's/.*"bytes": \([0-9]*\).*/\1/' <<<"$line")" '
                    $1 == "activations" { ours = $3 * 1048576 }
                    END { printf "%s | %.1f | %.1f | %.2f |\n", name, ours / n / 1024,
                        theirs / n / 1024, ours / theirs }' "$tmp/plan"
            done
        done
    done
}

recompute() {
    local name dtype how at
    echo
    echo "train.recompute = block against none, 2 threads; a forward of all blocks more is a"
    echo "third more products:"
    echo
    echo "| shape | precision | less memory, planned MiB | measured MiB | time of a step |"
    echo "|---|---|---|---|---|"
    for name in "${shapes[@]}"; do
        begin "$name"
        for dtype in fp32 bf16; do
            at=()
            for how in none block; do
                measure train.precision=$dtype train.recompute=$how train.steps=6 \
                    device.threads=2 compare.warmup=2
                at+=("$(planned)" "$(most resident_bytes)"
                    "$(total out step_s_median)")
            done
            awk -v name="| $name | $dtype" -v a="${at[*]}" 'BEGIN {
                split(a, v, " ")
                printf "%s | %.1f | %.1f | x %.2f |\n", name, v[1] - v[4], v[2] - v[5],
                    v[6] / v[3]
            }'
        done
    done
}

# DTYPE HOW: tokens that fit, in steps of 256.
longest_context() {
    local low=1 high=1024 middle
    while [ $((high - low)) -gt 1 ]; do
        middle=$(((low + high) / 2))
        write_shape "$tmp/run.ini" "model.context=$((256 * middle))" train.precision="$1" \
            train.recompute="$2" model.head_rows=2048 train.global_batch=1 \
            train.micro_batch=1 device.threads=2
        "$cadre" train "$tmp/run.ini" --dry-run >"$tmp/plan" 2>/dev/null
        if awk -v m="$(planned)" 'BEGIN { exit !(m <= 8192) }'; then
            low=$middle
        else
            high=$middle
        fi
    done
    echo $((256 * low))
}

peak_of_pytorch() { # DTYPE TOKENS [OPTION]
    "$python" "$here/activations_torch.py" --layers "$layers" --channels "$channels" \
        --heads "$heads" --kv-heads "$kv" --hidden "$hidden" --vocab "$vocab" --batch 1 \
        --time "$2" --precision "$1" --step --threads 2 "${@:3}" | field peak_mib
}

contexts() {
    local dtype how option theirs
    take 124M-64
    write_tokens 600000 64
    echo
    echo "Longest context of GPT-2 124M, one sequence, in 8 GiB, tokens (model.head_rows = 2048):"
    echo
    echo "| precision | recompute | Cadre, --dry-run | PyTorch |"
    echo "|---|---|---|---|"
    for dtype in fp32 bf16; do
        for how in none block; do
            option=()
            [ $how = none ] || option=(--recompute)
            theirs=-
            if "$python" -c 'import torch' 2>/dev/null; then
                theirs=$(awk -v a="$(peak_of_pytorch $dtype 1024 "${option[@]}")" \
                    -v b="$(peak_of_pytorch $dtype 3072 "${option[@]}")" \
                    'BEGIN { printf "%.0f", 1024 + 2048 * (8192 - a) / (b - a) }')
            fi
            echo "| $dtype | $how | $(longest_context $dtype $how) | $theirs |"
        done
    done
}

# Tokens below every vocabulary: they may all be the same few, bytes do not depend on them.
write_tokens 200000 64
echo "## Memory on the CPU"
for section in "${sections[@]}"; do
    case $section in
    plan) against_the_plan ;;
    torch) next_to_pytorch ;;
    recompute) recompute ;;
    context) contexts ;;
    *) fail "no section '$section'; there are plan torch recompute context" ;;
    esac
done
