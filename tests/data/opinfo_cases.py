"""Calls that PyTorch's own operator samples make, and variants of them, recorded in the format of the conformance cases.

    python opinfo_cases.py OUT.jsonl.gz ERRORS.jsonl.gz [--seed N] [--per N] [--part I/N] [--only NAME] [--ops FILE]

Needs PyTorch's test utilities (`pip install expecttest`). `--ops` is a list of overloads, one a line (its first column); calls of
others are left out. `--per` is how many calls of one overload and dtype are kept of each kind: as sampled, in another memory
layout, into `out`, and spoilt in one argument.
"""
import argparse
import gzip
import json
import os
import pickle
import random
import resource
import signal
import sys
import warnings

import torch
from torch.utils._pytree import tree_leaves

import vectors
from opinfo import Listen, Timeout, listed_in, name_of, packets, resolved
from vectors import Skip, copied, full, record

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
# an argument that asks for much memory is refused
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
p = argparse.ArgumentParser()
p.add_argument("out")
p.add_argument("errors")
p.add_argument("--seed", type=int, default=3)
p.add_argument("--per", type=int, default=4)
p.add_argument("--part", default="0/1")
p.add_argument("--only", default="")
p.add_argument("--ops", default="")
o = p.parse_args()
rng = random.Random(o.seed)
torch.manual_seed(o.seed)
listed = listed_in(o.ops)
DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int32,
          torch.int8, torch.int16, torch.complex128]
part, parts = map(int, o.part.split("/"))

counts, calls = {}, {}
out, err = [], []
stats = {"ok": 0, "error": 0, "none": 0}


def signature(op, args, kwargs):
    def of(v):
        if isinstance(v, torch.Tensor):
            return (v.dtype, tuple(v.shape), tuple(v.stride()))
        if isinstance(v, (list, tuple)):
            return tuple(of(x) for x in v)
        if isinstance(v, dict):
            return tuple((k, of(x)) for k, x in v.items())
        return repr(v)
    return (name_of(op), of(args), of(kwargs))


def emit(op, args, kwargs, source, kind):
    ident = f"opinfo/{name_of(op)}/{vectors.nominal([args, kwargs])}/{kind}{o.seed}.{stats['ok'] + stats['error']}"
    signal.alarm(20)
    try:
        case = record(op, args, kwargs, ident, source)
    except Timeout:
        case = None
    except Exception as e:  # noqa: BLE001
        print("record", name_of(op), type(e).__name__, str(e)[:200], file=sys.stderr)
        case = None
    finally:
        signal.alarm(0)
    if case is None or "out:expanded" in source and "error" not in case:
        stats["none"] += 1
    elif "error" in case:
        stats["error"] += 1
        err.write(json.dumps(case) + "\n")
        err.flush()
    else:
        stats["ok"] += 1
        out.write(json.dumps(case) + "\n")
        out.flush()
    return case


seen = set()


def room(op, kind, args, kwargs):
    """Whether another call of this kind is wanted; each is taken once."""
    s = (kind, signature(op, args, kwargs))
    key = (kind, name_of(op), vectors.nominal([args, kwargs]))
    if s in seen or counts.get(key, 0) >= o.per:
        return False
    seen.add(s)
    counts[key] = counts.get(key, 0) + 1
    return True


def other_layout(t, how):
    """The tensor with the same elements elsewhere in memory."""
    if how == "transposed" and t.dim() >= 2:
        perm = list(range(t.dim()))
        rng.shuffle(perm)
        inverse = [perm.index(i) for i in range(len(perm))]
        return t.permute(perm).contiguous().permute(inverse)
    if how == "stepped" and t.dim():
        big = torch.zeros([*t.shape[:-1], t.shape[-1] * 2 + 1], dtype=t.dtype)
        v = big[..., 1::2]
        v.copy_(t)
        return v
    if how == "offset":
        big = torch.zeros(t.numel() + 3, dtype=t.dtype)
        big[3:].copy_(t.reshape(-1))
        return big[3:].view(t.shape)
    if how == "expanded" and t.dim():
        d = rng.randrange(t.dim())
        if t.shape[d]:
            return t.narrow(d, 0, 1).contiguous().expand(t.shape)
    if how == "channels_last" and t.dim() in (4, 5):
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    return t


def mapped(v, f):
    if isinstance(v, torch.Tensor):
        return f(v)
    if isinstance(v, (list, tuple)):
        return [mapped(x, f) for x in v]
    if isinstance(v, dict):
        return {k: mapped(x, f) for k, x in v.items()}
    return v


def spoilt(op, args, kwargs):
    """The arguments with one of them changed."""
    schema = [a for a in op._schema.arguments if not a.kwarg_only]
    args, kwargs = list(args), dict(kwargs)
    i = rng.randrange(len(args) + len(kwargs)) if args or kwargs else None
    if i is None:
        raise Skip
    key = i if i < len(args) else list(kwargs)[i - len(args)]
    box = args if i < len(args) else kwargs
    kind = str(schema[i].type) if i < len(args) else str(next(a.type for a in op._schema.arguments if a.name == key))
    v = box[key]
    if isinstance(v, torch.Tensor):
        how = rng.choice(["dtype", "dtype", "rank+", "rank-", "grow", "shrink", "empty", "scalar", "none", "nonfinite"])
        if how == "dtype":
            d = rng.choice(DTYPES)
            if v.is_floating_point() and not d.is_floating_point and not d.is_complex:
                v = torch.nan_to_num(v.double(), 1, 3, -3).clamp(0 if d == torch.uint8 else -100, 100)
            box[key] = v.to(d)
        elif how == "rank+":
            box[key] = v.unsqueeze(rng.choice([0, -1]))
        elif how == "rank-" and v.dim():
            d = rng.randrange(v.dim())
            if not v.shape[d]:
                raise Skip
            box[key] = v.select(d, 0).clone()
        elif how == "grow" and v.dim():
            d = rng.randrange(v.dim())
            box[key] = torch.cat([v, v.narrow(d, 0, min(1, v.shape[d]))], d)
        elif how == "shrink" and v.dim():
            d = rng.randrange(v.dim())
            if v.shape[d] < 2:
                raise Skip
            box[key] = v.narrow(d, 0, v.shape[d] - 1).clone()
        elif how == "empty" and v.dim():
            d = rng.randrange(v.dim())
            box[key] = v.narrow(d, 0, 0).clone()
        elif how == "scalar" and v.numel():
            box[key] = v.reshape(-1)[0].clone()
        elif how == "none" and kind.startswith("Optional"):
            box[key] = None
        elif how == "nonfinite" and v.numel() and (v.is_floating_point() or v.is_complex()):
            v = v.clone()
            flat = v.view(-1) if v.is_contiguous() else v.reshape(-1)
            for _ in range(3):
                flat[rng.randrange(flat.numel())] = rng.choice([float("nan"), float("inf"), -float("inf"), -0.0, 0.0])
            box[key] = flat.view(v.shape)
        else:
            raise Skip
    elif isinstance(v, bool):
        box[key] = not v
    elif isinstance(v, int):
        box[key] = rng.choice([0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 100, -100, v + 1, v - 1])
    elif isinstance(v, float):
        box[key] = rng.choice([0.0, 1.0, -1.0, 0.5, 2.0, -0.5, float("inf"), -float("inf"), float("nan"), 1e-8, 3.0])
    elif isinstance(v, (list, tuple, torch.Size)) and all(isinstance(x, int) for x in v):
        v = list(v)
        how = rng.choice(["change", "change", "drop", "add", "repeat"])
        if how == "change" and v:
            j = rng.randrange(len(v))
            v[j] = rng.choice([0, 1, -1, 2, 3, -2, -5, 7, v[j] + 1, v[j] - 1])
        elif how == "drop" and v:
            v.pop(rng.randrange(len(v)))
        elif how == "add":
            v.insert(rng.randrange(len(v) + 1), rng.choice([0, 1, 2, -1]))
        elif how == "repeat" and v:
            v.append(rng.choice(v))
        box[key] = v
    elif isinstance(v, (list, tuple)) and v and all(isinstance(x, torch.Tensor) for x in v):
        v = list(v)
        j = rng.randrange(len(v))
        how = rng.choice(["dtype", "drop", "rank", "none"])
        if how == "dtype":
            v[j] = v[j].to(rng.choice(DTYPES))
        elif how == "drop":
            v.pop(j)
        elif how == "rank":
            v[j] = v[j].unsqueeze(0)
        else:
            v = []
        box[key] = v
    elif isinstance(v, str):
        box[key] = rng.choice(["none", "sum", "trunc", "floor", "mean", "tanh", "reflect", "what"])
    elif v is None:
        if "ScalarType" in kind:
            box[key] = rng.choice(DTYPES)
        elif "int" in kind.lower() and "list" not in kind.lower():
            box[key] = rng.choice([0, 1, -1, 2, 5])
        elif "MemoryFormat" in kind or "memory_format" == key:
            box[key] = rng.choice([torch.channels_last, torch.contiguous_format, torch.preserve_format, torch.channels_last_3d])
        elif "number" in kind or "float" in kind:
            box[key] = rng.choice([0, 1, 1.5, -1.0, True])
        elif "bool" in kind:
            box[key] = rng.choice([True, False])
        else:
            raise Skip
    elif isinstance(v, torch.dtype):
        box[key] = rng.choice(DTYPES)
    else:
        raise Skip
    return args, kwargs


def outs_of(op, args, kwargs):
    """Calls of the overload that writes the result into `out`."""
    packet = op.overloadpacket
    names = [a.name for a in op._schema.arguments]
    for ov in packet.overloads():
        f = getattr(packet, ov)
        s = f._schema
        writes = [a for a in s.arguments if a.kwarg_only and a.alias_info is not None and a.alias_info.is_write]
        rest = [a.name for a in s.arguments if a not in writes]
        if writes and rest == [n for n in names if n in rest] and set(names) - set(rest) <= {"dtype", "layout", "device", "pin_memory", "memory_format"} \
                and [str(a.type) for a in s.arguments if a.name in rest] == [str(a.type) for a in op._schema.arguments if a.name in rest]:
            if not listed(f):
                continue
            if any(kwargs.get(n) is not None for n in set(names) - set(rest)):
                continue
            a, k = copied([args, {n: v for n, v in kwargs.items() if n in rest}])
            with torch.no_grad():
                r = op(*a, **k)
            rets = vectors.results(op, r)
            if len(rets) != len(writes) or not all(isinstance(t, torch.Tensor) for t in rets):
                continue
            yield f, [w.name for w in writes], rets
            return


def out_like(t, how):
    if how == "right":
        return torch.zeros(t.shape, dtype=t.dtype)
    if how == "none":
        return torch.empty(0, dtype=t.dtype)
    if how == "turned" and t.dim() > 1:
        return torch.zeros(t.shape[::-1], dtype=t.dtype).permute(*range(t.dim() - 1, -1, -1))
    if how == "stepped" and t.dim():
        return torch.zeros([*t.shape[:-1], t.shape[-1] * 2], dtype=t.dtype)[..., ::2]
    if how == "shape":
        return torch.zeros([*t.shape, 2], dtype=t.dtype)
    if how == "expanded" and t.dim() and t.shape[-1] > 1:
        return torch.zeros([*t.shape[:-1], 1], dtype=t.dtype).expand(t.shape)
    if how == "dtype":
        return torch.zeros(t.shape, dtype=rng.choice(DTYPES))
    raise Skip


def variants(op, args, kwargs, source):
    try:
        args, kwargs = full(op, args, kwargs)
        args, kwargs = copied([args, kwargs])
    except (Skip, RuntimeError):
        return
    if not room(op, "plain", args, kwargs):
        if rng.random() < 0.9:
            return
    else:
        emit(op, args, kwargs, source, "plain")
    for how in rng.sample(["transposed", "stepped", "offset", "expanded", "channels_last"], 2):
        try:
            which = rng.randrange(3)
            n = iter(range(10**9))
            turn = lambda t: other_layout(t, how) if which == 2 or next(n) == which else t
            a, k = mapped(args, turn), mapped(kwargs, turn)
        except Exception:  # noqa: BLE001
            continue
        if room(op, "layout", a, k):
            emit(op, a, k, f"{source}+{how}", "layout")
    for _ in range(3):
        try:
            a, k = spoilt(op, args, kwargs)
        except Skip:
            continue
        except Exception:  # noqa: BLE001
            continue
        if room(op, "spoilt", a, k):
            emit(op, a, k, f"{source}+spoilt", "spoilt")
    try:
        for f, names, rets in outs_of(op, args, kwargs):
            for how in rng.sample(["right", "none", "turned", "stepped", "shape", "expanded", "dtype", "dtype"], 2):
                try:
                    outs = [out_like(t, how) for t in rets]
                except Skip:
                    continue
                k = {n: v for n, v in kwargs.items() if n in [a.name for a in f._schema.arguments]}
                k.update(zip(names, outs))
                if room(f, "out", args, k):
                    emit(f, args, k, f"{source}+out:{how}", "out")
    except Exception:  # noqa: BLE001
        pass


def samples(info, dtype):
    grad = dtype in (torch.float32, torch.complex64) and info.supports_autograd
    try:
        yield from info.sample_inputs("cpu", dtype, requires_grad=grad)
    except Exception:  # noqa: BLE001
        pass
    try:
        n = 0
        for s in info.reference_inputs("cpu", dtype):
            yield s
            n += 1
            if n > 25:
                break
    except Exception:  # noqa: BLE001
        pass


def run(info):
    for dtype in DTYPES:
        signal.alarm(90)
        try:
            all = list(samples(info, dtype))
        except Timeout:
            continue
        finally:
            signal.alarm(0)
        rng.shuffle(all)
        for i, s in enumerate(all[:30]):
            src = f"opinfo:{info.name}/{i}"
            args, kwargs = [s.input, *s.args], s.kwargs
            for c in packets(info):
                try:
                    a, k = copied([args, kwargs])
                    op = resolved(c, a, k)
                except Exception:  # noqa: BLE001
                    continue
                if listed(op):
                    variants(op, a, k, src)
            if i >= 6:
                continue
            signal.alarm(30)
            try:
                with Listen(listed, 60) as m:
                    try:
                        r = info.op(*args, **kwargs)
                        leaves = [t for t in tree_leaves([args, kwargs]) if isinstance(t, torch.Tensor) and t.requires_grad]
                        total = [t for t in tree_leaves(r) if isinstance(t, torch.Tensor) and t.requires_grad]
                        if leaves and total:
                            torch.autograd.grad(total, leaves, [torch.randn_like(t) for t in total], allow_unused=True)
                    except Timeout:
                        raise
                    except Exception:  # noqa: BLE001
                        pass
            except Timeout:
                continue
            finally:
                signal.alarm(0)
            for op, a, k in m.calls:
                variants(op, a, k, src + "/nested")
    try:
        for e in info.error_inputs("cpu"):
            s = e.sample_input
            for c in packets(info):
                try:
                    a, k = copied([[s.input, *s.args], s.kwargs])
                    op = resolved(c, a, k)
                except Exception:  # noqa: BLE001
                    continue
                if listed(op):
                    emit(op, a, k, f"opinfo:{info.name}/err", "err")
    except Exception:  # noqa: BLE001
        pass


from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

# each sample's calls are made by a process of their own: some arguments crash PyTorch
for n, info in enumerate(op_db):
    if n % parts != part or o.only not in info.name or "jiterator" in info.name:
        continue
    print(info.name, flush=True)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with open(o.out + ".tmp", "a") as out, open(o.errors + ".tmp", "a") as err:
            rng.seed(o.seed * 1000 + n)
            stats["ok"] = n * 100000
            run(info)
        with os.fdopen(writer, "wb") as f:
            pickle.dump(counts, f)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        told = f.read()
    if os.waitpid(child, 0)[1]:
        print(info.name, "crashed PyTorch", file=sys.stderr)
    else:
        counts = pickle.loads(told)
for path in (o.out, o.errors):
    open(path + ".tmp", "a").close()
    with open(path + ".tmp") as f, gzip.open(path, "wt", compresslevel=6) as g:
        for line in f:
            if line.endswith("}\n"):
                g.write(line)
    os.remove(path + ".tmp")
