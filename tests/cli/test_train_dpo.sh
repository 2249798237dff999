#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Direct preference optimization, of all parameters and of adapters: 20 steps of PyTorch
# (tests/samples/dpo/make.py), log 2 at the first step, the same bits under every strategy, a
# resume under others, evaluating, and what is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

samples=$CADRE_SRC/tests/samples
# The whole Llama learns; of the GPT-2 an adapter does.
for form in llama gpt2; do
    cat >"$tmp/$form.ini" <<EOF
[model]
init = $samples/lora/$form
[data]
format = instruct
template = plain
path = $samples/dpo/pairs.json
tokenizer = byte
shuffle = no
valid_fraction = 0
cache = no
[train]
steps = 20
global_batch = 8
micro_batch = 4
[optim]
lr = 1e-2
[tune]
method = dpo
EOF
done
cat >>"$tmp/gpt2.ini" <<EOF
adapters = lora
adapter = $samples/lora/gpt2-adapter
beta = 0.3
label_smoothing = 0.1
EOF

# figures NAME: of metrics.jsonl, a line each: step, key, value.
figures() {
    sed -E 's/.*"step": ?([0-9]+)/\1/; s/[{}"]//g; s/: ?/:/g' "$tmp/$1/metrics.jsonl" |
        awk -F, '{ for (i = 2; i <= NF; i++) {
            n = index($i, ":")
            key = substr($i, 1, n - 1)
            sub(/^ +/, "", key)
            if (key ~ /\/|loss|accuracy/)
                print $1, key, substr($i, n + 1) } }'
}

# ---- 20 steps beside PyTorch: the loss and what is printed beside it ----
precisions=(fp64 fp32)
[ "$lean" = 0 ] || precisions=(fp64)
for form in llama gpt2; do
    for precision in "${precisions[@]}"; do
        train "$form" "$form-$precision" 0 train.precision="$precision"
        awk -v form=$form -v precision="$precision" '
            NR == FNR && $1 == form && $2 == precision { want[$3 " " $4] = $5 }
            NR != FNR && $1 " " $2 in want {
                v = want[$1 " " $2] + 0
                d = $3 - v
                d = d < 0 ? -d : d
                size = v < 0 ? -v : v
                # a reward is a small difference of log-probabilities
                d /= size > 1e-2 || $2 == "loss" ? size : 1e-2
                limit = precision == "fp64" ? 1e-9 : $2 == "loss" ? 1e-5 : 1e-3
                if (d > limit) { print "step", $1, $2, $3, "expected", v; bad++ }
                if ($2 == "loss" && d > worst) worst = d
                n++
            }
            END {
                printf "%s %s: losses of 20 steps differ from those of PyTorch by %.2g\n",
                    form, precision, worst
                exit !(n == 180 && !bad)
            }' "$samples/dpo/golden.tsv" <(figures "$form-$precision") ||
            fail "$form in $precision: not the figures of PyTorch"
    done
done

# ---- an evaluation: of the pairs of the second step, after the first one ----
{ head -n 41 "$samples/dpo/pairs.json" | sed '$ s/,$//'; echo "]"; } >"$tmp/eight.json"
for row in llama gpt2 "llama model.head_rows=5" "gpt2 strategy.stack=tensor:2" \
    "llama strategy.stack=pipeline:2,ddp:2"; do
    form=${row%% *}
    # by this seed the last four pairs are those for validation
    # shellcheck disable=SC2046
    train "$form" valid 0 train.precision=fp64 train.steps=1 train.eval_batches=0 \
        data.path="$tmp/eight.json" data.valid_fraction=0.5 run.seed=6 \
        $(cut -s -d ' ' -f 2- <<<"$row")
    awk -v form=$form '
        NR == FNR && $1 == form && $2 == "fp64" { want[$3 " " $4] = $5 }
        NR == FNR { next }
        { key = $1 " " $2 }
        $2 ~ /^valid_l/ { sub(/ valid_/, " ", key); sub(/^1/, "2", key) }
        key in want {
            d = $3 - want[key]
            n++
            if (d > 1e-12 || d < -1e-12) { print $2, $3, "expected", want[key]; bad++ }
        }
        END { exit !(n == 9 + 3 && !bad) }' "$samples/dpo/golden.tsv" <(figures valid) ||
        fail "$row: an evaluation has not the figures of PyTorch"
    rm -r "$tmp/valid"
done

# ---- the first step: the reference is the model itself ----
# begins FORM [s.k=v]...: with log 2 within an ulp, and no reward.
begins() {
    train "$1" "$1-begin" 0 "${@:2}" train.steps=1
    figures "$1-begin" | awk '
        $2 == "loss" { d = $3 - 0.69314718055994529; n++
                       if (d > 1.2e-16 || d < -1.2e-16) bad = 1 }
        $2 ~ /^rewards/ { n++; if ($3 != 0) bad = 1 }
        END { exit !(n == 5 && !bad) }' || fail "$1 does not begin at log 2"
    rm -r "${tmp:?}/$1-begin"
}
begins llama
begins llama train.precision=bf16 strategy.stack=pipeline:2
begins gpt2 tune.adapter= tune.dropout=0.3 strategy.stack=zero:2 zero.stage=3
begins gpt2 tune.adapter= tune.adapters=qlora tune.label_smoothing=0.2

# ---- every strategy, bit for bit, over several epochs and with evaluations ----
bits=(run.exact=yes train.steps=6 train.micro_batch=2 train.eval_every=3 data.shuffle=yes
    data.valid_fraction=0.25)
# same_run A B: every figure, and all that is saved.
same_run() {
    local file
    diff <(figures "$1") <(figures "$2") >"$tmp/diff" ||
        { head "$tmp/diff"; fail "the figures of $1 and $2 differ"; }
    for file in "$(last "$1")"/*.safetensors; do
        cmp "$file" "$(last "$2")/${file##*/}" || fail "${file##*/} of $1 and $2 differ"
    done
}
stacks=(ddp:2 "zero:2 zero.stage=1" "zero:2 zero.stage=2" "zero:2 zero.stage=3" pipeline:2
    "pipeline:2 pipeline.schedule=zb-h1" "pipeline:2,zero:2 zero.stage=2")
[ "$slow" = 0 ] || stacks+=(hsdp:2 "pipeline:2,ddp:2" "pipeline:2 pipeline.schedule=zb-v"
    "zero:2 zero.stage=3 train.recompute=block" "ddp:2 balance.micro_batches=3,1"
    "ddp:2 comm.ranks=processes" "pipeline:2 pipeline.schedule=interleaved"
    "zero:2 zero.stage=3 zero.node=1 zero.secondary=node")
[ "$lean" = 0 ] || stacks=("zero:2 zero.stage=3" pipeline:2)
for form in llama gpt2; do
    train "$form" "$form-exact" 0 "${bits[@]}"
    for figure in accuracy logits/chosen logits/rejected; do
        figures "$form-exact" | grep "^3 valid_$figure " >/dev/null || fail "no $figure"
    done
    for stack in "${stacks[@]}"; do
        # shellcheck disable=SC2046,SC2086
        train "$form" sharded 0 "${bits[@]}" "strategy.stack=${stack%% *}" \
            $(cut -s -d ' ' -f 2- <<<"$stack")
        same_run "$form-exact" sharded
        rm -r "${tmp:?}/sharded"
    done
done
train llama parts 0 "${bits[@]}" run.exact_parts=2
train llama tensor 0 "${bits[@]}" run.exact_parts=2 strategy.stack=tensor:2
same_run parts tensor
train gpt2 parts-lora 0 "${bits[@]}" run.exact_parts=2
train gpt2 tensor-lora 0 "${bits[@]}" run.exact_parts=2 strategy.stack=tensor:2
same_run parts-lora tensor-lora
train gpt2 coded 0 "${bits[@]}" tune.adapters=qlora
train gpt2 coded-zero 0 "${bits[@]}" tune.adapters=qlora strategy.stack=zero:2 zero.stage=3
same_run coded coded-zero
# near FORM WHAT [s.k=v]...: another order of sums, the figures but for rounding.
near() {
    train "$1" near 0 train.precision=fp64 "${@:3}"
    paste -d ' ' <(figures "$1-fp64") <(figures near) | awk '
        { d = $3 - $6; size = $3 < 0 ? -$3 : $3; n++ }
        d > 1e-10 * (size + 1) || d < -1e-10 * (size + 1) { bad++ }
        END { exit !(n == 180 && !bad) }' || fail "$2 has other figures"
    rm -r "${tmp:?}/near"
}
near gpt2 tensor:2 strategy.stack=tensor:2
near llama "a head of 5 rows at once" model.head_rows=5

# ---- CUDA: the stand-in of the tests, where it was built ----
standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ -e "$standin/device_cuda.so" ]; then
    short=(train.steps=2 data.valid_fraction=0.25)
    for form in llama gpt2; do
        train "$form" on-cpu 0 "${short[@]}" device.kind=cpu
        CADRE_MODULE_PATH=$standin XDG_CACHE_HOME=$tmp/xdg \
            train "$form" on-cuda 0 "${short[@]}" device.kind=cuda
        paste -d ' ' <(figures on-cpu) <(figures on-cuda) | awk '
            { d = $3 - $6; size = $3 < 0 ? -$3 : $3; n++ }
            d > 1e-4 * (size + 1) || d < -1e-4 * (size + 1) { bad++ }
            END { exit !(n == 22 && !bad) }' || fail "$form: other figures on CUDA"
        rm -r "$tmp/on-cpu" "$tmp/on-cuda"
    done
else
    echo "SKIP: the stand-in of CUDA was not built: the figures of CUDA"
fi

# ---- a resume: the reference stays what it was ----
for form in llama gpt2; do
    train "$form" on 0 "${bits[@]}" train.steps=2 strategy.stack=zero:2 zero.stage=3
    train "$form" on 0 "${bits[@]}" train.steps=4 train.eval_every=0 \
        strategy.stack=pipeline:2 checkpoint.resume=auto
    train "$form" on 0 "${bits[@]}" strategy.stack=zero:2 zero.stage=3 checkpoint.resume=auto
    diff <(figures "$form-exact" | grep -v valid) <(figures on | grep -v valid) ||
        fail "$form: another course after a resume"
    cmp "$(last "$form-exact")/optimizer.safetensors" "$(last on)/optimizer.safetensors"
    rm -r "$tmp/on"
done
train llama other 2 "${bits[@]}" train.steps=9 "checkpoint.resume=$(last llama-exact)" \
    "tune.reference=$(last llama-fp64)"
says other "was trained beside a reference .*tune.reference = .*name the folder"
# Another reference than the model that begins.
train llama from 0 "${bits[@]}" "tune.reference=$(last llama-fp64)"
! figures from | grep '^1 rewards/chosen 0$' >/dev/null || fail "tune.reference is not read"
train llama from-on 0 "${bits[@]}" "tune.reference=$(last llama-fp64)" train.steps=3
train llama from-on 0 "${bits[@]}" "tune.reference=$(last llama-fp64)" checkpoint.resume=auto \
    strategy.stack=zero:2 zero.stage=3
same_run from from-on

# ---- evaluating and merging a run ----
for form in llama gpt2; do
    runs eval 0 "$cadre" eval "$tmp/$form-exact" --json
    for figure in loss logits/chosen logits/rejected; do
        got=$(sed -nE "s:^ *\"$figure\"\: ?([^,]*),?\$:\\1:p" "$tmp/eval.out")
        want=$(figures "$form-exact" | awk -v f="valid_$figure" '$1 == 6 && $2 == f { print $3 }')
        awk -v a="$got" -v b="$want" \
            'BEGIN { d = a - b; exit !(a != 0 && d < 1e-6 && d > -1e-6) }' ||
            fail "$form: cadre eval finds a $figure of $got, the run $want"
    done
done
runs merge 0 "$cadre" merge "$tmp/gpt2-exact" --out "$tmp/merged"

# ---- what is refused ----
# no NAME PATTERN [s.k=v]...
no() {
    train llama "$1" 2 "${@:3}"
    says "$1" "$2"
    [ ! -e "$tmp/$1" ] || fail "$1: refused, but its folder is there"
}
no odd "train.micro_batch = 1 splits a pair" train.micro_batch=1
no full "holds pairs .*set tune.method = dpo" tune.method=full
no text "trains on pairs .*found data.format = text" data.format=text
no single "trains on pairs .*alpaca_en_demo.json without them" model.init= model.context=4096 \
    model.channels=32 model.heads=2 "data.path=$samples/instruct/alpaca_en_demo.json"
no pack "which are not packed" data.pack=yes
no diverging "replicas along 'rep' diverge, and tune.method = dpo" strategy.stack=diloco:2
no time "splits the time of samples .*tune.method = dpo" \
    "strategy.stack=$(test_plugin context):2"
no lora "is of preferences, but tune.method = lora" tune.method=lora tune.beta=0.2
no frozen "none of them is frozen" tune.base=nf4
no twice "tune.reference = .*whose reference is the model without them" tune.adapters=lora \
    "tune.reference=$samples/lora/llama"
no nowhere "has no model" tune.reference=/nowhere
no shape "tensor '.*': expected by the model" "tune.reference=$samples/lora/gpt2"
