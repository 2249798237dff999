#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/update-docs makes the generated parts of the documents again, and only these; --check
# finds what is out of date, a mark without an entry, an entry without a mark, an end or a script,
# and tables of scripts without a mark.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
    echo "FAIL: $*"
    cat "$tmp/out" 2>/dev/null || true
    exit 1
}

# A tree with the documents, what makes them, and a bench that takes no time.
mkdir -p "$tmp/tree/tests/bench"
cd "$tmp/tree"
for file in README.md HACKING.md docs/*.md plugins/*/README.md tools/update-docs tools/check-table; do
    for found in "$CADRE_SRC"/$file; do
        mkdir -p "$(dirname "${found#"$CADRE_SRC/"}")"
        cp "$found" "${found#"$CADRE_SRC/"}"
        chmod u+w "${found#"$CADRE_SRC/"}"
    done
done
printf '#!/bin/sh\necho "| n |"\necho "|---|"\necho "| 7 |"\n' >tests/bench/memory.sh
chmod +x tests/bench/memory.sh
for script in $(tools/update-docs --list | grep -oE 'tests/bench/[a-z_]+\.sh'); do
    [ -x "$CADRE_SRC/$script" ] || fail "no $script"
    [ -e "$script" ] || cp tests/bench/memory.sh "$script"
done
cp -r docs before
export BUILD=$CADRE_BUILD

updates() { tools/update-docs "$@" >"$tmp/out" 2>&1 || fail "update-docs $*"; }
refuses() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    if tools/update-docs "$@" >"$tmp/out" 2>&1; then fail "update-docs $* does not complain"; fi
    grep -qE -- "$pattern" "$tmp/out" || fail "update-docs $*: no '$pattern'"
}

# without a name: both parts that take no time, wherever they were changed
sed -i '/^  exact  /d' docs/configuration.md
sed -i 's/^| L2 | load |/| L2 | here |/' docs/check.md
refuses '^docs/check.md: is not what' --check
grep -q '^docs/configuration.md: is not what' "$tmp/out" || fail "--check: not both"
updates
diff -r docs before || fail "update-docs did not put back what was there"
updates --check

# by name: that table alone, with the day and the machine
updates memory
awk '/^<!-- bench memory -->$/ { on = 1; next } /^<!-- end -->$/ { on = 0 } on' docs/strategies.md \
    >"$tmp/table"
grep -qx '| 7 |' "$tmp/table" || fail "no new table: $(cat "$tmp/table")"
grep -qE '^Made on 20[0-9-]+: [0-9]+ cores, ' "$tmp/table" || fail "no date: $(cat "$tmp/table")"
[ "$(grep -c . "$tmp/table")" -eq 4 ] || fail "more than the new table: $(cat "$tmp/table")"
diff <(sed '/^<!-- bench memory -->$/,/^<!-- end -->$/d' docs/strategies.md) \
    <(sed '/^<!-- bench memory -->$/,/^<!-- end -->$/d' before/strategies.md) ||
    fail "another part of docs/strategies.md has changed"

# what a script that fails would have made is left alone
cp docs/strategies.md "$tmp/kept"
printf '#!/bin/sh\necho half; exit 3\n' >tests/bench/memory.sh
refuses "ended with status 3; its page is as it was" memory
cmp docs/strategies.md "$tmp/kept"

refuses "nothing is called 'nonsense'" nonsense
refuses usage --nonsense
tools/update-docs --list | grep '^bench memory  *docs/strategies.md  *1 min' >/dev/null ||
    fail "--list: $(tools/update-docs --list)"

# scripts and tables
chmod -x tests/bench/bytes.sh
refuses 'tests/bench/bytes.sh of tools/update-docs is not there' --check
chmod +x tests/bench/bytes.sh
printf 'By tests/bench/bytes.sh:\n\n| a | b |\n|---|---|\n' >>README.md
refuses 'a table of tests/bench/bytes.sh without' --check
sed -i '/^By tests.bench/,$d' README.md
updates --check

# marks and entries
printf '<!-- bench new -->\n<!-- end -->\n' >>README.md
refuses 'no entry in tools/update-docs for README.md: <!-- bench new -->' --check
sed -i '/<!-- bench new -->/,$d' README.md
updates --check
sed -i '/^<!-- bench bytes -->$/d' docs/strategies.md
refuses 'no mark for the entry of tools/update-docs: docs/strategies.md: <!-- bench bytes -->' --check
cp "$tmp/kept" docs/strategies.md
sed -i '/^<!-- end -->$/d' docs/check.md
refuses 'no <!-- end --> after' --check
