#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddp.compress through the program: it trains nearly as well, sends the bytes it promises,
# gives the same bits as threads and as processes, resumes, and is refused where it must be.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

modes="bf16 int8 topk:0.1 powersgd:2 onebit:10"
forms="int8 topk:0.1 powersgd:2 onebit:3"
sizes=2
if [ "$lean" = 1 ]; then
    modes="int8 onebit:10"
    forms="topk:0.1 onebit:3"
elif [ "$slow" = 1 ]; then
    modes="bf16 fp16 int8 topk:0.1 topk:1 powersgd:1 powersgd:4 onebit:10"
    sizes="2 4"
fi

value() { # NAME KEY: a number of the run's summary
    sed -nE "s/.*\"$2\": ?([0-9.e+-]+).*/\1/p" "$tmp/$1/summary.json" | head -n 1
}

# What MODE sends in relation to `none` on N ranks, in percent of it.
promised() {
    awk -v mode="$1" -v n="$2" 'BEGIN {
        split(mode, part, ":")
        share["bf16"] = share["fp16"] = 50
        share["int8"] = 100 * 17 / 64
        share["topk"] = 100 * part[2] * n
        # signs and scales of whole blocks, to which its 18 vectors are filled up
        share["onebit"] = (100 * part[2] + (40 - part[2]) * 100 * 46592 * 36 / 256 / 171520) / 40
        if (part[1] == "powersgd") # rows and columns of the model of text.ini; its vectors
            print 100 * (part[2] * (2 * 288 + 64 + 2 * (128 + 64 + 160 + 160)) + 896) / 42880
        else
            print share[part[1]]
    }'
}

# trains NAME MODE N: near to the run without compression, and as cheap as promised, but for
# the one checkpoint of 40 steps, for which residuals are summed as they are.
trains() {
    train text "$1" 0 "strategy.stack=ddp:$3" "ddp.compress=$2" train.steps=40
    awk -v a="$(value "$1" loss_last)" -v b="$(value "none-$3" loss_last)" \
        -v first="$(value "none-$3" loss_first)" -v mode="$2" 'BEGIN {
        part = mode ~ /^topk:0|^powersgd|^onebit/ ? 0.3 : 0.02
        printf "%s: loss %.4f, without %.4f\n", mode, a, b
        exit !(a < b + part * (first - b) && (a != b || mode == "topk:1"))
    }' || fail "$1: the loss is not near to that without compression"
    awk -v a="$(value "$1" comm_bytes)" -v b="$(value "none-$3" comm_bytes)" \
        -v want="$(promised "$2" "$3")" 'BEGIN {
        printf "  %.2f %% of the bytes, promised %.2f %%\n", 100 * a / b, want
        exit !(100 * a / b > 0.98 * want && 100 * a / b < 1.05 * want + 1 + 100 / 40)
    }' || fail "$1: not the bytes that are promised"
}

for n in $sizes; do
    train text "none-$n" 0 "strategy.stack=ddp:$n" train.steps=40
    for mode in $modes; do
        trains "${mode/:/-}-$n" "$mode" "$n"
    done
done

# The same bits as processes, in other buckets, and with more threads.
for mode in $forms; do
    set="strategy.stack=ddp:2 ddp.compress=$mode train.steps=8"
    # shellcheck disable=SC2086 # words
    train text "threads-${mode/:/-}" 0 $set
    # shellcheck disable=SC2086
    train text "processes-${mode/:/-}" 0 $set comm.ranks=processes ddp.overlap=no \
        device.threads=2
    same "threads-${mode/:/-}" "processes-${mode/:/-}"
done

# Resuming: with the same bits at the same size, without loss at another.
for mode in $forms; do
    run=resume-${mode/:/-}
    set="strategy.stack=ddp:2 ddp.compress=$mode checkpoint.every=4"
    # shellcheck disable=SC2086
    train text "$run" 0 $set train.steps=4
    train text "$run-4" 0 "strategy.stack=ddp:4" "ddp.compress=$mode" train.steps=8 \
        "checkpoint.resume=$(last "$run")"
    train text "$run-none" 0 strategy.stack=ddp:2 train.steps=8 \
        "checkpoint.resume=$(last "$run")"
    # shellcheck disable=SC2086
    train text "$run" 0 $set train.steps=8 checkpoint.resume=auto
    same "$run" "threads-${mode/:/-}"
done

# onebit has the bits of AdamW until its warm-up ends, and goes on from AdamW's checkpoint of
# that step as from its own; what it holds then stays so with a longer warm-up.
train text warm 0 strategy.stack=ddp:2 ddp.compress=onebit:8 train.steps=8
train text adamw 0 strategy.stack=ddp:2 train.steps=8
same adamw warm
train text after 0 strategy.stack=ddp:2 train.steps=3
train text after 0 strategy.stack=ddp:2 ddp.compress=onebit:3 train.steps=8 \
    checkpoint.resume=auto
same threads-onebit-3 after
train text longer 0 strategy.stack=ddp:2 ddp.compress=onebit:3 train.steps=5
train text longer 0 strategy.stack=ddp:2 ddp.compress=onebit:6 train.steps=8 \
    checkpoint.resume=auto
same threads-onebit-3 longer

# A gradient that is not finite is not hidden.
for mode in fp16 int8 topk:0.01 powersgd:1; do
    train text "wild-${mode/:/-}" 1 strategy.stack=ddp:2 "ddp.compress=$mode" \
        optim.name=sgd optim.lr=1000 optim.momentum=0.99 optim.clip=0 train.steps=60
    says "wild-${mode/:/-}" 'not finite at step [0-9]+'
done

# Under a pipeline, and with tensor parallelism.
train text pipe 0 strategy.stack=pipeline:2,ddp:2 ddp.compress=powersgd:2 train.steps=8
if [ "$slow" = 1 ]; then
    for schedule in gpipe interleaved zb-h1; do
        for mode in int8 topk:0.1 powersgd:2; do
            train text "$schedule-${mode/:/-}" 0 strategy.stack=pipeline:2,ddp:2 train.steps=8 \
                "ddp.compress=$mode" "pipeline.schedule=$schedule" ddp.bucket_mb=0.01 \
                "pipeline.chunks=$([ $schedule = interleaved ] && echo 2 || echo 1)"
        done
    done
fi
train text tensor 0 strategy.stack=ddp:2,tensor:2 ddp.compress=int8 train.steps=8

# Refused in words.
train text exact 2 strategy.stack=ddp:2 ddp.compress=int8 run.exact=yes
says exact "ddp.compress .* run.exact = yes forbids.*ddp.compress = none"
train text signs 2 strategy.stack=ddp:2 ddp.compress=onebit:3 optim.name=sgd
says signs "moments of AdamW; set optim.name = adamw"
train text shards 2 "strategy.stack=ddp@site:2, zero:2" ddp@site.compress=onebit:3 zero.stage=1
says shards "ddp.compress = onebit and '.*of whose moments a rank holds a range only .zero"
for wrong in topk:0 topk:2 powersgd:0 powersgd:x onebit:0 int9 ""; do
    train text wrong 2 strategy.stack=ddp:2 "ddp.compress=$wrong"
    says wrong "ddp.compress.*expected"
done

# A comparison says that it is another training, and does not fail.
cat >"$tmp/compare.ini" <<EOF
[run]
extends = text.ini
[train]
steps = 10
[device]
threads = 1
[compare]
runs = whole, tenth
time = no
[run:whole]
strategy.stack = ddp:2
[run:tenth]
strategy.stack = ddp:2
ddp.compress = topk:0.1
EOF
"$cadre" compare "$tmp/compare.ini" --out "$tmp/compare" >"$tmp/compare.out" 2>&1 ||
    fail "compare ended with $?: $(tail -n 3 "$tmp/compare.out")"
grep -q 'differs from whole by design' "$tmp/compare.out" ||
    fail "compare does not say that compression is by design"

[ "$lean" = 0 ] || exit 0
# Its steps are other steps, so its time to a loss is compared, each round with another seed.
"$cadre" compare "$tmp/compare.ini" --out "$tmp/target" --set compare.time=yes \
    --set compare.perturb=no --set train.steps=60 --set compare.target=3.6 \
    --set bench.target_steps=3 --set compare.rounds=2 >"$tmp/target.out" 2>"$tmp/target.log" ||
    fail "compare to a loss ended with $?: $(tail -n 3 "$tmp/target.log")"
[ "$(grep -c '"to_target": true, .*"failure": null' "$tmp/target/pieces.jsonl")" -eq 4 ] ||
    fail "compare to a loss: $(cat "$tmp/target/pieces.jsonl")"
tr '\n' ' ' <"$tmp/target.out" | grep 'tenth changes training by design: its speedup and verdict' >/dev/null ||
    fail "compare to a loss: the report does not say what was timed"
[ "$(wc -l <"$tmp/target/pieces.jsonl")" -eq 4 ] || fail "compare to a loss: timed steps"
