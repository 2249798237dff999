#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The layout of the plugin ABI (sizes, offsets, declarations, constants) is the one recorded in
# tests/abi/MAJOR.MINOR/abi.json, so that a change of it is always meant.
#   tests/abi/test_abi.sh             compares
#   tests/abi/test_abi.sh --record    records the headers, their layout, and plugins of today
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export CC=${CC:-gcc}

# The record is of 64-bit systems: pointers and size_t have 8 bytes.
if [ "$(getconf LONG_BIT)" != 64 ]; then
    echo "SKIP: the record is of 64-bit systems"
    exit 77
fi

"$top/core/sdk/abi-json" "$top/include" >"$tmp/abi.json"
version=$(sed -n 's/^ *"abi": "\(.*\)",$/\1/p' "$tmp/abi.json")
recorded=$here/$version

# A record that is empty or half would agree with everything.
[ "$(grep -c '"members"' "$tmp/abi.json")" -ge 30 ]
grep -q '"name": "cadre_strategy_ops"' "$tmp/abi.json"
[ "$(grep -c '^    "CADRE_' "$tmp/abi.json")" -ge 100 ]

# The templates of `cadre new` are the golden plugins: gold_dat and so on, names as long as the
# template's, so that they keep the form that the formatter gave them.
record() {
    local file name
    rm -rf "$recorded"
    mkdir -p "$recorded/include/cadre" "$recorded/plugins"
    cp "$top"/include/cadre/*.h "$recorded/include/cadre"
    cp "$tmp/abi.json" "$recorded"
    for file in "$top"/core/sdk/*.c; do
        name=$(basename "$file" .c)
        name=gold_${name:0:3}
        sed "s/yourname/$name/g" "$file" >"$recorded/plugins/$name.c"
    done
    echo "recorded $version in $recorded"
}

if [ "${1:-}" = --record ]; then
    record
    exit 0
fi
if [ ! -d "$recorded" ]; then
    echo "the ABI $version is not recorded: say in NEWS what is new, and run" \
        "tests/abi/test_abi.sh --record"
    exit 1
fi
if ! diff -u "$recorded/abi.json" "$tmp/abi.json"; then
    echo "the ABI's layout is another one than recorded: where that is meant, raise" \
        "CADRE_ABI_MINOR, say so in NEWS, and run tests/abi/test_abi.sh --record"
    exit 1
fi

# The headers that were recorded have the layout that was recorded beside them.
for folder in "$here"/[0-9]*.[0-9]*; do
    "$top/core/sdk/abi-json" "$folder/include" >"$tmp/old.json"
    diff -u "$folder/abi.json" "$tmp/old.json" || {
        echo "$folder: its headers have not its layout"
        exit 1
    }
done
