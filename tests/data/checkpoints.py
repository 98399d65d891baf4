"""Checkpoints as PyTorch writes them, with what is in them.

    python3 tests/data/checkpoints.py

writes tests/data/checkpoints: files of torch.save, and for those that can be read NAME.json, which has of every
tensor its path, dtype, sizes, strides, offset, storage and values, and of other values their repr. It ran with
torch 2.15; the tests of src/files read what it wrote.
"""

import collections
import json
import os
import pathlib
import warnings

import numpy
import torch

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent / "checkpoints"


def numbers(t):
    """Integers, and floats as texts, which every reader reads exactly."""
    t = t.resolve_conj().resolve_neg()
    if t.is_complex():
        t = torch.view_as_real(t)
    if t.is_floating_point():
        t = t.double()
    return [repr(v) if t.is_floating_point() else int(v) for v in t.reshape(-1).tolist()]


def facts(value, path, found, storages):
    if isinstance(value, torch.Tensor):
        key = value.untyped_storage().data_ptr() or f"empty {path}"
        found[path] = {
            "dtype": str(value.dtype).removeprefix("torch."),
            "sizes": list(value.shape),
            "strides": list(value.stride()),
            "offset": value.storage_offset(),
            "storage": storages.setdefault(key, len(storages)),
            "values": numbers(value),
        }
    elif isinstance(value, dict):
        for k, v in value.items():
            facts(v, f"{path}.{k}" if path else str(k), found, storages)
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            facts(v, f"{path}.{i}" if path else str(i), found, storages)
    else:
        found[path] = {"repr": repr(value)}


def save(name, value, readable=True, **how):
    path = HERE / f"{name}.pt"
    torch.save(value, path, **how)
    if readable:
        found = {}
        facts(value, "", found, {})
        (HERE / f"{name}.json").write_text(json.dumps(found, indent=None) + "\n")


class Trap:
    def __reduce__(self):
        return os.system, ("echo trapped",)


def main():
    HERE.mkdir(exist_ok=True)
    for old in HERE.iterdir():
        old.unlink()
    torch.manual_seed(0)

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    save("state_dict", model.state_dict())

    embedding = torch.nn.Embedding(5, 3)
    head = torch.nn.Linear(3, 5, bias=False)
    head.weight = embedding.weight
    save("tied", collections.OrderedDict(embedding=embedding.weight, head=head.weight, row=embedding.weight.data[1]))

    base = torch.arange(24.0).reshape(4, 6)
    bits = torch.tensor([1 + 2j, 3 - 4j])
    save("views", {
        "base": base, "strided": base[1:, ::2], "transposed": base.t(), "offset": base[2],
        "expanded": torch.tensor([5.0]).expand(3, 2), "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3),
        "none": torch.empty(0), "channels_last": torch.arange(16.0).reshape(1, 2, 2, 4).to(memory_format=torch.channels_last),
        "conj": bits.conj(), "neg": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    })

    whole = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    real = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    kinds = {str(d).removeprefix("torch."): torch.tensor([0, 1, 100]).to(d) for d in whole}
    kinds |= {str(d).removeprefix("torch."): torch.tensor([0.0, 1.5, -2.25]).to(d) for d in real}
    kinds |= {"int8_negative": torch.tensor([-128, 127], dtype=torch.int8), "bool": torch.tensor([True, False, True])}
    kinds |= {"complex64": bits, "complex128": bits.to(torch.complex128), "int64_low": torch.tensor([-2**63])}
    save("dtypes", kinds)

    plain = {
        "int": 3, "negative": -70000, "large": 2**40, "seed": 2**64 - 1, "low": -2**100, "float": 0.1, "true": True,
        "none": None, "text": "häß", "bytes": b"\x00\xffab", "array": bytearray(b"xy"), "tuple": (1, 2.5, "a", None),
        "list": [1, [2, [3]]], "empty": {}, "set": {7}, "frozen": frozenset([8]), "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1), "size": torch.Size([2, 3]),
        "default": collections.defaultdict(list, {"a": [1]}), "counter": collections.Counter({3: 2}),
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]), 5: "five", "long": "x" * 300,
    }
    x = torch.ones(2)
    x.note = "attribute"
    p = torch.nn.Parameter(torch.ones(2))
    p.note = "attribute"
    plain["attribute"], plain["parameter"] = x, p
    for protocol in (2, 3, 4, 5):
        save(f"plain_{protocol}", plain, pickle_protocol=protocol)

    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    for _ in range(2):
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        schedule.step()
    save("training", {
        "model": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "epoch": 3,
    })
    save("single", torch.arange(3))
    save("minimal", {"w": torch.ones(2)})

    # what is refused
    save("module", net, readable=False)
    save("trap", {"w": torch.ones(2), "x": Trap()}, readable=False)
    save("legacy", {"w": torch.ones(2)}, readable=False, _use_new_zipfile_serialization=False)
    save("sparse", {"a": {"s": torch.eye(2).to_sparse()}}, readable=False)
    save("quantized", {"q": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}, readable=False)
    save("meta", {"m": torch.empty(2, device="meta")}, readable=False)
    save("uint16", {"layer": {"u": torch.ones(2, dtype=torch.uint16)}}, readable=False)
    save("float8", {"f": torch.ones(2, dtype=torch.float8_e4m3fn)}, readable=False)
    save("storage", {"s": torch.ones(2).untyped_storage()}, readable=False)
    save("tuple_key", {("a", 1): torch.ones(2)}, readable=False)
    loop = []
    loop.append(loop)
    save("loop", {"l": loop}, readable=False)
    torch.jit.script(net).save(HERE / "torchscript.pt")
    save("numpy", {"loss": numpy.float64(0.5)}, readable=False)
    print(sum(p.stat().st_size for p in HERE.iterdir()), "bytes")


if __name__ == "__main__":
    main()
