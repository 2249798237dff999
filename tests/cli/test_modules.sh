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
grep -qE '^(yes|no) +nccl ' "$tmp/doctor" || fail "doctor says nothing of nccl"

# The module over NCCL needs libnccl and the runtime, and nothing else of CUDA.
nccl=$CADRE_BUILD/.libs/comm_nccl.so
if [ -e "$nccl" ]; then
    readelf -d "$nccl" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' >"$tmp/needed"
    grep -q '^libnccl\.so' "$tmp/needed" || fail "comm_nccl.so without libnccl"
    other=$(grep -vE '^(libnccl|libcudart|libc|libpthread|ld-linux[^.]*)\.so' \
        "$tmp/needed" || true)
    [ -z "$other" ] || fail "comm_nccl.so needs: $other"
fi
