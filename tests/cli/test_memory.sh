#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What --dry-run says that each rank takes is what it took, within 3 %: of what was asked for
# (summary.json's peak_bytes), as what is resident depends on how a test was built.
. "$CADRE_SRC/tests/cli/train_lib.sh"

# held NAME [option]...: trains two steps and holds each rank to its plan.
held() {
    local name=$1
    shift
    "$cadre" train "$tmp/text.ini" --dry-run "$@" >"$tmp/$name.plan" || fail "$name: no plan"
    "$cadre" train "$tmp/text.ini" --out "$tmp/$name" --set train.steps=2 "$@" \
        >/dev/null 2>"$tmp/$name.log" || fail "$name: $(cat "$tmp/$name.log")"
    awk -v name="$name" '
        /^  total / { plan[planned++] = $2 * 1048576 }
        /"peak_bytes"/ { inside = 1; next }
        inside && /\]/ { inside = 0 }
        inside { took[n++] = $1 + 0 }
        /"resident_bytes"/ { found = 1 }
        END {
            if (n == 0 || n != planned || !found)
                exit 1
            for (i = 0; i < n; i++)
                if (plan[i] < 0.97 * took[i] || plan[i] > 1.03 * took[i]) {
                    print name ": rank " i " planned " plan[i] ", took " took[i]
                    exit 1
                }
        }' "$tmp/$name.plan" "$tmp/$name/summary.json" >&2 || fail "$name: not as planned"
}

wide=(--set model.channels=64 --set train.global_batch=8)
held single "${wide[@]}"
held recompute "${wide[@]}" --set train.recompute=block --set train.precision=bf16
held ddp "${wide[@]}" --set strategy.stack=ddp:2 --set comm.ranks=processes
held zero3 "${wide[@]}" --set strategy.stack=zero:2 --set zero.stage=3
held pipeline "${wide[@]}" --set strategy.stack=pipeline:2
held ranges "${wide[@]}" --set strategy.stack=diloco:2,zero:2
if [ "$lean" = 0 ]; then
    held zero1 "${wide[@]}" --set strategy.stack=zero:2 --set zero.stage=1
    held zero2 "${wide[@]}" --set strategy.stack=zero:2 --set zero.stage=2
    held coded "${wide[@]}" --set strategy.stack=zero:2 --set optim.name=adamw8bit
    held factored "${wide[@]}" --set strategy.stack=zero:2 --set optim.name=adafactor
    held exact "${wide[@]}" --set strategy.stack=ddp:2 --set run.exact=yes
fi

# One line more, about what is resident: this process, the plan, and what libraries take.
grep -Eq '^in memory: about [0-9.]+ MiB in the process; of it [0-9.]+ MiB for the program' \
    "$tmp/single.plan" || fail "the plan does not say what will be in memory"
grep -q "^in memory: .* in the largest process" "$tmp/ddp.plan" ||
    fail "ranks that are processes: not one of them"
grep -q '^in memory: .* in the process of all ranks' "$tmp/zero3.plan" ||
    fail "ranks that are threads: not all of them"

# What was resident is a number for each process: threads share one.
processes() { # NAME: how many resident_bytes has
    awk '/"resident_bytes"/ { inside = 1; next } inside && /\]/ { exit } inside { n++ }
        END { print n }' "$tmp/$1/summary.json"
}
[ "$(processes ddp)" -eq 2 ] || fail "two processes: $(processes ddp) resident_bytes"
[ "$(processes zero3)" -eq 1 ] || fail "two threads: $(processes zero3) resident_bytes"
