#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/profile.sh [SIZE]...: where a training step's time goes on a GPU, kernel by
# kernel: of Cadre and, where python3 has PyTorch, of gpt2_torch.py at the same shape. Two
# tables a size: milliseconds a step by kind of kernel, and by kernel with its launches a step;
# idle is time without a kernel. With the card's rates each kind has its floor beside it.
#   sizes: those of gpu.sh (124M)
#   --build FILE: only builds the collector, for a machine without a compiler, where it
#   lies beside this script
#   environment: CADRE ("cadre"), BENCH_RATES ("bench_rates": without it there are no floors),
#   PYTHON ("python3"), DEVICE (cuda), PRECISION (bf16), STEPS (20: the last half is counted),
#   PYTORCH (yes), KEEP (a folder for the lines), KERNELS (40 of them are printed)
. "$(dirname "$0")/lib.sh"
cadre=${CADRE:-cadre} python=${PYTHON:-python3} steps=${STEPS:-20} device=${DEVICE:-cuda}
precision=${PRECISION:-bf16} keep=${KEEP:-$tmp} rates=${BENCH_RATES:-bench_rates}
export KERNELS=${KERNELS:-40}

build() { # FILE
    local home=${CUDA_HOME:-/usr/local/cuda}
    cc -O2 -shared -fPIC -I"$home/include" -I"$home/extras/CUPTI/include" \
        "$here/cuda_kernels.c" -o "$1" \
        -L"$home/lib" -L"$home/lib64" -L"$home/extras/CUPTI/lib64" -lcupti ||
        fail "cuda_kernels.c does not build: CUPTI of the CUDA toolkit is needed"
}

if [ "${1:-}" = --build ]; then
    build "${2:?a file}"
    exit
fi
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(124M)
collector=$here/cuda_kernels.so
if [ ! -e "$collector" ]; then
    collector=$tmp/cuda_kernels.so
    build "$collector"
fi

# collect NAME PROGRAM...: its kernels in $keep/NAME, its words in $tmp/log.
collect() {
    local name=$1
    shift
    (
        export CUDA_INJECTION64_PATH=$collector CADRE_KERNELS=$keep/$name
        "$@"
    ) >"$tmp/said" 2>"$tmp/log" || fail "$name: $(tail -n 1 "$tmp/log")"
    [ -s "$keep/$name" ] || fail "$name: no kernel was seen: $(tail -n 1 "$tmp/log")"
}

floors=()
if rate=$("$rates" "$device" "${precision/fp/f}" 8192 1024 2>/dev/null); then
    floors=("$(field gemm_tflops <<<"$rate")" "$(field copy_gbytes_s <<<"$rate")")
    echo "product of 8192^3: ${floors[0]} TFLOP/s, copy, read and written: ${floors[1]} GB/s"
fi

# table NAME: what was collected there of $size.
table() {
    local with=()
    [ ${#floors[@]} -eq 0 ] || with=("$(shape "$size")" "${floors[@]}")
    "$python" "$here/cuda_kernels.py" "$keep/$1" "$steps" "${with[@]}"
}

for size in "${sizes[@]}"; do
    take "$size"
    # timed as a piece of a comparison is, which leaves no checkpoint of up to 20 GB
    write_shape "$tmp/run.ini" "train.precision=$precision" optim.clip=1 \
        "device.kind=$device" "bench.steps=$((steps - steps / 2))" "bench.warmup=$((steps / 2))"
    write_tokens 500000 $((vocab < 32000 ? vocab : 32000))
    # twice: the second run finds its algorithms chosen
    for _ in first second; do
        rm -rf "$tmp/run"
        collect "$size.cadre" "$cadre" train "$tmp/run.ini" --out "$tmp/run"
    done
    echo "## $size, Cadre"
    table "$size.cadre"
    if [ "$device" = cuda ] && [ "${PYTORCH:-yes}" = yes ] &&
        "$python" -c 'import torch' 2>/dev/null; then
        collect "$size.torch" pytorch --layers "$layers" \
            --steps $((steps - steps / 2)) --warmup $((steps / 2))
        echo "## $size, PyTorch: $(text how "$tmp/said")"
        table "$size.torch"
    fi
done
