#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries yourname.so with an installed Cadre ($CADRE, the program): seconds. Fails where a
# run of yourname.ini trains otherwise than the first of them.
# FILL IN: what your strategy promises besides, and that it refuses what it cannot do.
set -euo pipefail
cd "$(dirname "$0")"
cadre=${CADRE:-cadre}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$cadre" inspect ./yourname.so
"$cadre" train yourname.ini --dry-run
"$cadre" train yourname.ini --out "$scratch/run"
echo "ok: trains"

for exact in no yes; do
    "$cadre" compare yourname.ini --out "$scratch/exact-$exact" --set run.exact=$exact
    echo "ok: compares, run.exact = $exact"
done

steps=$scratch/run/checkpoints/step-00000010
"$cadre" train yourname.ini --out "$scratch/resumed" --set train.steps=12 \
    --set checkpoint.resume="$steps"
echo "ok: resumes"
