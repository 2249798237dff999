# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced after train_lib.sh by the tests that need a batch system: Debian's SLURM, run from
# a folder of its own under $tmp, with four nodes that are all this machine. Nothing of an
# installed SLURM is touched: configuration, key, spool, logs and ports are the test's own.
slurm=${tmp:?} patience=${patience:?} hang=${hang:?}
slurm+=/slurm

# Daemons and the processes of jobs: whatever was started with our configuration.
slurm_processes() {
    local file pid
    for file in /proc/[0-9]*/environ; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        if grep -zqxF "SLURM_CONF=$slurm/slurm.conf" "$file" 2>/dev/null; then
            [ "$pid" = "$$" ] || [ "$pid" = "$BASHPID" ] || echo "$pid"
        fi
    done
}

slurm_stop() {
    local pids begin=$SECONDS
    trap - EXIT
    pids=$(slurm_processes)
    while [ -n "$pids" ] && [ $((SECONDS - begin)) -lt 20 ]; do
        # shellcheck disable=SC2086 # a list of numbers
        kill -9 $pids 2>/dev/null || true
        sleep 0.05
        pids=$(slurm_processes)
    done
    clean_up || true
}

# A test that is killed runs no trap: a watcher outlives it and ends its processes.
slurm_guard() {
    local test=$$
    (
        trap '' INT TERM HUP
        while kill -0 "$test" 2>/dev/null; do
            sleep 0.5
        done
        slurm_stop
    ) </dev/null >/dev/null 2>&1 &
    disown
}

# slurm_ports: five free ports below the kernel's own range, from $port on.
slurm_ports() {
    local k taken
    port=$((21000 + $$ % 2000 * 5))
    while :; do
        taken=no
        for k in 0 1 2 3 4; do
            if (: <"/dev/tcp/127.0.0.1/$((port + k))") 2>/dev/null; then
                taken=yes
            fi
        done
        [ "$taken" = yes ] || return 0
        port=$((port + 5 < 31000 ? port + 5 : 21000))
    done
}

slurm_configure() {
    mkdir -p "$slurm/jobs" "$slurm/state" "$slurm/log" "$slurm/spool"
    chmod 755 "$tmp" "$slurm" # munged wants its socket to be reachable
    (umask 077 && head -c 1024 /dev/urandom >"$slurm/munge.key")
    slurm_ports
    cat >"$slurm/slurm.conf" <<END
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.socket
CredType=cred/munge
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool/%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.%n.pid
SlurmctldLogFile=$slurm/log/slurmctld
SlurmdLogFile=$slurm/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
CommunicationParameters=NoInAddrAny
ReturnToService=2
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MessageTimeout=$((30 * patience))
SlurmdTimeout=600
MinJobAge=3600
KillWait=$((30 * patience))
NodeName=n[1-4] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 1))-$((port + 4)) CPUs=64
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
END
    export SLURM_CONF=$slurm/slurm.conf
}

slurm_is_up() {
    [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" -eq 4 ]
}

# slurm_start: the daemons run and all nodes are idle; else the test is skipped.
slurm_start() {
    local program begin=$SECONDS node
    [ "$(id -u)" -eq 0 ] || skip "SLURM's daemons are run by root"
    for program in munged slurmctld slurmd sbatch srun scontrol; do
        command -v "$program" >/dev/null || skip "no $program (tools/packages check installs it)"
    done
    slurm_configure
    slurm_guard
    trap slurm_stop EXIT
    munged --force --foreground --socket="$slurm/munge.socket" --key-file="$slurm/munge.key" \
        --log-file="$slurm/log/munged" --pid-file="$slurm/munged.pid" \
        --seed-file="$slurm/munged.seed" >"$slurm/log/munged.out" 2>&1 &
    until munge -S "$slurm/munge.socket" -n >/dev/null 2>&1; do
        if [ $((SECONDS - begin)) -ge $((hang / 4)) ] || ! kill -0 $! 2>/dev/null; then
            cat "$slurm/log"/munged*
            skip "munged does not start here"
        fi
        sleep 0.05
    done
    slurmctld -D -i >"$slurm/log/slurmctld.out" 2>&1 &
    for node in n1 n2 n3 n4; do
        slurmd -D -N $node >"$slurm/log/slurmd.$node.out" 2>&1 &
    done
    disown -a # bash would say who was killed
    until slurm_is_up; do
        if [ $((SECONDS - begin)) -ge $((hang / 2)) ]; then
            tail -n 5 "$slurm/log"/*
            skip "slurmctld and slurmd do not start here"
        fi
        sleep 0.1
    done
}

# job_field JOB FIELD: as `scontrol show job` has it.
job_field() {
    scontrol show job "$1" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1
}

# slurm_until WHAT COMMAND...: until the command succeeds; shows the logs where it never does.
slurm_until() {
    local what=$1 begin=$SECONDS
    shift
    until "$@"; do
        if [ $((SECONDS - begin)) -ge $((2 * hang)) ]; then
            squeue -a || true
            scontrol show job || true
            tail -n 20 "$slurm/log"/* "$slurm"/jobs/* || true
            fail "no $what within $((2 * hang)) s"
        fi
        sleep 0.2
    done
}

has_ended() {
    hurry
    case $(job_field "$1" JobState) in
    COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | BOOT_FAIL | OUT_OF_MEMORY) true ;;
    *) false ;;
    esac
}

# A job that was queued again waits for two minutes, until no node can mistake it for what it
# was before. Three seconds will do here; it is looked at again and again until they are over.
declare -A waiting
hurry() {
    local job
    for job in $(squeue -h -r -t PENDING -o '%i %r' | sed -n 's/ BeginTime$//p'); do
        : "${waiting[$job]:=$SECONDS}"
        if [ $((SECONDS - waiting[$job])) -ge 3 ]; then
            scontrol update jobid="$job" StartTime=now 2>/dev/null || true
            unset "waiting[$job]"
        fi
    done
}

# queue_is_empty: nothing runs or waits any more.
queue_is_empty() {
    hurry
    [ -z "$(squeue -h)" ]
}

# job_ends JOB STATE: it ends, in that state.
job_ends() {
    slurm_until "end of job $1" has_ended "$1"
    local state
    state=$(job_field "$1" JobState)
    if [ "$state" != "$2" ]; then
        cat "$slurm"/jobs/* || true
        fail "job $1 ended as $state ($(job_field "$1" ExitCode)), expected $2"
    fi
}
