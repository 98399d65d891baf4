"""Writes dispatch_keys.txt: PyTorch's dispatch keys, and what its key sets make of them.

    python3 tests/data/dispatch_keys.py

Made by PyTorch 2.15.0. A line per key, in the order of the values, with these fields:

    value      of the enumeration
    name       as printed
    parses     `yes` where the name is accepted back
    raw        the set of the key alone, in hexadecimal
    after      FULL_AFTER of the key, the same
    behind     the backends behind an autograd key, the same; `-` for other keys
    aliases    the alias keys that include it, by commas; `-` for none
    text       how the set prints

and at the end `pair` lines: two keys, then the raw set of both, its highest key, the set without the second key,
and how the first set prints.
"""

import itertools
import pathlib

import torch

C = torch._C
KEYS = [C.DispatchKey(i) for i in range(156)]
ALIASES = KEYS[150:]
SOME = "CPU CUDA Meta SparseCPU QuantizedCPU NestedTensorCPU FPGA MkldnnCPU Functionalize Python ADInplaceOrView AutogradCPU "
SOME += "AutogradCUDA AutogradOther AutogradNestedTensor AutocastCPU Tracer FuncTorchBatched PythonDispatcher"


def parses(name):
    try:
        C._dispatch_key_parse(name)
        return "yes"
    except RuntimeError:
        return "no"


def behind(key):
    name = C._dispatch_key_name(key)
    if not name.startswith("Autograd") or key.value >= 150 or name in ("AutogradUndefined", "AutogradFunctionality"):
        return "-"
    return hex(C._dispatch_get_backend_keyset_from_autograd(key).raw_repr())


def included(key):
    names = [C._dispatch_key_name(a) for a in ALIASES if key != a and C._dispatch_is_included_in_alias(key, a)]
    return ",".join(names) or "-"


lines = ["# " + torch.__version__]
for i, key in enumerate(KEYS):
    name = C._dispatch_key_name(key)
    alone = C.DispatchKeySet(key)
    # placeholders and aliases are in no set
    whole = hex(C._dispatch_keyset_full_after(key).raw_repr()) if alone.raw_repr() else "-"
    text = C._dispatch_keyset_to_string(alone).replace(" ", "")
    lines.append(f"{i} {name} {parses(name)} {hex(alone.raw_repr())} {whole} {behind(key)} {included(key)} {text}")
for a, b in itertools.permutations([C._dispatch_key_parse(n) for n in SOME.split()], 2):
    both = C.DispatchKeySet(a).add(b)
    top = C._dispatch_key_name(both.highestPriorityTypeId())
    without = both.remove(b)
    text = C._dispatch_keyset_to_string(both).replace(" ", "")
    lines.append(f"pair {C._dispatch_key_name(a)} {C._dispatch_key_name(b)} {hex(both.raw_repr())} {top} {hex(without.raw_repr())} {text}")
pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
