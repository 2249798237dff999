#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Who changes training by design names a setting under which it must not: `cadre compare`
# trains each such run once more with it, beside `single`, and says what came out. What is
# not so is a difference like others, with exit status 3. Other optimizers are no other
# training: Muon's runs are compared with a `single` of its own. Instrumented builds take
# fewer runs.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
built=$(dirname "$(test_plugin gossip)")
common=(train.steps=8 compare.equal_steps=6)

# A strategy that is built out of the tree.
cc=${CC:-cc}
mkdir "$tmp/plugins"
${cc#ccache } -std=c11 -I"$CADRE_SRC/include" -fPIC -fvisibility=hidden -shared \
    -o "$tmp/plugins/localsgd.so" "$CADRE_SRC/examples/plugin-localsgd/localsgd.c"
printf '[strategy]\nplugin_path = %s:%s:%s\n' "$tmp/plugins" "$built" \
    "$CADRE_BUILD/tests/plugins/outsider/.libs" >>"$tmp/text.ini"
cp "$tmp/text.ini" "$tmp/plain.ini"

# run_of NAME STACK [OPTION]...: a run of the comparisons.
run_of() {
    printf '[run:%s]\nstrategy.stack = %s\n' "$1" "$2" >>"$tmp/text.ini"
    [ $# -eq 2 ] || printf '%s\n' "${@:3}" >>"$tmp/text.ini"
}

# What the text of the report says, in one line.
words() {
    tr '\n' ' ' <"$tmp/$1.out"
}

# held NAME RUN SETTING: by design in the table, and as single under SETTING.
held() {
    grep -qE "^$2 .* by design\$" "$tmp/$1.out" ||
        fail "$1: $2 is not by design: $(grep "^$2" "$tmp/$1.out")"
    words "$1" | grep -E "$2 \([^)]*\) trains the same as single with $3, as it must\." >/dev/null || {
        cat "$tmp/$1.out"
        fail "$1: $2 is not said to train the same as single with $3"
    }
    [ -s "$tmp/$1/equal/$2/report.json" ] || fail "$1: no comparison of $2"
    grep -qF "\"equal_setting\": \"$3\"" "$tmp/$1/report.json" ||
        fail "$1: report.json has not the setting of $2"
}

sgd="optim.name=sgd, optim.momentum=0, optim.clip=0"
run_of single single
run_of outer diloco:2 'diloco.period = 4'
run_of sharded 'diloco:2, zero:2' 'diloco.period = 4' 'zero.stage = 3'
run_of neighbours gossip:2
run_of ring gossip:4
run_of elsewhere gossip@site:2
run_of local localsgd:2 'localsgd.period = 4'
run_of codes zero:2 'zero.stage = 3' 'zero.quantize_gathers = int8' \
    'zero.quantize_gradients = int8'
run_of signs ddp:2 'ddp.compress = onebit:2'
most=(outer sharded neighbours ring elsewhere local codes signs)
[ "$lean" != 1 ] || most=(outer ring local)
compare designs 0 "${common[@]}" "compare.runs=single, $(sed 's/ /, /g' <<<"${most[*]}")"
held designs outer "diloco.period=1, diloco.outer_lr=1, diloco.outer_momentum=0, $sgd"
held designs ring "gossip.mean=yes, $sgd"
if [ "$lean" != 1 ]; then
    held designs sharded "diloco.period=1, diloco.outer_lr=1, diloco.outer_momentum=0, $sgd"
    held designs neighbours "gossip.mean=yes, $sgd"
    held designs signs "ddp.compress=onebit:1000000000" # its warm-up alone
    held designs elsewhere "gossip@site.mean=yes, $sgd" # the instance's own section
    held designs codes "zero.quantize_gathers=none, zero.quantize_gradients=none"
fi
held designs local "localsgd.period=1, localsgd.momentum=0, localsgd.lr=1, $sgd"
grep -q 'differs from single by design' <(words designs) || fail "no run differs by design"
# the same in the files
grep -q '"by_design": true' "$tmp/designs/report.json" || fail "report.json has no by_design"
[ "$(grep -cE '"setting_equal": "(within|exact)"' "$tmp/designs/report.json")" -eq ${#most[@]} ] ||
    fail "report.json does not judge every setting"
grep -q 'as it must' "$tmp/designs/report.md" || fail "report.md has no word of the settings"
# each was trained with as many steps as are asked for, and both runs with the setting
[ "$(wc -l <"$tmp/designs/equal/outer/runs/equal/metrics.jsonl")" -eq 6 ] ||
    fail "the setting was not tried for 6 steps"
grep -q '^name *= *sgd' "$tmp/designs/equal/outer/runs/single/config.ini" ||
    fail "single was not trained with what the setting says of the core"

# None is tried where nobody wants it, which is said; no exit status of its own.
compare untried 0 "${common[@]}" 'compare.runs=single, outer' compare.equal=no
words untried | grep 'was not tried with diloco.period=1' >/dev/null || fail "untried is not said"
[ ! -e "$tmp/untried/equal" ] || fail "compare.equal=no, and a setting was tried"

# A setting under which it does differ: exit status 3 and one line, whatever else holds.
cp "$tmp/plain.ini" "$tmp/text.ini"
run_of single single
run_of untrue outsider:2 'outsider.misuse = equal_untrue'
run_of good ddp:2
compare planted 3 "${common[@]}"
says planted "run untrue did not train the same as single with outsider.level=0, as it must: "
grep -q '"setting_equal": "differs"' "$tmp/planted/report.json" ||
    fail "report.json does not say that the setting differs"
grep -qE '^untrue .* by design$' "$tmp/planted.out" || fail "untrue says that it is by design"
grep -qE '^good .* within$' "$tmp/planted.out" || fail "good is not within limits"
words planted | grep -E "untrue \([^)]*\) did NOT train the same as single with outsider.level=0, as it must: .*[0-9]" >/dev/null ||
    fail "the report does not say what differs"

# A setting takes another optimizer than the run's plugin.
cp "$tmp/plain.ini" "$tmp/text.ini"
run_of single single
run_of orthogonal gossip:2
compare other 0 "${common[@]}" optim.name=muon muon.ns_steps=2
held other orthogonal "gossip.mean=yes, $sgd"

# ---- Muon: an optimizer is no other training ----

cp "$tmp/plain.ini" "$tmp/text.ini"
run_of single single
run_of replicas ddp:2
run_of one zero:2 'zero.stage = 1'
run_of two zero:2 'zero.stage = 2'
run_of three zero:2 'zero.stage = 3'
run_of stages pipeline:2 'pipeline.schedule = zb-h1'
run_of groups 'hsdp:2, zero:2' 'zero.stage = 2'
most=(replicas one two three stages groups)
[ "$lean" != 1 ] || most=(two stages)
compare muon 0 train.steps=6 optim.name=muon muon.ns_steps=3 run.exact=yes \
    "compare.runs=single, $(sed 's/ /, /g' <<<"${most[*]}")"
for run in "${most[@]}"; do
    grep -qE "^$run .* exact\$" "$tmp/muon.out" ||
        fail "muon, $run is not exact: $(grep "^$run" "$tmp/muon.out")"
done
# and without exact mode within what rounding does to it
compare muon-limits 0 train.steps=6 optim.name=muon muon.ns_steps=3 \
    'compare.runs=single, replicas, three, stages'
for run in replicas three stages; do
    grep -qE "^$run .* (within|exact)\$" "$tmp/muon-limits.out" ||
        fail "muon, $run is not within limits: $(grep "^$run" "$tmp/muon-limits.out")"
done
