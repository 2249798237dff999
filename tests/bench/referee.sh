#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The referee of `cadre compare`, live: TRIES comparisons of two runs of one program (A/A) and
# PLANTED of two where one takes 2, 5 and 10 % longer a step, by tests/plugins/slow_step. Prints
# a line a comparison, then for each difference how often it was shown, how often the wrong one,
# and how often it should have been by the spread of the rounds of that comparison: the chance
# that the test of the same rounds, moved to the planted difference, shows it.
# With LINES_FILE the lines are kept there, and what it has is not tried again: the tries may
# be spread over several quiet hours.
# usage: make -C build all tests/plugins/slow_step.la
#        CADRE_BUILD=build TRIES=60 PLANTED=20 tests/bench/referee.sh [section.key=value]...
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
build=$(cd "${CADRE_BUILD:-build}" && pwd)
cadre=$build/cadre
tries=${TRIES:-60} planted=${PLANTED:-20}
export CADRE_PLUGIN_PATH=$build/tests/plugins/.libs${CADRE_PLUGIN_PATH:+:$CADRE_PLUGIN_PATH}
settings "$@"

write_letters strategy.stack=slow_step:1 device.kind=cpu device.threads=1 log.level=warn \
    model.layers=2 model.channels=96 model.heads=4 model.context=64 train.steps=20 \
    train.eval_batches=1

# one PERCENT N: a comparison and its line.
one() {
    local out=$tmp/out ini=$tmp/pair.ini
    {
        cat "$tmp/run.ini"
        printf '[compare]\nbaseline = same\nperturb = no\n[run:same]\nrun.name = same\n'
        printf '[run:other]\nslow_step.percent = %s\n' "$1"
    } >"$ini"
    rm -rf "$out"
    "$cadre" compare "$ini" --out "$out" --set "run.seed=$2" "${sets[@]}" \
        >/dev/null 2>"$tmp/log" || fail "$(tail -n 3 "$tmp/log")"
    awk -F, -v percent="$1" '
        { sub(/\r$/, "") }
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        $at["name"] == "other" && NR > 1 {
            printf "%s\t%s\t%s\t%s\t%s\t", percent, $at["speed_verdict"], $at["speedup"],
                $at["speedup_low"], $at["speedup_high"]
        }' "$out/report.csv"
    power "$1" "$out"
}

# power PERCENT DIR: the chance that rounds with this spread show the difference: signs of what
# lies around the Hodges-Lehmann median are drawn anew 2000 times, and the test is made of each, of
# all rounds and of the undisturbed ones, as a verdict is. n values lie sqrt((n - 1) / n) closer to
# their own centre than to the true one, which is put back.
power() {
    sed -nE 's/.*"run": ?"([^"]*)".*"round": ?([0-9]+),.*"period_s": ?([0-9.e+-]+).*/\1 \2 \3/p' \
        "$2/pieces.jsonl" | awk -v percent="$1" '
        FNR == NR { # report.json
            if (/"round_list": \[/) listed = 1
            if (listed && $1 == "\"round\":") r = $2 + 0
            if (listed && $1 == "\"disturbed\":") disturbed[r] = $2 ~ /true/
            if (/\]/) listed = 0
            next
        }
        $2 > 0 { if (!($2 in seen)) { seen[$2] = 1; round[++n] = $2 }
                 sum[$1, $2] += log($3); count[$1, $2]++ }
        function mean(run, r) { return sum[run, r] / count[run, r] }
        function median(v, n,    i, k, t) {
            for (i = 2; i <= n; i++) {
                t = v[i]
                for (k = i - 1; k > 0 && v[k] > t; k--) v[k + 1] = v[k]
                v[k + 1] = t
            }
            return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
        }
        # ways[n, w]: sign vectors of n values whose positive ranks sum to w
        function count_ways(n,    i, k) {
            ways[n, 0] = 1
            for (i = 1; i <= n; i++)
                for (k = n * (n + 1) / 2; k >= i; k--) ways[n, k] += ways[n, k - i]
        }
        # Is it shown by the first n of x? P(W >= w) under the null hypothesis, two-sided.
        function shows(x, n,    i, k, w, t) {
            for (i = 1; i <= n; i++)
                if (x[i] > 0)
                    for (k = 1; k <= n; k++)
                        w += ((x[k] < 0 ? -x[k] : x[k]) <= x[i])
            for (k = w; k <= n * (n + 1) / 2; k++) t += ways[n, k]
            return 2 * t / 2 ^ n <= 0.05
        }
        END {
            srand(1); beyond = log(1 + percent / 100) - log(1.01)
            for (pass = 0; pass < 2; pass++) # the undisturbed ones first
                for (i = 1; i <= n; i++)
                    if (!!disturbed[round[i]] == pass)
                        d[++all] = mean("other", round[i]) - mean("same", round[i])
            for (i = 1; i <= n; i++) {
                few += !disturbed[round[i]]
                for (k = i; k <= n; k++) walsh[++pairs] = (d[i] + d[k]) / 2
            }
            centre = median(walsh, pairs); wider = sqrt(n / (n - 1))
            count_ways(n)
            if (few < n) count_ways(few)
            for (draw = 0; few >= 6 && draw < 2000; draw++) {
                for (i = 1; i <= n; i++)
                    x[i] = beyond + (rand() < 0.5 ? -1 : 1) * (d[i] - centre) * wider
                shown += shows(x, n) && (few == n || shows(x, few))
            }
            printf "%.3f\n", shown / 2000
        }' "$2/report.json" -
}

lines=${LINES_FILE:-$tmp/lines}
touch "$lines"
echo "percent	verdict	speedup	low	high	power"
cat "$lines"
for percent in 0 2 5 10; do
    n=$planted
    [ "$percent" != 0 ] || n=$tries
    had=$(awk -F '\t' -v p="$percent" 'NF == 6 && $1 == p { n++ } END { print n + 0 }' "$lines")
    for ((i = had + 1; i <= n; i++)); do
        one "$percent" "$i" | tee -a "$lines"
    done
done

echo
awk -F '\t' '
    NF == 6 {
        n[$1]++; power[$1] += $6; real = 1 / (1 + $1 / 100)
        shown[$1] += ($2 == "slower"); wrong[$1] += ($2 == "faster")
        none[$1] += ($2 == "not ranked"); inside[$1] += ($4 <= real && real <= $5)
    }
    END {
        print "planted  tries  slower  faster  not ranked  true value in the interval  predicted"
        split("0 2 5 10", all, " ")
        for (i = 1; i <= 4; i++) {
            p = all[i]
            if (n[p]) printf "%5s %% %6d %7d %7d %11d %27d  %9.1f\n", p, n[p], shown[p], wrong[p],
                none[p], inside[p], power[p]
        }
        # at a level of 5 % more than a tenth of 60 tries are alarms once in thirty times
        if (n[0] && shown[0] + wrong[0] > 0.1 * n[0]) bad = 1
        for (p in n)
            if (p > 0 && wrong[p] > 0) bad = 1
        if (bad) print "FAIL: wrong verdicts"
        exit bad
    }' "$lines"
