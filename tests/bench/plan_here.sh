#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/plan_here.sh [ROUNDS [CONFIGURATIONS]]: forecasts beside measurements on this machine.
#
# `cadre plan --measure` writes a hardware file for each link; then configurations that no number was
# fitted to (12 stacks of 2 ranks, links of 0.125 and 1.25 GB/s: 24) are forecast as ratios to
# `single` by both engines, the formulas and the simulation, and timed in rounds by `cadre compare`.
# Prints every row, and of each engine mean and largest error beside the half-width of the measured
# ratios, Kendall's tau over the pairs that the rounds show to differ, and the regret of the
# forecast's first one; of pipelines also the idle part of the schedule. Needs an idle machine of 2 cores; 24 configurations in 8 rounds take 11
# minutes.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
rounds=${1:-8}
most=${2:-24}
seq 1 60000 >"$tmp/data.txt"
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
    """Seconds of a step, and the idle part of a pipeline's schedule, by the formulas and by simulation."""
    ranks = "1" if stack == "single" else "2"
    plan = ["plan", ini, "--ranks", ranks, "--hardware", hardware, "--json"]
    seen = json.loads(run(*plan, "--simulate", "--set", f"strategy.stack={stack}",
                          *(x for k, v in keys.items() for x in ("--set", f"{k}={v}"))))
    idle = seen["seconds"]["bubble_s"]
    simulated = seen["step_s"], idle / (idle + seen["seconds"]["compute_s"])
    for c in json.loads(run(*plan, "--top", "1"))["candidates"]:
        if (c["stack"] == stack and c["micro_batch"] == 2 and c["recompute"] == "none"
                and c["zero"] == keys.get("zero.stage", 0)
                and c["schedule"] == keys.get("pipeline.schedule")
                and c["chunks"] == keys.get("pipeline.chunks", 1) and "step_s" in c):
            idle = c["seconds"]["bubble"] + c["seconds"]["pipeline"]
            return (c["step_s"], idle / (idle + c["seconds"]["compute"])), simulated
    sys.exit(f"{stack} {keys}: no forecast")

print("```", flush=True)
rows, idle, left = [], [], most
for link in links:
    names = list(stacks)[:left]
    left -= len(names)
    if not names:
        continue
    ini, hardware = f"{tmp}/c{link}.ini", f"{tmp}/h{link}.ini"
    open(ini, "w").write(conf.format(tmp=tmp, link=link))
    print(run("plan", "--measure", hardware, "--set", "device.kind=cpu", "--set",
              "device.threads=1", "--set", f"comm.link={link}:30").replace(tmp + "/", ""), end="")
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
        ahead = forecast(ini, hardware, *stacks[n])
        if stacks[n][0].startswith("pipeline"):
            idle.append((n, link, r["bubble_fraction"], [a[1] for a in ahead]))
        rows.append((n, link, [a[0] / s[0] for a, s in zip(ahead, single)], 1 / r["speedup"],
                     (1 / r["speedup_low"] - 1 / r["speedup_high"]) / 2
                     if r.get("speedup_low") else math.nan))
if not rows:
    sys.exit("nothing was timed")
print(f"{'configuration':14} {'link':>6} {'measured':>9} {'+-':>6} {'formulas':>9} {'error':>8}"
      f" {'simulated':>9} {'error':>8}   (step over that of single)")
for n, link, f, m, h in rows:
    print(f"{n:14} {link:6} {m:9.3f} {h:6.3f}"
          + "".join(f" {x:9.3f} {100 * (x / m - 1):+6.1f} %" for x in f))
if any(math.isnan(h) for *_, h in rows):
    print("a row without +- (fewer than 6 rounds) counts as different from any other")
half = [h / m for _, _, _, m, h in rows if not math.isnan(h)]
print(f"mean half-width {100 * sum(half) / max(1, len(half)):.1f} %")

def judge(name, at):
    errors = [abs(f[at] / m - 1) for _, _, f, m, _ in rows]
    same = total = 0
    for i in range(len(rows)):
        for k in range(i):
            a, b = rows[i], rows[k]
            if a[1] == b[1] and not abs(a[3] - b[3]) <= a[4] + b[4]:
                total += 1
                same += 1 if (a[2][at] - b[2][at]) * (a[3] - b[3]) > 0 else -1
    regret = 0
    for link in links:
        here = [r for r in rows if r[1] == link]
        if here:
            best = min(here, key=lambda r: r[2][at])
            regret = max(regret, best[3] / min(r[3] for r in here) - 1)
    tau = f"{same / total:.2f} over {total} pairs" if total else "of no pair"
    print(f"{name}: mean error {100 * sum(errors) / len(errors):.1f} %, largest "
          f"{100 * max(errors):.1f} %; Kendall's tau {tau} shown to differ; regret of the first "
          f"{100 * regret:.1f} %")

judge("formulas", 0)
judge("simulation", 1)
print("\nidle part of a pipeline's schedule:")
print(f"{'configuration':14} {'link':>6} {'measured':>9} {'formulas':>9} {'off':>7} {'simulated':>9} {'off':>7}")
for n, link, m, f in idle:
    print(f"{n:14} {link:6} {m:9.3f}" + "".join(f" {x:9.3f} {x - m:+7.3f}" for x in f))
for i, name in enumerate(("formulas", "simulation")):
    off = [abs(f[i] - m) for _, _, m, f in idle]
    if off:
        print(f"{name}: mean {sum(off) / len(off):.3f}, largest {max(off):.3f}")
print("```")
END
