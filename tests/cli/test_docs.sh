#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documents are true: every ```sh block under <!-- run --> runs as it stands, with the
# program and its pkg-config file where an installed one would be found, every
# file and folder they name exists, every strategy is listed, the option reference is what
# `cadre options` prints, and the table of checks is what `cadre check --list` prints.
# Instrumented builds (CADRE_TEST_LEAN=1) run the blocks of the README alone.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$CADRE_SRC"
documents=$(ls README.md HACKING.md docs/*.md plugins/*/README.md \
    examples/*/README.md)

# blocks FILE: writes each marked block of FILE to $scratch/block.N.
blocks() {
    awk -v out="$scratch/block" '
        /^<!-- run -->$/ { armed = 1; next }
        armed && /^```sh$/ { n++; inside = 1; armed = 0; printf "" >(out "." n); next }
        /^```$/ { inside = 0 }
        inside { print >(out "." n) }
        !/^$/ { armed = 0 }' "$1"
}

# A directory that looks like a clone with a build in it; blocks of one document share it.
for document in $documents; do
    if [ "${CADRE_TEST_LEAN:-0}" = 1 ] && [ "$document" != README.md ]; then
        continue
    fi
    rm -rf "$scratch"/block.* "$scratch/tree"
    mkdir "$scratch/tree"
    for name in conf docs examples plugins include COPYING README.md; do
        ln -s "$CADRE_SRC/$name" "$scratch/tree/$name"
    done
    ln -s "$CADRE_BUILD" "$scratch/tree/build"
    blocks "$document"
    for block in $(find "$scratch" -name 'block.*' | sort -V); do
        if ! (cd "$scratch/tree" && PATH=$CADRE_BUILD:$PATH PKG_CONFIG_PATH=$CADRE_BUILD \
            bash -euo pipefail "$block") >"$scratch/log" 2>&1; then
            echo "$document: this block fails:"
            cat "$block" "$scratch/log"
            exit 1
        fi
        echo "ok: $document, block ${block##*.}"
    done
done

# Names in backquotes that look like files of the tree.
status=0
for document in $documents; do
    folder=$(dirname "$document")
    # shellcheck disable=SC2016 # backquotes, not a command
    for name in $(grep -ohE '`(core|conf|docs|examples|include|plugins|tests|tools)/[A-Za-z0-9_./-]+`' \
        "$document" | tr -d '`' | sort -u || true); do
        case $name in *NAME*) continue ;; esac
        if [ ! -e "$name" ] && [ ! -e "$folder/$name" ]; then
            echo "$document: names $name, which does not exist"
            status=1
        fi
    done
done

# Every shipped strategy has a page, and a row with its level.
for folder in plugins/*/; do
    name=$(basename "$folder")
    if ! grep -qE "^\| \`$name(:N)?\` .*(correct|exact|stackable|resumable|fault-tolerant).*\`plugins/$name/README.md\` \|$" \
        docs/strategies.md; then
        echo "docs/strategies.md: no row of $name with its level and its page"
        status=1
    fi
done

reference=docs/configuration.md
awk '/^<!-- cadre options -->$/ { armed = 1; next }
     armed && /^```$/ { if (inside) exit; inside = 1; next }
     inside { print }' $reference >"$scratch/documented"
"$CADRE_BUILD"/cadre options >"$scratch/printed"
if ! diff -u "$scratch/documented" "$scratch/printed"; then
    echo "$reference: the reference is not what 'cadre options' prints: run tools/update-docs"
    status=1
fi

checks=docs/check.md
awk '/^<!-- cadre check --list -->$/ { inside = 1; next }
     inside && !/^\|/ { exit }
     inside { print }' $checks >"$scratch/documented"
"$CADRE_BUILD"/cadre check --list | tools/check-table >"$scratch/printed"
if ! diff -u "$scratch/documented" "$scratch/printed"; then
    echo "$checks: the table is not what 'cadre check --list' prints: run tools/update-docs"
    status=1
fi
exit $status
