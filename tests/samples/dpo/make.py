#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/samples/dpo/make.py: makes the files of this folder anew.

Pairs of short answers, and what PyTorch computes of 20 AdamW steps of direct preference
optimization on the models of tests/samples/lora: of a whole Llama beside a frozen copy of it,
and of an adapter of a GPT-2 beside the model without it, with label smoothing. Made with torch
2.15.0, transformers 5.24.0 on a CPU.
"""
import copy
import json
import pathlib
import random

import safetensors.torch
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "lora"
TIME, PAIRS, STEPS, STEP_PAIRS = 16, 16, 20, 4
ADAMW = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
FIGURES = ("loss", "rewards/chosen", "rewards/rejected", "rewards/accuracies",
           "rewards/margins", "log_probs/chosen", "log_probs/rejected",
           "logits/chosen", "logits/rejected")


def make_pairs():
    draw = random.Random(5)
    word = lambda n: "".join(draw.choice("abcdefgh ") for _ in range(n))
    return [{"prompt": word(draw.randint(2, 5)), "chosen": word(draw.randint(1, 8)),
             "rejected": word(draw.randint(1, 8))} for _ in range(PAIRS)]


def window(prompt, answer):
    """Inputs and targets; -100: masked. The byte 0 ends an answer and fills up."""
    before, tokens = list((prompt + "\n").encode()), list(answer.encode()) + [0]
    ids = (before + tokens + [0] * TIME)[:TIME + 1]
    seen = range(len(before), len(before) + len(tokens))
    return ids[:-1], [ids[t] if t in seen else -100 for t in range(1, TIME + 1)]


def use_dtype_throughout():
    """transformers computes Llama's norms and rotary angles in fp32 whatever the dtype."""
    module = transformers.models.llama.modeling_llama

    def norm(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)
                                              + self.variance_epsilon))

    def angles(self, x, position_ids):
        size = self.config.head_dim
        inverse = 10000.0 ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
        at = (position_ids[..., None].double() * inverse).repeat(1, 1, 2)
        return at.cos().to(x.dtype), at.sin().to(x.dtype)

    module.LlamaRMSNorm.forward = norm
    module.LlamaRotaryEmbedding.forward = angles


class Adapted(torch.nn.Module):
    """A product of GPT-2 with an adapter beside it."""
    on = True

    def __init__(self, base, a, b, scale):
        super().__init__()
        self.base, self.scale = base, scale
        self.a, self.b = torch.nn.Parameter(a), torch.nn.Parameter(b)

    def forward(self, x):
        y = self.base(x)
        return y + self.scale * (x @ self.a.T) @ self.b.T if Adapted.on else y


def load(name, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(
        MODELS / name, attn_implementation="sdpa", dtype=dtype)


def load_adapted(name, dtype):
    model = load(name, dtype).requires_grad_(False)
    config = json.loads((MODELS / f"{name}-adapter/adapter_config.json").read_text())
    tensors = safetensors.torch.load_file(MODELS / f"{name}-adapter/adapter_model.safetensors")
    for key in [key for key in tensors if "lora_A" in key]:
        path = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        holder, leaf = path.rsplit(".", 1)
        parent = model.get_submodule(holder)
        setattr(parent, leaf, Adapted(getattr(parent, leaf), tensors[key].to(dtype),
                                      tensors[key.replace("lora_A", "lora_B")].to(dtype),
                                      config["lora_alpha"] / config["r"]))
    return model


def log_probs(model, samples):
    x = torch.tensor([ids for ids, _ in samples])
    y = torch.tensor([targets for _, targets in samples])
    at = torch.log_softmax(model(input_ids=x).logits, -1)
    picked = at.gather(-1, y.clamp(min=0)[..., None])[..., 0]
    return (picked * (y >= 0)).sum(-1)


def mean_logits(model, samples):
    """Over the vocabulary and the targets of all samples, as TRL's DPOTrainer prints it."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids for ids, _ in samples])).logits
    return logits[torch.tensor([targets for _, targets in samples]) >= 0].mean(-1).mean()


def train(model, reference, beta, smoothing):
    samples = [window(pair["prompt"], pair[key]) for pair in make_pairs()
               for key in ("chosen", "rejected")]
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([
        {"params": [p for p in trained if p.ndim > 1]},
        {"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0}], **ADAMW)
    for step in range(STEPS):
        first = step * 2 * STEP_PAIRS % len(samples)
        batch = samples[first:first + 2 * STEP_PAIRS]
        with torch.no_grad():
            Adapted.on = reference is not model
            ref = log_probs(reference, batch)
            Adapted.on = True
        pi = log_probs(model, batch)
        x = beta * ((pi[0::2] - pi[1::2]) - (ref[0::2] - ref[1::2]))
        sigmoid = torch.nn.functional.logsigmoid
        loss = (-(1 - smoothing) * sigmoid(x) - smoothing * sigmoid(-x)).mean()
        logits = [mean_logits(model, batch[i::2]) for i in (0, 1)]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rewards = beta * (pi - ref).detach()
        chosen, rejected = rewards[0::2], rewards[1::2]
        yield [v.item() for v in (loss, chosen.mean(), rejected.mean(),
                                  (chosen > rejected).to(pi.dtype).mean(),
                                  (chosen - rejected).mean(), pi[0::2].mean(),
                                  pi[1::2].mean(), *logits)]


def main():
    torch.set_num_threads(1)
    use_dtype_throughout()
    (HERE / "pairs.json").write_text(json.dumps(make_pairs(), indent=1) + "\n")
    rows = []
    for precision, dtype in (("fp64", torch.float64), ("fp32", torch.float32)):
        whole, adapted = load("llama", dtype), load_adapted("gpt2", dtype)
        frozen = copy.deepcopy(whole).requires_grad_(False)
        for form, steps in (("llama", train(whole, frozen, 0.1, 0)),
                            ("gpt2", train(adapted, adapted, 0.3, 0.1))):
            for step, values in enumerate(steps):
                rows += [f"{form}\t{precision}\t{step + 1}\t{name}\t{value:.17g}"
                         for name, value in zip(FIGURES, values)]
    (HERE / "golden.tsv").write_text("\n".join(rows) + "\n")


main()
