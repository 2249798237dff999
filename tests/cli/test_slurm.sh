#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The templates of conf/slurm under a real SLURM with four nodes that are this machine: one
# node, many nodes, a signal before the limit, a comparison as a job array; and the commands
# of docs/clusters.md. Equality is held against ranks that Cadre starts itself.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
. "$(dirname "$0")/slurm_lib.sh"
templates=$CADRE_SRC/conf/slurm
cd "$tmp"
slurm_start
export CADRE=$cadre CADRE_BUILD

# submit NAME [OPTION OF sbatch]... TEMPLATE ARGUMENT...: the job's number is in $job, its
# output in $slurm/jobs/NAME.
submit() {
    local name=$1
    shift
    job=$(sbatch --parsable --output="$slurm/jobs/$name" "$@")
}

in_job() { # NAME PATTERN: the job's output has such a line
    grep -qE "$2" "$slurm/jobs/$1" || {
        cat "$slurm/jobs/$1"
        fail "$1: no line with '$2'"
    }
}

small=(--set train.steps=6 --set device.threads=1)

# ---- one node ----
train text local 0 train.steps=6 device.threads=1 strategy.stack=ddp:2 comm.ranks=processes
submit one --ntasks-per-node=2 --cpus-per-task=1 "$templates/one-node.sbatch" text.ini one \
    "${small[@]}" --set 'strategy.stack=ddp:*'
job_ends "$job" COMPLETED
in_job one "6 steps with ddp:2 done, in 'one'"
same one local

# ---- four nodes, which are one machine here ----
train text four 0 train.steps=6 device.threads=1 strategy.stack=zero:4
CADRE_INIT=file://$tmp/meet submit many --ntasks-per-node=1 --cpus-per-task=1 \
    "$templates/many-nodes.sbatch" text.ini many "${small[@]}" \
    --set strategy.stack=zero:4 --set comm.backend=local
job_ends "$job" COMPLETED
[ "$(job_field "$job" NumNodes)" = 4 ] || fail "many: not on four nodes"
same many four

# ---- a signal before the time is over: a checkpoint, status 4, queued again ----
many=1200
[ "$patience" -ge 10 ] && many=200
submit again --ntasks-per-node=2 --cpus-per-task=1 "$templates/one-node.sbatch" text.ini again \
    --set "train.steps=$many" --set device.threads=1 --set 'strategy.stack=ddp:*'
slurm_until "step 2" has_steps again 2
scancel --signal=USR1 "$job" # as the limit does, to the ranks alone
job_ends "$job" COMPLETED
in_job again "stopped after a checkpoint; job $job is queued again"
[ "$(job_field "$job" Restarts)" = 1 ] || fail "again: not restarted once"
[ "$(wc -l <"$tmp/again/metrics.jsonl")" -eq "$many" ] || fail "again: steps are missing"

# ---- the page, block by block, as somebody at a terminal would ----
if [ "$lean" = 1 ]; then
    echo "docs/clusters.md is left to builds that are not instrumented"
    exit 0
fi
# A directory like a clone; what a site has and this machine has not is stood in for:
# modules, Apptainer (which calls the program on this machine), and a build, which takes
# minutes: flags are held to configure's, and the program is the one that was built before.
page=$tmp/page
mkdir -p "$page/bin" "$page/home"
mkdir "$page/tools"
ln -s /bin/true "$page/tools/bootstrap"
ln -s "$CADRE_SRC"/{conf,docs,COPYING} "$page/"
cat >"$page/bin/module" <<'END'
#!/bin/sh
[ "$1" = load ] && [ $# -ge 2 ]
END
cat >"$page/bin/apptainer" <<'END'
#!/bin/bash
set -euo pipefail
case $1 in
build)
    grep -q '^Bootstrap: ' "$3"
    touch "$2"
    ;;
exec)
    shift
    [ "$1" != --nv ] || shift
    [ -e "$1" ]
    exec "${@:2}"
    ;;
*) exit 2 ;;
esac
END
cat >"$page/configure" <<'END'
#!/bin/bash
set -euo pipefail
help=$("$CADRE_SRC/configure" --help)
for flag in "$@"; do
    grep -q -- "^ *${flag%%=*}[= ]" <<<"$help"
    case $flag in --prefix=*) echo "${flag#*=}" >prefix ;; esac
done
END
cat >"$page/bin/make" <<'END'
#!/bin/bash
set -euo pipefail
[[ " $* " == *" install "* ]]
mkdir -p "$(cat prefix)/bin"
ln -sf "$PAGE/bin/small" "$(cat prefix)/bin/cadre"
END
# The program with a model that trains in no time. Nodes that are one machine here speak as
# one, and meet at a file, since nobody knows their names.
cat >"$page/bin/small" <<'END'
#!/bin/bash
case ${1:-} in
train | compare)
    if [ "${SLURM_STEP_NUM_NODES:-1}" -gt 1 ] && [ -z "${OMPI_COMM_WORLD_RANK:-}" ]; then
        export CADRE_INIT=file://$PAGE/meet-$SLURM_JOB_ID-$SLURM_STEP_ID-${SLURM_RESTART_COUNT:-0}
        set -- "$@" --set comm.backend=local
    fi
    set -- "$@" --set model.layers=1 --set model.channels=32 --set model.heads=2 \
        --set train.global_batch=16 --set train.micro_batch=2 --set train.eval_batches=1
    [ "${SLURM_JOB_ID:-}" = "" ] || set -- "$@" --set device.threads=1
    ;;
esac
exec "$CADRE_BUILD/cadre" "$@"
END
chmod +x "$page/configure" "$page/bin"/*
# no rights are needed for what follows, but here we have them
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if command -v mpirun.openmpi >/dev/null; then
    ln -s "$(command -v mpirun.openmpi)" "$page/bin/mpirun"
fi

awk -v out="$page/block" '
    /^```sh$/ { n++; inside = 1; printf "" >(out "." n); next }
    /^```$/ { inside = 0 }
    inside { print >(out "." n) }' "$CADRE_SRC/docs/clusters.md"
[ -e "$page/block.8" ] || fail "docs/clusters.md: fewer blocks than expected"
have_mpi=no
if [ -e "$page/bin/mpirun" ] && grep -qE '^yes +mpi ' <<<"$("$cadre" doctor)"; then
    have_mpi=yes
fi

show_block() {
    local status=$?
    if [ "$status" -ne 0 ]; then
        echo "docs/clusters.md: block $k ended with $status:"
        cat "$page/block.$k" "$page/log"
    fi
}

run_blocks() {
    unset CADRE
    export PAGE=$page HOME=$page/home PATH=$page/bin:$PATH
    cd "$page"
    trap show_block EXIT
    for ((k = 1; ; k++)); do
        [ -e "$page/block.$k" ] || break
        if [ $have_mpi = no ] && grep -q mpirun "$page/block.$k"; then
            echo "docs/clusters.md, block $k is left out: no Open MPI"
            continue
        fi
        # shellcheck disable=SC1090
        . "$page/block.$k" >"$page/log" 2>&1
        slurm_until "end of what block $k submitted" queue_is_empty
        if grep -q mpirun "$page/block.$k"; then
            grep -q '4 ranks over MPI' "$page/log" || fail "block $k: not over MPI"
        fi
        echo "ok: docs/clusters.md, block $k"
    done
}
set +e # in a condition, bash would ignore the blocks' own failures
(
    set -e
    run_blocks
)
status=$?
set -e
[ "$status" -eq 0 ] || fail "docs/clusters.md: a block fails"

# What the page promised of its jobs.
lost=$(scontrol show job | grep -c 'JobState=\(FAILED\|CANCELLED\|TIMEOUT\)' || true)
[ "$lost" -eq 0 ] || {
    scontrol show job
    cat "$page"/*.txt
    fail "docs/clusters.md: $lost jobs failed"
}
[ "$(wc -l <"$page/runs/one/metrics.jsonl")" -eq 150 ] || fail "page: runs/one is not whole"
[ "$(wc -l <"$page/runs/wide/metrics.jsonl")" -eq 100 ] || fail "page: runs/wide is not whole"
[ "$(wc -l <"$page/trainings")" -eq 4 ] || fail "page: not four trainings"
for name in ddp-2 ddp-4 zero-4; do
    grep -qE "^$name .* (within|exact)$" "$page/report.txt" || {
        cat "$page/report.txt"
        fail "page: $name is not in the report as it should be"
    }
done
grep -q '"layout": "4 ranks as processes' "$page/runs/speedup/certificate-zero-4.json" ||
    fail "page: the ranks of srun are not said to be processes"
"$cadre" inspect "$page/runs/speedup" >"$page/log"
[ "$(grep -c 'has the hashes that it states' "$page/log")" -eq 4 ] ||
    fail "page: the certificates do not hold"

# a comparison with a run missing says so, and no job trains it unasked
rm -r "$page/runs/speedup/runs/ddp-4"
submit lost --ntasks=1 --cpus-per-task=4 --chdir="$page" "$templates/compare-array.sbatch" \
    speedup.ini runs/speedup
job_ends "$job" FAILED
in_job lost "lacks trainings of this comparison: ddp-4;"
