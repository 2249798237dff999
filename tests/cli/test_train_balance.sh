#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# balance.micro_batches: data ranks run different numbers of micro-batches, others in the middle
# of a run, and train what `single` trains: bit for bit in exact mode, at sizes that divide
# nothing, with clipping, accumulation, tied weights and recompute; also where the run is
# resumed across a deal, or loses a rank. device.pace: a simulated slow rank, labelled.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

odd="model.layers=3 model.channels=36 model.heads=3 model.context=29 train.global_batch=14
    train.recompute=block train.steps=10"
exact="run.exact=yes $odd"

# dealt NAME: micro-batches of the ranks where they are told, "STEP:2,5 ...".
dealt() {
    tr -d ' ' <"$tmp/$1/metrics.jsonl" |
        sed -nE 's/.*"step":([0-9]+),.*"micro_batches":\[([^]]*)\].*/\1:\2/p' | xargs
}

# deals NAME WANT: these were they.
deals() {
    [ "$(dealt "$1")" = "$2" ] || fail "$1: dealt $(dealt "$1"), expected $2"
}

# ---- exact mode: the bits of single ----
changes="balance.micro_batches=1,1,1/3:1,5,1/6:4,1,2/8:1,1,5"
# shellcheck disable=SC2086 # words
{
    train text single 0 $exact balance.micro_batches=3,1 # one data rank runs all
    deals single ""
    train text shares 0 $exact strategy.stack=ddp:2 "balance.micro_batches=3, 1"
    deals shares 1:6,1
    same single shares
    train text changes 0 $exact strategy.stack=ddp:3 $changes
    deals changes "1:3,2,2 3:1,5,1 6:4,1,2 8:1,1,5"
    same single changes
    train text processes 0 $exact strategy.stack=ddp:3 $changes comm.ranks=processes \
        ddp.overlap=no data.prefetch=0
    same single processes
    # across a deal, and under another stack
    train text resumed 0 $exact strategy.stack=ddp:3 $changes train.steps=6
    train text resumed 0 $exact strategy.stack=ddp:3 $changes checkpoint.resume=auto
    deals resumed "1:3,2,2 3:1,5,1 6:4,1,2 7:4,1,2 8:1,1,5"
    same single resumed
    train text other 0 $exact strategy.stack=ddp:2 train.steps=4 \
        balance.micro_batches=1,6/3:2,5
    train text other 0 $exact strategy.stack=ddp:3 balance.micro_batches=measured \
        checkpoint.resume=auto
    same single other
}

# ---- measured: a rank that is five times slower gets fewer ----
# shellcheck disable=SC2086
{
    train text long 0 $exact train.steps=24
    train text measured 0 $exact train.steps=24 strategy.stack=ddp:2 device.pace=0.2,1 \
        balance.micro_batches=measured
}
same long measured
[[ "$(dealt measured)" = "1:4,3 "* ]] || fail "measured: dealt $(dealt measured)"
read -r slow_rank fast_rank <<<"$(dealt measured | sed -E 's/.*:([0-9]+),([0-9]+)$/\1 \2/')"
[ "$slow_rank" -lt "$fast_rank" ] || fail "measured: dealt $(dealt measured)"
echo "measured: $(dealt measured)"

# ---- it is said ----
grep "simulated: ranks run at 0.2,1 of their speed" "$tmp/measured.log" >/dev/null ||
    fail "the log does not say that ranks are slowed"
[ "$(grep -c '"simulated_pace": "0.2,1"' "$tmp/measured/summary.json")" = 2 ] ||
    fail "summary.json and its setup do not say that ranks are slowed"
grep '"simulated_pace": null' "$tmp/long/setup.json" >/dev/null || fail "single is not slowed"
grep "simulated pace of ranks" "$tmp/measured/run.html" >/dev/null || fail "run.html: no pace"
grep '"micro_batches": null' "$tmp/long/summary.json" >/dev/null ||
    fail "single has micro-batches of ranks"
runs evaluated 0 "$cadre" eval "$tmp/measured" # on one rank, at full speed
runs plan 0 "$cadre" train "$tmp/text.ini" --dry-run --set strategy.stack=ddp:2 \
    --set balance.micro_batches=measured --set run.exact=yes
grep "micro-batches change: memory is for 7 at most" "$tmp/plan.out" >/dev/null ||
    fail "--dry-run does not say for how many memory is planned"

# ---- without exact mode: close ----
# shellcheck disable=SC2086
{
    train text loose 0 $odd
    while read -r stack options; do
        train text run 0 $odd "strategy.stack=$stack" $options
        close_to loose run 1e-5 1e-2
        rm -r "$tmp/run"
    done <<'END'
zero:2 zero.stage=1 balance.micro_batches=5,2/4:1,6
zero:2 zero.stage=2 balance.micro_batches=6,1/5:2,5
zero:3 zero.stage=2 balance.micro_batches=measured balance.limit=3
hsdp:2,ddp:2 balance.micro_batches=1,2,3,1/6:2,2,1,2
pipeline:3,zero:2 zero.stage=2 pipeline.schedule=zb-h1 balance.micro_batches=5,2
END
}

# ---- what cannot have it is refused ----
refused ranks "has 3 shares, expected one for each of the 2 data ranks" \
    strategy.stack=ddp:2 balance.micro_batches=1,2,1
refused few "8 micro-batches, which balance.micro_batches = measured cannot divide over 9" \
    strategy.stack=ddp:9 balance.micro_batches=measured
refused text "balance.micro_batches = fast: expected off, measured, or a share" \
    strategy.stack=ddp:2 balance.micro_batches=fast
refused gather "plugin 'zero' asks for a map of its own \(as many on each rank\)" \
    strategy.stack=zero:2 zero.stage=3 balance.micro_batches=measured
refused sum "plugin 'zero' asks for a map of its own \(as many on each rank\)" \
    strategy.stack=zero:2 run.exact=yes balance.micro_batches=2,1
refused turns "plugin 'zero' asks for a map of its own \(in turn\)" strategy.stack=zero:2 \
    zero.stage=2 zero.reduce=microbatch balance.micro_batches=2,1
refused levels "\(balance.micro_batches\) takes one plugin.* found 'ddp' and 'hsdp'" \
    strategy.stack=ddp:2,hsdp:2 run.exact=yes balance.micro_batches=1,1,1,2
refused replicas "replicas of plugin 'diloco'" strategy.stack=diloco:2 \
    balance.micro_batches=measured
refused schedule "the schedule of plugin 'pipeline' is made for one number" \
    strategy.stack=pipeline:2,ddp:2 balance.micro_batches=measured
refused pace "device.pace = 0: expected one fraction" device.pace=0
refused paces "device.pace = 1,0.5,1: expected .* each of the 2 ranks" strategy.stack=ddp:2 \
    device.pace=1,0.5,1

# ---- a rank that is killed ends the run, as without ----
start text killed run.exact=yes train.steps=1000000 strategy.stack=ddp:2 \
    comm.ranks=processes balance.micro_batches=1,2/5:2,1
wait_steps killed 6
deals killed "1:3,5 5:6,2"
kill -KILL "$(rank_of "$pid" 1)"
ends killed 1
says killed "rank 1"
no_orphan killed
