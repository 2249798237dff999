#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leave-one-out errors of replayed steps: conf/hardware/errors.tsv, on stdout.

    tests/bench/plan_errors.py CADRE

A row that no number was fitted to has the error that `cadre plan --replay` shows. One that was
is replayed with the numbers of its file fitted once more, without it (plan_fit.py). Rows of dgxc
are replayed with files that are fitted without their model already."""
import csv, json, os, re, subprocess, sys, tempfile

cadre = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))
top = os.path.dirname(os.path.dirname(here))
conf = f"{top}/conf/hardware"
tables = [f"{top}/tests/samples/planner/{t}.csv" for t in ("published", "more")]
# File, what is fitted with its priors, and the rows that it is fitted to.
fits = [
    ("a100-80-megatron2022.ini",
     ["device.product_efficiency=0.8", "device.memory_efficiency=0.8",
      "link:node.efficiency=0.75", "device.attention_efficiency=0.4"],
     ["K22T5 22B 8 recompute=full", "K22T5 22B 8 recompute=selective+sp",
      "K22T5 1T 512 recompute=full", "K22T5 1T 512 recompute=selective+sp"]),
    ("a100-80-2021.ini",
     ["device.product_efficiency=0.8", "device.memory_efficiency=0.8",
      "device.attention_efficiency=0.4", "link:node.efficiency=0.75",
      "software.overlap_gather=0.9", "software.gather_gb_s=20"],
     ["N21T1 1.7B 32", "N21T1 18.4B 256", "N21T1 1008B 3072", "N21T2 174.6B 384 tp=8",
      "N21T2 174.6B 384 zero=3", "N21T2 174.6B 1536 zero=3"]),
]
# The one row of fp8 that product_efficiency_fp8 is from is not held out: it is left out.
not_held_out = {("DGXC70-FP8", "Llama3.1-70B", "64")}

def replay(table, texts):
    out = subprocess.run([cadre, "plan", "--replay", table, "--hardware", texts, "--json"],
                         capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return json.loads(out.stdout)["rows"]

def is_row(text, row):
    want = text.split()
    return (row["set"], row["model"], row["gpus"]) == tuple(want[:3]) and all(
        row[x.split("=")[0]] == x.split("=")[1] for x in want[3:])

def without(fit, left, table, line, lines):
    """The error of one row, with the numbers of its file fitted to the others."""
    base, keys, rows = fit
    out = subprocess.run([sys.executable, f"{here}/plan_fit.py", cadre, f"{conf}/{base}", table,
                          ";".join(r for r in rows if r != left), *keys],
                         capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    folder = tempfile.mkdtemp()
    with open(f"{folder}/try.ini", "w") as f:
        f.write(f"[hardware]\nextends = {conf}/{base}\nname = try\n")
        for section, key, value in re.findall(r"^([\w:]+)\.(\w+) = (\S+)$", out.stdout, re.M):
            f.write(f"[{section}]\n{key} = {value}\n")
    with open(f"{folder}/row.csv", "w") as f:
        f.write(lines[0] + "\n" + lines[line] + "\n")
    hw = list(csv.DictReader([lines[0], lines[line]]))[0]["hw"]
    with open(f"{folder}/map.tsv", "w") as f:
        f.write(f"hw\tset\thardware\n{hw}\t*\ttry.ini\n")
    return replay(f"{folder}/row.csv", f"{folder}/map.tsv")[0]["error"]

print("# Errors of forecasts of published steps by numbers fitted without them, as\n"
      "# tests/bench/plan_errors.py makes them: forecast / published seconds - 1.")
print("set\tkind\terror\tmodel\tgpus\trecompute\tfitted")
for table in tables:
    lines = open(table).read().splitlines()
    rows = list(csv.DictReader(lines))
    for i, (row, found) in enumerate(zip(rows, replay(table, f"{conf}/texts.tsv"))):
        if found["refused"] or (row["set"], row["model"], row["gpus"]) in not_held_out:
            continue
        error, again = found["error"], "no"
        for fit in fits:
            for left in fit[2]:
                if is_row(left, row):
                    error, again = without(fit, left, table, i + 1, lines), "without it"
        kind = "gathered" if row["zero"] == "3" else "other"
        print(row["set"], kind, f"{error:.4f}", row["model"], row["gpus"], row["recompute"], again,
              sep="\t")
