#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/samples/lora/make.py: makes the files of this folder anew.

Two random models of two blocks, an adapter of each as PEFT saves it, and what PEFT computes
with them: logits of the first sample, and losses of 20 AdamW steps in fp64 and fp32. Made
with torch 2.15.0, transformers 5.23.0, peft 0.21.2 on a CPU.
"""
import json
import pathlib
import shutil

import peft
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent / "text" / "alice29.txt"
TIME, BATCH, STEPS = 16, 4, 20
ADAMW = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def llama():
    return transformers.LlamaConfig(
        vocab_size=256, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=TIME,
        rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False)


def gpt2():
    return transformers.GPT2Config(
        vocab_size=256, n_embd=16, n_inner=64, n_layer=2, n_head=4, n_positions=TIME,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)


FORMS = {
    "llama": (llama, {"r": 4, "lora_alpha": 6, "use_rslora": True,
                      "target_modules": ["q_proj", "v_proj", "gate_proj", "down_proj"]}),
    "gpt2": (gpt2, {"r": 4, "lora_alpha": 8, "fan_in_fan_out": True,
                    "target_modules": ["c_attn", "c_proj", "c_fc"]}),
}


def use_dtype_throughout():
    """transformers computes Llama's norms and rotary angles in fp32 whatever the dtype."""
    module = transformers.models.llama.modeling_llama

    def norm(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (x * scale)

    def angles(self, x, position_ids):
        size, theta = self.config.head_dim, 10000.0
        inverse = theta ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
        at = position_ids[..., None].double() * inverse
        at = torch.cat((at, at), dim=-1)
        return at.cos().to(x.dtype), at.sin().to(x.dtype)

    module.LlamaRMSNorm.forward = norm
    module.LlamaRotaryEmbedding.forward = angles


def samples():
    data = TEXT.read_bytes()
    return [torch.tensor(list(data[i * TIME:i * TIME + TIME + 1])) for i in range(STEPS * BATCH)]


def make_base(name, config):
    torch.manual_seed(19)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.normal_(0, 0.25)
            else:
                p.add_(torch.randn_like(p) * 0.1)
    out = HERE / name
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out, safe_serialization=True)
    (out / "generation_config.json").unlink()
    (out / "model.safetensors").chmod(0o644)


def make_adapter(name, settings):
    torch.manual_seed(23)
    base = transformers.AutoModelForCausalLM.from_pretrained(HERE / name)
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key:
                p.normal_(0, 0.1)
    out = HERE / f"{name}-adapter"
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    (out / "README.md").unlink()
    (out / "adapter_model.safetensors").chmod(0o644)
    config = json.loads((out / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None
    config["target_modules"] = sorted(config["target_modules"])
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def load(name, dtype):
    base = transformers.AutoModelForCausalLM.from_pretrained(
        HERE / name, attn_implementation="sdpa", dtype=dtype)
    model = peft.PeftModel.from_pretrained(base, HERE / f"{name}-adapter", is_trainable=True,
                                           autocast_adapter_dtype=False)
    return model.to(dtype)


def loss_of(model, windows):
    x = torch.stack(windows)
    logits = model(input_ids=x[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                                             x[:, 1:].reshape(-1))


def train(name, dtype):
    model, data, losses = load(name, dtype), samples(), []
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **ADAMW)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, data[step * BATCH:(step + 1) * BATCH])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    use_dtype_throughout()
    rows = []
    for name, (config, settings) in FORMS.items():
        make_base(name, config())
        make_adapter(name, settings)
        with torch.no_grad():
            logits = load(name, torch.float64)(input_ids=samples()[0][None, :-1]).logits[0]
        for at in range(0, logits.numel(), 101):
            rows.append(f"{name}\tlogits\t{at}\t{logits.reshape(-1)[at].item():.17g}")
        for precision, dtype in (("fp64", torch.float64), ("fp32", torch.float32)):
            for step, loss in enumerate(train(name, dtype)):
                rows.append(f"{name}\t{precision}\t{step + 1}\t{loss:.17g}")
    (HERE / "golden.tsv").write_text("\n".join(rows) + "\n")


main()
