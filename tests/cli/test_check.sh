#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What ./check does with tests that fail: each runs once more, alone; it counts as passed but
# is named if it passes then, and fails if it does not. Nothing else is tried again.
set -euo pipefail
unset MAKEFLAGS MAKEOVERRIDES MFLAGS
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
export work=$top/build-check
# shellcheck source=tools/check.d/tests
. "$CADRE_SRC/tools/check.d/tests"

fail() {
    echo "FAIL: $*"
    cat "$work/results" "$work/log"
    exit 1
}

# A build folder whose `make check` runs scripts and writes what automake's does.
dir=$work/tree
mkdir -p "$dir/sub"
cat >"$dir/Makefile" <<'MAKE'
TESTS = good sub/unsteady skipped
check: built
	@./harness $(TESTS)
built:
	@$(BUILT)
MAKE
cat >"$dir/harness" <<'SH'
#!/bin/sh
status=0 n=0
echo "$*" >>runs
for test in "$@"; do
    n=$((n + 1)) result=PASS
    [ "$test" = lost ] && continue
    ./$test >$test.log 2>&1
    case $? in
    0) ;;
    77) result=SKIP ;;
    *) result=FAIL status=1 ;;
    esac
    echo ":global-test-result: $result" >$test.trs
done
echo "# TOTAL: $n" >test-suite.log
exit $status
SH
printf '#!/bin/sh\necho fine\n' >"$dir/good"
printf '#!/bin/sh\necho broken again\nexit 1\n' >"$dir/bad"
printf '#!/bin/sh\necho SKIP: no reason; exit 77\n' >"$dir/skipped"
printf '#!/bin/sh\n[ -e met ] && echo well && exit 0\ntouch met\necho unlucky; exit 1\n' \
    >"$dir/sub/unsteady"
chmod +x "$dir/harness" "$dir/good" "$dir/bad" "$dir/skipped" "$dir/sub/unsteady"

# ends STATUS [MAKE-ARGUMENT]...: what build_and_test of ./check does, and its status.
ends() {
    local want=$1 status=0
    shift
    find "$dir" \( -name '*.log' -o -name '*.trs' -o -name met -o -name runs \) -delete
    : >"$work/results"
    make -C "$dir" check "$@" >"$work/log" 2>&1 ||
        once_more "$dir" "$@" >>"$work/log" 2>&1 || status=$?
    tests_of "$dir" >>"$work/log"
    [ "$status" -eq "$want" ] || fail "$* ended with $status, expected $want"
}

has() { # LINE: of results, with blanks for tabs
    tr '\t' ' ' <"$work/results" | grep -xE "$1" >/dev/null || fail "no result '$1'"
}

ends 0
has 'PASS tree:good '
has 'PASS tree:unsteady '
has 'SKIP tree:skipped no reason'
has 'FLAKY tree:unsteady tree/sub/unsteady.first.log'
[ "$(counted FAIL) $(counted PASS) $(counted FLAKY)" = "0 2 1" ] || fail "other counts"
[ "$(cat "$dir/sub/unsteady.first.log")" = unlucky ] || fail "the first log is lost"
[ "$(tail -n 1 "$dir/runs")" = sub/unsteady ] || fail "it did not run alone"
summary | grep '^flaky: .*tree:unsteady: failed first, passed when run again; log kept as' >/dev/null ||
    fail "the summary does not name it"

ends 1 TESTS="bad sub/unsteady good"
has 'FAIL tree:bad .*/bad.log'
has 'PASS tree:unsteady '
has 'FLAKY tree:unsteady .*'
[ "$(counted FAIL) $(counted FLAKY)" = "1 1" ] || fail "a test that fails twice is no failure"
[ "$(wc -l <"$dir/runs")" -eq 3 ] || fail "more than one further run each"
summary | grep '^FAILED: .*tree:bad' >/dev/null || fail "the summary does not name what failed"

# the report of a sanitizer is shown, however much is said after it
printf '#!/bin/sh\necho first; echo "WARNING: ThreadSanitizer: data race"; seq 100 199; exit 1\n' \
    >"$dir/bad"
ends 1 TESTS=bad
grep 'WARNING: ThreadSanitizer: data race' "$work/log" >/dev/null && grep '^    108$' "$work/log" >/dev/null &&
    ! grep -E '^    (first|109|179)$' "$work/log" >/dev/null && grep '^    180$' "$work/log" >/dev/null ||
    fail "the end of a log"

# a build that fails, and a test without a result
ends 1 BUILT=false
[ ! -e "$dir/runs" ] || fail "a build that failed was tried again"
ends 1 TESTS="sub/unsteady lost"
[ "$(counted FLAKY)" -eq 0 ] || fail "lost: a test that has no result was overlooked"

# temporary files go into memory where there is room, and nowhere else
[ -z "$(scratch_of "$top/missing")$(scratch_of /proc)" ] || fail "no place for temporary files"
made=$(scratch_of /dev/shm)
[ -z "$made" ] || { [ -w "$made" ] && rm -r "$made"; } || fail "'$made' cannot be used"
echo "what fails once is named, what fails twice fails"
