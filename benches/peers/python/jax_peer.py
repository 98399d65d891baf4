"""JAX with jax.jit, waiting for the result of every call. Started by benches/peers/run."""

import math
import os

import numpy as np
import suite

SETTING = suite.options(["jit"])
# read when jax starts
FLAGS = [os.environ.get("XLA_FLAGS", "")]
if SETTING.threads == 1:
    FLAGS.append("--xla_cpu_multi_thread_eigen=false")
if SETTING.isa == "avx2":
    # the libraries of products choose by what the machine has; without them it is code of XLA's
    FLAGS += ["--xla_cpu_max_isa=AVX2", "--xla_cpu_use_xnnpack=false", "--xla_cpu_experimental_ynn_fusion_type="]
os.environ["XLA_FLAGS"] = " ".join(FLAGS)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax import lax

MASK = np.triu(np.full((16, 16), -np.inf, np.float32), 1)


def sizes(text):
    return [int(n) for n in text.split("x")]


def arrays(*outputs):
    return [np.asarray(t.astype(jnp.float32)) for t in outputs]


def case(function, *inputs, parameters=None, outputs=lambda o: arrays(o)):
    inputs = [jnp.asarray(a) for a in inputs]
    if parameters is not None:
        inputs.insert(0, {n: jnp.asarray(a) for n, a in parameters.items()})
    call = jax.jit(function)
    return suite.Case(lambda: jax.block_until_ready(call(*inputs)), outputs)


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def norm(x, g, b, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + eps) * g + b


def layer_norm(p, name, x):
    return norm(x, p[name + ".g"], p[name + ".b"])


def linear(p, name, x):
    return x @ p[name + ".w"].T + p[name + ".b"]


def split_heads(x, heads):
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * width)


def attend(q, k, v, bias=0.0):
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1])) + bias, -1)
    return weights @ v


def mlp(p, x):
    y = linear(p, "l2", gelu(linear(p, "l1", x)))
    return linear(p, "l3", layer_norm(p, "ln", y))


def gpt(p, tokens):
    x = p["wte"][tokens] + p["pos"]
    for i in ("0", "1"):
        qkv = linear(p, i + ".qkv", layer_norm(p, i + ".ln1", x))
        q, k, v = (split_heads(t, 2) for t in jnp.split(qkv, 3, axis=2))
        x = x + linear(p, i + ".proj", merge_heads(attend(q, k, v, MASK)))
        x = x + linear(p, i + ".fc2", gelu(linear(p, i + ".fc1", layer_norm(p, i + ".ln2", x))))
    return layer_norm(p, "lnf", x) @ p["wte"].T


def gpt_loss(p, tokens, targets):
    logs = jax.nn.log_softmax(gpt(p, tokens), -1)
    return -jnp.take_along_axis(logs, targets[..., None], -1).mean()


def block(fused, p, x):
    if fused:
        q, k, v = (linear(p, n, x).reshape(1, 128, 12, 64) for n in "qkv")
        y = jax.nn.dot_product_attention(q, k, v).reshape(1, 128, 768)
    else:
        y = merge_heads(attend(*(split_heads(linear(p, n, x), 12) for n in "qkv")))
    x = layer_norm(p, "ln1", x + linear(p, "o", y))
    return layer_norm(p, "ln2", x + linear(p, "fc2", gelu(linear(p, "fc1", x))))


def convolve(x, w, stride=1, padding=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def batch_norm(x, g, b, mean, variance):
    scale = g * lax.rsqrt(variance + 1e-5)
    column = lambda v: v[None, :, None, None]
    return x * column(scale) + column(b - mean * scale)


def resnet(p, x):
    def normed(x, conv, bn, stride, padding):
        statistics = (p[f"{bn}.{n}"] for n in ("weight", "bias", "running_mean", "running_var"))
        return batch_norm(convolve(x, p[conv + ".weight"], stride, padding), *statistics)

    x = jax.nn.relu(normed(x, "conv1", "bn1", 2, 3))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for layer in (1, 2, 3, 4):
        for i in (0, 1):
            name = f"layer{layer}.{i}"
            stride = 2 if layer > 1 and i == 0 else 1
            y = jax.nn.relu(normed(x, name + ".conv1", name + ".bn1", stride, 1))
            y = normed(y, name + ".conv2", name + ".bn2", 1, 1)
            if stride == 2:
                x = normed(x, name + ".downsample.0", name + ".downsample.1", 2, 0)
            x = jax.nn.relu(x + y)
    return x.mean((2, 3)) @ p["fc.weight"].T + p["fc.bias"]


def minilm(w, tokens, mask):
    dense = lambda x, n: x @ w[n + ".weight"].T + w[n + ".bias"]
    normed = lambda x, n: norm(x, w[n + ".weight"], w[n + ".bias"], 1e-12)
    table = lambda n: w[f"embeddings.{n}_embeddings.weight"]
    m = mask.astype(jnp.float32)
    x = table("word")[tokens] + table("position")[: tokens.shape[1]] + table("token_type")[0]
    x = normed(x, "embeddings.LayerNorm")
    bias = (1 - m)[:, None, None, :] * -1e9
    for i in range(6):
        at = f"encoder.layer.{i}."
        heads = (split_heads(dense(x, at + "attention.self." + n), 12) for n in ("query", "key", "value"))
        y = dense(merge_heads(attend(*heads, bias)), at + "attention.output.dense")
        x = normed(x + y, at + "attention.output.LayerNorm")
        y = dense(gelu(dense(x, at + "intermediate.dense")), at + "output.dense")
        x = normed(x + y, at + "output.LayerNorm")
    y = (x * m[:, :, None]).sum(1) / jnp.maximum(m.sum(1, keepdims=True), 1e-9)
    return y / jnp.maximum(jnp.sqrt((y * y).sum(1, keepdims=True)), 1e-12)


def train_mlp(batch, width):
    x, t = (jnp.asarray(suite.floats(f"w5.h{width}.{n}", (batch, width))) for n in "xt")
    parameters = {n: jnp.asarray(a) for n, a in suite.mlp(width).items()}

    def step(p, x, t):
        loss, gradients = jax.value_and_grad(lambda p: ((mlp(p, x) - t) ** 2).mean())(p)
        return jax.tree.map(lambda w, d: w - suite.RATE * d, p, gradients), loss

    compiled = jax.jit(step, donate_argnums=(0,))

    def call():
        nonlocal parameters
        parameters, loss = compiled(parameters, x, t)
        jax.block_until_ready(parameters)
        return loss

    return suite.Case(call, arrays, training=True)


def chain(x, y):
    for _ in range(50):
        x = x * y
        x = x + 1
    return x


def small(name):
    shape = (4, 8) if name == "w1.transpose" else (1,)
    a, b = (jnp.asarray(suite.floats(n, shape)) for n in ("w1.a", "w1.b"))
    function = {"w1.transpose": lambda a, b: a.T, "w1.empty": lambda a, b: jnp.empty(16, jnp.float32)}
    call = jax.jit(function.get(name, lambda a, b: a + b))
    outputs = (lambda o: [np.zeros(1)]) if name == "w1.empty" else (lambda o: arrays(o))
    names = {"a": a, "b": b, "call": call}
    return suite.Case(lambda: call(a, b), outputs, "call(a, b).block_until_ready()", names)


def build(name):
    floats, ids = suite.floats, suite.ids
    tokens = lambda data, batch: ids(data, (batch, 16), 0, 600).astype(np.int32)
    group, _, rest = name.partition(".")
    kind, _, rest = rest.partition("_")
    if name == "w1.add_grad":
        raise suite.Absent("gradients are traced, not recorded")
    if group == "w1":
        return small(name)
    if group == "w2":
        n = int(rest)
        return case(chain, floats("w2.x", (n,)), floats("w2.y", (n,)))
    if group == "w3" and kind == "pointwise":
        n = int(rest)
        pointwise = lambda x, b: gelu(x + b) * jax.nn.sigmoid(x) + jnp.tanh(b)
        return case(pointwise, floats(f"w3.{n}.x", (n,), 3), floats(f"w3.{n}.b", (n,)))
    if group == "w3":
        return case(lambda x, b: gelu(x + b), floats("w3.bias.x", (512, 768), 3), floats("w3.bias.b", (768,)))
    if kind == "softmax":
        data = {"1024x1024": "w4.sm1.x", "4096x64": "w4.sm2.x"}[rest]
        return case(lambda x: jax.nn.softmax(x, -1), floats(data, sizes(rest), 5))
    if kind == "layernorm":
        scale, shift = floats("w4.ln.g", (768,), 0.1, 1.0), floats("w4.ln.b", (768,), 0.1)
        return case(norm, floats("w4.ln.x", (512, 768), 2), scale, shift)
    if kind in ("sum0", "sum1"):
        return case(lambda x: x.sum(int(kind[3])), floats("w4.sum.x", (4096, 4096)))
    if kind == "logsoftmax":
        loss = lambda x, t: -jnp.take_along_axis(jax.nn.log_softmax(x, -1), t[:, None], 1).mean()
        return case(loss, floats("w4.nll.x", (256, 1000), 5), ids("w4.nll.t", (256,), 0, 1000).astype(np.int32))
    if kind == "rmsnorm":
        rms = lambda x, g: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g
        return case(rms, floats("w4.rms.x", (512, 768), 2), floats("w4.rms.g", (768,), 0.1, 1.0))
    if group == "w5":
        batch, width = sizes(rest)
        return case(mlp, floats(f"w5.h{width}.x", (batch, width)), parameters=suite.mlp(width))
    if group == "w6":
        return case(gpt, tokens("w6.tok", int(rest[1:])), parameters=suite.gpt())
    if group == "w7":
        fused = rest == "sdpa"
        return case(lambda p, x: block(fused, p, x), floats("w7.x", (1, 128, 768)), parameters=suite.block())
    if group == "w8":
        length, causal = int(rest.removesuffix("_causal")), rest.endswith("_causal")
        # JAX takes (batch, tokens, heads, width): the inputs are given so, and the output compared in our order
        data = (floats(f"w8.{length}.{n}", (1, 12, length, 64)).transpose(0, 2, 1, 3) for n in "qkv")
        attention = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal)
        return case(attention, *data, outputs=lambda o: [np.asarray(o).transpose(0, 2, 1, 3)])
    if kind == "resnet18":
        return case(resnet, floats("w9.rn.x", (1, 3, 224, 224)), parameters=suite.resnet())
    if group == "w9":
        p = suite.convolution()
        plain = lambda p, x: convolve(x, p["conv.w"])
        normed = lambda p, x: jax.nn.relu(batch_norm(plain(p, x), *(p["bn." + n] for n in "gbmv")))
        return case(plain if kind == "conv3x3" else normed, floats("w9.x", (1, 64, 56, 56)), parameters=p)
    if group == "w10":
        size = rest.removesuffix("_bf16")
        m, k, n = sizes(size)
        dtype = jnp.float32 if size == rest else jnp.bfloat16
        data = (jnp.asarray(floats(f"w10.{size}.{c}", s)).astype(dtype) for c, s in (("a", (m, k)), ("b", (k, n))))
        return case(lambda a, b: a @ b, *data)
    if kind == "train" and rest.startswith("mlp_"):
        return train_mlp(*sizes(rest.removeprefix("mlp_")))
    if kind == "train":
        outputs = lambda o: arrays(o[0], o[1]["wte"])
        data = tokens("w6.tok", 8), tokens("w6.tgt", 8)
        return case(jax.value_and_grad(gpt_loss), *data, parameters=suite.gpt(), outputs=outputs)
    if group == "w12":
        if not SETTING.minilm:
            raise suite.Absent("it needs the weights of all-MiniLM-L6-v2: --minilm FOLDER")
        batch, length = (int(part[1:]) for part in rest.split("_"))
        weights = suite.safetensors(os.path.join(SETTING.minilm, "model.safetensors"))
        words = ids(f"w12.ids.l{length}", (batch, length), 1000, 30000).astype(np.int32)
        return case(minilm, words, np.ones((batch, length), np.int32), parameters=weights)
    return None


suite.serve("jax", jax.__version__, SETTING.mode, build, jax.clear_caches)
