#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Strategies of tests/plugins that are not shipped: each uses a part of the ABI that the
# shipped ones do not.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

built=$CADRE_BUILD/tests/plugins/.libs

# ---- gossip: replicas that never meet all at once ----
ring=$built/gossip.so
train text ring 0 "strategy.stack=$ring:4" train.steps=10
train text ring-part 0 "strategy.stack=$ring:4" train.steps=5
train text ring-part 0 "strategy.stack=$ring:4" train.steps=10 checkpoint.resume=auto
same ring ring-part
sgd="optim.name=sgd optim.momentum=0 optim.clip=0 optim.lr=0.1 train.steps=10"
# shellcheck disable=SC2086 # words
{
    train text mean 0 strategy.stack=ddp:2 $sgd
    train text two 0 "strategy.stack=$ring:2" $sgd
}
close_to mean two 1e-5 1e-3
train text sharded 0 "strategy.stack=$ring:2,zero:2" zero.stage=2 train.steps=4
train text sharded-eval 0 "strategy.stack=$ring:2,zero:2" zero.stage=2 train.steps=4 \
    train.eval_every=1
same sharded sharded-eval

# ---- qz: quantized gathers of zero ----
bytes() {
    sed -nE 's/.*"comm_bytes": ?([0-9.e+]+).*/\1/p' "$tmp/$1/summary.json"
}
zero="zero.stage=3 train.steps=6"
# shellcheck disable=SC2086
{
    train text plain 0 strategy.stack=zero:2 $zero
    train text uncoded 0 "strategy.stack=zero:2,$built/qz.so:1" qz.block=0 $zero
    train text coded 0 "strategy.stack=zero:2,$built/qz.so:1" $zero
}
same plain uncoded
close_to plain coded 0.05 1
awk -v a="$(bytes plain)" -v b="$(bytes coded)" 'BEGIN { exit !(b < 0.75 * a) }' ||
    fail "$(bytes coded) bytes with the codec, $(bytes plain) without"
# in stage 1 the owner's values would be rounded too
train text in-place 2 "strategy.stack=zero:2,$built/qz.so:1" zero.stage=1 train.steps=1
says in-place "plugin 'qz' .*zero.stage = 3"

# ---- ranges: unequal numbers of micro-batches ----
for exact in no yes; do
    train text "all-$exact" 0 "run.exact=$exact" train.steps=4 train.micro_batch=4
    train text "uneven-$exact" 0 "run.exact=$exact" train.steps=4 train.micro_batch=4 \
        "strategy.stack=ddp:2,$built/ranges.so:1" "ranges.first=0 3 4"
    if [ $exact = yes ]; then
        same all-yes uneven-yes
    else
        close_to all-no uneven-no 1e-5 1e-2
    fi
done
refused levels "run.exact with ranges of micro-batches .* found 'ddp' and 'hsdp'" \
    "strategy.stack=ddp:2,hsdp:2,$built/ranges.so:1" "ranges.first=0 1 2 3 4" \
    train.micro_batch=4 run.exact=yes
refused short "ranges" "strategy.stack=ddp:2,$built/ranges.so:1" "ranges.first=0 x"

# ---- period: pieces of a measurement are whole periods ----
printf '[run:one]\nstrategy.stack = single\n[run:five]\nstrategy.stack = %s:1\n' \
    "$built/period.so" >>"$tmp/text.ini"
compare measured 0 compare.time=yes compare.rounds=2 compare.piece=0.01 compare.perturb=no \
    compare.period=3 device.threads=1
steps=$(sed -nE 's/.*timing [0-9]+ runs: ([0-9]+) steps a piece.*/\1/p' "$tmp/measured.log" | head -1)
[ -n "$steps" ] || fail "no number of steps in $(cat "$tmp/measured.log")"
[ $((steps % 15)) -eq 0 ] || fail "pieces of $steps steps, with periods of 3 and 5"
