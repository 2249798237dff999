#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuda_kernels.py FILE STEPS: what cuda_kernels.so wrote, as milliseconds and launches a step.

A step ends with the last kernel of an AdamW update. The last half of the steps is counted.
"""
import collections
import re
import sys


def main():
    path, steps = sys.argv[1], int(sys.argv[2])
    events = []
    with open(path, encoding="ascii", errors="replace") as lines:
        for line in lines:
            begin, end, _, name = line.rstrip("\n").split(" ", 3)
            events.append((int(begin), int(end), name))
    events.sort()
    ends, last = [], None
    for i, (_, _, name) in enumerate(events):
        if re.search("adamw|adam_", name, re.IGNORECASE):
            last = i
        elif last is not None and i - last > 20:
            # over when so many others have followed: an update may be several launches
            ends.append(last)
            last = None
    if last is not None:
        ends.append(last)
    ends = ends[-(steps // 2) - 1:]
    if len(ends) < 2:
        sys.exit(f"cuda_kernels.py: {path}: fewer than two steps of AdamW were found")
    count = len(ends) - 1
    span = events[ends[0] + 1 : ends[-1] + 1]
    total = collections.Counter()
    calls = collections.Counter()
    busy, until = 0, events[ends[0]][1]
    whole = events[ends[-1]][1] - until
    for begin, end, name in span:
        total[name] += end - begin
        calls[name] += 1
        busy += max(0, end - max(begin, until))
        until = max(until, end)
    print(f"a step {whole / count / 1e6:.3f} ms, idle {(whole - busy) / count / 1e6:.3f} ms, "
          f"{len(span) / count:.0f} launches ({count} steps)")
    for name, ns in total.most_common(40):
        print(f"{ns / count / 1e6:9.4f} {calls[name] / count:6.1f}  {name[:96]}")


main()
