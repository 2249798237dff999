#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/checksums.sh [BUILD]: what run.verify's checksums of messages cost, for
# docs/reliability.md. CPU time of a run of the ECG model's shape on two ranks (8 x 256 tokens
# each), with checksums that are never compared and without, in turns: the middle of the ratios
# of ROUNDS (11), with its 95 % interval by ranks.
. "$(dirname "$0")/lib.sh"
build=$(cd "${1:-build}" && pwd)
rounds=${ROUNDS:-11}
take ecg
write_letters train.steps=12 train.global_batch=16 train.micro_batch=8 checkpoint.every=0 \
    device.threads=1 "model.layers=$layers" "model.channels=$channels" "model.heads=$heads" \
    "model.context=$time"

# one NAME [--set KEY=VALUE]...: CPU seconds of a run, into NAME.cpu.
one() {
    local name=$1 user sys
    shift
    TIMEFORMAT='%U %S'
    rm -rf "$tmp/run"
    read -r user sys < <({ time "$build/cadre" train "$tmp/run.ini" --out "$tmp/run" "$@" \
        >/dev/null 2>"$tmp/log"; } 2>&1)
    [ -e "$tmp/run/summary.json" ] || fail "$(tail -n 2 "$tmp/log")"
    awk "BEGIN { print $user + $sys }" >>"$tmp/$name.cpu"
}
for stack in "ddp:2" "zero:2 --set zero.stage=3" "pipeline:2"; do
    rm -f "$tmp"/*.cpu
    # shellcheck disable=SC2206 # words
    sets=(--set strategy.stack=$stack)
    for ((i = 0; i < rounds; i++)); do
        one with "${sets[@]}" --set run.verify=1000000
        one without "${sets[@]}"
    done
    paste "$tmp/with.cpu" "$tmp/without.cpu" | awk '{ print $1 / $2 }' | sort -g |
        awk -v stack="${stack// --set/}" '
        { v[NR] = $1 }
        END {
            k = int((NR - 1.96 * sqrt(NR)) / 2)
            k = k < 0 ? 0 : k
            printf "%s: CPU time with checksums over without %.3f [%.3f, %.3f]\n", stack,
                v[int((NR + 1) / 2)], v[k + 1], v[NR - k]
        }'
done
