#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.steps and bench.target: any stack, ranks as threads, as processes and of a launcher,
# makes the steps that were asked for, with the bits of a training's, and leaves bench.json and
# no checkpoint; the target ends all ranks at the step that a training's losses say. A
# benchmark's folder is no training's, and a signal leaves no result.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

# key NAME KEY: its values in bench.json, a line each.
key() {
    sed -nE "s/^ *\"$2\": (.*[^,]),?$/\1/p" "$tmp/$1/bench.json"
}

# is NAME KEY VALUE: that is the only one.
is() {
    [ "$(key "$1" "$2")" = "$3" ] || fail "$1: $2 is '$(key "$1" "$2")', expected '$3'"
}

# all_above NAME KEY LEAST: every value is a number above LEAST.
all_above() {
    key "$1" "$2" | awk -v least="$3" '!($1 ~ /^[0-9]/ && $1 > least) { bad = 1 }
        END { exit bad || !NR }' || fail "$1: $2 is '$(key "$1" "$2" | tr '\n' ' ')'"
}

# untouched NAME: a benchmark evaluates nothing and saves nothing.
untouched() {
    [ ! -e "$tmp/$1/checkpoints" ] || fail "$1: has checkpoints"
    ! grep -q valid "$tmp/$1/metrics.jsonl" || fail "$1: was evaluated"
}

# measured NAME WARMUP STEPS WINDOWS: bench.json and the last line say so.
measured() {
    is "$1" warmup "$2"
    is "$1" steps "$3"
    is "$1" reached true
    is "$1" target_step 0
    [ "$(key "$1" seconds | wc -l)" -eq "$4" ] || fail "$1: not $4 windows"
    all_above "$1" seconds 0
    all_above "$1" start_s 0
    grep -qE "^text: $(($3 * $4)) steps with .* timed, [0-9.e-]+ s a step, [0-9.e+]+ tokens/s" \
        "$tmp/$1.out" || fail "$1: its last line is '$(tail -n1 "$tmp/$1.out")'"
    untouched "$1"
}

# steps_of A B FROM TO: A's losses and norms are the bits of B's steps FROM to TO, no others.
steps_of() {
    diff <(losses "$1") <(losses "$2" | sed -n "$3,$4p") >"$tmp/diff" || {
        head "$tmp/diff"
        fail "$1 has not the steps $3 to $4 of $2"
    }
}

batch="train.global_batch=8 train.steps=10 optim.schedule=cosine train.eval_batches=1"
saves="checkpoint.every=2 train.eval_every=2"
windows="bench.warmup=2 bench.steps=3 bench.windows=2"

# bench NAME [s.k=v]...: a training NAME and its benchmark bench-NAME.
bench() {
    local name=$1
    shift
    # shellcheck disable=SC2086 # words
    train text "$name" 0 $batch checkpoint.every=5 "$@"
    # shellcheck disable=SC2086
    train text "bench-$name" 0 $batch $saves $windows "$@"
    measured "bench-$name" 2 3 2
    steps_of "bench-$name" "$name" 1 8
}

# ---- stacks and ranks ----
bench single
is bench-single tokens 256
[ "$(key bench-single bubble_fraction)" = $'null\nnull' ] || fail "single: has a bubble"
bench processes "strategy.stack=ddp:2" comm.ranks=processes
bench stages "strategy.stack=pipeline:2, zero:2" log.trace=yes
all_above bench-stages bubble_fraction 0
all_above bench-stages comm_exposed_s -1
# where the time of a step went: exposed communication by axis is all of it, in each step
by_axis() { # NAME AXES
    awk -v axes="$2" '{
            match($0, /"comm_exposed_s": [0-9.e+-]+/)
            left = whole = substr($0, RSTART + 18, RLENGTH - 18)
            match($0, /"comm_exposed_axis_s": [{][^}]*[}]/)
            n = split(substr($0, RSTART + 24, RLENGTH - 25), part, ", ")
            found = ""
            for (i = 1; i <= n; i++) {
                split(part[i], of, ": ")
                gsub(/"/, "", of[1])
                found = found (i > 1 ? " " : "") of[1]
                left -= of[2]
            }
            if (found != axes || left > 1e-9 || left < -1e-9) { print; exit 1 }
        } END { exit !NR }' "$tmp/$1/metrics.jsonl" ||
        fail "$1: exposed communication by axis ($2) is not all of it"
    all_above "$1" compute_s 0
    all_above "$1" optimizer_s 0
    grep -q '"step_parts": {' "$tmp/$1/bench.json" || fail "$1: no step_parts"
}
by_axis bench-single ""
by_axis bench-processes "world dp"
by_axis bench-stages "world pp dp"
for file in trace.json passes.json summary.json metrics.jsonl config.ini; do
    [ -s "$tmp/bench-stages/$file" ] || fail "stages: no $file"
done
if [ "$lean" = 0 ]; then
    bench shards "strategy.stack=zero:2" zero.stage=3 comm.ranks=processes
    bench products "strategy.stack=tensor:2, ddp:2" tensor.sequence_parallel=yes
    bench instances "strategy.stack=mig:2" run.exact=yes
    bench half train.precision=fp16 strategy.stack=ddp:2
fi

# more steps than a training has, from a checkpoint, from its end, and without a warm-up
# shellcheck disable=SC2086
train text longer 0 $batch bench.warmup=0 bench.steps=6 bench.windows=2
measured longer 0 6 2
[ "$(wc -l <"$tmp/longer/metrics.jsonl")" -eq 12 ] || fail "longer: not 12 steps"
# shellcheck disable=SC2086
train text later 0 $batch bench.warmup=1 bench.steps=4 \
    "checkpoint.resume=$tmp/single/checkpoints/step-00000005"
measured later 1 4 1
steps_of later single 6 10
# shellcheck disable=SC2086
train text after 0 $batch bench.warmup=0 bench.steps=2 "checkpoint.resume=$(last single)"
[ "$(losses after | cut -d' ' -f1 | tr '\n' ' ')" = "11 12 " ] || fail "after: other steps"

# under a launcher: rank 0 says it once
# shellcheck disable=SC2086
start_ranks "file://$tmp/meet" launched $batch $saves $windows device.kind=cpu strategy.stack=ddp:2
end_ranks launched 0
mv "$tmp/launched.0.out" "$tmp/launched.out"
[ ! -s "$tmp/launched.1.out" ] || fail "launched: rank 1 prints too"
measured launched 2 3 2
steps_of launched processes 1 8

# independent runs: each has its windows, and their tokens a second are added
# shellcheck disable=SC2086
train text sweep 0 $batch $windows strategy.stack=mig:2 mig.mode=independent \
    "mig.sweep=optim.lr: 3e-3 1e-3"
for k in 0 1; do
    is "sweep/instance-$k" steps 3
    untouched "sweep/instance-$k"
done
steps_of sweep/instance-0 single 1 8
grep -qE '^1 +done ' "$tmp/sweep.out" || fail "sweep: no table"
grep -qE "^text: 6 steps with mig:2 timed, .* tokens/s" "$tmp/sweep.out" ||
    fail "sweep: its last line is '$(tail -n1 "$tmp/sweep.out")'"
# from a checkpoint: their metrics do not begin with step 1
# shellcheck disable=SC2086
train text sweep-later 0 $batch $windows strategy.stack=mig:2 mig.mode=independent \
    "checkpoint.resume=$(last single)"
steps=$(losses sweep-later/instance-1 | cut -d' ' -f1 | tr '\n' ' ')
[ "$steps" = "11 12 13 14 15 16 17 18 " ] || fail "sweep-later: steps $steps"
grep -qE '^all +[0-9.]+ +- +[0-9]' "$tmp/sweep-later.out" || fail "sweep-later: no figures"
grep -q '"tokens_per_s": ' "$tmp/sweep-later/summary.json" || fail "sweep-later: no summary"
# again, over the older one
# shellcheck disable=SC2086
train text sweep 0 $batch bench.steps=2 strategy.stack=mig:2 mig.mode=independent
is sweep/instance-1 steps 2

# Replicas that differ are averaged for an evaluation, and so not at the ends of a window:
# two windows more send two sums of 30 numbers (240 bytes a rank) and no parameters.
compiler=${CC:-gcc}
mkdir "$tmp/plugins"
${compiler#ccache } -std=c11 -O1 -fPIC -shared -I"$CADRE_SRC/include" \
    -o "$tmp/plugins/localsgd.so" "$CADRE_SRC/examples/plugin-localsgd/localsgd.c"
for n in 1 3; do
    # shellcheck disable=SC2086
    train text "apart-$n" 0 $batch bench.warmup=0 bench.steps=$((6 / n)) bench.windows=$n \
        "strategy.plugin_path=$tmp/plugins" strategy.stack=localsgd:2 localsgd.period=100
    sed -nE 's/^  "comm_bytes": ([0-9]+),/\1/p' "$tmp/apart-$n/summary.json" >"$tmp/apart-$n.bytes"
done
steps_of apart-3 apart-1 1 6
more=$(($(cat "$tmp/apart-3.bytes") - $(cat "$tmp/apart-1.bytes")))
if [ "$more" -lt 0 ] || [ "$more" -ge 1000 ]; then
    fail "localsgd: two windows more sent $more bytes"
fi

# ---- a target ----
# The first step at which the mean of the latest 3 losses is at most $1.
reached_at() {
    losses "$2" | awk -v target="$1" '{ l[NR] = $2 }
        NR >= 3 && (l[NR] + l[NR - 1] + l[NR - 2]) / 3 <= target { print NR; exit }'
}

target=$(losses processes | awk '{ l[NR] = $2 } END { print (l[5] + l[6] + l[7]) / 3 + 1e-3 }')
step=$(reached_at "$target" processes)
for ranks in threads processes; do
    # shellcheck disable=SC2086
    train text "target-$ranks" 0 $batch $saves strategy.stack=ddp:2 comm.ranks=$ranks \
        "bench.target=$target" bench.target_steps=3
    is "target-$ranks" reached true
    is "target-$ranks" target_step "$step"
    is "target-$ranks" steps "$step"
    is "target-$ranks" warmup 0
    all_above "target-$ranks" seconds 0
    steps_of "target-$ranks" processes 1 "$step"
    untouched "target-$ranks"
    grep -qE "^text: $step steps with ddp:2 timed, loss .* reached at step $step after" \
        "$tmp/target-$ranks.out" || fail "target: '$(tail -n1 "$tmp/target-$ranks.out")'"
done
# shellcheck disable=SC2086
train text never 0 $batch strategy.stack=ddp:2 bench.target=1e-6
is never reached false
is never target_step 0
is never steps 10
steps_of never processes 1 10
grep -q "loss 1e-06 not reached" "$tmp/never.out" || fail "never: was it reached?"

# a device whose reports are a step late ends all its windows at the same steps
standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ -e "$standin/device_cuda.so" ]; then
    export XDG_CACHE_HOME=$tmp/xdg
    export CADRE_MODULE_PATH=$standin
    small="train.steps=6 train.global_batch=2 train.micro_batch=1 train.eval_batches=1 \
        model.context=16 model.layers=1 device.kind=cuda"
    # shellcheck disable=SC2086
    train text late 0 $small
    # shellcheck disable=SC2086
    train text bench-late 0 $small bench.warmup=1 bench.steps=2 bench.windows=2
    measured bench-late 1 2 2
    steps_of bench-late late 1 5
    # shellcheck disable=SC2086
    train text late-target 0 $small bench.target=1000 bench.target_steps=3
    is late-target target_step 3
    is late-target steps 3
    steps_of late-target late 1 4 # the fourth had begun
    unset CADRE_MODULE_PATH
fi

# ---- folders ----
mkdir "$tmp/home"
for steps in 2 3; do # the second takes the first one's place
    (cd "$tmp/home" && runs own 0 "$cadre" train "$tmp/text.ini" --set "bench.steps=$steps")
    [ "$(sed -nE 's/^  "steps": ([0-9]+),/\1/p' "$tmp/home/runs/text-bench/bench.json")" = $steps ] ||
        fail "own: not $steps steps in runs/text-bench"
done
[ ! -e "$tmp/home/runs/text" ] || fail "own: the training's folder was made"
refused single "holds a run already .*another --out for the benchmark" bench.steps=2
# shellcheck disable=SC2086
refused single "holds a run already .*another --out for the benchmark" $batch bench.steps=2 \
    checkpoint.resume=auto
[ "$(wc -l <"$tmp/single/metrics.jsonl")" -eq 10 ] || fail "single: its steps were lost"
refused longer "holds a run already"

# ---- wrong input ----
refused two "bench.steps = 2 and bench.target = 3" bench.steps=2 bench.target=3
refused few "bench.target_steps = 30 is more than the 10 steps" train.steps=10 bench.target=3 \
    bench.target_steps=30
# shellcheck disable=SC2086
refused ended "has done 10 steps already" $batch bench.target=3 \
    "checkpoint.resume=$(last single)"
runs dry 0 "$cadre" train "$tmp/text.ini" --dry-run --set bench.steps=7
grep -q " 9 steps of " "$tmp/dry.out" || fail "dry: not 9 steps"

# ---- a signal ----
stopped() { # NAME [s.k=v]...
    start text "$1" bench.steps=1000000 "${@:2}"
    wait_steps "$1${folder:-}" 2
    kill -INT "$pid"
    ends "$1" 4
    grep -q "^cadre: stopped by a signal.* benchmark, which leaves no result" "$tmp/$1.log" ||
        fail "$1: $(tail -n1 "$tmp/$1.log")"
    untouched "$1${folder:-}"
    [ ! -e "$tmp/$1${folder:-}/bench.json" ] || fail "$1: has a result"
    no_orphan "$1"
}
stopped stop-threads strategy.stack=ddp:2
stopped stop-processes strategy.stack=ddp:2 comm.ranks=processes
if [ "$lean" = 0 ]; then
    stopped stop-single
    folder=/instance-0 stopped stop-sweep strategy.stack=mig:2 mig.mode=independent
fi
echo "benchmarks: ok"
