#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/strategies.sh [memory|bubbles|bytes|compress|checkpoint]...: make the tables of
# docs/strategies.md again, all or those named. Needs a built tree and a quiet machine; takes
# some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tables=("$@")
if [ ${#tables[@]} -eq 0 ]; then
    tables=(memory bubbles bytes compress checkpoint)
fi

for table in "${tables[@]}"; do
    script=tests/bench/$table.sh
    if [ ! -x "$script" ]; then
        echo "strategies.sh: no table '$table'" >&2
        exit 2
    fi
    echo "strategies.sh: $table" >&2
    "$script" >"$tmp/table"
    awk -v table="$table" -v text="$tmp/table" '
        $0 == "<!-- bench " table " -->" {
            print
            print ""
            while ((getline line < text) > 0)
                print line
            print ""
            inside = 1
        }
        $0 == "<!-- end -->" { inside = 0 }
        !inside && $0 != "<!-- bench " table " -->" { print }' docs/strategies.md >"$tmp/new"
    cat "$tmp/new" >docs/strategies.md
done
