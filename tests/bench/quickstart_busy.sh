#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does ./quickstart say anything false on a busy machine? First its comparison with 24 rounds on
# the machine as it is, which must be quiet: what is true. Then TRIES times ./quickstart while busy
# loops, one a core, start and stop at random. A statement is false where the true interval denies
# it: a run called faster whose true speedup is at most 1.01 at its upper end, slower likewise, a
# fastest run that another one truly beats, an interval that does not meet the true one, or training
# that was not the same. With LINES_FILE the tries, and the truth, are kept there, and those that
# it has are not made again: they may be spread over several hours of one machine and tree.
# usage: TRIES=20 tests/bench/quickstart_busy.sh, from a tree that ./quickstart has built
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
cd "${top:?}" || exit
tries=${TRIES:-20}
lines=$(realpath "${LINES_FILE:-${tmp:?}/tries}")
touch "$lines"
never=$tmp/never
mkfifo "$never"
trap 'kill "${neighbour:-}" 2>/dev/null || true; rm -rf "$tmp"' EXIT # loops end without $never

spin() { while [ -p "$never" ] && [ "$SECONDS" -lt "$1" ]; do :; done; }

# Comes and goes, each time for 1 to 20 s.
come_and_go() {
    local end i
    while [ -p "$never" ]; do
        read -rt "$((1 + RANDOM % 20))" <>"$never" || true
        end=$((SECONDS + 1 + RANDOM % 20))
        for ((i = 0; i < $(nproc); i++)); do
            spin "$end" &
        done
        wait
    done
}

# said TRY FOLDER: a line a run, "TRY name verdict speedup low high fastest equal".
said() {
    awk -v try="$1" '
        function value(line) {
            sub(/^[^:]*: */, "", line); sub(/,? *$/, "", line); gsub(/"/, "", line)
            gsub(/ /, "_", line)
            return line
        }
        /^  "fastest":/ { fastest = value($0) }
        /^  "equal":/ { equal = value($0) }
        /^      "name":/ { name[++n] = value($0) }
        /^      "speed_verdict":/ { verdict[n] = value($0) }
        /^      "speedup":/ { speedup[n] = value($0) }
        /^      "speedup_low":/ { low[n] = value($0) }
        /^      "speedup_high":/ { high[n] = value($0) }
        END {
            for (i = 1; i <= n; i++)
                print try, name[i], verdict[i], speedup[i], low[i], high[i], fastest, equal
        }' "$2/report.json"
}

# judge: of each try in the lines, beside the truth, what is false and what was shown.
judge() {
    awk -v margin=1.01 '
        function complain(what) { wrong[$1]++; print "try " $1 ": " $2 " " what ": " $0 }
        $1 == 0 { low[$2] = $5; high[$2] = $6; next }
        {
            if (!($1 in seen)) { seen[$1]; tries++ }
            if ($8 != "true") complain("was not trained the same")
            if ($3 == "faster" && high[$2] != "null" && high[$2] <= margin) complain("is not faster")
            if ($3 == "slower" && low[$2] != "null" && low[$2] >= 1 / margin) complain("is not slower")
            shown += ($3 == "faster" || $3 == "slower") + ($7 == $2)
            for (other in low)
                if ($7 == $2 && other != $2 && low[other] != "null" && high[$2] != "null" &&
                    low[other] > high[$2])
                    complain("is not the fastest: " other " is")
            if ($3 != "not_ranked" && $5 != "null" && low[$2] != "null" &&
                ($5 > high[$2] || $6 < low[$2]))
                complain("has an interval apart from the true one")
        }
        END {
            for (try in wrong) false += wrong[try]
            printf "%d tries, %d false statements, %d shown\n", tries, false, shown
            exit false > 0
        }' "$lines"
}

if ! grep -q '^0 ' "$lines"; then
    mapfile -t command < <(./quickstart --dry-run | sed -n 's/^build\/cadre compare //p' |
        xargs -n 1 | sed '/^--out$/,+1d')
    echo "the truth, by 24 rounds:"
    build/cadre compare "${command[@]}" --out "$tmp/truth" --set compare.rounds=24 \
        >/dev/null 2>"$tmp/log" || fail "$(tail -n 3 "$tmp/log")"
    said 0 "$tmp/truth" >"$tmp/true"
    cat "$tmp/true"
    awk '$3 == "faster" || $3 == "slower" { shown++ } END { exit !shown }' "$tmp/true" ||
        fail "nothing was ranked: this machine is not quiet enough to say what is true"
    cat "$tmp/true" >>"$lines"
fi

had=$(awk '$1 > had { had = $1 } END { print had + 0 }' "$lines")
if [ "$had" -lt "$tries" ]; then
    come_and_go &
    neighbour=$!
fi
for ((i = had + 1; i <= tries; i++)); do
    begin=$SECONDS
    ./quickstart >"$tmp/said" 2>"$tmp/log" || fail "$(tail -n 3 "$tmp/said" "$tmp/log")"
    out=$(sed -n 's/^The report: *\(.*\)\/report.html.*/\1/p' "$tmp/said")
    said "$i" "$out" | tee -a "$lines"
    echo "try $i took $((SECONDS - begin)) s"
done
judge
