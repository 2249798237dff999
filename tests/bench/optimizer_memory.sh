#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/optimizer_memory.sh [BUILD]: the memory of the states of every optimizer, promised
# against what --dry-run plans and what a run took. Trains 2 steps of a model of 10.8 million
# parameters in fp32, alone and over the 2 ranks of zero-1, and prints a table for
# docs/strategies.md: bytes a parameter of states (of zero the mean over the ranks), and in MiB,
# on the rank that took most, what else the optimizer takes. Fails where a run took more than 1 %
# more or less than promised, or anything else than planned, in the digits of --dry-run.
. "$(dirname "$0")/lib.sh"
cadre=$(cd "${1:-build}" && pwd)/cadre
write_letters train.steps=2 checkpoint.every=0

# Reads a pretty-printed summary.json: parameters, states of all ranks, the rest of the
# optimizer on the rank with most.
cat >"$tmp/took.awk" <<'EOT'
/^ *"params":/ { params = $2 + 0 }
/^ *"memory":/ { inside = 1; next }
inside && /^ *}/ { inside = 0 }
inside && /": \[/ { split($0, part, "\""); tag = part[2]; rank = 0 }
inside && /^ *[0-9]+,?$/ {
    if (tag == "optimizer states")
        states += $1
    else if (tag == "whole matrices" || index(tag, name ": ") == 1)
        rest[rank] += $1
    if (++rank > ranks)
        ranks = rank
}
END {
    for (r in rest)
        if (rest[r] > most)
            most = rest[r]
    print params, states + 0, most / 1048576
}
EOT

# What --dry-run says of all ranks together.
planned() {
    awk '/^  optimizer states / {
        unit = $5 == "KiB" ? 1024 : $5 == "MiB" ? 1048576 : $5 == "GiB" ? 1073741824 : 1
        sum += $4 * unit
    } END { printf "%.0f\n", sum }'
}

# measure NAME FORMULA BYTES: a line of the table; BYTES are promised for the whole model.
measure() {
    local name=$1 formula=$2 promised=$3 stack ranks row=
    for stack in single zero:2; do
        "$cadre" train "$tmp/run.ini" --dry-run --set optim.name="$name" --set \
            strategy.stack=$stack --set zero.stage=1 >"$tmp/plan"
        train "$tmp/run.ini" out optim.name="$name" strategy.stack=$stack zero.stage=1
        awk -v name="$name" -f "$tmp/took.awk" "$tmp/out/summary.json" >"$tmp/took"
        read -r params states rest <"$tmp/took"
        ranks=1
        [ "$stack" = single ] || ranks=2
        awk -v took="$states" -v plan="$(planned <"$tmp/plan")" -v promised="$promised" \
            -v digit=$((ranks * 525)) 'BEGIN { exit !(took >= plan - digit &&
                took <= plan + digit && took > 0.99 * promised && took < 1.01 * promised) }' ||
            fail "$name on $stack: $states bytes of states, planned $(planned <"$tmp/plan"), promised $promised"
        row+=$(awk -v b="$states" -v r=$ranks -v p="$params" -v w="$promised" -v rest="$rest" \
            'BEGIN { printf " %.3f | %.3f | %.1f |", w / r / p, b / r / p, rest }')
    done
    echo "| \`$name\` | $formula |$row"
}

# The model of write_letters: what is a matrix and what a vector.
size() { "$cadre" train "$tmp/run.ini" --dry-run --set "$1" | planned; }
all=$(($(size optim.name=adamw) / 8))
L=6 C=384 H=1536 V=256 T=256
hidden=$((L * (4 * C * C + 2 * C * H)))
vectors=$((L * (9 * C + H) + 2 * C))
sides=$((V + C + T + C + L * (4 * C + 2 * C + 2 * (C + H))))

echo "| optimizer | states, bytes | promised, B/param | took | scratch, MiB | zero:2: promised | took | scratch, MiB |"
echo "|---|---|---|---|---|---|---|---|"
measure adamw '8 P' $((8 * all))
measure sgd '4 P' $((4 * all))
measure lion '4 P' $((4 * all))
measure adamw8bit '2 P + 8 P / 256' $((2 * all + 8 * all / 256))
measure muon '4 P hidden + 8 P other' $((4 * hidden + 8 * (all - hidden)))
measure adafactor '4 (rows + columns) + 4 P of vectors' $((4 * sides + 4 * vectors))
