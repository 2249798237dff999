#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/bench/plan_fits.sh [N]: does what `cadre plan` says fits, fit? N (200) random candidates of
# random models on 1 to 4 ranks are planned for a device whose memory is 0.8 to 1.25 of what they
# are said to need, and then trained for two steps. Prints how often "fits" and "does not fit" were
# wrong by the most bytes that a rank had, how far the bytes are off, and of three larger runs what
# was resident beside what was said to be needed. Fails where something that was said to fit did not.
. "$(dirname "$0")/lib.sh"
cadre=${CADRE_BUILD:-$top/build}/cadre
seq 1 60000 >"$tmp/data.txt"
python3 - "$cadre" "$tmp" "${1:-200}" <<'END'
import json, random, shutil, subprocess, sys
cadre, tmp, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
draw = random.Random(5)
conf = """[model]
layers = {layers}
channels = {channels}
heads = {heads}
context = {context}
[data]
format = text
tokenizer = byte
path = {tmp}/data.txt
[device]
kind = cpu
threads = 1
[train]
steps = 2
global_batch = {batch}
precision = {precision}
eval_batches = 1
[checkpoint]
every = 0
[log]
progress = no
"""
machine = """[hardware]
name = any
accounting = cadre
[device]
peak_fp32_tflops = 1
peak_bf16_tflops = 1
memory_gib = {gib:.12f}
reserve_gib = 0
memory_gb_s = 100
memory_efficiency = 1
product_efficiency = 1
product_half_gflop = 0
attention = fused
attention_efficiency = 1
[node]
devices = 8
[link:node]
bandwidth_gb_s = 10
latency_us = 1
efficiency = 1
[link:cluster]
bandwidth_gb_s = 10
latency_us = 1
efficiency = 1
"""

def run(*words):
    out = subprocess.run([cadre, *words], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(words)}: {out.stderr}")
    return out.stdout

def plan(ini, ranks, gib, top):
    open(f"{tmp}/machine.ini", "w").write(machine.format(gib=gib))
    return json.loads(run("plan", ini, "--ranks", str(ranks), "--hardware", f"{tmp}/machine.ini",
                          "--json", "--top", str(top)))["candidates"]

def key(c):
    return [c[k] for k in ("stack", "schedule", "chunks", "zero", "micro_batch", "recompute")]

def sets(c):
    out = {"strategy.stack": c["stack"], "train.micro_batch": c["micro_batch"],
           "train.recompute": "block" if c["recompute"] == "full" else "none"}
    if "zero:" in c["stack"]:
        out["zero.stage"] = c["zero"]
    if "pipeline:" in c["stack"]:
        out["pipeline.schedule"], out["pipeline.chunks"] = c["schedule"], c["chunks"]
    return [x for k, v in out.items() for x in ("--set", f"{k}={v}")]

def train(ini, c):
    shutil.rmtree(f"{tmp}/run", ignore_errors=True)
    run("train", ini, "--out", f"{tmp}/run", *sets(c))
    return json.load(open(f"{tmp}/run/summary.json"))

tried = fits = wrong_fit = wrong_refusal = 0
off = []
while tried < wanted:
    ranks = draw.choice((1, 2, 4))
    heads = draw.choice((2, 4))
    ini = f"{tmp}/run.ini"
    open(ini, "w").write(conf.format(
        tmp=tmp, layers=draw.choice((2, 4, 6)), channels=heads * draw.choice((16, 24, 32)),
        heads=heads, context=draw.choice((16, 40, 64)), batch=draw.choice((8, 16)),
        precision=draw.choice(("fp32", "bf16"))))
    asked = [c for c in plan(ini, ranks, 64, 400) if c.get("bytes_asked") and not c["refused"]]
    for c in draw.sample(asked, min(5, len(asked), wanted - tried)):
        memory = c["bytes_asked"] * draw.uniform(0.8, 1.25)
        again = [x for x in plan(ini, ranks, memory / 2**30, 400) if key(x) == key(c)]
        said = not again[0]["refused"]
        s = train(ini, c)
        peak = max(s["peak_bytes"])
        tried += 1
        fits += said
        wrong_fit += said and peak > memory
        wrong_refusal += not said and peak <= memory
        off.append((100 * (peak / c["bytes_asked"] - 1), " ".join(map(str, key(c)))))
print(f"```\n{tried} candidates: {fits} said to fit, of which {wrong_fit} did not; {tried - fits} said not "
      f"to fit, of which {wrong_refusal} did")
off.sort()
print(f"most bytes that a rank had, beside those that its plan asks for: {off[0][0]:+.1f} % "
      f"({off[0][1]}) to {off[-1][0]:+.1f} % ({off[-1][1]}), median {off[len(off) // 2][0]:+.1f} %")
for stack in ("single", "zero:2", "pipeline:2"):
    ini = f"{tmp}/large.ini"
    open(ini, "w").write(conf.format(tmp=tmp, layers=8, channels=640, heads=10, context=256, batch=8,
                                     precision="fp32"))
    s = train(ini, {"stack": stack, "micro_batch": 2, "recompute": "none", "zero": 2,
                    "schedule": "1f1b", "chunks": 1})
    need, have = s["setup"]["needed_bytes"], sum(s["resident_bytes"])
    print(f"{stack}: {have / 2**20:.0f} MiB resident, {need / 2**20:.0f} said to be needed: "
          f"{100 * (have / need - 1):+.1f} %")
print("```")
sys.exit(wrong_fit > 0)
END
