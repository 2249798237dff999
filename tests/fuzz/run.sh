#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/run.sh [SECONDS [READER]...]: builds the readers by clang with libFuzzer, ASan and
# UBSan into build-fuzz/, and lets each take inputs for so many seconds (60), at
# most $RUNS of them. Prints the executions of each reader, and fails where one found something; the
# input is then in build-fuzz/found/: mend it, and keep it in corpus/.
# JOBS=N: so many readers at a time.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-60}
shift || true
build=${FUZZ_BUILD:-$top/build-fuzz}
command -v clang >/dev/null || { echo "SKIP: no clang (apt-get install clang)"; exit 77; }
mkdir -p "$build/found"
cd "$build"
cc=clang cxx=clang++
if command -v ccache >/dev/null; then
    cc="ccache clang" cxx="ccache clang++"
    export CCACHE_BASEDIR=$top CCACHE_NOHASHDIR=1
fi
# no feedback from within sums: their branches say nothing of what was read
printf 'src:*/core/base/%s.c\n' hash sha256 >silent
flags="-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"
flags+=" -fsanitize-coverage-ignorelist=$PWD/silent"
[ -x "$top/configure" ] || "$top/tools/bootstrap"
[ -e Makefile ] || "$top/configure" --quiet CC="$cc" CXX="$cxx" CFLAGS="$flags" \
    CXXFLAGS="$flags -fno-sanitize=function,vptr" --without-cuda --disable-hardening
make -j "$(nproc)" fuzz_target >make.log 2>&1 || { tail -n 20 make.log; exit 1; }
readers=("$@")
[ ${#readers[@]} -gt 0 ] || mapfile -t readers < <(ls "$top/tests/fuzz/corpus")

one() { # READER
    local status=0 scratch most
    # an input that is cut is no whole file any more
    most=$(stat -c %s "$top/tests/fuzz/corpus/$1"/* | sort -n | tail -n 1)
    scratch=$(mktemp -d "${TMPDIR:-/dev/shm}/fuzz.XXXXXX")
    mkdir -p "$build/grown/$1"
    CADRE_FUZZ_READER=$1 TMPDIR=$scratch ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
        timeout $((seconds + 60)) ./fuzz_target -max_total_time="$seconds" \
        -runs="${RUNS:--1}" -max_len=$((most > 4096 ? most : 4096)) -timeout=20 \
        -rss_limit_mb=2048 -verbosity=1 -print_final_stats=1 -dict="$top/tests/fuzz/words.dict" \
        -artifact_prefix="found/$1-" "grown/$1" "$top/tests/fuzz/corpus/$1" \
        >"$1.log" 2>&1 || status=$?
    rm -rf "$scratch"
    printf '%-16s %10s executions, %5s new inputs%s\n' "$1" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$1.log")" \
        "$(sed -n 's/^stat::new_units_added: *//p' "$1.log")" \
        "$([ $status -eq 0 ] || echo ": FOUND SOMETHING, see $build/$1.log")"
    return $status
}
failed=0 running=0
for reader in "${readers[@]}"; do
    [ -d "$top/tests/fuzz/corpus/$reader" ] || { echo "no reader '$reader'"; exit 2; }
    one "$reader" &
    running=$((running + 1))
    if [ $running -ge "${JOBS:-1}" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
done
while [ $running -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
[ $failed -eq 0 ] || { echo "fuzz: FAILED"; exit 1; }
