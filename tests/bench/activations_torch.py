#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch keeps of a forward pass for its backward, next to Cadre's activations.

Counts the distinct storages of saved tensors that belong to no parameter and are no
16-bit copy of one, on the model of gpt2_torch.py on the CPU. Prints one line of JSON. With
--step a whole step of AdamW runs instead, and the line has the process's peak memory.
"""
import argparse
import json
import resource

import torch
from torch.utils.checkpoint import checkpoint

import gpt2_torch


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("layers", "channels", "heads", "kv-heads", "hidden", "vocab", "batch", "time"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--arch", default="gpt2", choices=("gpt2", "llama"))
    p.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    p.add_argument("--recompute", action="store_true", help="keep the blocks' inputs alone")
    p.add_argument("--step", action="store_true")
    p.add_argument("--threads", type=int, default=1)
    return p.parse_args()


class Again(torch.nn.Module):
    """A block that keeps its input and runs once more in backward."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, turn):
        return checkpoint(self.block, x, turn, use_reentrant=False)


def step(a, model):
    adamw = torch.optim.AdamW(model.parameters(), foreach=False)
    tokens = torch.randint(a.vocab, (a.batch, a.time))
    for _ in range(2):  # the second has the states of the first
        with torch.autocast("cpu", torch.bfloat16, enabled=a.precision == "bf16"):
            loss = model(tokens, tokens)
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"peak_mib": peak / 1024}))


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    model = gpt2_torch.Transformer(a)
    if a.recompute:
        model.blocks = torch.nn.ModuleList(Again(block) for block in model.blocks)
    if a.step:
        return step(a, model)
    shapes = {tuple(p.shape) for p in model.parameters() if p.dim() >= 2}
    shapes |= {shape[::-1] for shape in shapes}
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tuple(tensor.shape) not in shapes:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = torch.randint(a.vocab, (a.batch, a.time))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=a.precision == "bf16"):
            loss = model(tokens, tokens)
    print(json.dumps({"bytes": sum(kept.values()), "tokens": a.batch * a.time,
                      "loss": round(loss.item(), 3)}))


main()
