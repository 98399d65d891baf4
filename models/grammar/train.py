#!/usr/bin/env python3
"""Trains the grammar model and writes model.safetensors: a GPT of 139 520 parameters, on one CPU thread.

Vocabulary 600, width 64, two pre-norm layers of two heads, learned positions, context 16, tied output matrix. Every
batch is new: sentences are drawn from grammar.json as the training runs.

    pip install jax==0.10.2 safetensors==0.8.0
    python3 train.py
"""

import os

# One thread, and so the same weights on every run of the same jax on the same kind of machine.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")
os.environ["JAX_PLATFORMS"] = "cpu"

import argparse
import random
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

from evaluate import grammatical_rate
from grammar import Grammar

VOCABULARY, D, LAYERS, HEADS, T = 600, 64, 2, 2, 16


def init(seed):
    rng = np.random.default_rng(seed)
    p = {"wte.weight": rng.normal(0, 0.05, (VOCABULARY, D)), "pos.weight": rng.normal(0, 0.02, (T, D))}

    def norm(name):
        p[f"{name}.weight"], p[f"{name}.bias"] = np.ones(D), np.zeros(D)

    def linear(name, out, inp, scale=1.0):
        p[f"{name}.weight"], p[f"{name}.bias"] = rng.normal(0, scale / inp**0.5, (out, inp)), np.zeros(out)

    for i in range(LAYERS):
        norm(f"layers.{i}.ln1"), norm(f"layers.{i}.ln2")
        linear(f"layers.{i}.qkv", 3 * D, D)
        linear(f"layers.{i}.proj", D, D, 0.5)
        linear(f"layers.{i}.fc1", 4 * D, D)
        linear(f"layers.{i}.fc2", D, 4 * D, 0.5)
    norm("lnf")
    return {k: jnp.asarray(v, jnp.float32) for k, v in p.items()}


def forward(p, ids):
    """Logits: ids (batch, 16) -> (batch, 16, 600)."""

    def norm(x, n):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p[f"{n}.weight"] + p[f"{n}.bias"]

    def linear(x, n):
        return x @ p[f"{n}.weight"].T + p[f"{n}.bias"]

    b, t = ids.shape
    mask = jnp.where(jnp.tril(jnp.ones((t, t), bool)), 0.0, -jnp.inf)
    x = p["wte.weight"][ids] + p["pos.weight"]
    for i in range(LAYERS):
        l = f"layers.{i}"
        qkv = linear(norm(x, f"{l}.ln1"), f"{l}.qkv")
        q, k, v = (a.reshape(b, t, HEADS, D // HEADS).transpose(0, 2, 1, 3) for a in jnp.split(qkv, 3, -1))
        w = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / (D // HEADS) ** 0.5 + mask)
        x = x + linear((w @ v).transpose(0, 2, 1, 3).reshape(b, t, D), f"{l}.proj")
        x = x + linear(jax.nn.gelu(linear(norm(x, f"{l}.ln2"), f"{l}.fc1"), approximate=False), f"{l}.fc2")
    return norm(x, "lnf") @ p["wte.weight"].T


def loss_of(p, inputs, targets):
    """Mean cross entropy over the targets that are not padding (-1)."""
    logp = jax.nn.log_softmax(forward(p, inputs))
    picked = jnp.take_along_axis(logp, jnp.maximum(targets, 0)[..., None], -1)[..., 0]
    return -jnp.where(targets >= 0, picked, 0).sum() / (targets >= 0).sum()


@jax.jit
def step(p, m, v, i, rate, inputs, targets):
    """One step of Adam, with the gradient's norm clipped at 1."""
    loss, g = jax.value_and_grad(loss_of)(p, inputs, targets)
    size = jnp.sqrt(sum((x**2).sum() for x in g.values()))
    g = {k: x * jnp.minimum(1.0, 1.0 / size) for k, x in g.items()}
    m = {k: 0.9 * m[k] + 0.1 * g[k] for k in g}
    v = {k: 0.99 * v[k] + 0.01 * g[k] ** 2 for k in g}
    a, b = 1 - 0.9**i, 1 - 0.99**i
    p = {k: p[k] - rate * (m[k] / a) / (jnp.sqrt(v[k] / b) + 1e-8) for k in p}
    return p, m, v, loss


class Batches:
    """Random sentences as (inputs, targets) of shape (batch, 16)."""

    def __init__(self, g, seed):
        self.g, self.rng, self.fill = g, random.Random(seed), np.random.default_rng(seed)
        self.number = {c: i for i, c in enumerate(g.words)}
        self.sizes = np.array([len(ws) for ws in g.words.values()])
        self.words = np.zeros((len(g.words), self.sizes.max()), np.int32)
        for c, ws in g.words.items():
            self.words[self.number[c], : len(ws)] = [g.ids[w] for w in ws]

    def next(self, n):
        categories = np.full((n, T), -1)
        for row in categories:
            template = self.g.template(self.rng)
            row[: len(template)] = [self.number[c] for c in template]
        picks = (self.fill.random((n, T)) * self.sizes[categories]).astype(int)
        targets = np.where(categories >= 0, self.words[categories, picks], -1)
        inputs = np.hstack([np.full((n, 1), self.g.ids[self.g.bos]), np.maximum(targets[:, :-1], 0)])
        return inputs, targets


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--steps", type=int, default=6000)
    args.add_argument("--batch", type=int, default=256)
    args.add_argument("--rate", type=float, default=4e-3)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--out", type=Path, default=Path(__file__).parent / "model.safetensors")
    args = args.parse_args()

    g = Grammar()
    assert len(g.tokens) == VOCABULARY and g.max_tokens == T
    batches, p = Batches(g, args.seed), init(args.seed)
    m = v = {k: jnp.zeros_like(x) for k, x in p.items()}
    losses, start = [], time.time()
    for i in range(1, args.steps + 1):
        warm, left = min(1.0, i / 200), 0.5 * (1 + np.cos(np.pi * i / args.steps))
        p, m, v, loss = step(p, m, v, i, args.rate * warm * left, *batches.next(args.batch))
        losses.append(float(loss))
        if i % 250 == 0:
            print(f"step {i}: loss {np.mean(losses[-250:]):.4f}, {time.time() - start:.0f} s", flush=True)

    held_out = Batches(g, args.seed + 1)
    loss = np.mean([float(loss_of(p, *held_out.next(256))) for _ in range(40)])
    p = {k: np.asarray(x) for k, x in p.items()}
    exact = {k: x.astype(np.float64) for k, x in p.items()}
    rates = {t: grammatical_rate(exact, g, 5000, t, np.random.default_rng(args.seed))[0] for t in (1.0, 0.8)}
    metadata = {
        "grammar_version": str(g.version),
        "loss": f"{loss:.4f}",
        "grammatical_rate_t1.0": f"{rates[1.0]:.4f}",
        "grammatical_rate_t0.8": f"{rates[0.8]:.4f}",
        "steps": str(args.steps),
        "batch": str(args.batch),
        "seed": str(args.seed),
    }
    save_file(p, args.out, metadata)
    print(metadata, f"{args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
