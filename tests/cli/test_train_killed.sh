#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process rank that dies ends the run; the line names the rank, and nobody
# is left over. Likewise when the launcher dies.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

killed() { # NAME RANK SIGNAL STACK [s.k=v]...
    local name=$1 rank=$2 signal=$3 stack=$4 begin
    shift 4
    start text "$name" train.steps=1000000 "strategy.stack=$stack" comm.ranks=processes \
        "$@"
    wait_steps "$name" 2
    begin=$SECONDS
    kill "-$signal" "$(rank_of "$pid" "$rank")"
    ends "$name" 1
    says "$name" "rank $rank"
    no_orphan "$name"
    echo "$name: ended after $((SECONDS - begin)) s: $(tail -n 1 "$tmp/$name.log")"
}
killed last 1 KILL ddp:2
killed first 0 KILL ddp:2
killed stage 1 KILL pipeline:2 pipeline.schedule=zb-h1
if [ "$slow" = 1 ]; then
    killed turn 1 KILL pipeline:2 pipeline.schedule=zb-v
    killed middle 2 KILL ddp:4
    killed crashed 1 SEGV ddp:4
    killed shard 1 KILL zero:2 zero.stage=3
    killed slice 0 KILL tensor:2
    killed stacked 3 KILL "pipeline:2, zero:2" pipeline.schedule=interleaved zero.stage=2
fi

# The supervisor or the launcher dies: the ranks go with it, and where the launcher does,
# the supervisor says so.
start text supervisor train.steps=1000000 strategy.stack=ddp:2 comm.ranks=processes
wait_steps supervisor 2
kill -9 "$pid"
wait "$pid" || true
no_orphan supervisor
start text launcher train.steps=1000000 strategy.stack=ddp:2 comm.ranks=processes
wait_steps launcher 2
kill -9 "$(run_of "$pid")"
ends launcher 1
says launcher "the run was killed by signal 9 \(Killed\)"
no_orphan launcher

# Ranks that are threads: the run is one process.
start text threads train.steps=1000000 strategy.stack=ddp:2
wait_steps threads 2
kill -9 "$(run_of "$pid")"
ends threads 1
says threads "the run was killed by signal 9 \(Killed\)"
no_orphan threads

# A rank that hangs is named after comm.timeout, with the step.
start text stopped train.steps=1000000 strategy.stack=ddp:2 comm.ranks=processes \
    comm.timeout=$((2 * patience)) # others may only be slow
wait_steps stopped 2
kill -STOP "$(rank_of "$pid" 1)"
ends stopped 1
says stopped "rank 1.*step [0-9]+|step [0-9]+ on rank 1" # in the core, or in a callback
no_orphan stopped
