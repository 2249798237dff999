#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu.sh [SIZE]...: tokens a second and model FLOPs utilisation (MFU) of training
# steps on one GPU, each size beside PyTorch on the same card in the same run (where python3
# has it), and beside the card's own rates of a product and of a copy.
#   sizes: 124M 350M 774M 1.5B (GPT-2), llama-1B; "tiny" for a trial on any device
#   environment: CADRE (the program, "cadre"), BENCH_RATES ("bench_rates", built by
#   `make bench_rates`), DEVICE (cuda), PRECISION (bf16), STEPS (12), PYTHON (python3)
# MFU = tokens/s * F / P. F, per token, forward and backward: 6 * (weights in products)
# + 6 * layers * channels * T for causal attention; P: the rate of an 8192^3 product
# measured here. Prints a table for tests/bench/results/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cadre=${CADRE:-cadre} rates=${BENCH_RATES:-bench_rates} python=${PYTHON:-python3}
device=${DEVICE:-cuda} precision=${PRECISION:-bf16} steps=${STEPS:-12}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(124M 350M 774M 1.5B llama-1B)

# arch layers channels heads kv_heads hidden vocab T micro_batch
shape() {
    case $1 in
    124M) echo gpt2 12 768 12 12 3072 50304 1024 16 ;;
    350M) echo gpt2 24 1024 16 16 4096 50304 1024 16 ;;
    774M) echo gpt2 36 1280 20 20 5120 50304 1024 8 ;;
    1.5B) echo gpt2 48 1600 25 25 6400 50304 1024 8 ;;
    llama-1B) echo llama 16 2048 32 8 8192 32000 1024 8 ;;
    tiny) echo gpt2 2 64 2 2 256 512 64 2 ;;
    *)
        echo "gpu.sh: no size '$1'; there are 124M 350M 774M 1.5B llama-1B tiny" >&2
        exit 2
        ;;
    esac
}

# A number out of one line of JSON.
field() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p"; }

# Median tokens a second after the warm-up, of Cadre.
train() {
    read -r arch layers channels heads kv hidden vocab time micro <<<"$(shape "$1")"
    cat >"$tmp/run.ini" <<EOT
[model]
arch = $arch
layers = $layers
channels = $channels
heads = $heads
kv_heads = $kv
hidden = $hidden
context = $time
vocab = $vocab
[data]
format = tokens
path = $tmp/tokens.bin
[train]
steps = $steps
global_batch = $micro
micro_batch = $micro
precision = $precision
eval_batches = 1
eval_every = 0
[optim]
clip = 1
[device]
kind = $device
[checkpoint]
every = 0
EOT
    rm -rf "$tmp/run"
    if ! "$cadre" train "$tmp/run.ini" --out "$tmp/run" >"$tmp/log" 2>&1; then
        tail -n 3 "$tmp/log" >&2
        echo "-"
        return
    fi
    sed -n 's/.*"tokens_per_s": *\([0-9.e+]*\).*/\1/p' "$tmp/run/metrics.jsonl" | tail -n +5 |
        sort -g | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'
}

torch() {
    read -r arch layers channels heads _ _ vocab time micro <<<"$(shape "$1")"
    if [ "$arch" != gpt2 ] || ! "$python" -c 'import torch' 2>/dev/null; then
        echo "-"
        return
    fi
    "$python" "$here/gpt2_torch.py" --layers "$layers" --channels "$channels" \
        --heads "$heads" --vocab "$vocab" --batch "$micro" --time "$time" --steps "$steps" \
        --device "${device/auto/cuda}" --precision "$precision" 2>"$tmp/log" |
        field tokens_per_s || { tail -n 1 "$tmp/log" >&2 && echo "-"; }
}

flops() { # per token
    read -r arch layers channels heads kv hidden vocab time _ <<<"$(shape "$1")"
    awk -v a="$arch" -v L="$layers" -v C="$channels" -v H="$heads" -v G="$kv" -v F="$hidden" \
        -v V="$vocab" -v T="$time" 'BEGIN {
            mlp = (a == "gpt2" ? 2 : 3) * C * F
            printf "%.6g\n", 6 * (L * (2 * C * C + 2 * C * C * G / H + mlp) + C * V) + 6 * L * C * T
        }'
}

# Two million tokens that every vocabulary here has: 0 to 511, from a counter's digits.
LC_ALL=C awk 'BEGIN {
    x = 1
    for (i = 0; i < 2000000; i++) {
        x = (x * 69069 + 12345) % 4294967296
        t = int(x / 65536) % 512
        printf "%c%c", t % 256, int(t / 256)
    }
}' >"$tmp/tokens.bin"

n=8192 mib=1024
[ "$device" != cpu ] || n=1024 mib=64
case $precision in fp32) dtype=f32 ;; fp64) dtype=f64 ;; fp16) dtype=f16 ;; *) dtype=bf16 ;; esac
rate=$("$rates" "$device" "$dtype" "$n" "$mib")
peak=$(field gemm_tflops <<<"$rate")
echo "device $device, $precision; product of ${n}^3: $peak TFLOP/s, copy: $(field copy_gbytes_s <<<"$rate") GB/s"
echo
echo "| model | tokens/s | MFU | PyTorch tokens/s | against PyTorch |"
echo "|---|---|---|---|---|"
for size in "${sizes[@]}"; do
    shape "$size" >/dev/null
    ours=$(train "$size") theirs=$(torch "$size")
    awk -v s="$size" -v o="$ours" -v t="$theirs" -v f="$(flops "$size")" -v p="$peak" 'BEGIN {
        mfu = o == "-" ? "-" : sprintf("%.1f %%", 100 * o * f / (p * 1e12))
        by = o == "-" || t == "-" ? "-" : sprintf("%.2f", o / t)
        printf "| %s | %s | %s | %s | %s |\n", s, o == "-" ? o : sprintf("%d", o), mfu,
            t == "-" ? t : sprintf("%d", t), by
    }'
done
