#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu.sh [SIZE]...: tokens a second and model FLOPs utilisation (MFU) of training
# steps on one GPU, each size next to PyTorch on the same card in the same run (where python3
# has it), and next to the card's own rates of a product and of a copy. Prints a table, a row
# as soon as it is known. Exit status 1 where a size of Cadre's failed, the others run on; or
# where no size came to an end in its time.
#   --compile as the first argument: only fills PyTorch's cache of compiled programs, so that
#   the measurement takes less time
#   sizes: 124M 350M 774M 1.5B (GPT-2), llama-1B; "tiny" for a trial on any device
#   environment: CADRE (the program, "cadre"), BENCH_RATES ("bench_rates", built by
#   `make bench_rates`), DEVICE (cuda), PRECISION (bf16), STEPS (30), WARMUP (10: steps before,
#   not counted), PYTHON (python3), PYTORCH (yes), LIMIT (240: seconds of one program),
#   BUDGET (0, no end: seconds of the whole), RATES_N and RATES_MIB (8192 and 1024: what the rates are taken of)
. "$(dirname "$0")/lib.sh"
cadre=${CADRE:-cadre} rates=${BENCH_RATES:-bench_rates} python=${PYTHON:-python3}
device=${DEVICE:-cuda} precision=${PRECISION:-bf16} steps=${STEPS:-30}
limit=${LIMIT:-240} budget=${BUDGET:-0} warmup=${WARMUP:-10} status=0 measured=no
warm=no
if [ "${1:-}" = --compile ]; then
    warm=yes
    shift
fi
sizes=("$@")
# the most informative first: time may run out
[ ${#sizes[@]} -gt 0 ] || sizes=(124M 1.5B 350M 774M llama-1B)

for size in "${sizes[@]}"; do
    shape "$size" >/dev/null || {
        echo "gpu.sh: no size '$size'; there are 124M 350M 774M 1.5B llama-1B tiny" >&2
        exit 2
    }
done

# Seconds that one program may take now; 0 where it is not worth a start.
allowed() {
    awk -v limit="$limit" -v budget="$budget" -v spent="$SECONDS" 'BEGIN {
        left = budget > 0 && budget - spent < limit ? budget - spent : limit
        print left < 2 ? 0 : left
    }'
}

# In $ours: median tokens a second of Cadre after the warm-up, or why there is none. The run
# is killed when it has made its steps: what follows them, an evaluation and a checkpoint of
# up to 20 GB, is not measured here.
train() {
    local pid seconds done=0 end alive=yes
    take "$1"
    ours="no time" seconds=$(allowed)
    [ "$seconds" -gt 0 ] || return 0
    write_shape "$tmp/run.ini" "train.precision=$precision" optim.clip=1 "device.kind=$device"
    # of those that every vocabulary here has
    write_tokens 500000 $((vocab < 32000 ? vocab : 32000))
    rm -rf "$tmp/run"
    end=$((SECONDS + seconds))
    "$cadre" train "$tmp/run.ini" --out "$tmp/run" >"$tmp/log" 2>&1 &
    pid=$!
    while [ "$SECONDS" -lt "$end" ] && [ "$done" -lt $((warmup + steps)) ] &&
        [ $alive = yes ]; do
        sleep 0.1
        kill -0 "$pid" 2>/dev/null || alive=no
        if [ -e "$tmp/run/metrics.jsonl" ]; then
            done=$(wc -l <"$tmp/run/metrics.jsonl")
        fi
    done
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    if [ $alive = no ] || [ "$done" -lt $((warmup + 2)) ]; then
        echo "gpu.sh: $1: $done steps in $((seconds - end + SECONDS)) of $seconds s:" \
            "$(tail -n 1 "$tmp/log")" >&2
        if [ $alive = no ]; then
            ours=failed status=1
        fi
        return 0
    fi
    measured=yes
    ours=$(field tokens_per_s <"$tmp/run/metrics.jsonl" | tail -n +$((warmup + 1)) |
        head -n "$steps" | median)
}

# Blocks that are compiled one by one are compiled once, however many there are.
compile() {
    local deep=$layers how=model
    if [ "$layers" -gt 12 ]; then
        deep=2 how=blocks
    fi
    pytorch --layers "$deep" --compile $how --steps 1 --warmup 1 >/dev/null
}

# In $theirs: the same of PyTorch, or why there is none; $how says by which means.
torch() {
    local seconds ended=0
    take "$1"
    theirs="none" how='' seconds=$(allowed)
    [ "$have_torch" = yes ] || return 0
    theirs="no time"
    [ "$seconds" -gt 0 ] || return 0
    export -f pytorch
    export python here arch channels heads kv hidden vocab micro time device precision
    timeout --foreground --kill-after=2 "$seconds" bash -c 'pytorch "$@"' pytorch \
        --layers "$layers" --steps "$steps" --warmup "$warmup" >"$tmp/torch" 2>"$tmp/log" ||
        ended=$?
    if [ $ended -eq 0 ]; then
        theirs=$(field tokens_per_s <"$tmp/torch")
        how=$(text how "$tmp/torch")
    else
        [ $ended -eq 124 ] || [ $ended -eq 137 ] || theirs=failed
        echo "gpu.sh: $1: PyTorch, given $seconds s: $(tail -n 1 "$tmp/log")" >&2
    fi
}

flops() { # per token
    take "$1"
    awk -v a="$arch" -v L="$layers" -v C="$channels" -v H="$heads" -v G="$kv" -v F="$hidden" \
        -v V="$vocab" -v T="$time" 'BEGIN {
            mlp = (a == "gpt2" ? 2 : 3) * C * F
            printf "%.6g\n", 6 * (L * (2 * C * C + 2 * C * C * G / H + mlp) + C * V) + 6 * L * C * T
        }'
}

# The data sheet's dense 16-bit TFLOP/s of cards that results are published for, else 0.
sheet() {
    case $precision,$1 in
    fp32,* | fp64,*) echo 0 ;;
    *H100*PCIe* | *H100*NVL*) echo 0 ;;
    *H100* | *H200*) echo 989 ;;
    *A100*) echo 312 ;;
    *) echo 0 ;;
    esac
}

have_torch=no
if [ "${PYTORCH:-yes}" = yes ] && [[ $precision =~ ^(bf16|fp32)$ ]] &&
    "$python" -c 'from importlib.metadata import version; version("torch")' 2>/dev/null; then
    have_torch=yes
fi
if [ $warm = yes ]; then
    [ $have_torch = yes ] || fail "there is no PyTorch in $python"
    pids=()
    for size in "${sizes[@]}"; do
        take "$size"
        compile &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=1
    done
    exit $status
fi

case $precision in fp32) dtype=f32 ;; fp64) dtype=f64 ;; fp16) dtype=f16 ;; *) dtype=bf16 ;; esac
n=${RATES_N:-8192} mib=${RATES_MIB:-1024}
[ "$device" != cpu ] || n=${RATES_N:-1024} mib=${RATES_MIB:-64}
rate=$("$rates" "$device" "$dtype" "$n" "$mib") || rate=
peak=$(field gemm_tflops <<<"$rate") copy=$(field copy_gbytes_s <<<"$rate")
name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
listed=$(sheet "$name")

echo "device $device${name:+ ($name)}, $precision; product of ${n}^3: ${peak:-not known} TFLOP/s," \
    "copy, read and written: ${copy:-not known} GB/s."
echo
echo "MFU = tokens/s * F / P. F per token, forward and backward: 6 * (weights in products) +"
echo "6 * layers * channels * T for causal attention; P: the product's rate measured above, or"
echo "the data sheet's. Tokens/s: median of $steps steps after $warmup."
echo
echo "| model | B x T | GFLOP a token | tokens/s | MFU | MFU of the data sheet's" \
    "$([ "$listed" = 0 ] && echo rate || echo "$listed TFLOP/s") | PyTorch tokens/s | by | against PyTorch |"
echo "|---|---|---|---|---|---|---|---|---|"
for size in "${sizes[@]}"; do
    train "$size"
    torch "$size"
    awk -v s="$size" -v b="$micro x $time" -v o="$ours" -v t="$theirs" -v f="$(flops "$size")" \
        -v p="${peak:-0}" -v l="$listed" -v how="${how:--}" '
        function known(x) { return x ~ /^[0-9]/ }
        function mfu(peak) { return !known(o) || peak == 0 ? "-" : sprintf("%.1f %%", \
            100 * o * f / (peak * 1e12)) }
        function whole(x) { return known(x) ? sprintf("%d", x) : x }
        BEGIN {
            by = known(o) && known(t) ? sprintf("%.2f", o / t) : "-"
            printf "| %s | %s | %.4g | %s | %s | %s | %s | %s | %s |\n", s, b, f / 1e9, \
                whole(o), mfu(p), mfu(l), whole(t), how, by
        }'
done
if [ $measured = no ] || [ -z "$peak" ]; then
    status=1
fi
exit $status
