#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/mig.sh [REPEATS [STEPS]]: what a machine in two parts does against a whole one, as
# ratios of tokens per second to `exclusive`. Needs a built tree (CADRE_BUILD, or build/) and
# the ECG records (CADRE_MITDB). Trains the runs of conf/compare-mig.ini in turn, REPEATS (3)
# times STEPS (40) steps, and prints the median, the lowest and the highest ratio to the
# exclusive run of the same round, since what else the machine does changes from round to round.
# Where it does much else, runs that are pinned lose most, as they cannot go to a core that is
# free; tokens per second of processor time, start and data included, hardly change with that.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
repeats=${1:-3}
steps=${2:-40}
runs=(exclusive sliced instances average)

measure() { # RUN ROUND; processor seconds go to RUN-ROUND.cpu
    local TIMEFORMAT='%U %S'
    { time measure_untimed "$@"; } 2>"$tmp/$1-$2.cpu"
}

measure_untimed() {
    "$cadre" train "$top/conf/compare-mig.ini" --run "$1" --out "$tmp/$1-$2" \
        --set "train.steps=$steps" --set "data.cache=$tmp/cache" --set checkpoint.every=0 \
        >/dev/null 2>"$tmp/log" || fail "$(cat "$tmp/log")"
}

cpu_rate() { # RUN ROUND
    awk -v tokens="$(total "$1-$2" tokens)" 'NF == 2 { print tokens / ($1 + $2) }' \
        "$tmp/$1-$2.cpu"
}

measure exclusive 0 # fills the cache of data
for ((round = 1; round <= repeats; round++)); do
    for run in "${runs[@]}"; do
        measure "$run" "$round"
    done
done
echo "| run | tokens/s, median of $repeats | against exclusive | lowest | highest |" \
    "by processor time |"
echo "|---|---|---|---|---|---|"
for run in "${runs[@]}"; do
    for ((round = 1; round <= repeats; round++)); do
        echo "$(total "$run-$round" tokens_per_s) $(total "exclusive-$round" tokens_per_s)" \
            "$(cpu_rate "$run" "$round") $(cpu_rate exclusive "$round")"
    done | awk -v run="$run" '
        function median(v, n,    i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && v[j] < v[j - 1]; j--) {
                    t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
                }
            return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        }
        { rate[NR] = $1; ratio[NR] = $1 / $2; cpu[NR] = $3 / $4 }
        END {
            m = median(ratio, NR)
            printf "| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", run, median(rate, NR), m,
                ratio[1], ratio[NR], median(cpu, NR)
        }'
done
