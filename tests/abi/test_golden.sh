#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plugins and hosts of different versions, as docs/abi.md says:
# - plugins of every recorded version, built against the headers of their time, run today, and
#   train bit for bit as what is shipped for their role;
# - the templates of today, built against headers whose structs have grown, run on today's
#   host, whose structs are shorter than those of the plugin;
# - what a host cannot serve is refused in one line: a function that its table lacks, a minor
#   that it does not take.
# shellcheck source-path=SCRIPTDIR/../cli
. "$(dirname "$0")/../cli/train_lib.sh"
here=$CADRE_SRC/tests/abi
cc=${CC:-cc}
unset CADRE_PLUGIN_PATH
if [ "$(getconf LONG_BIT)" != 64 ]; then
    skip "the record is of 64-bit systems"
fi
roles="data observer optimizer schedule" # gold_dat is that of the role data

# plugin OUT INCLUDE SOURCE [FLAG]...: a shared object.
plugin() {
    # shellcheck disable=SC2086 # "ccache gcc" is two words
    ${cc#ccache } -std=c11 -O1 -Wall -Wextra -I"$2" "${@:4}" -fPIC -fvisibility=hidden \
        -shared -o "$1" "$3"
}

# ---- what golden plugins are compared with ----

few=(run.exact=yes train.steps=4 train.eval_batches=1)
train text single 0 strategy.stack=single "${few[@]}"
train text sgd 0 optim.name=sgd optim.momentum=0.9 "${few[@]}"

# trains_as FOLDER PREFIX: the four plugins in FOLDER train as what is shipped does, alone and
# stacked, and resume.
trains_as() {
    local path="strategy.plugin_path=$1" run=${1##*/} data=$2_dat:2
    train text "$run-dat" 0 "$path" "strategy.stack=$data" "${few[@]}"
    same single "$run-dat"
    train text "$run-sch" 0 "$path" "strategy.stack=$2_sch:2, $data" "${few[@]}"
    same single "$run-sch"
    train text "$run-obs" 0 "$path" "strategy.stack=$data, $2_obs" "${few[@]}"
    same single "$run-obs"
    grep -q "$2_obs: 4 steps, units run" "$tmp/$run-obs.log" ||
        fail "$run: the observer has seen nothing"
    train text "$run-opt" 0 "$path" "optim.name=$2_opt" strategy.stack=zero:2 "${few[@]}"
    close_to sgd "$run-opt" 1e-5 1e-5
    train text "$run-rest" 0 "$path" "optim.name=$2_opt" "${few[@]}" train.steps=6 \
        "checkpoint.resume=$(last "$run-opt")"
    echo "ok: $run"
}

# ---- recorded versions ----

for folder in "$here"/[0-9]*.[0-9]*; do
    version=${folder##*/}
    mkdir "$tmp/$version"
    for role in $roles; do
        name=gold_${role:0:3}
        plugin "$tmp/$version/$name.so" "$folder/include" "$folder/plugins/$name.c"
    done
    trains_as "$tmp/$version" gold
done

# ---- today's templates with structs of a later minor ----

# Every struct that has a struct_size gets members at its end, and the assertions of the
# layouts, which a later version would change, are left out.
mkdir -p "$tmp/later/cadre" "$tmp/grown"
for header in "$CADRE_SRC"/include/cadre/*.h; do
    awk '
        /^struct cadre_[a-z0-9_]+ \{/ { inside = 1; sized = 0 }
        inside && /^ *uint32_t struct_size;/ { sized = 1 }
        inside && /^\};/ {
            if (sized) {
                print "    uint64_t grown[3];"
                print "    cadre_status (*later)(void *h);"
                n++
            }
            inside = 0
        }
        /^CADRE_FROZEN\(/ { next }
        { print }
        END { print n + 0 >"/dev/stderr" }' "$header" >"$tmp/later/cadre/${header##*/}" \
        2>>"$tmp/grown.n"
done
grown=$(awk '{ n += $1 } END { print n }' "$tmp/grown.n")
[ "$grown" -ge 25 ] || fail "only $grown structs have grown"
for role in $roles; do
    name=grown_${role:0:3}
    sed "s/yourname/$name/g" "$CADRE_SRC/core/sdk/$role.c" >"$tmp/$name.c"
    plugin "$tmp/grown/$name.so" "$tmp/later" "$tmp/$name.c"
done
trains_as "$tmp/grown" grown

# A function of a service that this host does not have: before `create`, in one line.
sed 's/CADRE_SERVICE(comm, COMM, stream_wait)/CADRE_SERVICE(comm, COMM, later)/' \
    "$tmp/grown_dat.c" >"$tmp/more.c"
sed -i 's/grown_dat/more/g' "$tmp/more.c"
plugin "$tmp/grown/more.so" "$tmp/later" "$tmp/more.c"
refused more 'needs [0-9]+ bytes of the service .cadre.comm/1., of which this program has' \
    strategy.stack=more:2 "strategy.plugin_path=$tmp/grown"

# ---- minors ----

# minor NUMBER: as plugin of that minor, with that as the host's least.
minor() {
    mkdir -p "$tmp/minor$1/cadre"
    cp "$CADRE_SRC"/include/cadre/*.h "$tmp/minor$1/cadre"
    sed -i "s/^#define CADRE_ABI_MINOR .*/#define CADRE_ABI_MINOR ${1}u/" \
        "$tmp/minor$1/cadre/strategy.h"
    sed "s/yourname/minor$1/g" "$CADRE_SRC/core/sdk/data.c" >"$tmp/minor$1.c"
    plugin "$tmp/minor$1/minor$1.so" "$tmp/minor$1" "$tmp/minor$1.c"
}
own=$(sed -n 's/^#define CADRE_ABI_MINOR \([0-9]*\)u$/\1/p' \
    "$CADRE_SRC/include/cadre/strategy.h")
oldest=$(cd "$here" && printf '%s\n' 0.* | sed 's/^0\.//' | sort -n | head -n 1)
minor $((own + 1))
refused newer "ABI 0.$((own + 1)), this program has 0.$own and takes 0.$oldest to 0.$own: install a newer" \
    "strategy.stack=minor$((own + 1)):2" "strategy.plugin_path=$tmp/minor$((own + 1))"
minor $((oldest - 1))
refused older "ABI 0.$((oldest - 1)), this program has 0.$own and takes 0.$oldest to 0.$own: rebuild" \
    "strategy.stack=minor$((oldest - 1)):2" "strategy.plugin_path=$tmp/minor$((oldest - 1))"
