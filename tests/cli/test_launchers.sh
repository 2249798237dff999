#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cadre train under launchers, two CPU ranks on this machine: mpirun of Open MPI and of MPICH,
# and the environments of torchrun and srun set by hand, train to the bits of local ranks; a
# killed rank ends the other; what is half set or cannot work is one line, and no wait. Where
# there is no mpirun, that part is skipped and says so.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"

# What a launcher around this test has set is not of its runs.
while read -r name; do
    unset "$name"
done < <(env | sed -nE 's/^((CADRE_(INIT|RANK|JOB|SECRET|[A-Z_]*RANK|[A-Z_]*SIZE)|SLURM|PMI|PMIX|OMPI|MPI|MV2|PALS|FLUX|JSM|TORCHELASTIC|MASTER)[A-Z0-9_]*|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE)=.*/\1/p')
export TMPDIR=$tmp/tmp
mkdir "$TMPDIR"

small="device.kind=cpu device.threads=1 run.seed=1 run.exact=yes train.steps=3 \
    train.global_batch=4 train.micro_batch=1 train.eval_batches=1 model.layers=1 \
    model.context=8 model.channels=16"

# args NAME [s.k=v]...: the command's arguments, in args.
args() {
    local sets
    settings "${@:2}"
    args=(train "$tmp/text.ini" --out "$tmp/$1" "${sets[@]}")
}

# A job whose step 1 meets at a port that is free.
free_job() {
    local job
    while :; do
        job=$((RANDOM + 4096))
        (exec 3<>"/dev/tcp/127.0.0.1/$((61440 + (job + 1) % 4096))") 2>/dev/null || break
    done
    echo "$job"
}

# environment LAUNCHER RANK: the variables that it sets in rank RANK of two.
environment() {
    local rank=$2
    case $1 in
    torchrun)
        echo "RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 GROUP_RANK=0 \
            GROUP_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0"
        ;;
    srun)
        echo "SLURM_JOB_ID=$job SLURM_STEP_ID=1 SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 \
            SLURM_NTASKS=2 SLURM_LOCALID=$rank SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 \
            SLURM_STEP_TASKS_PER_NODE=2 SLURM_STEP_NODELIST=no-such-host"
        ;;
    srun-two) # two machines that are one
        echo "SLURM_JOB_ID=$job SLURM_STEP_ID=1 SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 \
            SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=$rank SLURM_STEP_NUM_NODES=2 \
            SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_STEP_NODELIST=no-such-host[1-2]"
        ;;
    flux)
        echo "FLUX_TASK_RANK=$rank FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=$rank \
            FLUX_JOB_NNODES=1 FLUX_JOB_ID=fJ2x PMI_RANK=$rank PMI_SIZE=2"
        ;;
    esac
}

# begin LAUNCHER NAME [s.k=v]...: both ranks in the background; process ids in pids, logs
# are NAME.0.log and NAME.1.log. extra[RANK] are more variables, other[RANK] another --out.
extra=() other=()
begin() {
    local launcher=$1 name=$2 rank
    shift 2
    port=$(free_port 1) job=$(free_job)
    pids=()
    for rank in 0 1; do
        args "${other[rank]:-$name}" $small strategy.stack=ddp:2 "$@"
        env $(environment "$launcher" "$rank") ${extra[rank]:-} "$cadre" "${args[@]}" \
            >"$tmp/$name.$rank.out" 2>"$tmp/$name.$rank.log" &
        pids[rank]=$!
        started+=("${pids[rank]}")
    done
}

# both LAUNCHER NAME STATUS [s.k=v]...: they end with STATUS.
both() {
    local rank
    begin "$1" "$2" "${@:4}"
    for rank in 0 1; do
        pid=${pids[rank]}
        ends "$2.$rank" "$3"
    done
}

# tidy NAME: nothing is left where the ranks met, nor in the run's folder.
tidy() {
    [ -z "$(find "$TMPDIR" -name "cadre-*")" ] || fail "$1: left in TMPDIR: $(ls "$TMPDIR")"
    [ -z "$(find "$tmp/$1" -maxdepth 1 -name '.ranks*')" ] || fail "$1: left a mark or a secret"
}

train text own 0 $small strategy.stack=ddp:2

# ---- real launchers ----
skipped=
# launch NAME COMMAND...: one mpirun with both ranks.
launch() {
    local name=$1 status=0
    shift
    timeout -k 5 $((hang + 10)) "$@" >"$tmp/$name.out" 2>"$tmp/$name.log" </dev/null ||
        status=$?
    if [ $status -ne 0 ]; then
        cat "$tmp/$name.log"
        fail "$name: $1 ended with $status"
    fi
    [ "$(grep -c "3 steps with ddp:2 done" "$tmp/$name.out")" -eq 1 ] ||
        fail "$name: not one last line"
    same "$name" own
    tidy "$name"
}

openmpi=(mpirun.openmpi --oversubscribe -n 2)
[ "$(id -u)" -ne 0 ] || openmpi+=(--allow-run-as-root)
mpich=(mpirun.mpich -n 2)
for kind in openmpi mpich; do
    declare -n command=$kind
    if ! command -v "${command[0]}" >"$tmp/where"; then
        skipped+=" ${command[0]}"
        continue
    fi
    args "$kind" $small strategy.stack=ddp:2
    launch "$kind" "${command[@]}" "$cadre" "${args[@]}"
    # a script around each rank; `*` takes the launcher's ranks
    args "$kind-script" $small "strategy.stack=ddp:*"
    launch "$kind-script" "${command[@]}" sh -c '"$@"; exit $?' sh "$cadre" "${args[@]}"
    # one that says what it believes; Open MPI gives a terminal, where lines are broken
    "${command[@]}" sh -c '"$1" doctor | cat' sh "$cadre" >"$tmp/doctor" 2>&1
    grep -E "^yes +launcher +(Open MPI|MPICH): rank 1 of 2, 1 of 2 on its machine" \
        "$tmp/doctor" >"$tmp/line" || { cat "$tmp/doctor"; fail "$kind: doctor"; }
    grep -E "^yes +launcher +the ranks meet at file://$TMPDIR/cadre-" "$tmp/doctor" \
        >"$tmp/line" || { cat "$tmp/doctor"; fail "$kind: doctor says no place"; }
done
[ -z "$skipped" ] || echo "SKIP: no$skipped"

# ---- over MPI, by the mpirun of the MPI that Cadre was built with, and by another ----
mpi_is=$("$cadre" doctor | sed -n 's/^yes  *mpi  *//p')
case $mpi_is in
"Open MPI"*) mine=openmpi other_mpi=mpich ;;
?*) mine=mpich other_mpi=openmpi ;;
*) mine= ;;
esac
standin=$CADRE_BUILD/tests/support/cuda_host/.libs leaks=${ASAN_OPTIONS:-}
if [ -z "$mine" ] || [[ "$skipped" == *$mine* ]]; then
    echo "SKIP: ranks over MPI: comm_mpi.so was not built, or has no mpirun"
else
    declare -n command=$mine
    export ASAN_OPTIONS=$leaks:detect_leaks=0 # MPI's own
    args mpi $small strategy.stack=ddp:2 comm.backend=mpi
    launch mpi "${command[@]}" "$cadre" "${args[@]}"
    # a rank that is stopped is told from a dead one
    args hangs $small strategy.stack=ddp:2 comm.backend=mpi train.steps=1000000 \
        comm.timeout=$((2 + patience))
    "${command[@]}" "$cadre" "${args[@]}" >"$tmp/hangs.out" 2>"$tmp/hangs.log" &
    pid=$!
    started+=("$pid")
    until_so hangs "step 2" has_steps hangs 2
    stopped=$("$cadre" top "$tmp/hangs" --json | sed -nE 's/^ *"pid": ([0-9]+),$/\1/p' | tail -n 1)
    kill -STOP "$stopped"
    until_so hangs "a line of the stopped rank" \
        grep -qE "^cadre: rank 1 .*; stopped: rank 1 \(process $stopped, step [0-9]+\)" "$tmp/hangs.log"
    kill -KILL "$stopped" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    # what differs, or is wrong with rank 0's folder, all say, and MPI ends in order
    status=0
    args differs $small strategy.stack=ddp:2 comm.backend=mpi
    "${command[@]}" sh -c '"$@" --set run.seed=$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} + 1))' \
        sh "$cadre" "${args[@]}" >"$tmp/differs.out" 2>"$tmp/differs.log" || status=$?
    [ $status -ne 0 ] || fail "ranks with two seeds train"
    grep "^cadre: rank 1: it does not run what rank 0 runs" "$tmp/differs.log" \
        >"$tmp/line" || { cat "$tmp/differs.log"; fail "two seeds: not said"; }
    if [[ "$skipped" != *$other_mpi* ]]; then
        declare -n command=$other_mpi
        status=0
        args strange $small strategy.stack=ddp:2 comm.backend=mpi
        timeout "$hang" "${command[@]}" "$cadre" "${args[@]}" >"$tmp/strange.out" \
            2>"$tmp/strange.log" || status=$?
        [[ $status -ne 0 && $status -ne 124 ]] || fail "another MPI's mpirun: $status"
        grep -E "^cadre: .*the launcher is of another MPI" "$tmp/strange.log" \
            >"$tmp/line" || { cat "$tmp/strange.log"; fail "another MPI: not said"; }
    fi
    export ASAN_OPTIONS=$leaks
fi
# GPUs of several machines, where the launcher gives no place: NCCL's world is made over MPI
if [[ "$mine" = openmpi && "$skipped" != *openmpi* && -e $standin/comm_nccl.so &&
    -e $standin/device_cuda.so ]]; then
    export CADRE_MODULE_PATH=$standin:$CADRE_BUILD/.libs CADRE_STANDIN_DEVICES=2 \
        XDG_CACHE_HOME=$tmp/xdg ASAN_OPTIONS=$leaks:detect_leaks=0
    train text gpu-own 0 $small device.kind=cuda strategy.stack=ddp:2
    args gpu $small device.kind=cuda strategy.stack=ddp:2
    "${openmpi[@]}" env -u OMPI_COMM_WORLD_LOCAL_SIZE -u OMPI_MCA_orte_num_nodes \
        "$cadre" "${args[@]}" >"$tmp/gpu.out" 2>"$tmp/gpu.log" || {
        cat "$tmp/gpu.log"
        fail "NCCL over MPI"
    }
    for line in "2 ranks over MPI" "2 ranks over NCCL"; do
        grep "$line" "$tmp/gpu.log" >"$tmp/line" || fail "not '$line'"
    done
    same gpu gpu-own
    unset CADRE_MODULE_PATH CADRE_STANDIN_DEVICES XDG_CACHE_HOME
    export ASAN_OPTIONS=$leaks
else
    echo "SKIP: NCCL's world over MPI: comm_mpi.so of Open MPI or the stand-ins were not built"
fi

# ---- the environments of others ----
for launcher in torchrun srun flux; do
    both $launcher $launcher 0
    same $launcher own
    tidy $launcher
done
grep -q "3 steps with ddp:2 done" "$tmp/srun.0.out" || fail "rank 0 has no last line"
[ ! -s "$tmp/srun.1.out" ] || fail "rank 1 has a last line too"
# several machines by the launcher's word, which are one: asked for, and a place given
extra=("CADRE_INIT=file://$tmp/meet" "CADRE_INIT=file://$tmp/meet")
both srun-two two 0 comm.backend=local
same two own
extra=()

# ---- a batch script's shell starts its own ranks; so does a task alone ----
SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=0 \
    train text batch 0 $small strategy.stack=ddp:2
same batch own
SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 \
    train text single-task 0 $small strategy.stack=ddp:2
same single-task own

# ---- what is half set, or cannot work: one line, at once ----
# wrong PATTERN VARIABLE=VALUE... -- COMMAND...
wrong() {
    local pattern=$1 status=0 set=()
    shift
    while [ "$1" != -- ]; do
        set+=("$1")
        shift
    done
    shift
    timeout "$hang" env "${set[@]}" "$cadre" "$@" >"$tmp/wrong.out" 2>"$tmp/wrong.log" ||
        status=$?
    [ $status -eq 2 ] || { cat "$tmp/wrong.log"; fail "'$pattern': status $status"; }
    says wrong "$pattern"
}
args nothing $small strategy.stack=ddp:2
wrong "OMPI_COMM_WORLD_SIZE is not set" OMPI_COMM_WORLD_RANK=0 -- "${args[@]}"
wrong "PMI_RANK is not" PMI_SIZE=2 -- "${args[@]}"
wrong "MASTER_ADDR is not set" RANK=0 WORLD_SIZE=2 -- "${args[@]}"
wrong "SLURM_PROCID is .2." SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_NTASKS=2 -- "${args[@]}"
wrong "PMIX_RANK is set.*CADRE_WORLD_SIZE" PMIX_RANK=0 -- "${args[@]}"
wrong "CADRE_RANK is set, but CADRE_INIT is not" CADRE_RANK=0 -- "${args[@]}"
job=8
wrong "CPUs of several machines.*MPI" $(environment srun-two 0) -- "${args[@]}"
wrong "makes 4 ranks.*started 2" $(environment srun 0) -- "${args[@]}" --set strategy.stack=ddp:4
wrong "starts all ranks.*rank 1 of 2 by srun" $(environment srun 1) -- compare "$tmp/text.ini" \
    --out "$tmp/nothing"
wrong "runs in one process.*rank 1 of 2 by srun" $(environment srun 1) -- eval "$tmp/text.ini" \
    --out "$tmp/own"
[ ! -e "$tmp/nothing" ] || fail "a refused run left a folder"
wrong "cannot meet at .tcp://no-such-host1:61449.: " $(environment srun-two 0) -- "${args[@]}" \
    --set comm.backend=local

# what only one rank can see, all say; without a folder in common there is no secret either
secret=CADRE_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
other=(here there) extra=("$secret" "$secret")
both srun folders "1|2"
says folders.1 "folder '$tmp/there' on $(uname -n) is not the one that rank 0 sees"
says folders.0 "rank 1: the folder '$tmp/there' on $(uname -n)"
extra=()
both srun unknown 1 comm.timeout=1
says unknown.1 "'$tmp/there/.ranks-secret-[0-9a-f]+', by which the ranks know each other, is not there: expected a folder that all machines share, or CADRE_SECRET"
says unknown.0 "1 of 2 ranks came to tcp://.* within 1 s; missing: 1"
other=()

# ---- who knows another secret does not meet them; what is too short is refused ----
extra=("$secret" "${secret}0")
both srun secrets 1 comm.timeout=1
says secrets.0 "missing: 1; refused: [0-9]+ with another secret"
says secrets.1 "expected the same CADRE_SECRET"
extra=("CADRE_SECRET=short" "CADRE_SECRET=short")
both srun short 2
says short.1 "CADRE_SECRET has 5 characters; expected 16 or more"
extra=("$secret" "$secret")
both torchrun shared 0
same shared own
tidy shared
[ -z "$(grep -rlF "${secret#*=}" "$tmp/shared" "$tmp"/shared.*.out "$tmp"/shared.*.log)" ] ||
    fail "the secret is in what a run leaves"
extra=()
both srun srun "1|2" # holds a run already
says srun.0 "srun' holds a run already"
says srun.1 "rank 0: .*srun' holds a run already"

# ---- a rank is killed: the other one ends, and names it ----
begin srun killed train.steps=1000000 comm.timeout=100000
pid=${pids[0]}
until_so killed.0 "step 2" has_steps killed 2
run=$(run_of "${pids[1]}")
kill -KILL "$run"
wait "${pids[1]}" 2>/dev/null || true
ends killed.0 1
says killed.0 "rank 1 ended without a report \(process $run\)"
says killed.1 "the run was killed by signal 9"
begin torchrun killed0 train.steps=1000000 comm.timeout=100000
pid=${pids[1]}
until_so killed0.1 "step 2" has_steps killed0 2
kill -KILL "${pids[0]}"
wait "${pids[0]}" 2>/dev/null || true
ends killed0.1 1
says killed0.1 "rank 0 ended without a report"

# ---- a signal to all stops them at one step, and another launcher continues ----
begin srun stopped train.steps=1000000
pid=${pids[0]}
until_so stopped.0 "step 1" has_steps stopped 1
kill -TERM "${pids[@]}"
ends stopped.0 4
says stopped.0 "stopped by a signal after step"
pid=${pids[1]}
ends stopped.1 4
! grep '^cadre: ' "$tmp/stopped.1.log" || fail "rank 1 reports it too"
steps=$(wc -l <"$tmp/stopped/metrics.jsonl")
both torchrun stopped 0 train.steps=$((steps + 1)) checkpoint.resume=auto
[ "$(wc -l <"$tmp/stopped/metrics.jsonl")" -eq $((steps + 1)) ] || fail "did not continue"

# ---- who is believed, and who is not ----
env $(environment torchrun 0) $(environment srun 1) "$cadre" doctor >"$tmp/doctor"
grep -E "^yes +launcher +torchrun: rank 0 of 2" "$tmp/doctor" >"$tmp/line" ||
    fail "doctor does not believe torchrun"
grep -E "^no +launcher +SLURM_PROCID is set as by srun, but torchrun has priority" \
    "$tmp/doctor" >"$tmp/line" || fail "doctor does not say why not srun"
if [ "$skipped" = " mpirun.openmpi mpirun.mpich" ]; then
    exit 77
fi
