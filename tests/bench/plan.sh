#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/plan.sh: forecasts of published training steps, every row and the errors of each
# set. Needs a built tree (CADRE_BUILD, or build/); takes no time.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
echo '```'
for table in published more; do
    echo "tests/samples/planner/$table.csv"
    "$cadre" plan --replay "$top/tests/samples/planner/$table.csv" \
        --hardware "$top/conf/hardware/texts.tsv"
    echo
done
echo '```'
