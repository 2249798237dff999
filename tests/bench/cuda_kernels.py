#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuda_kernels.py FILE STEPS [SHAPE TFLOPS GBYTES]: what cuda_kernels.so wrote, as milliseconds
and launches a step, by kind of kernel and kernel by kernel.

A step ends with the last kernel of an AdamW update. The last half of the steps is counted.
With SHAPE, a line of lib.sh's shape(), and the card's rates of a 16-bit product and of a copy
(read and written), each kind's floor is printed too: the FLOPs that it cannot do without, or the
bytes that it must read and write once, at that rate. KERNELS is how many kernels are printed (40).
"""
import collections
import os
import re
import sys

# The first that a name matches, so that a fused kernel of PyTorch's counts as one of its parts.
KINDS = [
    ("attention forward", r"attention_.*forward|fprop|flash_fwd"),
    ("attention backward", r"attention_.*backward|statistics|bprop|flash_bwd|dot_do_o|convert_dq"),
    ("products", r"nvjet|gemm|cutlass|cublas|splitk|xmma|16816"),
    ("cross-entropy", r"xent|softmax|nll_loss"),
    ("norms", r"norm_fwd|norm_bwd|layer_norm|rms_?norm"),
    ("activations", r"epilogue|gelu|swiglu|silu"),
    ("AdamW", r"adam|update"),
    ("sums", r"sum_squares|norm_total|bias_bwd|column_total|sum_rows|reduce|_sum"),
]


def floors(shape, tflops, gbytes):
    """Milliseconds a step of each kind."""
    arch, *numbers = shape.split()
    layers, channels, heads, kv_heads, hidden, vocab, time, batch = map(int, numbers)
    gpt2 = arch == "gpt2"
    tokens = batch * time
    kv = channels * kv_heads // heads
    mlp = (2 if gpt2 else 3) * channels * hidden
    weights = layers * (2 * channels * channels + 2 * channels * kv + mlp) + channels * vocab
    parameters = weights + (time * channels if gpt2 else channels * vocab)
    product = 2 * time * channels * layers // 2  # of causal scores, a token
    biased = (3 * channels + channels + hidden + channels) if gpt2 else 0

    def flops(n):
        return n * tokens / tflops / 1e9

    def moved(n):
        return n / gbytes / 1e6

    return {
        "products": flops(6 * weights),
        "attention forward": flops(2 * product),
        "attention backward": flops(5 * product),
        # scaled logits are read twice and their gradient is written
        "cross-entropy": moved(3 * 2 * tokens * vocab),
        # forward: two summands read, the sum and y written; backward: x, dy and the residual's
        # gradient read, dx written
        "norms": moved(8 * 2 * tokens * channels * (2 * layers + 1)),
        # gelu: x and y, then x, dy and dx; swiglu: one more to read, then one more, two written
        "activations": moved((5 if gpt2 else 8) * 2 * tokens * hidden * layers),
        # parameter, both moments in f32 read and written, gradient read, 16 bits written
        "AdamW": moved(30 * parameters),
        # gradients once for the norm of all, those of outputs once for biases
        "sums": moved(4 * parameters + 2 * tokens * biased * layers),
    }


def kind_of(name):
    for kind, pattern in KINDS:
        if re.search(pattern, name, re.IGNORECASE):
            return kind
    return "other"


def last_steps(events, steps):
    """Where the last steps // 2 steps end, and where the one before them does."""
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
    return ends[-(steps // 2) - 1:]


def main():
    path, steps = sys.argv[1], int(sys.argv[2])
    events = []
    with open(path, encoding="ascii", errors="replace") as lines:
        for line in lines:
            begin, end, _, name = line.rstrip("\n").split(" ", 3)
            events.append((int(begin), int(end), name))
    events.sort()
    ends = last_steps(events, steps)
    if len(ends) < 2:
        sys.exit(f"cuda_kernels.py: {path}: fewer than two steps of AdamW were found")
    count = len(ends) - 1
    span = events[ends[0] + 1 : ends[-1] + 1]
    total, calls, kinds = collections.Counter(), collections.Counter(), collections.Counter()
    busy, until = 0, events[ends[0]][1]
    whole = events[ends[-1]][1] - until
    for begin, end, name in span:
        total[name] += end - begin
        calls[name] += 1
        kinds[kind_of(name)] += end - begin
        busy += max(0, end - max(begin, until))
        until = max(until, end)
    floor = {}
    if len(sys.argv) > 3:
        floor = floors(sys.argv[3], float(sys.argv[4]), float(sys.argv[5]))
    print(f"a step {whole / count / 1e6:.3f} ms, idle {(whole - busy) / count / 1e6:.3f} ms, "
          f"{len(span) / count:.0f} launches ({count} steps)"
          + (f", floor {sum(floor.values()):.3f} ms" if floor else ""))
    for kind, ns in kinds.most_common():
        print(f"{ns / count / 1e6:9.4f}  {kind}"
              + (f", floor {floor[kind]:.4f}" if kind in floor else ""))
    print("by kernel: ms a step, launches, name")
    for name, ns in total.most_common(int(os.environ.get("KERNELS", "40"))):
        print(f"{ns / count / 1e6:9.4f} {calls[name] / count:6.1f}  {name[:96]}")


main()
