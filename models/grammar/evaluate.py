#!/usr/bin/env python3
"""The model in plain numpy (float64, no cache): an independent check of model.safetensors.

    python3 evaluate.py                # how many sampled sentences are grammatical, and some of them
    python3 evaluate.py --golden       # also rewrites golden.json, which the Rust tests compare with
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np
from safetensors import safe_open
from scipy.special import erf

from grammar import Grammar

HERE = Path(__file__).parent
LAYERS, HEADS = 2, 2

# Each follows <bos>. Two ask for agreement across a relative clause, with either number nearer, one for "an".
PROMPTS = [
    "",
    "the sailors whom the captain helps",
    "the inventor whom the sailors help",
    "everyone knows that an",
]
# Vocabulary entries whose logits golden.json holds, at the last position of the prompt.
PROBES = [0, 1, 2, 3, 57, 123, 256, 300, 411, 512, 599]


def layer_norm(x, p, name):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(x, p, name):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def hidden(p, ids):
    """The state after the last layer norm: ids (batch, t) -> (batch, t, 64). Logits are hidden @ wte^T."""
    b, t = ids.shape
    x = p["wte.weight"][ids] + p["pos.weight"][:t]
    mask = np.where(np.tril(np.ones((t, t), bool)), 0.0, -np.inf)
    for i in range(LAYERS):
        l = f"layers.{i}"
        qkv = linear(layer_norm(x, p, f"{l}.ln1"), p, f"{l}.qkv")
        q, k, v = (a.reshape(b, t, HEADS, -1).transpose(0, 2, 1, 3) for a in np.split(qkv, 3, -1))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + mask
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + linear((weights @ v).transpose(0, 2, 1, 3).reshape(b, t, -1), p, f"{l}.proj")
        h = linear(layer_norm(x, p, f"{l}.ln2"), p, f"{l}.fc1")
        x = x + linear(0.5 * h * (1 + erf(h / np.sqrt(2))), p, f"{l}.fc2")
    return layer_norm(x, p, "lnf")


def logits(p, ids):
    """Next-token logits after the last of the ids: (batch, t) -> (batch, 600)."""
    return hidden(p, ids)[:, -1] @ p["wte.weight"].T


def sample(p, g, n, temperature, rng):
    """n sentences as lists of words; one that did not end within max_tokens lacks its "."."""
    ids = np.full((n, 1), g.ids[g.bos])
    for _ in range(g.max_tokens):
        z = logits(p, ids) / temperature
        # adding Gumbel noise and taking the largest samples from the softmax
        ids = np.hstack([ids, (z + rng.gumbel(size=z.shape)).argmax(-1)[:, None]])
    sentences = []
    for row in ids[:, 1:]:
        words = [g.tokens[i] for i in row]
        sentences.append(words[: words.index(g.end) + 1] if g.end in words else words)
    return sentences


def grammatical_rate(p, g, n, temperature, rng):
    batches = [sample(p, g, 500, temperature, rng) for _ in range(n // 500)]
    sentences = [s for b in batches for s in b]
    return sum(map(g.accepts, sentences)) / len(sentences), sentences


def losses(p, g, n, seed):
    """Nats per token on n new sentences: of the model, and of the grammar itself, which is what a perfect model has."""
    rng = random.Random(seed)
    drawn = [[rng.choice(g.words[c]) for c in g.template(rng)] for _ in range(n)]
    floor = -sum(np.log(g.probability(s)) for s in drawn)
    loss = 0.0
    for s in drawn:
        ids = [g.ids[g.bos]] + [g.ids[w] for w in s]
        z = hidden(p, np.array([ids[:-1]]))[0] @ p["wte.weight"].T
        top = z.max(-1)
        loss += (np.log(np.exp(z - top[:, None]).sum(-1)) + top - z[np.arange(len(s)), ids[1:]]).sum()
    tokens = sum(map(len, drawn))
    return loss / tokens, floor / tokens


def golden(p, g):
    cases = []
    for prompt in PROMPTS:
        ids = [g.ids[g.bos]] + [g.ids[w] for w in prompt.split()]
        first = logits(p, np.array([ids]))[0]
        greedy, gap = list(ids), np.inf
        while greedy[-1] != g.ids[g.end] and len(greedy) <= g.max_tokens:
            z = logits(p, np.array([greedy]))[0]
            best = np.sort(z)[-2:]
            gap = min(gap, best[1] - best[0])
            greedy.append(int(z.argmax()))
        words = [g.tokens[i] for i in greedy[1:]]
        cases.append(
            {
                "prompt": prompt,
                "ids": ids,
                "logits": {str(i): round(float(first[i]), 6) for i in PROBES},
                "logits_sum": round(float(first.sum()), 5),
                "greedy": greedy[len(ids) :],
                # how close the closest decision was: an f32 implementation must be more exact than this
                "smallest_margin": round(float(gap), 5),
                "text": g.text(words),
                "grammatical": g.accepts(words),
            }
        )
    return cases


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--golden", action="store_true")
    args.add_argument("--sentences", type=int, default=5000)
    args = args.parse_args()
    g = Grammar()
    with safe_open(HERE / "model.safetensors", "numpy") as f:
        p = {k: f.get_tensor(k).astype(np.float64) for k in f.keys()}
        print(f.metadata())
    print("nats per token: model {:.4f}, grammar {:.4f}".format(*losses(p, g, 3000, 1)))
    rng = np.random.default_rng(1)
    for temperature in (1.0, 0.8):
        rate, sentences = grammatical_rate(p, g, args.sentences, temperature, rng)
        print(f"temperature {temperature}: {100 * rate:.2f} % of {len(sentences)} grammatical")
        for s in sentences[:8]:
            print("   ", g.text(s))
        for s in [s for s in sentences if not g.accepts(s)][:5]:
            print("  no:", g.text(s))
    if args.golden:
        cases = golden(p, g)
        (HERE / "golden.json").write_text(json.dumps({"grammar_version": g.version, "cases": cases}, indent=1) + "\n")
        print(*(f"{c['text']}  ({c['smallest_margin']})" for c in cases), sep="\n")


if __name__ == "__main__":
    main()
