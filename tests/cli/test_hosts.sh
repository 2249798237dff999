#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on four hosts, over MPI: the certificates of ranks on one machine; a host that is cut
# off or whose rank is killed is named by the others, with what they waited in, and the run
# continues from its checkpoint on fewer hosts.
# shellcheck source-path=SCRIPTDIR disable=SC2086
. "$(dirname "$0")/train_lib.sh"
. "$(dirname "$0")/hosts_lib.sh"

cat >>"$tmp/text.ini" <<EOF
[run]
exact = yes
seed = 1
[device]
threads = 1
EOF

# ---- one training, here and there: the same certificate ----
cp "$tmp/text.ini" "$tmp/all.ini"
cat >>"$tmp/all.ini" <<EOF
[train]
steps = 4
[compare]
baseline = one
perturb = no
time = no
[run:one]
strategy.stack = single
[run:ddp]
strategy.stack = ddp:4
[run:zero]
strategy.stack = zero:4
zero.stage = 3
EOF
several="ddp zero"
if [ "$lean" = 0 ]; then
    several+=" pipeline tensor"
    cat >>"$tmp/all.ini" <<EOF
[run:pipeline]
strategy.stack = pipeline:2, ddp:2
[run:tensor]
strategy.stack = tensor:2, ddp:2
EOF
fi
sed -i '0,/^steps = 20$/{/^steps = 20$/d}' "$tmp/all.ini"

"$cadre" compare "$tmp/all.ini" --out "$tmp/here" >"$tmp/here.out" 2>"$tmp/here.log" || {
    cat "$tmp/here.log"
    fail "the comparison on this machine"
}
"$cadre" compare "$tmp/all.ini" --out "$tmp/there" --run one >"$tmp/one.out" 2>&1
for run in $several; do
    begin_on "1 2 3 4" "there-$run" "$cadre" compare "$tmp/all.ini" --out "$tmp/there" \
        --run "$run"
    ends "there-$run" 0
    grep "4 ranks over MPI" "$tmp/there-$run.log" >/dev/null || fail "$run: not over MPI"
    grep '"nodes": 4,' "$tmp/there/runs/$run/summary.json" >/dev/null ||
        fail "$run: not 4 nodes"
done
"$cadre" compare "$tmp/all.ini" --out "$tmp/there" --collect >"$tmp/there.out" 2>&1 || {
    cat "$tmp/there.out"
    fail "the comparison of what the hosts trained"
}
hashes() { # FOLDER RUN: what the certificate has of its training
    grep -E '"(verdict|loss_chain|param_hash|exp_avg_hash|exp_avg_sq_hash|link)"' \
        "$tmp/$1/certificate-$2.json"
}
for run in one $several; do
    [ "$(hashes here "$run" | wc -l)" -ge 12 ] || fail "$run: no hashes in its certificate"
    diff <(hashes here "$run") <(hashes there "$run") ||
        fail "$run: the hosts' certificate is another than this machine's"
done
for run in ddp zero; do
    grep '"verdict": "exact"' "$tmp/there/certificate-$run.json" >/dev/null ||
        fail "$run: not exact"
done

# ---- a host is lost ----
limit=$((3 + patience))

# lost NAME HOST STACK...: the others say so, and end. Options of mpirun are in mpi_options.
train_on() { # "N..." NAME [s.k=v]...
    local sets
    settings "${@:3}" "comm.timeout=$limit"
    begin_on "$1" "$2" "$cadre" train "$tmp/text.ini" --out "$tmp/$2" "${sets[@]}"
}

said() { # NAME HOST N: so many ranks have named the host, and the collective
    local n
    n=$(grep -cE "^cadre: rank [0-9] \(host $2\) does not answer.* \(host h[1-4]\) .* in [a-z_]+ .*#[0-9]+ .*step [0-9]+\)" \
        "$tmp/$1.log") || true
    [ "$n" -eq "$3" ]
}

survivors_gone() { # "N..."
    local n
    for n in $1; do
        [ -z "$(process_on "$n")" ] || return 1
    done
}

# As until_so, whether mpirun is there or not.
in_time() { # NAME WHAT COMMAND...
    local name=$1 what=$2 begin=$SECONDS
    shift 2
    until "$@"; do
        if [ $((SECONDS - begin)) -ge "$hang" ]; then
            cat "$tmp/$name.log"
            fail "$name: no $what within $hang s"
        fi
        sleep 0.05
    done
}

# continues NAME "N..." STACK [s.k=v]...: from the checkpoint, for three steps; `steps` is then
# where the run has ended.
continues() {
    local name=$1 on=$2 stack=$3
    shift 3
    steps=$(($(basename "$(last "$name")" | sed 's/step-0*//') + 3))
    train_on "$on" "$name" strategy.stack="$stack" train.steps=$steps \
        checkpoint.resume=auto "$@"
    ends "$name" 0
}

# A rank is killed: mpirun is set to leave the others running.
mpi_options=(--enable-recovery)
train_on "1 2 3 4" killed strategy.stack=zero:4 zero.stage=2 train.steps=1000000 \
    checkpoint.every=5
wait_steps killed 12
kill -KILL "$(process_on 3)"
in_time killed "word of the lost rank" said killed h3 3
in_time killed "end of the ranks" survivors_gone "1 2 4"
ends killed "0|1|137" # by mpirun's own lights
mpi_options=()
continues killed "1 2" zero:2 zero.stage=2
train text exact 0 train.steps=$steps
same killed exact

# A host is cut off, so that nothing informs the others. mpirun would look at its daemons' links
# and end the job; it is made to wait until the ranks have spoken, and then waits for a daemon
# that is out of reach.
if [ "$lean" = 0 ]; then
    loose="run.exact=no train.global_batch=24"
    keepalive=1000
    train_on "1 2 3 4" cut strategy.stack=ddp:4 train.steps=1000000 checkpoint.every=5 $loose
    wait_steps cut 12
    ip -n "$(host_space 0)" link set h2 down
    in_time cut "word of the lost host" said cut h2 3
    in_time cut "end of the ranks" survivors_gone "1 3 4"
    kill -KILL "$pid" "$(process_on 2)" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    continues cut "1 3 4" ddp:3 $loose
    train text near 0 train.steps=$steps $loose
    close_to cut near 1e-4 0.05
fi
