#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Experts on one rank and over ranks.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

built=$CADRE_BUILD/tests/plugins/.libs
over=strategy.stack=$built/experts.so:2
wide=train.precision=fp64

# ---- one rank: as bit for bit as any other model ----
four="model.experts=4 train.steps=6"
# shellcheck disable=SC2086
{
    train text one 0 $four checkpoint.every=3
    train text one-ddp 0 $four run.exact=yes strategy.stack=ddp:2
    train text one-exact 0 $four run.exact=yes
    same one-ddp one-exact
    train text one-split 0 $four strategy.stack=pipeline:2 pipeline.schedule=zb-h1
    train text one-again 0 $four train.recompute=block
    same one one-split
    same one one-again
}
grep -q 'mlp.experts.3.c_proj.weight' <("$cadre" inspect "$(last one)") ||
    fail "inspect does not show the experts"
[ ! -e "$(last one)/config.json" ] || fail "no Hugging Face model has GPT-2's experts"
runs eval 0 "$cadre" eval "$tmp/one/config.ini"

# ---- two ranks: rows to the ranks of their experts ----
# shellcheck disable=SC2086
{
    train text two 0 "$over" $four
    close_to one two 1e-5 1e-2
    train text one-wide 0 $four $wide train.eval_every=1
    # a second evaluation batch of fewer samples on some ranks; and recomputed passes
    train text two-wide 0 "$over" $four $wide train.eval_every=1 train.recompute=block
    close_to one-wide two-wide 1e-10 1e-10
    # along dp the experts of one ep coordinate are replicas; small buckets come in one order
    # whichever experts a rank has
    train text four-zero 0 "$over,zero:2" zero.stage=2 $four $wide
    close_to one-wide four-zero 1e-10 1e-10
    train text four-ddp 0 "strategy.stack=ddp:2,$built/experts.so:2" $four $wide \
        ddp.bucket_mb=0.01
    close_to one-wide four-ddp 1e-10 1e-10
    train text four-pipe 0 "$over,pipeline:2" pipeline.schedule=zb-h1 $four $wide
    close_to one-wide four-pipe 1e-10 1e-10
    train text two-half 0 "$over" $four train.precision=bf16
    train text one-half 0 $four train.precision=bf16
    close_to one-half two-half 0.05 1
}

# ---- a checkpoint resumes at any number of ranks ----
# shellcheck disable=SC2086
{
    train text spread 0 "$over" $four $wide train.steps=3
    cp -r "$tmp/spread" "$tmp/spread-2"
    train text spread 0 $four $wide checkpoint.resume=auto
    close_to one-wide spread 1e-10 1e-10
    train text spread-2 0 "$over" $four $wide checkpoint.resume=auto
    close_to one-wide spread-2 1e-10 1e-10
}

# ---- what is refused ----
refused llama 'model.experts = 4, expected 0 with model.arch = llama' \
    model.arch=llama model.experts=4
refused tensor 'model.experts = 4, expected 0 with tensor parallelism' \
    model.experts=4 strategy.stack=tensor:2
refused uneven "model.experts = 3 do not divide over the 2 ranks along 'ep'" \
    "$over" model.experts=3
train text plain 0 train.steps=1
refused init 'model.experts = 4 .*, but model.init = .* has 0' \
    "model.init=$(last plain)" model.experts=4
train text more 0 model.experts=4 train.steps=1 "model.init=$(last one)"
refused exact "run.exact = yes: expert gradients are sums over the ranks of 'ep'" \
    "$over" model.experts=4 run.exact=yes

# ---- compared: within the limits, and the certificate says how sums differ ----
cat >>"$tmp/text.ini" <<EOF
[run:one]
strategy.stack = single
[run:two]
strategy.stack = $built/experts.so:2
EOF
compare judged 0 model.experts=4 train.steps=6 compare.perturb=no
grep -q '"sums": "expert.shard@ep:2"' "$tmp/judged/certificate-two.json" ||
    fail "the certificate does not name expert.shard"
