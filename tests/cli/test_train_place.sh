#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A plugin says where ranks start: each sees its own CPU and, as a process, its variable,
# in place of the launcher's; its threads are on that CPU too; the rest of the run continues
# as without. What cannot be had is refused before anything is made.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

plugin=$(test_plugin place_plugin)
# The CPUs this process may use, one a line.
mapfile -t cpus < <(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status |
    tr ',' '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)
n=${#cpus[@]}
[ "$n" -gt 2 ] && n=2
export TEST_PLACE=launcher

# shellcheck disable=SC2086 # words
run() { # NAME STATUS [s.k=v]...
    local name=$1 status=$2
    shift 2
    train text "$name" "$status" train.steps=2 "place.report=$tmp/$name" \
        device.threads=2 "$@"
}

# sees NAME RANK VALUE: what the rank saw; two threads of its device, or more.
sees() {
    local threads want="cpus ${cpus[$2]} variable $3 threads"
    read -r line <"$tmp/$1.$2"
    threads=${line##* }
    [ "${line% *}" = "$want" ] || fail "$1: rank $2 saw '$line', expected '$want'"
    [ "$threads" -ge 2 ] || fail "$1: rank $2 has $threads threads on its CPU"
}

for ranks in 1 "$n"; do
    run "p$ranks" 0 "strategy.stack=$plugin:$ranks" comm.ranks=processes
    run "t$ranks" 0 "strategy.stack=$plugin:$ranks" place.env=no
    same "p$ranks" "t$ranks"
    for ((r = 0; r < ranks; r++)); do
        sees "p$ranks" "$r" "rank $r"
        sees "t$ranks" "$r" launcher
    done
done

# A process on one CPU has the threads that its launcher, on all, has given it.
run shared 0 "strategy.stack=$plugin:1" comm.ranks=processes place.env=no device.threads=0
grep -E "\"threads\": ?${#cpus[@]}[,}]" "$tmp/shared/summary.json" >/dev/null ||
    fail "a process divided its CPU again: not ${#cpus[@]} threads"

# On CPUs of unequal number each rank has as many threads as it has of them.
if [ "$n" -gt 1 ]; then
    for ranks in threads processes; do
        run "wide-$ranks" 0 "strategy.stack=$plugin:2" comm.ranks=$ranks place.env=no \
            place.wide=yes device.threads=0
        same p1 "wide-$ranks"
        grep -E "\"threads\": ?${#cpus[@]}[,}]" "$tmp/wide-$ranks/summary.json" >/dev/null ||
            fail "wide-$ranks: rank 0 has not a thread for each CPU"
    done
fi

run threads 2 "strategy.stack=$plugin:$n"
says threads "plugin 'place' sets the variable TEST_PLACE of rank 0, .*needs comm.ranks"
run far 2 "strategy.stack=$plugin:1" place.far=yes place.env=no
says far "plugin 'place' puts rank 0 on CPU 100000, but this process may use only [0-9]"
[ ! -e "$tmp/far" ] || fail "a refused run left a folder"
export TEST_PLACE_RESTLESS=1
run restless 1 "strategy.stack=$plugin:1" place.env=no
says restless "plugin 'place' in sync: does not come to rest"
unset TEST_PLACE_RESTLESS
[ "$n" -gt 1 ] || echo "SKIP: several ranks; there is one CPU"
