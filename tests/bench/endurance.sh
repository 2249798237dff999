#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/endurance.sh [SECONDS]: an elastic run of 4 process ranks (7,200 s) that replaces what
# it loses. Each time there is a new checkpoint a rank is killed or stopped (SIGSTOP); every 10
# minutes the disk is full, which ends the run, and it is resumed; every 6 minutes a run over MPI on
# two hosts (network namespaces) loses one of them and is resumed with another. Fails where one is
# not recovered, or processes, temporary files or shared memory are left. Prints what was done, and
# the slopes of the launchers' resident memory and of their descriptors, each launcher with a mean
# of its own and without its first minute. CADRE_TEST_SEED chooses the instants.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../cli/train_lib.sh"
cli=$(dirname "$0")/../cli
seconds=${1:-7200}
RANDOM=${CADRE_TEST_SEED:-5}
kills=0 stops=0 full_disks=0 lost_hosts=0 starts=0
export TMPDIR=$tmp/scratch
mkdir "$TMPDIR" "$tmp/disk"

disk=no
if mount -t tmpfs -o size=512m tmpfs "$tmp/disk" 2>/dev/null; then disk=yes; fi
hosts_here=no
# shellcheck source=SCRIPTDIR/../cli/hosts_lib.sh
if (tmp=$(mktemp -d) && . "$cli/hosts_lib.sh") >"$tmp/hosts.why" 2>&1; then
    . "$cli/hosts_lib.sh"
    hosts_here=yes
else
    cat "$tmp/hosts.why"
    remove_hosts() { clean_up; }
fi
trap 'umount -l "$tmp/disk" 2>/dev/null; remove_hosts' EXIT
ln -sfn "$tmp/disk/run" "$tmp/run"

# ./check has its files there
shared() {
    find /dev/shm -user "$(id -u)" -name '*cadre*' -not -path '*/cadre-check*' 2>/dev/null | wc -l
}
shared_before=$(shared)

common=(checkpoint.keep=2 train.eval_batches=1 device.threads=1 log.progress=no log.every=100
    train.steps=1000000 checkpoint.resume=auto)
begin_run() {
    local sets
    settings "${common[@]}" strategy.stack=ddp:4 run.elastic=replace comm.ranks=processes \
        comm.timeout=$((5 * patience)) comm.link=1:3000 checkpoint.every=20 checkpoint.async=yes
    "$cadre" train "$tmp/text.ini" --out "$tmp/disk/run" "${sets[@]}" >"$tmp/run.out" \
        2>>"$tmp/run.log" &
    pid=$!
    started+=("$pid")
    starts=$((starts + 1))
}

measure() { # of the launcher: seconds, KiB, descriptors
    local at
    at=/proc/$(run_of "$pid")
    echo "$SECONDS $(awk '/VmRSS/ { print $2 }' "$at/status") $(find "$at/fd" -type l | wc -l)" \
        >>"$tmp/memory.$starts"
}

newer() { [ "$(last "$1")" != "$2" ]; }

recovered() { # there is a checkpoint that there was not before what was done
    local before begin=$SECONDS
    before=$(last run)
    while ! newer run "$before"; do
        kill -0 "$pid" 2>/dev/null || fail "the run ended: $(tail -n 3 "$tmp/run.log")"
        [ $((SECONDS - begin)) -lt $((2 * hang)) ] || fail "no new checkpoint: $(tail -n 3 "$tmp/run.log")"
        sleep 0.2
    done
}

take() { # SIGNAL: from a rank
    local victim
    victim=$(rank_of "$pid" $((RANDOM % 4)))
    [ -n "$victim" ] && kill "-$1" "$victim" 2>/dev/null
}

fill_disk() {
    local begin=$SECONDS
    head -c 512m /dev/zero >"$tmp/disk/filler" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null; do
        [ $((SECONDS - begin)) -lt "$hang" ] || fail "the run does not see that its disk is full"
        sleep 0.2
    done
    status=0
    wait "$pid" || status=$?
    [ "$status" = 1 ] || fail "the full disk ended the run with status $status"
    no_orphan run
    rm -f "$tmp/disk/filler"
    full_disks=$((full_disks + 1))
    begin_run
}

on_hosts() { # "N..." [s.k=v]...: a run of two ranks, which goes on
    local sets
    settings "${common[@]}" strategy.stack=ddp:2 checkpoint.every=5 \
        comm.timeout=$((5 * patience)) "${@:2}"
    begin_on "$1" pair "$cadre" train "$tmp/text.ini" --out "$tmp/pair" "${sets[@]}"
}

lose_host() { # one of 2 and 3, in turns
    local run=$pid before lost=$((2 + lost_hosts % 2)) begin=$SECONDS
    before=$(last pair)
    on_hosts "1 $lost"
    until_so pair "checkpoint on hosts 1 and $lost" newer pair "$before"
    ip -n "$(host_space 0)" link set "h$lost" down
    while [ -n "$(process_on 1)" ]; do
        [ $((SECONDS - begin)) -lt $((2 * hang)) ] || fail "the rank on host 1 waits for the lost one"
        sleep 0.2
    done
    grep -q "host h$lost) does not answer" "$tmp/pair.log" || fail "unnamed: $(cat "$tmp/pair.log")"
    kill -9 "$pid" "$(process_on "$lost")" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    ip -n "$(host_space 0)" link set "h$lost" up
    lost_hosts=$((lost_hosts + 1))
    pid=$run
}
keepalive=1000 # mpirun leaves it to the ranks to see that a host is lost

begin_run
end=$((SECONDS + seconds)) next_full=$((SECONDS + 600)) next_host=$((SECONDS + 120))
while [ $SECONDS -lt $end ]; do
    recovered
    measure
    case $((RANDOM % 3)) in
    0) if take STOP; then stops=$((stops + 1)); fi ;;
    *) if take KILL; then kills=$((kills + 1)); fi ;;
    esac
    recovered
    if [ $hosts_here = yes ] && [ $SECONDS -ge $next_host ]; then
        lose_host
        next_host=$((SECONDS + 360))
    fi
    if [ $disk = yes ] && [ $SECONDS -ge $next_full ]; then
        fill_disk
        next_full=$((SECONDS + 600))
    fi
    sleep "$((RANDOM % 4)).$((RANDOM % 10))"
done
kill -TERM "$pid"
ends run 4
if [ $lost_hosts -gt 0 ]; then
    on_hosts "1 4" train.steps=$((10#$(basename "$(last pair)" | sed 's/step-//') + 3))
    ends pair 0
fi
no_orphan run
for dir in "$tmp"/disk/run/checkpoints/step-????????; do
    "$cadre" inspect "$dir" >"$tmp/inspect" 2>&1 || fail "$dir: $(cat "$tmp/inspect")"
done
# Open MPI's own are left where mpirun is killed
left=$(find "$TMPDIR" -mindepth 1 -not -path "$TMPDIR/ompi.*" | wc -l) shm=$(($(shared) - shared_before))
echo "$seconds s: $kills kills, $stops stops, $full_disks full disks (a disk of its own: $disk)," \
    "$lost_hosts lost hosts ($hosts_here), each recovered; $starts starts," \
    "$(basename "$(last run)"); left: $left temporary files, $shm of shared memory"
for file in "$tmp"/memory.*; do
    awk 'NR == 1 { begin = $1 } $1 >= begin + 60' "$file" >"$tmp/late"
    awk '{ n++; t += $1; m += $2; d += $3; line[n] = $0 } END {
        for (i = 1; i <= n; i++) { split(line[i], v, " "); print v[1] - t / n, v[2] - m / n, v[3] - d / n, v[2], v[3] }
    }' "$tmp/late"
done | awk '{ n++; tt += $1 * $1; tm += $1 * $2; td += $1 * $3
    if ($4 > memory) memory = $4
    if ($5 > fds) fds = $5
    line[n] = $0
} END {
    if (n < 30) { print "too short for a slope"; exit }
    slope = tm / tt
    for (i = 1; i <= n; i++) { split(line[i], v, " "); e = v[2] - slope * v[1]; ee += e * e }
    printf "launchers: %.1f +- %.1f KiB/h (%d readings, at most %d KiB), %.2f descriptors/h (at most %d)\n",
        3600 * slope, 3600 * 2 * sqrt(ee / (n - 2) / tt), n, memory, 3600 * td / tt, fds
}'
[ "$left" -eq 0 ] && [ "$shm" -le 0 ] || fail "something was left"
