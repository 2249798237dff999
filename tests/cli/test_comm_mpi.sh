#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# comm_mpi.so between processes that mpirun has started: the cases that every communicator
# passes, with the bits of the tree in exact mode, and failures that name who is missed.
# Skips where the module was not built or there is no mpirun.
set -euo pipefail
rank=$CADRE_BUILD/comm_rank_mpi
patience=${CADRE_TEST_PATIENCE:-1}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

skip() {
    echo "SKIP: $*"
    exit 77
}

fail() {
    cat "$tmp/log"
    echo "FAIL: $*"
    exit 1
}

found=$("$CADRE_BUILD/cadre" doctor | sed -n 's/^yes  *mpi  *//p')
case $found in
"Open MPI"*) mpirun=$(command -v mpirun.openmpi || command -v mpirun || true) ;;
?*) mpirun=$(command -v mpirun.mpich || command -v mpiexec || true) ;;
*) skip "comm_mpi.so was not built" ;;
esac
[ -n "$mpirun" ] || skip "there is no mpirun for $found"
run=("$mpirun") alone=()
# what MPI keeps until the process ends is no leak of ours
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
# so that the ranks themselves look for one that is lost, and not mpirun, which then ends
# with 0 whatever they do
case $found in
"Open MPI"*)
    run+=(--allow-run-as-root --oversubscribe)
    alone=(--enable-recovery)
    ;;
esac

# world RANKS TIMEOUT MODE CASE...: all of it works.
world() {
    local ranks=$1 status=0
    shift
    timeout $((120 * patience)) "${run[@]}" -n "$ranks" "$rank" "$@" >"$tmp/log" 2>&1 ||
        status=$?
    [ $status -eq 0 ] || fail "$ranks ranks: $*: mpirun ended with $status"
}

# fails RANKS TIMEOUT MODE CASE: it ends, with a failure.
fails() {
    local ranks=$1 status=0
    shift
    timeout $((120 * patience)) "${run[@]}" "${alone[@]}" -n "$ranks" "$rank" "$@" \
        >"$tmp/log" 2>&1 || status=$?
    [ $status -ne 124 ] || fail "$ranks ranks: $* does not end"
    grep -E "^rank [0-9]+: [a-z]+: -[0-9]" "$tmp/log" >/dev/null ||
        fail "$ranks ranks: $* does not fail"
}

# says PATTERN: the log has it.
says() {
    grep -E "$1" "$tmp/log" >/dev/null || fail "no '$1'"
}

# ---- what any communicator does
limit=$((60 * patience))
world 3 $limit exact collectives=few messages=few groups counts checksums
world 2 $limit exact independence refusals messages=few groups
if [ "${CADRE_TEST_LEAN:-0}" = 0 ]; then
    world 4 $limit exact collectives=few messages=few groups storm=20250101
    world 1 $limit exact collectives=few
fi
if [ "${CADRE_TEST_SLOW:-0}" = 1 ]; then
    for n in 3 5; do
        world $n $limit exact collectives groups storm=$n
    done
fi
# what an int cannot count is sent in chunks
CADRE_MPI_LIMIT=37 world 3 $limit exact collectives=few messages=few
# MPI's own reductions: of whole numbers, so that any order gives the same
world 3 $limit loose sums
CADRE_MPI_LIMIT=37 world 3 $limit loose sums counts

# ---- failures: one text, that names who, where and in what
fails 3 $limit loose aborted
[ "$(grep -c "rank [012]: aborted: -6 loss is not finite at step 5" "$tmp/log")" = 3 ] ||
    fail "not all ranks heard of the abort"
fails 2 $limit loose unequal
says "rank 0 \(host [^)]+\) posted send #1 'act' \(f32, 8 elements.*recv from rank 0 #1 'grad' \(f32, 7"
fails 2 $limit loose orphaned
says "rank 0 \(host .*recv from rank 1 #1 'a' .*was pending when its communicator ended"
fails 3 $limit loose leaver
short=$((2 + patience))
fails 3 $short loose mismatch
says "posted broadcast #1 'params' .*posted all_reduce #1 'bucket 3'"
fails 3 $short loose hang=$short
says "rank 2 \(host [^)]+\) has not entered all_reduce #2 'bucket 3' \(f32, 8 elements, step 41\).*last seen in recv from rank 0 #1 'act'"
fails 4 $short loose absent
says "rank 2 \(host [^)]+\) has not entered barrier #1 'half' \(step 0\) of ranks 0,2"
case $found in
"Open MPI"*) # other launchers end all ranks when one is killed
    fails 3 $short loose killed
    for r in 0 1; do
        says "rank $r: killed: -[56] rank 2 \(host [^)]+\) does not answer.* all_reduce #51 'beat' \(f32, 64 elements, step 50\)"
    done
    ;;
esac
