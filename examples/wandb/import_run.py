#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Import a finished run of Cadre into Weights & Biases, from the files in its folder.

    pip install wandb
    python3 import_run.py RUN                   # offline: into RUN/wandb
    python3 import_run.py RUN --mode online     # needs `wandb login`

Every number of metrics.jsonl becomes a point of its step, the options of config.ini the run's
configuration, and the numbers of summary.json its summary. `wandb sync RUN/wandb/offline-*`
uploads an offline run later.
"""
import argparse
import configparser
import json
import os
import sys


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
            except ValueError:
                # the run was killed while it wrote its last line
                print(f"{path}:{number}: no whole line, left out", file=sys.stderr)
                continue
            # null is unknown: no point rather than a wrong one
            yield line["step"], {k: v for k, v in line.items() if k != "step" and v is not None}


def read_options(path):
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=False)
    if not parser.read(path, encoding="utf-8"):
        return {}
    return {
        f"{section}.{key}": value.strip("\"'")
        for section in parser.sections()
        if not section.startswith("run:")
        for key, value in parser[section].items()
    }


def read_summary(path):
    if not os.path.exists(path):  # the run was killed
        return {}
    with open(path, encoding="utf-8") as file:
        return {k: v for k, v in json.load(file).items() if isinstance(v, (int, float, str))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("run", help="folder of a run: with metrics.jsonl")
    parser.add_argument("--project", default="cadre")
    parser.add_argument("--mode", default="offline", choices=["offline", "online"])
    args = parser.parse_args()
    metrics = os.path.join(args.run, "metrics.jsonl")
    if not os.path.exists(metrics):
        sys.exit(f"import_run.py: there is no '{metrics}'; give the folder of a run")

    import wandb

    summary = read_summary(os.path.join(args.run, "summary.json"))
    name = summary.get("name") or os.path.basename(os.path.abspath(args.run))
    run = wandb.init(
        project=args.project,
        name=name,
        mode=args.mode,
        dir=args.run,
        config=read_options(os.path.join(args.run, "config.ini")),
    )
    steps = 0
    for step, values in read_lines(metrics):
        run.log(values, step=step)
        steps += 1
    run.summary.update(summary)
    run.finish()
    print(f"{steps} steps of '{name}' imported")


if __name__ == "__main__":
    main()
