#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adapters of a frozen model in nf4: the same bits under every strategy, what is saved, a resume
# under another strategy, memory, evaluating and merging.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# The frozen model: any trained one, with matrices of more than a nested block.
wide=(model.channels=128 model.heads=4)
train text base 0 train.steps=2 "${wide[@]}"
base=$(last base)
sed -e '/^channels\|^heads/d' "$tmp/text.ini" >"$tmp/tuned.ini"
qlora=("model.init=$base" tune.method=qlora tune.rank=4 tune.dropout=0.1
    data.tokenizer=byte train.steps=4)

# ---- every strategy, bit for bit ----
train tuned exact 0 "${qlora[@]}" run.exact=yes
stacks=(ddp:2 "zero:2 zero.stage=1" "zero:2 zero.stage=2" "zero:2 zero.stage=3"
    "zero:4 zero.stage=3" pipeline:2 "pipeline:2,zero:2 zero.stage=2")
[ "$lean" = 0 ] || stacks=("zero:2 zero.stage=3" pipeline:2)
for stack in "${stacks[@]}"; do
    # shellcheck disable=SC2046,SC2086
    train tuned sharded 0 "${qlora[@]}" run.exact=yes "strategy.stack=${stack%% *}" \
        $(cut -s -d ' ' -f 2- <<<"$stack")
    same exact sharded
    rm -r "${tmp:?}/sharded"
done
train tuned recomputed 0 "${qlora[@]}" run.exact=yes train.recompute=block
same exact recomputed
train tuned spelled 0 "${qlora[@]}" run.exact=yes tune.method=lora tune.base=nf4
same exact spelled
train tuned full 0 "${qlora[@]}" run.exact=yes tune.method=lora
! diff <(losses exact) <(losses full) >"$tmp/diff" || fail "nf4 changes nothing"
parts=("${qlora[@]}" run.exact=yes run.exact_parts=2 tune.targets=all tune.dropout=0)
train tuned parts 0 "${parts[@]}"
train tuned cut 0 "${parts[@]}" "strategy.stack=tensor:2,zero:2" zero.stage=3
same parts cut

# ---- only adapters are saved; the rest is stored again ----
ls "$(last exact)" >"$tmp/files"
! grep -E '^(model|forms).safetensors$' "$tmp/files" || fail "frozen matrices are saved"
train tuned on 0 "${qlora[@]}" run.exact=yes train.steps=2 strategy.stack=ddp:2
train tuned on 0 "${qlora[@]}" run.exact=yes train.steps=3 checkpoint.resume=auto \
    strategy.stack=zero:2 zero.stage=3
train tuned on 0 "${qlora[@]}" run.exact=yes checkpoint.resume=auto strategy.stack=pipeline:2
same exact on

# ---- memory: 4.13 bits a weight, to the byte in a dry run ----
# MEMORY TAG: bytes of a tag, as the table of DRY prints it in MiB.
mib() {
    awk -v tag="$2" 'index($0, "  " tag " ") { print $(NF - 1) }' "$tmp/$1"
}
for method in qlora lora; do
    settings "${qlora[@]}" tune.method=$method
    "$cadre" train "$tmp/tuned.ini" --dry-run "${sets[@]}" >"$tmp/dry-$method"
done
awk -v coded="$(mib dry-qlora parameters)" -v plain="$(mib dry-lora parameters)" \
    -v scales="$(mib dry-qlora 'scales of nf4')" 'BEGIN {
    weights = 2 * 12 * 128 * 128
    bits = 32 - (plain - coded - scales) * 1048576 * 8 / weights
    printf "nf4 takes %.3f bits a weight\n", bits
    exit !(bits <= 4.14 && bits >= 4.11) # as printed: 0.001 MiB is 0.02 bits
}' || fail "more than 4.13 bits a weight are planned"

# ---- the file that is shipped ----
settings train.steps=2 train.eval_batches=1 "data.cache=$tmp/cache"
"$CADRE_SRC/tools/make-tuning" "$tmp/data/tuning" >/dev/null
(cd "$tmp" && runs conf 0 "$cadre" train "$CADRE_SRC/conf/finetune-qlora.ini" --out "$tmp/conf" "${sets[@]}")

# ---- evaluating, and merging into the decoded matrices ----
train tuned judged 0 "${qlora[@]}" train.steps=1 train.eval_batches=0
runs judge 0 "$cadre" eval "$tmp/judged" --json
want=$(sed -nE 's/.*"valid_loss": ?([^,}]+).*/\1/p' "$tmp/judged/metrics.jsonl")
awk -F ': *' -v want="$want" '/"loss"/ { loss = $2 + 0 } END {
    d = loss - want
    exit !(loss > 0 && d < 1e-5 && d > -1e-5) }' "$tmp/judge.out" ||
    fail "cadre eval does not find the loss of the run, $want, on the coded base"
runs eval 0 "$cadre" eval "$tmp/exact" --json
runs merge 0 "$cadre" merge "$tmp/exact" --out "$tmp/merged"
sed -e "/^\[model\]/a init = $tmp/merged" "$tmp/tuned.ini" >"$tmp/merged.ini"
runs again 0 "$cadre" eval "$tmp/merged.ini" --set data.tokenizer=byte --json
awk -F ': *' '/"loss"/ { loss[++n] = $2 + 0 } END {
    d = loss[1] - loss[2]
    printf "losses of the run and of the merged model differ by %.2g\n", d
    exit !(n == 2 && loss[1] > 0 && d < 1e-5 && d > -1e-5) }' "$tmp/eval.out" \
    "$tmp/again.out" || fail "merged is another model"
