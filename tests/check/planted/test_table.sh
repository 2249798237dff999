#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# table.tsv tells the truth of the planted faults: each of the forty-two is one line of the base
# that the table names, changes what the compiler makes of it, and has a check that
# docs/check.md lists in that group.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../../..
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0

bad() {
    echo "$1"
    status=1
}

compile() { # FAULT BASE OUT: what the preprocessor and the optimizer leave, as text
    ${CC:-gcc} -std=c11 -D_GNU_SOURCE -I"$src/include" -I"$src" -O1 -g0 -fPIC \
        -fvisibility=hidden -DFAULT="$1" -S -o "$3" "$here/base_$2.c"
}

for base in "$here"/base_*.c; do
    name=$(basename "$base" .c)
    compile 0 "${name#base_}" "$tmp/$name.s"
done

numbers=0
while IFS=$'\t' read -r fault base group check line shows; do
    case $fault in '#'*) continue ;; esac
    numbers=$((numbers + 1))
    [ "$fault" -eq "$numbers" ] || bad "fault $fault stands where $numbers is due"
    [ -n "$line" ] && [ -n "$shows" ] || bad "fault $fault: a column is empty"
    mark="\b(PLANTED|PLANTED_VALUE)\($fault,|FAULT == $fault\$"
    used=$(grep -lE "$mark" "$here"/base_*.c || true)
    places=$(cat "$here"/base_*.c | grep -cE "$mark" || true)
    [ "$used" = "$here/base_$base.c" ] || bad "fault $fault: expected in base_$base.c, found in $used"
    [ "$places" -eq 1 ] || bad "fault $fault: $places lines, expected 1"
    grep -qE "^\| $check \| $group \|" "$src/docs/check.md" ||
        bad "fault $fault: docs/check.md has no check $check in the group $group"
    compile "$fault" "$base" "$tmp/planted.s"
    ! cmp -s "$tmp/planted.s" "$tmp/base_$base.s" ||
        bad "fault $fault: the compiled code is that of the base"
done <"$here/table.tsv"

[ "$numbers" -eq 42 ] || bad "the table has $numbers faults, expected 42"
total=$(cat "$here"/base_*.c | grep -cE '\b(PLANTED|PLANTED_VALUE)\(|FAULT == ')
[ "$total" -eq 42 ] || bad "the bases have $total planted lines, expected 42"
exit $status
