#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run imported into Weights & Biases as docs/interchange.md says, without a network, and read back
# by W&B's own reader: every point is one of metrics.jsonl, to the last bit, with the options and the
# summary of the run. W&B's client is a package of Python (tests/clients/wandb.txt, 111 MB); where it
# cannot be installed this skips, and tests/cli/test_clients.sh has a stand-in for it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/clients_lib.sh"

[ "$lean" = 0 ] || skip "instrumented builds leave W&B's client out"
clients wandb.txt || skip "$why"

train text run 0 strategy.stack=ddp:2 train.steps=6 train.eval_every=3

# the command of the documents, from the folder that has the script
grep -qx '    python3 import_run.py RUN .*' "$CADRE_SRC/docs/interchange.md" ||
    fail "docs/interchange.md has another command"
export HOME=$tmp/home WANDB_ERROR_REPORTING=false
mkdir "$HOME"
(
    cd "$CADRE_SRC/examples/wandb"
    PYTHONDONTWRITEBYTECODE=1 timeout "$hang" "$python" import_run.py "$tmp/run"
) >"$tmp/import.out" 2>"$tmp/import.log" || {
    cat "$tmp/import.log"
    fail "import_run.py with W&B's client"
}
grep -qx "6 steps of 'text' imported" "$tmp/import.out" || fail "$(cat "$tmp/import.out")"

cat >"$tmp/read_wandb.py" <<'PY'
import glob, json, sys
from wandb.proto import wandb_internal_pb2 as records
from wandb.sdk.internal.datastore import DataStore

folder = sys.argv[1]
(path,) = glob.glob(folder + "/wandb/offline-run-*/run-*.wandb")
store = DataStore()
store.open_for_scan(path)
points, options, summary, names = {}, {}, {}, []


def items(entries):
    return {e.nested_key[0] if e.nested_key else e.key: json.loads(e.value_json) for e in entries}


while (data := store.scan_data()) is not None:
    record = records.Record()
    record.ParseFromString(data)
    kind = record.WhichOneof("record_type")
    if kind == "history":
        point = items(record.history.item)
        points[record.history.step.num] = point
    elif kind == "run":
        names.append((record.run.project, record.run.display_name))
        options.update(items(record.run.config.update))
    elif kind == "config":
        options.update(items(record.config.update))
    elif kind == "summary":
        summary.update(items(record.summary.update))

lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
assert names == [("cadre", "text")], names
assert sorted(points) == [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6], sorted(points)
for line in lines:
    point = points[line["step"]]
    for key in "loss", "grad_norm", "lr", "tokens_per_s", "step_s", "valid_loss":
        assert point.get(key) == line.get(key), (line["step"], key, point.get(key), line.get(key))
    assert point["_step"] == line["step"], point
assert len({point["loss"] for point in points.values()}) == 6  # of six steps, not one of them
assert sum("valid_loss" in point for point in points.values()) == 2
assert options["strategy.stack"] == "ddp:2" and options["optim.lr"] == "3e-3", options
written = json.load(open(folder + "/summary.json"))
assert summary["loss_last"] == written["loss_last"] and summary["stack"] == "ddp:2", summary
print("wandb:", len(points), "steps")
PY
"$python" "$tmp/read_wandb.py" "$tmp/run" 2>"$tmp/log" || fail "$(cat "$tmp/log")"
