#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two levels: ranks of simulated nodes (comm.node), and ddp and zero that sum inside nodes, then
# between them (ddp.node, zero.two_levels). In exact mode the bits are those of `single`, over the segment, MPI and the
# stand-in of NCCL, with buckets that do not divide, and after a resume; bytes are those promised
# for each level; a rank that is killed ends the run; what cannot work is one line.
# CADRE_TEST_SLOW=1 takes more stacks and sizes.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

common="run.exact=yes train.steps=4 train.eval_batches=1"
two="ddp.node=2 comm.node=2"
sharded="zero.node=2 zero.two_levels=yes comm.node=2"
train text single 0 $common

value() { # NAME KEY
    sed -nE "s/^  \"$2\": *([0-9.e+-]+|true|false|null),?$/\1/p" "$tmp/$1/summary.json"
}

# held STACK [s.k=v]...
held() {
    train text levels 0 $common "strategy.stack=$1" "${@:2}"
    same single levels
    echo "$*"
    rm -r "${tmp:?}/levels"
}
held ddp:4 $two ddp.bucket_mb=0.003
held ddp:8 $two ddp.node=4 comm.ranks=processes train.recompute=block
held "pipeline:2, ddp:4" $two ddp.overlap=no
held zero:4 $sharded zero.stage=1 zero.bucket_mb=0.003
held zero:8 $sharded zero.node=4 zero.stage=3 comm.ranks=processes train.recompute=block
if [ "$slow" = 1 ]; then
    held ddp:8 $two ddp.bucket_mb=0.001
    held ddp:4 $two train.recompute=block comm.link=1:5,0.1:30
    held "ddp:4, tensor:1" $two comm.ranks=processes
    held "hsdp:2, ddp:4" $two
    held "pipeline:2, zero:4" $sharded zero.stage=2 zero.reduce=microbatch comm.link=1:5,0.1:30
    held "ddp@site:4, zero:2" ddp@site.node=2 ddp@site.level=16 zero.stage=2 zero.reduce=microbatch
fi

# As many ranks as do not make a power of two: the tree is over 3 nodes of 2. Three micro-batches
# a rank, which exact mode does not take: the bits of one sum over all.
odd="train.steps=4 train.global_batch=36 train.micro_batch=2 train.eval_batches=1"
train text flat 0 $odd strategy.stack=ddp:6
train text odd 0 $odd strategy.stack=ddp:6 $two ddp.bucket_mb=0.01
same flat odd
train text odd3 0 $odd strategy.stack=ddp:6 ddp.node=3 comm.node=4
close_to flat odd3 1e-6 1e-3
grep -q "3 adjacent ranks of 'dp.inner', which 'ddp' takes for one node, are on 2 nodes" \
    "$tmp/odd3.log" || fail "no warning of nodes that the strategy does not know"
[ "$(value odd3 nodes)" = 2 ] || fail "4 and 2 ranks are not 2 nodes"
! grep -q "adjacent ranks" "$tmp/odd.log" || fail "a warning of nodes that fit"

# A run goes on under another strategy, and back.
train text on 0 $common train.steps=2 strategy.stack=ddp:4 $two
train text on 0 $common train.steps=3 strategy.stack=zero:4 $sharded zero.stage=3 \
    checkpoint.resume=auto
train text on 0 $common strategy.stack=ddp:4 $two comm.ranks=processes checkpoint.resume=auto
same single on

# ---- bytes: over R ranks in nodes of g, n bytes of gradients ----
wide="train.steps=1 train.eval_batches=1 model.tied=no checkpoint.every=0"
train text one-node 0 $wide strategy.stack=ddp:4
train text flat-4 0 $wide strategy.stack=ddp:4 comm.node=2
train text levels-4 0 $wide strategy.stack=ddp:4 $two
[ "$(value one-node comm_between_bytes)" = 0 ] || fail "bytes between one node"
[ "$(value one-node nodes) $(value flat-4 nodes)" = "1 2" ] || fail "nodes are not counted"
[ "$(value one-node simulated_nodes) $(value flat-4 simulated_nodes)" = "false true" ] ||
    fail "simulated nodes are not told"
[ "$(value one-node comm_bytes)" = "$(value flat-4 comm_bytes)" ] ||
    fail "counting by level changes what is counted"
# saved FLAT LEVELS: all else is the same in both. Between nodes one sum, or one reduction and one
# gather, sends 2 R n (R-g)/R, two levels 2 R n (R-g)/R / g; together both send 2 (R-1) n.
saved() {
    awk -v f="$(value "$1" comm_between_bytes)" -v t="$(value "$2" comm_between_bytes)" \
        -v F="$(value "$1" comm_bytes)" -v T="$(value "$2" comm_bytes)" \
        -v n="$(($(value "$1" params) * 4))" -v name="$2" 'BEGIN {
            saved = (f - t) / (4 * n * (1 - 1 / 2))
            printf "%s: saved between nodes, measured / promised: %.4f; all: %.5f\n", name, saved, T / F
            exit !(saved > 0.98 && saved < 1.02 && T / F > 0.98 && T / F < 1.02)
        }' || fail "$2: bytes between nodes"
}
saved flat-4 levels-4
train text zero-4 0 $wide strategy.stack=zero:4 comm.node=2
train text sharded-4 0 $wide strategy.stack=zero:4 $sharded
saved zero-4 sharded-4

# ---- what cannot work ----
refused divide "ddp.node = 3 does not divide the 4 ranks" strategy.stack=ddp:4 ddp.node=3
refused power "ddp.node = 3 with run.exact = yes.*power of two" strategy.stack=ddp:6 \
    ddp.node=3 run.exact=yes train.global_batch=48
refused compress "ddp.compress = int8" strategy.stack=ddp:4 ddp.node=2 ddp.compress=int8
refused link "comm.link = 1:2,3:4 .*comm.node = 0" strategy.stack=ddp:4 comm.link=1:2,3:4
refused pairs "comm.link is .1:2,3.*between them" strategy.stack=ddp:4 comm.link=1:2,3
ranges=$(test_plugin ranges)
refused ranges "ddp.node = 2 with ranges of micro-batches" "strategy.stack=ddp:4, $ranges:1" \
    run.exact=yes ddp.node=2 ranges.first=0,1,3,4,8

# ---- a rank dies ----
for stack in "ddp:4 $two" "zero:4 $sharded"; do
    start text dies strategy.stack=$stack comm.ranks=processes train.steps=1000000
    wait_steps dies 2
    kill -KILL "$(rank_of "$pid" 2)"
    ends dies 1
    says dies "rank 2 was killed by signal 9"
    no_orphan dies
    rm -r "${tmp:?}/dies"
done

# ---- MPI, and the stand-in of NCCL ----
case $("$cadre" doctor | sed -n 's/^yes  *mpi  *//p') in
"Open MPI"*) mpirun=(mpirun.openmpi --oversubscribe) ;;
?*) mpirun=(mpirun.mpich) ;;
*) mpirun=(none) ;;
esac
if command -v "${mpirun[0]}" >/dev/null; then
    [[ ${mpirun[0]} != *openmpi || $(id -u) -ne 0 ]] || mpirun+=(--allow-run-as-root)
    settings $common strategy.stack=ddp:4 $two comm.backend=mpi
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 runs mpi 0 timeout -k 5 "$hang" \
        "${mpirun[@]}" -n 4 "$cadre" train "$tmp/text.ini" --out "$tmp/mpi" "${sets[@]}"
    same single mpi
    [ "$(value mpi nodes)" = 2 ] || fail "mpi: not 2 nodes"
    settings $common strategy.stack=zero:4 $sharded comm.backend=mpi
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 runs mpi 0 timeout -k 5 "$hang" \
        "${mpirun[@]}" -n 4 "$cadre" train "$tmp/text.ini" --out "$tmp/mpi-zero" "${sets[@]}"
    same single mpi-zero
else
    echo "SKIP: no ranks over MPI: comm_mpi.so was not built, or has no mpirun"
fi
standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ -e "$standin/device_cuda.so" ] && [ -e "$standin/comm_nccl.so" ]; then
    export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg CADRE_STANDIN_DEVICES=4
    gpu="$common device.kind=cuda train.steps=2 train.global_batch=4 train.micro_batch=1
        model.layers=1 model.context=8 model.channels=16"
    train text gpu 0 $gpu
    train text nccl 0 $gpu comm.backend=nccl comm.ranks=processes strategy.stack=ddp:4 $two
    same gpu nccl
    train text nccl-zero 0 $gpu comm.backend=nccl comm.ranks=processes strategy.stack=zero:4 $sharded
    same gpu nccl-zero
    [ "$(value nccl nodes)" = 2 ] || fail "nccl: not 2 nodes"
else
    echo "SKIP: no ranks over NCCL: its stand-in was not built"
fi
