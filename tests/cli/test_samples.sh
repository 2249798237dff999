#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The samples are what SHA256SUMS says, and nothing else but folders that are checked where they
# are read; where the whole data is there, they come out of it again to the byte.
set -euo pipefail
samples=$CADRE_SRC/tests/samples
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

(cd "$samples" && sha256sum --check --quiet SHA256SUMS)
cut -c 67- "$samples/SHA256SUMS" >"$tmp/named"
(cd "$samples" && find -- */* -type f | LC_ALL=C sort | grep -vE \
    '^(checkpoint-|(dpo|families|lora|nf4|planner|qat|referee|templates|tiny-chat|tokenizers)/)') \
    >"$tmp/present"
diff "$tmp/named" "$tmp/present"

data=${CADRE_TEST_DATA:-none}
if [ -e "$data/mitdb/EXPECTED.json" ] && python3 -c 'import regex' 2>/dev/null; then
    python3 "$samples/make.py" "$data" "$tmp/again"
    cmp "$samples/SHA256SUMS" "$tmp/again/SHA256SUMS"
fi
