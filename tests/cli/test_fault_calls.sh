#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Calls of the C library fail, one at a time: memory, maps, files, processes, threads, sockets
# (tests/support/fault_calls.c). Every command then ends by itself with status 1 and one line, or
# with 0 and what it makes undisturbed; nothing half-made is left, and the newest checkpoint
# loads. A sample of the faults, fixed by CADRE_TEST_SEED; CADRE_TEST_SLOW=2: the first, middle
# and last call of every stack, for hours. FAULT_POINTS=N: so many a command, 0: all.
# FAULT_ONLY=NAME: that command alone. FAULT_PART=K/N: the K-th of N parts, from 0, of them.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
shim=$CADRE_BUILD/tests/support/.libs/fault_calls.so
driver=$CADRE_BUILD/fault_run
[ -e "$shim" ] && [ -x "$driver" ] || fail "no $shim or $driver: make check builds them"
points=${FAULT_POINTS:-6}
[ "$lean" = 0 ] || points=${FAULT_POINTS:-2}
if grep -qE '^SAN_CFLAGS = .*sanitize=[a-z,]*address' "$CADRE_BUILD/Makefile"; then
    # What leaks, or is used after it was freed, where a call fails. A crash stays one, as libraries
    # that write through null pointers are told by it.
    let_crash
    ASAN_OPTIONS+=:verify_asan_link_order=0:detect_leaks=1:exitcode=99:log_path=$tmp/asan
    ASAN_OPTIONS+=:fast_unwind_on_malloc=0 # to see who asks the loader for memory
    export LSAN_OPTIONS=suppressions=$CADRE_SRC/tests/support/fault_leaks.supp:print_suppressions=0
    points=${FAULT_POINTS:-1}
elif grep -qE '^SAN_CFLAGS = .*sanitize' "$CADRE_BUILD/Makefile"; then
    skip "this sanitizer's malloc cannot be failed"
fi
[ "$full" = 0 ] || points=${FAULT_POINTS:-0}
unset CADRE_INIT CADRE_RANK CADRE_WORLD_SIZE CADRE_LOCAL_RANK
export tmp cadre

cat >"$tmp/tiny.ini" <<INI
[model]
layers = 2
channels = 16
heads = 2
context = 16
[data]
path = $tmp/text.txt
cache = no
[train]
steps = 3
global_batch = 4
micro_batch = 2
eval_batches = 1
[checkpoint]
every = 2
[device]
threads = 1
[log]
progress = no
[comm]
timeout = 20
INI
cat >"$tmp/meet.sh" <<'SH'
# meet.sh RANK COMMAND...: that rank of two, which meet over TCP, has the faults, the other one
# none. It ends too, by the same rules, and well where the first one does.
set -u
faulty=$1 other=$((1 - $1))
shift
said=$TMPDIR.other
while port=$((20000 + RANDOM % 12000)); (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
export CADRE_INIT=tcp://127.0.0.1:$port CADRE_WORLD_SIZE=2
CADRE_RANK=$other CADRE_LOCAL_RANK=$other "$@" >"$said" 2>&1 &
LD_PRELOAD=$FAULT_SHIM CADRE_RANK=$faulty CADRE_LOCAL_RANK=$faulty "$@"
status=$?
wait $!
second=$?
lines=$(grep -c '^cadre: ' "$said")
case $status.$second.$lines in
0.0.0 | [134].0.0 | [134].[134].1) exit $status ;;
esac
echo "rank $faulty: status $status; rank $other: $second, and $lines error lines:" >&2
cat "$said" >&2
exit 99
SH
cat >"$tmp/after.sh" <<'SH'
# What a run leaves in $tmp/r, against an undisturbed one where it ended well.
set -u
for report in "$tmp"/asan.*; do
    [ -e "$report" ] || continue
    cat "$report"
    rm "$report"
    exit 1
done
found=$(find "$tmp/r" -name '*.partial' -o -name '*.tmp*' -o -name '*.new' -o \
    -name '.ranks*' 2>/dev/null)
[ -z "$found" ] || { echo "left: $found"; exit 1; }
for dir in "$tmp"/r/checkpoints/step-????????; do
    [ -d "$dir" ] || continue
    "$cadre" inspect "$dir" >"$tmp/inspect" 2>&1 || { cat "$tmp/inspect"; exit 1; }
done
[ "$STATUS" = 0 ] || exit 0
kept=$tmp/kept.$NAME
if [ "$FAULT" = none ]; then
    rm -rf "$kept"; mkdir "$kept"
    cp "$tmp/faults.out" "$kept/out"
    [ ! -e "$tmp/r/metrics.jsonl" ] || cp "$tmp/r/metrics.jsonl" "$kept"
    exit 0
fi
losses() { sed -E 's/.*"step": ?([0-9]+).*"loss": ?([^,]+), ?"grad_norm": ?([^,]+),.*/\1 \2/' "$1"; }
if [ -e "$kept/metrics.jsonl" ]; then
    [ "$(losses "$kept/metrics.jsonl")" = "$(losses "$tmp/r/metrics.jsonl")" ] ||
        { echo "other losses, and status 0"; exit 1; }
elif [ "$SAME" = yes ]; then
    cmp "$kept/out" "$tmp/faults.out" || exit 1
fi
SH

# faults NAME BEFORE COMMAND...: SAME=yes says that its output is the same each time.
faults() {
    local name=$1 before=$2 status=0
    shift 2
    [ "${FAULT_ONLY:-$name}" = "$name" ] || return 0
    NAME=$name SAME=${SAME:-no} ${FAULT_LINES:+env FAULT_LINES=2} "$driver" --shim "$shim" --tmp "$tmp/faults" \
        --limit "$hang" --points "${POINTS:-$points}" --seed "${CADRE_TEST_SEED:-21}" \
        ${FAULT_PART:+--part "$FAULT_PART"} ${KINDS:+--kinds "$KINDS"} ${ALONE:+--alone} ${EVERY:+--every} --before "$before" --after "bash $tmp/after.sh" -- "$@" \
        >"$tmp/said" 2>&1 || status=$?
    grep -v ' faults of ' "$tmp/said" || true
    echo "$name: $(grep ' faults of ' "$tmp/said")"
    [ "$status" -eq 0 ] || failed=1
}
failed=0
every=$([ "$points" != 0 ] || echo yes) # of short commands every call fails, not three of a stack
: >"$tmp/faults.out"
clear="rm -rf $tmp/r"
files=mmap,open,read,write,sync,rename,fork,thread,socket
train=("$cadre" train "$tmp/tiny.ini" --out "$tmp/r")

runs base 0 "$cadre" train "$tmp/tiny.ini" --out "$tmp/base"
base="$clear; cp -a $tmp/base $tmp/r"
faults single "$clear" "${train[@]}"
KINDS=$files faults single-files "$clear" "${train[@]}"
faults threads "$clear" "${train[@]}" --set strategy.stack=ddp:2
FAULT_LINES=2 faults processes "$clear" "${train[@]}" --set strategy.stack=ddp:2 --set comm.ranks=processes
few=${FAULT_POINTS:-$(((points + 2) / 3))} # the other rank waits for one that never comes
for rank in 0 1; do
    POINTS=$few ALONE=yes faults meet-$rank "$clear" bash "$tmp/meet.sh" $rank "${train[@]}" \
        --set strategy.stack=ddp:2 --set comm.timeout=$((3 + patience))
done
faults zero "$clear" "${train[@]}" --set strategy.stack=zero:2 --set zero.stage=3
faults pipeline "$clear" "${train[@]}" --set strategy.stack=pipeline:2
faults tensor "$clear" "${train[@]}" --set strategy.stack=tensor:2
faults hsdp "$clear" "${train[@]}" --set strategy.stack=hsdp:2,zero:2 --set train.micro_batch=1
faults diloco "$clear" "${train[@]}" --set strategy.stack=diloco:2 --set diloco.period=2
KINDS=$files faults resume "$base" "${train[@]}" --set checkpoint.resume=auto \
    --set train.steps=5
faults resume-memory "$base" "${train[@]}" --set checkpoint.resume=auto --set train.steps=5
newest=$(last base)
EVERY=$every SAME=yes faults inspect "$clear" "$cadre" inspect "$newest"
SAME=yes faults eval "$clear" "$cadre" eval "$tmp/tiny.ini" --from "$newest"
SAME=yes faults generate "$clear" "$cadre" generate "$tmp/tiny.ini" --from "$newest" --prompt the --tokens 4 --seed 3
EVERY=$every SAME=yes faults options "$clear" "$cadre" options
EVERY=$every faults plugins "$clear" "$cadre" plugins
EVERY=$every faults report "$base" "$cadre" report "$tmp/r"
SAME=yes faults plan "$clear" "$cadre" plan "$tmp/tiny.ini" --ranks 4 \
    --hardware "$CADRE_SRC/conf/hardware/h100.ini"
SAME=yes faults plan-chakra "$clear" "$cadre" plan "$tmp/tiny.ini" --ranks 2 --simulate \
    --hardware "$CADRE_SRC/conf/hardware/h100.ini" --set strategy.stack=ddp:2 --chakra "$tmp/r"
runs lora 0 "$cadre" train "$tmp/tiny.ini" --out "$tmp/lora" --set tune.method=lora \
    --set "model.init=$newest"
faults merge "$clear" "$cadre" merge "$tmp/lora" --out "$tmp/r"
printf '[run:one]\n[run:two]\nstrategy.stack = ddp:2\n' | cat "$tmp/tiny.ini" - >"$tmp/pair.ini"
FAULT_LINES=2 faults compare "$clear" "$cadre" compare "$tmp/pair.ini" --out "$tmp/r" --set compare.time=no \
    --set compare.perturb=no
[ "$failed" -eq 0 ] || fail "faults that were not survived"
