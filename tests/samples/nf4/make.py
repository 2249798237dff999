# SPDX-License-Identifier: Apache-2.0
# golden.txt: what bitsandbytes makes of some tensors in NF4 with double quantization on a
# CPU. python make.py > golden.txt
import struct
import sys

import bitsandbytes
import bitsandbytes.functional as bnb
import torch

CODE = [float(x) for x in bnb.get_4bit_type("nf4", device="cpu")]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def neighbour(x, step):
    return struct.unpack("<f", struct.pack("<I", bits(x) + step))[0]


def hashed(i):
    """As hashed() of tests/tensor/test_nf4.c: uniform in [-1, 1), exact in fp32."""
    x = (i * 0x9E3779B97F4A7C15 + 0x123456789ABCDEF) & (2**64 - 1)
    x ^= x >> 31
    x = x * 0xBF58476D1CE4E5B9 & (2**64 - 1)
    x ^= x >> 29
    return ((x >> 40) - 2**23) / 2**23


def uniform(n):
    return [hashed(i) for i in range(n)]


def spread(n):
    return [hashed(i) * 2.0 ** (i // 64 % 41 - 20) for i in range(n)]


def ties():
    middle = [f32(f32(CODE[i] + CODE[i + 1]) / 2) for i in range(15)]
    x = [1.0] + middle + [neighbour(m, 1) for m in middle]
    x += [neighbour(m, -1) for m in middle] + CODE
    return (x + [-1.0] * 64)[:64] + [0.5 * v for v in x[:40]]


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & (2**64 - 1)
    return h


def zeros_between():
    x = uniform(640)
    for block in (1, 4, 5, 9):
        x[64 * block : 64 * block + 64] = [0.0] * 64
    return x


cases = [
    ("one", [0.75]),
    ("minus", [-3.0, 1.0]),
    ("short", uniform(63)),
    ("block", uniform(64)),
    ("one_more", uniform(65)),
    ("odd", uniform(127)),
    ("zeros", [0.0] * 200),
    ("signed_zeros", [[0.0, -0.0, 0.25, -0.25][i * 7 % 4] for i in range(96)]),
    ("minus_zeros", [-0.0] * 64),
    ("ties", ties()),
    ("zero_blocks", zeros_between()),
    ("constant", [0.5] * 320),
    ("tiny", [1e-39 * hashed(i) for i in range(131)]),
    ("nested", uniform(16384)),
    ("nested_short", uniform(16455)),
    ("spread", spread(20000)),
    ("million", uniform(1000003)),
]

print(f"# bitsandbytes {bitsandbytes.__version__}, PyTorch {torch.__version__}, CPU")
print("# name count offset, hashes of codes, absmax, nested absmax, decoded; then, of up to")
print("# 640, the elements' bits, and the bytes of codes and absmax of up to 131")
for name, x in cases:
    t = torch.tensor(x, dtype=torch.float32)
    q, state = bnb.quantize_4bit(
        t, blocksize=64, compress_statistics=True, quant_type="nf4"
    )
    codes = bytes(q.reshape(-1).tolist())
    absmax = bytes(state.absmax.reshape(-1).tolist())
    nested = state.state2.absmax.reshape(-1).tolist()
    decoded = bnb.dequantize_4bit(q, state).reshape(-1).tolist()
    print(
        name,
        len(x),
        f"{bits(state.offset.item()):08x}",
        f"{fnv(codes):016x}",
        f"{fnv(absmax):016x}",
        f"{fnv(b''.join(struct.pack('<f', v) for v in nested)):016x}",
        f"{fnv(b''.join(struct.pack('<f', v) for v in decoded)):016x}",
    )
    if len(x) <= 640:
        print("x", "".join(f"{bits(v):08x}" for v in t.tolist()))
    if len(x) <= 131:
        print("codes", codes.hex())
        print("absmax", absmax.hex())
    sys.stdout.flush()
