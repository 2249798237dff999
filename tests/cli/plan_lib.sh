# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests of `cadre plan`.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/train_lib.sh"

# refused PATTERN ARGUMENT...: one line that has it, nothing on stdout, status 2.
refused() {
    local pattern=$1 status=0
    shift
    "$cadre" plan "$@" >out 2>err || status=$?
    if [ "$status" -ne 2 ] || [ "$(wc -l <err)" -ne 1 ] || [ -s out ] ||
        ! grep -qE -- "$pattern" err; then
        cat out err
        fail "cadre plan $*: status $status, expected 2 and one line with '$pattern'"
    fi
}
