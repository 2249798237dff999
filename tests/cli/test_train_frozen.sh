#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Parameters that do not train, as they are or stored in int8: alone, sharded, saved, and resumed
# where they train.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

frozen=$(test_plugin frozen_int8)
train text whole 0 train.steps=4
train text none 0 "strategy.stack=$frozen:1" frozen_int8.names=none train.steps=4
same whole none
train text frozen 0 "strategy.stack=$frozen:1" frozen_int8.int8=no train.steps=4
train text frozen-2 0 "strategy.stack=ddp:2,$frozen:1" frozen_int8.int8=no train.steps=4
close_to frozen frozen-2 1e-5 1e-2
train text exact 0 "strategy.stack=$frozen:1" run.exact=yes train.steps=4
for stack in ddp:2 zero:2 "zero:2 zero.stage=3" \
    "zero:4 zero.stage=3 zero.node=2 zero.secondary=node" pipeline:2; do
    # shellcheck disable=SC2086
    train text sharded 0 run.exact=yes train.steps=4 "strategy.stack=${stack%% *},$frozen:1" \
        $(cut -s -d ' ' -f 2- <<<"$stack")
    same exact sharded
    rm -r "${tmp:?}/sharded"
done

# The moments of what did not train are zero where it does.
train text exact 0 "strategy.stack=$frozen:1" run.exact=yes train.steps=6 checkpoint.resume=auto
train text exact 0 run.exact=yes train.steps=8 checkpoint.resume=auto
"$cadre" inspect "$(last exact)" >"$tmp/seen" || fail "the last checkpoint is damaged"
