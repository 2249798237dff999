#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mig on a GPU: NVML's stand-in shows instances, CUDA's stand-in computes. Each rank is a
# process that was started with its instance in CUDA_VISIBLE_DEVICES, and trains to the bits
# of one rank; what cannot be is one line. Where the stand-ins were not built, this skips.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

cuda=$CADRE_BUILD/tests/support/cuda_host/.libs
nvml=$CADRE_BUILD/tests/support/fake_nvml/.libs/fake_nvml.so
if [ ! -e "$cuda/device_cuda.so" ] || [ ! -e "$nvml" ]; then
    echo "SKIP: the stand-ins of CUDA and NVML were not built (no C++ compiler)"
    exit 77
fi
export CADRE_MODULE_PATH=$cuda CADRE_NVML=$nvml XDG_CACHE_HOME=$tmp/xdg
unset CUDA_VISIBLE_DEVICES CADRE_FAKE_NVML_STATE CADRE_FAKE_NVML_FAULT \
    NCCL_HOSTID NCCL_MULTI_RANK_GPU_ENABLE
# two instances of one slice and one of three, numbered with holes
export CADRE_FAKE_NVML="h200 holes 0@0 0@2 2@4"

small="device.kind=cuda run.exact=yes run.seed=1 train.steps=2 train.global_batch=4 \
    train.micro_batch=1 train.eval_batches=1 model.layers=1 model.context=8 \
    model.channels=16"
mig="$small comm.ranks=processes strategy.stack=mig:2"

# ---- the same training ----
train text single 0 $small
train text two 0 $mig
same single two
if [ "$lean" != 1 ]; then
    train text staged 0 $mig "strategy.stack=mig:2, pipeline:2" mig.share=yes
    same single staged
    train text free 0 $mig mig.pin=no # as threads: there is nothing to be set
    train text threads 0 $small strategy.stack=mig:2 mig.pin=no
    same single free
    same single threads
fi

# ---- every rank on its own ----
train text all 0 $mig strategy.stack=mig:3 train.global_batch=3 log.level=debug
mapfile -t uuids < <(sed -nE 's/.* mig: rank . on MIG instance (MIG-.*)/\1/p' "$tmp/all.log")
[ "${#uuids[@]}" -eq 3 ] || fail "three ranks are on ${#uuids[@]} instances"

# runs_on NAME UUID UUID [s.k=v]...: the processes of ranks 0 and 1 have these.
runs_on() {
    local name=$1 child
    shift
    start text "$name" $mig train.steps=1000000 "${@:3}"
    wait_steps "$name" 1
    for child in $(pgrep -P "$(run_of "$pid")"); do
        tr '\0' '\n' <"/proc/$child/environ" |
            sed -nE 's/^(CADRE_RANK|CUDA_VISIBLE_DEVICES)=//p' | sort | xargs
    done | sort >"$tmp/ranks"
    printf '0 %s\n1 %s\n' "$1" "$2" | diff - "$tmp/ranks" || fail "$name: other instances"
    kill -INT "$pid"
    ends "$name" 4
}
runs_on first "${uuids[0]}" "${uuids[1]}"
runs_on chosen "${uuids[2]}" "${uuids[0]}" "mig.instances=${uuids[2]} 0:0"
grep -q "differ in size, .* set mig.sizes = 3 1" "$tmp/chosen.log" ||
    fail "chosen: did not say that the instances differ"
runs_on sized "${uuids[2]}" "${uuids[0]}" "mig.sizes=3 1"
! grep -q "differ in size" "$tmp/sized.log" || fail "sized: was warned of its sizes"
train text uneven 0 $mig "mig.sizes=3 1"
same single uneven
CUDA_VISIBLE_DEVICES=${uuids[1]},${uuids[2]} runs_on limited "${uuids[1]}" "${uuids[2]}"

# Independent instances are started likewise, whatever a rank would be.
start text independent $small strategy.stack=mig:2 mig.mode=independent train.steps=1000000
wait_steps independent/instance-0 1
wait_steps independent/instance-1 1
for child in $(pgrep -P "$(run_of "$pid")"); do
    tr '\0' '\n' <"/proc/$child/environ" | sed -n 's/^CUDA_VISIBLE_DEVICES=//p'
done | sort >"$tmp/runs"
printf '%s\n' "${uuids[@]:0:2}" | sort | diff - "$tmp/runs" || fail "independent: other instances"
kill -INT "$pid"
ends independent 4
no_orphan "all runs"

# ---- MPS and time-slicing ----
# A stand-in of the daemon's program: it answers where the folder says that there is one.
mkdir "$tmp/bin" "$tmp/daemon"
cat >"$tmp/bin/nvidia-cuda-mps-control" <<EOF
#!/bin/sh
read -r question && [ "\$question" = get_server_list ] && [ -e "$tmp/daemon/runs" ]
EOF
chmod +x "$tmp/bin/nvidia-cuda-mps-control"
shared="$small strategy.stack=mig:2 mig.mode=independent mig.pin=no"

# sees NAME WANT [s.k=v]...: both processes have this CUDA_MPS_PIPE_DIRECTORY.
sees() {
    local name=$1 child
    start text "$name" $shared train.steps=1000000 "${@:3}"
    wait_steps "$name/instance-0" 1
    wait_steps "$name/instance-1" 1
    for child in $(pgrep -P "$(run_of "$pid")"); do
        tr '\0' '\n' <"/proc/$child/environ" |
            sed -n 's/^CUDA_MPS_PIPE_DIRECTORY=//p' | grep . || echo none
    done | sort -u >"$tmp/seen"
    kill -INT "$pid"
    ends "$name" 4
    [ "$(cat "$tmp/seen")" = "$2" ] || fail "$name: $(xargs <"$tmp/seen"), expected $2"
}
path=$PATH
train text no-program 2 $shared mig.mps=yes
says no-program "mig.mps = yes needs CUDA MPS, and nvidia-cuda-mps-control cannot be run"
PATH=$tmp/bin:$path
train text no-daemon 2 $shared mig.mps=yes
says no-daemon "and its control daemon does not run; start it with .nvidia-cuda-mps-control -d."
sees sliced none mig.mps=no
touch "$tmp/daemon/runs"
sees mps none mig.mps=yes
sees sliced-beside /nonexistent/cadre-without-mps mig.mps=no
PATH=$path
no_orphan "those that share"

# ---- ranks of an external launcher, over host memory ----
# outside NAME STATUS DEVICES DEVICES [s.k=v]...: ranks 0 and 1 with these visible.
outside() {
    local before=("env CUDA_VISIBLE_DEVICES=$3" "env CUDA_VISIBLE_DEVICES=$4")
    # shellcheck disable=SC2086 # words
    start_ranks "file://$tmp/meet-$1" "$1" $small strategy.stack=mig:2 comm.backend=local \
        "${@:5}"
    end_ranks "$1" "$2"
}
outside given 0 "${uuids[1]}" "${uuids[2]}"
same single given
outside listed 2 "${uuids[0]},${uuids[1]}" "${uuids[0]},${uuids[1]}"
says listed.1 "wants CUDA_VISIBLE_DEVICES=${uuids[1]} for rank 1, which was started by an external launcher"
outside other 2 "${uuids[1]}" "${uuids[0]}" "mig.instances=${uuids[0]} ${uuids[1]}"
says other.0 "wants CUDA_VISIBLE_DEVICES=${uuids[0]} for rank 0, .*with ${uuids[1]};"
outside thick 2 "${uuids[0]}" "${uuids[1]}" mig.profile=3g
says thick.0 "started on ${uuids[0]}, which is a 1g.18gb, but mig.profile = 3g"

# ---- refused ----
# wrong NAME PATTERN [s.k=v]...
wrong() {
    local name=$1 pattern=$2
    shift 2
    train text "$name" 2 $mig "$@"
    says "$name" "$pattern"
    [ ! -e "$tmp/$name" ] || fail "$name left a run folder"
}
wrong as-threads "CUDA_VISIBLE_DEVICES of rank 0, .*needs comm.ranks = processes" \
    comm.ranks=threads
wrong many "needs 4 MIG instances, found 3; take fewer, make more .*mig.share = yes" \
    strategy.stack=mig:4
wrong wide "needs 2 MIG instances, found 1 of mig.profile = 3g" mig.profile=3g
wrong unknown "mig.instances: '0:9' is none of the 3 MIG instances" "mig.instances=0:9 0:0"
wrong stacked "puts 2 ranks on each of 2 MIG instances: set mig.share = yes" \
    "strategy.stack=mig:2, pipeline:2"
wrong nccl "comm.backend = nccl with 2 ranks, but this machine shows 1 GPU" \
    comm.backend=nccl
CADRE_FAKE_NVML="h200 off" wrong off \
    "there is none: GPU 0 .*MIG is off; .cadre mig plan. says how .*mig.pin = no"
CADRE_FAKE_NVML=h200 wrong empty "no instances yet"
CADRE_FAKE_NVML="h200 nomig" wrong none "there is none: GPU 0 .*MIG"
CADRE_NVML=$tmp/no.so wrong driver "there is none: .*$tmp/no.so"
