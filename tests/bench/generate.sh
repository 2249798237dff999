#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/generate.sh [TOKENS] [ROUNDS]: tokens a second of `cadre generate` with keys and
# values kept, and computing all that the model sees again for every token (--no-cache), in
# turns, as a markdown table: medians of ROUNDS (9), less a run of one token, greedy, of
# stories260K (or MODEL, a Hugging Face folder, with TOKENIZER) on one core (THREADS). Processor
# time is hardly touched by what else the machine does. OLD names another `cadre` to take
# turns with, one from before keys were kept. Needs a built tree (CADRE_BUILD, or build/).
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
tokens=${1:-200}
rounds=${2:-9}
weights=$top/tests/samples/weights
model=${MODEL:-$weights/stories260K-hf}
printf '[data]\ntokenizer = %s\n[device]\nkind = cpu\nthreads = %s\n' \
    "${TOKENIZER:-$weights/stories260K/tok512.bin}" "${THREADS:-1}" >"$tmp/model.ini"

once() { # TOKENS PROGRAM ARGUMENT...: wall seconds and processor seconds
    local TIMEFORMAT='%R %U %S' count=$1 program=$2
    shift 2
    { time "$program" generate "$tmp/model.ini" --from "$model" --greedy --tokens "$count" "$@" \
        >"$tmp/text" 2>"$tmp/err"; } 2>&1 | awk '{ print $1, $2 + $3 }'
    [ -s "$tmp/text" ] || fail "$(cat "$tmp/err")"
}

measure() { # NAME PROGRAM ARGUMENT...: a line of seconds for the tokens behind the first
    local name=$1
    shift
    echo "$(once 1 "$@") $(once "$((tokens + 1))" "$@")" |
        awk '{ print $3 - $1, $4 - $2 }' >>"$tmp/$name.seconds"
    cp "$tmp/text" "$tmp/$name.text"
}

median() { # NAME FIELD: tokens a second
    sort -g -k "$2,$2" "$tmp/$1.seconds" |
        awk -v f="$2" -v n="$tokens" '{ s[NR] = $f }
            END { m = NR % 2 ? s[(NR + 1) / 2] : (s[NR / 2] + s[NR / 2 + 1]) / 2
                  printf "%.0f", n / m }'
}

names=(kept whole)
[ -z "${OLD:-}" ] || names+=(old)
for ((round = 0; round < rounds; round++)); do
    measure kept "$cadre"
    measure whole "$cadre" --no-cache
    [ -z "${OLD:-}" ] || measure old "$OLD"
done
for name in "${names[@]}"; do
    cmp -s "$tmp/kept.text" "$tmp/$name.text" || fail "$name gives another text"
done
echo "| $tokens tokens | tokens/s | tokens/s of processor time | kept is faster by |"
echo "|---|---|---|---|"
for name in "${names[@]}"; do
    wall=$(median "$name" 1) processor=$(median "$name" 2)
    awk -v name="$name" -v wall="$wall" -v cpu="$processor" -v kept="$(median kept 1)" \
        -v kept_cpu="$(median kept 2)" 'BEGIN {
            printf "| %s | %d | %d | %.1f, %.1f |\n", name, wall, cpu, kept / wall, kept_cpu / cpu }'
done
