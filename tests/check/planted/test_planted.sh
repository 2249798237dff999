#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre check` finds each planted fault by the id that table.tsv names, and the base that
# has the right line passes the same check. CADRE_TEST_LEAN=1: a fault of each group.
# shellcheck source=tests/cli/train_lib.sh
. "$(dirname "$0")/../../cli/train_lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
built=$CADRE_BUILD/tests/check/planted
unset CADRE_PLUGIN_PATH
cd "$tmp"
status=0

bad() {
    echo "$1"
    cat "$tmp/out"
    status=1
}

# ids[BASE]: what the base has to pass
declare -A ids=() groups=()
while IFS=$'\t' read -r fault base group check line _; do
    case $fault in '#'*) continue ;; esac
    [ "$lean" = 0 ] || [ -z "${groups[$group]:-}" ] || continue
    groups[$group]=$fault
    case ",${ids[$base]:-}," in *",$check,"*) ;; *) ids[$base]=${ids[$base]:+${ids[$base]},}$check ;; esac
    rc=0
    "$cadre" check "$built/planted_$fault.so" --only "$check" --json "$tmp/report.json" \
        </dev/null >"$tmp/out" 2>&1 || rc=$?
    if [ $rc -ne 3 ] || ! grep -q "^not ok 1 - $check " "$tmp/out"; then
        bad "fault $fault ($line): $check does not find it, status $rc"
    elif ! grep -qE '^  status: "(fail|crash)"$' "$tmp/out"; then
        bad "fault $fault ($line): $check neither fails nor crashes"
    fi
done <"$here/table.tsv"

for base in "${!ids[@]}"; do
    rc=0
    "$cadre" check "$built/base_$base.so" --only "${ids[$base]}" \
        </dev/null >"$tmp/out" 2>&1 || rc=$?
    if [ $rc -ne 0 ]; then
        bad "base $base: status $rc, expected to pass ${ids[$base]}"
    elif grep '# SKIP' "$tmp/out"; then
        bad "base $base: a check of ${ids[$base]} did not look"
    fi
done
exit $status
