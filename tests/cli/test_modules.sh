#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program and the strategy plugins need no CUDA library; the real module opens a GPU,
# or says in one line why not.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

if ! command -v readelf >/dev/null; then
    echo "SKIP: no readelf"
    exit 77
fi
needs=$(find "$CADRE_BUILD/cadre" "$CADRE_BUILD/plugins" -type f \
    \( -name cadre -o -name '*.so' \) -exec readelf -d {} + |
    grep -E 'NEEDED.*(cuda|cublas|nccl)' || true)
[ -z "$needs" ] || fail "a CUDA library is needed: $needs"

"$cadre" doctor >"$tmp/doctor" || fail "doctor"
grep -qE '^(yes|no) +cuda ' "$tmp/doctor" || fail "doctor says nothing of cuda"
