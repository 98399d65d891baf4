"""What the peers that are Python programs share: the suite's data, the timing of calls, check sums, and the conversation
with benches/peers/run. The rules are those of cli/src/workloads/numbers.rs, cli/src/bench/sample.rs and
cli/src/bench/check.rs."""

import argparse
import gc
import json
import math
import os
import sys
import time

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
RATE = 0.05
"""The learning rate of W11."""
LOSSES = 10
"""The losses of W11 that are compared."""


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def unit(name, n):
    """n numbers in [0, 1), which follow from the name."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name)) + np.arange(1, n + 1, dtype=np.uint64) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def floats(name, shape, scale=1.0, offset=0.0):
    """offset + scale * (2u - 1)"""
    u = unit(name, math.prod(shape))
    return (np.float32(offset) + np.float32(scale) * (2 * u - np.float32(1))).reshape(shape)


def ids(name, shape, low, high):
    u = unit(name, math.prod(shape)).astype(np.float64)
    return low + (u * (high - low)).astype(np.int64).reshape(shape)


class Parameters(dict):
    """Parameters by name, made up under a prefix."""

    def __init__(self, prefix):
        self.prefix = prefix

    def add(self, name, shape, scale, offset=0.0):
        self[name] = floats(self.prefix + name, shape, scale, offset)
        return self

    def linear(self, name, outputs, inputs):
        scale = 1 / math.sqrt(inputs)
        return self.add(name + ".w", (outputs, inputs), scale).add(name + ".b", (outputs,), scale)

    def norm(self, name, width):
        return self.add(name + ".g", (width,), 0.1, 1.0).add(name + ".b", (width,), 0.1)


def mlp(width):
    p = Parameters(f"w5.h{width}.")
    for layer in ("l1", "l2", "l3"):
        p.linear(layer, width, width)
    return p.norm("ln", width)


def gpt():
    p = Parameters("w6.").add("wte", (600, 64), 0.2).add("pos", (16, 64), 0.2)
    for i in ("0", "1"):
        p.norm(i + ".ln1", 64).linear(i + ".qkv", 192, 64).linear(i + ".proj", 64, 64)
        p.norm(i + ".ln2", 64).linear(i + ".fc1", 256, 64).linear(i + ".fc2", 64, 256)
    return p.norm("lnf", 64)


def block():
    p = Parameters("w7.")
    for layer in ("q", "k", "v", "o"):
        p.linear(layer, 768, 768)
    return p.norm("ln1", 768).linear("fc1", 3072, 768).linear("fc2", 768, 3072).norm("ln2", 768)


def convolution():
    p = Parameters("w9.").add("conv.w", (64, 64, 3, 3), math.sqrt(6 / 576)).norm("bn", 64)
    return p.add("bn.m", (64,), 0.1).add("bn.v", (64,), 0.1, 1.0)


def resnet():
    """The state of torchvision's resnet18, by its names."""
    p = Parameters("w9.rn.")

    def convolve(name, norm, outputs, inputs, size):
        p.add(name + ".weight", (outputs, inputs, size, size), math.sqrt(6 / (inputs * size * size)))
        for part, offset in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            p.add(f"{norm}.{part}", (outputs,), 0.1, offset)

    convolve("conv1", "bn1", 64, 3, 7)
    inputs = 64
    for layer, outputs in enumerate((64, 128, 256, 512), 1):
        for i in (0, 1):
            name = f"layer{layer}.{i}"
            convolve(name + ".conv1", name + ".bn1", outputs, inputs, 3)
            convolve(name + ".conv2", name + ".bn2", outputs, outputs, 3)
            if inputs != outputs:
                convolve(name + ".downsample.0", name + ".downsample.1", outputs, inputs, 1)
            inputs = outputs
    scale = 1 / math.sqrt(512)
    return p.add("fc.weight", (1000, 512), scale).add("fc.bias", (1000,), scale)


def safetensors(path):
    """The f32 tensors of a file in the safetensors format, by name."""
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    length = int(raw[:8].view(np.uint64)[0])
    head = json.loads(bytes(raw[8 : 8 + length]))
    found = {}
    for name, entry in head.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            data = np.frombuffer(bytes(raw[8 + length + begin : 8 + length + end]), dtype=np.float32)
            found[name] = data.reshape(entry["shape"])
    return found


class Absent(Exception):
    """This peer cannot do the workload; the message says why."""


class Case:
    """A workload ready to run: `call` is one complete call; `statement` with `names` says the same as a statement, so
    that nothing but it is timed; `outputs` reads what a call gave; of a training, whose call gives the loss, the
    losses of the first calls are compared."""

    def __init__(self, call, outputs, statement=None, names=None, training=False):
        self.call, self.outputs, self.training = call, outputs, training
        names = names or {"call": call}
        source = f"def loop(n, {', '.join(names)}):\n for _ in range(n):\n  {statement or 'call()'}\n"
        scope = {}
        exec(source, scope)
        self.loop = lambda n: scope["loop"](n, *names.values())


def check(output):
    x = np.asarray(output).astype(np.float64).ravel()
    weight = ((np.arange(x.size, dtype=np.uint64) * np.uint64(2654435761)) % np.uint64(2**32)).astype(np.float64)
    weighted = float((x * (weight / 2**32 - 0.5)).sum())
    return [x.size] + [float(f"{v:.7g}") for v in (x.sum(), np.abs(x).sum(), weighted)]


def measure(loop, quick):
    """Microseconds a call: a warm-up of a tenth of the budget, then samples of 50 µs or one call."""
    budget, least = (0.15, 3) if quick else (0.7, 5)
    clock = time.perf_counter

    def timed(n):
        start = clock()
        loop(n)
        return clock() - start

    each = spent = timed(1)
    calls = 1
    while spent < budget / 10:
        took = timed(calls)
        spent, each = spent + took, took / calls
        if took < 5e-3:
            calls *= 2
    inner = max(1, math.ceil(50e-6 / max(each, 1e-9)))
    samples, spent = [], 0.0
    gc.collect()
    gc.disable()
    try:
        while (spent < budget and len(samples) < 2000) or len(samples) < least:
            took = timed(inner)
            spent += took
            samples.append(took * 1e6 / inner)
    finally:
        gc.enable()
    samples.sort()
    quantile = lambda p: samples[min(int(p * len(samples)), len(samples) - 1)]
    return {
        "median_us": quantile(0.5),
        "p10": quantile(0.1),
        "p90": quantile(0.9),
        "n_samples": len(samples),
        "inner": inner,
    }


def options(modes):
    """What benches/peers/run says to a peer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="")
    parser.add_argument("--minilm", default="")
    parser.add_argument("--onnx", default="")
    return parser.parse_args()


def serve(framework, version, mode, build, before=lambda: None):
    """Answers requests until standard input ends: each is a line {"workload", "quick"}, and the answer a line with a
    measurement or a note. The first request for a workload builds it with `build(name)`."""
    # what libraries print is no answer
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer):
        print(json.dumps(answer), file=answers, flush=True)

    def answer(request):
        nonlocal current
        name = request["workload"]
        found = {}
        if current is None or current[0] != name:
            current = None
            gc.collect()
            before()
            case = build(name)
            if case is None:
                raise Absent("not written for this peer")
            start = time.perf_counter()
            first = case.call()
            found["compile_ms"] = (time.perf_counter() - start) * 1e3
            if case.training:
                losses = [float(first)] + [float(case.call()) for _ in range(LOSSES - 1)]
                outputs = [np.array(losses)]
            else:
                outputs = case.outputs(first)
            del first
            found["check"] = [check(o) for o in outputs]
            current = (name, case)
        return found | measure(current[1].loop, request.get("quick", False))

    say({"framework": framework, "version": version, "mode": mode})
    current = None
    for line in sys.stdin:
        try:
            say(answer(json.loads(line)))
        except Absent as reason:
            current = None
            say({"note": f"n/a: {reason}"})
        except Exception as error:  # what is wrong with one workload is in the answer
            current = None
            say({"note": f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"})
