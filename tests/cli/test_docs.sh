#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documents are true: every ```sh block under <!-- run --> runs as it stands, with the
# program and its pkg-config file where an installed one would be found, every
# file and folder they name exists, every strategy is listed, the README lists every page and
# each of them links to the glossary, and what is generated is up to date (tools/update-docs).
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
    for name in conf docs examples plugins include tests tools COPYING README.md; do
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

# The README and the tarball have every page; every page leads to the glossary; links of the
# tree lead somewhere.
for page in docs/*.md; do
    if ! grep -qF "]($page)" README.md; then
        echo "README.md: does not list and link $page"
        status=1
    fi
    if ! grep -q "/${page##*/} " docs/Makefile.inc; then
        echo "docs/Makefile.inc: does not list $page"
        status=1
    fi
done
for page in docs/*.md plugins/*/README.md; do
    if [ "$page" != docs/glossary.md ] && ! grep -qE '\]\((\.\./\.\./docs/)?glossary\.md\)' "$page"; then
        echo "$page: has no link to the glossary: add 'Words: [the glossary](glossary.md).'"
        status=1
    fi
done
for page in examples/plugin-*/README.md; do # installed, they lie in a package of their own
    if ! grep -qF 'docs/glossary.md' "$page"; then
        echo "$page: does not name docs/glossary.md"
        status=1
    fi
done
for document in $documents; do
    for link in $(grep -ohE '\]\([^)#:]+[)#]' "$document" | tr -d '])(#' | sort -u || true); do
        if [ ! -e "$(dirname "$document")/$link" ]; then
            echo "$document: links to $link, which does not exist"
            status=1
        fi
    done
done

# Names that people search for lead to ours.
for word in FSDP DDP "gradient accumulation" "activation checkpointing" "gradient checkpointing" \
    no_sync HSDP ZeRO; do
    for page in docs/glossary.md docs/from-torchrun.md docs/faq.md; do
        if grep -qi -- "$word" $page; then continue 2; fi
    done
    echo "docs: '$word' is in no page for newcomers"
    status=1
done

# What is generated: marks and entries belong together, and what takes no time is up to date.
BUILD=$CADRE_BUILD tools/update-docs --check || status=1
exit $status
