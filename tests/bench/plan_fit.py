#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fit numbers of a hardware file to named rows of published steps, and to no others.

    tests/bench/plan_fit.py CADRE FILE.ini TABLE.csv "SET MODEL GPUS [COLUMN=TEXT]...; ..." KEY=PRIOR...

CADRE is the program; KEY is section.key of the file. What is minimised: the sum of squared
errors of the rows' times, and 0.002 (ln(value / prior))^2 for each number, which decides where
the rows leave it open. Coordinate descent from the priors; prints the values and the errors."""
import csv, json, math, os, re, subprocess, sys, tempfile

cadre, base, table, names, *keys = sys.argv[1:]
keys = {k: float(v) for k, v in (x.split("=") for x in keys)}
wanted = [tuple(n.split()) for n in names.split(";") if n.strip()]
lines = open(table).read().splitlines()
rows = list(csv.DictReader(lines))
chosen = []
for w in wanted:
    hit = [i for i, r in enumerate(rows) if (r["set"], r["model"], r["gpus"]) == w[:3]
           and all(r[x.split("=")[0]] == x.split("=")[1] for x in w[3:])]
    if len(hit) != 1:
        sys.exit(f"{w}: {len(hit)} rows")
    chosen.append(hit[0])
folder = tempfile.mkdtemp()
with open(f"{folder}/rows.csv", "w") as f:
    f.write("\n".join([lines[0]] + [lines[1 + i] for i in chosen]) + "\n")
with open(f"{folder}/map.tsv", "w") as f:
    f.write("hw\tset\thardware\n")
    for hw in sorted({rows[i]["hw"] for i in chosen}):
        f.write(f"{hw}\t*\ttry.ini\n")

def errors(values):
    sections = {}
    for k, v in values.items():
        section, key = k.rsplit(".", 1)
        sections.setdefault(section, []).append(f"{key} = {v:.6g}")
    with open(f"{folder}/try.ini", "w") as f:
        f.write(f"[hardware]\nextends = {os.path.abspath(base)}\nname = try\n")
        for s, lines in sections.items():
            f.write(f"[{s}]\n" + "\n".join(lines) + "\n")
    out = subprocess.run([cadre, "plan", "--replay", f"{folder}/rows.csv", "--hardware",
                          f"{folder}/map.tsv", "--json"], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return [r["error"] for r in json.loads(out.stdout)["rows"]]

def loss(values):
    return sum(e * e for e in errors(values)) + sum(
        0.002 * math.log(v / keys[k]) ** 2 for k, v in values.items())

def legal(k, v):
    return v <= 1 or re.search(r"gb_s|gflop", k)

values, step = dict(keys), {k: 0.2 for k in keys}
best = loss(values)
while max(step.values()) > 0.002:
    for k in keys:
        for factor in (1 + step[k], 1 / (1 + step[k])):
            trial = dict(values, **{k: values[k] * factor})
            if legal(k, trial[k]) and (new := loss(trial)) < best - 1e-12:
                best, values, step[k] = new, trial, step[k] * 1.3
                break
        else:
            step[k] /= 2
for k, v in values.items():
    print(f"{k} = {v:.3g}")
print("errors of the named rows, %:", " ".join(f"{100 * e:+.1f}" for e in errors(values)))
