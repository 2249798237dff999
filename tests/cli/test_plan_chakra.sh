#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre plan --simulate --chakra DIR`: files of all ranks that fit each other, and that give the
# times of the simulation again where each node begins as soon as it may (read_chakra.py); the
# same bytes each time; read by Python's protobuf without a field that it does not know. Bad input
# is one line.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/plan_lib.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/clients_lib.sh"
h100=$CADRE_SRC/conf/hardware/h100.ini
read_chakra=$CADRE_SRC/tests/cli/read_chakra.py
cd "$tmp"

small_model

# simulate DIR RANKS STACK SETTING...: the files and DIR.json.
simulate() {
    local dir=$1 ranks=$2 stack=$3 set
    shift 3
    local settings=(--set "strategy.stack=$stack")
    for set in "$@"; do settings+=(--set "$set"); done
    "$cadre" plan small.ini --ranks "$ranks" --hardware "$h100" --simulate --chakra "$dir" \
        --json "${settings[@]}" >"$dir.json" 2>err || {
        cat err
        fail "--chakra with $stack ends with status $?"
    }
}

rows=("ddp 2 ddp:2" "zero3 2 zero:2 zero.stage=3" "pipeline 2 pipeline:2" "tensor 2 tensor:2"
    "two 4 pipeline:2,tensor:2")
[ "$lean" = 1 ] || rows+=("single 1 single" "zero1 2 zero:2 zero.stage=1"
    "bubbles 4 pipeline:4 pipeline.schedule=zb-h1" "hsdp 4 hsdp:2,zero:2 zero.stage=3"
    "period 4 diloco:2,pipeline:2 diloco.period=2 diloco.overlap=1"
    "nodes 16 ddp:8,tensor:2")
for row in "${rows[@]}"; do
    read -ra words <<<"$row"
    simulate "${words[@]}"
    [ -s "${words[0]}/comm_groups.json" ] || fail "$row: no groups"
done

if command -v python3 >/dev/null; then
    for row in "${rows[@]}"; do
        python3 "$read_chakra" "${row%% *}" "${row%% *}.json" || fail "$row"
    done
    # What is wrong is found: receives without sends, operations that one rank has not.
    for wrong in pipeline two; do
        cp -r $wrong wrong
        cp $wrong.json wrong.json
        cp $wrong/step.0.et wrong/step.1.et
        ! python3 "$read_chakra" wrong wrong.json >log 2>&1 || fail "$wrong: two files of rank 0"
        cp $wrong/step.1.et wrong/step.1.et
        truncate -s -1 wrong/step.1.et
        ! python3 "$read_chakra" wrong wrong.json >log 2>&1 || fail "$wrong: a byte too few"
        rm -r wrong
    done
else
    echo "SKIP: no python3 to read the files with"
fi

# ---- the same bytes again, without files of more ranks that were there ----
cp -r ddp again
touch again/step.2.et again/mine
simulate again 2 ddp:2
rm again/mine || fail "a file that is not ours is gone"
diff -r ddp again || fail "the files differ from those before"

# ---- protobuf ----
cat >read_protobuf.py <<'PY'
import sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

# name, number, type (1 double, 3 int64, 4 uint64, 5 int32, 8 bool, 9 string, 11 message,
# 14 enum): what Chakra's et_def.proto has of these
VALUES = [("double_val", 3, 1), ("int32_val", 7, 5), ("int64_val", 9, 3), ("uint64_val", 13, 4),
          ("bool_val", 27, 8), ("string_val", 29, 9)]
file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")
kinds = file.enum_type.add(name="NodeType")
for number, name in (0, "INVALID"), (4, "COMP"), (5, "SEND"), (6, "RECV"), (7, "COLL"):
    kinds.value.add(name=name, number=number)


def message(name, fields):
    made = file.message_type.add(name=name)
    for field, number, kind, *repeated in fields:
        made.field.add(name=field, number=number, type=kind, label=3 if repeated else 1)
        if kind in (11, 14):
            made.field[-1].type_name = ".et.Attr" if kind == 11 else ".et.NodeType"
    return made


attr = message("Attr", [("name", 1, 9)] + VALUES)
attr.oneof_decl.add(name="value")
for field in attr.field[1:]:
    field.oneof_index = 0
message("Meta", [("version", 1, 9), ("attr", 2, 11, True)])
message("Node", [("id", 1, 4), ("name", 2, 9), ("type", 3, 14), ("ctrl_deps", 4, 4, True),
                 ("data_deps", 5, 4, True), ("start_time_micros", 6, 4),
                 ("duration_micros", 7, 4), ("attr", 10, 11, True)])
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
Meta, Node = (message_factory.GetMessageClass(pool.FindMessageTypeByName("et." + n))
              for n in ("Meta", "Node"))


def messages(path):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        size = shift = 0
        while True:
            byte, at = data[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield data[at:at + size]
        at += size


n = 0
for path in sys.argv[1:]:
    first, *others = messages(path)
    meta = Meta.FromString(first)
    assert meta.version and {a.name for a in meta.attr} >= {"stack", "seconds"}, meta
    for node in map(Node.FromString, others):
        n += 1
        assert len(unknown_fields.UnknownFieldSet(node)) == 0, node
        assert node.type in (4, 5, 6, 7) and node.name, node
        for a in node.attr:
            assert len(unknown_fields.UnknownFieldSet(a)) == 0, a
            assert a.WhichOneof("value"), a
print("protobuf:", n, "nodes")
PY
if [ "$lean" = 1 ]; then
    :
elif clients; then
    "$python" read_protobuf.py ./*/step.*.et 2>log || fail "$(cat log)"
else
    echo "SKIP: $why"
fi

# ---- bad input ----
hw=(--ranks 1 --hardware "$h100")
refused "chakra is of a simulated step: add --simulate" small.ini "${hw[@]}" --chakra x
refused "'none' is no folder; make it first" small.ini --simulate "${hw[@]}" --chakra none/x
refused "there is a file of that name" small.ini --simulate "${hw[@]}" --chakra small.ini
[ ! -e x ] && [ ! -e none ] || fail "a folder of what was refused"

# fails PATTERN DIR: status 1, one line.
fails() {
    local status=0
    "$cadre" plan small.ini "${hw[@]}" --simulate --chakra "$2" >out 2>err || status=$?
    [ "$status" -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] && grep -qE "$1" err || {
        cat out err
        fail "--chakra $2: status $status, expected 1 and one line with '$1'"
    }
}
fails "/proc/cadre-none" /proc/cadre-none
# A file is 10 kB, and the groups are written last.
if [ "$(id -u)" -eq 0 ] && mkdir small && mount -t tmpfs -o size=8k none small; then
    trap 'umount "$tmp/small"; clean_up' EXIT
    fails "cannot write 'small/step.0.et'.*No space" small
    [ -z "$(ls small)" ] || fail "half a trace is left: $(ls small)"
else
    echo "SKIP: no small file system (needs root and tmpfs)"
fi
echo "ok: plan --chakra"
