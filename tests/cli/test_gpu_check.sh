#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/gpu-check without a GPU: its parts on the stand-in of CUDA, a part that fails, a
# budget that runs out, and what --pack leaves. What needs a GPU is skipped, and says so.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
check=$CADRE_SRC/tools/gpu-check
lean=${CADRE_TEST_LEAN:-0}

fail() {
    echo "FAIL: $*"
    cat "$tmp/log" "$tmp/results.md" 2>/dev/null || true
    exit 1
}
has() { # PATTERN: a line of the results
    grep -qE "$1" "$tmp/results.md" || fail "no line '$1' in the results"
}
# ends STATUS ARGUMENT...
ends() {
    local want=$1 status=0
    shift
    rm -f "$tmp/results.md"
    "$check" "$@" >"$tmp/log" 2>&1 || status=$?
    [ "$status" -eq "$want" ] || fail "gpu-check $*: exit status $status, expected $want"
}

# ---- arguments --------------------------------------------------------------------
ends 2 --budget soon
grep -q "expected seconds after --budget, found 'soon'" "$tmp/log" || fail "no line on a budget"
ends 2 --only nothing
grep -q "no part 'nothing'" "$tmp/log" || fail "no line on a part"
ends 2 --standin --build "$tmp/nowhere" "$tmp/results.md"
grep -q "no program at '$tmp/nowhere/cadre'" "$tmp/log" || fail "no line on a program"

# ---- packing, with a make and an apt-get that leave small files ---------------------
mkdir -p "$tmp/bin" "$tmp/build" "$tmp/data/text"
# shellcheck disable=SC2016 # make expands it
echo 'bench_rates$(EXEEXT):' >"$tmp/build/Makefile"
cp /bin/true "$tmp/build/bench_rates"
echo "a text" >"$tmp/data/text/tinyshakespeare.txt"
cat >"$tmp/bin/make" <<'SH'
#!/bin/sh
for word in "$@"; do
    case $word in DESTDIR=*) at=${word#*=}/usr/local ;; esac
done
[ -n "${at:-}" ] || exit 0
mkdir -p "$at/bin" "$at/lib/cadre"
cp /bin/true "$at/bin/cadre"
: >"$at/lib/cadre/device_cuda.so"
[ -z "${LARGE:-}" ] || truncate -s 70M "$at/lib/cadre/large"
SH
chmod +x "$tmp/bin/make"
pack() { # STATUS
    PATH=$tmp/bin:$PATH ends "$1" --pack --build "$tmp/build" --dev "$tmp/dev" --data "$tmp/data"
}
if command -v dpkg-query >/dev/null; then
    pack 0
    for file in tests/bench_rates tests/bench/gpu.sh tools/gpu-check tools/gpu-check.d/parts \
        conf/shakespeare.ini data/text/tinyshakespeare.txt \
        tests/samples/golden/gpt2_tiny_a.json packed; do
        [ -e "$tmp/dev/$file" ] || fail "--pack leaves no $file"
    done
    grep -q 'SKIP: no mitdb/100' "$tmp/log" || fail "--pack is silent about data that is absent"
    LARGE=1 pack 1
    grep -q 'bytes with the files of the tree, expected at most' "$tmp/log" ||
        fail "--pack does not say that it is too much"
    # what was packed runs from its own folder, without the tree
    PATH=$tmp/bin:$PATH "$tmp/dev/tools/gpu-check" --only nccl-one "$tmp/results.md" \
        >"$tmp/log" 2>&1 || fail "what was packed does not run"
    has 'nccl-one \| SKIP .*no comm_nccl.so in '
else
    echo "SKIP: no dpkg to pack with"
fi

# ---- running ----------------------------------------------------------------------
if [ ! -e "$CADRE_BUILD/tests/support/cuda_host/.libs/device_cuda.so" ]; then
    echo "SKIP: the stand-in of CUDA was not built (no C++ compiler)"
    exit 0
fi
# a machine that is busy or a build that is slow: the budget is a guard here
budget=$((900 * ${CADRE_TEST_PATIENCE:-1}))
standin() { # STATUS ARGUMENT...
    local want=$1
    shift
    ends "$want" --standin --build "$CADRE_BUILD" --budget "$budget" --date "a day" "$@" \
        "$tmp/results.md"
}

only=(--only doctor --only train --only memcheck --only racecheck)
if [ "$lean" = 1 ]; then
    echo "a lean run leaves out the parts strategies, nccl and bench"
else
    only+=(--only strategies --only nccl-one --only nccl-two --only bench)
fi
standin 0 "${only[@]}"
has '^- date: a day$'
has '^\| doctor \| PASS '
has 'GPU 0: stand-in on the host'
has '^\| train \| PASS '
has '^conf/shakespeare.ini, device.kind=cuda, bf16: 3 steps, loss '
has '^\| memcheck \| SKIP .*(needs a GPU|not found)'
has '^\| racecheck \| SKIP '
if [ "$lean" != 1 ]; then
    has '^\| strategies \| PASS '
    has '^zero3-2 .* exact *$'
    has '3 certificates hold'
    has '^\| nccl-one \| (PASS|SKIP) '
    has '^\| nccl-two \| (PASS|SKIP) '
    has '^\| bench \| PASS '
    has '^MFU = tokens/s \* F / P'
    has '^\| tiny \| 2 x 64 \| '
fi
has ' passed, 0 failed, [2-4] skipped$'

# a part that fails is reported, and the next runs
mkdir -p "$tmp/broken/tests/support/cuda_host"
cp -r "$CADRE_BUILD/tests/support/cuda_host/.libs" "$tmp/broken/tests/support/cuda_host/"
cat >"$tmp/broken/cadre" <<SH
#!/bin/sh
[ "\$1" != doctor ] || exec "$CADRE_BUILD/cadre" "\$@"
echo "cadre: this program is broken" >&2
exit 1
SH
chmod +x "$tmp/broken/cadre"
standin 1 --build "$tmp/broken" --only doctor --only train --only memcheck
has '^\| train \| FAIL .*this program is broken'
has '^\| memcheck \| SKIP '
has '^the end of what train said'
[ "$(tail -n 1 "$tmp/results.md")" = "1 passed, 1 failed, 1 skipped" ] || fail "other counts"
[ "$(tail -n 1 "$tmp/log")" = "1 passed, 1 failed, 1 skipped" ] || fail "other last line"

# a part that runs out of its time, and one that there is no time for
cat >"$tmp/broken/cadre" <<SH
#!/bin/sh
trap '' TERM
echo \$\$ >"$tmp/pid"
sleep 600
SH
cp "$tmp/broken/cadre" "$tmp/broken/bench_rates"
budget=3
standin 1 --build "$tmp/broken" --only bench --only doctor
has '^\| doctor \| FAIL .*(ran out of its [0-9] s|the budget of 3 s is used up)'
has '^\| bench \| FAIL '
alive() {
    ps -o stat= -p "$(cat "$tmp/pid")" | grep '^[^Z]' >/dev/null
}
i=0
while [ -e "$tmp/pid" ] && alive && [ $i -lt 600 ]; do
    sleep 0.1
    i=$((i + 1))
done
[ $i -lt 600 ] || fail "what ran out of its time still runs"
