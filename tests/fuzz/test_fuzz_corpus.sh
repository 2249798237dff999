#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every input of tests/fuzz/corpus/, whole and damaged, through the reader of its folder: no
# crash, no allocation beyond what the file's size allows. run.sh looks for new ones.
set -euo pipefail
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
timeout $((60 * ${CADRE_TEST_PATIENCE:-1})) "$CADRE_BUILD/fuzz_replay" "$CADRE_SRC/tests/fuzz/corpus"
left=$(ls -A "$TMPDIR")
[ -z "$left" ] || { echo "FAIL: left: $left"; exit 1; }
