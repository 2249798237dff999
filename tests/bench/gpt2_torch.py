#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of a plain GPT-2 or Llama in PyTorch, tuned, to compare with Cadre's.

The same work as a step of `cadre train`: forward, backward, AdamW, on random tokens.
Weights, gradients' sums and optimizer states are fp32; products and what lies between
blocks have --precision.
torch.compile and the faster of PyTorch's own attentions are used. Prints one line of JSON.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, a, bias):
        super().__init__()
        self.heads, self.kv_heads, self.size = a.heads, a.kv_heads, a.channels // a.heads
        kv = self.kv_heads * self.size
        self.parts = (a.channels, kv, kv)
        self.qkv = nn.Linear(a.channels, sum(self.parts), bias=bias)
        self.proj = nn.Linear(a.channels, a.channels, bias=bias)

    def forward(self, x, turn):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, -1, self.size).transpose(1, 2)
            for part in self.qkv(x).split(self.parts, dim=2)
        )
        if turn is not None:
            q, k = rotated(q, *turn), rotated(k, *turn)
        if self.heads != self.kv_heads:
            k, v = (p.repeat_interleave(self.heads // self.kv_heads, dim=1) for p in (k, v))
        y = attended(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


def attended(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    # PyTorch 1, which Debian 12 has
    t = q.shape[2]
    later = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
    return scores.masked_fill(later, float("-inf")).softmax(-1).to(v.dtype) @ v


def rotated(x, cos, sin):
    one, two = x.float().chunk(2, dim=-1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), dim=-1).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight, 1e-5)


class GeluMLP(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.fc, self.out = nn.Linear(a.channels, a.hidden), nn.Linear(a.hidden, a.channels)

    def forward(self, x):
        return self.out(F.gelu(self.fc(x), approximate="tanh"))


class SwiGLU(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.hidden = a.hidden
        self.fc = nn.Linear(a.channels, 2 * a.hidden, bias=False)
        self.out = nn.Linear(a.hidden, a.channels, bias=False)

    def forward(self, x):
        gate, up = self.fc(x).split(self.hidden, dim=-1)
        return self.out(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        gpt2 = a.arch == "gpt2"
        norm = nn.LayerNorm if gpt2 else RMSNorm
        self.norm1, self.norm2 = norm(a.channels), norm(a.channels)
        self.attention = Attention(a, bias=gpt2)
        self.mlp = GeluMLP(a) if gpt2 else SwiGLU(a)

    def forward(self, x, turn):
        x = x + self.attention(self.norm1(x), turn)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, a):
        super().__init__()
        gpt2 = a.arch == "gpt2"
        self.between = torch.bfloat16 if a.precision == "bf16" else torch.float32
        self.embed = nn.Embedding(a.vocab, a.channels)
        self.places = nn.Embedding(a.time, a.channels) if gpt2 else None
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = (nn.LayerNorm if gpt2 else RMSNorm)(a.channels)
        self.head = nn.Linear(a.channels, a.vocab, bias=False)
        if gpt2:
            self.head.weight = self.embed.weight
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
        half = a.channels // a.heads // 2
        speed = 10000.0 ** (-torch.arange(half) / half)
        angle = torch.outer(torch.arange(a.time), speed)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        turn = (self.cos, self.sin)
        if self.places is not None:
            x, turn = x + self.places.weight, None
        x = x.to(self.between)
        for block in self.blocks:
            x = block(x, turn)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    for name, default in (
        ("layers", 12), ("channels", 768), ("heads", 12), ("kv-heads", 0), ("hidden", 0),
        ("vocab", 50304), ("batch", 8), ("time", 1024), ("micro", 1), ("steps", 12),
        ("warmup", 4), ("threads", 0), ("seconds", 0),
    ):
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--arch", default="gpt2", choices=("gpt2", "llama"))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--precision", default="bf16", choices=("fp32", "bf16"))
    p.add_argument(
        "--compile", default="auto", choices=("auto", "model", "blocks", "no"),
        help="all at once, or each block and the loss alone (a block is compiled once, for "
        "deep models); auto: all at once up to 12 layers",
    )
    a = p.parse_args()
    a.kv_heads = a.kv_heads or a.heads
    a.hidden = a.hidden or 4 * a.channels
    if a.compile == "auto":
        a.compile = "model" if a.layers <= 12 else "blocks"
    return a


def seconds_of_attention(a, backend):
    """Of one forward and backward at this shape, or infinity where there is none."""
    from torch.nn.attention import sdpa_kernel

    shape = (a.batch, a.heads, a.time, a.channels // a.heads)
    q, k, v = (
        torch.randn(shape, device=a.device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    grad, best = torch.randn_like(q), float("inf")
    try:
        with sdpa_kernel(backend):
            for _ in range(5):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(4):
                    F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(grad)
                torch.cuda.synchronize()
                best = min(best, time.perf_counter() - begin)
    except RuntimeError:
        return float("inf")
    return best


def best_attention(a):
    """Name and context of the faster attention at this shape; PyTorch's choice elsewhere."""
    if a.device != "cuda" or a.precision != "bf16":
        return "its attention", contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    names = {SDPBackend.FLASH_ATTENTION: "flash", SDPBackend.CUDNN_ATTENTION: "cuDNN"}
    took = {backend: seconds_of_attention(a, backend) for backend in names}
    best = min(took, key=took.get)
    if took[best] == float("inf"):
        return "its attention", contextlib.nullcontext()
    return names[best] + " attention", sdpa_kernel(best)


def measure(a, step):
    """Median of a.steps steps, or of two and as many as fit into a.seconds."""
    times = []
    for _ in range(a.warmup):
        step()
    start = time.perf_counter()
    while len(times) < (2 if a.seconds else a.steps) or (
        time.perf_counter() - start < a.seconds
    ):
        begin = time.perf_counter()
        step()
        if a.device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def adamw(groups):
    options = {"lr": 1e-4, "betas": (0.9, 0.95)}
    try:
        return torch.optim.AdamW(groups, fused=True, **options)
    except (RuntimeError, TypeError, ValueError):  # before 2.4 there is none for a CPU
        return torch.optim.AdamW(groups, foreach=False, **options)


def main():
    a = arguments()
    if a.threads:
        torch.set_num_threads(a.threads)
        torch.set_num_interop_threads(1)
    if a.device == "cuda" and not torch.cuda.is_available():
        sys.exit("gpt2_torch.py: PyTorch sees no GPU")
    torch.manual_seed(1)
    # PyTorch 1 makes no context of a device, and nothing but a CPU is asked of it
    with contextlib.nullcontext() if a.device == "cpu" else torch.device(a.device):
        model = Transformer(a)
    step_model = model
    if a.compile == "model":
        step_model = torch.compile(model)
    elif a.compile == "blocks":
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(model.loss)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optim = adamw(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    )
    tokens = torch.randint(a.vocab, (a.batch, a.time + 1), device=a.device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step():
        for _ in range(a.micro):
            with torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "bf16"):
                loss = step_model(inputs, targets) / a.micro
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)

    attention, context = best_attention(a)
    with context:
        median = measure(a, step)
    print(json.dumps({
        "tokens_per_s": a.batch * a.time * a.micro / median, "step_s": median,
        "torch": torch.__version__, "device": a.device, "precision": a.precision,
        "how": f"{torch.__version__}, compile: {a.compile}, {attention}",
    }))


if __name__ == "__main__":
    main()
