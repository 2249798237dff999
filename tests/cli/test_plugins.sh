#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre plugins`: id, version, ABI, level and path of each plugin, as text and as JSON; the
# level is that of a record of this very file; one that cannot be loaded says why.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
cd "$tmp"
mkdir mine
cp "$CADRE_BUILD/tests/plugins/.libs/bad_descriptor.so" mine/sample.so
export CADRE_PLUGIN_PATH=$tmp/mine

runs list 0 "$cadre" plugins
grep -qE '^id +version +ABI +level +path$' list.out || fail "no heading"
for name in adafactor ddp diloco hsdp mig muon pipeline tensor zero; do
    grep -qE "^org\.cadre\.$name +[0-9.]+ +0\.[0-9]+ +.*/$name\.so$" list.out ||
        fail "$name is not listed"
done
# sample NAME LEVEL: the level of the sample is this one.
sample() {
    runs "$1" 0 "$cadre" plugins
    grep -qE "^[a-z.]+\.sample +[^ ]+ +0\.[0-9]+ +$2 +$tmp/mine/sample\.so$" "$1.out" || {
        cat "$1.out"
        fail "$1: expected the level '$2'"
    }
}
sample none "not checked"

# ---- the record of `cadre check` ----

runs json 0 "$cadre" plugins --json
grep -q '"level": "not checked"' json.out || fail "--json has no level"
grep -q "\"path\": \"$tmp/mine/sample.so\"" json.out || fail "--json has no path"
grep -qE '"abi": "0\.[0-9]+"' json.out || fail "--json has no ABI"
digest=$(sed -n '/"name": "sample"/,/}/s/.*"digest": "\(.*\)".*/\1/p' json.out)
grep -qxE '[0-9a-f]{16}' <<<"$digest" || fail "--json has the digest '$digest'"
echo "{\"level\": \"exact\", \"digest\": \"$digest\", \"checks\": []}" >mine/sample.check.json
sample recorded exact
echo '{"level": "exact", "digest": "0123456789abcdef"}' >mine/sample.check.json
sample other "not checked since it changed"
echo '{"level": ' >mine/sample.check.json
sample damaged "not checked"

# ---- what cannot be loaded ----

CADRE_TEST_BAD=magic runs bad 0 "$cadre" plugins
grep -qE '^sample +cannot be loaded: .*has the magic number' bad.out || fail "no reason"
CADRE_TEST_BAD=magic runs bad-json 0 "$cadre" plugins --json
grep -q '"error": ".*has the magic number' bad-json.out || fail "no reason in --json"

runs many 2 "$cadre" plugins ddp
says many "one argument too many"
[ "$(CADRE_PLUGIN_PATH='' "$cadre" plugins | grep -c sample)" -eq 0 ] || fail "still listed"
"$cadre" help | grep '^  cadre plugins \[--json\]$' >/dev/null || fail "not in the help"
