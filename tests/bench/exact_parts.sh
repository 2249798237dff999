#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/exact_parts.sh [BUILD]: the price of run.exact_parts, for docs/precision.md: CPU time of
# steps of `single` with 2, 4 and 8 parts over that with run.exact alone, at several widths. Runs of
# STEPS steps (30) less runs of one, in turns, ROUNDS of them (7); the middle of the ratios of a round
# with its 95 % interval by ranks. CHANNELS (64 128 256), PRECISIONS (fp32). CPU time moves less with
# the machine's load than time does. `tools/update-docs exact_parts` puts it in.
. "$(dirname "$0")/lib.sh"
cadre=$(cd "${1:-build}" && pwd)/cadre
rounds=${ROUNDS:-7}
steps=${STEPS:-30}

# middle: of numbers, with the ranks (n -+ 1.96 sqrt n) / 2, as a price.
middle() {
    sort -g | awk '
        { v[NR] = 100 * ($1 - 1) }
        END {
            k = int((NR - 1.96 * sqrt(NR)) / 2)
            k = k < 0 ? 0 : k
            printf "%.1f %% (%.1f to %.1f)", v[int((NR + 1) / 2)], v[k + 1], v[NR - k]
        }'
}

# spent PARTS STEPS: CPU seconds of a run.
spent() {
    local user sys
    TIMEFORMAT='%U %S'
    read -r user sys < <({ time train "$tmp/run.ini" run "run.exact_parts=$1" \
        "train.steps=$2"; } 2>&1)
    awk "BEGIN { print $user + $sys }"
}

# seconds PARTS: of all steps but the first.
seconds() { awk "BEGIN { print $(spent "$1" "$steps") - $(spent "$1" 1) }"; }

write_tokens 200000 1024
echo "| channels | format | 2 parts | 4 parts | 8 parts |"
echo "|---|---|---|---|---|"
for channels in ${CHANNELS:-64 128 256}; do
    for precision in ${PRECISIONS:-fp32}; do
        write_ini "$tmp/run.ini" model.layers=2 "model.channels=$channels" model.heads=8 \
            model.context=128 model.vocab=1024 data.format=tokens "data.path=$tmp/tokens" \
            train.global_batch=8 train.micro_batch=8 train.eval_batches=1 \
            "train.precision=$precision" device.kind=cpu checkpoint.every=0 run.exact=yes \
            device.threads=1 log.page=no
        rm -f "$tmp"/ratio.*
        for ((i = 0; i < rounds; i++)); do
            one=$(seconds 1)
            for parts in 2 4 8; do
                awk -v a="$(seconds $parts)" -v b="$one" 'BEGIN { print a / b }' \
                    >>"$tmp/ratio.$parts"
            done
        done
        echo "| $channels | $precision | $(middle <"$tmp/ratio.2") | $(middle <"$tmp/ratio.4") |" \
            "$(middle <"$tmp/ratio.8") |"
    done
done
