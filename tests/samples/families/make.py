#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/samples/families/make.py [TO]: makes the models of this folder, here or in TO.

Random models of each family that Cadre reads, saved by transformers itself, and what
transformers computes with them in fp64: golden.json has tokens, the mean loss, logits of
the last position of each row, and the norm of the gradient; greedy.bin the bytes that
the model writes behind "Once", the likeliest each time, and a line break. transformers computes norms,
softmax and rotary angles in fp32 whatever the model's type: here torch.float32 names
float64 while it runs, and the angles are asserted to be those of its fp32 formulas.
Made with torch 2.15.0, transformers 5.23.0, safetensors 0.8.0.
"""
import json
import pathlib
import sys

import torch

HERE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
HERE = HERE if HERE.is_dir() else HERE.parent
FP32 = torch.float32

from safetensors.torch import load_file  # noqa: E402
from transformers import (  # noqa: E402
    AutoConfig,
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

SMALL = dict(
    vocab_size=256,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=48,
    rms_norm_eps=1e-5,
    bos_token_id=None,
    eos_token_id=None,
)
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 24,
    "rope_theta": 500.0,
}
MODELS = {
    "gpt2": (
        GPT2Config(
            vocab_size=256,
            n_embd=16,
            n_layer=2,
            n_head=4,
            n_positions=48,
            bos_token_id=None,
            eos_token_id=None,
        ),
        torch.bfloat16,
        None,
    ),
    "llama2": (LlamaConfig(**SMALL), torch.bfloat16, None),
    "llama3": (
        LlamaConfig(**SMALL, rope_parameters=LLAMA3, tie_word_embeddings=True),
        FP32,
        None,
    ),
    "llama-linear": (
        LlamaConfig(
            **SMALL,
            rope_parameters={
                "rope_type": "linear",
                "factor": 2.5,
                "rope_theta": 10000.0,
            },
        ),
        torch.bfloat16,
        "12KB",
    ),
    "mistral": (
        MistralConfig(**SMALL, head_dim=6, sliding_window=48),
        torch.bfloat16,
        None,
    ),
    "qwen2": (Qwen2Config(**SMALL, tie_word_embeddings=True), torch.bfloat16, None),
    "qwen3": (Qwen3Config(**SMALL, head_dim=10), torch.bfloat16, "12KB"),
}


def scramble(model, seed):
    """Values of a size at which every parameter has an effect."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        values = torch.randn(p.shape, generator=generator, dtype=torch.float32)
        norm = "norm" in name or "ln_" in name
        p.data = (
            1 + 0.2 * values
            if norm and name.endswith("weight")
            else 0.3 * values
        ).to(p.dtype)


def angles(model):
    return [m.inv_freq for m in model.modules() if hasattr(m, "inv_freq")]


def in_double(folder, fp32_angles):
    """The saved model in fp64, its angles too."""
    config = AutoConfig.from_pretrained(folder)
    state = {}
    for file in sorted(folder.glob("*.safetensors")):
        state |= {k: v.double() for k, v in load_file(file).items()}
    torch.float32 = torch.float = torch.float64
    was = torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model.double().eval()
        missing, unknown = model.load_state_dict(state, strict=False)
        assert unknown == [] and missing in ([], ["lm_head.weight"]), (missing, unknown)
        assert config.tie_word_embeddings or not missing
        model.tie_weights()
        for mine, theirs in zip(angles(model), fp32_angles):
            assert mine.dtype == torch.float64
            assert torch.allclose(mine, theirs.double(), rtol=1e-6), (mine, theirs)
        tokens = torch.randint(
            0, 256, (3, 41), generator=torch.Generator().manual_seed(5)
        )
        out = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            out.logits.reshape(-1, 256), tokens[:, 1:].reshape(-1)
        )
        assert out.logits.dtype == torch.float64
        with torch.no_grad():
            text, gap = list(b"Once"), 1e9
            while len(text) < 44:
                top = model(torch.tensor([text])).logits[0, -1].topk(2)
                text.append(top.indices[0].item())
                gap = min(gap, (top.values[0] - top.values[1]).item())
        assert gap > 1e-6, gap
        loss.backward()
        squares = sum((p.grad**2).sum() for p in model.parameters())
    finally:
        torch.float32 = torch.float = FP32
        torch.Tensor.float = was
        torch.set_default_dtype(FP32)
    return {
        "greedy": text,
        "tokens": tokens.tolist(),
        "loss": loss.item(),
        "grad_norm": squares.sqrt().item(),
        "logits": [[f"{v:.17g}" for v in row[-1, ::8].tolist()] for row in out.logits],
    }


def main():
    for seed, (name, (config, dtype, shard)) in enumerate(MODELS.items()):
        folder = HERE / name
        model = AutoModelForCausalLM.from_config(config)
        scramble(model, seed + 1)
        turns = [a.clone() for a in angles(model)]
        more = {"max_shard_size": shard} if shard else {}
        model.to(dtype).save_pretrained(folder, **more)
        (folder / "generation_config.json").unlink(missing_ok=True)
        for file in folder.iterdir():
            file.chmod(0o644)
        golden = in_double(folder, turns)
        (folder / "greedy.bin").write_bytes(bytes(golden.pop("greedy")) + b"\n")
        golden["logits"] = [[float(v) for v in row] for row in golden["logits"]]
        (folder / "golden.json").write_text(json.dumps(golden) + "\n")
        size = sum(f.stat().st_size for f in folder.iterdir())
        print(f"{name}: loss {golden['loss']:.17g}, {size} bytes")


main()
