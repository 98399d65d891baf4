"""Gradients of calls that PyTorch's own operator samples make, recorded in the format of the conformance cases.

    python grads_cases.py OUT.jsonl.gz [--seed N] [--per N] [--part I/N] [--ops FILE] [--dtypes f64,f32,c128]

Needs PyTorch's test utilities (`pip install expecttest`). Every floating or complex tensor argument is a leaf; one that the schema
marks as written is a clone of its leaf. `--per` is how many calls of one overload and dtype are kept. The absolute tolerance is
raised by what the gradients move when every operand moves by a last place of its dtype.
"""
import argparse
import gzip
import json
import random
import resource
import signal
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

from opinfo import Listen, listed_in, name_of, packets, resolved
from vectors import NAME, Skip, copied, encode, full, moved, paths_of, raw, results, tensors

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
p = argparse.ArgumentParser()
p.add_argument("out")
p.add_argument("--seed", type=int, default=5)
p.add_argument("--per", type=int, default=3)
p.add_argument("--part", default="0/1")
p.add_argument("--ops", default="")
p.add_argument("--dtypes", default="f64,f32,c128")
o = p.parse_args()
rng = random.Random(o.seed)
torch.manual_seed(o.seed)
listed = listed_in(o.ops)
DTYPES = [{"f64": torch.float64, "f32": torch.float32, "c128": torch.complex128, "bf16": torch.bfloat16}[d] for d in o.dtypes.split(",")]
part, parts = map(int, o.part.split("/"))
counts, seen, out = {}, set(), []


def differentiable(t):
    return t.is_floating_point() or t.is_complex()


def gradients(op, args, kwargs, seeds):
    """The gradients by path, and the gradients of the results that they came from."""
    paths = paths_of(args, kwargs)
    leaves = {}
    for path, t in paths.items():
        if differentiable(t) and not getattr(t, "wrapped", False):
            leaves[path] = t.requires_grad_(True)
    if not leaves:
        raise Skip("no leaf")
    schema = op._schema.arguments
    written = {a.name for a in schema if a.alias_info is not None and a.alias_info.is_write}
    names = [a.name for a in schema if not a.kwarg_only]

    def given(v, name):
        if isinstance(v, torch.Tensor):
            return v.clone() if name in written and v.requires_grad else v
        if isinstance(v, (list, tuple)):
            return [given(x, name) for x in v]
        return v

    a = [given(v, n) for v, n in zip(args, names)]
    k = {n: given(v, n) for n, v in kwargs.items()}
    flat = []
    for r in results(op, op(*a, **k)):
        flat.extend(r if isinstance(r, (list, tuple)) else [r])
    flat = [t for t in flat if isinstance(t, torch.Tensor)]
    roots = [t for t in flat if t.requires_grad]
    if not roots:
        raise Skip("no gradient")
    outs, used = [], []
    for i, t in enumerate(flat):
        if not t.requires_grad:
            outs.append(None)
            continue
        if i not in seeds:
            seeds[i] = torch.randn(t.shape, dtype=torch.promote_types(t.dtype, torch.float32)).to(t.dtype)
        outs.append(seeds[i].to(t.dtype))
        used.append(outs[-1])
    grads = torch.autograd.grad(roots, list(leaves.values()), used, allow_unused=True)
    for t in leaves.values():
        t.requires_grad_(False)
    return dict(zip(leaves, grads)), outs


def tensor(t):
    if t is None:
        return None
    t = t.detach().resolve_conj().resolve_neg()
    if t.layout != torch.strided:
        raise Skip("sparse")
    return {"t": NAME[t.dtype], "size": list(t.shape), "values": raw(t)}


def emit(op, args, kwargs, source):
    tag = [str(a.dtype) for a in tensors([args, kwargs]) if differentiable(a)]
    if not tag:
        return
    key = (name_of(op), tag[0])
    if counts.get(key, 0) >= o.per:
        return
    if op._schema.name.endswith("_out") or any(a.is_out for a in op._schema.arguments) or "random" in name_of(op):
        return
    sig = (key, tuple((tuple(t.shape), t.stride(), t.dtype) for t in tensors([args, kwargs])), repr([a for a in args if not isinstance(a, torch.Tensor)]))
    if sig in seen:
        return
    seen.add(sig)
    a, k = copied([args, kwargs])
    seeds = {}
    try:
        grads, outs = gradients(op, a, k, seeds)
        again, _ = gradients(op, *copied([args, kwargs]), seeds)
        other, _ = gradients(op, *copied([args, kwargs], change=moved), {i: s.double() if not s.is_complex() else s.to(torch.complex128) for i, s in seeds.items()})
    except Skip:
        return
    rtol, atol = (1e-7, 1e-7) if "64" in tag[0] and "complex64" not in tag[0] or "128" in tag[0] else (1.3e-6, 1e-5)
    if "bfloat16" in tag[0]:
        rtol, atol = 1.6e-2, 1e-3
    for path, g in grads.items():
        h, again_g = other[path], again[path]
        if (g is None) != (h is None) or (g is None) != (again_g is None):
            return
        if g is None:
            continue
        if not torch.equal(torch.nan_to_num(g.to(torch.complex128)), torch.nan_to_num(again_g.to(torch.complex128))):
            return
        moves = (g.to(torch.complex128) - h.to(torch.complex128)).abs()
        moves = moves[moves.isfinite()]
        finite = g.abs()[g.abs().isfinite()]
        by = moves.max().item() if moves.numel() else 0.0
        if finite.numel() and by > 1e-2 * max(1.0, finite.max().item()):
            return
        atol = max(atol, 3 * by)
    paths, known = paths_of(a, k), {}
    schema = op._schema.arguments
    pos = [x for x in schema if not x.kwarg_only]
    case = {
        "op": name_of(op), "schema": str(op._schema),
        "args": [encode(v, x.type, f"args.{i}", known) for i, (v, x) in enumerate(zip(a, pos))],
        "kwargs": {x.name: encode(k[x.name], x.type, f"kwargs.{x.name}", known) for x in schema if x.kwarg_only},
        "grad_outs": [tensor(t) for t in outs], "grads": {path: tensor(g) for path, g in grads.items()},
        "tol": {"rtol": rtol, "atol": atol}, "dtype": NAME[paths[next(iter(grads))].dtype],
        "id": f"grads/{name_of(op)}/{NAME[paths[next(iter(grads))].dtype]}/{counts.get(key, 0)}", "source": source,
    }
    counts[key] = counts.get(key, 0) + 1
    out.append(json.dumps(case, separators=(",", ":")))


def run(info):
    for dtype in DTYPES:
        if not (info.supports_autograd and dtype in info.supported_dtypes("cpu")):
            continue
        signal.alarm(60)
        try:
            all = list(info.sample_inputs("cpu", dtype, requires_grad=True))
        except Exception:  # noqa: BLE001
            continue
        finally:
            signal.alarm(0)
        rng.shuffle(all)
        for i, s in enumerate(all[:12]):
            args, kwargs = [s.input, *s.args], s.kwargs
            found = []
            for c in packets(info):
                try:
                    a, k = copied([args, kwargs])
                    op = resolved(c, a, k)
                    if listed(op):
                        found.append((op, *full(op, a, k)))
                except Exception:  # noqa: BLE001
                    continue
            signal.alarm(20)
            try:
                with Listen(listed, 40) as m:
                    r = info.op(*args, **kwargs)
                    leaves = [t for t in tensors([args, kwargs]) if t.requires_grad]
                    total = [t for t in tensors(r if isinstance(r, (list, tuple)) else [r]) if t.requires_grad]
                    if leaves and total:
                        torch.autograd.grad(total, leaves, [torch.randn_like(t) for t in total], allow_unused=True)
                found += m.calls
            except Exception:  # noqa: BLE001
                found += m.calls
            finally:
                signal.alarm(0)
            for op, a, k in found:
                signal.alarm(20)
                try:
                    emit(op, a, k, f"opinfo:{info.name}/{i}")
                except Exception:  # noqa: BLE001
                    pass
                finally:
                    signal.alarm(0)


for n, info in enumerate(op_db):
    if n % parts == part:
        run(info)
with gzip.GzipFile(o.out, "wb", mtime=0) as f:
    for line in out:
        f.write((line + "\n").encode())
print(len(out), "cases of", len({json.loads(x)["op"] for x in out}), "overloads")
