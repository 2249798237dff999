#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/mig.sh [REPEATS [STEPS]]: what a machine in two parts does against a whole one, as
# ratios of tokens per second to `exclusive`. Needs a built tree (CADRE_BUILD, or build/) and
# the ECG records (CADRE_MITDB). Runs conf/compare-mig.ini with its runs interleaved, REPEATS (3)
# times STEPS (40) steps, and prints the median, the lowest and the highest ratio to the
# exclusive run of the same round, since what else the machine does changes from round to round.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cadre=${CADRE_BUILD:-$here/../../build}/cadre
conf=$here/../../conf/compare-mig.ini
repeats=${1:-3}
steps=${2:-40}
runs=(exclusive sliced instances average)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$cadre" compare "$conf" --out "$tmp/mig" --set "compare.repeats=$repeats" \
    --set "train.steps=$steps" --set compare.perturb=no --set "data.cache=$tmp/cache" \
    --set checkpoint.every=0 >"$tmp/table" 2>"$tmp/log" || {
    cat "$tmp/log"
    exit 1
}

# rate RUN ROUND: tokens per second of all its trainings together.
rate() {
    local folder=$tmp/mig/runs/$1
    [ "$2" -eq 1 ] || folder=$folder:$2
    sed -nE 's/^  "tokens_per_s": *([0-9.e+]+).*/\1/p' "$folder/summary.json"
}

echo "| run | tokens/s, median of $repeats | against exclusive | lowest | highest |"
echo "|---|---|---|---|---|"
for run in "${runs[@]}"; do
    for ((round = 1; round <= repeats; round++)); do
        echo "$(rate "$run" "$round") $(rate exclusive "$round")"
    done | awk -v run="$run" '
        function median(v, n,    i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
            return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        }
        { a[NR] = $1; r[NR] = $1 / $2 }
        END { m = median(r, NR)
              printf "| %s | %.0f | %.2f | %.2f | %.2f |\n", run, median(a, NR), m, r[1], r[NR] }'
done
echo
sed -nE 's/^(average .*(exact|within|differs)).*/verdict: \1/p' "$tmp/table" |
    sed -E 's/ +/ /g; s/(average) .* (exact|within|differs)/\1 is \2/'
