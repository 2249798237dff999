#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Energy and utilisation of runs: joules of the packages and of the GPU in the training steps,
# over a counter that begins again, each machine once however many ranks it has; null with a
# reason where nothing can be read; MFU from a stated peak; a price; and what a comparison says
# of all that. Counters are files of this test, which it moves while steps run.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

tree=$tmp/powercap
export CADRE_POWERCAP=$tree
unset CADRE_NVML CADRE_INSTANCE

# count J: the counter of package 0, which begins again after 100000 J, in one go: a reader
# never meets half a file.
count() {
    echo "${1}000000" >"$tree/new"
    mv "$tree/new" "$tree/intel-rapl:0/energy_uj"
}
mkdir -p "$tree/intel-rapl:0" "$tree/intel-rapl:1" "$tree/intel-rapl:0:0"
echo package-0 >"$tree/intel-rapl:0/name"
echo 100000000000 >"$tree/intel-rapl:0/max_energy_range_uj"
echo 100000000 >"$tree/intel-rapl:0/constraint_0_power_limit_uw" # round in 500 s at the least
for zone in intel-rapl:1 intel-rapl:0:0; do # neither is a package
    cp "$tree/intel-rapl:0/max_energy_range_uj" "$tree/$zone/"
    echo 77 >"$tree/$zone/energy_uj"
    echo psys >"$tree/$zone/name"
done

# energy NAME KEY: a value of the object "energy" in NAME's summary; top: of the summary.
energy() {
    sed -nE '/^  "energy": \{/,/^  \}/s/^    "'"$2"'": (.*[^,]),?$/\1/p' "$tmp/$1/summary.json"
}
top() {
    sed -nE 's/^  "'"$2"'": (.*[^,]),?$/\1/p' "$tmp/$1/summary.json"
}

# is NAME KEY VALUE: energy has it.
is() {
    [ "$(energy "$1" "$2")" = "$3" ] || fail "$1: $2 is $(energy "$1" "$2"), expected $3"
}

# near VALUE EXPRESSION: the number is that, but for rounding.
near() {
    awk -v a="$1" -v b="$(awk "BEGIN { printf \"%.17g\", $2 }")" \
        'BEGIN { d = a - b; d = d < 0 ? -d : d; exit !(a != "" && d <= 1e-9 * (b < 0 ? -b : b)) }' ||
        fail "found '$1', expected $2"
}

# spends NAME FROM TO [s.k=v]...: trains; the counter goes from FROM J to TO J in its steps.
spends() {
    local name=$1 to=$3
    count "$2"
    start text "$name" energy.idle=0.01 train.steps=1000000 train.eval_batches=1 "${@:4}"
    wait_steps "$name" 1
    count "$to"
    wait_steps "$name" 3
    kill -INT "$pid"
    ends "$name" 4
}

# ---- joules ----
# the counter begins again: 99996 J to 3 J are 7 J, of one machine
spends threads 99996 3 strategy.stack=ddp:2
is threads package_j 7
is threads package_total_j 7
is threads gpu_j null
is threads gpu_why '"the run uses no GPU"'
is threads why null
is threads idle_w null # it stood still
is threads source '"RAPL (powercap)"'
is threads scope '"1 package of 1 host, with all that ran on them"'
steps=$(wc -l <"$tmp/threads/metrics.jsonl")
is threads measured_steps "$steps"
near "$(energy threads j_per_step)" "7 / $steps"
near "$(energy threads j_per_token)" "7 / $steps / 16 / 32"
if [ "$lean" != 1 ]; then
    spends processes 10 15 strategy.stack=ddp:2 comm.ranks=processes
    is processes package_j 5
    # a sum over sessions would be of steps that were not measured
    count 20
    train text processes 0 checkpoint.resume=auto strategy.stack=ddp:2 comm.ranks=processes \
        energy.idle=0 "train.steps=$(($(wc -l <"$tmp/processes/metrics.jsonl") + 2))" \
        train.eval_batches=1
    is processes measured_steps 2
    is processes package_j null
    is processes why '"the counters of the packages stand still"'
fi

# of a benchmark the steps of its windows count
train text bench 0 bench.warmup=1 bench.steps=2 bench.windows=2
is bench measured_steps 4
[ "$(top bench steps)" = 5 ] || fail "bench: $(top bench steps) steps in all"
[ ! -e "$tmp/bench/idle.json" ] || fail "bench: measured idle power"

# ---- what cannot be read ----
: >"$tree/intel-rapl:0/energy_uj"
train text blind 0 train.steps=2 train.eval_batches=1
for key in package_j package_total_j gpu_j gpu_total_j idle_w j_per_step j_per_token source scope; do
    is blind $key null
done
is blind why "\"'$tree/intel-rapl:0/energy_uj': it is empty\""
CADRE_POWERCAP=$tmp/nowhere train text none 0 train.steps=2 train.eval_batches=1
energy none why | grep "has no energy counter of a processor (RAPL)" >/dev/null || fail "none: $(energy none why)"

# ---- utilisation and price ----
[ "$(top none price)" = "" ] || fail "none: has a price"
# 12 C^2 a block, C V of the head (bytes: 256), 2 blocks, C = 32, T = 32
flops=$((6 * (2 * 12 * 32 * 32 + 32 * 256) + 12 * 2 * 32 * 32))
near "$(top none flops_per_token)" $flops
train text stated 0 train.steps=3 train.eval_batches=1 strategy.stack=ddp:2 \
    report.peak_flops=1e12 report.price_per_hour=3.6 train.recompute=block
near "$(top stated peak_flops)" 2e12
[ "$(top stated peak_source)" = '"stated: 2 ranks x 1e+12 FLOP/s"' ] || fail "stated: the source"
rate=$(top stated tokens_per_s)
near "$(top stated mfu)" "$flops * $rate / 2e12"
near "$(top stated hfu)" "($flops + 2 * 2 * 12 * 32 * 32 + 4 * 2 * 32 * 32) * $rate / 2e12"
price=$(sed -nE '/^  "price": \{/,/^  \}/s/^    "per_million_tokens": (.*[^,]),?$/\1/p' \
    "$tmp/stated/summary.json")
near "$price" "3.6 / 3600 * 1e6 / $rate"
grep -qE "^text: 3 steps with ddp:2 done, in '.*' \(MFU [0-9.e-]+ %\)$" "$tmp/stated.out" ||
    fail "stated: $(cat "$tmp/stated.out")"

# ---- a comparison ----
printf '[run:one]\n[run:two]\nstrategy.stack = ddp:2\n' >>"$tmp/text.ini"
compare blind-pair 0 train.steps=2 train.eval_batches=1 compare.perturb=no
grep -q '^Energy is not readable here, because ' <(sed 's/^- //' "$tmp/blind-pair/report.md") ||
    fail "a comparison does not say why it has no energy"
! grep -q 'J/token' "$tmp/blind-pair/report.md" || fail "a column without figures"
grep -q '"j_per_token": null' "$tmp/blind-pair/report.json" || fail "report.json: no null"

# ---- a GPU ----
cuda=$CADRE_BUILD/tests/support/cuda_host/.libs
nvml=$CADRE_BUILD/tests/support/fake_nvml/.libs/fake_nvml.so
if [ ! -e "$cuda/device_cuda.so" ] || [ ! -e "$nvml" ]; then
    echo "the stand-ins of CUDA and NVML were not built: no test of a GPU's energy"
    exit 0
fi
export CADRE_MODULE_PATH=$cuda CADRE_NVML=$nvml CADRE_FAKE_NVML="h100-80 off" \
    CADRE_FAKE_NVML_ENERGY=$tmp/millijoules XDG_CACHE_HOME=$tmp/xdg
unset CADRE_FAKE_NVML_STATE CADRE_FAKE_NVML_FAULT CUDA_VISIBLE_DEVICES
small="device.kind=cuda train.global_batch=2 train.micro_batch=1 train.eval_batches=1
    model.context=16 model.layers=1 model.channels=16"
gpu_count() {
    echo "$1" >"$tmp/new"
    mv "$tmp/new" "$tmp/millijoules"
}
gpu_count 1000
# shellcheck disable=SC2086 # words
start text gpu train.steps=1000000 strategy.stack=ddp:2 $small
wait_steps gpu 1
gpu_count 4500
wait_steps gpu 2
kill -INT "$pid"
ends gpu 4
is gpu gpu_j 3.5 # two ranks, one GPU
is gpu package_j null
is gpu source '"NVML"'
is gpu scope '"1 GPU, with all that ran on them"'
near "$(energy gpu j_per_step)" "3.5 / $(wc -l <"$tmp/gpu/metrics.jsonl")"
[ "$(top gpu mfu)" = null ] || fail "gpu: the stand-in has an MFU"
[ "$(top gpu mfu_why)" = "\"no f32 figure of 'stand-in on the host' is known; set report.peak_flops\"" ] ||
    fail "gpu: $(top gpu mfu_why)"
rm "$tmp/millijoules"
count 5
# shellcheck disable=SC2086 # words
train text gpu-blind 0 train.steps=1 energy.idle=0 $small
is gpu-blind j_per_step null
energy gpu-blind why | grep "this GPU has no such counter" >/dev/null || fail "gpu: $(energy gpu-blind why)"
