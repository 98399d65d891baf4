"""The networks of the suite in PyTorch, for torch_peer.py and onnx_export.py."""

import math
import os

import numpy as np
import suite
import torch
import torch.nn.functional as F
from torch import nn


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def floats(*arguments):
    return tensor(suite.floats(*arguments))


def ids(*arguments):
    return tensor(suite.ids(*arguments))


class Net(nn.Module):
    """A module whose layers are made of named parameters."""

    def linear(self, p, name, weight="w", bias="b"):
        w, b = p[f"{name}.{weight}"], p[f"{name}.{bias}"]
        layer = nn.Linear(w.shape[1], w.shape[0])
        layer.weight.data, layer.bias.data = tensor(w), tensor(b)
        return layer

    def norm(self, p, name, weight="g", bias="b", eps=1e-5):
        layer = nn.LayerNorm(p[f"{name}.{weight}"].shape[0], eps=eps)
        layer.weight.data, layer.bias.data = tensor(p[f"{name}.{weight}"]), tensor(p[f"{name}.{bias}"])
        return layer


class Mlp(Net):
    def __init__(self, width):
        super().__init__()
        p = suite.mlp(width)
        self.l1, self.l2, self.l3 = (self.linear(p, n) for n in ("l1", "l2", "l3"))
        self.ln = self.norm(p, "ln")

    def forward(self, x):
        return self.l3(self.ln(self.l2(F.gelu(self.l1(x)))))


def split_heads(x, heads):
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)


class GptLayer(Net):
    def __init__(self, p, i):
        super().__init__()
        self.ln1, self.ln2 = (self.norm(p, f"{i}.{n}") for n in ("ln1", "ln2"))
        self.qkv, self.proj, self.fc1, self.fc2 = (self.linear(p, f"{i}.{n}") for n in ("qkv", "proj", "fc1", "fc2"))

    def forward(self, x, mask):
        q, k, v = (split_heads(t, 2) for t in self.qkv(self.ln1(x)).split(64, dim=2))
        weights = torch.softmax(q @ k.transpose(-1, -2) * (1 / math.sqrt(32)) + mask, dim=-1)
        x = x + self.proj(merge_heads(weights @ v))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class MiniGpt(Net):
    def __init__(self):
        super().__init__()
        p = suite.gpt()
        self.wte, self.pos = nn.Parameter(tensor(p["wte"])), nn.Parameter(tensor(p["pos"]))
        self.layers = nn.ModuleList(GptLayer(p, i) for i in (0, 1))
        self.lnf = self.norm(p, "lnf")
        self.register_buffer("mask", torch.full((16, 16), float("-inf")).triu(1))

    def forward(self, tokens):
        x = F.embedding(tokens, self.wte) + self.pos
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.lnf(x) @ self.wte.t()


class Block(Net):
    """A BERT-base layer, with attention as PyTorch's own operator or written out."""

    def __init__(self, fused):
        super().__init__()
        p = suite.block()
        self.q, self.k, self.v, self.o = (self.linear(p, n) for n in "qkvo")
        self.fc1, self.fc2 = self.linear(p, "fc1"), self.linear(p, "fc2")
        self.ln1, self.ln2 = self.norm(p, "ln1"), self.norm(p, "ln2")
        self.fused = fused

    def forward(self, x):
        q, k, v = (split_heads(layer(x), 12) for layer in (self.q, self.k, self.v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v
        x = self.ln1(x + self.o(merge_heads(y)))
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class Convolution(nn.Module):
    def __init__(self, normed):
        super().__init__()
        p = suite.convolution()
        self.conv = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.conv.weight.data = tensor(p["conv.w"])
        self.bn = None
        if normed:
            self.bn = nn.BatchNorm2d(64)
            g, b, m, v = (tensor(p["bn." + n]) for n in "gbmv")
            self.bn.weight.data, self.bn.bias.data, self.bn.running_mean, self.bn.running_var = g, b, m, v

    def forward(self, x):
        y = self.conv(x)
        return y if self.bn is None else F.relu(self.bn(y))


def resnet18():
    try:
        import torchvision
    except ImportError as missing:
        raise suite.Absent("torchvision is not installed") from missing
    net = torchvision.models.resnet18(weights=None)
    net.load_state_dict({n: tensor(w) for n, w in suite.resnet().items()}, strict=False)
    return net


class MiniLmLayer(Net):
    def __init__(self, w, prefix):
        super().__init__()
        linear = lambda name: self.linear(w, prefix + name, "weight", "bias")
        norm = lambda name: self.norm(w, prefix + name, "weight", "bias", 1e-12)
        self.q, self.k, self.v = (linear("attention.self." + n) for n in ("query", "key", "value"))
        self.o, self.ln1 = linear("attention.output.dense"), norm("attention.output.LayerNorm")
        self.fc1, self.fc2 = linear("intermediate.dense"), linear("output.dense")
        self.ln2 = norm("output.LayerNorm")

    def forward(self, x, bias):
        q, k, v = (split_heads(layer(x), 12) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = self.ln1(x + self.o(merge_heads(y)))
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class MiniLm(Net):
    """all-MiniLM-L6-v2: BERT, the mean over the tokens of the mask, and length 1."""

    def __init__(self, folder):
        super().__init__()
        if not folder:
            raise suite.Absent("it needs the weights of all-MiniLM-L6-v2: --minilm FOLDER")
        w = suite.safetensors(os.path.join(folder, "model.safetensors"))
        table = lambda name: nn.Parameter(tensor(w[f"embeddings.{name}_embeddings.weight"]))
        self.word, self.position, self.kind = table("word"), table("position"), table("token_type")
        self.ln = self.norm(w, "embeddings.LayerNorm", "weight", "bias", 1e-12)
        self.layers = nn.ModuleList(MiniLmLayer(w, f"encoder.layer.{i}.") for i in range(6))

    def forward(self, tokens, mask):
        m = mask.to(self.word.dtype)
        x = self.ln(F.embedding(tokens, self.word) + self.position[: tokens.shape[1]] + self.kind[0])
        bias = (1 - m)[:, None, None, :] * -1e9
        for layer in self.layers:
            x = layer(x, bias)
        m = m[:, :, None]
        y = (x * m).sum(1) / m.sum(1).clamp(min=1e-9)
        return y / (y * y).sum(1, keepdim=True).sqrt().clamp(min=1e-12)


def chain(x, y):
    for _ in range(50):
        x = x * y
        x = x + 1
    return x


def pointwise(x, b):
    return F.gelu(x + b) * torch.sigmoid(x) + torch.tanh(b)


def sizes(text):
    return [int(n) for n in text.split("x")]


def inference(name, minilm):
    """The function of a workload that only computes, and its inputs; None for the others."""
    group, _, rest = name.partition(".")
    kind, _, rest = rest.partition("_")
    if group == "w2":
        n = int(rest)
        return chain, [floats("w2.x", (n,)), floats("w2.y", (n,))]
    if group == "w3" and kind == "pointwise":
        n = int(rest)
        return pointwise, [floats(f"w3.{n}.x", (n,), 3), floats(f"w3.{n}.b", (n,))]
    if group == "w3":
        return lambda x, b: F.gelu(x + b), [floats("w3.bias.x", (512, 768), 3), floats("w3.bias.b", (768,))]
    if kind == "softmax":
        data = {"1024x1024": "w4.sm1.x", "4096x64": "w4.sm2.x"}[rest]
        return lambda x: torch.softmax(x, -1), [floats(data, sizes(rest), 5)]
    if kind == "layernorm":
        return lambda x, g, b: F.layer_norm(x, (768,), g, b, 1e-5), [
            floats("w4.ln.x", (512, 768), 2),
            floats("w4.ln.g", (768,), 0.1, 1.0),
            floats("w4.ln.b", (768,), 0.1),
        ]
    if kind in ("sum0", "sum1"):
        return (lambda x: x.sum(0)) if kind == "sum0" else (lambda x: x.sum(1)), [floats("w4.sum.x", (4096, 4096))]
    if kind == "logsoftmax":
        data = [floats("w4.nll.x", (256, 1000), 5), ids("w4.nll.t", (256,), 0, 1000)]
        return lambda x, t: F.nll_loss(F.log_softmax(x, -1), t), data
    if kind == "rmsnorm":
        data = [floats("w4.rms.x", (512, 768), 2), floats("w4.rms.g", (768,), 0.1, 1.0)]
        return lambda x, g: F.rms_norm(x, (768,), g, 1e-5), data
    if group == "w5":
        batch, width = sizes(rest)
        return Mlp(width), [floats(f"w5.h{width}.x", (batch, width))]
    if group == "w6":
        return MiniGpt(), [ids("w6.tok", (int(rest[1:]), 16), 0, 600)]
    if group == "w7":
        return Block(rest == "sdpa"), [floats("w7.x", (1, 128, 768))]
    if group == "w8":
        tokens, causal = int(rest.removesuffix("_causal")), rest.endswith("_causal")
        attention = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return attention, [floats(f"w8.{tokens}.{n}", (1, 12, tokens, 64)) for n in "qkv"]
    if kind == "resnet18":
        return resnet18(), [floats("w9.rn.x", (1, 3, 224, 224))]
    if group == "w9":
        return Convolution(kind == "conv"), [floats("w9.x", (1, 64, 56, 56))]
    if group == "w10":
        size = rest.removesuffix("_bf16")
        m, k, n = sizes(size)
        dtype = torch.float32 if size == rest else torch.bfloat16
        data = [floats(f"w10.{size}.a", (m, k)).to(dtype), floats(f"w10.{size}.b", (k, n)).to(dtype)]
        return lambda a, b: a @ b, data
    if group == "w12":
        batch, length = (int(part[1:]) for part in rest.split("_"))
        tokens = ids(f"w12.ids.l{length}", (batch, length), 1000, 30000)
        return MiniLm(minilm), [tokens, torch.ones(batch, length, dtype=torch.int64)]
    return None
