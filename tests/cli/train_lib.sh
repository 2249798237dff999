# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests that drive the built program. CADRE_BUILD is the build folder,
# CADRE_TEST_SLOW=1 asks for every pair of what can be combined ($slow is 1), =2 for every
# combination ($full is 1 too), CADRE_TEST_LEAN=1 (instrumented builds) for the fewest. Nothing
# is asserted about speed: what must happen is waited for, and whoever waits gives up after $hang
# seconds, 60 times CADRE_TEST_PATIENCE.
set -euo pipefail
cadre=$CADRE_BUILD/cadre
differ=$CADRE_BUILD/train_diff
export slow=${CADRE_TEST_SLOW:-0} lean=${CADRE_TEST_LEAN:-0}
export full=0
[ "$slow" != 2 ] || slow=1 full=1
patience=${CADRE_TEST_PATIENCE:-1}
hang=$((60 * patience))
tmp=$(mktemp -d)
started=()

clean_up() {
    local pid mine
    mine=$(jobs -p) # a number that was waited for may be another process's by now
    for pid in "${started[@]}"; do
        if grep -qx "$pid" <<<"$mine"; then
            disown "$pid" 2>/dev/null || true # bash would say who was killed
            kill -9 "$pid" 2>/dev/null || true
        fi
    done
    rm -rf "$tmp"
}
trap clean_up EXIT

fail() {
    echo "FAIL: $*"
    exit 1
}

skip() {
    echo "SKIP: $*"
    exit 77
}

# test_plugin NAME: the path of a plugin of tests/plugins.
test_plugin() {
    local path=$CADRE_BUILD/tests/plugins/.libs/$1.so
    if [ ! -e "$path" ]; then
        echo "FAIL: there is no '$path': make tests/plugins/$1.la, as 'make check' does" >&2
        return 1
    fi
    echo "$path"
}

# let_crash: a crash ends the program as it would without a sanitizer, which reports and exits.
let_crash() {
    local as_is=handle_segv=0:handle_abort=0
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}$as_is
    export TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}$as_is
}

# settings [s.k=v]...: as arguments of the program, in $sets.
settings() {
    local set
    sets=()
    for set in "$@"; do
        sets+=(--set "$set")
    done
}

# runs NAME STATUS COMMAND...: its output is NAME.out, its log NAME.log. Fails unless it ends
# with STATUS.
runs() {
    local name=$1 want=$2 status=0
    shift 2
    "$@" >"$tmp/$name.out" 2>"$tmp/$name.log" || status=$?
    if [ "$status" -ne "$want" ]; then
        cat "$tmp/$name.log"
        fail "$name (${*:3}): exit status $status, expected $want"
    fi
}

# Text with some structure, the same everywhere.
awk 'BEGIN {
    split("the heart beats and a model reads what the lead has written down", w, " ")
    x = 7
    for (i = 0; i < 4000; i++) {
        x = (x * 1103 + 12345) % 65536
        printf "%s%s", w[1 + x % 13], (x % 97 == 0) ? ".\n" : " "
    }
}' >"$tmp/text.txt"

# The smallest model that has every part: two blocks, several heads, tied head.
cat >"$tmp/text.ini" <<EOF
[model]
layers = 2
channels = 32
heads = 2
context = 32
[data]
path = $tmp/text.txt
cache = $tmp/cache
[train]
steps = 20
global_batch = 16
micro_batch = 2
eval_batches = 4
[optim]
lr = 3e-3
clip = 1
EOF

mitdb=$CADRE_SRC/tests/samples/mitdb
cat >"$tmp/ecg.ini" <<EOF
[model]
layers = 1
channels = 32
heads = 2
context = 64
[data]
format = wfdb
path = $mitdb
window = 64
valid_records = 119
cache = $tmp/cache
[train]
steps = 20
global_batch = 16
micro_batch = 2
eval_batches = 2
[optim]
lr = 3e-3
EOF

# train CONF NAME STATUS [s.k=v]...: trains CONF.ini into the folder NAME, as `runs`.
train() {
    local sets
    settings "${@:4}"
    runs "$2" "$3" "$cadre" train "$tmp/$1.ini" --out "$tmp/$2" "${sets[@]}"
}

# compare NAME STATUS [s.k=v]...: the runs of text.ini, into the folder NAME, as `runs`; they
# are not timed unless compare.time=yes says so.
compare() {
    local sets
    settings compare.time=no "${@:3}"
    runs "$1" "$2" "$cadre" compare "$tmp/text.ini" --out "$tmp/$1" "${sets[@]}"
}

# says NAME PATTERN: NAME's log has one line of the program, and that has PATTERN.
says() {
    if ! grep '^cadre: ' "$tmp/$1.log" | grep -E "$2" >/dev/null; then
        cat "$tmp/$1.log"
        fail "$1: no line 'cadre: ...' with '$2'"
    fi
    [ "$(grep -c '^cadre: ' "$tmp/$1.log")" -eq 1 ] || fail "$1: more than one error line"
}

# refused NAME PATTERN [s.k=v]...: training text.ini so is wrong input, and the one line of
# the log says why.
refused() {
    train text "$1" 2 "${@:3}"
    says "$1" "$2"
}

# The losses of a run, a line a step; %.17g, so equal text is equal bits.
losses() {
    sed -E 's/.*"step": ?([0-9]+).*"loss": ?([^,]+), ?"grad_norm": ?([^,]+),.*/\1 \2 \3/' \
        "$tmp/$1/metrics.jsonl"
}

# Folder of a run's last checkpoint, nothing where there is none. No `find`, which fails
# where what it has seen is renamed by a run at work.
last() {
    local all=("$tmp/$1/checkpoints/"step-????????)
    [ ! -d "${all[-1]}" ] || echo "${all[-1]}"
}

# same A B: losses, gradient norms and checkpoints have equal bits.
same() {
    local file
    if ! diff <(losses "$1") <(losses "$2") >"$tmp/diff"; then
        head "$tmp/diff"
        fail "the losses of $1 and $2 differ"
    fi
    for file in "$(last "$1")"/{*model,optimizer}.safetensors; do
        cmp "$file" "$(last "$2")/${file##*/}" || fail "${file##*/} of $1 and $2 differ"
    done
}

# close_to A B LOSS PARAM: the largest differences of losses and parameters stay within
# the limits; prints them.
close_to() {
    local loss param
    loss=$(paste <(losses "$1") <(losses "$2") | awk '{
        d = $2 - $5; if (d < 0) d = -d; if (d > most) most = d
    } END { printf "%.3g", most }')
    param=$("$differ" "$(last "$1")/model.safetensors" "$(last "$2")/model.safetensors")
    echo "$1 against $2: losses differ by $loss, parameters by $param"
    awk -v l="$loss" -v p="$param" -v ll="$3" -v pl="$4" \
        'BEGIN { exit !(l <= ll && p <= pl) }' ||
        fail "$1 against $2: more than $3 (losses) or $4 (parameters)"
}

# start CONF NAME [s.k=v]...: trains in the background; its process id is in $pid.
start() {
    local sets
    settings "${@:3}"
    "$cadre" train "$tmp/$1.ini" --out "$tmp/$2" "${sets[@]}" >"$tmp/$2.out" 2>"$tmp/$2.log" &
    pid=$!
    started+=("$pid")
}

# cores: how many Cadre uses here, which a limit of CPU time makes fewer than nproc says.
cores() {
    local limited
    limited=$("$cadre" doctor | sed -n 's/.* leaves [0-9.]* cores, used as \([0-9]*\)$/\1/p')
    echo "${limited:-$(nproc)}"
}

# start_ranks WHERE NAME [s.k=v]...: ranks 0 and 1 of text.ini, as a launcher would start them,
# which meet at WHERE; their process ids are in $pids, their logs NAME.RANK.log. Words of
# before[RANK] come before the program, each[RANK] is a setting more.
start_ranks() {
    local rank sets
    settings "${@:3}"
    pids=()
    for rank in 0 1; do
        # shellcheck disable=SC2086 # words
        CADRE_INIT=$1 CADRE_WORLD_SIZE=2 CADRE_RANK=$rank CADRE_LOCAL_RANK=$rank \
            ${before[rank]:-} "$cadre" train "$tmp/text.ini" --out "$tmp/$2" "${sets[@]}" \
            ${each[rank]:+--set "${each[rank]}"} >"$tmp/$2.$rank.out" 2>"$tmp/$2.$rank.log" &
        pids[rank]=$!
        started+=("$!")
    done
}
before=() each=()

# end_ranks NAME STATUS: they end so.
end_ranks() {
    local rank
    for rank in 0 1; do
        pid=${pids[rank]}
        ends "$1.$rank" "$2"
    done
}

# run_of PID: the process that does what the program in PID was asked for: its supervisor
# opens no plugin and trains nothing. Nothing where there is none yet.
run_of() {
    pgrep -P "$1" || true
}

# rank_of PID RANK: the process of a rank of the run that PID supervises.
rank_of() {
    local one run
    run=$(run_of "$1")
    for one in $([ -z "$run" ] || pgrep -P "$run"); do
        if { tr '\0' '\n' <"/proc/$one/environ"; } 2>/dev/null |
            grep -x "CADRE_RANK=$2" >/dev/null; then # -q would cut tr off: pipefail
            echo "$one"
        fi
    done
}

# until_so NAME WHAT COMMAND...: until the command succeeds while the program in $pid runs,
# whose log is NAME.log; or the time of a hang is over.
until_so() {
    local name=$1 what=$2 begin=$SECONDS
    shift 2
    until "$@"; do
        if ! kill -0 "$pid" 2>/dev/null && ! "$@"; then
            cat "$tmp/$name.log"
            fail "$name ended before $what"
        fi
        if [ $((SECONDS - begin)) -ge "$hang" ]; then
            cat "$tmp/$name.log"
            fail "$name: no $what within $hang s"
        fi
        sleep 0.02
    done
}

has_steps() { # NAME N: there are N steps in the metrics
    [ -e "$tmp/$1/metrics.jsonl" ] && [ "$(wc -l <"$tmp/$1/metrics.jsonl")" -ge "$2" ]
}

# wait_steps NAME N: until N steps are in the metrics.
wait_steps() {
    until_so "$1" "step $2" has_steps "$1" "$2"
}

# wait_begun NAME: until the run has its folder; signals are handled from then on.
wait_begun() {
    until_so "$1" "folder" test -e "$tmp/$1/config.ini"
}

# ends NAME STATUS: the program in $pid ends by itself, with one of the statuses "A|B"; its
# own is then in $status.
ends() {
    local begin=$SECONDS
    status=0
    while kill -0 "$pid" 2>/dev/null; do
        if [ $((SECONDS - begin)) -ge "$hang" ]; then
            kill -9 "$pid" 2>/dev/null || true
            break
        fi
        sleep 0.02
    done
    wait "$pid" || status=$?
    if [[ "|$2|" != *"|$status|"* ]]; then
        cat "$tmp/$1.log"
        fail "$1 ended with $status after $((SECONDS - begin)) s, expected $2"
    fi
}

# Processes of this test's runs that are still there.
orphans() {
    pgrep -f -- "train $tmp/" || true
}

no_orphan() {
    local begin=$SECONDS
    while [ -n "$(orphans)" ]; do
        [ $((SECONDS - begin)) -lt "$hang" ] ||
            fail "$1: processes left: $(orphans | tr '\n' ' ')"
        sleep 0.02
    done
}

# free_port [STEP]: a port P of this machine that nobody listens at, nor at P + STEP.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
        (exec 3<>"/dev/tcp/127.0.0.1/$((port + ${1:-0}))") 2>/dev/null && continue
        break
    done
    echo "$port"
}
