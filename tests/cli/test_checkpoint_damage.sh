#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A byte changed anywhere in any file of a checkpoint, a file truncated, lengthened or gone:
# refused in one line that names the file, and for tensors the tensor and the bytes. resume =
# auto takes the one before. CADRE_TEST_SEED chooses the places.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
RANDOM=${CADRE_TEST_SEED:-7}
flips=4
[ "$slow" = 1 ] && flips=60

state=$(test_plugin state_plugin)
stack="strategy.stack=ddp:2,$state:2"
train text run 0 train.steps=2 checkpoint.every=1 "$stack"
good=$(last run)
bad=$tmp/bad

# refused FILE PATTERN WHAT
refused() {
    local status=0 line
    "$cadre" inspect "$bad" >"$tmp/out" 2>"$tmp/log" || status=$?
    line=$(grep -c . "$tmp/log") || true
    [ "$status" -eq 2 ] || fail "$3: status $status, expected 2: $(cat "$tmp/out")"
    [ "$line" -eq 1 ] || fail "$3: $line lines: $(cat "$tmp/log")"
    grep -F "$1" "$tmp/log" | grep -E "$2" >/dev/null || fail "$3: no '$2' in: $(cat "$tmp/log")"
}

# flip FILE OFFSET: replaces a byte by another.
flip() {
    local old
    old=$(od -An -tu1 -j "$2" -N 1 "$bad/$1")
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf '%03o' $(((old + 1 + RANDOM % 255) % 256)))" |
        dd of="$bad/$1" bs=1 seek="$2" conv=notrunc status=none
}

# within TEXT OFFSET: the bytes "in the file [a, b)" of the log hold the offset.
within() {
    sed -E 's/.*in the file \[([0-9]+), ([0-9]+)\).*/\1 \2/' "$tmp/log" |
        awk -v at="$2" '{ exit !($1 <= at && at < $2) }' ||
        fail "$1: byte $2 is not in the bytes named: $(cat "$tmp/log")"
}

for path in "$good"/*; do
    file=${path##*/}
    size=$(stat -c %s "$path")
    header=$size
    case $file in
    *.safetensors) header=$(($(od -An -tu8 -N 8 "$path") + 8)) ;;
    esac
    for ((i = 0; i < flips; i++)); do
        at=$(((RANDOM * 32768 + RANDOM) % size))
        [ "$i" -gt 0 ] || at=$((size - 1))
        [ "$i" -ne 1 ] || at=$((header - 1))
        rm -rf "$bad"
        cp -r "$good" "$bad"
        flip "$file" "$at"
        if [ "$at" -ge "$header" ]; then
            refused "$file" "tensor '[^']+'.*bytes \[" "$file, byte $at"
            within "$file" "$at"
        else
            refused "$file" . "$file, byte $at"
        fi
    done
    for cut in 0 $((size / 2)) $((size - 1)) $((size + 1)); do
        rm -rf "$bad"
        cp -r "$good" "$bad"
        truncate -s "$cut" "$bad/$file"
        refused "$file" . "$file of $cut bytes"
        if [ "$cut" -ge "$header" ] && [ "$cut" -lt "$size" ] && [ "$header" -lt "$size" ]; then
            refused "$file" "tensor '[^']+'.*bytes \[" "$file of $cut bytes"
        fi
    done
    rm -rf "$bad"
    cp -r "$good" "$bad"
    rm "$bad/$file"
    [ "$file" = state.json ] || refused "$file" . "no $file" # it is a model folder then
done

rm -rf "$bad"
cp -r "$good" "$bad"
rm "$bad/state.json"
train text other 2 train.steps=3 "$stack" checkpoint.resume="$bad"
says other "state.json"

# The run refuses it as well, and by itself takes the one before.
flip() { printf '?' | dd of="$1" bs=1 seek=30000 conv=notrunc status=none; }
flip "$good/strategy.safetensors"
train text other 2 train.steps=3 "$stack" checkpoint.resume="$good"
says other "strategy.safetensors: tensor '[^']+': .*bytes \["
train text run 0 train.steps=3 "$stack" checkpoint.resume=auto
grep -q "resuming from .*step-00000001" "$tmp/run.log" || fail "not the one before"
