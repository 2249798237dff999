#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What outsiders of the ABI tried, again: every misuse of tests/plugins/outsider/table.tsv ends
# as its row says, in one line that names the plugin, the callback and what to do; reducers
# and readers stack in any order; and what could not be written is answered by a plugin or a
# named slot (answers.tsv). Instrumented builds run the rows of threads alone.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
here=$CADRE_SRC/tests/plugins/outsider
built=$CADRE_BUILD/tests/plugins/outsider/.libs
unset CADRE_PLUGIN_PATH
let_crash

mkdir "$tmp/shadow" "$tmp/rows"
cp "$built/outsider_ddp.so" "$tmp/shadow/ddp.so"
cat >"$tmp/tiny.ini" <<EOF
[model]
layers = 1
channels = 16
heads = 2
context = 16
[data]
path = $tmp/text.txt
cache = $tmp/cache
[train]
steps = 3
global_batch = 8
micro_batch = 1
eval_batches = 1
[optim]
lr = 3e-3
clip = 1
[strategy]
plugin_path = $built
EOF

# section_of STACK: the ini section whose option `misuse` says what is done; nothing where the
# plugin is wrong as it is.
section_of() {
    case $1 in
    *outsider:* | *outsider@*) echo outsider ;;
    *outsider_schedule:*) echo outsider_schedule ;;
    esac
}

# ---- a row ----

# has_all FILE TEXTS: one line of the file has every pattern of TEXTS, " & " between.
has_all() {
    local text rest=$2 lines
    lines=$(cat "$1")
    while [ -n "$rest" ]; do
        text=${rest%% & *}
        rest=${rest#"$text"}
        rest=${rest#" & "}
        lines=$(grep -E -- "$text" <<<"$lines") || return 1
    done
}

# wait_hung NUMBER: until step 1 is over, and a little for the callback that does not return,
# which is in step 2; it can say nothing itself.
wait_hung() {
    local begin=$SECONDS
    until has_steps "rows/$1" 1; do
        [ $((SECONDS - begin)) -lt "$hang" ] || return 1
        sleep 0.05
    done
    sleep 0.5
}

# start_row NUMBER STACK RANKS [SETTING]...: `cadre train` of tiny.ini, in $pid.
start_row() {
    local sets out=$tmp/rows/$1
    settings "strategy.stack=$2" "comm.ranks=$3" "${@:4}"
    timeout -k "$hang" "$hang" "$cadre" train "$tmp/tiny.ini" --out "$out" "${sets[@]}" \
        >"$out.out" 2>"$out.log" &
    pid=$!
}

# judge STATUS WANT TEXTS LOG: prints what is wrong.
judge() {
    local lines
    grep -qxE "$2" <<<"$1" || echo "exit status $1, expected $2"
    lines=$(grep -c '^cadre: ' "$4" || true)
    if [ "$3" = - ]; then
        [ "$1" -ne 0 ] || [ "$lines" -eq 0 ] || echo "$lines lines 'cadre: ...', expected none"
    elif [ "$2" = 0 ]; then
        has_all "$4" "$3" || echo "no line of the log has: $3"
    else
        [ "$lines" -eq 1 ] || echo "$lines lines 'cadre: ...', expected one"
        grep '^cadre: ' "$4" >"$4.said" || true
        has_all "$4.said" "$3" || echo "no line 'cadre: ...' has: $3"
    fi
}

# row NUMBER NAME STACK HOW STATUS TEXTS SETTINGS: what is wrong goes to rows/NUMBER.wrong.
row() {
    local number=$1 name=$2 stack=$3 how=$4 status=0 section i more=() at=$tmp/rows/$1
    read -ra more <<<"$7"
    for i in "${!more[@]}"; do # instrumented code is slow, and no hang
        [[ ${more[i]} != comm.timeout=* ]] ||
            more[i]=comm.timeout=$((${more[i]#comm.timeout=} * patience))
    done
    section=$(section_of "$stack")
    [ -z "$section" ] || more+=("$section.misuse=$name")
    case $how in
    shadow) start_row "$number" "$stack" threads "strategy.plugin_path=$tmp/shadow" ;;
    signal*)
        start_row "$number" "$stack" "${how#signal }" "${more[@]}"
        wait_hung "$number" && kill -TERM "$pid"
        ;;
    *) start_row "$number" "$stack" "$how" "${more[@]}" ;;
    esac
    wait "$pid" || status=$?
    judge "$status" "$5" "$6" "$at.log" >"$at.wrong"
    [ -s "$at.wrong" ] || rm -f "$at.wrong"
    rm -rf "$at"
    touch "$at.judged"
}

# ---- the table ----

# Rows wait more than they compute, so several run at once.
most=$((2 * $(nproc) + 1))
number=0
while IFS=$'\t' read -r name stack how status texts more; do
    case $name in '' | '#'*) continue ;; esac
    [ "$how" != compare ] || continue
    if [ "$lean" = 1 ] && [[ $how == *processes* ]]; then
        continue
    fi
    number=$((number + 1))
    echo "$name, $stack, $how" >"$tmp/rows/$number.name"
    while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n || true; done
    row "$number" "$name" "$stack" "$how" "$status" "$texts" "$more" &
done <"$here/table.tsv"
wait
judged=$(find "$tmp/rows" -name '*.judged' | wc -l)
rows=$(awk -F '\t' -v lean="$lean" '
    /^#/ || $1 == "" || $3 == "compare" || (lean == 1 && $3 ~ /processes/) { next }
    { n++ }
    END { print n + 0 }' "$here/table.tsv")
[ "$rows" -gt 0 ] && [ "$judged" -eq "$rows" ] || fail "$judged of $rows rows were judged"
wrong=0
for file in "$tmp"/rows/*.wrong; do
    [ -e "$file" ] || continue
    at=${file%.wrong}
    echo "--- $(cat "$at.name"):"
    sed 's/^/    /' "$file"
    tail -n 3 "$at.log" | sed 's/^/    | /'
    wrong=$((wrong + 1))
done
echo "$number misuses, $wrong not as their rows say"

# ---- what only a comparison finds ----

{
    cat "$tmp/tiny.ini"
    printf '[run:single]\nstrategy.stack = single\n[run:good]\nstrategy.stack = outsider:2\n'
    while IFS=$'\t' read -r name stack how _ _ more; do
        [ "$how" = compare ] || continue
        printf '[run:%s]\nstrategy.stack = %s\noutsider.misuse = %s\n' "$name" "$stack" "$name"
        [ -z "$more" ] || tr ' ' '\n' <<<"$more"
    done < <(grep -v '^#' "$here/table.tsv")
} >"$tmp/differ.ini"
runs differ 3 "$cadre" compare "$tmp/differ.ini" --out "$tmp/differ" --set compare.time=no
tr '\n' ' ' <"$tmp/differ.out" >"$tmp/differ.words"
grep -qE '^good .* (within|exact)$' "$tmp/differ.out" || wrong=$((wrong + 1))
while IFS=$'\t' read -r name _ how _ texts _; do
    [ "$how" = compare ] || continue
    if ! grep -qE "$name $texts" "$tmp/differ.words"; then
        echo "--- $name, compared: expected '$name $texts' in:"
        cat "$tmp/differ.out"
        wrong=$((wrong + 1))
    fi
done < <(grep -v '^#' "$here/table.tsv")

# ---- reducers in any order ----

# In exact mode the bits are those of single, whichever of two reducers the text names first.
{
    cat "$tmp/tiny.ini"
    cat <<'EOF'
[run:single]
strategy.stack = single
[run:inner-first]
strategy.stack = zero:2, outsider@site:2
outsider@site.level = 16
zero.stage = 2
[run:outer-first]
strategy.stack = outsider@site:2, zero:2
outsider@site.level = 16
zero.stage = 2
[run:each-micro-batch]
strategy.stack = outsider@site:2, zero:2
outsider@site.level = 16
zero.stage = 2
zero.reduce = microbatch
[run:twice]
strategy.stack = outsider@site:2, outsider:2
outsider@site.level = 16
[run:shipped-inner-first]
strategy.stack = zero:2, hsdp:2
zero.stage = 3
[run:shipped-outer-first]
strategy.stack = hsdp:2, zero:2
zero.stage = 3
EOF
} >"$tmp/order.ini"
runs order 0 "$cadre" compare "$tmp/order.ini" --out "$tmp/order" --set compare.time=no \
    --set run.exact=yes
exact=$(grep -cE ' exact$' "$tmp/order.out" || true)
[ "$exact" -ge 6 ] || {
    cat "$tmp/order.out"
    fail "$exact stacks of two reducers are exact, expected 6"
}

# ---- readers of what is still on its way ----

# stacked NAME STACK [SETTING]...: a training of tiny.ini.
stacked() {
    local sets
    settings "strategy.stack=$2" "${@:3}"
    runs "$1" 0 "$cadre" train "$tmp/tiny.ini" --out "$tmp/$1" "${sets[@]}"
}

# read_by NAME: what the plugin has read of parameters and its state, a line a step and rank.
read_by() {
    grep -o 'outsider read .*' "$tmp/$1.log" | sort
}

reader=(outsider.level=16 outsider.reads=yes outsider.keeps=yes)
for stage in 1 2; do
    for overlap in no yes; do
        stacked "read-$stage-$overlap" 'outsider@site:2, zero:2' "zero.stage=$stage" \
            "zero.overlap=$overlap" "${reader[@]}"
    done
    [ "$(read_by "read-$stage-no" | wc -l)" -eq 12 ] || fail "stage $stage: nothing was read"
    diff <(read_by "read-$stage-no") <(read_by "read-$stage-yes") ||
        fail "stage $stage: the reader sees other parameters while they are gathered"
done

# ---- the state of a plugin over shards ----

zero3=('outsider@site:2, zero:2' zero.stage=3 "${reader[@]}")
stacked whole "${zero3[@]}" train.steps=6
stacked half "${zero3[@]}"
stacked rest "${zero3[@]}" train.steps=6 "checkpoint.resume=$(last half)"
diff <(read_by whole | grep -E 'step [456] ') <(read_by rest) ||
    fail "the state of a plugin over zero's shards is not what it was"

# ---- who divides the model is a claim ----

stacked tensor tensor:2
stacked beside 'outsider_intra:1, tensor:2'
same tensor beside

# ---- what could not be written ----

# is_run TEST: `make check` runs it: its folder's list names it, and a table is read here.
is_run() {
    case $1 in
    tests/plugins/outsider/table.tsv) return 0 ;;
    *) grep -qF -- "$(basename "$1")" "$CADRE_SRC/$(dirname "$1")/Makefile.inc" ;;
    esac
}

# missing WHAT TEXT: a row without its answer.
missing() {
    echo "--- $1: $2"
    wrong=$((wrong + 1))
}

answers=0
while IFS=$'\t' read -r what answer file pattern test in_test; do
    case $what in '' | '#'*) continue ;; esac
    answers=$((answers + 1))
    case $answer in
    slot | reserved | plugin | "plugin of tests" | "plugin of examples" | template) ;;
    *) missing "$what" "'$answer' is no answer" ;;
    esac
    grep -qE -- "$pattern" "$CADRE_SRC/$file" || missing "$what" "no '$pattern' in $file"
    [ -n "$test" ] && [ -n "$in_test" ] && grep -qE -- "$in_test" "$CADRE_SRC/$test" ||
        missing "$what" "no '$in_test' in the test $test"
    is_run "$test" || missing "$what" "$test is not run"
done <"$here/answers.tsv"
[ "$answers" -ge 42 ] || missing answers.tsv "$answers rows, expected 42"
for topic in "context parallelism" "expert parallelism" ZeRO++ "asynchronous SGD" optimizers \
    LoRA fp8; do # what section by section was "no"
    grep -q "^$topic: " "$here/answers.tsv" || missing "$topic" "no answer"
done

[ "$wrong" -eq 0 ] || fail "$wrong rows"
