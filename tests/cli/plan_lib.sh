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

# small.ini, the smallest model that stacks of 4 stages divide. Simulated it reads no data.txt.
small_model() {
    cat >small.ini <<'END'
[model]
layers = 4
channels = 64
heads = 4
context = 64
[data]
path = data.txt
cache = no
[train]
steps = 2
global_batch = 16
micro_batch = 2
eval_batches = 1
[checkpoint]
every = 0
[strategy]
stack = single
END
}
