#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/memory.sh [BUILD]: the memory that ddp and zero promise against what they took.
# Trains 2 steps of a model of 10.8 million parameters in fp32 under each, on 2 and 4 ranks,
# and prints a table for docs/strategies.md: bytes a parameter of model states (parameters,
# gradients, AdamW states, secondary shards; the mean and the largest over the ranks), and
# separately, in MiB on the rank that took most, what the strategy buffers and what activations
# take. Fails where a mean or a largest is more than 3 % from the promise.
. "$(dirname "$0")/lib.sh"
cadre=$(cd "${1:-build}" && pwd)/cadre
write_letters train.steps=2 checkpoint.every=0

# Reads a pretty-printed summary.json.
cat >"$tmp/row.awk" <<'EOT'
/^ *"params":/ { params = $2 + 0 }
/^ *"memory":/ { inside = 1; next }
inside && /^ *}/ { inside = 0 }
inside && /": \[/ { split($0, part, "\""); tag = part[2]; rank = 0 }
inside && /^ *[0-9]+,?$/ {
    kind = tag ~ /^(parameters|gradients|optimizer states( \(host\))?)$/ ? "states" \
        : tag == "zero: secondary shards" ? "states" \
        : tag ~ /: / ? "buffers" : "rest"
    sum[kind, rank] += $1
    if (tag ~ /\(host\)$/)
        sum["host", rank] += $1
    if (++rank > ranks)
        ranks = rank
}
function most(kind,    r, top)
{
    for (r = 0; r < ranks; r++)
        if (sum[kind, r] > top)
            top = sum[kind, r]
    return top
}
END {
    for (r = 0; r < ranks; r++)
        mean += sum["states", r] / ranks / params
    top = most("states") / params
    mib = 1048576
    printf "| %s | %.2f | %.2f | %.2f | %.3f | %.1f | %.1f | %.1f |\n", name, promised, mean,
        top, mean / promised, most("host") / mib, most("buffers") / mib, most("rest") / mib
    if (!(mean > 0.97 * promised && mean < 1.03 * promised && top < 1.03 * promised))
        exit 1
}
EOT

# measure RANKS PROMISED STACK [s.k=v]...: a line of the table.
measure() {
    local promised=$2 stack=$3 name=$3 set
    promised=$(awk -v n="$1" "BEGIN { print $promised }")
    shift 3
    for set in "$@"; do
        name="$name, ${set#*.}"
    done
    train "$tmp/run.ini" out "strategy.stack=$stack" "$@"
    awk -v name="$name" -v promised="$promised" -f "$tmp/row.awk" "$tmp/out/summary.json" ||
        fail "$name takes more than 3 % more or less than it promises"
}

echo "| stack | promised, B/param | mean | largest | mean / promised | of it host, MiB |" \
    "buffers, MiB | activations, MiB |"
echo "|---|---|---|---|---|---|---|---|"
measure 1 16 single
for n in 2 4; do
    measure $n 16 ddp:$n
    measure $n '8 + 8 / n' zero:$n zero.stage=1
    measure $n '4 + 12 / n' zero:$n zero.stage=2
    measure $n '4 + 12 / n' zero:$n zero.stage=2 zero.reduce=microbatch
    measure $n '16 / n' zero:$n zero.stage=3
    measure $n '16 / n' zero:$n zero.stage=3 zero.reduce=microbatch
    measure $n '16 / n' zero:$n zero.stage=3 zero.offload=optimizer
done
measure 4 '16 / n + 4 / 2' zero:4 zero.stage=3 zero.node=2 zero.secondary=node
measure 4 '16 / n' zero:4 zero.stage=3 zero.quantize_gathers=int8 zero.quantize_gradients=int8
