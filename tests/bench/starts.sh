#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/starts.sh [N]: N times (10,000) a run of one step starts and ends, over ranks as
# threads and as processes; counts what is left of them: processes, files of shared
# memory, temporary files. Fails if that is not nothing.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../cli/train_lib.sh"
n=${1:-10000}
n=${n:-10000}
export TMPDIR=$tmp/scratch
mkdir "$TMPDIR"
shared() { find /dev/shm -user "$(id -u)" -name '*cadre*' 2>/dev/null | wc -l; }
before=$(shared)
stacks=("strategy.stack=single" "strategy.stack=ddp:2"
    "strategy.stack=ddp:2 comm.ranks=processes" "strategy.stack=zero:2")
begin=$SECONDS
for ((i = 0; i < n; i++)); do
    read -ra sets <<<"${stacks[i % ${#stacks[@]}]}"
    rm -rf "$tmp/run"
    train text run 0 train.steps=1 train.eval_batches=1 model.layers=1 device.threads=1 \
        log.progress=no checkpoint.every=0 "${sets[@]}"
done
no_orphan run
left=$(find "$TMPDIR" -mindepth 1 | wc -l)
shm=$(($(shared) - before))
echo "$n starts in $((SECONDS - begin)) s: $left temporary files, $shm of shared memory left"
[ "$left" -eq 0 ] && [ "$shm" -le 0 ] || fail "something was left"
