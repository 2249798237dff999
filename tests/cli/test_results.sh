#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/results.md against the files, docs/json.md against what commands print: runs that together
# leave every file are trained, and every key of every file has a row with unit, scope and what it
# covers; every row is of a key that some file has. report.json has a page of its own,
# docs/report.md, and in it the keys of summary.json; config.json is Hugging Face's.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
page=$CADRE_SRC/docs/results.md printed_page=$CADRE_SRC/docs/json.md

# ---- the files ----

cd "$tmp"
# under a schedule, in fp16, with an optimizer plugin and data that has records
stages=(strategy.stack=pipeline:2 pipeline.balance=measured train.precision=fp16
    optim.name=muon log.trace=yes train.steps=3 model.layers=2)
train ecg run 0 "${stages[@]}" log.tensorboard=yes log.openmetrics=FILE.prom
train ecg class 0 data.task=vbd model.head=classify train.steps=1 strategy.stack=ddp:2 \
    log.trace=yes log.trace_format=kineto report.price_per_hour=1.5 \
    balance.micro_batches=3,1 device.pace=0.9
train text pairs 0 data.format=instruct "data.path=$CADRE_SRC/tests/samples/dpo/pairs.json" \
    data.template=plain tune.method=dpo train.steps=1
train text bench 0 bench.steps=2 bench.warmup=1
train text sweep 0 strategy.stack=mig:2 mig.mode=independent train.steps=2 \
    "mig.sweep=optim.lr: 3e-3 1e-3"

# a rank that is lost, as in test_train_elastic.sh: the link leaves time to find it
saved() { [ -n "$(last lost)" ]; }
start text lost strategy.stack=ddp:2 run.elastic=yes comm.ranks=processes comm.link=1:3000 \
    checkpoint.every=2 train.steps=100 log.every=1000
until_so lost checkpoint saved
kill -KILL "$(rank_of "$pid" 1)"
ends lost 0
[ -e "$tmp/lost/restarts.json" ] || fail "lost: was not restarted"

# stages that are cut again, as in test_train_recut.sh
slow_rank=$(test_plugin slow_rank)
train text cut 0 "strategy.stack=pipeline:2, slow_rank:1" pipeline.balance=measured run.recut=0.05 \
    "strategy.plugin_path=${slow_rank%/*}" slow_rank.times=5 checkpoint.every=3 train.steps=4 \
    model.layers=5
[ -e "$tmp/cut/recuts.json" ] || fail "cut: was not cut again"

# a machine whose counter of energy moves while a run waits before its start
counter=$tmp/powercap/intel-rapl:0
mkdir -p "$counter"
echo package-0 >"$counter/name"
echo 100000000000 >"$counter/max_energy_range_uj"
echo 100000000 >"$counter/constraint_0_power_limit_uw"
joules=1
echo 1000000 >"$counter/energy_uj"
CADRE_POWERCAP=$tmp/powercap start text idle energy.idle=0.5 train.steps=1
while kill -0 "$pid" 2>/dev/null; do
    joules=$((joules + 1))
    echo "${joules}000000" >"$counter/new" # in one go: a reader never meets half a file
    mv "$counter/new" "$counter/energy_uj"
    sleep 0.05
done
ends idle 0
[ -e idle/idle.json ] || fail "idle: no idle.json"

# what is printed
mkdir printed checked broken
print() { # NAME COMMAND...: "cadre NAME" is what the page calls it
    local name=$1
    shift
    "$cadre" "$@" --json >"printed/cadre $name --json" 2>printed.log || fail "$name: $(cat printed.log)"
}
print train train text.ini --out json --set train.steps=1
print 'train --dry-run' train text.ini --out none --dry-run
plan=(plan text.ini --hardware h100 --set train.precision=fp32)
print plan "${plan[@]}" --ranks 4
printf '[run]\nextends = text.ini\n[strategy]\nplugin_path = %s\nstack = gossip:2\n' \
    "$(dirname "$(test_plugin gossip)")" >own.ini
"$cadre" plan own.ini --ranks 2 --hardware h100 --set train.precision=fp32 --json \
    >>"printed/cadre plan --json" 2>printed.log || fail "own: $(cat printed.log)"
print 'plan --explain' "${plan[@]}" --ranks 4 --explain 1 2
print 'plan --what-if' "${plan[@]}" --ranks 4 --what-if link.bandwidth=+10%
print 'plan --fit' "${plan[@]}" --ranks 4 --fit
print 'plan --cost' "${plan[@]}" --ranks 4 --cost --tokens 1e9 --price 2
print 'plan --ranks FIRST..LAST' "${plan[@]}" --ranks 1..4
print 'plan --simulate' "${plan[@]}" --ranks 2 --simulate --set strategy.stack=ddp:2 \
    --set model.vocab=128
print 'plan --replay' plan --replay "$CADRE_SRC/tests/samples/planner/published.csv"
print options options
print help help
for run in run class; do
    "$cadre" eval "$run/config.ini" --json 2>/dev/null >>"printed/cadre eval --json"
done
"$cadre" eval pairs/config.ini --set tune.reference=pairs/checkpoints/step-00000001 --json \
    2>printed.log >>"printed/cadre eval --json" || fail "eval of pairs: $(cat printed.log)"
print doctor doctor
cp "$(test_plugin bad_descriptor)" broken/sample.so
CADRE_TEST_BAD=magic CADRE_PLUGIN_PATH=$tmp/broken print plugins plugins

printf '[compare]\nbaseline = one\n[run:one]\n[run:two]\nstrategy.stack = ddp:2\n' \
    >>"$tmp/text.ini"
compare compared 0 compare.time=yes compare.rounds=1 compare.piece=0.01 train.steps=4 \
    compare.perturbations=2

print compare compare text.ini --out compared-json --set compare.time=no \
    --set compare.perturb=no --set train.steps=1 --set log.level=warn
runs check 0 "$cadre" check ddp --only L1 --json checked/NAME.check.json

# ---- the page ----

# "SECTION<tab>FIELD" for every field of the tables; rows that are not whole are told.
awk -F ' *\\| *' -v bad="$tmp/bad" '
    /^## / { section = substr($0, 4); if (section !~ /\.jsonl?( |$)|--json$/) section = ""; next }
    section == "" || !/^\| `/ { next }
    {
        if (NF != 7 || $3 == "" || $6 == "" ||
            $4 !~ /^(rank 0|each rank|all ranks|run|as there)$/ ||
            $5 !~ /^(step|run|session|-)$/)
            print FILENAME ":" FNR ": expected | `field` | unit | rank 0, each rank, all ranks or run | step, run, session or - | what it is |" >bad
        n = split($2, field, /`,? ?`?/)
        for (i = 1; i <= n; i++)
            if (field[i] != "") print section "\t" field[i]
    }' "$page" "$printed_page" >"$tmp/rows"
if [ -s "$tmp/bad" ]; then
    cat "$tmp/bad"
    exit 1
fi

# docs/report.md: each table has the same columns, and a scope and what it covers in each row
awk -F ' *\\| *' '
    /^\| `/ && (NF != 7 || $3 == "" || $4 !~ /^(rank 0|each rank|all ranks|run)(; (rank 0|all ranks))?$/ ||
        $5 !~ /^(piece|step|run|session|-)$/) {
        print "docs/report.md:" FNR ": expected | `key` | unit | scope | covers | what it is |"
        bad = 1
    }
    END { exit bad }' "$CADRE_SRC/docs/report.md" || fail "rows of docs/report.md are not whole"

# section_of FILE: the heading of its table; "" for a file that another page describes.
section_of() {
    case ${1##*/} in
    report.json | config.json) ;;
    certificate-*.json) echo certificate-NAME.json ;;
    rank-*.json) echo trace/rank-N.json ;;
    summary.json) if grep -q '^  "best"' "$1"; then echo "summary.json of a sweep"; else
        echo summary.json; fi ;;
    *) echo "${1##*/}" ;;
    esac
}

# ---- both ways ----

find run class pairs bench sweep lost cut idle compared printed checked -type f | sort >files
while read -r file; do
    name=${file##*/}
    case $file in
    */certificate-*.json) name=certificate-NAME.json ;;
    */trace/rank-*.json) name=trace/rank-N.json ;;
    */status/rank-*) name=status/rank-NNNNN ;;
    */events.out.tfevents.*) name='events.out.tfevents.*' ;;
    */FILE.prom) name=log.openmetrics ;;
    esac
    if ! grep -qF -e "\`$name\`" -e "## $name" "$page" "$printed_page" \
        "$CADRE_SRC/docs/checkpoints.md"; then
        echo "docs/results.md: names no file '$name', and there is $file" >&2
        touch wrong
    fi
    case $name in *.json | *.jsonl | *--json) ;; *) continue ;; esac
    section=$(section_of "$file")
    [ -n "$section" ] || continue
    "$CADRE_BUILD/json_paths" "$file" >paths || fail "$file cannot be read"
    while read -r path; do
        printf '%s\t%s\n' "$section" "$path"
    done <paths
done <files | sort -u >found

awk -F '\t' '
    function pattern(field) {
        gsub(/[][().+]/, "\\\\&", field)
        gsub(/\*/, ".+", field)
        sub(/\\\[\\\]$/, "(\\[\\])?", field) # null in place of a list
        return "^" field "$"
    }
    NR == FNR { row[++n] = $2; of[n] = $1; match_of[n] = pattern($2); next }
    {
        known = 0
        for (i = 1; i <= n; i++)
            if (of[i] == $1 && $2 ~ match_of[i]) seen[i] = known = 1
            else if (of[i] == $1 && index(row[i], $2 "[]") == 1) known = 1 # an empty list
            else if (of[i] == $1 && index(row[i], $2 ".") == 1) known = 1 # an empty object, or null
        if (!known) {
            print "docs/results.md or json.md: no row of `" $2 "` under \"## " $1 "\": add | `" $2 \
                "` | unit | scope | covers | what it is |"
            bad = 1
        }
    }
    END {
        for (i = 1; i <= n; i++)
            if (!seen[i]) {
                print "docs/results.md or json.md: `" row[i] "` under \"## " of[i] \
                    "\": no file that was written has it"
                bad = 1
            }
        exit bad
    }' rows found || fail "docs/results.md or docs/json.md and the files differ"
# the words of report.json, but those of certificates, of which X_low and X_high belong to X
for key in $("$CADRE_BUILD/json_paths" compared/report.json | grep -v '\.certificate\.' |
    sed 's/\[\]//g; y/./\n/' | sed -E 's/_(low|high)$//' | sort -u); do
    if ! grep -qF "\`$key\`" "$CADRE_SRC/docs/report.md" "$page"; then
        echo "docs/report.md: no \`$key\`, and report.json has it" >&2
        touch wrong
    fi
done
[ ! -e wrong ] || fail "docs/results.md and the folders differ"
echo "$(wc -l <found) fields of $(wc -l <files) files are in docs/results.md and docs/json.md"
