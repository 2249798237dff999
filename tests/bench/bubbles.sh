#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/bubbles.sh: bubble fractions and peak activations of the pipeline's schedules,
# promised and measured, as markdown tables. Needs a built tree (CADRE_BUILD, or build/) and
# two cores. The fastest step beside a replay of its own passes shows what transfers and delays
# cost on any machine; the other two figures agree where nobody else uses the cores.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre

schedules="gpipe 1f1b interleaved zb-h1 breadth-first zb-v dualpipev"

write_ini "$tmp/c.ini" model.arch=gpt2 model.layers=8 model.channels=128 model.heads=4 \
    model.context=128 "data.path=$top/COPYING" "data.cache=$tmp/cache" train.steps=40 \
    train.micro_batch=4 train.eval_every=0 checkpoint.every=0 device.threads=1 \
    compare.baseline=single compare.perturb=no compare.time=no
printf '[run:single]\nstrategy.stack = single\n' >>"$tmp/c.ini"
for schedule in $schedules; do
    printf '[run:%s]\nstrategy.stack = pipeline:2\npipeline.schedule = %s\n' \
        $schedule $schedule
done >>"$tmp/c.ini"

compare() { # FOLDER M
    local runs=$schedules
    [ "$2" -ge 4 ] || runs=${runs/ dualpipev/}
    "$cadre" compare "$tmp/c.ini" --out "$tmp/$1" --set train.global_batch=$((4 * $2)) \
        --set "compare.runs=single, ${runs// /, }" \
        >/dev/null 2>"$tmp/log" || fail "$(cat "$tmp/log")"
}

# column FOLDER RUN NAME: a field of report.csv.
column() {
    awk -F, -v run="$2" -v name="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        $1 == run { print $at[name] }' "$tmp/$1/report.csv"
}

# slots FOLDER RUN: bytes of activations, rank 0's then rank 1's.
slots() {
    tr -d ' \n' <"$tmp/$1/runs/$2/summary.json" |
        sed -E 's/.*"activations":\[([0-9]+),([0-9]+)\].*/\1 \2/'
}

compare m1 1 # dualpipev takes 4 or more: its chunks are those of zb-v
compare m4 4
compare m8 8

echo "p = 2 stages, 8 layers of 128 channels, micro-batches of 4 x 128 tokens."
echo
echo "| schedule | m | formula | its value | replayed | measured | fastest step, replayed | measured |"
echo "|---|---|---|---|---|---|---|---|"
for m in 4 8; do
    for schedule in $schedules; do
        case $schedule in
        interleaved | breadth-first) formula="(p-1)/(2m+p-1)" parts=2 ;;
        zb-h1) formula="(p-1)/(3m+p-1)" parts=3 ;;
        zb-v | dualpipev) formula="(p-1)/(6m+p-1)" parts=6 ;;
        *) formula="(p-1)/(m+p-1)" parts=1 ;;
        esac
        awk -v s=$schedule -v m=$m -v k=$parts -v f="$formula" \
            -v replayed="$(column m$m $schedule bubble_replayed)" \
            -v measured="$(column m$m $schedule bubble_fraction)" \
            -v step_replayed="$(column m$m $schedule step_replayed)" \
            -v step="$(column m$m $schedule step_bubble)" 'BEGIN {
            printf "| %s | %d | %s | %.3f | %.3f | %.3f | %.3f | %.3f |\n", s, m, f,
                1 / (k * m + 1), replayed, measured, step_replayed, step }'
    done
done | tee "$tmp/table"
echo
awk -F '|' '
    { gap = $9 - $8; if (gap > most) { most = gap; of = $2 "with m =" $3 } }
    END {
        gsub(/^ | $/, "", of)
        printf "Transfers and delays added at most %.3f to a fastest step (%s).\n", most, of
    }' "$tmp/table"
echo
echo "Peak activations on each rank, in slots: what one micro-batch alone keeps there (with two"
echo "chunks a rank: in one of them)."
echo
echo "| schedule | m | promised | measured |"
echo "|---|---|---|---|"
for schedule in $schedules; do
    chunks=1 like=$schedule
    case $schedule in
    gpipe) promised="8, 8" ;;
    1f1b) promised="2, 1" ;;
    interleaved) promised="5, 3" chunks=2 ;;
    zb-h1) promised="2, 2" ;;
    breadth-first) promised="16, 16" chunks=2 ;;
    zb-v) promised="4, 4" chunks=2 ;;
    dualpipev) promised="5, 5" chunks=2 like=zb-v ;;
    esac
    read -r one0 one1 <<<"$(slots m1 $like)"
    read -r all0 all1 <<<"$(slots m8 $schedule)"
    awk -v s=$schedule -v p="$promised" -v a=$all0 -v b=$all1 -v x=$one0 -v y=$one1 \
        -v k=$chunks 'BEGIN {
        printf "| %s | 8 | %s | %.2f, %.2f |\n", s, p, k * a / x, k * b / y }'
done
