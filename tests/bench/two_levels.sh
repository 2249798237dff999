#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/two_levels.sh [LINK [CHANNELS...]]: from which size of a message on a sum over two
# levels (ddp.node) is faster than one over all ranks, as a markdown table, with what arithmetic
# says. Needs a built tree (CADRE_BUILD, or build/). 4 ranks on 2 simulated nodes; LINK is
# comm.link. A model of CHANNELS has one bucket of gradients, which is summed after backward;
# its time is that in which the rank waits for it. The link is simulated: it sleeps as long as
# the bytes would take, so it should be slow beside the machine's memory.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
link=${1:-1.25:500, 0.125:1000}
shift || true
[ $# -gt 0 ] || set -- 16 32 48 64 96 160
steps=24
[[ $link =~ ^([0-9.]+):([0-9.]+),\ *([0-9.]+):([0-9.]+)$ ]] ||
    fail "'$link': expected a link of two levels, as '12.5:5, 1.25:30'"
read -r gi li gb lb <<<"${BASH_REMATCH[*]:1:4}"

write_ini "$tmp/c.ini" model.arch=gpt2 model.layers=1 model.heads=2 model.context=8 \
    model.tied=no "data.path=$top/COPYING" "data.cache=$tmp/cache" train.global_batch=4 \
    train.micro_batch=1 train.eval_every=0 checkpoint.every=0 device.threads=1 \
    strategy.stack=ddp:4 ddp.bucket_mb=65536 ddp.overlap=no comm.node=2 train.steps=$steps

# Milliseconds of a step that rank 0 waits for the sum, the median of the steps after two.
measured() { # FOLDER
    sed -E 's/.*"comm_exposed_axis_s": *\{([^}]*)\}.*/\1/' "$tmp/$1/metrics.jsonl" |
        tail -n +3 | awk -F, '{
            s = 0
            for (i = 1; i <= NF; i++)
                if ($i ~ /"dp/) { split($i, part, ": *"); s += part[2] }
            print 1000 * s
        }' | median
}

echo "4 ranks on 2 simulated nodes of 2, \`comm.link = $link\`: $gi GB/s and $li us inside a node,"
echo "$gb GB/s and $lb us between nodes. A sum of n bytes, in ms: over all ranks each sends n/2"
echo "inside and n between, at once; over two levels n/2, n/2 between, n/2, one after the other."
echo
echo "| n, KB | one level: arithmetic | measured | two levels: arithmetic | measured | faster |"
echo "|---|---|---|---|---|---|"
for channels; do
    train "$tmp/c.ini" flat "model.channels=$channels" "comm.link=$link"
    train "$tmp/c.ini" levels "model.channels=$channels" "comm.link=$link" ddp.node=2
    echo "$(($(total flat params) * 4)) $(measured flat) $(measured levels)"
done >"$tmp/points"
awk -v gi="$gi" -v li="$li" -v gb="$gb" -v lb="$lb" '
    function most(a, b) { return a > b ? a : b }
    # ms of n bytes; GB/s is bytes a nanosecond
    function flat(n) { return most(n / 2 / gi, n / gb) / 1e6 + lb / 1e3 }
    function levels(n) { return (n / gi + n / 2 / gb) / 1e6 + (2 * li + lb) / 1e3 }
    {
        printf "| %.0f | %.2f | %.2f | %.2f | %.2f | %s |\n", $1 / 1e3, flat($1), $2,
            levels($1), $3, $3 < $2 ? "two levels" : "one"
        gain = $2 - $3
        if (NR > 1 && before <= 0 && gain > 0 && !at)
            at = n + ($1 - n) * -before / (gain - before)
        n = $1
        before = gain
    }
    END {
        won = most(1 / 2 / gi, 1 / gb) - (1 / gi + 1 / 2 / gb)
        printf "\n"
        if (won > 0)
            printf "Two levels are faster from %.0f KB on by arithmetic, ", 2 * li / won
        else
            printf "Two levels are never faster by arithmetic, "
        if (at)
            printf "from %.0f KB on as measured.\n", at / 1e3
        else
            printf "and no such size is among those measured.\n"
    }' "$tmp/points"
