#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hangs that are made, of four ranks over MPI: on one machine, and on four hosts that do not see
# each other's processes. A rank that CADRE_TEST_SEED chooses hangs in one of the ways below
# (tests/support/hang.c), and every line by which the others end must name it and its kind. How long
# after comm.timeout the first line came is printed, not judged. CADRE_TEST_SLOW=2: HANGS (40) on
# the machine and as many on the hosts.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
cadre=$CADRE_BUILD/cadre_hanging
RANDOM=$((${CADRE_TEST_SEED:-1} % 32768))
limit=$((2 + patience)) at_once=4

# ---- one hang ----
# what the program is told, and how its line says it
kinds=(entry slow stopped data disk call dead)
declare -A said=([entry]="missing entry" [slow]=slow [stopped]=stopped [dead]=dead
    [data]="waiting for data" [disk]="waiting for disk" [call]="different call")

# command_of NAME KIND RANK STEP POINT STACK: a run with that hang, in command; it saves at STEP.
command_of() {
    local sets
    settings device.kind=cpu device.threads=1 run.seed=1 comm.backend=mpi log.progress=no \
        train.steps=1000000 train.global_batch=12 train.micro_batch=1 train.eval_batches=1 \
        "comm.timeout=$limit" "checkpoint.every=$4" checkpoint.keep=1 "strategy.stack=$6"
    command=(env "CADRE_TEST_HANG=$2 $3 $4 $5 $tmp/$1.mark" "$cadre" train "$tmp/text.ini"
        --out "$tmp/$1" "${sets[@]}")
}

begin_here() { # NAME COMMAND...
    setsid "$mpirun" --allow-run-as-root --oversubscribe --bind-to none "${mpi_options[@]}" \
        --mca btl_vader_backing_directory "$TMPDIR" -n 4 "${@:2}" >"$tmp/$1.out" 2>"$tmp/$1.log" &
    pid=$!
}

lines() { # NAME: by which its ranks end, but for what is said of one that is killed
    grep '^cadre: ' "$tmp/$1.log" 2>/dev/null | grep -v "the run was killed by signal 9 "
}

end_of() { # NAME: the run that does not end by itself
    local one
    disown "$pid" 2>/dev/null || true # bash would say who was killed
    kill -9 "$pid" 2>/dev/null || true
    for one in $(pgrep -f -- "--out $tmp/$1 "); do
        kill -9 "$one" 2>/dev/null || true
    done
}

# start_hang WHERE NAME KIND RANK STEP POINT STACK: until a rank has said something or mpirun ends.
start_hang() {
    local begin=$SECONDS
    mpi_options=()
    [ "$3" != dead ] || mpi_options=(--enable-recovery) # mpirun would end the others
    command_of "$2" "${@:3}"
    if [ "$1" = hosts ]; then
        begin_on "1 2 3 4" "$2" "${command[@]}"
    else
        begin_here "$2" "${command[@]}"
    fi
    until lines "$2" >"$tmp/$2.lines" || ! kill -0 "$pid" 2>/dev/null ||
        [ $((SECONDS - begin)) -ge "$hang" ]; do
        sleep 0.02
    done
}

# judge WHERE NAME KIND RANK: fails where a line names another rank or kind, or there is none.
judge() {
    local want="; ${said[$3]}: rank $4 \(process "
    case "$1 $3" in
    hosts\ stopped | hosts\ dead) # of another host no more can be known
        want="rank $4 \(host [^)]*\) does not answer[^;]*; [^;]*$"
        ;;
    esac
    lines "$2" >"$tmp/$2.lines" || return 1
    # mpirun continues a stopped rank in order to end it, which then misses the others
    [ "$3" != stopped ] || sed -i "/ rank $4 (host [^)]*) waited /d" "$tmp/$2.lines"
    grep -E "$want" "$tmp/$2.lines" >"$tmp/$2.right" && ! grep -vE "$want" "$tmp/$2.lines"
}

# make_hang WHERE NUMBER KIND RANK STEP POINT STACK: made, waited for and judged; NAME.verdict is
# "right" or "WRONG" and how late the first line came.
make_hang() {
    local where=$1 name=$1-$2 late right=right try
    # what a killed mpirun leaves; two that start at once fail to make the same folder
    export TMPDIR=$tmp/t-$name
    mkdir "$TMPDIR"
    for try in 1 2 3; do
        start_hang "$where" "$name" "${@:3}"
        late=$EPOCHREALTIME
        sleep 0.5 # the others' lines
        end_of "$name"
        # on a busy machine MPI may take longer to start than comm.timeout: no hang was made
        if [ -e "$tmp/$name.mark" ] || ! grep "did not start within" "$tmp/$name.lines" >&2; then
            break
        fi
        rm -rf "${tmp:?}/$name"
    done
    late=$(awk -v now="$late" -v limit="$limit" -v then="$(stat -c %.Y "$tmp/$name.mark")" \
        'BEGIN { printf "%.2f", now - then - limit }')
    judge "$where" "$name" "${@:3:2}" >"$tmp/$name.wrong" || right=WRONG
    echo "$right ${said[$3]}, rank $4 of $where, step $5, $7, $late s after the limit," \
        "try $try: $(head -n 1 "$tmp/$name.lines")"
    [ $right = right ] || sed 's/^/    /' "$tmp/$name.wrong" "$tmp/$name.log"
    echo "$right $late" >"$tmp/$name.verdict"
}

# ---- many of them ----

stacks=(ddp:4 zero:4 "pipeline:2, ddp:2" "tensor:2, zero:2")

# hangs WHERE KIND...: a few at once.
hangs() {
    local where=$1 n=0 kind chosen
    shift
    for kind in "$@"; do
        [ "$(jobs -rp | wc -l)" -lt $at_once ] || wait -n || true
        # not in the background, where RANDOM begins anew
        chosen=($((RANDOM % 4)) $((2 + RANDOM % 9)) $((RANDOM % 2)) "${stacks[RANDOM % 4]}")
        make_hang "$where" $n "$kind" "${chosen[@]}" &
        n=$((n + 1))
    done
    wait
    cat "$tmp/$where"-*.verdict | awk -v where="$where" -v n=$n '
        $1 == "right" { right++ }
        NR == 1 || $2 > most { most = $2 }
        END {
            printf "%d of %d hangs of %s: right kind and rank, at most %.2f s after the limit\n",
                right, n, where, most
            exit 100 * right < 99 * n
        }' || fail "hangs of $where"
}

here=(slow disk call dead) there=(entry stopped data call)
if [ "$full" = 1 ]; then
    here=()
    for ((i = 0; i < ${HANGS:-40}; i++)); do
        here+=("${kinds[i % ${#kinds[@]}]}")
    done
    there=("${here[@]}")
fi
case $("$cadre" doctor | sed -n 's/^yes  *mpi  *//p') in
"Open MPI"*) mpirun=$(command -v mpirun.openmpi || command -v mpirun || true) ;;
*) skip "comm_mpi.so of Open MPI was not built" ;;
esac
[ -n "$mpirun" ] || skip "there is no mpirun"
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # MPI's own
hangs machine "${here[@]}"
host_processes="--pid --fork --mount-proc"
. "$(dirname "$0")/hosts_lib.sh"
hangs hosts "${there[@]}"
