"""Sentence embeddings with MiniLM through ``torch.compile(backend="straightline")``.

    python examples/python/minilm.py FOLDER [--inductor]

FOLDER has the model of ``sentence-transformers/all-MiniLM-L6-v2`` (config.json, model.safetensors,
tokenizer.json, vocab.txt). Needs torch and transformers. Ranks sentences, compares them with eager
PyTorch's, and says how long the first call and a later one take; with ``--inductor`` Inductor's, too.
"""

import argparse
import time

import torch
from transformers import AutoModel, AutoTokenizer

import straightline as sl

SENTENCES = [
    "A cat sleeps on the warm windowsill.",
    "The kitten is dozing in the sun by the window.",
    "Interest rates were raised by a quarter of a percent.",
    "The central bank has increased borrowing costs.",
    "He plays the violin in an orchestra.",
]


class Embedder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=-1)


def timed(name, make, inputs, expected):
    began = time.perf_counter()
    f = make()
    with torch.no_grad():
        result = f(*inputs)
        first = time.perf_counter() - began
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        times = []
        for _ in range(30):
            began = time.perf_counter()
            f(*inputs)
            times.append(time.perf_counter() - began)
    print(f"{name:34} first call {first:8.3f} s, later {sorted(times)[len(times) // 2] * 1e3:7.2f} ms")
    return first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--inductor", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sl.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    model = Embedder(AutoModel.from_pretrained(options.folder)).eval()
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    inputs = (batch["input_ids"], batch["attention_mask"])
    with torch.no_grad():
        expected = model(*inputs)
    similarity = expected @ expected.T
    for at, sentence in enumerate(SENTENCES):
        others = similarity[at].clone()
        others[at] = -1
        print(f"{sentence:56} is nearest to: {SENTENCES[int(others.argmax())]}")
    timed("eager PyTorch", lambda: model, inputs, expected)
    timed("torch.compile, straightline", lambda: torch.compile(model, backend="straightline"), inputs, expected)
    compiled = sl.compile(model, inputs)
    compiled.save("minilm.pt2")
    timed("straightline.compile", lambda: sl.compile(model, inputs), inputs, expected)
    ours = timed("straightline.load", lambda: sl.load("minilm.pt2"), inputs, expected)
    if options.inductor:
        torch._dynamo.reset()
        theirs = timed("torch.compile, Inductor", lambda: torch.compile(model), inputs, expected)
        print(f"the first call through straightline.load comes {theirs / ours:.0f} times sooner than Inductor's")


if __name__ == "__main__":
    main()
