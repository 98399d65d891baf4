"""Makes quantized.json: quantized arithmetic as PyTorch does it (FBGEMM). Run with a PyTorch that has it."""

import json
import pathlib
import random

import torch

torch.manual_seed(0)
random.seed(0)
torch.backends.quantized.engine = "fbgemm"
Q = torch.ops.quantized


def ints(t):
    return t.int_repr().flatten().tolist()


def arithmetic(dtype):
    offset = 64 if dtype == torch.quint8 else 0
    qa, qb, q = [[round(random.uniform(0.01, 0.3), 4), random.randint(-20, 20) + offset] for _ in range(3)]
    a = torch.quantize_per_tensor(torch.randn(15) * 3, *qa, dtype)
    b = torch.quantize_per_tensor(torch.randn(15) * 3, *qb, dtype)
    row = {"dtype": str(dtype)[6:], "a": ints(a), "b": ints(b), "qa": qa, "qb": qb, "q": q}
    for name in ("add", "add_relu", "mul", "mul_relu"):
        row[name] = ints(getattr(Q, name)(a, b, *q))
    row["relu"] = ints(a.relu())
    row["clamp"] = ints(a.clamp(-0.7, 1.3))
    return row


def linear(k):
    m, n, width = random.choice([(1, 3, 5), (4, 2, 8), (3, 7, 33), (2, 5, 64)])
    x = torch.quantize_per_tensor(torch.randn(m, width) * 2, 0.05, random.randint(90, 150), torch.quint8)
    w = torch.randn(n, width)
    if k % 2:
        scales = torch.rand(n, dtype=torch.float64) * 0.02 + 0.01
        zeros = torch.zeros(n, dtype=torch.int64)
        qw = torch.quantize_per_channel(w, scales, zeros, 0, torch.qint8)
    else:
        scales, zeros = torch.tensor([0.02], dtype=torch.float64), torch.tensor([0])
        qw = torch.quantize_per_tensor(w, 0.02, 0, torch.qint8)
    bias = torch.randn(n) if k % 3 else None
    q = [0.2, random.randint(100, 140)]
    packed = Q.linear_prepack(qw, bias)
    return {
        "m": m, "n": n, "k": width, "x": ints(x), "qx": [x.q_scale(), x.q_zero_point()], "w": ints(qw),
        "w_scales": scales.tolist(), "w_zeros": zeros.tolist(), "bias": None if bias is None else bias.tolist(), "q": q,
        "linear": ints(Q.linear(x, packed, *q)), "linear_relu": ints(Q.linear_relu(x, packed, *q)),
        "xf": x.dequantize().flatten().tolist(),
        "linear_dynamic": Q.linear_dynamic(x.dequantize(), packed).flatten().tolist(),
    }


rows = {
    "add": [arithmetic(d) for d in (torch.quint8, torch.qint8) for _ in range(6)],
    "linear": [linear(k) for k in range(8)],
}
text = json.dumps(rows, separators=(",", ":")).replace("},{", "},\n{")
pathlib.Path(__file__).with_name("quantized.json").write_text(text + "\n")
