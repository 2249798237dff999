#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The templates of conf/slurm/ without SLURM: what they make of their arguments and of the
# ends of srun, which is stood in for; and the image's definition.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
templates=$CADRE_SRC/conf/slurm

mkdir "$tmp/bin"
cat >"$tmp/bin/srun" <<'END'
#!/bin/bash
echo "srun $*" >>"$SEEN"
exit "${SRUN_ENDS:-0}"
END
cat >"$tmp/bin/scontrol" <<'END'
#!/bin/bash
echo "scontrol $*" >>"$SEEN"
END
cat >"$tmp/bin/cadre" <<'END'
#!/bin/bash
echo "cadre $*" >>"$SEEN"
[[ " $* " != *" --list "* ]] || printf 'one\t1\t1\ntwo:2\t6\t6\nparts\t3\t1\n'
END
chmod +x "$tmp/bin"/*
export SEEN=$tmp/seen PATH=$tmp/bin:$PATH
unset CADRE MPI

# job TEMPLATE STATUS [NAME=VALUE]... -- ARGUMENT...: runs it as SLURM would, with these
# variables; what it called is in $tmp/seen.
job() {
    local template=$1 want=$2 status=0 variables=()
    shift 2
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    : >"$SEEN"
    env SLURM_JOB_ID=7 "${variables[@]}" bash "$templates/$template" "$@" \
        >"$tmp/job.log" 2>&1 || status=$?
    if [ "$status" -ne "$want" ]; then
        cat "$tmp/job.log" "$SEEN"
        fail "$template ($*): ends with $status, expected $want"
    fi
}

called() { # LINE: exactly this was called
    grep -qxF -- "$1" "$SEEN" || {
        cat "$SEEN"
        fail "not called: $1"
    }
}

not_called() {
    if grep "^$1" "$SEEN"; then
        fail "$1 is called"
    fi
}

for template in "$templates"/*.sbatch; do
    bash -n "$template"
    head -1 "$template" | grep -x '#!/bin/bash' >/dev/null || fail "$template: SLURM wants a shell first"
    # a line #SBATCH after the first command is not looked at
    awk '!/^#/ { body = 1 } body && /^#SBATCH/ { exit 1 }' "$template" ||
        fail "$template: a line #SBATCH after the first command"
    for line in '--signal=USR1@120' '--requeue' '--open-mode=append'; do
        grep -qx -- "#SBATCH $line" "$template" || fail "$template: no #SBATCH $line"
    done
    job "$(basename "$template")" 1 --
    grep -q 'usage: sbatch' "$tmp/job.log" || fail "$template: no usage"
done

resumed='--set checkpoint.resume=auto --set device.threads'
for template in one-node.sbatch many-nodes.sbatch; do
    job $template 0 SLURM_CPUS_PER_TASK=8 -- c.ini out --set 'data.path=a b'
    called "srun --cpus-per-task=8 cadre train c.ini --out out $resumed=8 --set data.path=a b"
    not_called scontrol
    job $template 0 CADRE="apptainer exec --nv c.sif cadre" -- c.ini out
    called "srun --cpus-per-task=1 apptainer exec --nv c.sif cadre train c.ini --out out $resumed=1"
    job $template 4 SRUN_ENDS=4 -- c.ini out
    called "scontrol requeue 7"
    for status in 1 2 3 137; do
        job $template $status SRUN_ENDS=$status -- c.ini out
        not_called scontrol
    done
done
job many-nodes.sbatch 0 MPI=pmix -- c.ini out
called "srun --mpi=pmix --cpus-per-task=1 cadre train c.ini --out out $resumed=1"

# the second task: six ranks, four a node
array=(SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_ID=1 SLURM_NTASKS_PER_NODE=4 SLURM_CPUS_PER_TASK=2)
job compare-array.sbatch 0 "${array[@]}" -- c.ini out --set a.b=1
called "cadre compare c.ini --out out $resumed=2 --set a.b=1 --list"
called "srun --nodes=2 --ntasks=6 --cpus-per-task=2 cadre compare c.ini --out out $resumed=2 --set a.b=1 --run two:2"
not_called scontrol
job compare-array.sbatch 4 "${array[@]}" SRUN_ENDS=4 -- c.ini out
called "scontrol requeue 5_1"
job compare-array.sbatch 0 "${array[@]}" SLURM_ARRAY_TASK_ID=2 -- c.ini out
called "srun --nodes=1 --ntasks=1 --cpus-per-task=6 cadre compare c.ini --out out $resumed=2 --run parts"
job compare-array.sbatch 2 "${array[@]}" SLURM_ARRAY_TASK_ID=3 -- c.ini out
grep -q 'has 3 trainings, none with number 3' "$tmp/job.log" || fail "a task too many is not named"
not_called srun
job compare-array.sbatch 0 -- c.ini out
called "cadre compare c.ini --out out $resumed=1 --collect"
not_called srun

# The image: every section is one that Apptainer knows, and what makes it is there.
def=$templates/cadre.def
grep -qx 'Bootstrap: docker' "$def" || fail "cadre.def: no Bootstrap"
grep -qE '^From: [a-z]+:[0-9a-z.]+$' "$def" || fail "cadre.def: no From"
sections=$(sed -n 's/^%//p' "$def" | tr '\n' ' ')
[ "$sections" = "files post environment runscript test " ] || fail "cadre.def: has $sections"
section() { # NAME: its lines
    awk -v name="%$1" '/^%/ { inside = $0 == name; next } inside' "$def"
}
for name in post environment runscript test; do
    section $name | sh -n || fail "cadre.def: %$name is no shell script"
done
for name in $(section post | grep -oE '^ *tools/[a-z]+' | sort -u); do
    [ -x "$CADRE_SRC/$name" ] || fail "cadre.def: there is no $name"
done
kind=$(section post | sed -n 's|^ *tools/packages ||p')
grep -qE "^($kind|[a-z|]*\|$kind\|?[a-z|]*)\) wanted=" "$CADRE_SRC/tools/packages" ||
    fail "cadre.def: tools/packages knows no '$kind'"
