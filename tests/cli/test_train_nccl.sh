#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# comm.backend = nccl, one process a GPU, on the stand-ins of CUDA and NCCL: the same bits as
# over the segment in exact mode, whoever starts the ranks; a rank that dies ends the others;
# what cannot work is one line. Where the stand-ins were not built, this skips.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

standin=${CADRE_TEST_NCCL:-$CADRE_BUILD/tests/support/cuda_host/.libs}
cuda=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ ! -e "$cuda/device_cuda.so" ] || [ ! -e "$standin/comm_nccl.so" ]; then
    echo "SKIP: the stand-ins of CUDA and NCCL were not built (no C++ compiler)"
    exit 77
fi
export CADRE_MODULE_PATH=$standin:$cuda XDG_CACHE_HOME=$tmp/xdg CADRE_STANDIN_DEVICES=2
unset CADRE_INIT CADRE_RANK CADRE_WORLD_SIZE CADRE_LOCAL_RANK CADRE_JOB NCCL_HOSTID \
    NCCL_MULTI_RANK_GPU_ENABLE CUDA_VISIBLE_DEVICES

small="device.kind=cuda run.seed=1 train.steps=2 train.global_batch=2 train.micro_batch=1 \
    train.eval_batches=1 model.layers=1 model.context=8 model.channels=16"
nccl="$small comm.backend=nccl comm.ranks=processes"

# outside WHERE NAME STATUS [s.k=v]...: they end with STATUS.
outside() {
    start_ranks "$1" "$2" "${@:4}"
    end_ranks "$2" "$3"
}

# wrong NAME STATUS PATTERN [s.k=v]...: training ends so, in one line with PATTERN.
wrong() {
    local name=$1 status=$2 pattern=$3
    shift 3
    train text "$name" "$status" "$@"
    says "$name" "$pattern"
    [ ! -e "$tmp/$name" ] || fail "$name left a run folder"
}

# ---- a rank dies that nobody watches: the other one ends at its limit, looked at below ----
limit=$((10 + 3 * patience))
# (the exact runs must not find what it timed)
CADRE_TUNING=keep start_ranks "file://$tmp/meet-alone" alone $small strategy.stack=ddp:2 \
    train.steps=1000000 comm.timeout=$limit
alone=${pids[0]}
pid=$alone
until_so alone.0 "step 2" has_steps alone 2
kill -KILL "${pids[1]}"
wait "${pids[1]}" 2>/dev/null || true

"$cadre" doctor | grep -E "^yes +nccl +NCCL 2" || fail "cadre doctor names no NCCL"

# ---- the same bits, whoever starts the ranks ----
train text single 0 $small run.exact=yes
train text ddp 0 $nccl strategy.stack=ddp:2 run.exact=yes
same ddp single
outside "file://$tmp/meet" by-file 0 $small strategy.stack=ddp:2 run.exact=yes
same by-file single
for file in "$tmp"/meet*; do
    [ ! -e "$file" ] || fail "the ranks left $file"
done
grep -q "2 steps with ddp:2 done" "$tmp/by-file.0.out" || fail "rank 0 has no last line"
[ ! -s "$tmp/by-file.1.out" ] || fail "rank 1 has a last line too"
# it times algorithms while messages are on their way, and the exact runs after it must not
# find them
CADRE_TUNING=keep outside "file://$tmp/meet" measured 0 $small strategy.stack=pipeline:2 \
    pipeline.balance=measured
stacks="zero:2 pipeline:2 tensor:2"
[ "$lean" = 0 ] || stacks="pipeline:2"
for stack in $stacks; do
    train text "$stack" 0 $nccl "strategy.stack=$stack" run.exact=yes
    if [ "$stack" = tensor:2 ]; then # sums of its own, the same over the segment
        train text local 0 $small comm.ranks=processes strategy.stack=tensor:2 \
            run.exact=yes
        same "$stack" local
    else
        same "$stack" single
    fi
done

# ---- by TCP, and going on where a run ended: rank 0 finds the folder, all its checkpoint ----
outside "tcp://127.0.0.1:$(free_port)" by-tcp 0 $small strategy.stack=ddp:2 run.exact=yes \
    train.steps=1
outside "tcp://127.0.0.1:$(free_port)" by-tcp 0 $small strategy.stack=ddp:2 run.exact=yes \
    checkpoint.resume=auto
same by-tcp single

# ---- what is wrong with rank 0's folder, all say; what differs, too ----
outside "file://$tmp/meet" by-file "1|2" $small strategy.stack=ddp:2
says by-file.0 "by-file' holds a run already"
says by-file.1 "rank 0: .*by-file' holds a run already"
before=("env CADRE_HOST_NCCL_VERSION=22809" "env CADRE_HOST_NCCL_VERSION=22808")
outside "file://$tmp/meet" versions "1|2" $small strategy.stack=ddp:2
says versions.0 ": rank 1: it has NCCL .*, rank 0 has NCCL .*one version"
says versions.1 ": rank 1: it has NCCL .*, rank 0 has NCCL .*one version"
before=() each=(run.seed=1 run.seed=2)
outside "file://$tmp/meet" seeds "1|2" $small strategy.stack=ddp:2
says seeds.0 ": rank 1: it does not run what rank 0 runs"
says seeds.1 ": rank 1: it does not run what rank 0 runs"
each=()

# ---- what cannot work ----
wrong threads 2 "needs a process for each rank.*comm.ranks = processes" $small \
    comm.backend=nccl strategy.stack=ddp:2
wrong cpu 2 "needs a GPU for each rank.*device.kind = cuda" $nccl device.kind=cpu \
    strategy.stack=ddp:2
wrong crowded 2 "4 ranks, but this machine shows 2 GPUs" $nccl strategy.stack=ddp:4
wrong link 2 "comm.link = 10:50 delays the local transport" $nccl strategy.stack=ddp:2 \
    comm.link=10:50
mkdir "$tmp/modules"
ln -s "$cuda/device_cuda.so" "$tmp/modules"
: >"$tmp/modules/comm_nccl.so"
CADRE_MODULE_PATH=$tmp/modules wrong bare 2 "NCCL is not available.*comm_nccl.so' cannot be opened" \
    $nccl strategy.stack=ddp:2

# ---- a rank dies ----
start text dies $nccl strategy.stack=ddp:2 train.steps=1000000
wait_steps dies 2
kill -KILL "$(rank_of "$pid" 1)"
ends dies 1
says dies "rank 1 was killed by signal 9"
no_orphan dies

pid=$alone
ends alone.0 1
says alone.0 "did not end within $limit s|rank 1"

# ---- one dies whose connection to rank 0 is open: nobody waits for a time limit ----
start_ranks "tcp://127.0.0.1:$(free_port)" missed $small strategy.stack=ddp:2 \
    train.steps=1000000 comm.timeout=100000
pid=${pids[0]}
until_so missed.0 "step 2" has_steps missed 2
kill -KILL "$(run_of "${pids[1]}")"
ends missed.0 1
says missed.0 "rank 1 at 127.0.0.1 has ended without a word to rank 0"
pid=${pids[1]}
ends missed.1 1

# ---- a signal to one rank stops all, and rank 0 says so ----
start_ranks "file://$tmp/meet" stopped $small strategy.stack=ddp:2 train.steps=1000000
pid=${pids[0]}
until_so stopped.0 "step 1" has_steps stopped 1
kill -TERM "${pids[1]}"
ends stopped.0 4
says stopped.0 "stopped by a signal after step"
pid=${pids[1]}
ends stopped.1 4
! grep '^cadre: ' "$tmp/stopped.1.log" || fail "rank 1 reports it too"

# ---- the commands of docs/cuda.md, on a small run ----
awk -v out="$tmp/block" '
    /^<!-- run by tests\/cli\/test_train_nccl.sh -->$/ { armed = 1; next }
    armed && /^```sh$/ { n++; inside = 1; armed = 0; next }
    /^```$/ { inside = 0 }
    inside { print >(out "." n) }' "$CADRE_SRC/docs/cuda.md"
mkdir -p "$tmp/tree/conf"
sed -e 's/^layers .*/layers = 1/; s/^channels .*/channels = 16/; s/^context .*/context = 8/' \
    -e 's/^steps .*/steps = 2/; s/^eval_batches .*/eval_batches = 1/' \
    -e 's/^global_batch .*/global_batch = 2/; s/^micro_batch .*/micro_batch = 1/' \
    "$tmp/text.ini" >"$tmp/tree/conf/quickstart.ini"
sed -i "s/:29500/:$(free_port)/" "$tmp/block.2"
for block in 1 2; do
    (cd "$tmp/tree" && PATH=$CADRE_BUILD:$PATH bash -eu "$tmp/block.$block") >"$tmp/block.log" 2>&1 || {
        cat "$tmp/block.log"
        fail "block $block of docs/cuda.md"
    }
done
for run in two by-hand; do
    grep -q '"loss"' "$tmp/tree/runs/$run/metrics.jsonl" || fail "docs/cuda.md: no $run"
done
cmp "$tmp"/tree/runs/{two,by-hand}/checkpoints/step-00000002/model.safetensors ||
    fail "docs/cuda.md: both routes end with different bits"
