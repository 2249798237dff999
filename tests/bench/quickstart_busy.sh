#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does ./quickstart say anything false on a busy machine? First its comparison with 24 rounds on
# the machine as it is, which should be quiet: what is true. Then TRIES times ./quickstart while
# busy loops, one a core, start and stop at random. A statement is false where it contradicts the
# first comparison: a run called faster that is slower there (or the other way round), another
# fastest run, or training that was not the same. With LINES_FILE the tries are kept there, those
# it has are counted, and what is true is found anew: they may be spread over several hours.
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

# statements FOLDER: "fastest NAME", "equal BOOL", "NAME VERDICT".
statements() {
    awk '
        function value(line) {
            sub(/^[^:]*: */, "", line); sub(/,? *$/, "", line); gsub(/"/, "", line)
            return line
        }
        /^  "fastest":/ { print "fastest " value($0) }
        /^  "equal":/ { print "equal " value($0) }
        /^      "name":/ { name = value($0) }
        /^      "speed_verdict":/ { print name " " value($0) }' "$1/report.json"
}

mapfile -t command < <(./quickstart --dry-run | sed -n 's/^build\/cadre compare //p' |
    xargs -n 1 | sed '/^--out$/,+1d')
echo "the truth, by 24 rounds:"
build/cadre compare "${command[@]}" --out "$tmp/truth" --set compare.rounds=24 \
    >/dev/null 2>"$tmp/log" || fail "$(tail -n 3 "$tmp/log")"
statements "$tmp/truth" | tee "$tmp/true"

come_and_go &
neighbour=$!
for ((i = $(wc -l <"$lines") + 1; i <= tries; i++)); do
    ./quickstart >"$tmp/said" 2>"$tmp/log" || fail "$(tail -n 3 "$tmp/said" "$tmp/log")"
    out=$(sed -n 's/^The report: *\(.*\)\/report.html.*/\1/p' "$tmp/said")
    statements "$out" | awk -v try="$i" '
        NR == FNR { real[$1] = substr($0, length($1) + 2); next }
        { said = substr($0, length($1) + 2); all = all "  " $0 }
        $1 == "equal" { wrong += (said != "true"); next }
        $1 == "fastest" { wrong += (said != "null" && real[$1] != "null" && said != real[$1])
                          shown += (said != "null"); next }
        said == "faster" { wrong += (real[$1] == "slower"); shown++ }
        said == "slower" { wrong += (real[$1] == "faster"); shown++ }
        END { printf "try %d: %d false, %d shown: %s\n", try, wrong, shown, all }' \
        "$tmp/true" - | tee -a "$lines"
done
awk '{ sub(/:.*/, "", $2); wrong += $3; shown += $5 }
     END { printf "%d tries, %d false statements, %d verdicts shown\n", NR, wrong, shown }' \
    "$lines"
