#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/bytes.sh: bytes on the wire of one optimizer step, promised and measured, as a
# markdown table. Needs a built tree (CADRE_BUILD, or build/). A run of 4 steps less one of 2
# leaves two steps without what start and end cost.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre

layers=6 channels=192 heads=6 context=64 vocab=256 batch=2 global=16
microbatches=$((global / batch))
write_ini "$tmp/c.ini" model.arch=gpt2 model.layers=$layers model.channels=$channels \
    model.heads=$heads model.context=$context model.tied=no "data.path=$top/COPYING" \
    "data.cache=$tmp/cache" train.global_batch=$global train.micro_batch=$batch \
    train.eval_every=0 checkpoint.every=0 device.threads=1

sent() { # STEPS [s.k=v]...
    train "$tmp/c.ini" run train.steps="$1" "${@:2}"
    total run comm_bytes
}

# row NAME FORMULA PROMISED [s.k=v]...
row() {
    local name=$1 formula=$2 promised=$3 long short
    shift 3
    short=$(sent 2 "$@")
    long=$(sent 4 "$@")
    awk -v n="$name" -v f="$formula" -v p="$promised" -v l="$long" -v s="$short" 'BEGIN {
        m = (l - s) / 2
        printf "| %s | %s | %.3f | %.3f | %.3f |\n", n, f, p / 1e6, m / 1e6, m / p
    }'
}

sent 2 strategy.stack=single >/dev/null
params=$(total run params)
n=$((4 * params))                              # bytes of a gradient
a=$((4 * batch * context * channels))          # of an activation
mine2=$((microbatches / 2)) mine4=$((microbatches / 4))    # micro-batches a rank
echo "GPT-2 form, $params parameters, $microbatches micro-batches a step; n bytes of all"
echo "gradients, a of one activation, R ranks, k micro-batches a rank, m in all, L layers."
echo
echo "| layout | formula | promised MB | measured MB | ratio |"
echo "|---|---|---|---|---|"
row "ddp:2" "2 (R-1) n" $((2 * n)) strategy.stack=ddp:2
row "ddp:4" "2 (R-1) n" $((6 * n)) strategy.stack=ddp:4
row "zero:2, stage 1" "2 (R-1) n" $((2 * n)) strategy.stack=zero:2 zero.stage=1
row "zero:4, stage 1" "2 (R-1) n" $((6 * n)) strategy.stack=zero:4 zero.stage=1
row "zero:2, stage 2" "2 (R-1) n" $((2 * n)) strategy.stack=zero:2 zero.stage=2
row "zero:2, stage 2, each micro-batch" "(k+1) (R-1) n" $(((mine2 + 1) * n)) \
    strategy.stack=zero:2 zero.stage=2 zero.reduce=microbatch
row "zero:2, stage 3" "(2k+1) (R-1) n" $(((2 * mine2 + 1) * n)) \
    strategy.stack=zero:2 zero.stage=3
row "zero:4, stage 3" "(2k+1) (R-1) n" $(((2 * mine4 + 1) * 3 * n)) \
    strategy.stack=zero:4 zero.stage=3
row "pipeline:2, 1f1b" "2 (p-1) m a" $((2 * microbatches * a)) strategy.stack=pipeline:2
row "pipeline:4, 1f1b" "2 (p-1) m a" $((6 * microbatches * a)) strategy.stack=pipeline:4
row "pipeline:2, interleaved, v = 2" "2 (pv-1) m a" $((6 * microbatches * a)) \
    strategy.stack=pipeline:2 pipeline.schedule=interleaved pipeline.chunks=2
row "tensor:2" "2 (R-1) (4 L + 2) m a" $((2 * (4 * layers + 2) * microbatches * a)) \
    strategy.stack=tensor:2
row "tensor:2, sequence parallel" "(R-1) (10 L + 5) m a" \
    $(((10 * layers + 5) * microbatches * a)) \
    strategy.stack=tensor:2 tensor.sequence_parallel=yes
