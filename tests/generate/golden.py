#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/generate/golden.py: makes golden.json anew, with transformers and torch.

What transformers generates greedily in fp64 from the models of tests/samples/weights, and
the probabilities that its warpers leave of some logits. gap is the least distance of the two
largest logits at any of the tokens: what rounding would have to exceed to change one.
"""
import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE.parent / "samples/weights"
PROMPTS = {
    "stories260K-hf": ([[1], [1, 403, 407, 261, 378]], 200),
    "tiny_gpt2": ([[0], [5, 17, 256, 999, 3], list(range(40, 64))], 90),
}


def greedy(name, prompt, count):
    model = transformers.AutoModelForCausalLM.from_pretrained(WEIGHTS / name)
    model = model.double().eval()
    model.generation_config.eos_token_id = None
    out = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=count,
        do_sample=False,
    )
    with torch.no_grad():  # generate rounds what it returns to fp32
        logits = model(out[:, :-1]).logits[0, len(prompt) - 1 :]
    top = logits.topk(2).values
    last = logits[-1].topk(5)
    return {
        "model": name,
        "prompt": len(prompt),
        "ids": out[0].tolist(),
        "gap": (top[:, 0] - top[:, 1]).min().item(),
        "last": [last.indices.tolist(), last.values.tolist()],
    }


def warped(logits, temperature, top_k, top_p):
    """In the order of GenerationMixin: temperature, top-k, top-p."""
    scores = torch.tensor([logits], dtype=torch.float64)
    if temperature != 1:
        scores = transformers.TemperatureLogitsWarper(temperature)(None, scores)
    if top_k:
        scores = transformers.TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = transformers.TopPLogitsWarper(top_p)(None, scores)
    return {
        "logits": logits,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "probabilities": scores.softmax(-1)[0].tolist(),
    }


def main():
    torch.manual_seed(19)
    torch.set_num_threads(1)
    rows = [[round(x, 4) for x in (torch.randn(12) * s).tolist()] for s in (0.5, 2, 6)]
    rows.append([1.5, 3.0, 3.0, -2.0, 3.0, 0.25])  # equal ones at the edge of top-k
    cuts = [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.9), (1.0, 0, 0.3)]
    cuts += [(1.7, 5, 0.8), (0.5, 4, 0.5), (1.0, 1, 1.0), (1.0, 0, 1e-6), (3.0, 99, 0.99)]
    golden = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "greedy": [
            greedy(name, prompt, count)
            for name, (prompts, count) in PROMPTS.items()
            for prompt in prompts
        ],
        # which of equal ones top-p keeps is not defined in transformers
        "warped": [
            warped(row, *cut)
            for row in rows
            for cut in cuts
            if len(set(row)) == len(row) or cut[2] == 1
        ],
    }
    (HERE / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    for case in golden["greedy"]:
        print(case["model"], case["prompt"], len(case["ids"]), "least gap", case["gap"])


main()
