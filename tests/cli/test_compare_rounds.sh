#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cadre compare times its runs in rounds: what a ranked comparison says contradicts itself
# nowhere, a stop keeps the pieces, and a run that fails leaves the others.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# the same twice, one that does more for a step, and one that the machine has too few cores for
cat >>"$tmp/text.ini" <<EOF
[device]
threads = $(cores)
[compare]
perturb = no
piece = 0.02
rounds = 6
[run:one]
[run:same]
[run:heavy]
train.recompute = block
train.micro_batch = 1
[run:wide]
strategy.stack = ddp:2
EOF
rounds() { # NAME STATUS [s.k=v]...
    compare "$1" "$2" compare.time=yes "${@:3}"
}

rounds ranked 0
grep -q 'compare: run 2 of 4, same: ' "$tmp/ranked.log" || fail "ranked: no run 2 of 4"
! grep -E 'compare: run 1 of 4, .* left$' "$tmp/ranked.log" || fail "ranked: the first run has an estimate"
for run in '2 of 4, same' '3 of 4, heavy' '4 of 4, wide'; do
    grep -qE "compare: run $run: .*; about [0-9]+:[0-9]{2} left$" "$tmp/ranked.log" ||
        fail "ranked: run $run does not say how long it takes"
done
grep -qE 'compare: 6 rounds, about [0-9]+:[0-9]{2}' "$tmp/ranked.log" || fail "ranked: no rounds"
grep -qE 'compare: round 2 of 6, about [0-9]+:[0-9]{2} left' "$tmp/ranked.log" ||
    fail "ranked: no round 2 of 6"

# every timed run has as many pieces as the others in every round that counts
sed -n 's/^{"run": "\([a-z]*\)", "round": \([0-9]*\),.*/\2 \1/p' "$tmp/ranked/pieces.jsonl" |
    awk '$1 > 0 { n[$1 " " $2]++; round[$1]; run[$2] }
        END {
            for (r in round) { rounds++; for (i in run) { k = n[r " " i]; kinds[k]; if (!k) exit 1 } }
            for (k in kinds) different++
            exit !(rounds >= 6 && rounds <= 8 && different == 1 && !("wide" in run))
        }' || fail "ranked: runs with other numbers of pieces: $(cat "$tmp/ranked/pieces.jsonl")"
pieces=$(wc -l <"$tmp/ranked/pieces.jsonl")
[ "$(grep -c '"repeats_round"' "$tmp/ranked/report.json")" -eq "$pieces" ] ||
    fail "ranked: report.json has not the $pieces pieces of pieces.jsonl"

# a verdict agrees with its interval, the fastest with the verdicts, on any machine
fastest=$(sed -n 's/^ *"fastest": "*\([a-z]*\)"*,*$/\1/p' "$tmp/ranked/report.json")
[ -n "$fastest" ] || fail "ranked: report.json names nobody and not null"
awk -F, -v fastest="$fastest" '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    function complain(what) { print $1 ": " what; bad = 1 }
    {
        low = $at["speedup_low"]; high = $at["speedup_high"]; value = $at["speedup"]
        verdict = $at["speed_verdict"]; leads = $at["leading"] == "true"
        if ($1 == "wide") {
            if (value != "" || verdict != "not ranked" || leads) complain("timed")
            next
        }
        # load may have moved the interval of what it keeps from being ranked: there is none
        if (!(low == "" && high == "" && verdict == "not ranked") && !(low <= value && value <= high))
            complain("no interval")
        if (verdict == "faster" && !(low > 1)) complain("faster from " low)
        if (verdict == "slower" && !(high < 1)) complain("slower up to " high)
        if (verdict == "not ranked" && leads) complain("leads and is not ranked")
        if (verdict == "faster" && fastest == "one") complain("faster than the fastest")
        if (verdict == "slower" && fastest == $1) complain("the fastest is slower")
        if ($1 == fastest && $1 != "one" && verdict != "faster") complain("not faster")
        if (fastest != "null" && leads != ($1 == fastest)) complain("leads beside the fastest")
        ranked += verdict != "not ranked"
        leading += leads
    }
    END {
        if (ranked && !leading) { print "nobody leads"; bad = 1 }
        exit bad
    }' "$tmp/ranked/report.csv" ||
    fail "ranked, fastest $fastest: contradictions in $(cat "$tmp/ranked/report.csv")"

# too few rounds, or none, rank nothing
pair="compare.runs=one, same"
rounds few 0 compare.rounds=2 "$pair"
sed '/compare: run 1 of/q' "$tmp/few.log" |
    grep '2 rounds rank nothing, 6 are needed' >/dev/null ||
    fail "few: no warning before anything trains"
rounds budget 0 compare.rounds=0 compare.budget=0.001s "$pair"
grep -q 'raise compare.budget' "$tmp/budget.log" || fail "budget: no warning"
for name in few budget; do
    [ "$(grep -c '"speed_verdict": "not ranked"' "$tmp/$name/report.json")" -eq 2 ] ||
        fail "$name: a run is ranked"
    grep -q '"fastest": null' "$tmp/$name/report.json" || fail "$name: has a fastest run"
done
runs none 6 "$cadre" compare "$tmp/text.ini" --out "$tmp/none" --set compare.time=no \
    --set "$pair" --fail-if 'speedup(same) < 0.9'
sed '/compare: run 1 of/q' "$tmp/none.log" |
    grep "fail-if 'speedup(same) < 0.9' will be undecided: .* not timed" >/dev/null ||
    fail "none: no warning before anything trains"
[ ! -e "$tmp/none/pieces.jsonl" ] || fail "none: timed"
compare old 2 compare.repeats=3
says old 'no option compare.repeats any more.*compare.rounds'
compare wrong 2 compare.budget=soon
says wrong 'compare.budget: expected a time such as'

# a signal between pieces stops, what was measured is kept, and a continued comparison times anew
has_pieces() { # FOLDER N
    [ "$(cat "$tmp/$1/pieces.jsonl" 2>/dev/null | wc -l)" -ge "$2" ]
}
"$cadre" compare "$tmp/text.ini" --out "$tmp/stop" --set compare.rounds=200 \
    --set "$pair" >"$tmp/stop.out" 2>"$tmp/stop.log" &
pid=$!
started+=("$pid")
until_so stop "pieces" has_pieces stop 8
kill -TERM "$pid"
ends stop 4
no_orphan stop
[ ! -e "$tmp/stop/report.json" ] || fail "stop: a report"
has_pieces stop 8 || fail "stop: pieces are gone"
rounds stop 0 checkpoint.resume=auto compare.rounds=1 "$pair"
[ "$(grep -c 'done before' "$tmp/stop.log")" -eq 2 ] || fail "stop: trained again"
[ "$(grep -c '"round": 0' "$tmp/stop/pieces.jsonl")" -eq 4 ] || fail "stop: pieces of both times"
# nobody has to believe that the times seen before were not chosen from
[ "$(wc -l <"$tmp/stop/pieces-1.jsonl")" -ge 8 ] || fail "stop: the pieces before the stop are lost"
grep -q '"attempts": 1,' "$tmp/stop/report.json" || fail "stop: not one attempt before"
grep -q 'The rounds were begun anew' "$tmp/stop/report.md" || fail "stop: the report does not say so"
# the order is drawn, and can be had again
order=$(sed -n 's/^  "order": \([0-9]*\),$/\1/p' "$tmp/stop/report.json")
[ "${order:-0}" -gt 0 ] || fail "stop: no order in the report"
places() { # the first of each run: whether each has a second one is the machine's
    sed -n 's/^{"run": "\([a-z]*\)", "round": \([0-9]*\),.*"place": \([01]\),.*/\2 \3 \1/p' "$1"
}
[ "$(places "$tmp/stop/pieces.jsonl" | wc -l)" -eq 4 ] || fail "stop: no places of two rounds"
rounds ordered 0 compare.rounds=1 "compare.order=$order" "$pair"
cmp <(places "$tmp/stop/pieces.jsonl") <(places "$tmp/ordered/pieces.jsonl") || fail "ordered: another order"

# a run that is killed is reported as failed, and the others go on
many=1500
[ "$patience" -ge 10 ] && many=150
"$cadre" compare "$tmp/text.ini" --out "$tmp/failed" --set "train.steps=$many" \
    --set compare.runs="same, one" --set compare.baseline=one --set compare.time=no \
    >"$tmp/failed.out" 2>"$tmp/failed.log" &
pid=$!
started+=("$pid")
wait_steps failed/runs/same 2
kill -KILL "$(run_of "$(run_of "$pid")")"
ends failed 1
no_orphan failed
says failed 'run same was ended by signal 9'
[ "$(wc -l <"$tmp/failed/runs/one/metrics.jsonl")" -eq "$many" ] || fail "failed: one is not whole"
grep -q '"failure": "signal 9' "$tmp/failed/report.json" || fail "failed: report.json says nothing"
[ ! -e "$tmp/failed/certificate-same.json" ] || fail "failed: a certificate of a failed run"
[ -e "$tmp/failed/certificate-one.json" ] || fail "failed: no certificate of one"
python3 - "$tmp/failed/report.json" <<'END' || fail "failed: what same was is not told"
import json, sys
runs = {run["name"]: run for run in json.load(open(sys.argv[1]))["runs"]}
keys = "ranks", "params"
sys.exit(None in [runs["same"][key] for key in keys] or
         [runs["same"][key] for key in keys] != [runs["one"][key] for key in keys])
END
[ -s "$tmp/failed/runs/same/run.html" ] || fail "failed: same has no page"
grep -q '<li>same (failed): <a href="runs/same/run.html">' "$tmp/failed/report.html" ||
    fail "failed: no link to the page of same"
"$cadre" inspect "$tmp/failed" >"$tmp/failed.seen"
grep -q 'comparison of .*; 1 failed' "$tmp/failed.seen" || fail "failed: inspect names no failure"
grep -q '^  same .*failed: signal 9' "$tmp/failed.seen" || fail "failed: inspect has no reason"
"$cadre" report "$tmp/failed/runs/same" --out "$tmp/failed-page" >"$tmp/failed-page.out"
grep -q 'died after step [0-9]* of' "$tmp/failed-page.out" || fail "failed: report has no end of same"
"$cadre" report "$tmp/failed/runs/same" --json >"$tmp/failed-page.json"
grep -q '"ranks": 1,' "$tmp/failed-page.json" || fail "failed: report has no ranks of same"
