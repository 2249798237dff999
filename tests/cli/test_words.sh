#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A word that the glossary replaced is gone from what users read: the strings of the program,
# its modules and its plugins, and the help that it prints.
set -euo pipefail
list=$CADRE_SRC/tools/lint.d/words.list
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# strings_of FILE: runs of printable characters, as strings(1) shows them.
strings_of() {
    LC_ALL=C tr -c '[:print:]\t' '\n' <"$1" | grep -E '.{6,}' || true
}

cadre=$CADRE_BUILD/cadre
[ ! -e "$CADRE_BUILD/.libs/cadre" ] || cadre=$CADRE_BUILD/.libs/cadre
mapfile -t binaries < <(find "$CADRE_BUILD" -path '*/tests/*' -prune -o -name '*.so' -type f -print)
[ ${#binaries[@]} -ge 5 ] || { echo "found only ${#binaries[@]} plugins and modules"; exit 1; }
for file in "$cadre" "${binaries[@]}"; do
    strings_of "$file"
done | sort -u >"$tmp/strings"
"$CADRE_BUILD/cadre" options >"$tmp/help"
"$CADRE_BUILD/cadre" >>"$tmp/help" 2>&1 || true

# What cannot find anything would agree with everything.
grep -q 'gradient' "$tmp/strings"
grep -q 'micro_batch' "$tmp/help"

status=0
while IFS=$'\t' read -r word instead; do
    case $word in '' | '#'*) continue ;; esac
    if grep -hE -- "$word" "$tmp/strings" "$tmp/help"; then
        echo "^ the glossary says: $instead"
        status=1
    fi
done <"$list"
exit $status
