#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A model folder goes straight into the strategy's layout: no rank holds the whole model under
# zero's stage 3 or a pipeline. Measured twice: as what was resident in each rank's process, and
# in memory cgroups smaller than the model, where there is the right to make them.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
[ "$lean" != 1 ] || skip "instrumented programs take more memory"

cat >"$tmp/large.ini" <<INI
[data]
path = $tmp/text.txt
tokenizer = byte
cache = no
[train]
steps = 2
global_batch = 8
micro_batch = 1
eval_batches = 1
[optim]
name = sgd
lr = 1e-3
[checkpoint]
every = 1000
INI

# 32 blocks of 3 MiB: the embedding and the head are small. A rank of eight has three eighths
# of the model (parameters, gradients, and what the optimizer keeps) and a block or two.
train large made 0 model.arch=llama model.layers=32 model.channels=256 model.heads=4 \
    model.hidden=704 model.context=16 train.steps=1 optim.lr=0
folder=$(last made)
model=$(stat -c %s "$folder/model.safetensors")
[ "$model" -gt 90000000 ] || fail "the model has $model bytes: the test wants 90 MB"

# Peak resident memory of a run's processes, the largest.
resident() {
    awk '/"resident_bytes"/ { inside = 1; next } inside && /\]/ { exit }
        inside && $1 + 0 > most { most = $1 + 0 } END { printf "%d\n", most }' \
        "$tmp/$1/summary.json"
}

held() { # NAME [s.k=v]...
    train large "$1" 0 "model.init=$folder" comm.ranks=processes "${@:2}"
    echo "$1: at most $(resident "$1") bytes in a process, the model has $model"
    [ "$(resident "$1")" -lt "$model" ] || fail "$1: a rank held as much as the model"
}
held zero strategy.stack=zero:8 zero.stage=3
held pipeline strategy.stack=pipeline:8
train large single 0 "model.init=$folder"
[ "$(resident single)" -gt "$model" ] || fail "single did not hold the model: is the test right?"
close_to single zero 1e-5 1e-6
close_to single pipeline 1e-5 1e-6

# ---- in cgroups of nine tenths of the model ----

# cgroups ROOT FILE: make eight under ROOT, whose limit is in FILE.
groups=()
remove_groups() {
    local group
    for group in "${groups[@]}"; do
        rmdir "$group" 2>/dev/null || true
    done
}
trap 'remove_groups; rm -rf "$disk"; clean_up' EXIT

# What a rank writes into a file system in memory is its memory too.
disk=$(mktemp -d "$CADRE_BUILD/load-memory-XXXXXX")
[ "$(stat -f -c %T "$disk")" != tmpfs ] ||
    skip "the cgroups: $CADRE_BUILD is in memory; the rest has passed"

make_groups() {
    local root=$1 file=$2 rank
    for rank in {0..7}; do
        mkdir "$root/cadre-test-$$-$rank" 2>/dev/null || return 1
        groups+=("$root/cadre-test-$$-$rank")
        echo $((model * 9 / 10)) 2>/dev/null >"${groups[rank]}/$file" || return 1
        # without swap, where that can be said
        echo 0 2>/dev/null >"${groups[rank]}/memory.swap.max" || true
    done
}
own=$(sed -n 's/^[0-9]*:memory://p; s/^0:://p' /proc/self/cgroup | head -1)
{
    make_groups "/sys/fs/cgroup/memory${own%/}" memory.limit_in_bytes ||
        { remove_groups; groups=(); make_groups "/sys/fs/cgroup${own%/}" memory.max; }
} 2>/dev/null || skip "the cgroups: there is no right to make them here; the rest has passed"

cat >"$tmp/inside" <<'SH'
#!/usr/bin/env bash
echo $$ >"$1/cgroup.procs" && shift && exec "$@"
SH
chmod +x "$tmp/inside"

# confined NAME [s.k=v]...: eight ranks, each in a cgroup of its own. What is asked of a machine
# before the start has the ranks' shared memory whole, which one of them pays.
confined() {
    local name=$1 rank sets pids=()
    ln -s "$disk/$name" "$tmp/$name"
    settings "model.init=$folder" run.memory_check=no "${@:2}"
    for rank in {0..7}; do
        CADRE_INIT=file://$tmp/meet-$name CADRE_WORLD_SIZE=8 CADRE_RANK=$rank \
            CADRE_LOCAL_RANK=$rank "$tmp/inside" "${groups[rank]}" "$cadre" train \
            "$tmp/large.ini" --out "$disk/$name" "${sets[@]}" \
            >"$tmp/$name.$rank.out" 2>"$tmp/$name.$rank.log" &
        pids[rank]=$!
        started+=("$!")
    done
    for rank in {0..7}; do
        pid=${pids[rank]}
        ends "$name.$rank" 0
    done
}
confined zero3 strategy.stack=zero:8 zero.stage=3
close_to single zero3 1e-5 1e-6
confined stages strategy.stack=pipeline:8
close_to single stages 1e-5 1e-6

# What holds the whole model does not fit there.
settings "model.init=$folder" run.memory_check=no
if "$tmp/inside" "${groups[0]}" "$cadre" train "$tmp/large.ini" --out "$disk/whole" "${sets[@]}" \
    >"$tmp/whole.out" 2>"$tmp/whole.log"; then
    fail "a run of one rank fitted into a cgroup smaller than the model"
fi
grep -q 'killed by signal 9' "$tmp/whole.log" || fail "whole: $(cat "$tmp/whole.log")"
