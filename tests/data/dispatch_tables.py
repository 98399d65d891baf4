"""Writes dispatch_tables.txt.gz: what PyTorch registers for each of its operators, and the table it computes.

    python3 tests/data/dispatch_tables.py

The file beside this script was made by PyTorch 2.15.0 on a machine without accelerators, with nothing but
`import torch` before it. It is UTF-8 text, one operator a line, after three lines of heading:

    torch 2.15.0+...
    keys Undefined CPU CUDA ...                    the 137 slots, in table order
    fallbacks Meta BackendSelect! ...              the keys with a default fallback; `!` is a fallthrough
    aten::add.Tensor <tab> schema <tab> registrations <tab> cells

`registrations` are the keys with a kernel, aliases included; of several kernels at one key only the active one
counts. `cells` is one letter per slot with the number of its repetitions before it (`3k` is `kkk`):

    k kernel               d default backend kernel    n nested kernel     x ambiguous autogradother
    m math kernel          a autograd kernel           b batched kernel    f backend fallback
    . nothing              and the capital letter where the kernel is a fallthrough
"""

import gzip
import itertools
import pathlib
import re

import torch

LETTERS = {
    "kernel": "k",
    "default backend kernel": "d",
    "nested kernel": "n",
    "ambiguous autogradother": "x",
    "math kernel": "m",
    "autograd kernel": "a",
    "batched kernel": "b",
    "backend fallback": "f",
}


def slots():
    """The keys in table order: functionalities by value, those per backend as sixteen each."""
    backends = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
    prefixes = {
        "Dense": "",
        "Quantized": "Quantized",
        "Sparse": "Sparse",
        "SparseCsr": "SparseCsr",
        "NestedTensor": "NestedTensor",
        "AutogradFunctionality": "Autograd",
    }
    names = (
        "Undefined Dense FPGA Vulkan Metal Quantized CustomRNGKeyId MkldnnCPU Sparse SparseCsr NestedTensor BackendSelect Fake "
        "Python FuncTorchDynamicLayerBackMode Functionalize Conjugate Negative ZeroTensor ADInplaceOrView AutogradOther "
        "AutogradFunctionality AutogradNestedTensor Tracer AutocastCPU AutocastMTIA AutocastMAIA AutocastXPU AutocastIPU "
        "AutocastHPU AutocastXLA AutocastMPS AutocastCUDA AutocastPrivateUse1 FuncTorchBatched BatchedNestedTensor "
        "FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot "
        "FuncTorchDynamicLayerFrontMode TESTING_ONLY_GenericWrapper TESTING_ONLY_GenericMode PreDispatch PythonDispatcher"
    ).split()
    for name in names:
        if name in prefixes:
            yield from (prefixes[name] + b for b in backends)
        else:
            yield name


KEYS = list(slots())
assert len(KEYS) == 137


def registrations(dump):
    out = []
    for line in dump.splitlines():
        found = re.match(r"(\w+)(?:\[alias\])?: .* :: .*\[ (.*)\]$", line)
        if found:
            out.append(found[1] + ("!" if "fallthrough" in found[2] else ""))
    return out


def table(dump):
    cells = {}
    for line in dump.splitlines():
        key, rest = line.split(": ", 1)
        letter = LETTERS[rest.rsplit("[", 1)[1].rstrip("]")]
        cells[key] = letter.upper() if rest.startswith("fallthrough ") else letter
    assert set(cells) <= set(KEYS), set(cells) - set(KEYS)
    return "".join(cells.get(k, ".") for k in KEYS)


def packed(cells):
    runs = ((letter, len(list(group))) for letter, group in itertools.groupby(cells))
    return "".join((str(n) if n > 1 else "") + letter for letter, n in runs)


def main():
    probe = torch.library.Library("dispatch_tables_probe", "DEF")
    probe.define("f(Tensor x) -> Tensor")
    bare = table(torch._C._dispatch_dump_table("dispatch_tables_probe::f"))
    fallbacks = [k + ("!" if c == "F" else "") for k, c in zip(KEYS, bare) if c != "."]
    assert all(c in ".fF" for c in bare)

    lines = ["torch " + torch.__version__, "keys " + " ".join(KEYS), "fallbacks " + " ".join(fallbacks)]
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith("dispatch_tables_probe"):
            continue
        dump = torch._C._dispatch_dump(name)
        schema = re.search(r"^schema: (.*)$", dump, re.M)[1]
        if schema == "(none)":
            continue
        cells = packed(table(torch._C._dispatch_dump_table(name)))
        lines.append("\t".join([name, schema, " ".join(registrations(dump)), cells]))
    text = "\n".join(lines) + "\n"
    target = pathlib.Path(__file__).with_suffix(".txt.gz")
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(len(lines) - 3, "operators,", len(text), "characters,", target.stat().st_size, "bytes")


main()
