#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cadre compare: equality in and outside exact mode, a stop and its continuation, and
# a comparison that is killed.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

cat >>"$tmp/text.ini" <<EOF
[run:one]
strategy.stack = single
[run:two]
strategy.stack = ddp:2
EOF

has() { # NAME PATTERN
    if ! grep -qE "$2" "$tmp/$1.out"; then
        cat "$tmp/$1.out"
        fail "$1: no line with '$2'"
    fi
}

compare exact 0 run.exact=yes
has exact '^two +ddp:2 .* exact$'
has exact 'All runs trained the same, to the last bit'
[ ! -e "$tmp/exact/runs/one:reordered" ] || fail "exact: a run that nobody needs"

compare near 0
has near '^two .* (within|exact)$'
has near 'speedup = T_base / T_run; efficiency = speedup / N'
has near 'Limits are measured: 93.2 times what rounding changes in 3 more runs of one'
for file in report.json report.csv report.html; do
    [ -s "$tmp/near/$file" ] || fail "near: no $file"
done
[ "$(wc -l <"$tmp/near/report.csv")" -eq 3 ] || fail "near: report.csv has not 3 lines"

# a certificate is checked again, alone or with all of its comparison, and reports a run that is no
# longer what it was
"$cadre" inspect "$tmp/near" >"$tmp/near.seen"
[ "$(grep -c 'has the hashes that it states' "$tmp/near.seen")" -eq 2 ] ||
    fail "near: inspect of the folder does not check both certificates"
grep -q '^comparison of 2 runs, baseline one$' "$tmp/near.seen" ||
    fail "near: inspect does not say what the folder is"
grep -q '^  All runs trained the same' "$tmp/near.seen" || fail "near: inspect concludes nothing"
"$cadre" inspect "$tmp/near/certificate-two.json" >"$tmp/near.seen"
grep -q 'verdict: \(within\|exact\), compared with one' "$tmp/near.seen" || fail "near: no verdict"
grep -q 'has the hashes that it states' "$tmp/near.seen" || fail "near: not checked again"
sed -i 's/"loss": 3/"loss": 2/' "$tmp/near/runs/two/metrics.jsonl"
status=0
"$cadre" inspect "$tmp/near/certificate-two.json" >"$tmp/near.seen" 2>"$tmp/near.log" || status=$?
[ "$status" -eq 3 ] || fail "near: a changed run ends with $status, expected 3"
says near 'loss_chain of run two is'
status=0
"$cadre" inspect "$tmp/near" >"$tmp/near.seen" 2>"$tmp/near.log" || status=$?
[ "$status" -eq 3 ] || fail "near: a folder with a changed run ends with $status, expected 3"
says near 'loss_chain of run two is'

# what exact mode costs, where one run asks for it and one like it does not
cp "$tmp/text.ini" "$tmp/plain.ini"
printf '[run:three]\nstrategy.stack = ddp:2\nrun.exact = yes\n' >>"$tmp/text.ini"
# whether it could be ranked is the machine's; the status says what the report does
some=6
[ "$lean" = 0 ] || some=2
status=0
"$cadre" compare "$tmp/text.ini" --out "$tmp/price" --set compare.perturb=no \
    --set compare.piece=0.01 --set "compare.rounds=$some" --set device.threads=1 \
    --set compare.runs="two, three" \
    --fail-if 'price(three) > -99 %' >"$tmp/price.out" 2>"$tmp/price.log" || status=$?
has price '^(Exact mode costs|No cost of exact mode was shown:|The price of exact mode is not ranked:) -?[0-9.]+ %'
want=5
! grep -q '^The price of exact mode is not ranked' "$tmp/price.out" || want=6
[ "$status" -eq "$want" ] || fail "price: --fail-if ends with $status, expected $want"
says price "fail-if 'price.three. > -99 %' (holds|is undecided): price.three. is"
grep -A 5 '"exact_price"' "$tmp/price/report.json" | grep '"without": "two"' >/dev/null ||
    fail "price: report.json has no exact_price"
settings compare.perturb=no
runs apart 0 "$cadre" compare "$tmp/text.ini" --out "$tmp/apart" --set compare.time=no "${sets[@]}" \
    --set "compare.runs=two, three"
has apart '^Time of a step in these trainings, which rank nothing,'
! grep -qE '^(Exact mode costs|The price of exact)' "$tmp/apart.out" || fail "apart: a price of trainings apart in time"
cp "$tmp/plain.ini" "$tmp/text.ini"

# a run that fails by itself: the report has its reason, which its reader has not above
printf 'optim.name = sgd\noptim.lr = 1000\noptim.clip = 0\n' >>"$tmp/text.ini"
compare reason 1 compare.time=no compare.perturb=no
for form in report.json report.md report.html; do
    grep -q 'exit status 1: .*the loss is not finite at step' "$tmp/reason/$form" ||
        fail "reason: $form does not say why two failed: $(grep failure "$tmp/reason/report.json")"
done
cp "$tmp/plain.ini" "$tmp/text.ini"

compare near 2
says near 'holds a comparison already'

# its trainings one by one, as a batch system makes them, also from ranks that it starts
steps() { # ARGUMENT...: a step of the comparison "steps"
    "$cadre" compare "$tmp/text.ini" --out "$tmp/steps" --set compare.perturb=no \
        --set device.threads=1 "$@"
}
steps --list >"$tmp/list"
printf 'one\t1\t1\ntwo\t2\t2\n' | cmp - "$tmp/list" || fail "steps: --list prints other runs"
[ ! -e "$tmp/steps/runs/one" ] || fail "steps: --list leaves a run"
steps --run one >"$tmp/steps.out" 2>&1
status=0
steps --collect >"$tmp/steps.out" 2>"$tmp/steps.log" || status=$?
[ "$status" -eq 2 ] || fail "steps: without two, --collect ends with $status"
says steps "lacks trainings of this comparison: two;"
[ ! -e "$tmp/steps/report.json" ] || fail "steps: a report without two"
status=0
steps --collect --list >"$tmp/steps.out" 2>"$tmp/steps.log" || status=$?
[ "$status" -eq 2 ] || fail "steps: --collect --list ends with $status"
says steps 'give one of them'
steps --run two >"$tmp/steps.out" 2>&1
steps --collect >"$tmp/steps.out" 2>"$tmp/steps.log"
cp "$tmp/steps/report.json" "$tmp/collected.json"
touch "$tmp/steps/pieces.jsonl" # as if its runs had been timed
status=0
steps --collect >"$tmp/steps.out" 2>"$tmp/steps.log" || status=$?
[ "$status" -eq 2 ] || fail "steps: collected over a timed report, status $status"
says steps "has a report whose runs were timed in turns, .* move report.json away"
cmp "$tmp/collected.json" "$tmp/steps/report.json"
rm "$tmp/steps/pieces.jsonl"
steps --collect >"$tmp/steps.out" 2>"$tmp/steps.log"
has steps '^two .* (within|exact)$'
status=0
steps --collect --set optim.beta1=0.8 >"$tmp/steps.out" 2>"$tmp/steps.log" || status=$?
[ "$status" -eq 2 ] || fail "steps: collected with other settings, status $status"
says steps "runs/one' was trained with optim.beta1 = 0.9, and the comparison has 0.8"
grep -q '"run": "two"' "$tmp/steps/certificate-two.json" || fail "steps: no certificate of two"

mapfile -t sets < <(for i in {1..80}; do echo compare.perturb=no; done)
compare stated 0 "${sets[@]}"
has stated 'Limits are stated'

# another training is no error, and no equality either
cp "$tmp/text.ini" "$tmp/plain.ini"
printf 'optim.lr = 1e-4\n' >>"$tmp/text.ini"
compare other 0
has other '^two .* independent$'
has other 'optim.lr '
cp "$tmp/plain.ini" "$tmp/text.ini"

# long enough to be met at work, also where instrumented code is slow
many=1500
[ "$patience" -ge 10 ] && many=150
# a signal to the comparison stops the run at hand, and what was done is kept
begin() { # NAME
    "$cadre" compare "$tmp/text.ini" --out "$tmp/$1" --set "train.steps=$many" \
        --set compare.perturb=no --set compare.time=no >"$tmp/$1.out" 2>"$tmp/$1.log" &
    pid=$!
    started+=("$pid")
    wait_steps "$1/runs/two" 2
}
touch "$tmp/stop.log"
mkdir -p "$tmp/stop/runs" "$tmp/killed/runs"
begin stop
kill -TERM "$pid"
ends stop 4
no_orphan stop
[ "$(wc -l <"$tmp/stop/runs/one/metrics.jsonl")" -eq "$many" ] || fail "stop: one is not whole"
compare stop 0 "train.steps=$many" compare.perturb=no checkpoint.resume=auto
grep -q 'one: single.*done before' "$tmp/stop.log" || fail "stop: one was trained again"
has stop '^two .* (within|exact)$'
# the run that was stopped and resumed is reported as the other is, everywhere the same
! grep '"steps"' "$tmp/stop/report.json" | grep -v "\"steps\": $many," ||
    fail "stop: report.json: $(grep '"steps"' "$tmp/stop/report.json")"
awk -F, -v many="$many" 'NR > 1 { gsub("\"", ""); tokens[NR] = $6; if ($5 != many) exit 1 }
    END { exit tokens[2] != tokens[3] }' "$tmp/stop/report.csv" ||
    fail "stop: report.csv: $(cut -d, -f1-6 "$tmp/stop/report.csv")"

begin killed
kill -KILL "$pid"
ends killed 137
no_orphan killed
