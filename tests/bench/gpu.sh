#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu.sh [SIZE]...: tokens a second and model FLOPs utilisation (MFU) of training
# steps on one GPU, each size beside PyTorch on the same card in the same run (where python3
# has it), and beside the card's own rates of a product and of a copy. Prints a table, a row
# as soon as it is known. Exit status 1 where a size of Cadre's failed, the others run on; or
# where no size came to an end in its time.
#   sizes: 124M 350M 774M 1.5B (GPT-2), llama-1B; "tiny" for a trial on any device
#   environment: CADRE (the program, "cadre"), BENCH_RATES ("bench_rates", built by
#   `make bench_rates`), DEVICE (cuda), PRECISION (bf16), STEPS (30), WARMUP (10: steps before,
#   not counted), PYTHON (python3), LIMIT (240: seconds of one program), BUDGET (0, no end:
#   seconds of the whole), RATES_N and RATES_MIB (8192 and 1024: what the rates are taken of)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cadre=${CADRE:-cadre} rates=${BENCH_RATES:-bench_rates} python=${PYTHON:-python3}
device=${DEVICE:-cuda} precision=${PRECISION:-bf16} steps=${STEPS:-30}
limit=${LIMIT:-240} budget=${BUDGET:-0} warmup=${WARMUP:-10} status=0 measured=no
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sizes=("$@")
# the most telling first: time may run out
[ ${#sizes[@]} -gt 0 ] || sizes=(124M 1.5B 350M 774M llama-1B)

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
for size in "${sizes[@]}"; do
    shape "$size" >/dev/null
done

# A number out of one line of JSON.
field() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p"; }

# Seconds that one program may take now; 0 where it is not worth a start.
allowed() {
    awk -v limit="$limit" -v budget="$budget" -v spent="$SECONDS" 'BEGIN {
        left = budget > 0 && budget - spent < limit ? budget - spent : limit
        print left < 2 ? 0 : left
    }'
}

write_ini() {
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
steps = 1000000
global_batch = $micro
micro_batch = $micro
precision = $precision
eval_batches = 1
[optim]
clip = 1
[device]
kind = $device
[checkpoint]
every = 0
EOT
}

# Half a million tokens out of those that every vocabulary here has.
write_tokens() {
    LC_ALL=C awk -v most="$((vocab < 32000 ? vocab : 32000))" 'BEGIN {
        x = 1
        for (i = 0; i < 500000; i++) {
            x = (x * 69069 + 12345) % 4294967296
            t = int(x / 65536) % most
            printf "%c%c", t % 256, int(t / 256)
        }
    }' >"$tmp/tokens.bin"
}

# In $ours: median tokens a second of Cadre after the warm-up, or why there is none. The run
# is killed when it has made its steps: what follows them, an evaluation and a checkpoint of
# up to 20 GB, is not measured here.
train() {
    local pid seconds done=0 end alive=yes
    read -r arch layers channels heads kv hidden vocab time micro <<<"$(shape "$1")"
    ours="no time" seconds=$(allowed)
    [ "$seconds" -gt 0 ] || return 0
    write_ini
    write_tokens
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
        head -n "$steps" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
}

# In $theirs: the same of PyTorch, or why there is none; $how says by which means.
torch() {
    local seconds ended=0
    read -r arch layers channels heads kv hidden vocab time micro <<<"$(shape "$1")"
    theirs="none" how='' seconds=$(allowed)
    [ "$have_torch" = yes ] || return 0
    theirs="no time"
    [ "$seconds" -gt 0 ] || return 0
    timeout --foreground --kill-after=2 "$seconds" "$python" "$here/gpt2_torch.py" \
        --arch "$arch" --layers "$layers" --channels "$channels" --heads "$heads" \
        --kv-heads "$kv" --hidden "$hidden" --vocab "$vocab" --batch "$micro" \
        --time "$time" --steps "$steps" --warmup "$warmup" --device "${device/auto/cuda}" \
        --precision "$precision" >"$tmp/torch" 2>"$tmp/log" || ended=$?
    if [ $ended -eq 0 ]; then
        theirs=$(field tokens_per_s <"$tmp/torch")
        how=$(sed -n 's/.*"how": *"\([^"]*\)".*/\1/p' "$tmp/torch")
    else
        [ $ended -eq 124 ] || [ $ended -eq 137 ] || theirs=failed
        echo "gpu.sh: $1: PyTorch, given $seconds s: $(tail -n 1 "$tmp/log")" >&2
    fi
}

flops() { # per token
    read -r arch layers channels heads kv hidden vocab time _ <<<"$(shape "$1")"
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

case $precision in fp32) dtype=f32 ;; fp64) dtype=f64 ;; fp16) dtype=f16 ;; *) dtype=bf16 ;; esac
n=${RATES_N:-8192} mib=${RATES_MIB:-1024}
[ "$device" != cpu ] || n=${RATES_N:-1024} mib=${RATES_MIB:-64}
rate=$("$rates" "$device" "$dtype" "$n" "$mib") || rate=
peak=$(field gemm_tflops <<<"$rate") copy=$(field copy_gbytes_s <<<"$rate")
have_torch=no
if [[ $precision =~ ^(bf16|fp32)$ ]] &&
    "$python" -c 'from importlib.metadata import version; version("torch")' 2>/dev/null; then
    have_torch=yes
fi
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
