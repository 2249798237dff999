#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of plugins: how `cadre NAME ARGS` finds them and what it says where it does not.
set -euo pipefail
cadre=$CADRE_BUILD/cadre
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset CADRE_PLUGIN_PATH
failed=0

# says STATUS PATTERN ARGUMENT...: `cadre ARGUMENT...` ends with STATUS, and a line of what it
# says, stdout and stderr together, has PATTERN.
says() {
    local want=$1 pattern=$2 status=0
    shift 2
    timeout $((60 * ${CADRE_TEST_PATIENCE:-1})) "$cadre" "$@" >"$tmp/out" 2>"$tmp/err" \
        </dev/null || status=$?
    cat "$tmp/out" "$tmp/err" >"$tmp/said"
    if [ "$status" -ne "$want" ] || ! grep -qE -- "$pattern" "$tmp/said"; then
        echo "FAIL: cadre $*: status $status, expected $want and '$pattern' in:"
        cat "$tmp/said"
        failed=1
    fi
}

# ---- any plugin ----
mkdir "$tmp/plugins"
cp "$CADRE_BUILD/tests/plugins/.libs/bad_descriptor.so" "$tmp/plugins/sample.so"
export CADRE_PLUGIN_PATH=$tmp/plugins
says 0 '^sample one --two$' sample one --two
says 0 '^$' sample
says 0 '^answer: nobody there$' sample ask
says 1 '^cadre: as was asked$' sample refuse
says 1 '^cadre: the command of the plugin sample failed' sample fail
says 0 '^  cadre sample ARGS' help
says 2 "no command 'sampel', did you mean 'sample'" sampel
says 2 "no command 'trian', did you mean 'train'" trian
says 2 "no command '../sample'" ../sample
says 2 "the plugin 'ddp' has no command of its own" ddp list
CADRE_TEST_BAD=magic says 2 "has the magic number" sample
CADRE_TEST_BAD=older says 2 "has a descriptor of [0-9]+ bytes, expected at least" sample
unset CADRE_PLUGIN_PATH
says 2 "no command 'sample'" sample

# ---- mig: a machine without a driver ----
fake=$CADRE_BUILD/tests/support/fake_nvml/.libs
says 0 '^  cadre mig ARGS' help
says 0 '^cadre mig list' mig --help
says 0 '^cadre mig apply --admin' mig
says 2 "no command 'lost': .cadre mig. has list, plan and apply" mig lost
export CADRE_NVML=$tmp/nothing.so
says 0 '^no MIG instances: no NVIDIA driver: .*nothing.so' mig list
says 0 '^no +mig +no NVIDIA driver' doctor
says 2 'no NVIDIA driver' mig plan 1g
says 2 'no NVIDIA driver' mig apply --admin --yes 1g

# ---- by the name of the driver's library ----
unset CADRE_NVML
mkdir "$tmp/driver"
ln -s "$fake/fake_nvml.so" "$tmp/driver/libnvidia-ml.so.1"
LD_LIBRARY_PATH=$tmp/driver CADRE_FAKE_NVML="a100-40 0@6" \
    says 0 'instance 0:0  1g.5gb +4.75 GiB +14 SMs  MIG-' mig list

# ---- what is there ----
export CADRE_NVML=$fake/fake_nvml.so
export CADRE_FAKE_NVML="h200 holes 2@0 0@6"
says 0 '^GPU 0  NVIDIA H200 .* MIG is on' mig list
says 0 'instance 0:1  1g.18gb +16.00 GiB +16 SMs  MIG-.*  memory slice 6' mig list
says 0 'profile 2g.35gb +32.25 GiB +32 SMs +1 more of at most 3 +begins at 0 2 4, free 4' mig list
says 0 '^yes +mig +0:0 3g.71gb, 69.50 GiB, MIG-' doctor
says 0 '"no_instances": ""' mig list --json
if command -v python3 >/dev/null; then
    "$cadre" mig list --json | python3 -c 'import json, sys
gpu = json.load(sys.stdin)["gpus"][0]
assert [i["profile"] for i in gpu["instances"]] == ["3g.71gb", "1g.18gb"], gpu
assert gpu["taken"] == [[6, 1], [0, 4]], gpu' || failed=1
fi
CADRE_FAKE_NVML="h200 noperm 0@6" says 0 'instance 0:0  1g.18gb' mig list
CADRE_FAKE_NVML="h200 noperm 0@6" says 0 'places are not known: .*no permission' mig list
CADRE_FAKE_NVML="h200 off" says 0 'no MIG instances: GPU 0 .NVIDIA H200.: MIG is off' mig list
CADRE_FAKE_NVML="h200 nomig" says 0 'this GPU has no MIG' mig list
CADRE_FAKE_NVML="h200 sealed 0@0" says 0 'no permission to see its MIG instances' mig list
CADRE_NVML=$fake/fake_nvml_old.so says 0 'profile 3g.71gb .* at most 2' mig list
CADRE_NVML=$fake/fake_nvml_old.so says 0 'profile 1g.18gb\+me ' mig list
CADRE_NVML=$fake/fake_nvml_old.so says 2 'Placements_v2: this driver is too old' mig plan 1g

# ---- plan ----
export CADRE_FAKE_NVML="h200"
says 0 '3g.71gb \+ 2g.35gb \+ 1g.18gb x2 fits$' mig plan 1g x2 + 2g + 3g
says 0 '^  2g.35gb +32.25 GiB +32 SMs  memory slices 2-3$' mig plan '1g x2 + 2g + 3g'
says 0 '"profile": "1g.18gb\+me", "start": 6, "size": 1' mig plan 1g+me --json
says 2 'at most 1 of 4g.71gb, 2 are wanted .* the nearest that does: 4g.71gb \+ 3g.71gb' \
    mig plan 4g x2
says 2 "'9g' is no profile of GPU 0 .NVIDIA H200., which has 1g.18gb, 2g.35gb" mig plan 9g
says 2 'say what is wanted' mig plan
says 2 "'--admin' is nothing that .cadre mig plan. takes" mig plan --admin 1g
says 2 "there is no GPU 4" mig plan --gpu 4 1g
says 2 "needs the number of a GPU, not 'one'" mig plan --gpu one 1g
CADRE_FAKE_NVML="h200 3@0" says 2 'at most 1 of 4g.71gb, 1 are wanted and 1 exist' mig plan 4g
CADRE_FAKE_NVML="h200 3@0" says 0 'in place of the 1 that are there' mig plan --replace 4g
CADRE_FAKE_NVML="h200;h100-80" says 2 'there are 2 GPUs with MIG on: say which' mig plan 1g
CADRE_FAKE_NVML="h200;h100-80" says 0 '^GPU 1 .*2g.20gb fits' mig plan --gpu 1 2g
CADRE_FAKE_NVML="h200 off;h100-80" says 0 '^GPU 1 .*2g.20gb fits' mig plan 2g
CADRE_FAKE_NVML="h200 off" says 2 'apply --admin --enable. turns it on' mig plan 1g
CADRE_FAKE_NVML="h200 noperm" says 2 'to root alone .*no permission' mig plan 1g

# ---- apply ----
export CADRE_FAKE_NVML_STATE=$tmp/state
# at WORDS: the machine is so. now WORDS: it must be so.
at() {
    echo "$*" >"$CADRE_FAKE_NVML_STATE"
}
now() {
    local is
    is=$(tr -d ';\n' <"$CADRE_FAKE_NVML_STATE")
    [ "$is" = "$*" ] || {
        echo "FAIL: the GPU is '$is', expected '$*'"
        cat "$tmp/said"
        failed=1
    }
}
at h200 2@0
says 2 'say --admin' mig apply 1g
says 2 'no terminal to ask on' mig apply --admin 1g
says 2 'compute slices are wanted|can begin' mig apply --admin --yes 4g
now h200 2@0
says 0 '^instance 0:2  1g.18gb  MIG-' mig apply --admin --yes 1g x2
now h200 2@0 0@5 0@6
says 0 '^done +6\. create 1g.18gb' mig apply --admin --yes --replace 2g x2 + 1g
now h200 1@2 1@4 0@6
at h200 2@0 busy
says 2 'nothing was changed: GPU 0 is in use by the process 4242' mig apply --admin --yes 1g
CADRE_NVML=$fake/fake_nvml_old.so says 2 'too old' mig apply --admin --yes 1g
at h200 2@0 noperm
says 2 'no permission' mig apply --admin --yes 1g
now h200 2@0 noperm
# what fails in the middle is taken back, or reported
at h200 2@0 0@6
CADRE_FAKE_NVML_FAULT=gi=2 says 1 'step 4 of 4 failed.* no room .* are undone$' \
    mig apply --admin --yes --replace 4g + 3g
now h200 2@0 0@6
CADRE_FAKE_NVML_FAULT=ci=1 says 1 'step 3 of 4 failed' mig apply --admin --yes --replace 4g + 3g
now h200 2@0 0@6
CADRE_FAKE_NVML_FAULT=undo=2 says 1 '^FAILED +2\. destroy' mig apply --admin --yes --replace 4g
now h200 2@0 0@6
CADRE_FAKE_NVML_FAULT=gone=1 says 1 'step 1 of 3 failed' mig apply --admin --yes --replace 4g
now h200 2@0 0@6
CADRE_FAKE_NVML_FAULT="gi=2 undo=3" says 1 'not all could be undone' \
    mig apply --admin --yes --replace 4g + 3g
grep -q '^STANDS  3. create 3g' "$tmp/out" || failed=1
at h200
CADRE_FAKE_NVML_FAULT="ci=1 undo=1" says 1 'not all could be undone' mig apply --admin --yes 1g
grep -q 'without a compute instance stays there' "$tmp/out" || failed=1
# MIG mode
at h200 off
says 2 'enable. turns it on' mig apply --admin --yes 1g
now h200 off
says 0 '^done +1. create 1g.18gb' mig apply --admin --yes --enable 1g
now h200 0@6
at h200 off
says 2 'is no profile' mig apply --admin --yes --enable 9g
grep -q '^MIG mode was turned on and stays so' "$tmp/out" || failed=1
now h200
at h200 off reset
says 1 'is to be on after a reset' mig apply --admin --yes --enable 1g
now h200 off pending reset
says 2 'MIG is off until the GPU is reset' mig apply --admin --yes --enable 1g
at h200 off busy
says 2 'is in use' mig apply --admin --yes --enable 1g
now h200 off busy
# a terminal
terminal() {
    timeout $((60 * ${CADRE_TEST_PATIENCE:-1})) \
        script -qec "'$cadre' mig apply --admin 1g" /dev/null >"$tmp/said" 2>&1 </dev/stdin || true
}
if command -v script >/dev/null; then
    at h200
    echo n | terminal
    grep -q 'nothing was changed: the answer was no' "$tmp/said" || failed=1
    now h200
    echo y | terminal
    now h200 0@6
else
    echo "SKIP: questions on a terminal: no script(1) here"
fi

[ $failed -eq 0 ] || exit 1
echo "commands of plugins: found, run, refused; mig lists, plans and applies"
