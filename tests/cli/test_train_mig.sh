#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mig on the CPU: replicas on core sets of their own, whose gradients are averaged. The bits
# of `single` in exact mode, whatever a rank is and whatever else is in the stack; every
# thread of a rank on its set, and no CPU in two sets; what cannot be is one line.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# allowed PROC_STATUS: the CPUs in it, one a line.
allowed() {
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$1" | tr ',' '\n' |
        while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done
}
mapfile -t own < <(allowed /proc/self/status)
n=${#own[@]}
pin=yes
[ "$n" -ge 2 ] || pin=no

# ---- the same training ----
exact() { # NAME [s.k=v]...
    local name=$1
    shift
    train text "$name" 0 run.exact=yes train.steps=6 device.threads=1 mig.pin=$pin "$@"
}
exact single
exact threads strategy.stack=mig:2
exact processes strategy.stack=mig:2 comm.ranks=processes train.recompute=block
exact staged "strategy.stack=mig:2, pipeline:2" pipeline.schedule=zb-h1
same single threads
same single processes
same single staged

# Parts of unequal size: micro-batches in proportion, at numbers that do not divide.
uneven() { # NAME [s.k=v]...
    exact "$@" mig.pin=no train.global_batch=22 train.recompute=block
}
uneven odd
uneven odd-two strategy.stack=mig:2 "mig.sizes=3 1"
uneven odd-three "strategy.stack=mig:3, pipeline:2" "mig.sizes=2, 5, 1" comm.ranks=processes
same odd odd-two
same odd odd-three
"$cadre" train "$tmp/text.ini" --dry-run --set strategy.stack=mig:2 --set mig.pin=no \
    --set "mig.sizes=3 1" >"$tmp/dry.out" 2>&1 || fail "no dry run: $(cat "$tmp/dry.out")"
for part in "6 of 8, from 0" "2 of 8, from 6"; do
    grep -q "micro-batches: $part," "$tmp/dry.out" || fail "no rank has $part"
done
if [ "$lean" != 1 ]; then
    exact turned "strategy.stack=pipeline:2, mig:2" mig.pin=no
    exact four strategy.stack=mig:4 mig.pin=no comm.ranks=processes
    same single turned
    same single four
    exact split strategy.stack=tensor:2
    exact both "strategy.stack=mig:2, tensor:2" comm.ranks=processes
    same split both
    exact rows strategy.stack=tensor:2 tensor.sequence_parallel=yes
    exact both-rows "strategy.stack=tensor:2, mig:2" tensor.sequence_parallel=yes
    same rows both-rows
fi
train text plain 0 train.steps=6
train text plain-mig 0 train.steps=6 strategy.stack=mig:2 mig.pin=$pin
close_to plain-mig plain 1e-6 2e-2

# ---- refused ----
# wrong NAME PATTERN [s.k=v]...
wrong() {
    local name=$1 pattern=$2
    shift 2
    train text "$name" 2 "$@"
    says "$name" "$pattern"
    [ ! -e "$tmp/$name" ] || fail "$name left a run folder"
}
wrong ddp "'mig' and 'ddp' both take the axis 'dp' .mig.mode = average is ddp" "strategy.stack=mig:2, ddp:2"
wrong zero "'zero' and 'mig' both take the axis 'dp' .mig.mode = average is ddp" "strategy.stack=zero:2, mig:2"
wrong many "$((n + 1)) core sets, but there are $n CPUs to divide; use mig:$n, or mig.pin = no" \
    "strategy.stack=mig:$((n + 1))" train.global_batch=$((n + 1)) train.micro_batch=1
wrong sweep "mig.sweep = optim.lr: 1e-3 3e-4 .*set mig.mode = independent" \
    strategy.stack=mig:2 "mig.sweep=optim.lr: 1e-3 3e-4"
wrong backend "comm.backend = nccl needs a GPU" strategy.stack=mig:2 comm.backend=nccl
wrong sizes "mig.sizes has 3 sizes, but strategy.stack has 2 parts along 'mig'" \
    strategy.stack=mig:2 "mig.sizes=3 1 1"
wrong text "mig.sizes: expected at most 128 numbers .* found '3 -1'" strategy.stack=mig:2 \
    "mig.sizes=3 -1"
wrong cores "mig.sizes divides the CPUs into $((n + 1)) parts .* there are $n CPUs" \
    strategy.stack=mig:2 "mig.sizes=$n 1"
wrong site "'mig' in plan: microbatch_map with ranges for 2 data ranks, expected them for 4" \
    "strategy.stack=mig:2, ddp@site:2" ddp@site.level=16 "mig.sizes=3 1" mig.pin=no
wrong mps "mig.mps = yes needs a GPU, found a CPU" strategy.stack=mig:2 mig.mps=yes
wrong mode "mig.mode" strategy.stack=mig:2 mig.mode=avrage

# ---- where ranks are ----
if [ "$pin" = no ]; then
    echo "SKIP: core sets; there is one CPU"
    exit 0
fi
size=$((n / 2))
sets=()
trains="train.steps=1000000 train.eval_batches=1"

# is_divided NAME FILE FILE: both have whole sets of ours, and nothing of each other.
is_divided() {
    local file in
    for file in "$2" "$3"; do
        in=$(wc -l <"$file")
        if [ "$in" -lt 1 ] || [ "$in" -gt "$size" ]; then
            fail "$1: a set of $in of $n CPUs"
        fi
        [ -z "$(sort "$file" | comm -23 - <(printf '%s\n' "${own[@]}" | sort))" ] ||
            fail "$1: a CPU that this process may not use"
    done
    [ "$(wc -l <"$2")" -eq "$(wc -l <"$3")" ] || fail "$1: sets of different size"
    [ -z "$(comm -12 <(sort "$2") <(sort "$3"))" ] || fail "$1: a CPU in both sets"
}

# shellcheck disable=SC2086 # words
start text bound $trains strategy.stack=mig:2 comm.ranks=processes
wait_steps bound 1
ranks=0
for child in $(pgrep -P "$(run_of "$pid")" | sort -n); do
    for task in /proc/"$child"/task/*/status; do
        allowed "$task" >"$tmp/set.task"
        [ -e "$tmp/set.$ranks" ] || cp "$tmp/set.task" "$tmp/set.$ranks"
        cmp "$tmp/set.$ranks" "$tmp/set.task" || fail "a thread of rank $ranks is elsewhere"
    done
    ranks=$((ranks + 1))
done
[ "$ranks" -eq 2 ] || fail "$ranks processes of ranks, expected 2"
is_divided processes "$tmp/set.0" "$tmp/set.1"
kill -INT "$pid"
ends bound 4

if [ "$n" -ge 3 ]; then
    # shellcheck disable=SC2086 # words
    start text thirds $trains strategy.stack=mig:2 comm.ranks=processes "mig.sizes=2 1"
    wait_steps thirds 1
    for child in $(pgrep -P "$(run_of "$pid")" | sort -n); do
        allowed "/proc/$child/status" | wc -l
    done | xargs >"$tmp/thirds"
    third=$((n / 3))
    echo "$((2 * third)) $third" | cmp - "$tmp/thirds" || fail "sets of other sizes"
    kill -INT "$pid"
    ends thirds 4
fi

# Threads: those of a rank share its set, the program's own have all CPUs.
# shellcheck disable=SC2086 # words
start text within $trains strategy.stack=mig:2
wait_steps within 1
for task in /proc/"$(run_of "$pid")"/task/*/status; do
    allowed "$task" 2>/dev/null | tr '\n' ' ' || true # a thread may end meanwhile
    echo
done | sort -u | awk -v n="$n" 'NF > 0 && NF < n' >"$tmp/sets"
[ "$(wc -l <"$tmp/sets")" -eq 2 ] || fail "threads: $(wc -l <"$tmp/sets") sets, expected 2"
for rank in 0 1; do
    sed -n "$((rank + 1))p" "$tmp/sets" | tr -s ' ' '\n' | grep . >"$tmp/set.$rank"
done
is_divided threads "$tmp/set.0" "$tmp/set.1"
kill -INT "$pid"
ends within 4
no_orphan "both runs"

# ---- ranks of an external launcher ----
# outside NAME STATUS CPUS CPUS [s.k=v]...: ranks 0 and 1 on these CPUs, which meet at a file.
outside() {
    local before=("taskset -c $3" "taskset -c $4")
    start_ranks "file://$tmp/meet-$1" "$1" run.exact=yes train.steps=6 strategy.stack=mig:2 \
        device.threads=1 "${@:5}"
    end_ranks "$1" "$2"
}
if ! command -v taskset >/dev/null || [ "$n" -lt "$(getconf _NPROCESSORS_ONLN)" ]; then
    echo "SKIP: ranks of an external launcher; no taskset, or this test may use a part of the CPUs alone"
    exit 0
fi
every=$(IFS=, && echo "${own[*]}")
outside anywhere 2 "$every" "$every"
for rank in 0 1; do
    says anywhere.$rank "wants rank $rank on CPUs [0-9,-]+, but it was started by an external launcher"
    sets[rank]=$(sed -nE 's/.*wants rank . on CPUs ([0-9,-]+), but.*/\1/p' \
        "$tmp/anywhere.$rank.log")
done
outside placed 0 "${sets[0]}" "${sets[1]}"
same single placed
outside swapped 2 "${sets[1]}" "${sets[0]}"
outside unpinned 0 "$every" "$every" mig.pin=no
same single unpinned
