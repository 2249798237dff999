#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/scaling.sh [BUILD]: what of a step on the CPU cannot use many cores, by the times
# of its jobs' tiles on one (bench_scaling.c), as Markdown tables.
#
# environment: SHAPES (of: ecg small 124M-64), DTYPES (fp32), STEPS (3), AT (16: threads of the
#   second table)
. "$(dirname "$0")/lib.sh"
build=${1:-build}
bench=$build/bench_scaling
[ -x "$bench" ] || fail "there is no $bench: build it (make bench_scaling)"

# Names for the addresses that begin a row.
name_functions() {
    local line address name
    while IFS= read -r line; do
        if [[ $line =~ ^\|\ (0x[0-9a-f]+)\ \| ]]; then
            address=${BASH_REMATCH[1]}
            name=$(addr2line -f -e "$bench" "$address" | head -n 1)
            line="| \`$name\` |${line#"| $address |"}"
        fi
        echo "$line"
    done
}

for shape in ${SHAPES:-ecg small 124M-64}; do
    for dtype in ${DTYPES:-fp32}; do
        echo "$shape, $dtype:"
        echo
        SHAPE=$shape DTYPE=$dtype CK_FORK=no "$bench" | grep '^|\|^$' | name_functions
        echo
    done
done
