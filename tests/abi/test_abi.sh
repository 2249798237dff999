#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The layout of the plugin ABI (sizes, offsets, constants) is the one recorded in layout.txt, so
# that a change of it is always meant. `tests/abi/test_abi.sh --record` records what is now.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc=${CC:-gcc}
cc=${cc#ccache }

# The record is of 64-bit systems: pointers and size_t have 8 bytes.
if [ "$(getconf LONG_BIT)" != 64 ]; then
    echo "SKIP: the record is of 64-bit systems"
    exit 77
fi

echo '#include <cadre/helpers.h>' >"$tmp/all.c"
$cc -I"$include" -E -P "$tmp/all.c" | awk -f "$here/layout.awk" >"$tmp/layout.c"
$cc -std=gnu11 -I"$include" "$tmp/layout.c" -o "$tmp/layout"
{
    "$tmp/layout"
    $cc -I"$include" -E -dM "$tmp/all.c" |
        sed -nE 's/^#define (CADRE_[A-Z0-9_]+) (.*)$/\1 = \2/p' | grep -vE '_H = |^CADRE_[A-Z_]*TRY' | LC_ALL=C sort
} >"$tmp/layout.txt"

# A record that is empty or half would agree with everything.
[ "$(grep -c '^struct ' "$tmp/layout.txt")" -ge 20 ]
grep -q '^struct cadre_strategy_ops: ' "$tmp/layout.txt"
grep -q '^CADRE_ABI_MAJOR = ' "$tmp/layout.txt"

if [ "${1:-}" = --record ]; then
    cp "$tmp/layout.txt" "$here/layout.txt"
    exit 0
fi
if ! diff -u "$here/layout.txt" "$tmp/layout.txt"; then
    echo "the ABI's layout is another one than recorded: where that is meant, raise" \
        "CADRE_ABI_MINOR, say so in NEWS, and run tests/abi/test_abi.sh --record"
    exit 1
fi
