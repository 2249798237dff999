#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/samples/qat/make.py: makes golden.tsv anew.

What plain PyTorch computes with fake-quantised products in the blocks of the models of
../lora: losses of 20 AdamW steps in fp64 and of one in fp32 (later a code that is rounded the
other way moves them), groups of 8 and of 256 (a whole row). The
quantiser is written out below; where torchao is installed, its own FakeQuantizedLinear must give
the same bits. Its gradients are the same but for rounding (it multiplies by the scale and by
1 / scale) and for the outermost codes, where clamp of torch 2.15 passes none. Made with torch 2.15.0, torchao 0.18.0, transformers 5.24.0
on a CPU.
"""
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent / "text" / "alice29.txt"
TIME, BATCH, STEPS = 16, 4, 20
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
F32 = torch.finfo(torch.float32)


class Clamped(torch.autograd.Function):
    """The value of a code, whose gradient is 1 within low .. high."""

    @staticmethod
    def forward(ctx, x, scale, zero, low, high):
        code = torch.round(x.float() * (1 / scale)) + zero
        ctx.save_for_backward((code >= low) & (code <= high))
        return ((code.clamp(low, high) - zero) * scale).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (within,) = ctx.saved_tensors
        return grad * within, None, None, None, None


def tokens(x):
    """int8, one scale and zero a row."""
    low = x.detach().float().amin(-1, keepdim=True).clamp(max=0)
    high = x.detach().float().amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255).clamp(min=F32.eps)
    zero = (-128 - torch.round(low / scale)).clamp(-128, 127)
    return Clamped.apply(x, scale, zero, -128, 127)


def weights(w, group):
    """int4, one scale for each group of inputs: w is (out, in)."""
    parts = []
    for part in w.split(group, dim=1):
        scale = (part.detach().float().abs().amax(-1, keepdim=True) / 7.5)
        parts.append(Clamped.apply(part, scale.clamp(min=F32.smallest_normal), 0, -8, 7))
    return torch.cat(parts, dim=1)


def quantise(model, group):
    """Replace the products of blocks."""
    for block in model.transformer.h if hasattr(model, "transformer") else model.model.layers:
        for module in block.modules():
            if isinstance(module, torch.nn.Linear):
                module.forward = lambda x, m=module: torch.nn.functional.linear(
                    tokens(x), weights(m.weight, group), m.bias)
            elif isinstance(module, transformers.pytorch_utils.Conv1D):
                module.forward = lambda x, m=module: torch.nn.functional.linear(
                    tokens(x), weights(m.weight.T, group), m.bias)


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


def compare_with_torchao():
    try:
        from torchao.quantization.qat.linear import Int8DynActInt4WeightQATLinear
    except ImportError:
        print("torchao is not installed: not compared")
        return
    torch.manual_seed(5)
    for group in (8, 32):
        x = torch.randn(40, 32).requires_grad_()
        theirs = Int8DynActInt4WeightQATLinear(32, 24, False, groupsize=group)
        y = theirs(x)
        y.square().sum().backward()
        grads = x.grad.clone(), theirs.weight.grad.clone()
        x.grad = theirs.weight.grad = None
        own = torch.nn.functional.linear(tokens(x), weights(theirs.weight, group))
        own.square().sum().backward()
        assert torch.equal(y, own), "another forward pass than torchao's"
        for a, b in zip(grads, (x.grad, theirs.weight.grad)):
            passes = a != 0
            assert passes.sum() > a.numel() / 2, "hardly any gradient"
            assert torch.allclose(a[passes], b[passes], rtol=1e-6, atol=0), "another gradient"
    print("torchao gives the same bits")


def samples():
    data = TEXT.read_bytes()
    return [torch.tensor(list(data[i * TIME:i * TIME + TIME + 1])) for i in range(STEPS * BATCH)]


def loss_of(model, windows):
    x = torch.stack(windows)
    logits = model(input_ids=x[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                                             x[:, 1:].reshape(-1))


def groups_of_decay(model):
    """Cadre decays matrices alone."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": matrices}, {"params": others, "weight_decay": 0.0}]


def train(name, dtype, group):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        HERE.parent / "lora" / name, attn_implementation="sdpa", dtype=dtype).to(dtype)
    quantise(model, group)
    data, losses = samples(), []
    optimizer = torch.optim.AdamW(groups_of_decay(model), **ADAMW)
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
    compare_with_torchao()
    rows = []
    for name in ("llama", "gpt2"):
        for group in (8, 256):
            for precision, dtype in (("fp64", torch.float64), ("fp32", torch.float32)):
                for step, loss in enumerate(train(name, dtype, group)):
                    if precision == "fp64" or step == 0:
                        rows.append(f"{name}\t{precision}\t{group}\t{step + 1}\t{loss:.17g}")
    (HERE / "golden.tsv").write_text("\n".join(rows) + "\n")


main()
