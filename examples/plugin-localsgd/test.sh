#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries localsgd.so with an installed Cadre ($CADRE, the program): seconds.
set -euo pipefail
cd "$(dirname "$0")"
cadre=${CADRE:-cadre}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "FAILED: $*"
    cat "$scratch/log"
    exit 1
}

# train NAME SETTING...: trains localsgd.ini with other settings.
train() {
    local name=$1 setting args=()
    shift
    for setting; do args+=(--set "$setting"); done
    "$cadre" train localsgd.ini --out "$scratch/$name" "${args[@]}" >"$scratch/log" 2>&1
}

# refused TEXT SETTING...: the run is refused, in words that hold TEXT.
refused() {
    local text=$1
    shift
    if train refused "$@"; then
        die "trained with $*"
    fi
    grep -q -- "$text" "$scratch/log" || die "refused without '$text'"
    rm -rf "$scratch/refused"
}

# losses NAME [FROM]: step and loss, from a step on.
losses() {
    sed -nE 's/.*"step": ([0-9]+),.*"loss": ([^,]+),.*/\1 \2/p' "$scratch/$1/metrics.jsonl" |
        awk -v from="${2:-1}" '$1 >= from'
}

# apart A B: the largest difference of two runs' losses.
apart() {
    paste <(losses "$1") <(losses "$2") | awk '
        { d = $2 - $4; if (d < 0) d = -d; if (d > max) max = d }
        END { if (!NR) exit 1; printf "%.3g\n", max }'
}

less() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'
}

"$cadre" inspect localsgd.so
"$cadre" train localsgd.ini --dry-run

train two || die "2 ranks"
train four strategy.stack=localsgd:4 || die "4 ranks"
train processes comm.ranks=processes || die "processes"
[ "$(losses two)" = "$(losses processes)" ] || die "threads and processes differ"
for run in two four; do
    less "$(losses $run 40 | cut -d' ' -f2)" "$(losses $run | head -n 1 | cut -d' ' -f2)" ||
        die "$run did not learn"
done
echo "ok: trains on 2 and 4 ranks"

train watched train.eval_every=1 || die "evaluation in every step"
[ "$(losses two)" = "$(losses watched)" ] || die "an evaluation changed the training"
echo "ok: an evaluation shows the mean and leaves the replicas alone"

train ddp strategy.stack=ddp:2 || die "ddp"
train every localsgd.period=1 || die "period 1"
less "$(apart ddp every)" 1e-5 || die "period 1 is $(apart ddp every) from ddp"
less 1e-4 "$(apart ddp two)" || die "period 4 is only $(apart ddp two) from ddp"
echo "ok: period 1 is $(apart ddp every) from ddp, period 4 $(apart ddp two)"

# At an average all replicas are one: nothing is lost by stopping there.
train half train.steps=20 || die "half"
from=checkpoint.resume=$scratch/half/checkpoints/step-00000020
train rest "$from" || die "resume"
[ "$(losses two 21)" = "$(losses rest)" ] || die "a resumed run is another training"
train wider "$from" strategy.stack=localsgd:4 || die "resume on 4 ranks"
train plain "$from" strategy.stack=single || die "resume by single"
train between train.steps=18 || die "18 steps"
train after "checkpoint.resume=$scratch/between/checkpoints/step-00000018" \
    strategy.stack=localsgd:4 || die "resume between averages"
echo "ok: resumes, at another size too"

refused "run.exact" run.exact=yes
refused "grad.reduce@dp" strategy.stack=localsgd:2,ddp:2
echo "ok: what it cannot do is refused"
