#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/bytes.sh: bytes on the wire of one optimizer step, promised and measured, as a
# markdown table. Needs a built tree (CADRE_BUILD, or build/). A run of 4 steps less one of 2
# leaves two steps without what start and end cost; what does not send the same in every step
# says which steps.
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
    total run "$count"
}
count=comm_bytes # what is counted

# between FROM TO NAME FORMULA PROMISED [s.k=v]...: of the steps after FROM up to TO.
between() {
    local from=$1 to=$2 name=$3 formula=$4 promised=$5 long short
    shift 5
    short=$(sent "$from" "$@")
    long=$(sent "$to" "$@")
    awk -v n="$name" -v f="$formula" -v p="$promised" -v l="$long" -v s="$short" \
        -v steps=$((to - from)) 'BEGIN {
        m = (l - s) / steps
        printf "| %s | %s | %.3f | %.3f | %.3f |\n", n, f, p / 1e6, m / 1e6, m / p
    }'
}

row() { # NAME FORMULA PROMISED [s.k=v]...
    between 2 4 "$@"
}

sent 2 strategy.stack=single >/dev/null
params=$(total run params)
n=$((4 * params))                              # bytes of a gradient
a=$((4 * batch * context * channels))          # of an activation
mine2=$((microbatches / 2)) mine4=$((microbatches / 4))    # micro-batches a rank
echo "GPT-2 form, $params parameters, $microbatches micro-batches a step; n bytes of all"
echo "gradients, q of them in int8 with scales, a of one activation, R ranks, in nodes of N,"
echo "k micro-batches a rank, m in all, L layers; H is diloco.period, n_f the bytes of the"
echo "largest of its fragments."
echo
echo "| layout | formula | promised MB | measured MB | ratio |"
echo "|---|---|---|---|---|"
row "ddp:2" "2 (R-1) n" $((2 * n)) strategy.stack=ddp:2
row "ddp:4" "2 (R-1) n" $((6 * n)) strategy.stack=ddp:4
# on 2 nodes of g = R/2 ranks, simulated, between nodes alone
count=comm_between_bytes
row "ddp:4 on 2 nodes, between them" "2 (R-g) n" $((4 * n)) strategy.stack=ddp:4 comm.node=2
row "ddp:4, node=2, between them" "2 (R-g) n/g" $((2 * n)) strategy.stack=ddp:4 comm.node=2 \
    ddp.node=2
row "ddp:8, node=4, between them" "2 (R-g) n/g" $((2 * n)) strategy.stack=ddp:8 comm.node=4 \
    ddp.node=4
row "zero:4, stage 1 on 2 nodes, between them" "2 (R-g) n" $((4 * n)) strategy.stack=zero:4 \
    comm.node=2
row "zero:4, stage 1, two levels, between them" "2 (R-g) n/g" $((2 * n)) strategy.stack=zero:4 \
    comm.node=2 zero.node=2 zero.two_levels=yes
count=comm_bytes
row "ddp:4, node=2" "2 (R-1) n" $((6 * n)) strategy.stack=ddp:4 comm.node=2 ddp.node=2
row "zero:2, stage 1" "2 (R-1) n" $((2 * n)) strategy.stack=zero:2 zero.stage=1
row "zero:4, stage 1" "2 (R-1) n" $((6 * n)) strategy.stack=zero:4 zero.stage=1
row "zero:2, stage 2" "2 (R-1) n" $((2 * n)) strategy.stack=zero:2 zero.stage=2
row "zero:2, stage 2, each micro-batch" "(k+1) (R-1) n" $(((mine2 + 1) * n)) \
    strategy.stack=zero:2 zero.stage=2 zero.reduce=microbatch
row "zero:2, stage 3" "(2k+1) (R-1) n" $(((2 * mine2 + 1) * n)) \
    strategy.stack=zero:2 zero.stage=3
row "zero:4, stage 3" "(2k+1) (R-1) n" $(((2 * mine4 + 1) * 3 * n)) \
    strategy.stack=zero:4 zero.stage=3
# in nodes of 2; q is n in codes of 17/16 bytes an element
q=$((params * 17 / 16))
nodes="strategy.stack=zero:4 zero.node=2"
# shellcheck disable=SC2086 # words
{
    row "zero:4, stage 3, secondary shards" "2 (R-1) n + (2k-1) R (N-1)/N n" \
        $((6 * n + (2 * mine4 - 1) * 2 * n)) $nodes zero.stage=3 zero.secondary=node
    row "zero:4, stage 3, quantized gathers" "2k (R-1) q + (R-1) n" \
        $((2 * mine4 * 3 * q + 3 * n)) strategy.stack=zero:4 zero.stage=3 \
        zero.quantize_gathers=int8
    row "zero:4, stage 1, quantized gradients" "(R-1) (q + n)" \
        $((3 * (q + n))) strategy.stack=zero:4 zero.stage=1 zero.quantize_gradients=int8
    row "zero:4, stage 1, the same in nodes" "(R-1) (q + n)" \
        $((3 * (q + n))) $nodes zero.stage=1 zero.quantize_gradients=int8
    row "zero:4, stage 3, all three" "2 (R-1) q + (2k-1) R (N-1)/N n" \
        $((6 * q + (2 * mine4 - 1) * 2 * n)) $nodes zero.stage=3 zero.secondary=node \
        zero.quantize_gathers=int8 zero.quantize_gradients=int8
}
row "pipeline:2, 1f1b" "2 (p-1) m a" $((2 * microbatches * a)) strategy.stack=pipeline:2
row "pipeline:4, 1f1b" "2 (p-1) m a" $((6 * microbatches * a)) strategy.stack=pipeline:4
row "pipeline:2, interleaved, v = 2" "2 (pv-1) m a" $((6 * microbatches * a)) \
    strategy.stack=pipeline:2 pipeline.schedule=interleaved pipeline.chunks=2
row "pipeline:2, zb-v" "4 (p-1) m a" $((4 * microbatches * a)) \
    strategy.stack=pipeline:2 pipeline.schedule=zb-v
row "tensor:2" "2 (R-1) (4 L + 2) m a" $((2 * (4 * layers + 2) * microbatches * a)) \
    strategy.stack=tensor:2
row "tensor:2, sequence parallel" "(R-1) (10 L + 5) m a" \
    $(((10 * layers + 5) * microbatches * a)) \
    strategy.stack=tensor:2 tensor.sequence_parallel=yes
turns="strategy.stack=diloco:2 diloco.period=4 diloco.fragments=4 diloco.overlap=1 diloco.mixing=0.5"
# the embedding and the fourth of the blocks, which are units 0 and 4
fragment=$((4 * ((vocab + context) * channels + 12 * channels * channels + 13 * channels)))
between 4 8 "diloco:2, H = 4" "2 (R-1) n / H" $((2 * n / 4)) strategy.stack=diloco:2 \
    diloco.period=4
# shellcheck disable=SC2086 # words
{
    between 4 8 "diloco:2, H = 4, 4 fragments" "2 (R-1) n / H" $((2 * n / 4)) $turns
    between 7 8 "diloco:2, H = 4, 4 fragments, its largest step" "2 (R-1) n_f" \
        $((2 * fragment)) $turns
}
