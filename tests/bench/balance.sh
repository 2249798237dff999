#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/balance.sh: one data rank of 2 and of 4 at half the speed of the others
# (device.pace, simulated), with as many micro-batches on each rank and with those that
# balance.micro_batches = measured came to, beside the arithmetic optimum, as a markdown table.
# Needs a built tree (CADRE_BUILD, or build/). ROUNDS (12): blocks of steps of both, in turns,
# in one run.
#
# Rank 0 is the slow one, whose times the run tells. With as many micro-batches on each it waits
# for nobody, so that its passes and the rest of the step are known; the optimum is the best deal
# of whole micro-batches by the paces, plus that rest.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
rounds=${ROUNDS:-12}
block=8 # steps of a block, of which the first two are not timed

write_ini "$tmp/c.ini" model.arch=gpt2 model.layers=4 model.channels=64 model.heads=4 \
    model.context=64 "data.path=$top/COPYING" "data.cache=$tmp/cache" train.steps=24 \
    train.micro_batch=2 train.eval_batches=1 train.eval_every=0 checkpoint.every=0 \
    device.threads=1 log.page=no

# run NAME RANKS PACES MICRO_BATCHES BALANCE STEPS
run() {
    "$cadre" train "$tmp/c.ini" --out "$tmp/$1" --set "strategy.stack=ddp:$2" \
        --set "device.pace=$3" --set train.global_batch=$((2 * $4)) \
        --set "balance.micro_batches=$5" --set "train.steps=$6" >/dev/null 2>"$tmp/log" ||
        fail "$(cat "$tmp/log")"
}

# turns EVEN OTHER: shares that change with every block.
turns() {
    local i at=1 text=
    for ((i = 0; i < rounds; i++)); do
        text="$text$([ $i = 0 ] || echo " / $at: ")$1 / $((at + block)): $2"
        at=$((at + 2 * block))
    done
    echo "$text"
}

# one RANKS PACES M BEST: a row. BEST: micro-batches of the slow rank in the best deal, in which
# the others have as many as each other.
one() {
    local ranks=$1 paces=$2 m=$3 best=$4 even dealt
    even=$(seq -s, "$ranks" | sed 's/[0-9][0-9]*/1/g')
    run "found$ranks" "$ranks" "$paces" "$m" measured 24
    dealt=$(tr -d ' ' <"$tmp/found$ranks/metrics.jsonl" |
        sed -nE 's/.*"micro_batches":\[([^]]*)\].*/\1/p' | tail -1)
    run "turns$ranks" "$ranks" "$paces" "$m" "$(turns "$even" "$dealt")" $((2 * block * rounds))
    tr -d ' ' <"$tmp/turns$ranks/metrics.jsonl" |
        sed -E 's/.*"step":([0-9]+),.*"step_s":([^,]+),.*"compute_s":([^,]+),.*/\1 \2 \3/' |
        awk -v ranks="$ranks" -v paces="${paces//,/, }" -v m="$m" -v best="$best" \
            -v dealt="${dealt//,/, }" -v block=$block '
        function sort(v, n,    i, k, t) {
            for (i = 2; i <= n; i++)
                for (k = i; k > 1 && v[k] < v[k - 1]; k--) {
                    t = v[k]; v[k] = v[k - 1]; v[k - 1] = t
                }
        }
        function median(v, n) {
            sort(v, n)
            return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
        }
        # the interval of a median: 95 % at least, by the binomial distribution
        function outer(n,    k, c, out) {
            c = 1; out = 0
            for (k = 0; 2 * (out + c) / 2 ^ n <= 0.05; k++) {
                out += c
                c *= (n - k) / (k + 1)
            }
            return k > 0 ? k : 1
        }
        ($1 - 1) % block >= 2 { step[++n] = $2; passes[n] = $3 }
        $1 % block == 0 {
            s = median(step, n); p = median(passes, n); n = 0
            if (int(($1 - 1) / block) % 2 == 0) {
                slow = p / (m / ranks) # seconds of a micro-batch on the slow rank
                others = (m - best) / (ranks - 1) * slow / 2
                optimum = (best * slow > others ? best * slow : others) + s - p
                off[++pairs] = s; least[pairs] = optimum
            } else {
                on[pairs] = s; ratio[pairs] = s / optimum
            }
        }
        END {
            k = outer(pairs)
            middle = median(ratio, pairs)
            printf "| ddp:%d | %s | %d | %s | %.1f ms | %.1f ms | %.1f ms | ", ranks, paces, m,
                dealt, 1e3 * median(off, pairs), 1e3 * median(least, pairs), 1e3 * median(on, pairs)
            printf "%.3f [%.3f, %.3f] |\n", middle, ratio[k], ratio[pairs + 1 - k]
        }'
}

echo "4 layers of 64 channels, micro-batches of 2 x 64 tokens; paces are simulated. Medians of"
echo "$rounds blocks of steps of both in turns; in brackets the 95 % interval of the median."
echo
echo "| stack | paces | micro-batches | dealt | as many on each | optimum | measured | of the optimum |"
echo "|---|---|---|---|---|---|---|---|"
# all ranks together compute less of the time than one core has: they do not take turns
one 2 0.05,0.1 12 4
one 4 0.05,0.1,0.1,0.1 28 4
