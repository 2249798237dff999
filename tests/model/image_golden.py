# SPDX-License-Identifier: Apache-2.0
# Makes image_golden.h: a small ViT in fp64 by PyTorch, three steps of AdamW on one batch.
# Parameters and pixels follow from formulas that test_image.c has too. The class token comes
# first here, as in Dosovitskiy et al. 2021, and last in Cadre: without a mask that is the same
# model.
#     python3 tests/model/image_golden.py > tests/model/image_golden.h
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
B, CH, H, W, P, C, HEADS, LAYERS, HIDDEN, K = 4, 3, 8, 12, 4, 24, 3, 2, 40, 5
N = (H // P) * (W // P)
MEAN, STD = [0.5, 0.25, 0.125], [0.25, 0.5, 1.0]
LR, B1, B2, EPS, WD, STEPS = 1e-2, 0.9, 0.95, 1e-8, 0.1, 3

shapes = [("vit.tokens.weight", (2, C)), ("vit.positions.weight", (N + 1, C)),
          ("vit.patches.weight", (C, CH * P * P))]
for i in range(LAYERS):
    shapes += [(f"vit.h.{i}.{n}", s) for n, s in [
        ("ln_1.weight", (C,)), ("ln_1.bias", (C,)), ("attn.c_attn.weight", (C, 3 * C)),
        ("attn.c_attn.bias", (3 * C,)), ("attn.c_proj.weight", (C, C)),
        ("attn.c_proj.bias", (C,)), ("ln_2.weight", (C,)), ("ln_2.bias", (C,)),
        ("mlp.c_fc.weight", (C, HIDDEN)), ("mlp.c_fc.bias", (HIDDEN,)),
        ("mlp.c_proj.weight", (HIDDEN, C)), ("mlp.c_proj.bias", (C,))]]
shapes += [("vit.ln_f.weight", (C,)), ("vit.ln_f.bias", (C,)), ("score.weight", (K, C)),
           ("score.bias", (K,))]


def formula(index, name, shape):
    count = math.prod(shape)
    center = 1.0 if "ln_" in name and name.endswith("weight") else 0.0
    x = [center + 0.3 * math.sin(0.7 * k + 1.3 * index + 0.011 * k * k) for k in range(count)]
    return torch.tensor(x).reshape(shape).requires_grad_()


p = {n: formula(i, n, s) for i, (n, s) in enumerate(shapes)}
pixels = torch.tensor([(b * 97 + c * 61 + y * 31 + x * 7 + x * y) % 256 for b in range(B)
                       for c in range(CH) for y in range(H) for x in range(W)],
                      dtype=torch.float64).reshape(B, CH, H, W)
targets = torch.tensor([0, 3, 4, 1])


def forward():
    mean, std = torch.tensor(MEAN).view(1, CH, 1, 1), torch.tensor(STD).view(1, CH, 1, 1)
    x = F.conv2d((pixels / 255 - mean) / std, p["vit.patches.weight"].view(C, CH, P, P),
                 p["vit.tokens.weight"][0], stride=P)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([p["vit.tokens.weight"][1].expand(B, 1, C), x], 1)
    where = p["vit.positions.weight"]
    x = x + torch.cat([where[N:], where[:N]])
    for i in range(LAYERS):
        q = {n[len(f"vit.h.{i}."):]: v for n, v in p.items() if n.startswith(f"vit.h.{i}.")}
        y = F.layer_norm(x, (C,), q["ln_1.weight"], q["ln_1.bias"], 1e-5)
        y = y @ q["attn.c_attn.weight"] + q["attn.c_attn.bias"]
        y = [t.view(B, N + 1, HEADS, C // HEADS).transpose(1, 2) for t in y.split(C, 2)]
        y = F.scaled_dot_product_attention(*y)
        y = y.transpose(1, 2).reshape(B, N + 1, C)
        x = x + y @ q["attn.c_proj.weight"] + q["attn.c_proj.bias"]
        y = F.layer_norm(x, (C,), q["ln_2.weight"], q["ln_2.bias"], 1e-5)
        y = F.gelu(y @ q["mlp.c_fc.weight"] + q["mlp.c_fc.bias"], approximate="tanh")
        x = x + y @ q["mlp.c_proj.weight"] + q["mlp.c_proj.bias"]
    x = F.layer_norm(x, (C,), p["vit.ln_f.weight"], p["vit.ln_f.bias"], 1e-5)
    return x[:, 0] @ p["score.weight"].T + p["score.bias"]


decay = [v for n, v in p.items() if v.dim() > 1 and n != "vit.tokens.weight"]
other = [v for n, v in p.items() if v.dim() == 1 or n == "vit.tokens.weight"]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": WD},
                               {"params": other, "weight_decay": 0.0}],
                              lr=LR, betas=(B1, B2), eps=EPS)
out = {"torch": torch.__version__, "losses": []}
for step in range(STEPS + 1):
    logits = forward()
    loss = F.cross_entropy(logits, targets)
    out["losses"].append(loss.item())
    if step == STEPS:
        break
    optimizer.zero_grad()
    loss.backward()
    if step == 0:
        out["logits"] = logits.flatten().tolist()
        out["grads"] = {n: [v.grad.norm().item(), v.grad.flatten()[-1].item()]
                        for n, v in p.items()}
    optimizer.step()
print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Made by image_golden.py with PyTorch {out['torch']}. */")
print("#ifndef CADRE_TESTS_IMAGE_GOLDEN_H\n#define CADRE_TESTS_IMAGE_GOLDEN_H\n")
for key in ("losses", "logits"):
    print(f"static const double golden_{key}[] = {{")
    print("".join(f"    {v!r},\n" for v in out[key]) + "};")
print("\n/* The norm of each gradient and its last element, in the order of the table. */")
print("static const struct {\n    const char *name;\n    double norm, last;\n} golden_grads[] = {")
for n, (norm, last) in out["grads"].items():
    print(f"    {{\"{n}\", {norm!r},\n     {last!r}}},")
print("};\n\n#endif")
