#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `cadre check` costs and finds in the plugins that Cadre ships: for each the level, wall and
# CPU time, quick and whole; then SEEDS other seeds of its quick checks and of the groups named
# in GROUPS, and how many of these runs found a fault, which would be a false alarm.
# usage: SEEDS=20 CADRE_BUILD=build tests/bench/check.sh [PLUGIN]...
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
build=$(cd "${CADRE_BUILD:-build}" && pwd)
seeds=${SEEDS:-20} groups=${GROUPS_TRIED:-lifecycle,threads,contract,faults,fuzz}
unset CADRE_PLUGIN_PATH
[ $# -gt 0 ] || set -- adafactor ddp diloco hsdp mig muon pipeline tensor zero
cd "${tmp:?}"

# try NAME [FLAG]...: "level wall cpu" of a check, which must not fail.
try() {
    local real user sys status=0 name=$1
    TIMEFORMAT='%R %U %S'
    read -r real user sys < <({
        time "$build/cadre" check "./$name/$name.so" --json out.json "${@:2}" \
            </dev/null >out 2>log || status=$?
        [ "$status" -eq 0 ] || cat log >&2
    } 2>&1 | tail -n 1)
    printf '%s\t%s\t%s\n' \
        "$(sed -nE 's/.*"level": ?"([^"]*)".*/\1/p' out.json)" "$real" \
        "$(awk "BEGIN { print $user + $sys }")"
}

printf 'plugin\tlevel\twall s\tCPU s\tquick: wall s\tCPU s\tseeds\tfalse alarms\n'
for name in "$@"; do
    mkdir "$name"
    cp "$build/plugins/$name/.libs/$name.so" "$name"
    whole=$(try "$name")
    quick=$(try "$name" --quick | cut -f 2,3)
    alarms=0
    for ((seed = 2; seed <= seeds + 1; seed++)); do
        "$build/cadre" check "./$name/$name.so" --quick --seed "$seed" \
            </dev/null >out 2>&1 || alarms=$((alarms + 1))
        "$build/cadre" check "./$name/$name.so" --only "$groups" --seed "$seed" \
            </dev/null >out 2>&1 || alarms=$((alarms + 1))
    done
    printf '%s\t%s\t%s\t%d\t%d\n' "$name" "$whole" "$quick" "$seeds" "$alarms"
done
