#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints that earlier versions wrote resume: all values as they were, and the steps after
# them as that version continued.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# written_by VERSION: what follows is about its checkpoints.
written_by() {
    version=$1
    samples=$CADRE_SRC/tests/samples/checkpoint-$version
    sets=(data.path="$samples/text.txt")
}

# value KEY CHECKPOINT: a line of its state.json.
value() {
    grep -m 1 "\"$1\":" "$2/state.json"
}

# loads NAME: loaded and saved at once, every tensor and blob has its bytes, and training
# stands where it stood.
loads() {
    local file key
    "$CADRE_BUILD/train_resave" "$tmp/$1.ini" "$tmp/$1-again" "${sets[@]}" \
        "checkpoint.resume=$samples/$1" 2>"$tmp/$1.log" || fail "$1: $(cat "$tmp/$1.log")"
    for file in "$samples/$1"/*; do
        case $file in
        */state.json) ;;
        */config.json) # the ends of the tokenizer are named since 0.2.0
            grep -v '_token_id"' "$(last "$1-again")/config.json" >"$tmp/config.json"
            diff <(tr -d , <"$file") <(tr -d , <"$tmp/config.json") ||
                fail "$1: config.json changed"
            ;;
        *) cmp "$file" "$(last "$1-again")/${file##*/}" || fail "$1: ${file##*/} changed" ;;
        esac
    done
    for key in step samples seed data_fingerprint global_batch optimizer stack skipped \
        loss_scale loss_scale_good; do
        [ "$(value $key "$samples/$1")" = "$(value $key "$(last "$1-again")")" ] ||
            fail "$1: $key of state.json changed"
    done
}

# goes_on NAME RUN [s.k=v]...: three steps more have the losses and norms that are written
# next to the checkpoint: to the bit where the libraries and the kind of CPU are those of
# then, else nearly.
goes_on() {
    local name=$1 run=$2 limit=1e-3
    shift 2
    train "$name" "$run" 0 "${sets[@]}" "checkpoint.resume=$samples/$name" train.steps=6 "$@"
    [ "$(value gemm "$samples/$name")" != "$(value gemm "$(last "$run")")" ] || limit=0
    paste "$samples/$name.losses" <(losses "$run") | awk -v limit="$limit" '
        function far(a, b) { return a > b ? a - b : b - a }
        { bad += $1 != $4 || far($2, $5) > limit * $2 || far($3, $6) > limit * $3 }
        END { exit !(NR == 3 && bad == 0) }' ||
        fail "$run: expected within $limit: $(cat "$samples/$name.losses"), \
found: $(losses "$run")"
    echo "$run: as $version continued, within $limit"
}

# resumes NAME...: each of them is a good checkpoint, loads, and goes on.
resumes() {
    local name
    for name in "$@"; do
        cp "$samples/$name.ini" "$tmp"
        "$cadre" inspect "$samples/$name" >"$tmp/$name.out"
        grep -q '^checkpoint: 3 steps, 12 samples, seed 1337; every checksum is right$' \
            "$tmp/$name.out" || fail "$name: $(cat "$tmp/$name.out")"
        loads "$name"
        goes_on "$name" "$name"
    done
}

written_by 0.1.0
resumes exact residual scaled
goes_on exact exact-ddp strategy.stack=ddp:2
goes_on exact exact-async strategy.stack=zero:2 zero.stage=3 checkpoint.async=yes
written_by 0.2.0
resumes matrix replicas
