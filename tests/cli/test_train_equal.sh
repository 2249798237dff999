#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Replicas change nothing: ddp at several sizes, as threads and as processes, against single
# after 20 steps, on text and on heartbeats. Without run.exact sums are made in another
# order, so fp32 rounds otherwise. Measured: losses up to 4e-8 apart; parameters up to 1e-6 of
# the largest of their tensor under sgd, and 1e-3 under adamw, which divides what is nearly
# zero by what is nearly zero (the gradient of a key's bias is zero but for rounding). The
# limits leave a factor of about 20 for another machine's kernels; a lost micro-batch or a
# wrong factor is beyond them by orders of magnitude, as the end shows.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

sizes="2 4"
kinds="text"
if [ "$slow" = 1 ]; then
    sizes="1 2 4"
    kinds="text ecg"
fi
for kind in $kinds; do
    train "$kind" "$kind-single" 0
    for n in $sizes; do
        train "$kind" "$kind-$n" 0 "strategy.stack=ddp:$n"
        close_to "$kind-single" "$kind-$n" 1e-6 2e-2
    done
    # three ranks need a batch that three divides
    train "$kind" "$kind-single-3" 0 train.global_batch=12
    train "$kind" "$kind-3" 0 train.global_batch=12 strategy.stack=ddp:3 ddp.bucket_mb=0.01
    close_to "$kind-single-3" "$kind-3" 1e-6 2e-2
    sgd="optim.name=sgd optim.momentum=0.9 optim.lr=0.1"
    # shellcheck disable=SC2086 # words
    train "$kind" "$kind-sgd" 0 $sgd
    # shellcheck disable=SC2086
    train "$kind" "$kind-sgd-4" 0 $sgd strategy.stack=ddp:4
    close_to "$kind-sgd" "$kind-sgd-4" 1e-6 2e-5
    train "$kind" "$kind-p" 0 strategy.stack=ddp:2 comm.ranks=processes
    same "$kind-2" "$kind-p"
done

# The order of the buckets and whether they overlap with backward changes no bit.
train text overlap 0 strategy.stack=ddp:2 ddp.overlap=no ddp.bucket_mb=0.02
same text-2 overlap

# The check itself can fail: another learning rate is outside the limits.
train text other 0 optim.lr=3.3e-3
if (close_to text-single other 1e-6 2e-2) >"$tmp/said"; then
    fail "a run with another learning rate passes for equal"
fi
