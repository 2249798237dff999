#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causal attention of PyTorch on the CPU: its fused kernel. tests/bench/cpu_attention.sh runs it.

attention_torch.py THREADS SECONDS DTYPE BATCH TIME HEADS KV_HEADS HEAD_SIZE prints the same
line as bench_attention.
"""
import json
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F


def resident_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    threads, seconds, dtype, *sizes = sys.argv[1:]
    batch, length, heads, kv_heads, size = map(int, sizes)
    torch.set_num_threads(int(threads))
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    q, k, v = (
        torch.randn(batch, length, h, size).to(kind).transpose(1, 2).requires_grad_()
        for h in (heads, kv_heads, kv_heads)
    )
    dout = torch.randn(batch, length, heads, size).to(kind).transpose(1, 2)
    passes, before, start = ([], []), resident_mib(), time.perf_counter()
    while len(passes[0]) < 4 or time.perf_counter() - start < float(seconds):
        begin = time.perf_counter()
        out = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=heads != kv_heads
        )
        middle = time.perf_counter()
        torch.autograd.grad(out, (q, k, v), dout)
        passes[0].append(middle - begin)
        passes[1].append(time.perf_counter() - middle)
    forward, backward = (statistics.median(p[1:]) for p in passes)
    print(json.dumps({
        "forward_s": forward, "backward_s": backward, "more_mib": resident_mib() - before,
        "how": torch.__version__,
    }))


main()
