#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/results.md against the files: runs that together leave every file are trained, and every
# key of every file has a row with unit, scope and what it covers; every row is of a key that
# some file has. report.json has a page of its own, docs/report.md, and in it the keys of
# summary.json; config.json is Hugging Face's.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
page=$CADRE_SRC/docs/results.md

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

printf '[compare]\nbaseline = one\n[run:one]\n[run:two]\nstrategy.stack = ddp:2\n' \
    >>"$tmp/text.ini"
compare compared 0 compare.time=yes compare.rounds=1 compare.piece=0.01 train.steps=4 \
    compare.perturbations=2

# what is printed, and the verdicts on a plugin
mkdir printed checked broken
cp "$(test_plugin bad_descriptor)" broken/sample.so
for run in run class; do
    "$cadre" eval "$run/config.ini" --json 2>/dev/null >>"printed/cadre eval --json"
done
"$cadre" doctor --json >"printed/cadre doctor --json"
CADRE_TEST_BAD=magic CADRE_PLUGIN_PATH=$tmp/broken "$cadre" plugins --json >"printed/cadre plugins --json"
runs check 0 "$cadre" check ddp --only L1 --json checked/NAME.check.json

# ---- the page ----

# "SECTION<tab>FIELD" for every field of the tables; rows that are not whole are told.
awk -F ' *\\| *' -v bad="$tmp/bad" '
    /^## / { section = substr($0, 4); if (section !~ /\.jsonl?( |$)|--json$/) section = ""; next }
    section == "" || !/^\| `/ { next }
    {
        if (NF != 7 || $3 == "" || $6 == "" ||
            $4 !~ /^(rank 0|each rank|all ranks|run)$/ ||
            $5 !~ /^(step|run|session|-)$/)
            print "docs/results.md:" FNR ": expected | `field` | unit | rank 0, each rank, all ranks or run | step, run, session or - | what it is |" >bad
        n = split($2, field, /`,? ?`?/)
        for (i = 1; i <= n; i++)
            if (field[i] != "") print section "\t" field[i]
    }' "$page" >"$tmp/rows"
if [ -s "$tmp/bad" ]; then
    cat "$tmp/bad"
    exit 1
fi

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

find run class pairs bench sweep lost cut compared printed checked -type f | sort >files
while read -r file; do
    name=${file##*/}
    case $file in
    */certificate-*.json) name=certificate-NAME.json ;;
    */trace/rank-*.json) name=trace/rank-N.json ;;
    */status/rank-*) name=status/rank-NNNNN ;;
    */events.out.tfevents.*) name='events.out.tfevents.*' ;;
    */FILE.prom) name=log.openmetrics ;;
    esac
    if ! grep -qF "\`$name\`" "$page" "$CADRE_SRC/docs/checkpoints.md"; then
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
            print "docs/results.md: no row of `" $2 "` under \"## " $1 "\": add | `" $2 \
                "` | unit | scope | covers | what it is |"
            bad = 1
        }
    }
    END {
        for (i = 1; i <= n; i++)
            if (!seen[i]) {
                print "docs/results.md: `" row[i] "` under \"## " of[i] \
                    "\": no file that was written has it"
                bad = 1
            }
        exit bad
    }' rows found || fail "docs/results.md and the files differ"
# the words of report.json, but those of certificates, of which X_low and X_high belong to X
for key in $("$CADRE_BUILD/json_paths" compared/report.json | grep -v '\.certificate\.' |
    sed 's/\[\]//g; y/./\n/' | sed -E 's/_(low|high)$//' | sort -u); do
    if ! grep -qF "\`$key\`" "$CADRE_SRC/docs/report.md" "$page"; then
        echo "docs/report.md: no \`$key\`, and report.json has it" >&2
        touch wrong
    fi
done
[ ! -e wrong ] || fail "docs/results.md and the folders differ"
echo "$(wc -l <found) fields of $(wc -l <files) files are in docs/results.md"
