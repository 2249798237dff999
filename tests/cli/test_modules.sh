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

# Hardened, unless it is a sanitizer's build or --disable-hardening: what configure found.
if grep -q '^HARDEN_LDFLAGS = .*-z,now' "$CADRE_BUILD/Makefile"; then
    find "$CADRE_BUILD/cadre" "$CADRE_BUILD/.libs" "$CADRE_BUILD/plugins" -type f \
        \( -name cadre -o -name '*.so' \) >"$tmp/elf"
    while read -r file; do
        readelf -hlds -W "$file" >"$tmp/read"
        grep -qE 'BIND_NOW|FLAGS.* NOW' "$tmp/read" || fail "$file: symbols are bound late"
        grep -q 'GNU_RELRO' "$tmp/read" || fail "$file: no RELRO"
        ! grep -E 'GNU_STACK.* E|GNU_STACK.*RWE' "$tmp/read" || fail "$file: executable stack"
        grep -qE 'Type: +DYN' "$tmp/read" || fail "$file: not position-independent"
        grep -q '__stack_chk_fail' "$tmp/read" || echo "$file: nothing to protect on its stack"
    done <"$tmp/elf"
    readelf -sW "$cadre" | grep -c __stack_chk_fail >/dev/null || fail "no stack protector"
fi

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
