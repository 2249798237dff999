#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/tensor_memory.sh: what a rank of `tensor` keeps of the model of
# conf/shakespeare.ini, as `cadre train --dry-run` plans it, as a markdown table for
# plugins/tensor/README.md. Needs a built tree (CADRE_BUILD, or build/); trains nothing.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre

# column [s.k=v]...: MiB of the rank with most, a line each of activations, scratch and total.
column() {
    local sets
    settings "data.path=$top/COPYING" "data.cache=$tmp/cache" train.micro_batch=8 "$@"
    "$cadre" train "$top/conf/shakespeare.ini" --dry-run "${sets[@]}" 2>"$tmp/log" |
        awk '$1 == "activations" || $1 == "scratch" || $1 == "total" {
            for (i = 2; i <= NF; i++) if ($i ~ /^[0-9.]+$/ && $i > most[$1]) most[$1] = $i
        }
        END { printf "%.1f\n%.1f\n%.1f\n", most["activations"], most["scratch"], most["total"] }' ||
        fail "$*: $(cat "$tmp/log")"
}

printf 'activations\nscratch\ntotal\n' >"$tmp/names"
column strategy.stack=single >"$tmp/1"
column strategy.stack=tensor:2 >"$tmp/2"
column strategy.stack=tensor:2 tensor.sequence_parallel=yes >"$tmp/3"
column strategy.stack=tensor:4 >"$tmp/4"
column strategy.stack=tensor:4 tensor.sequence_parallel=yes >"$tmp/5"
echo "| | single | tensor:2 | sequence parallel | tensor:4 | sequence parallel |"
echo "|---|---|---|---|---|---|"
paste "$tmp"/names "$tmp"/[1-5] | sed 's/\t/ | /g; s/.*/| & |/'
