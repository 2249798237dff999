#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/cpu_attention.sh [BUILD]: causal attention alone, next to PyTorch's fused kernel
# (where PYTHON has it), in turns within a round, as a Markdown table. Rates count the products
# of the lower triangle alone; a ratio is the median (lowest to highest) over the rounds. Nothing
# else should run on the machine.
#
# environment: PYTHON (python3), THREADS (1), DTYPES (fp32 bf16), ROUNDS (5), SECONDS (2: of each
#   part), SHAPES (batch,time,heads,kv_heads,head_size ...), PRELOAD (what PyTorch runs with)
part=$SECONDS # bash begins to count at what the environment has
[ "$part" -gt 0 ] || part=2
. "$(dirname "$0")/lib.sh"
build=${1:-build}
bench=$build/bench_attention
command -v "$bench" >/dev/null || fail "there is no $bench: build it (make bench_attention)"
python=${PYTHON:-python3} rounds=${ROUNDS:-5} threads=${THREADS:-1}
read -ra dtypes <<<"${DTYPES:-fp32 bf16}"
read -ra shapes <<<"${SHAPES:-16,256,4,4,32 4,256,12,12,64 1,1024,12,12,64 1,1024,16,4,128 \
1,4096,4,4,64 1,4096,4,4,128}"
have_torch=no
if "$python" -c 'import torch' 2>/dev/null; then
    have_torch=yes
fi

measure() { # PROGRAM...
    local sizes
    IFS=, read -ra sizes <<<"$shape"
    OMP_NUM_THREADS=$threads "$@" "$threads" "$part" "$dtype" "${sizes[@]}" 2>"$tmp/log" ||
        fail "$1 at $shape: $(tail -n 1 "$tmp/log")"
}

keep() { # WHO LINE
    echo "$1 $(field forward_s <<<"$2") $(field backward_s <<<"$2") $(field more_mib <<<"$2")" \
        >>"$tmp/times"
}

print_row() {
    awk -v shape="$shape" -v dtype="$dtype" '
        function median(v, n, i, j, x) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && v[j - 1] > v[j]; j--) {
                    x = v[j]; v[j] = v[j - 1]; v[j - 1] = x
                }
            return v[int((n + 1) / 2)]
        }
        function ratio(v, n) {
            if (n == 0) return "-"
            return sprintf("%.2f (%.2f to %.2f)", median(v, n), v[1], v[n])
        }
        $1 == "cadre" { f[++n] = $2; b[n] = $3; more = $4 }
        $1 == "torch" { rf[++k] = $2 / f[n]; rb[k] = $3 / b[n]; theirs = sprintf("%.0f", $4) }
        END {
            split(shape, s, ",")
            flops = 2 * s[1] * s[2] * s[3] * s[5] * (s[2] + 1)
            printf "| %d x %d | %d, %d | %d | %s | %.0f and %.0f | %s | %s | %.0f | %s |\n", \
                s[1], s[2], s[3], s[4], s[5], dtype, flops / median(f, n) / 1e9, \
                2.5 * flops / median(b, n) / 1e9, ratio(rf, k), ratio(rb, k), more, \
                k ? theirs : "-"
        }' "$tmp/times"
}

echo "Causal attention, $threads thread(s)$([ $have_torch = no ] ||
    echo ", PyTorch $("$python" -c 'import torch; print(torch.__version__)')"):"
echo
echo "| batch x tokens | heads, of keys | size | format | Cadre forward and backward, GFLOP/s | forward against PyTorch | backward | Cadre's memory, MiB | PyTorch's |"
echo "|---|---|---|---|---|---|---|---|---|"
for dtype in "${dtypes[@]}"; do
    for shape in "${shapes[@]}"; do
        : >"$tmp/times"
        for ((r = 0; r < rounds; r++)); do
            keep cadre "$(measure "$bench")"
            [ $have_torch = no ] ||
                keep torch "$(LD_PRELOAD=${PRELOAD:-} measure "$python" \
                    "$here/attention_torch.py")"
        done
        print_row
    done
done
