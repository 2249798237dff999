#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre check --quick` finds nothing wrong with the plugins that Cadre ships, and nothing that
# it could not carry out; a whole check records the level, a quick one none.
# CADRE_TEST_LEAN=1: two of them.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
unset CADRE_PLUGIN_PATH
cd "$tmp"
plugins="ddp diloco hsdp mig muon pipeline tensor zero"
[ "${CADRE_TEST_LEAN:-0}" = 0 ] || plugins="mig zero"

for name in $plugins; do
    mkdir "$name"
    cp "$CADRE_BUILD/plugins/$name/.libs/$name.so" "$name"
    runs "$name" 0 "$cadre" check "./$name/$name.so" --quick
    grep -qE ', 0 fail: conforms to cadre\.strategy/[0-9.]+ level correct;' "$name.out" || {
        cat "$name.out"
        fail "$name is not of the level that a quick check can find"
    }
    [ ! -e "$name/$name.check.json" ] || fail "$name: a quick check has recorded a level"
    echo "$name: $(tail -n 1 "$name.out")"
done

# ---- a whole check records its level, for `cadre plugins` ----

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
