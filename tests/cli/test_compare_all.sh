#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# conf/compare-all.ini, with a smaller model: at least 12 layouts in one command, each with
# a certificate, and none that differs; and conf/compare-layouts.ini, all exact.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

small="model.channels=32 train.steps=4 train.eval_batches=1 compare.warmup=1 compare.time=no"
[ "$lean" = 1 ] && small+=" train.global_batch=8 train.micro_batch=1 data.window=32 model.context=32"
# shellcheck disable=SC2086 # words
settings $small "data.path=$mitdb" "data.cache=$tmp/cache"
runs all 0 "$cadre" compare "$CADRE_SRC/conf/compare-all.ini" --out "$tmp/all" "${sets[@]}"

count() { # PATTERN: how often the report has it
    grep -oE "$1" "$tmp/all/report.json" | wc -l
}
exact=$(count '"equal": *"exact"') within=$(count '"equal": *"within"')
echo "$exact runs exact, $within within"
[ $((exact + within)) -ge 12 ] || fail "fewer than 12 layouts"
# the runs with tensor, and the one without run.exact, are within; all others exact
splits=$(grep -cE '^strategy.stack = .*tensor' "$CADRE_SRC/conf/compare-all.ini")
[ "$within" -eq $((splits + 1)) ] || fail "$within runs are within, expected $((splits + 1))"
[ "$(count '"certificate": *\{')" -ge $((exact + within)) ] || fail "a run has no certificate"
[ "$(count '"equal": *"differs"')" -eq 0 ] || fail "a run differs"

# conf/compare-layouts.ini, where tensor joins the others: all have the bits of single
settings train.steps=3 train.eval_batches=1 "data.path=$mitdb" "data.cache=$tmp/cache"
runs layouts 0 "$cadre" compare "$CADRE_SRC/conf/compare-layouts.ini" --out "$tmp/layouts" "${sets[@]}"
exact=$(grep -oE '"equal": *"exact"' "$tmp/layouts/report.json" | wc -l)
[ "$exact" -eq "$(grep -c '^\[run:' "$CADRE_SRC/conf/compare-layouts.ini")" ] ||
    fail "only $exact layouts have the bits of single"
