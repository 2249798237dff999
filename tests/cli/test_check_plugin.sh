#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre check PLUGIN`: exit status 0, 3 and 2, what --only, --seed, --reproduce, --fuzz, --waive
# and --list do, and the same verdicts as TAP, JSON, JUnit and HTML. Which check finds which
# fault is tests/check/planted/test_planted.sh's; here are a few ids that take no time.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
planted=$CADRE_BUILD/tests/check/planted
right=$planted/base_data.so
wrong=$planted/planted_15.so # sums every gradient twice: K2
unset CADRE_PLUGIN_PATH
export TMPDIR=$tmp/kit
mkdir "$TMPDIR"
cd "$tmp"

# check NAME STATUS ARGUMENT...: as `runs`; the kit leaves nothing behind.
check() {
    local name=$1 status=$2
    shift 2
    runs "$name" "$status" "$cadre" check "$@"
    [ -z "$(ls "$TMPDIR")" ] || fail "$name left $(ls "$TMPDIR")"
}

# has NAME PATTERN: a line of the output has it.
has() {
    grep -qE -- "$2" "$1.out" || {
        cat "$1.out" "$1.log"
        fail "$1: no line with '$2'"
    }
}

# results NAME: the ids of its lines, with "!" before what failed.
results() {
    sed -nE 's/^ok [0-9]+ - ([A-Z][0-9]+) .*/\1/p; s/^not ok [0-9]+ - ([A-Z][0-9]+) .*/!\1/p' \
        "$1.out" | tr '\n' ' '
}

# ---- what passes, what fails ----

check pass 0 "$right" --only L1,D1,K2
[ "$(head -n 2 pass.out)" = "$(printf 'TAP version 14\n1..3')" ] || fail "no TAP"
[ "$(results pass)" = "L1 D1 K2 " ] || fail "pass: $(results pass)"
has pass '^# 3 pass, 0 fail: reaches no level of cadre.strategy/0\.[0-9]+, as checks were left out$'
[ ! -s pass.log ] || fail "pass: $(cat pass.log)"

check fail 3 "$wrong" --only K2,L1,D1
says fail "1 check of '$wrong' failed: K2$"
[ "$(results fail)" = "L1 D1 !K2 " ] || fail "fail: $(results fail)"
has fail '^  status: "fail"$'
has fail '^  text: ".*wte\.weight.*"$'
has fail "^  reproduce: \"cadre check $wrong --only K2 --seed 1\"$"
has fail '^  see: "docs/check\.md"$'
has fail '^# 2 pass, 1 fail: reaches no level of cadre\.strategy/0\.[0-9]+$'

# What it says to repeat fails again, alone, in the same words.
runs again 3 sh -c "PATH=$CADRE_BUILD:\$PATH; $(sed -nE 's/^  reproduce: "(.*)"$/\1/p' fail.out)"
[ "$(grep '^  text' again.out)" = "$(grep '^  text' fail.out)" ] || fail "not repeated"

# A level needs all checks of it; by short name as by path, and a group by its name.
check level 0 "$right" --only load,descriptor --json level.json
has level '^# 1[0-9] pass, 0 fail: conforms to cadre.strategy/0\.[0-9]+ level loadable$'
mkdir named
cp "$right" named
CADRE_PLUGIN_PATH=$tmp/named check named 0 base_data --only l1 --json named/base_data.check.json
[ "$(results named)" = "L1 " ] || fail "named: $(results named)"

# A fault by chance: the trial that fails is named, and is one trial.
check fuzz 3 "$wrong" --fuzz 1s
seed=$(sed -nE '0,/again: --reproduce/s/.*again: --reproduce ([0-9]+).*/\1/p' fuzz.out)
[ -n "$seed" ] || fail "fuzz: no trial is named"
check reproduced 3 "$wrong" --reproduce "$seed"
[ "$(results reproduced)" = "!Z1 " ] || fail "reproduced: $(results reproduced)"
has reproduced "again: --reproduce $seed"
check one 0 "$right" --reproduce 5
has one '^  # 1 trials$'

# ---- files ----

check files 3 "$wrong" --only L1,K2 --json f.json --junit f.xml --html f.html
[ "$(tr -d ' \n' <f.json | sed -E 's/"(text|digest|build|date)":"([^"\\]|\\.)*"/"\1":"."/g')" = \
    '{"schema_version":1,"build":".","date":".","level":"none","digest":".","checks":[{"id":"L1","group":"load","status":"pass","text":"."},{"id":"K2","group":"contract","status":"fail","text":"."}]}' ] ||
    fail "the JSON is $(cat f.json)"
grep -q '"level": "loadable"' level.json || fail "the JSON has another level"
grep -qF "<testsuite name=\"cadre check $wrong\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\">" \
    f.xml || fail "the JUnit is $(cat f.xml)"
grep -q '<td class="bad">fail</td>' f.html || fail "the HTML has no failure"
if command -v python3 >/dev/null; then
    python3 - <<'PY' || fail "a file is not well-formed"
import json, xml.etree.ElementTree as tree
json.load(open("f.json"))
tree.parse("f.xml")
tree.parse("f.html")
PY
fi

# `cadre plugins` takes the JSON beside the file as its record, while the file is that one.
export CADRE_PLUGIN_PATH=$tmp/named
check record 0 base_data --only load,descriptor --json named/base_data.check.json
runs plugins 0 "$cadre" plugins
has plugins '^org\.cadre\.test\.base_data .* loadable +.*/named/base_data\.so$'
echo >>named/base_data.so
runs plugins 0 "$cadre" plugins
has plugins 'not checked since it changed +.*/named/base_data\.so$'
unset CADRE_PLUGIN_PATH

# ---- waivers ----

printf '# until it is mended\nK2 sums twice # on purpose\nL1 is never needed\n' >waivers
check waived 0 "$wrong" --only L1,K2,D1 --waive waivers --json waived.json
has waived '^not ok 3 - K2 .* waived: sums twice \\# on purpose \(fail: .*wte\.weight'
has waived '^  # its waiver is not needed \(is never needed\): remove it from the file$'
has waived '^# 2 pass, 1 waived, 0 fail: '
grep -q '"status": "waived"' waived.json || fail "the JSON has no waiver"
printf 'L1 another\n' >waivers
check others 3 "$wrong" --only K2 --waive waivers
printf 'K2\n' >waivers
check unreasoned 2 "$wrong" --only K2 --waive waivers
says unreasoned "waivers:1: the waiver of K2 has no reason"

# ---- the list ----

check list 0 --list
[ "$(grep -cE '^  [A-Z][0-9]+ ' list.out)" -gt 40 ] || fail "the list is short"
has list '^equality \(exact\)$'
has list '^  K2   gradients and redistributions are the sums'

# ---- wrong input: one line, and nothing is carried out ----

# bad PATTERN ARGUMENT...
bad() {
    local pattern=$1
    shift
    check bad 2 "$@"
    says bad "$pattern"
    [ ! -s bad.out ] || fail "check $*: refused, and prints"
}
bad 'usage: cadre check PLUGIN '
bad "there is no plugin 'nosuch'" nosuch
bad "there is no file '\./no\.so'" ./no.so
bad "'base\.so' is not a plugin name: .*\./my\.so" base.so
bad "no check or group 'K22', the nearest is 'K2'" "$right" --only K22
bad "names no check" "$right" --only ''
bad 'unknown flag .--out.' "$right" --out x
bad "'more' is one argument too many" "$right" more
bad 'needs a value' "$right" --only
for seed in 1e3 +1 ' 1' -1; do
    bad 'seed .*: expected a whole number' "$right" --seed "$seed"
done
bad 'reproduce -1: expected a whole number' "$right" --reproduce -1
bad 'fuzz 10: expected a time' "$right" --fuzz 10
bad 'fuzz 0s: expected a time' "$right" --fuzz 0s
bad "cannot open '/no/such'" "$right" --waive /no/such
bad 'only' "$right" --case K2

# A file that is no plugin, one that is cut off, a folder: the check says so, and what cannot
# be asked then is skipped.
echo "#!/bin/sh" >script.so
head -c 5000 "$right" >cut.so
mkdir folder.so
for file in script cut folder; do
    check $file 3 ./$file.so --only L1,L2,L6,D5,D6,K2
    [ "$(results $file)" = "!L1 L2 L6 D5 D6 K2 " ] || fail "$file: $(results $file)"
    has $file '^ok 2 - L2 .* # SKIP unsupported: needs L1 \('
    has $file '^ok 6 - K2 .* # SKIP unsupported: needs L1 \('
done
has script "text: \".*'\./script\.so' is not an ELF file"
check unfit 3 ./script.so --only descriptor
says unfit 'failed: .*D6'

# A report that cannot be written is an error, and found before anything is tried.
check unwritten 1 "$right" --only L1 --json /no/such/file.json
says unwritten "cannot write '/no/such/file.json'"
! grep '^ok' unwritten.out || fail "the report was tried after the checks"
check folder-there 1 "$right" --only L1 --html "$tmp"
says folder-there "cannot write '.*': it is a folder"
"$cadre" help | grep '^  cadre check PLUGIN' >/dev/null || fail "not in the help"

# ---- a plugin that ends the process while it is opened ends that check's alone ----

bad_one=$(test_plugin misbehave)
for fault in segfault abort exit quit; do
    CADRE_TEST_MISBEHAVE=$fault check $fault 3 "$bad_one" --only L1,L6,D6 --json $fault.json
    [ "$(results $fault)" = "L1 !L6 D6 " ] || fail "$fault: $(results $fault)"
    [ "$(grep -c '"status": "crash"' $fault.json)" -eq 1 ] || fail "$fault is no crash"
    has $fault '^ok 3 - D6 .* # SKIP unsupported: needs L6 \('
done
CADRE_TEST_MISBEHAVE=exit check unasked 3 "$bad_one" --only D1,D6,K1
[ "$(results unasked)" = "!D1 !D6 K1 " ] || fail "unasked: $(results unasked)"
[ "$lean" = 1 ] || has segfault 'text: "ended by signal 11 ' # a sanitizer's handler exits
has quit 'text: "the process ended with status 0 before the check was over'
