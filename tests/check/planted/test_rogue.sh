#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre check` comes to its end, with a verdict for each check and no process or folder left,
# whatever a plugin does to its process: rogue.c.
# shellcheck source=tests/cli/train_lib.sh
. "$(dirname "$0")/../../cli/train_lib.sh"
plugin=$CADRE_BUILD/tests/check/planted/rogue.so
unset CADRE_PLUGIN_PATH
export TMPDIR=$tmp/kit CADRE_TEST_ROGUE
let_crash
mkdir "$TMPDIR"
cd "$tmp"

fail() {
    cat out
    echo "FAIL: $1"
    exit 1
}

# rogue WHAT STATUS "CHECKS [FLAG]" RESULTS [PATTERN]: how the checks end, "!" before one that fails.
rogue() {
    local rc=0 found left
    CADRE_TEST_ROGUE=$1
    # shellcheck disable=SC2086
    CADRE_TEST_ROGUE_OF=$tmp "$cadre" check "$plugin" --only $3 </dev/null >out 2>&1 || rc=$?
    found=$(sed -nE 's/^ok [0-9]+ - ([A-Z][0-9]+) .*/\1/p; s/^not ok [0-9]+ - ([A-Z][0-9]+) .*/!\1/p' \
        out | tr '\n' ' ')
    [ $rc -eq "$2" ] || fail "$1: status $rc, expected $2"
    [ "$found" = "$4 " ] || fail "$1: $found, expected $4"
    [ -z "${5:-}" ] || grep -qE "^  text: \".*$5" out || fail "$1: no text with '$5'"
    [ -z "$(ls "$TMPDIR")" ] || fail "$1: left $(ls "$TMPDIR")"
    left=$(grep -lszxF "CADRE_TEST_ROGUE_OF=$tmp" /proc/[0-9]*/environ || true)
    [ -z "$left" ] || fail "$1: left the processes $left"
}

rogue none 0 T4,C7,K1,E1 "C7 T4 K1 E1"
rogue segfault 3 C7,E1 "!C7 !E1" "rogue' in bind: rank [01] was killed by signal 11"
rogue exit 3 C7,E1 "!C7 !E1" "rogue' called exit in bind"
rogue _exit 3 C1,K1 "C1 !K1" "ended with status 0 before the check was over"
rogue close 3 C1,C7,K1 "C1 !C7 K1" "closes [0-9]+ files of the host"
rogue threads 3 C1,C7,K1 "C1 !C7 K1" "leaves [0-9]+ threads behind"
rogue fork 3 T4,K1 "!T4 K1" "starts a process and does not wait"
rogue print 0 K1,K2 "K1 K2"
rogue group 3 D1,K1 "D1 !K1" "ended by signal 9"
# at the same time, as each takes all of its time
CADRE_TEST_ROGUE=stop TMPDIR=$tmp "$cadre" check "$plugin" --only K1 --quick >stopped 2>&1 || true &
rogue spin 3 "K1 --quick" "!K1" "did not end within [0-9]+ s"
wait
grep -qE 'text: "did not end within [0-9]+ s"' stopped || fail "stop: $(cat stopped)"
