"""Calls in place where memory is met twice, recorded from PyTorch: an operand that lies one element beside what is written, that is what is
written, and a written tensor whose elements are one in memory along a dimension.

    python overlap_cases.py OUT.jsonl.gz ERRORS.jsonl.gz RECORDED.jsonl.gz...
"""
import gzip
import json
import sys
import warnings

import torch

from vectors import Unknown, record, value

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
out, err = gzip.open(sys.argv[1], "wt"), gzip.open(sys.argv[2], "wt")
taken, n = set(), 0


# these read what they have written already: what they make of it is nobody's intention
READ_WHAT_IS_WRITTEN = ("addmm_", "addmv_", "addr_", "baddbmm_", "masked_scatter_")


def keep(op, args, kwargs, ident):
    global n
    case = record(op, args, kwargs, f"overlap/{ident}", "manual:overlap_cases")
    if case is not None:
        n += 1
        (err if "error" in case else out).write(json.dumps(case) + "\n")


def beside(args, i):
    """What is written, and operand `i` one element before it in the same memory."""
    x = args[0]
    row = torch.cat([x.reshape(-1), x.reshape(-1)[:1]])
    strides = torch.empty(x.shape).stride()
    new = list(args)
    new[0], new[i] = row.as_strided(x.shape, strides, 1), row.as_strided(x.shape, strides, 0)
    return new


def repeated(args):
    x = args[0]
    d = max(k for k in range(x.dim()) if x.shape[k] > 1)
    return [x.narrow(d, 0, 1).clone(memory_format=torch.contiguous_format).expand(x.shape), *args[1:]]


for path in sys.argv[3:]:
    for line in gzip.open(path, "rt"):
        c = json.loads(line)
        name, _, overload = c["op"].removeprefix("aten::").partition(".")
        if name.startswith("__") or c["dtype"] not in ("f32", "c64", "i64", "bool") or c.get("nondeterministic"):
            continue
        # what is recorded of the functional form serves the one in place
        name = name.rstrip("_") + "_"
        if name in READ_WHAT_IS_WRITTEN:
            continue
        try:
            op = getattr(getattr(torch.ops.aten, name), overload or "default")
            args, kwargs = [value(j) for j in c["args"]], {k: value(j) for k, j in c["kwargs"].items()}
        except (Unknown, AttributeError):
            continue
        x = args[0] if args else None
        if not isinstance(x, torch.Tensor) or not op._schema.arguments[0].alias_info or not 2 <= x.numel() <= 512:
            continue
        for i, a in enumerate(args):
            kind = f"aten::{name}.{overload}/{c['dtype']}/{i}"
            if i and kind not in taken and isinstance(a, torch.Tensor) and a.dtype == x.dtype and a.shape == x.shape:
                taken.add(kind)
                keep(op, beside(args, i), kwargs, kind + "/beside")
                keep(op, [x, *(x if k == i else b for k, b in enumerate(args) if k)], kwargs, kind + "/itself")
        kind = f"aten::{name}.{overload}/{c['dtype']}"
        if kind not in taken:
            taken.add(kind)
            keep(op, repeated(args), kwargs, kind + "/repeated")
out.close()
err.close()
print(n)
