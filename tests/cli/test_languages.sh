#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ABI serves other languages: a strategy in C++ and one in Rust, each built by its own
# Makefile, train bit for bit as ddp does; the offsets that are published are those of the
# headers, and the Rust plugin's hand-written ones are those that are published.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
command -v pkg-config >/dev/null || skip "no pkg-config, which the plugins' Makefiles ask"
export PKG_CONFIG_PATH=$CADRE_BUILD
unset CADRE_PLUGIN_PATH
published=$(pkg-config --variable=abi cadre)
missing=()

# ---- the published offsets ----

[ -s "$published" ] || fail "pkg-config's variable abi is '$published', which is no file"
cat >"$tmp/own.c" <<'C'
#include <stdio.h>
#include <cadre/strategy.h>
#define MEMBER(s, m) \
    printf(#s " " #m " %zu %zu\n", offsetof(struct s, m), sizeof(((struct s *)0)->m))
int main(void)
{
    printf("cadre_plugin %zu\n", sizeof(struct cadre_plugin));
    printf("cadre_strategy_ops %zu\n", sizeof(struct cadre_strategy_ops));
    MEMBER(cadre_plugin, abi_minor);
    MEMBER(cadre_plan, ranks);
    MEMBER(cadre_plan, store);
    MEMBER(cadre_param_info, local);
    MEMBER(cadre_grad_ev, n_nodes);
    MEMBER(cadre_comm_svc, recv_any);
    printf("CADRE_E_STOPPED %d\n", CADRE_E_STOPPED);
    printf("CADRE_ABI_MINOR %u\n", CADRE_ABI_MINOR);
    printf("CADRE_SERVICE_TREE %s\n", CADRE_SERVICE_TREE);
    return 0;
}
C
cc=${CC:-cc}
# shellcheck disable=SC2046,SC2086 # words
${cc#ccache } $(pkg-config --cflags cadre) -o "$tmp/own" "$tmp/own.c"
"$tmp/own" | sort >"$tmp/own.txt"
awk -f "$CADRE_SRC/examples/plugin-rust/published.awk" "$published" | sort >"$tmp/all.txt"
wrong=$(comm -23 "$tmp/own.txt" "$tmp/all.txt")
[ -z "$wrong" ] || fail "the headers say, and $published does not: $wrong"
[ "$(wc -l <"$tmp/own.txt")" -eq 11 ] || fail "the layout of the headers was not printed"

# ---- the plugins ----

few=(train.steps=6 train.eval_batches=1)
train text ddp 0 strategy.stack=ddp:2 "${few[@]}"
train text ddp-exact 0 strategy.stack=ddp:2 run.exact=yes "${few[@]}"

# built FOLDER TOOL=WORDS TARGET...: a copy of the example, made.
built() {
    cp -r "$CADRE_SRC/examples/$1" "$tmp/$1"
    chmod -R u+w "$tmp/$1"
    runs "$1" 0 make -C "$tmp/$1" "${@:2}"
}

# as_ddp FOLDER NAME: it trains as ddp does.
as_ddp() {
    local stack="strategy.stack=$2:2" path="strategy.plugin_path=$tmp/$1"
    train text "$2" 0 "$stack" "$path" "${few[@]}"
    train text "$2-exact" 0 "$stack" "$path" run.exact=yes "${few[@]}"
    train text "$2-four" 0 "strategy.stack=pipeline:2, $2:2" "$path" run.exact=yes "${few[@]}"
    same ddp-exact "$2-exact"
    same ddp-exact "$2-four"
    close_to ddp "$2" 1e-5 1e-5
    echo "ok: $2"
}

cxx=
for one in g++ clang++ c++; do
    if [ -z "$cxx" ] && command -v "$one" >/dev/null; then
        cxx=$one
    fi
done
if [ -n "$cxx" ]; then
    built plugin-cpp CXX="$cxx" cpp_ddp.so
    as_ddp plugin-cpp cpp_ddp
else
    missing+=("a C++ compiler")
fi

if command -v rustc >/dev/null && rustc --version >/dev/null 2>&1; then
    built plugin-rust rust_ddp.so layout
    as_ddp plugin-rust rust_ddp
    # a wrong offset does not pass
    sed -i 's/pub wire: Unused,/pub wire: Unused, pub later: Unused,/; s/pub flags: u32,/pub pad: u32, pub flags: u32,/' \
        "$tmp/plugin-rust/abi.rs"
    sed -i 's/wire_bytes wire)/wire_bytes wire later)/' "$tmp/plugin-rust/layout.rs"
    if make -C "$tmp/plugin-rust" layout >"$tmp/layout.out" 2>&1; then
        fail "a wrong abi.rs is what is published"
    fi
    grep -q '^cadre_grad_ev flags 8 4$' "$tmp/layout.out" || {
        cat "$tmp/layout.out"
        fail "the wrong member of abi.rs is not named"
    }
else
    missing+=(rustc)
fi

for one in "${missing[@]}"; do
    echo "SKIP: no $one: its plugin was not built"
done
