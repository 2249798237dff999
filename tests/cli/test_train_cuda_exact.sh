#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exact runs on the CUDA device, whose runtime the tests' stand-in plays: no run of theirs
# times an algorithm, what an earlier run timed is taken from its file by all ranks, and
# summary, checkpoint, certificate and comparison name what was taken. Where the stand-in
# was not built, this skips.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ ! -e "$standin/device_cuda.so" ]; then
    echo "SKIP: the stand-in of CUDA was not built (no C++ compiler)"
    exit 77
fi
export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg
file=$tmp/xdg/cadre/gemm2-stand-in-on-the-host-130000.txt
small="device.kind=cuda model.channels=16 model.context=16 model.layers=1 \
    train.global_batch=4 train.micro_batch=1 train.eval_batches=1"

# The hash of the algorithms in NAME's summary, "" for none; NAME may be runs/NAME.
algorithms() {
    sed -nE 's/.*"algorithms": *"([^"]*)".*/\1/p' "$tmp/$1/summary.json"
}

# Nothing in the cache: the library's rule, and nothing is written.
train text cold 0 run.exact=yes train.steps=2 $small
grep -q '"library": *"cublasLt 13.0.0 on ' "$tmp/cold/summary.json" || fail "no library"
[ -z "$(algorithms cold)" ] || fail "cold: algorithms where nothing was timed"
[ ! -e "$file" ] || fail "an exact run wrote what it may not have timed"

# A run that is not exact times, and keeps it; exact ones take it, whatever their ranks.
train text timed 0 train.steps=1 $small
[ -s "$file" ] || fail "timed: nothing is kept"
cp "$file" "$tmp/kept"
train text warm 0 run.exact=yes train.steps=4 $small
grep -q 'run.exact: cublasLt 13.0.0 on .* with the algorithms of the cache' "$tmp/warm.log" ||
    fail "warm: it does not say what it takes"
train text ddp 0 run.exact=yes train.steps=4 strategy.stack=ddp:2 $small
same warm ddp
[ -n "$(algorithms warm)" ] || fail "warm: no algorithms"
[ "$(algorithms warm)" = "$(algorithms ddp)" ] || fail "ddp took other algorithms"
cmp "$file" "$tmp/kept" || fail "an exact run changed the file"

# A checkpoint of other algorithms: one line.
train text cold 0 run.exact=yes train.steps=4 checkpoint.resume=auto $small
[ "$(grep -c 'run.exact: .* was trained with cublasLt' "$tmp/cold.log")" -eq 1 ] ||
    fail "cold: resumed with other algorithms without a word"
train text warm 0 run.exact=yes train.steps=5 checkpoint.resume=auto $small
if grep -q 'was trained with' "$tmp/warm.log"; then
    fail "warm: the same algorithms are reported as others"
fi

# A damaged file: one line, and the library's rule.
sed -i 's/^gemm 1/gemm 2/; s/^sum .*/sum 0/' "$file"
train text damaged 0 run.exact=yes train.steps=1 strategy.stack=ddp:2 $small
[ "$(grep -c 'are damaged and not used' "$tmp/damaged.log")" -eq 1 ] ||
    fail "damaged: not reported once"
[ -z "$(algorithms damaged)" ] || fail "damaged: its algorithms were taken"
rm "$file"

# In a comparison no single run changes what the exact ones take.
cat >>"$tmp/text.ini" <<EOF
[run:one]
run.exact = yes
[run:loose]
strategy.stack = single
[run:two]
run.exact = yes
strategy.stack = ddp:2
EOF
# shellcheck disable=SC2086 # words
compare c 0 train.steps=1 compare.perturbations=2 $small
[ ! -e "$file" ] || fail "a comparison with exact runs changed the cache"
[ -n "$(algorithms c/runs/loose)" ] || fail "loose: nothing was timed"
"$cadre" inspect "$tmp/c/certificate-two.json" >"$tmp/c.seen"
grep -q '  multiplied with cublasLt 13.0.0 on ' "$tmp/c.seen" || fail "inspect: no library"

# Where something else did, the comparison says so.
sed -i -E 's/"algorithms": *""/"algorithms": "0123456789abcdef"/' "$tmp/c/runs/two/summary.json"
# shellcheck disable=SC2086 # words
compare c 0 train.steps=1 compare.perturbations=2 $small checkpoint.resume=auto
[ "$(grep -c 'one and two have run.exact and used other GEMM algorithms' "$tmp/c.log")" \
    -eq 1 ] || fail "other algorithms are not reported"
