"""Public calls spoilt in one way each, recorded from PyTorch: what it refuses, and with which exception, and what it makes of the rest.

    python bad_cases.py public.jsonl.gz OUT.jsonl.gz ERRORS.jsonl.gz [CASES-PER-OPERATOR] [SEED]
"""
import gzip
import json
import os
import random
import resource
import signal
import sys
import warnings

import torch

from vectors import FORMATS, NAME, Unknown, record, value

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
per = int(sys.argv[4]) if len(sys.argv) > 4 else 2
rng = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 1)


def converted(t, d):
    if not d.is_floating_point and t.is_floating_point():
        t = torch.nan_to_num(t.double(), 1, 3, -3).clamp(0, 100)
    return t.to(d)


def spoils(op, args, kwargs):
    """Pairs of what is done and the arguments that it leaves."""
    names = [a.name for a in op._schema.arguments if not a.kwarg_only]
    kinds = [str(a.type) for a in op._schema.arguments if not a.kwarg_only]
    def with_arg(i, v):
        return [v if k == i else a for k, a in enumerate(args)], kwargs
    for i, a in enumerate(args):
        if isinstance(a, torch.Tensor):
            for d in (torch.bool, torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16):
                if d != a.dtype:
                    yield f"{NAME[d]}{i}", with_arg(i, converted(a, d))
            yield f"rank{i}", with_arg(i, a.unsqueeze(0).clone())
            if a.dim() and a.shape[0]:
                yield f"rank-{i}", with_arg(i, a.select(0, 0).clone())
            for d in range(a.dim()):
                if a.shape[d]:
                    yield f"shape{i}_{d}", with_arg(i, torch.cat([a, a.narrow(d, 0, 1)], d))
                    yield f"empty{i}_{d}", with_arg(i, a.narrow(d, 0, 0).clone())
        elif isinstance(a, bool):
            yield f"flag{i}", with_arg(i, not a)
        elif isinstance(a, int):
            for v in (0, -1, 1, 2, -a, a + 1, 97, -97):
                if v != a:
                    yield f"{names[i]}={v}", with_arg(i, v)
        elif isinstance(a, float):
            for v in (0.0, -1.0, 0.5, 2.0, float("inf"), float("nan")):
                yield f"{names[i]}={v}", with_arg(i, v)
        elif isinstance(a, list) and a and all(isinstance(x, int) for x in a):
            for v in (0, -1, 97, -97):
                yield f"{names[i]}[0]={v}", with_arg(i, [v, *a[1:]])
            yield f"{names[i]}+", with_arg(i, [*a, a[-1]])
            yield f"{names[i]}-", with_arg(i, a[:-1])
            yield f"{names[i]}:1", with_arg(i, a[:1])
        elif isinstance(a, list) and a and all(isinstance(x, torch.Tensor) for x in a):
            yield f"{names[i]}:0", with_arg(i, [])
            yield f"{names[i]}-", with_arg(i, a[:-1])
            yield f"{names[i]}rank", with_arg(i, [a[0].unsqueeze(0), *a[1:]])
            for d in (torch.bool, torch.int64, torch.float64):
                yield f"{names[i]}{NAME[d]}", with_arg(i, [converted(a[0], d), *a[1:]])
        elif isinstance(a, str):
            yield f"{names[i]}=what", with_arg(i, "what")
        elif a is None and kinds[i].startswith("Optional"):
            if "int" in kinds[i].lower() and "List" not in kinds[i]:
                for v in (0, 1, -1, 97):
                    yield f"{names[i]}={v}", with_arg(i, v)
            elif "List[int]" in kinds[i]:
                for v in ([0], [-1], [97], [0, 0], []):
                    yield f"{names[i]}={v}", with_arg(i, v)
    for k, a in kwargs.items():
        if isinstance(a, bool):
            yield f"{k}!", (args, {**kwargs, k: not a})
        elif isinstance(a, (int, float)):
            for v in (0, 2, -1, 1.5, True):
                yield f"{k}={v}", (args, {**kwargs, k: v})
        elif k == "dtype":
            for d in (torch.float64, torch.int32, torch.bool, torch.float16):
                yield f"{k}={NAME[d]}", (args, {**kwargs, k: d})
        elif k == "memory_format":
            for f in FORMATS.values():
                yield f"{k}={f}", (args, {**kwargs, k: f})


cases = {}
for line in gzip.open(sys.argv[1], "rt"):
    c = json.loads(line)
    if "storage_of" not in line:
        cases.setdefault(c["op"], []).append(c)
for f in (2, 3):
    open(sys.argv[f] + ".tmp", "w").close()
for name, recorded in sorted(cases.items()):
    child = os.fork()
    if child == 0:
        base, _, overload = name.removeprefix("aten::").partition(".")
        op = getattr(getattr(torch.ops.aten, base), overload or "default")
        with open(sys.argv[2] + ".tmp", "a") as out, open(sys.argv[3] + ".tmp", "a") as err:
            for c in rng.sample(recorded, min(per, len(recorded))):
                try:
                    args, kwargs = [value(j) for j in c["args"]], {k: value(j) for k, j in c["kwargs"].items()}
                    for what, (a, k) in spoils(op, args, kwargs):
                        signal.alarm(8)  # ends the process
                        case = record(op, a, k, f"bad/{c['op']}/{c['dtype']}/{c['id'].split('/')[-1]}+{what}", c["source"] + "+bad:" + what)
                        signal.alarm(0)
                        if case is not None:
                            file = err if "error" in case else out
                            file.write(json.dumps(case) + "\n")
                            file.flush()
                except Unknown:
                    pass
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name, "crashed PyTorch", file=sys.stderr)
for f in (2, 3):
    path = sys.argv[f]
    with open(path + ".tmp") as lines, gzip.open(path, "wt", compresslevel=6) as g:
        for line in lines:
            if line.endswith("}\n"):
                g.write(line)
    os.remove(path + ".tmp")
