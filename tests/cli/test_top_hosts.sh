#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre top` of ranks on two hosts, from either of them and from a third: two launches that meet
# over TCP on the loopback, each with a host name, a boot, a clock and a status page that is copied
# as for a network file system. Over the stand-ins of CUDA and NCCL; skips where they were not
# built, or the machine forbids the namespaces that make a host.
# shellcheck source-path=SCRIPTDIR disable=SC2034 # before is train_lib.sh's
. "$(dirname "$0")/train_lib.sh"

standin=$CADRE_BUILD/tests/support/cuda_host/.libs
shim=$CADRE_BUILD/tests/support/.libs/odd_machine.so
if [ ! -e "$standin/device_cuda.so" ] || [ ! -e "$standin/comm_nccl.so" ]; then
    skip "the stand-ins of CUDA and NCCL were not built (no C++ compiler)"
fi
[ -e "$shim" ] || fail "no $shim: make check builds it"
if grep -qE '^SAN_CFLAGS = .*sanitize' "$CADRE_BUILD/Makefile"; then
    skip "a sanitizer must be loaded first"
fi
export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg CADRE_STANDIN_DEVICES=2

# host NAME COMMAND...: there. Its clock runs since an hour before this machine's, or since one
# behind, and its boot is another; the process ids are this machine's.
cat >"$tmp/host" <<EOF
#!/bin/sh
name=\$1
shift
cd "$tmp"
case \$name in
h1) clock=3600 ;;
*) clock=7200 ;;
esac
echo "\$name-1111-2222" >"$tmp/boot-\$name"
exec unshare -um -T --fork --kill-child --monotonic \$clock sh -c \\
    'mount --bind "boot-\$1" /proc/sys/kernel/random/boot_id && hostname "\$1" && shift &&
        exec "\$@"' sh "\$name" "\$@"
EOF
chmod +x "$tmp/host"
if ! [ "$("$tmp/host" h1 cat /proc/sys/kernel/random/boot_id 2>"$tmp/why")" = h1-1111-2222 ]; then
    skip "no namespaces of names, mounts and clocks: $(cat "$tmp/why")"
fi

small="device.kind=cuda run.seed=1 train.global_batch=2 train.micro_batch=1 \
    train.eval_batches=1 model.layers=1 model.context=8 model.channels=16"

# begin NAME [s.k=v]...: rank 0 on h1, rank 1 on h2; both are in $pids.
begin() {
    local one="env CADRE_LOCAL_RANK=0 CADRE_LOCAL_WORLD_SIZE=1 LD_PRELOAD=$shim ODD_NETWORK=1"
    before=("$tmp/host h1 $one" "$tmp/host h2 $one")
    # shellcheck disable=SC2086 # words
    start_ranks "tcp://127.0.0.1:$(free_port)" "$1" $small strategy.stack=ddp:2 "${@:2}"
    pid=${pids[0]}
}

# look HOST NAME: the run as that host sees it, as JSON in seen.json.
look() {
    runs seen 0 "$tmp/host" "$1" "$cadre" top "$tmp/$2" --json
    cp "$tmp/seen.out" "$tmp/seen.json"
}

# values KEY: of a key in seen.json, one a line.
values() { sed -nE "s/^ *\"$1\": (.*[^,]),?$/\1/p" "$tmp/seen.json"; }

# are KEY VALUE...: the values of a key.
are() {
    if [ "$(values "$1" | paste -sd ' ')" != "${*:2}" ]; then
        cat "$tmp/seen.json"
        fail "$1 is $(values "$1" | paste -sd ' '), expected ${*:2}"
    fi
}

frame() { # HOST NAME COLUMNS: as that host draws it, in seen.frame
    runs frame 0 "$tmp/host" "$1" env COLUMNS="$3" "$cadre" top "$tmp/$2" --once
    cp "$tmp/frame.out" "$tmp/seen.frame"
}

shows() { # PATTERN: the frame has it
    if ! grep -E -- "$1" "$tmp/seen.frame" >/dev/null; then
        cat "$tmp/seen.frame"
        fail "no '$1' in the frame"
    fi
}

# both_train NAME: both pages tell of steps; they are copied once a second.
both_train() {
    "$tmp/host" h3 "$cadre" top "$tmp/$1" --json >"$tmp/seen.json" 2>/dev/null &&
        [ "$(values step_s | wc -l)" -eq 2 ]
}

# ---- at work: every host shows both ranks, with ages by their own clocks ----
begin two train.steps=1000000 comm.timeout=$((10 + 3 * patience))
until_so two.0 "step of both ranks in their pages" both_train two
for host in h1 h2 h3; do
    look $host two
    are host '"h1"' '"h2"'
    are known true true
    are died false false
    case $host in # a process is seen on its own host
    h1) are alive true null ;;
    h2) are alive null true ;;
    h3) are alive null null ;;
    esac
    [ "$(values state | head -n 1)" = '"running"' ] || fail "$host: not running"
    # of the last 10 minutes: an hour off would be another host's clock
    values heartbeat_age_s | awk -v most=$((hang + 600)) '!($1 >= 0 && $1 < most) { exit 1 }' ||
        fail "$host: ages of $(values heartbeat_age_s | paste -sd ' ') s"
done
for one in $(values pid); do # else the files would be right without a copy
    ! grep "status/rank-" "/proc/$one/maps" >"$tmp/line" || fail "the page is mapped: $(cat "$tmp/line")"
done
for columns in 60 80 120; do
    frame h2 two $columns
    shows '^text  ddp:2  2 ranks  running$'
    shows '^rank  host  phase +for '
    shows '^0\*? +h1    [a-z]'
    shows '^1\*? +h2    [a-z]'
done
shows '^ranks on other hosts, or in other containers: only there is seen whether'

# the last operations of both, at the time of day of each
runs events 0 "$tmp/host" h3 "$cadre" top "$tmp/two" --events --json
now=$(date +%s)
sed -nE 's/^ *"posted": ([0-9.]+),?$/\1/p' "$tmp/events.out" >"$tmp/posted"
[ "$(wc -l <"$tmp/posted")" -ge 4 ] || fail "few events"
awk -v now="$now" -v most=$((hang + 600)) \
    '!($1 <= now + 60 && $1 >= now - most) { exit 1 }' "$tmp/posted" ||
    fail "events of another time than $now: $(head -n 1 "$tmp/posted")"

# ---- one host's rank is killed: the other one ends, and the run counts as failed ----
lost=$(values pid | tail -n 1)
kill -KILL "$lost"
wait "${pids[1]}" 2>/dev/null || true
ends two.0 1
look h3 two
are state '"failed"' '"failed"' '"training"'
are alive null null
[[ "$(values error | head -n 1)" == *"rank 1 at 127.0.0.1 has ended without a word"* ]] || fail "the error is $(values error)"
frame h3 two 60
shows '^text  ddp:2  2 ranks  failed$'
shows '^0\*? +h1    failed'
shows '^rank 1 at 127.0.0.1 has ended without a word'
runs over 0 timeout "$hang" "$tmp/host" h3 "$cadre" top "$tmp/two" # by itself

# ---- a whole run: the last copy of each page is its end ----
begin whole train.steps=2
end_ranks whole 0
look h3 whole
are state '"ended"' '"ended"' '"ended"'
[ "$(values step | sort -u)" = 2 ] || fail "not at step 2: $(values step | paste -sd ' ')"
