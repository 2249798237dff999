#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/layouts.sh: losses, memory and bytes of the layouts of conf/compare-layouts.ini,
# as a markdown table; it fails where one of them has other bits than single. Ranks share
# the cores, so there is no time in it. Needs a built tree (CADRE_BUILD, or build/) and ECG
# records (CADRE_MITDB, else those of tests/samples/).
# usage: tests/bench/layouts.sh [SECTION.KEY=VALUE]...
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
settings "data.path=${CADRE_MITDB:-$top/tests/samples/mitdb}" "data.cache=$tmp/cache" "$@"
"$cadre" compare "$top/conf/compare-layouts.ini" --out "$tmp/out" "${sets[@]}" \
    >/dev/null 2>"$tmp/log" || fail "$(tail -n 3 "$tmp/log")"

loss() { # RUN STEP: as written, with all its digits
    sed -n "$2p" "$tmp/out/runs/$1/metrics.jsonl" | field loss
}

# name, stack, whether equal, peak_bytes, comm_bytes; commas of a stack stay in it
figures() {
    awk '{ sub(/\r$/, "")
           while (match($0, /"[^"]*"/)) {
               quoted = substr($0, RSTART + 1, RLENGTH - 2)
               gsub(/,/, "\034", quoted)
               $0 = substr($0, 1, RSTART - 1) quoted substr($0, RSTART + RLENGTH)
           }
           n = split($0, cell, ",") }
         NR == 1 { for (i = 1; i <= n; i++) at[cell[i]] = i; next }
         { line = cell[at["name"]] "\t" cell[at["stack"]] "\t" cell[at["equal"]] "\t" \
               cell[at["peak_bytes"]] "\t" cell[at["comm_bytes"]]
           gsub(/\034/, ",", line)
           print line }' "$tmp/out/report.csv"
}

steps=$(wc -l <"$tmp/out/runs/single/metrics.jsonl")
echo "| layout | stack | loss at step 1 | at step $((steps / 2)) | at step $steps | as single | memory of a rank, MiB | sent, MB a step |"
echo "|---|---|---|---|---|---|---|---|"
figures | while IFS=$'\t' read -r name stack equal peak sent; do
    [ "$equal" = exact ] || fail "$name: '$equal', expected the bits of single"
    printf '| %s | `%s` | %s | %s | %s | %s | %s | %s |\n' "$name" "$stack" "$(loss "$name" 1)" \
        "$(loss "$name" $((steps / 2)))" "$(loss "$name" "$steps")" "$equal" \
        "$(awk -v b="$peak" 'BEGIN { printf "%.2f", b / 1048576 }')" \
        "$(awk -v b="$sent" -v n="$steps" 'BEGIN { printf "%.3f", b / n / 1e6 }')"
done
