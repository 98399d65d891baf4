"""Calls into an `out` of every dtype, recorded from PyTorch: which it accepts, and how it refuses the others.

    python out_dtypes.py public.jsonl.gz OUT.jsonl.gz ERRORS.jsonl.gz
"""
import gzip
import json
import sys
import warnings

import torch

from vectors import DTYPES, NAME, Unknown, record, value

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
out, err = gzip.open(sys.argv[2], "wt"), gzip.open(sys.argv[3], "wt")
taken, n = {}, 0
for line in gzip.open(sys.argv[1], "rt"):
    c = json.loads(line)
    name, _, overload = c["op"].removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, name), overload or "default")
    written = [a.name for a in op._schema.arguments if a.kwarg_only and a.alias_info is not None and a.alias_info.is_write]
    if not written or c["dtype"] not in ("f32", "i64", "bool") or taken.get((c["op"], c["dtype"]), 0) >= 1:
        continue
    try:
        args, kwargs = [value(j) for j in c["args"]], {k: value(j) for k, j in c["kwargs"].items()}
    except Unknown:
        continue
    if not all(isinstance(kwargs[w], torch.Tensor) for w in written):
        continue
    taken[c["op"], c["dtype"]] = 1
    for d in DTYPES.values():
        for which in range(len(written)):
            outs = {w: torch.empty(0, dtype=d if i == which else kwargs[w].dtype) for i, w in enumerate(written)}
            case = record(op, args, {**kwargs, **outs}, f"out_dtypes/{c['op']}/{c['dtype']}/{NAME[d]}.{which}", "manual:out_dtypes")
            if case is not None:
                n += 1
                (err if "error" in case else out).write(json.dumps(case) + "\n")
out.close()
err.close()
print(n)
