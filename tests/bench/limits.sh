#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Are limits as rare to leave as docs/comparison.md says? Trains a small model RUNS times from
# parameters moved by one unit in the last place and draws, 20000 times, K of these runs, one
# more, and a step: how often is the one's change larger than F(alpha) times that of the K?
# usage: CADRE_BUILD=build RUNS=32 tests/bench/limits.sh [section.key=value]...
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-build}/cadre
runs=${RUNS:-32}
awk 'BEGIN {
    split("the heart beats and a model reads what the lead has written down", w, " ")
    x = 7
    for (i = 0; i < 40000; i++) {
        x = (x * 1103 + 12345) % 65536
        printf "%s%s", w[1 + x % 13], (x % 97 == 0) ? ".\n" : " "
    }
}' >"$tmp/text.txt"
write_ini "$tmp/small.ini" model.layers=3 model.channels=48 model.heads=4 model.context=32 \
    "data.path=$tmp/text.txt" "data.cache=$tmp/cache" train.steps=60 train.global_batch=16 \
    train.micro_batch=1 optim.lr=3e-3 optim.clip=1 log.level=warn
for k in $(seq 0 "$runs"); do
    train "$tmp/small.ini" "$k" "$@" "run.perturb=$k"
    sed -E 's/.*"loss": ?([^,]+), ?"grad_norm": ?([^,]+),.*/\1 \2/' \
        "$tmp/$k/metrics.jsonl" | awk -v k="$k" '{ print k, NR, $1, $2 }'
done >"$tmp/all"

# Gamma((K+1)/2) by recurrence from Gamma(1) = 1 and Gamma(1/2) = sqrt(pi).
awk -v runs="$runs" '
function gamma(x) { return x == 1 ? 1 : x == 0.5 ? root : (x - 1) * gamma(x - 1) }
function factor(K, alpha) {
    return 2 / root * exp(log(gamma((K + 1) / 2) / (root * alpha)) / K)
}
function change(q, k, i,    d) { d = x[q, k, i] - x[q, 0, i]; return d < 0 ? -d : d }
{ x["loss", $1, $2] = $3; x["norm", $1, $2] = $4; steps = $2 }
END {
    root = sqrt(atan2(0, -1)); srand(1); draws = 20000
    split("loss norm", names, " "); split("2 3 6", Ks, " ")
    print "| quantity | K | alpha 0.1 | 0.01 | 0.001 | largest of one / of K | F |"
    print "|---|---|---|---|---|---|---|"
    for (n = 1; n <= 2; n++) for (c = 1; c <= 3; c++) {
        q = names[n]; K = Ks[c]; most = 0
        for (a = 1; a <= 3; a++) over[a] = 0
        for (t = 0; t < draws; t++) {
            for (j = 0; j <= K; j++) {
                do { k = 1 + int(rand() * runs); fresh = 1
                    for (l = 0; l < j; l++) if (pick[l] == k) fresh = 0
                } while (!fresh)
                pick[j] = k
            }
            i = 1 + int(rand() * steps); seen = 0
            for (j = 1; j <= K; j++) {
                d = change(q, pick[j], i); if (d > seen) seen = d
            }
            d = change(q, pick[0], i)
            for (a = 1; a <= 3; a++) if (d > factor(K, 10 ^ -a) * seen) over[a]++
            if (seen > 0 && d / seen > most) most = d / seen
        }
        printf "| %s | %d | %.4f | %.4f | %.4f | %.1f | %.1f |\n", q, K, over[1] / draws,
            over[2] / draws, over[3] / draws, most, factor(K, 1e-6)
    }
}' "$tmp/all"
