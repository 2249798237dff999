#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Frozen matrices in nf4: the same bits under every strategy, sharded, saved and resumed, and
# what cannot be is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# A plugin says what is frozen; tune.base has it in 4 bits.
frozen=$(test_plugin frozen_int8)
base=("strategy.stack=$frozen:1" frozen_int8.names=.h. frozen_int8.int8=no)
nf4=("${base[@]}" tune.base=nf4 run.exact=yes model.channels=64 model.heads=4)

# same_forms A B: as same, and the scales.
same_forms() {
    same "$1" "$2"
    cmp "$(last "$1")/forms.safetensors" "$(last "$2")/forms.safetensors" ||
        fail "$1 and $2 save other scales"
}

train text exact 0 "${nf4[@]}" train.steps=6
stacks=(ddp:2 zero:2 "zero:2 zero.stage=2" "zero:2 zero.stage=3" "zero:4 zero.stage=3"
    pipeline:2 "pipeline:2,zero:2 zero.stage=1")
[ "$lean" = 0 ] || stacks=("zero:2 zero.stage=3" pipeline:2)
for stack in "${stacks[@]}"; do
    # shellcheck disable=SC2046
    train text sharded 0 "${nf4[@]}" train.steps=6 \
        "strategy.stack=${stack%% *},$frozen:1" $(cut -s -d ' ' -f 2- <<<"$stack")
    same_forms exact sharded
    rm -r "${tmp:?}/sharded"
done

# Resumed under other strategies: what was encoded once keeps its bits.
train text again 0 "${nf4[@]}" train.steps=2 "strategy.stack=zero:2,$frozen:1" zero.stage=3
train text again 0 "${nf4[@]}" train.steps=4 checkpoint.resume=auto \
    "strategy.stack=pipeline:2,$frozen:1"
train text again 0 "${nf4[@]}" train.steps=6 checkpoint.resume=auto
same_forms exact again

# Tensor ranks of whole blocks, in the bits of one with as many parts.
if [ "$lean" = 0 ]; then
    parts=(run.exact_parts=2 model.channels=128 frozen_int8.names=attn)
    train text parts 0 "${nf4[@]}" "${parts[@]}" train.steps=3
    train text cut 0 "${nf4[@]}" "${parts[@]}" train.steps=3 \
        "strategy.stack=tensor:2,$frozen:1"
    same_forms parts cut
fi

# Gathered in 33 bytes a block: what zero-3 saves is a multiple of what the weights save.
bytes() {
    sed -n 's/^ *"comm_bytes": *\([0-9]*\),$/\1/p' "$tmp/$1/summary.json" | head -1
}
shards=("${nf4[@]}" "strategy.stack=zero:2,$frozen:1" zero.stage=3 train.steps=2)
train text coded 0 "${shards[@]}"
train text plain 0 "${shards[@]}" tune.base=full
less=$(($(bytes plain) - $(bytes coded))) block=$((256 - 33))
weights=$((2 * 12 * 64 * block))
if [ "$less" -le 0 ] || [ $((less % weights)) -ne 0 ]; then
    fail "zero-3 sends $(bytes coded) bytes, $(bytes plain) with tune.base = full"
fi

# From a model folder, whose values no rank has whole; on the CUDA stand-in too.
train text init 0 train.steps=3
from=("${base[@]}" "model.init=$(last init)" data.tokenizer=byte tune.base=nf4 train.steps=3)
train text one 0 "${from[@]}" run.exact=yes
for stack in "zero:2 zero.stage=3" pipeline:2; do
    # shellcheck disable=SC2046
    train text two 0 "${from[@]}" run.exact=yes "strategy.stack=${stack%% *},$frozen:1" \
        $(cut -s -d ' ' -f 2- <<<"$stack")
    same_forms one two
    rm -r "${tmp:?}/two"
done
# As a frozen model of the decoded values: forward and the gradient to x are through those.
train text decoded 0 "${from[@]}" train.steps=1 optim.lr=0
train text through 0 "${from[@]}" run.exact=yes "model.init=$(last decoded)" tune.base=full
same one through
[ ! -e "$(last through)/forms.safetensors" ] || fail "a run without forms saves scales"

standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ -e "$standin/device_cuda.so" ]; then
    export CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg
    train text cuda 0 "${from[@]}" device.kind=cuda
    cmp "$(last one)/forms.safetensors" "$(last cuda)/forms.safetensors" ||
        fail "a GPU stores other scales"
    close_to one cuda 1e-5 1e-4
fi

# tests/engine/test_forms.c holds what a dry run says to what is taken.
settings "${nf4[@]}"
"$cadre" train "$tmp/text.ini" --dry-run "${sets[@]}" >"$tmp/dry"
grep -q 'scales of nf4' "$tmp/dry" || fail "a dry run does not name the scales"

# Refused: a cut through blocks, nothing that is frozen.
refused cut_blocks "2 tensor ranks cut '.*nf4, into runs of 32 elements, expected whole" \
    "${nf4[@]}" frozen_int8.names=attn.c_attn run.exact=no "strategy.stack=tensor:2,$frozen:1"
refused nothing 'tune.base = nf4 stores the frozen matrices' tune.base=nf4
