#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/endurance.sh [SECONDS]: an elastic run of 4 process ranks (7,200 s). A rank is
# killed or stopped (SIGSTOP) at random instants, until the run is down to one rank and is
# then ended and resumed with 4; where a file system may be mounted its disk is full now and
# then. Prints kills, stops, full disks, and of the launcher the resident memory's slope,
# descriptors and what is left of shared memory. CADRE_TEST_SEED chooses the instants.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../cli/train_lib.sh"
seconds=${1:-7200}
RANDOM=${CADRE_TEST_SEED:-5}
kills=0 stops=0 full=0 resumes=0
disk=no
mkdir -p "$tmp/disk"
if mount -t tmpfs -o size=16m tmpfs "$tmp/disk" 2>/dev/null; then
    disk=yes
    trap 'umount -l "$tmp/disk" 2>/dev/null; clean_up' EXIT
fi
ln -sfn "$tmp/disk/run" "$tmp/run"
common=(run.elastic=yes comm.ranks=processes comm.timeout=5 checkpoint.every=5
    checkpoint.keep=2 checkpoint.async=yes train.eval_batches=1 device.threads=1
    log.progress=no train.steps=1000000 checkpoint.resume=auto)
begin_run() {
    "$cadre" train "$tmp/text.ini" --out "$tmp/disk/run" --set strategy.stack=ddp:4 \
        $(printf -- '--set %s ' "${common[@]}") >"$tmp/run.out" 2>>"$tmp/run.log" &
    pid=$!
    started+=("$pid")
    resumes=$((resumes + 1))
}
measure() { # of the launcher: seconds, KiB, descriptors
    local at=/proc/$(run_of "$pid")
    [ -e "$at/status" ] || return 0
    echo "$SECONDS $(awk '/VmRSS/ { print $2 }' "$at/status") $(ls "$at/fd" 2>/dev/null | wc -l)" \
        >>"$tmp/memory.$resumes"
}
begin_run
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
    sleep "$((1 + RANDOM % 5)).$((RANDOM % 10))"
    measure 2>/dev/null || true
    if ! kill -0 "$pid" 2>/dev/null; then
        wait "$pid" 2>/dev/null || true
        rm -f "$tmp/disk/filler"
        begin_run
        continue
    fi
    victim=$(rank_of "$pid" $((RANDOM % 4)))
    case $((RANDOM % 4)) in
    0) [ -z "$victim" ] || { kill -9 "$victim" 2>/dev/null && kills=$((kills + 1)); } || true ;;
    1) [ -z "$victim" ] || { kill -STOP "$victim" 2>/dev/null && stops=$((stops + 1)); } || true ;;
    2) if [ $disk = yes ]; then
        head -c 16m /dev/zero >"$tmp/disk/filler" 2>/dev/null || true
        full=$((full + 1))
        sleep 2
        rm -f "$tmp/disk/filler"
    fi ;;
    esac
done
kill -TERM "$pid" 2>/dev/null || true
ends run "0|1|4"
no_orphan run
steps=$(wc -l <"$tmp/disk/run/metrics.jsonl")
for dir in "$tmp/disk/run/checkpoints/"step-????????; do
    "$cadre" inspect "$dir" >"$tmp/inspect" 2>&1 || fail "$dir: $(cat "$tmp/inspect")"
done
# the first minute of each start is of its growing
slope=$(for file in "$tmp"/memory.*; do
    awk 'NR == 1 { begin = $1 } $1 >= begin + 60' "$file"
done | awk '{ n++; x += $1; y += $2; xx += $1 * $1; xy += $1 * $2
    if ($3 > most) most = $3 } END { d = n * xx - x * x
    if (n < 3) { printf "too short for a slope"; exit }
    printf "%.1f KiB/h, at most %d descriptors", d ? 3600 * (n * xy - x * y) / d : 0, most }')
echo "$seconds s: $kills kills, $stops stops, $full full disks (disk of its own: $disk)," \
    "$resumes starts, $steps steps; launcher: $slope"
