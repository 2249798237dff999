#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/referee.sh, which takes hours where it proves something, runs: a line for each try
# and each planted difference, all of them kept, and made once. tests/bench/quickstart_busy.sh
# finds what is false in the tries that it kept.
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

# TRY name verdict speedup low high fastest equal; try 0 is the truth
truth='0 one no_difference_shown 1 null null two true
0 two faster 1.5 1.4 1.6 two true
0 like no_difference_shown 1 0.98 1.005 two true'
busy() { # STATUS OUT LINE...: judges these tries
    local status=0
    printf '%s\n' "$truth" "${@:3}" >"$tmp/kept"
    TRIES=0 LINES_FILE=$tmp/kept "$CADRE_SRC/tests/bench/quickstart_busy.sh" >"$tmp/$2" 2>&1 ||
        status=$?
    [ "$status" -eq "$1" ] || fail "$2: status $status, expected $1: $(cat "$tmp/$2")"
}
busy 0 right '1 one no_difference_shown 1 null null two true' '1 two faster 1.55 1.3 1.8 two true' \
    '1 like no_difference_shown 1.1 0.9 1.3 two true' '2 two not_ranked 9 8 10 null true'
grep -q '^2 tries, 0 false statements, 2 shown$' "$tmp/right" || fail "right: $(cat "$tmp/right")"
busy 1 not-faster '1 like faster 1.002 1.001 1.004 null true'
grep -q '^try 1: like is not faster' "$tmp/not-faster" || fail "not-faster: $(cat "$tmp/not-faster")"
busy 1 slower '1 two slower 0.9 0.8 0.95 null true'
grep -q '^1 tries, 2 false statements' "$tmp/slower" || fail "slower: $(cat "$tmp/slower")"
busy 1 winner '1 like faster 1.003 0.99 1.02 like true'
grep -q 'like is not the fastest: two is' "$tmp/winner" || fail "winner: $(cat "$tmp/winner")"
busy 1 unequal '1 two not_ranked null null null null false'
