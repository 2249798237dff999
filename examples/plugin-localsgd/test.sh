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

# refused TEXT SETTING...: the run is refused with an error that contains TEXT.
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

# apart A B: the largest difference of two runs' losses, at the steps that both made.
apart() {
    join <(losses "$1" | sort) <(losses "$2" | sort) | awk '
        { d = $2 - $3; if (d < 0) d = -d; if (d > max) max = d }
        END { if (!NR) { print "inf"; exit }; printf "%.3g\n", max }'
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
echo "ok: an evaluation uses the mean and does not change the replicas"

train narrow train.precision=bf16 || die "bf16"
train narrow-watched train.precision=bf16 train.eval_every=1 || die "bf16, evaluated"
[ "$(losses narrow)" = "$(losses narrow-watched)" ] || die "bf16: an evaluation counts"
less "$(apart two narrow)" 0.1 || die "bf16 is $(apart two narrow) from fp32"
echo "ok: averages master values where parameters have 16 bits"

# Differing by design is no failure; with an average after each step nothing differs.
"$cadre" compare compare.ini --out "$scratch/compare" >"$scratch/log" 2>&1 || die "compare"
grep -E '^(ddp|every|momentum)' "$scratch/log"
grep -qE '^every-step .* within$' "$scratch/log" || die "period 1 is not ddp"
for run in every-fourth momentum; do
    grep -qE "^$run .* by design$" "$scratch/log" || die "$run: expected 'by design'"
    grep -q "^$run .* differs from ddp by design" "$scratch/log" || die "$run: no word"
done
echo "ok: period 1 is ddp, others differ by design"

# After an average all replicas are equal: nothing is lost by stopping there.
outer="localsgd.momentum=0.5 localsgd.lr=0.7"
# shellcheck disable=SC2086 # words
{
    train whole $outer || die "outer momentum"
    train half $outer train.steps=20 || die "half"
    half=$scratch/half/checkpoints/step-00000020
    from=checkpoint.resume=$half
    train rest $outer "$from" || die "resume"
    [ "$(losses whole 21)" = "$(losses rest)" ] || die "a resumed run is another training"
    train wider $outer "$from" strategy.stack=localsgd:4 || die "resume on 4 ranks"
    train plain "$from" strategy.stack=single || die "resume by single"
}
train between train.steps=18 || die "18 steps"
from=checkpoint.resume=$scratch/between/checkpoints/step-00000018
train after "$from" strategy.stack=localsgd:4 || die "resume between averages"
train begun "$from" localsgd.momentum=0.5 || die "resume what had no momentum"
echo "ok: resumes, at another size too"

# Stacked: a rank averages the part that it holds. Each replica is clipped by its own
# norm, wherever its parts lie.
train clipped optim.clip=0.5 || die "clip"
for stack in "pipeline:2, localsgd:2" "tensor:2, localsgd:2"; do
    "$cadre" train localsgd.ini --dry-run --set "strategy.stack=$stack" >/dev/null 2>&1 ||
        continue # a Cadre without that strategy
    rm -rf "$scratch/stacked"
    train stacked optim.clip=0.5 "strategy.stack=$stack" || die "$stack"
    less "$(apart clipped stacked)" 1e-4 ||
        die "$stack is $(apart clipped stacked) from localsgd:2"
    rm -rf "$scratch/again"
    # shellcheck disable=SC2086
    train again $outer "checkpoint.resume=$half" "strategy.stack=$stack" ||
        die "resume by $stack"
    less "$(apart whole again)" 1e-4 || die "$stack resumed is $(apart whole again) off"
    echo "ok: $stack trains and resumes as localsgd:2, $(apart clipped stacked) apart"
done

refused "run.exact" run.exact=yes
refused "param.diverges" strategy.stack=localsgd:2,ddp:2
echo "ok: what it cannot do is refused"
