# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced after train_lib.sh: four hosts on this machine. Each is a network namespace with a
# host name of its own, joined to the others by a bridge, and mpirun (Open MPI) starts ranks
# on them without ssh. Skips where the machine forbids that or there is no MPI. What has to be
# made is removed at the end; names have this process's number.
#
# hosts is the folder of this: agent, hostfile; net the first three numbers of an address. Where
# host_processes is "--pid --fork --mount-proc", no host sees the processes of another.
# shellcheck disable=SC2154 # tmp, cadre and started are train_lib.sh's
hosts=$tmp/hosts
# what MPI keeps until the process ends is no leak of ours
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
mkdir "$hosts"
host_processes=${host_processes:-}
net=10.$((64 + $$ / 256 % 64)).$(($$ % 256))

host_space() { # N: the namespace of host N; 0: of the bridge, where mpirun runs
    echo "cadre-$$-$1"
}

# What still runs on the hosts, and the hosts.
remove_hosts() {
    local n pid
    for n in 0 1 2 3 4; do
        for pid in $(ip netns pids "$(host_space $n)" 2>/dev/null); do
            kill -9 "$pid" 2>/dev/null || true
        done
        ip netns del "$(host_space $n)" 2>/dev/null || true
    done
    clean_up
}

make_hosts() {
    local n space bridge
    bridge=$(host_space 0)
    ip netns add "$bridge" 2>"$hosts/why" || skip "no network namespaces: $(cat "$hosts/why")"
    unshare -u true 2>"$hosts/why" || skip "no namespaces of host names: $(cat "$hosts/why")"
    ip -n "$bridge" link set lo up
    ip -n "$bridge" link add br0 type bridge 2>"$hosts/why" ||
        skip "no network bridge: $(cat "$hosts/why")"
    ip -n "$bridge" addr add "$net.254/24" dev br0
    ip -n "$bridge" link set br0 up
    for n in 1 2 3 4; do
        space=$(host_space $n)
        ip netns add "$space"
        ip -n "$bridge" link add "h$n" type veth peer name eth0 netns "$space" \
            2>"$hosts/why" || skip "no virtual network links: $(cat "$hosts/why")"
        ip -n "$bridge" link set "h$n" master br0 up
        ip -n "$space" link set lo up
        ip -n "$space" addr add "$net.$n/24" dev eth0
        ip -n "$space" link set eth0 up
    done
    # what mpirun calls in the place of ssh: ADDRESS COMMAND...
    cat >"$hosts/agent" <<EOF
#!/bin/sh
n=\${1##*.}
shift
exec setsid -w ip netns exec cadre-$$-\$n unshare -u $host_processes \\
    sh -c "hostname h\$n; exec sh -c '\$*'"
EOF
    chmod +x "$hosts/agent"
}

# begin_on "N..." NAME COMMAND...: mpirun starts a rank of the command on each of the hosts,
# in the background; its process is in $pid, its log NAME.log.
begin_on() {
    local n name=$2 list=$hosts/list-$2 ranks=0
    : >"$list"
    for n in $1; do
        echo "$net.$n slots=1" >>"$list"
        ranks=$((ranks + 1))
    done
    shift 2
    setsid -w ip netns exec "$(host_space 0)" "$mpirun" --allow-run-as-root \
        --mca plm rsh --mca plm_rsh_agent "$hosts/agent" \
        --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" \
        --mca pml ob1 --mca btl tcp,self --mca oob_tcp_keepalive_time "$keepalive" \
        --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 \
        "${mpi_options[@]}" --hostfile "$list" -n "$ranks" --map-by node --bind-to none \
        "$@" >"$tmp/$name.out" 2>"$tmp/$name.log" &
    pid=$!
    started+=("$pid")
}
mpi_options=()
keepalive=2 # seconds until mpirun looks whether a silent daemon is there

# the rank's process on host N: the one whose supervisor is the program too
process_on() {
    local one parent
    for one in $(ip netns pids "$(host_space "$1")"); do
        parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$one/status" 2>/dev/null || true)
        if [ "$(readlink "/proc/$one/exe")" = "$(realpath "$cadre")" ] &&
            [ "$(readlink "/proc/$parent/exe")" = "$(realpath "$cadre")" ]; then
            echo "$one"
        fi
    done
}

[ "$(id -u)" -eq 0 ] || skip "hosts as network namespaces need root"
for tool in ip unshare setsid; do
    command -v $tool >/dev/null || skip "there is no '$tool'"
done
case $("$cadre" doctor | sed -n 's/^yes  *mpi  *//p') in
"Open MPI"*) mpirun=$(command -v mpirun.openmpi || command -v mpirun || true) ;;
?*) skip "comm_mpi.so is over another MPI than Open MPI" ;;
*) skip "comm_mpi.so was not built" ;;
esac
[ -n "$mpirun" ] || skip "there is no mpirun"
trap remove_hosts EXIT
make_hosts
