#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/plan_here.sh [ROUNDS [CONFIGURATIONS]]: forecasts beside measurements on this machine.
#
# `cadre plan --measure` writes its hardware file; then configurations that no number was fitted
# to (12 stacks of 2 ranks, links of 0.125 and 1.25 GB/s: 24) are forecast as ratios to `single`,
# and timed in rounds by `cadre compare`. Prints every row, mean and largest error beside the
# half-width of the measured ratios, Kendall's tau over the pairs that the rounds show to differ,
# and the regret of the forecast's first one. Needs an idle machine of 2 cores; 24 configurations
# in 8 rounds take half an hour.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
rounds=${1:-8}
most=${2:-24}
seq 1 60000 >"$tmp/data.txt"
"$cadre" plan --measure "$tmp/here.ini" --set device.kind=cpu --set device.threads=1
python3 - "$cadre" "$tmp" "$rounds" "$most" <<'END'
import json, math, subprocess, sys
cadre, tmp, rounds, most = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
stacks = {"ddp": ("ddp:2", {}), "zero-1": ("zero:2", {"zero.stage": 1}),
          "zero-2": ("zero:2", {"zero.stage": 2}), "zero-3": ("zero:2", {"zero.stage": 3}),
          "tensor": ("tensor:2", {})}
for s in ("1f1b", "gpipe", "interleaved", "zb-h1", "breadth-first", "zb-v", "dualpipev"):
    chunks = 1 if s in ("1f1b", "gpipe", "zb-h1") else 2
    stacks[s] = ("pipeline:2", {"pipeline.schedule": s, "pipeline.chunks": chunks})
links = (1.25, 0.125)
conf = """[model]
layers = 4
channels = 128
heads = 4
context = 64
[data]
format = text
tokenizer = byte
path = {tmp}/data.txt
[device]
kind = cpu
threads = 1
[train]
steps = 12
global_batch = 16
micro_batch = 2
precision = fp32
eval_batches = 1
[comm]
link = {link}:30
[checkpoint]
every = 0
"""

def run(*words):
    out = subprocess.run([cadre, *words], capture_output=True, text=True)
    if out.returncode not in (0, 3):
        sys.exit(out.stderr)
    return out.stdout

def forecast(ini, hardware, stack, keys):
    ranks = 1 if stack == "single" else 2
    found = json.loads(run("plan", ini, "--ranks", str(ranks), "--hardware", hardware, "--json",
                           "--top", "1"))["candidates"]
    for c in found:
        if (c["stack"] == stack and c["micro_batch"] == 2 and c["recompute"] == "none"
                and c["zero"] == keys.get("zero.stage", 0)
                and c["schedule"] == keys.get("pipeline.schedule")
                and c["chunks"] == keys.get("pipeline.chunks", 1) and "step_s" in c):
            return c["step_s"]
    sys.exit(f"{stack} {keys}: no forecast")

rows, left = [], most
for link in links:
    names = list(stacks)[:left]
    left -= len(names)
    if not names:
        continue
    ini, hardware = f"{tmp}/c{link}.ini", f"{tmp}/h{link}.ini"
    open(ini, "w").write(conf.format(tmp=tmp, link=link))
    open(hardware, "w").write(
        f"[hardware]\nextends = here.ini\nname = link-{link}\n" + "".join(
            f"[link:{l}]\nbandwidth_gb_s = {link}\nlatency_us = 30\n" for l in ("node", "cluster"))
        + "[software]\noverlap_data = 0.9\noverlap_gather = 0.5\n")
    with open(f"{tmp}/compare{link}.ini", "w") as f:
        f.write(f"[run]\nextends = {ini}\nname = here\n[compare]\nrounds = {rounds}\npiece = 0.3\n"
                "perturbations = 2\n[run:single]\nstrategy.stack = single\n")
        for n in names:
            f.write(f"[run:{n}]\nstrategy.stack = {stacks[n][0]}\n" + "".join(
                f"{k} = {v}\n" for k, v in stacks[n][1].items()))
    run("compare", f"{tmp}/compare{link}.ini", "--out", f"{tmp}/out{link}")
    report = {r["name"]: r for r in json.load(open(f"{tmp}/out{link}/report.json"))["runs"]}
    single = forecast(ini, hardware, "single", {})
    for n in names:
        r = report[n]
        if not r.get("speedup"):
            print(f"{n} at {link} GB/s: not timed: {r.get('untimed') or r.get('not_ranked') or r.get('failure')}")
            continue
        rows.append((n, link, forecast(ini, hardware, *stacks[n]) / single, 1 / r["speedup"],
                     (1 / r["speedup_low"] - 1 / r["speedup_high"]) / 2
                     if r.get("speedup_low") else math.nan))
print(f"{'configuration':16} {'link':>6} {'forecast':>9} {'measured':>9} {'+-':>7}  error of T / T(single)")
for n, link, f, m, h in rows:
    print(f"{n:16} {link:6} {f:9.3f} {m:9.3f} {h:7.3f} {100 * (f / m - 1):+7.1f} %")
if not rows:
    sys.exit("nothing was timed")
if any(math.isnan(h) for *_, h in rows):
    print("fewer than 6 rounds have no interval: +- is not known, and any two rows count as different")
errors = [abs(f / m - 1) for _, _, f, m, _ in rows]
half = [h / m for _, _, _, m, h in rows if not math.isnan(h)]
same = total = 0
for i in range(len(rows)):
    for k in range(i):
        a, b = rows[i], rows[k]
        if a[1] == b[1] and not abs(a[3] - b[3]) <= a[4] + b[4]:
            total += 1
            same += 1 if (a[2] - b[2]) * (a[3] - b[3]) > 0 else -1
regret = 0
for link in links:
    here = [r for r in rows if r[1] == link]
    if here:
        regret = max(regret, min(here, key=lambda r: r[2])[3] / min(r[3] for r in here) - 1)
print(f"mean error {100 * sum(errors) / len(errors):.1f} %, largest {100 * max(errors):.1f} %, "
      f"mean half-width {100 * sum(half) / max(1, len(half)):.1f} %")
print(f"Kendall's tau {same / total:.2f} over {total} pairs that the rounds show to differ"
      if total else "no pair is shown to differ")
print(f"regret of the forecast's first {100 * regret:.1f} %")
END
