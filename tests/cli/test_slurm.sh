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
many=1500
[ "$patience" -ge 10 ] && many=300
submit again --ntasks-per-node=2 --cpus-per-task=1 "$templates/one-node.sbatch" text.ini again \
    --set "train.steps=$many" --set device.threads=1 --set 'strategy.stack=ddp:*'
slurm_until "step 2" has_steps again 2
scancel --signal=USR1 "$job" # as the limit does, to the ranks alone
job_ends "$job" COMPLETED
in_job again "stopped after a checkpoint; job $job is queued again"
[ "$(job_field "$job" Restarts)" = 1 ] || fail "again: not restarted once"
[ "$(wc -l <"$tmp/again/metrics.jsonl")" -eq "$many" ] || fail "again: steps are missing"
