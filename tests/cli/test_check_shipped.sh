#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre check --quick` finds nothing wrong with the plugins that Cadre ships, and nothing that
# it could not carry out; a whole check records the level, a quick one none.
# CADRE_TEST_LEAN=1: two of them. CADRE_TEST_SLOW=2: whole checks, whose levels are those of
# docs/strategies.md.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
unset CADRE_PLUGIN_PATH
cd "$tmp"
plugins="adafactor ddp diloco hsdp mig muon pipeline tensor zero"
[ "${CADRE_TEST_LEAN:-0}" = 0 ] || plugins="mig zero"

# has_its_level NAME: a whole check finds the level that its row of docs/strategies.md names.
has_its_level() {
    local promised
    promised=$(awk -F ' *[|] *' -v name="$1" '
        $2 ~ "^`" name "[:`]" { level = $6; sub(/:.*/, "", level); print level }' \
        "$CADRE_SRC/docs/strategies.md")
    [ -n "$promised" ] || fail "docs/strategies.md names no level of $1"
    runs "$1" 0 "$cadre" check "./$1/$1.so" --json "$1.json"
    grep -qE "\"level\": *\"$promised\"" "$1.json" || {
        cat "$1.out"
        fail "docs/strategies.md says that $1 is $promised"
    }
}

for name in $plugins; do
    mkdir "$name"
    cp "$CADRE_BUILD/plugins/$name/.libs/$name.so" "$name"
    if [ "$full" = 1 ]; then
        has_its_level "$name"
        continue
    fi
    runs "$name" 0 "$cadre" check "./$name/$name.so" --quick
    grep -qE ', 0 fail: conforms to cadre\.strategy/[0-9.]+ level correct;' "$name.out" || {
        cat "$name.out"
        fail "$name is not of the level that a quick check can find"
    }
    [ ! -e "$name/$name.check.json" ] || fail "$name: a quick check has recorded a level"
    echo "$name: $(tail -n 1 "$name.out")"
done

# ---- a whole check records its level, for `cadre plugins` ----

rm -f mig/mig.check.json
runs whole 0 "$cadre" check ./mig/mig.so
grep -q "^# recorded in '\./mig/mig\.check\.json', for \`cadre plugins\`$" whole.out || fail "not recorded"
CADRE_PLUGIN_PATH=$tmp/mig runs plugins 0 "$cadre" plugins
grep -qE "^org\.cadre\.mig .* correct +$tmp/mig/mig\.so$" plugins.out || {
    cat plugins.out
    fail "mig has no level"
}
# one that cannot be written is a note
rm mig/mig.check.json
mkdir mig/mig.check.json
runs unwritten 0 "$cadre" check ./mig/mig.so
grep -q "^# the level was not recorded: .*mig\.check\.json" unwritten.out || fail "no note"
