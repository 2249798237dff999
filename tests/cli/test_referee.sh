#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/referee.sh, which takes hours where it proves something, runs: a line for each try
# and each planted difference, all of them kept, and made once.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

[ "$lean" = 0 ] || skip "a bench of the optimised build"
test_plugin slow_step >/dev/null || exit

referee() { # TRIES PLANTED OUT
    TRIES=$1 PLANTED=$2 LINES_FILE=$tmp/lines "$CADRE_SRC/tests/bench/referee.sh" \
        compare.rounds=1 compare.piece=0.02 >"$tmp/$3" 2>"$tmp/log" ||
        fail "$3: $(cat "$tmp/log")"
}

referee 1 0 first
[ "$(wc -l <"$tmp/lines")" -eq 1 ] || fail "no line of the try: $(cat "$tmp/lines")"
grep -qE '^0	not ranked	[0-9.]+	' "$tmp/lines" || fail "one round ranks: $(cat "$tmp/lines")"
cp "$tmp/lines" "$tmp/before"
referee 1 1 then
[ "$(cut -f 1 "$tmp/lines" | tr '\n' ' ')" = "0 2 5 10 " ] || fail "tried: $(cat "$tmp/lines")"
cmp -s <(head -n 1 "$tmp/lines") "$tmp/before" || fail "the kept try was made again"
grep -qE '^ +10 % +1 +0 +0 +1 ' "$tmp/then" || fail "no row of 10 %: $(cat "$tmp/then")"
