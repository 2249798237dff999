#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of plugins: how `cadre NAME ARGS` finds them and what it says where it does not.
set -euo pipefail
cadre=$CADRE_BUILD/cadre
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset CADRE_PLUGIN_PATH
failed=0

# says STATUS PATTERN ARGUMENT...: `cadre ARGUMENT...` ends with STATUS, and a line of what it
# says, stdout and stderr together, has PATTERN.
says() {
    local want=$1 pattern=$2 status=0
    shift 2
    timeout $((60 * ${CADRE_TEST_PATIENCE:-1})) "$cadre" "$@" >"$tmp/out" 2>"$tmp/err" \
        </dev/null || status=$?
    cat "$tmp/out" "$tmp/err" >"$tmp/said"
    if [ "$status" -ne "$want" ] || ! grep -qE -- "$pattern" "$tmp/said"; then
        echo "FAIL: cadre $*: status $status, expected $want and '$pattern' in:"
        cat "$tmp/said"
        failed=1
    fi
}

# ---- any plugin ----
mkdir "$tmp/plugins"
cp "$CADRE_BUILD/tests/plugins/.libs/bad_descriptor.so" "$tmp/plugins/sample.so"
export CADRE_PLUGIN_PATH=$tmp/plugins
says 0 '^sample one --two$' sample one --two
says 0 '^$' sample
says 0 '^answer: nobody there$' sample ask
says 1 '^cadre: as was asked$' sample refuse
says 1 '^cadre: the command of the plugin sample failed' sample fail
says 0 '^  cadre sample ARGS' help
says 2 "no command 'sampel', did you mean 'sample'" sampel
says 2 "no command 'trian', did you mean 'train'" trian
says 2 "no command '../sample'" ../sample
says 2 "the plugin 'ddp' has no command of its own" ddp list
CADRE_TEST_BAD=magic says 2 "has the magic number" sample
CADRE_TEST_BAD=older says 2 "the plugin 'sample' has no command of its own" sample
unset CADRE_PLUGIN_PATH
says 2 "no command 'sample'" sample

# ---- mig ----
says 0 '^  cadre mig ARGS' help
says 0 '^cadre mig list' mig --help
says 0 '^(yes|no) +mig ' doctor

[ $failed -eq 0 ] || exit 1
echo "commands of plugins: found, run, refused"
