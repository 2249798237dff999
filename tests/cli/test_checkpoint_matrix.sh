#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Saved under A, resumed under B, for ordered pairs of stacks: loaded under B and saved at
# once it has the bytes of A; and training continues under B with the bits of a run that never
# stopped. Stacks with tensor sum in another order: from one checkpoint they continue alike
# among themselves, and within a limit of the others. Muon's states go the same ways, and
# replicas that diverge: as many go on with their own values, others with the mean.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
resave=$CADRE_BUILD/train_resave

declare -A stack=(
    [single]="strategy.stack=single"
    [ddp2]="strategy.stack=ddp:2"
    [zero2-1]="strategy.stack=zero:2 zero.stage=1"
    [zero2-2]="strategy.stack=zero:2 zero.stage=2"
    [zero2-3]="strategy.stack=zero:2 zero.stage=3"
    [zero4-3]="strategy.stack=zero:4 zero.stage=3"
    [pp2]="strategy.stack=pipeline:2"
    [tp2]="strategy.stack=tensor:2"
    [pp2-zero2]="strategy.stack=pipeline:2,zero:2 zero.stage=1"
    [pp2-tp2]="strategy.stack=pipeline:2,tensor:2"
    [hsdp2-zero2]="strategy.stack=hsdp:2,zero:2 zero.stage=3"
    [site2-ddp2]="strategy.stack=ddp@site:2,ddp:2 ddp@site.level=16"
    [outer2]="strategy.stack=diloco:2 diloco.period=4"
    [outer2-zero2]="strategy.stack=zero:2,diloco:2 diloco.period=4 zero.stage=2"
    [outer2-pp2]="strategy.stack=diloco:2,pipeline:2 diloco.period=4"
)
all="single ddp2 zero2-1 zero2-2 zero2-3 zero4-3 pp2 tp2 pp2-zero2 pp2-tp2"
common=(run.exact=yes model.channels=16 model.context=16 train.eval_batches=1 device.threads=1)

# "tp" for stacks with tensor, else "one": the stacks of a class have equal bits.
class() {
    case $1 in
    *tp2*) echo tp ;;
    *) echo one ;;
    esac
}

# trained A: three steps under A; the never stopped run of A's class has five.
trained() {
    local sets
    read -ra sets <<<"${stack[$1]}"
    train text "$1" 0 "${common[@]}" train.steps=3 "${sets[@]}"
    if [ ! -e "$tmp/whole-$(class "$1")" ]; then
        train text "whole-$(class "$1")" 0 "${common[@]}" train.steps=5 "${sets[@]}"
    fi
}

same_files() { # A B: two checkpoints, but for options and folder
    local file
    for file in model.safetensors optimizer.safetensors config.json; do
        cmp "$1/$file" "$2/$file" || fail "$file of $1 and $2 differ"
    done
    for key in step samples seed; do
        [ "$(grep "\"$key\"" "$1/state.json")" = "$(grep "\"$key\"" "$2/state.json")" ] ||
            fail "$key of $1 and $2 differ"
    done
}

# pair A B
pair() {
    local from sets before
    from=$(last "$1")
    read -ra sets <<<"${stack[$2]}"
    "$resave" "$tmp/text.ini" "$tmp/again" "${common[@]}" train.steps=3 "${sets[@]}" \
        "checkpoint.resume=$from" || fail "$1 cannot be loaded under $2"
    same_files "$from" "$(last again)"
    train text "$1-$2" 0 "${common[@]}" train.steps=5 "${sets[@]}" "checkpoint.resume=$from"
    if [ "$(class "$1")" = "$(class "$2")" ]; then
        same_files "$(last "whole-$(class "$1")")" "$(last "$1-$2")"
    else
        before="$1-first-$(class "$2")"
        [ -e "$tmp/$before" ] || cp -r "$tmp/$1-$2" "$tmp/$before"
        same_files "$(last "$before")" "$(last "$1-$2")"
        close=$("$differ" "$(last "whole-$(class "$1")")/model.safetensors" \
            "$(last "$1-$2")/model.safetensors")
        echo "$1 under $2: $close from never stopped"
        awk -v d="$close" 'BEGIN { exit !(d <= 1e-4) }' ||
            fail "$1 resumed under $2 differs from never stopped by $close"
    fi
    rm -rf "$tmp/again" "$tmp/$1-$2"
}

pairs=0
try() { # A B...
    local a=$1 b
    shift
    [ -e "$tmp/$a" ] || trained "$a"
    for b in "$@"; do
        pair "$a" "$b"
        pairs=$((pairs + 1))
    done
}
if [ "$slow" = 1 ]; then
    for a in $all; do
        # shellcheck disable=SC2086 # a list
        try "$a" $all
    done
else # every stack saves and every stack loads, along the hardest ways
    try single zero4-3 pp2-tp2
    try zero4-3 pp2-zero2 tp2
    try pp2-zero2 zero2-3 single
    try pp2-tp2 tp2 ddp2
    try zero2-2 pp2
fi
if [ "$slow" = 1 ]; then # outer dimensions, along the hardest ways
    try hsdp2-zero2 zero4-3 site2-ddp2 pp2-tp2
    try site2-ddp2 pp2-zero2
    try zero4-3 hsdp2-zero2
    try pp2-tp2 hsdp2-zero2
fi

# ---- replicas that diverge: exact mode is not theirs ----

# resaved NAME A B [s.k=v]...: the last checkpoint of A, loaded under B and saved into NAME.
resaved() {
    local sets
    read -ra sets <<<"${stack[$3]}"
    "$resave" "$tmp/text.ini" "$tmp/$1" "${common[@]}" train.steps=3 "${sets[@]}" \
        "checkpoint.resume=$(last "$2")" "${@:4}" || fail "$2 cannot be loaded under $3"
}

# as_many A B: as many replicas have each its own values, whatever each is made of.
as_many() {
    resaved again "$1" "$2"
    for file in model.safetensors optimizer.safetensors replicas.safetensors; do
        cmp "$(last "$1")/$file" "$(last again)/$file" ||
            fail "$file of $1 is another after it was loaded under $2"
    done
    rm -r "$tmp/again"
    pairs=$((pairs + 1))
}

# mean_of A B: any other stack begins with the mean.
mean_of() {
    resaved again "$1" "$2"
    same_files "$(last "$1")" "$(last again)"
    rm -r "$tmp/again"
    pairs=$((pairs + 1))
}

# diverged A: three steps, between two outer ones.
diverged() {
    local sets
    read -ra sets <<<"${stack[$1]}"
    train text "$1" 0 "${common[@]}" train.steps=3 "${sets[@]}"
    [ -s "$(last "$1")/replicas.safetensors" ] || fail "$1 keeps no replicas"
}

common[0]=run.exact=no
diverged outer2
as_many outer2 outer2-pp2
mean_of outer2 zero2-3
if [ "$slow" = 1 ]; then
    diverged outer2-zero2
    as_many outer2-zero2 outer2
    as_many outer2-zero2 outer2-pp2
    as_many outer2 outer2-zero2
    mean_of outer2-zero2 single
    mean_of outer2 pp2-tp2
    mean_of outer2-zero2 zero4-3
    train text mean 0 "${common[@]}" train.steps=5 strategy.stack=diloco:4 diloco.period=4 \
        "checkpoint.resume=$(last outer2)"
    grep -q 'keeps 2 replicas, this run has 4: each resumes from the mean' "$tmp/mean.log" ||
        fail "the log does not say that four replicas begin with the mean of two"
fi

# ---- Muon's states ----

common[0]=run.exact=yes
common+=(optim.name=muon muon.ns_steps=2)
rm -rf "$tmp"/{whole-,single,zero,pp2,hsdp}*
try zero4-3 pp2-zero2
[ "$slow" != 1 ] || try pp2-zero2 zero2-2 hsdp2-zero2
[ "$slow" != 1 ] || try pp2-tp2 tp2
echo "$pairs pairs: the same bytes, and the same bits two steps later"
