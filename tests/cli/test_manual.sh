#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages that the build made: one for each command, with each of its options, one
# for the ini file with each key; man and mandoc, where they are, find nothing to say of them;
# their examples use options that there are.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
cd "$CADRE_BUILD/manual"
export LC_ALL=C.UTF-8
unset CADRE_PLUGIN_PATH

# plain FILE: a page as text, without what only the formatter reads.
plain() {
    sed -e '/^\.\\"/d' -e 's/\\-/-/g; s/\\f[BIR]//g; s/\\(aq/'"'"'/g; s/\\(ga/`/g; s/\\[&:]//g' \
        -e 's/\\e/\\/g' "$1"
}

# shellcheck source=/dev/null
. ./cadre.bash
_cadre_table commands
[ "$(wc -w <<<"$REPLY")" -ge 10 ] || fail "only these commands: $REPLY"
commands=$("$cadre" help --json | sed -n 's/^      "name": "\(.*\)",$/\1/p')
[ -n "$commands" ] || fail "cadre help --json has no commands"
for command in $commands; do
    page=cadre-$command.1
    [ -s "$page" ] || fail "no $page"
    plain "$page" >"$tmp/page"
    grep -qx "cadre-$command - .*" "$tmp/page" || fail "$page has no NAME"
    "$cadre" "$command" --help | grep -oE '^  --[a-z-]+' >"$tmp/options" || true
    while read -r option; do
        grep -qE -- "^$option( |$)" "$tmp/page" || fail "$page has no $option"
    done <"$tmp/options"
    grep -q "cadre-$command " <(plain cadre.1) || fail "cadre.1 does not name cadre-$command"
done
# the command of a plugin has the text that the plugin gives
"$cadre" mig --help | sed 's/^ *//' | while read -r line; do
    [ -z "$line" ] || plain cadre-mig.1 | grep -F -- "$line" >/dev/null || fail "cadre-mig.1 lacks: $line"
done
grep -q 'cadre-mig ' <(plain cadre.1) || fail "cadre.1 does not name cadre-mig"
[ "$(find . -name 'cadre-*.1' | wc -l)" -eq $(($(wc -w <<<"$commands") + 1)) ] ||
    fail "a page of no command"

# ---- every key under its section, with its help ----

plain cadre.conf.5 | awk '
    /^\.SH \[/ { section = substr($2, 2, length($2) - 2) }
    key { print section "." $0; key = 0 }
    /^\.TP/ { key = section != "" }' >"$tmp/keys"
_cadre_table keys
tr ' ' '\n' <<<"$REPLY" >"$tmp/known"
grep -qx strategy.stack "$tmp/known" && grep -qx ddp.bucket_mb "$tmp/known" ||
    fail "keys are missing: $REPLY"
while read -r key; do
    grep -qx "$key" "$tmp/keys" || fail "cadre.conf.5 has no $key"
done <"$tmp/known"
# plain FILE | grep -q would end the first too early for pipefail
plain cadre.conf.5 | grep "^One of fp32, .*; default fp32\.$" >/dev/null ||
    fail "a key has no range"
grep -q '^\\fI/.*/\\:' cadre.1 || fail "cadre.1: a folder of a long name could not be broken"
plain cadre.1 | grep -x "CADRE_PLUGIN_PATH" >/dev/null || fail "cadre.1 has no ENVIRONMENT"

# ---- examples ----

while IFS=$'\t' read -r command line text; do
    grep -qx "$command" <<<"$commands" || fail "an example of no command: $command"
    [ -n "$text" ] && grep -q "cadre $command " <<<"$line" || fail "not an example: $line"
    _cadre_table options "$command"
    for word in $line; do
        case $word in
        --*) [[ " $REPLY " == *" $word "* ]] || fail "cadre $command has no $word" ;;
        esac
    done
    plain "cadre-$command.1" | grep -xF -- "$line" >/dev/null || fail "cadre-$command.1 lacks '$line'"
done <"$CADRE_SRC/docs/manual/examples.tsv"

# ---- the formatters ----

if command -v man >/dev/null && command -v groff >/dev/null; then
    for page in *.[15]; do
        MANWIDTH=80 man --warnings -l "$page" >"$tmp/text" 2>"$tmp/warnings" ||
            fail "man -l $page: $(cat "$tmp/warnings")"
        [ ! -s "$tmp/warnings" ] || fail "man: $page: $(cat "$tmp/warnings")"
        [ -s "$tmp/text" ] || fail "man -l $page prints nothing"
    done
else
    echo "SKIP: no man with groff"
fi
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning ./*.[15] || fail "mandoc"
else
    echo "SKIP: no mandoc"
fi
echo "ok: $(find . -name '*.[15]' | wc -l) pages"
