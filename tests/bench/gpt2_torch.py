#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of a plain GPT-2 in PyTorch, tuned, to set beside Cadre's.

The same work as a step of `cadre train`: forward, backward, AdamW, on random tokens.
Weights, gradients' sums and optimizer states are fp32; products run in --precision.
torch.compile and PyTorch's own scaled_dot_product_attention choose the fastest kernels
they have. Prints one line of JSON.
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.fc = nn.Linear(channels, 4 * channels)
        self.out = nn.Linear(4 * channels, channels)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, channels, heads, vocab, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, channels), nn.Embedding(context, channels)
        self.blocks = nn.ModuleList(Block(channels, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, vocab, bias=False)
        self.head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    for name, default in (
        ("layers", 12), ("channels", 768), ("heads", 12), ("vocab", 50304), ("batch", 8),
        ("time", 1024), ("micro", 1), ("steps", 12), ("warmup", 4), ("threads", 0),
    ):
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--precision", default="bf16", choices=("fp32", "bf16"))
    p.add_argument("--eager", action="store_true", help="without torch.compile")
    return p.parse_args()


def main():
    a = arguments()
    if a.threads:
        torch.set_num_threads(a.threads)
    if a.device == "cuda" and not torch.cuda.is_available():
        sys.exit("gpt2_torch.py: PyTorch sees no GPU")
    torch.manual_seed(1)
    model = GPT2(a.layers, a.channels, a.heads, a.vocab, a.time).to(a.device)
    step_model = model if a.eager else torch.compile(model)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optim = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=1e-4, betas=(0.9, 0.95), fused=True,
    )
    tokens = torch.randint(a.vocab, (a.batch, a.time + 1), device=a.device)

    def step():
        for _ in range(a.micro):
            with torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "bf16"):
                loss = step_model(tokens[:, :-1], tokens[:, 1:]) / a.micro
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)

    times = []
    for i in range(a.warmup + a.steps):
        begin = time.perf_counter()
        step()
        if a.device == "cuda":
            torch.cuda.synchronize()
        if i >= a.warmup:
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    print(json.dumps({
        "tokens_per_s": a.batch * a.time * a.micro / median, "step_s": median,
        "torch": torch.__version__, "device": a.device, "precision": a.precision,
    }))


if __name__ == "__main__":
    main()
