#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run leaves for reading (run.html), cadre report on existing folders, its archive, and
# comparisons that compare.vary makes.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

train() { # NAME SET...: a run of 6 steps into its folder
    local name=$1
    shift
    settings train.steps=6 train.eval_every=3 "$@"
    runs "$name" 0 "$cadre" train "$tmp/text.ini" --out "$tmp/$name" "${sets[@]}"
}

well_formed() { # FILE
    if command -v xmllint >/dev/null; then
        xmllint --noout "$1" || fail "$1 is not well-formed"
    fi
}

shows() { # NAME PATTERN: in its output or its log
    if ! grep -qE "$2" "$tmp/$1.out" "$tmp/$1.log"; then
        cat "$tmp/$1.out" "$tmp/$1.log"
        fail "$1: no line with '$2'"
    fi
}

# a run leaves its page, as a whole and however it ends; a benchmark and log.page = no leave none
train one
grep -q '<title>Time of a step, by its parts</title>' "$tmp/one/run.html" ||
    fail "one: run.html has no time of a step"
grep -q '>validation<' "$tmp/one/run.html" || fail "one: run.html has no validation loss"
! grep -q '<script' "$tmp/one/run.html" || fail "one: run.html has a script"
well_formed "$tmp/one/run.html"
train none log.page=no
[ ! -e "$tmp/none/run.html" ] || fail "log.page = no leaves a page"
train bench bench.steps=2 bench.windows=1
[ ! -e "$tmp/bench/run.html" ] || fail "a benchmark leaves a page"
# a page that cannot be written is told, and the run has done its work
train full train.steps=3
rm "$tmp/full/run.html"
mkdir -p "$tmp/full/run.html/in"
train full checkpoint.resume=auto
shows full 'no run.html: '
[ -s "$tmp/full/summary.json" ] || fail "full: no summary"

# of one run the same page again
cp "$tmp/one/run.html" "$tmp/first.html"
rm "$tmp/one/run.html"
runs again 0 "$cadre" report "$tmp/one"
shows again "Page: $tmp/one/run.html"
sed 's/[0-9-]* [0-9:]* UTC//' "$tmp/first.html" >"$tmp/a"
sed 's/[0-9-]* [0-9:]* UTC//' "$tmp/one/run.html" | cmp - "$tmp/a" || fail "another page of one"

# several beside each other: another strategy, another seed, a benchmark, and a run that was killed
train two strategy.stack=ddp:2 device.threads=1
train seed run.seed=7
cp -r "$tmp/one" "$tmp/killed"
rm "$tmp/killed/summary.json"
head -n 3 "$tmp/one/metrics.jsonl" >"$tmp/killed/metrics.jsonl"
printf '{"step": 4, "lo' >>"$tmp/killed/metrics.jsonl"
runs many 0 "$cadre" report "$tmp/one" "$tmp/two" "$tmp/seed" "$tmp/bench" "$tmp/killed" \
    --out "$tmp/many" --archive "$tmp/paper.tar"
shows many '^strategy.stack +single +ddp:2 +single '
shows many 'seed is another training than .*, by run.seed'
! grep -q 'two is another training' "$tmp/many.out" || fail "many: ddp:2 is another training"
shows many 'unfinished: 3 of 6 steps'
shows many '1 line of metrics.jsonl is no step'
shows many 'Speed is not ranked: the runs were made apart in time'
for file in report.html report.md report.csv report.json; do
    [ -s "$tmp/many/$file" ] || fail "many: no $file"
done
grep -q 'Training loss less the first run' "$tmp/many/report.html" ||
    fail "many: the page has no differences"
well_formed "$tmp/many/report.html"
grep -q '<a href="../one/run.html">one</a>' "$tmp/many/report.html" || fail "many: no link to a run"
[ -s "$tmp/many/../one/run.html" ] || fail "many: the link leads nowhere"
# the command is in all its forms as a shell takes it
commanded() { # FOLDER ARGUMENT...: its reports name this command of cadre
    python3 - "$@" <<'END' || fail "$1: another command"
import html, json, shlex, sys
folder, wanted = sys.argv[1], ["cadre"] + sys.argv[2:]
command = json.load(open(folder + "/report.json"))["command"]
page = html.unescape(open(folder + "/report.html").read())
if shlex.split(command) != wanted:
    sys.exit(f"found {command}, expected {wanted}")
if f"<dt>command</dt><dd>{command}</dd>" not in page:
    sys.exit("not in report.html")
if f"\n    {command}\n" not in open(folder + "/report.md").read():
    sys.exit("not in report.md")
END
}
commanded "$tmp/many" report "$tmp/one" "$tmp/two" "$tmp/seed" "$tmp/bench" "$tmp/killed" \
    --out "$tmp/many" --archive "$tmp/paper.tar"
quoted=("$tmp/one" "$tmp/two" --json "--out=$tmp/it's \$HOME & more")
runs quoted 0 "$cadre" report "${quoted[@]}"
commanded "$tmp/it's \$HOME & more" report "${quoted[@]}"
runs figures 0 "$cadre" report "$tmp/one" "$tmp/two" --out "$tmp/figures" --json
python3 -c '
import json, sys
said, kept = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
said["date"] = kept["date"]
sys.exit(said != kept or [run["name"] for run in said["runs"]] != ["one", "two"])' \
    "$tmp/figures.out" "$tmp/figures/report.json" || fail "--json is not what report.json has"
runs figure 0 "$cadre" report "$tmp/one" --json
grep -q '"kind": "runs"' "$tmp/figure.out" || fail "--json of one run: $(cat "$tmp/figure.out")"
[ "$(wc -l <"$tmp/many/report.csv")" -eq 6 ] || fail "many: report.csv has not 6 lines"
tar -tf "$tmp/paper.tar" >"$tmp/listed" || fail "tar does not list the archive"
for file in README.txt report/report.html runs/1-one/config.ini runs/4-bench/bench.json; do
    grep -qx "paper/$file" "$tmp/listed" ||
        fail "the archive lacks $file: $(cat "$tmp/listed")"
done
! grep -qE 'safetensors|trace' "$tmp/listed" || fail "the archive has checkpoints or traces"

# what is refused, in one line each and before anything is written
refused() { # NAME PATTERN ARGUMENT...
    runs "$1" 2 "$cadre" report "${@:3}"
    says "$1" "$2"
}
refused nothing 'usage: cadre report RUN' --out "$tmp/never"
refused folder 'is no run: expected a folder with metrics.jsonl' "$tmp/one" "$tmp/cache" --out "$tmp/never"
refused twice 'is given twice' "$tmp/one" "$tmp/one/" --out "$tmp/never"
refused gz 'writes archives without compression' "$tmp/one" --archive "$tmp/x.tar.gz" --out "$tmp/never"
[ ! -e "$tmp/never" ] || fail "a refused report leaves a folder"
mkdir "$tmp/mine"
echo mine >"$tmp/mine/report.html"
refused mine "mine/report.html' is no file of a report" "$tmp/one" "$tmp/two" --out "$tmp/mine"
[ "$(cat "$tmp/mine/report.html")" = mine ] || fail "a file of others was replaced"
# a folder of others is left as it is; that of an earlier report is written into again
mkdir "$tmp/others"
echo mine >"$tmp/others/thesis.tex"
refused others "others' holds other files .'thesis.tex'.; expected .* one with a report: .*others/report'" \
    "$tmp/one" "$tmp/two" --out "$tmp/others"
refused others_page "holds other files .'thesis.tex'." "$tmp/one" --out "$tmp/others"
[ "$(ls -A "$tmp/others")" = thesis.tex ] || fail "a refused report left files: $(ls "$tmp/others")"
refused run "holds a run .metrics.jsonl., and this is a report" "$tmp/one" "$tmp/two" --out "$tmp/two"
mkdir "$tmp/page_of_others"
echo mine >"$tmp/page_of_others/run.html"
refused page_of_others "run.html' is no file of a report" "$tmp/one" --out "$tmp/page_of_others"
runs anew 0 "$cadre" report "$tmp/one" --out "$tmp/anew"
echo mine >"$tmp/anew/notes.txt"
runs anew 0 "$cadre" report "$tmp/two" --out "$tmp/anew"
runs anew 0 "$cadre" report "$tmp/one" "$tmp/two" --out "$tmp/anew"
runs anew 0 "$cadre" report "$tmp/two" "$tmp/one" --out "$tmp/anew"

# a comparison in one line: each combination, its losses over seeds, and the best one
cat >>"$tmp/text.ini" <<END
[compare]
vary = "strategy.stack: single | ddp:2; run.seed: 1 2"
[log]
page = no
END
printf '%s\n' single_seed-1 single_seed-2 ddp-2_seed-1 ddp-2_seed-2 >"$tmp/want"
settings train.steps=6 compare.time=no compare.perturb=no device.threads=1
runs listed 0 "$cadre" compare "$tmp/text.ini" --list "${sets[@]}"
cut -f 1 "$tmp/listed.out" | cmp - "$tmp/want" || fail "vary makes other runs"
runs vary 0 "$cadre" compare "$tmp/text.ini" --out "$tmp/vary" "${sets[@]}" \
    --archive "$tmp/vary.tar"
commanded "$tmp/vary" compare "$tmp/text.ini" --out "$tmp/vary" "${sets[@]}" \
    --archive "$tmp/vary.tar"
tar -tf "$tmp/vary.tar" >"$tmp/listed" || fail "tar does not list the archive of a comparison"
for file in comparison-1/report.html comparison-1/certificate-ddp-2_seed-2.json runs/1-single_seed-1/config.ini; do
    grep -qx "vary/$file" "$tmp/listed" ||
        fail "the archive lacks $file: $(cat "$tmp/listed")"
done
# what an archive unpacks to: inspected, drawn from, and packed again with all that it has
mkdir "$tmp/unpacked"
tar -C "$tmp/unpacked" -xf "$tmp/vary.tar"
tar -C "$tmp/unpacked" -xf "$tmp/paper.tar"
runs packed 0 "$cadre" inspect "$tmp/vary.tar"
shows packed "^archive of runs, packed: .tar -xf $tmp/vary.tar. makes the folder 'vary'"
runs inspected 0 "$cadre" inspect "$tmp/unpacked/vary"
shows inspected '^archive of 4 runs, written by cadre [0-9]'
shows inspected "^  comparison-1: a comparison's report and 4 certificates; .cadre inspect $tmp/unpacked/vary/comparison-1"
shows inspected '^  runs/1-single_seed-1: single, finished$'
shows inspected '^  runs/4-ddp-2_seed-2: ddp:2, finished$'
runs certificates 0 "$cadre" inspect "$tmp/unpacked/vary/comparison-1"
runs inspected 0 "$cadre" inspect "$tmp/unpacked/paper"
shows inspected '^archive of 5 runs, written by cadre'
shows inspected '^  report: the report on them'
shows inspected '^  runs/5-killed: single, unfinished: 3 of 6 steps$'
runs drawn 0 "$cadre" report "$tmp/unpacked/vary" --out "$tmp/drawn" --archive "$tmp/again.tar"
runs direct 0 "$cadre" report "$tmp/vary" --out "$tmp/direct"
table() { sed '/^$/q' "$tmp/$1.out"; }
diff <(table direct) <(table drawn) || fail "another table of what was unpacked"
tar -tf "$tmp/again.tar" | sed 's/^again/vary/' | grep -v '^vary/report/' |
    diff - "$tmp/listed" || fail "packed again the archive has other files"
refused tar "vary.tar' is a packed archive of runs: unpack it by .tar -xf" "$tmp/vary.tar" --out "$tmp/never"
rm -r "$tmp/unpacked/vary/runs"
runs half 2 "$cadre" inspect "$tmp/unpacked/vary"
says half "is an archive of runs without runs/: unpack it again"
runs archive 2 "$cadre" compare "$tmp/text.ini" --list --archive "$tmp/never.tar"
says archive 'archive packs a report'
runs gzip 2 "$cadre" compare "$tmp/text.ini" --out "$tmp/never" --archive "$tmp/never.tgz"
says gzip 'writes archives without compression'
[ ! -e "$tmp/never" ] || fail "a refused comparison leaves a folder"
shows vary '^single +2 +[0-9.]+ \[[0-9., ]+\] +[0-9.]+ \['
shows vary '^The lowest validation loss is [0-9.]+, of (single|ddp-2)_seed-[12]'
shows vary "^single_seed-2 has the baseline's options with run.seed = 2: "
shows vary '^ddp-2_seed-2 .* (exact|within)( |$)'
awk '/"name": "ddp-2_seed-2"/ { its = 1 } its && /"equal_to"/ { print; exit }' "$tmp/vary/report.json" |
    grep -q '"single_seed-2"' ||
    fail "vary: ddp-2_seed-2 is judged against another run"
grep -q '"seeds": 2' "$tmp/vary/report.json" || fail "report.json has no settings"
grep -q 'Losses over seeds' "$tmp/vary/report.html" || fail "report.html has no losses over seeds"
well_formed "$tmp/vary/report.html"
# its folder is what cadre report takes too, and is not overwritten
runs of_vary 0 "$cadre" report "$tmp/vary" --out "$tmp/of_vary"
[ "$(wc -l <"$tmp/of_vary/report.csv")" -eq 5 ] || fail "of_vary: not all runs of the comparison"
refused over "is of another report" "$tmp/vary" --out "$tmp/vary"
# nor is the page of another run, and runs and comparisons do not share a folder
cp "$tmp/none/summary.json" "$tmp/before"
cp "$tmp/one/run.html" "$tmp/page"
refused page "is the folder of another run than" "$tmp/none" --out "$tmp/one"
cmp "$tmp/page" "$tmp/one/run.html" || fail "the page of another run is replaced"
runs in_run 2 "$cadre" compare "$tmp/text.ini" --out "$tmp/none" --set 'compare.vary=run.seed: 1 2'
says in_run "holds a run .metrics.jsonl., and this is a comparison"
cmp "$tmp/before" "$tmp/none/summary.json" || fail "a refused comparison changes a run"
runs in_comparison 2 "$cadre" train "$tmp/text.ini" --out "$tmp/vary"
says in_comparison "holds a comparison .comparison.ini., and this is a run"
[ ! -e "$tmp/vary/metrics.jsonl" ] || fail "a run in the folder of a comparison"
# --set may give it, and errors name it
settings train.steps=6 'compare.vary=optim.lr: 1e-3 2e-3'
runs set 0 "$cadre" compare "$tmp/text.ini" --list "${sets[@]}"
[ "$(cut -f 1 "$tmp/set.out" | tr '\n' ' ')" = "lr-1e-3 lr-2e-3 " ] || fail "set: $(cat "$tmp/set.out")"
runs wrong 2 "$cadre" compare "$tmp/text.ini" --list --set 'compare.vary=optim.lr'
says wrong "command line: compare.vary: found 'optim.lr', expected section.key:"
runs key 2 "$cadre" compare "$tmp/text.ini" --list --set 'compare.vary=optim.rl: 1 2'
says key 'optim.rl'
echo "ok"
