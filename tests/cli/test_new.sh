#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre new`: the folder that it writes builds without a warning, trains, compares and resumes,
# for each role, and `cadre check` finds it exact; what cannot be a plugin's name is refused, and
# nothing is overwritten.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
export PKG_CONFIG_PATH=$CADRE_BUILD
unset CADRE_PLUGIN_PATH
export LC_ALL=C
cd "$tmp"

# wrong PATTERN ARGUMENT...: `cadre new ARGUMENT...` is refused in one line that has PATTERN.
wrong() {
    local pattern=$1
    shift
    runs new 2 "$cadre" new "$@"
    says new "$pattern"
    [ ! -s new.out ] || fail "cadre new $*: refused, and prints"
}

wrong "usage: cadre new NAME"
wrong "'Mine' cannot be the name" Mine
wrong "'3d' cannot be the name" 3d
wrong "'a-b' cannot be the name.*a-z0-9_" a-b
wrong "cannot be the name.*at most 31" "$(printf 'a%.0s' {1..32})"
wrong "'../up' cannot be the name" ../up
wrong "'train' is a name of the core" train
wrong "there is a plugin 'ddp' already" ddp
wrong "role: expected data, schedule, observer or optimizer, found 'intra'" mine --role intra
wrong "role needs a value" mine --role
mkdir there
wrong "'there' exists already: name another folder with --out" there
wrong "'there' exists already" mine --out there
runs under-file 1 "$cadre" new mine --out text.txt/x
says under-file "text.txt"
[ ! -e mine ] || fail "a refused call left a folder"
[ -z "$(ls there)" ] || fail "a refused call wrote into a folder"

# written ROLE NAME: the folder of a plugin of the role, built; nothing of the template's name or
# licence is left in it.
written() {
    runs "$2" 0 "$cadre" new "$2" --role "$1"
    grep -q "FILL IN" "$2/$2.c" || fail "$2.c does not say what to fill in"
    if grep -rn "yourname\|SPDX" "$2"; then
        fail "of the template"
    fi
    [ "$(cd "$2" && echo *)" = "Makefile README.md $2.c $2.ini test.sh" ] ||
        fail "$2 holds $(ls "$2")"
    runs "$2" 0 make -C "$2" CC="${CC:-cc}" WARNINGS="-Wall -Wextra -pedantic -Werror"
    grep -q "FILL IN" "$2/test.sh" || fail "test.sh does not say what to fill in"
}

# The groups of `cadre check` up to the level "exact".
exact=load,descriptor,lifecycle,threads,contract,equality

# conforms NAME LEVEL GROUPS: the plugin in the folder NAME reaches the level by these groups.
conforms() {
    runs "conform-$1" 0 "$cadre" check "./$1/$1.so" --only "$3" --json "$1/$1.check.json"
    grep -q "\"level\": \"$2\"" "$1/$1.check.json" || {
        cat "conform-$1.out"
        fail "$1 does not reach the level $2"
    }
}

# Instrumented builds take the first role alone; what the templates do is tested there too.
for role in data schedule observer optimizer; do
    written $role "my_$role"
    if [ "$lean" = 1 ] && [ $role != data ]; then
        continue
    fi
    if [ "$lean" = 1 ]; then
        conforms my_$role loadable load,descriptor
    else
        conforms my_$role exact $exact
    fi
    runs "check-$role" 0 make -C "my_$role" check
    axis=none
    case $role in data) axis=dp ;; schedule) axis=pp ;; esac
    grep -q "  ABI 0\.[0-9]*, role $role, axis $axis" "check-$role.out" ||
        fail "inspect says another role or axis"
    echo "ok: $role"
done

# --out: the folder's name is not the plugin's.
runs elsewhere 0 "$cadre" new elsewhere --out deep/down
[ -x deep/down/test.sh ] && [ -s deep/down/elsewhere.c ] || fail "--out"
grep -q 'org.example.elsewhere' deep/down/elsewhere.c || fail "the id has another name"

# ---- an installed plugin is found in the user's own folder ----

export XDG_DATA_HOME=$tmp/data
runs install 0 make -C my_data install
[ -s data/cadre/plugins/my_data.so ] || fail "make install"
level=exact
[ "$lean" = 0 ] || level=loadable
runs listed 0 "$cadre" plugins
grep -qE "^org\.example\.my_data .* $level +$tmp/data/" listed.out || {
    cat listed.out
    fail "cadre plugins does not know the level"
}
cd my_data
runs found 0 "$cadre" inspect my_data
runs own 0 "$cadre" train my_data.ini --out "$tmp/own" --set strategy.plugin_path= \
    --set train.steps=2
