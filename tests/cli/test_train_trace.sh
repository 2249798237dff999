#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run with a schedule says of its time: trace.json has every pass once and none
# that overlap on a rank, ranks as threads and as processes; bubbles are there with
# stages and not without; the figures of metrics, trace and passes.json agree.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

plugin=$(test_plugin split_schedule)
if ! command -v python3 >/dev/null; then
    echo "SKIP: no python3 to read the files with"
    exit 77
fi

cat >"$tmp/judge.py" <<'EOF'
import collections, json, sys

folder, ranks, data, microbatches, warmup, steps = sys.argv[1], *map(int, sys.argv[2:])
stages = ranks // data


def fail(*what):
    sys.exit(" ".join(map(str, what)))


lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
summary = json.load(open(folder + "/summary.json"))
for line in lines:
    if not 0 <= line["bubble_s"] <= line["span_s"] <= line["step_s"] * 1.5:
        fail("bubble, span and step:", line)
    if not 0 <= line["comm_exposed_s"] <= min(line["step_s"], line["comm_s"] + 1e-9):
        fail("exposed communication:", line)
    if not 0 <= line["wait_ranks_s"] <= line["step_s"]:
        fail("waiting for ranks:", line)
    if (stages > 1) != (line["bubble_s"] > 0):
        fail("a bubble with", stages, "stages:", line)
parts = sorted(x["bubble_s"] / x["span_s"] if x["span_s"] else 0 for x in lines[warmup:])
middle = (parts[len(parts) // 2] + parts[(len(parts) - 1) // 2]) / 2
if abs(summary["bubble_fraction"] - middle) > 1e-12:
    fail("bubble_fraction", summary["bubble_fraction"], "is not the median", middle)

events = json.load(open(folder + "/trace.json"))["traceEvents"]
rows = {e["tid"] for e in events if e["name"] == "thread_name"}
if rows != set(range(ranks)):
    fail("rows of ranks", rows)
passes = [e for e in events if e.get("cat") == "pass"]
seen = collections.Counter(
    (e["tid"], e["args"]["step"], e["args"]["pass"], e["args"]["chunk"],
     e["args"]["microbatch"])
    for e in passes
)
for e in passes:
    if e["name"] != "%(pass)s of micro-batch %(microbatch)d, chunk %(chunk)d" % e["args"]:
        fail("a pass is called", e)
kinds = ["forward", "backward input", "backward weight"]
expected = {
    (r, s, k, c, m)
    for r in range(ranks)
    for s in range(warmup + 1, warmup + steps + 1)
    for k in kinds
    for c in range(2)
    for m in range(microbatches // data)
}
if set(seen) != expected or set(seen.values()) != {1}:
    fail("passes:", len(seen), "of", len(expected), "and at most", max(seen.values()))
for rank in range(ranks):
    mine = sorted((e["ts"], e["dur"]) for e in passes if e["tid"] == rank)
    for (a, length), (b, _) in zip(mine, mine[1:]):
        if a + length > b + 0.002:  # the file's digits
            fail("passes overlap on rank", rank, "at", a, b)

# units of the model inside of passes of their micro-batch and kind, each once a pass
units = [e for e in events if e.get("cat") == "unit"]
if collections.Counter(
    (e["args"]["step"], e["args"]["pass"], e["args"]["unit"]) for e in units
) != {
    (s, k, u): microbatches
    for s in range(warmup + 1, warmup + steps + 1)
    for k in kinds
    for u in ["embedding", "block 0", "block 1", "head"]
}:
    fail("units:", len(units))
for e in units:
    around = [
        p for p in passes
        if p["tid"] == e["tid"] and p["args"]["pass"] == e["args"]["pass"]
        and p["args"]["microbatch"] == e["args"]["microbatch"]
        and p["ts"] - 0.002 <= e["ts"]
        and e["ts"] + e["dur"] <= p["ts"] + p["dur"] + 0.002
    ]
    if len(around) != 1:
        fail("a unit is in", len(around), "passes:", e)

# counters, from time 0 on
if min(e["ts"] for e in events if "ts" in e) != 0:
    fail("time does not begin with 0")
for name in "loss", "tokens/s", "memory of rank 0":
    got = [e for e in events if e["ph"] == "C" and e["name"] == name]
    if len(got) != steps or not all(v > 0 for e in got for v in e["args"].values()):
        fail("counter", name, got)
losses = [e["args"]["nats"] for e in events if e["ph"] == "C" and e["name"] == "loss"]
if losses != [line["loss"] for line in lines[warmup : warmup + steps]]:
    fail("losses", losses)

# operations of communicators: each begins and ends once, the later after the sooner
ends = collections.defaultdict(dict)
for e in events:
    if e.get("cat") == "comm":
        if e["ph"] in ends[e["id"]]:
            fail("twice:", e)
        ends[e["id"]][e["ph"]] = e["ts"]
if (len(ends) > 0) != (ranks > 1) or any(x["b"] > x["e"] for x in ends.values()):
    fail("operations:", len(ends))
sends = [e for e in events if e["name"].startswith("send edge") and e["ph"] == "b"]
if stages > 1 and len(sends) < 2 * 3 * microbatches * steps:
    fail("only", len(sends), "activations and gradients sent")

# the span and bubble of each traced step, once more from the passes alone; waits for
# others between passes would make the bubble less
for step in range(warmup + 1, warmup + steps + 1):
    line, total_span, total_idle = lines[step - 1], 0, 0
    groups = collections.defaultdict(list)
    for e in passes:
        if e["args"]["step"] == step:
            groups[e["tid"] % data].append(e)
    for group in groups.values():
        begin = min(e["ts"] for e in group)
        end = max(e["ts"] + e["dur"] for e in group)
        busy = sum(e["dur"] for e in group)
        total_span += (end - begin) * stages / ranks
        total_idle += ((end - begin) * stages - busy) / ranks
    if stages > 1:
        if abs(total_span - 1e6 * line["span_s"]) > 1:
            fail("span of step", step, total_span, line)
        if abs(total_idle - 1e6 * line["bubble_s"]) > (1 if data == 1 else 1e6):
            fail("bubble of step", step, total_idle, line)

if stages > 1:
    kept = json.load(open(folder + "/passes.json"))
    if kept["step"] <= warmup or len(kept["ranks"]) != ranks:
        fail("passes.json:", kept["step"], len(kept["ranks"]))
    units = collections.Counter()
    for row in kept["ranks"]:
        if len(row["passes"]) != 3 * 2 * microbatches // data:
            fail("passes.json has", len(row["passes"]), "passes of rank", row["rank"])
        for chunk in row["chunks"]:
            units.update(range(chunk["begin"], chunk["end"]))
            if not (chunk["forward_s"] > 0 and chunk["input_s"] > 0):
                fail("chunk without times", chunk)
            if not (chunk["weight_s"] > 0 and chunk["backward_s"] == 0):
                fail("chunk without times", chunk)
    if set(units.values()) != {data}:
        fail("units of passes.json", units)
EOF

# judge NAME RANKS DATA: 4 micro-batches, 2 warm-up steps, 3 traced.
judge() {
    python3 -m json.tool "$tmp/$1/trace.json" >/dev/null
    python3 "$tmp/judge.py" "$tmp/$1" "$2" "$3" 4 2 3 || fail "$1"
}

common="train.steps=7 train.global_batch=8 log.trace=yes train.eval_batches=1"

# shellcheck disable=SC2086 # words
run() { # NAME [s.k=v]...
    local name=$1
    shift
    train text "$name" 0 $common "$@"
}

run two "strategy.stack=$plugin:2"
judge two 2 1
run processes "strategy.stack=$plugin:2" comm.ranks=processes
judge processes 2 1
run above "strategy.stack=$plugin:2, ddp:2"
judge above 4 2
run one "strategy.stack=$plugin:1"
judge one 1 1

# Without a schedule nothing idles, and no passes are reported.
run ddp strategy.stack=ddp:2
grep -q '"bubble_fraction": 0,' "$tmp/ddp/summary.json" || fail "a bubble in ddp"
[ ! -e "$tmp/ddp/passes.json" ] || fail "ddp has no schedule to report"
python3 -m json.tool "$tmp/ddp/trace.json" >/dev/null
grep -q '"wait dp"' "$tmp/ddp/trace.json" || fail "ddp's waits are not in the trace"

# Tracing changes no bit; without it there is no file.
run quiet "strategy.stack=$plugin:2" log.trace=no
same two quiet
[ ! -e "$tmp/quiet/trace.json" ] || fail "a trace that nobody asked for"
[ -e "$tmp/quiet/passes.json" ] || fail "no passes.json without a trace"

run quiet strategy.stack=single train.steps=8 checkpoint.resume=auto
[ ! -e "$tmp/quiet/passes.json" ] || fail "passes of a schedule that was left"

# The order of passes of the shipped schedules, with parts of equal length, has the
# bubble of their formulas: IDLE over IDLE + BUSY parts of a rank.
order() { # SCHEDULE STAGES IDLE BUSY [s.k=v]...
    local schedule=$1 stages=$2 idle=$3 busy=$4 got want
    shift 4
    rm -rf "$tmp/order"
    train text order 0 train.steps=1 train.global_batch=8 train.micro_batch=1 \
        train.eval_batches=1 model.layers=6 "strategy.stack=pipeline:$stages" \
        "pipeline.schedule=$schedule" "$@"
    got=$("$CADRE_BUILD/replay_nominal" "$tmp/order")
    want=$(awk -v i="$idle" -v b="$busy" 'BEGIN { printf "%.6f", i / (i + b) }')
    [ "$got" = "$want" ] || fail "$schedule on $stages stages: bubble $got, not $want"
}

m=8
for p in 2 4; do
    order gpipe $p $((3 * (p - 1))) $((3 * m))
    order 1f1b $p $((3 * (p - 1))) $((3 * m))
    order zb-h1 $p $((p - 1)) $((3 * m))
    order interleaved $p $((3 * (p - 1))) $((3 * 2 * m)) pipeline.chunks=2
    order breadth-first $p $((3 * (p - 1))) $((3 * 2 * m))
    order zb-v $p $((p - 1)) $((3 * 2 * m))
    order dualpipev $p $((p - 1)) $((3 * 2 * m))
done
