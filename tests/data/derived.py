"""Derives conformance cases in other dtypes and layouts from the public ones, by running PyTorch.

    python derived.py public.jsonl.gz derived.jsonl.gz derived_errors.jsonl.gz 2 7

Calls whose values depend on the layout of their arguments are left out: there PyTorch reads or writes other elements than it
should. What a call leaves beyond the reach of a tensor that it resized is not recorded.
"""
import base64, gzip, json, random, sys, warnings
import torch
warnings.filterwarnings("ignore")
torch.set_num_threads(1)
src, out_path, err_path = sys.argv[1:4]
per_op = int(sys.argv[4]) if len(sys.argv) > 4 else 3
rng = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 7)
DT = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
      "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
      "c64": torch.complex64, "c128": torch.complex128}
NAME = {v: k for k, v in DT.items()}
LONG = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16, "int64": torch.int64,
        "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
        "complex64": torch.complex64, "complex128": torch.complex128}
TARGETS = ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"]
MF = {"contiguous_format": torch.contiguous_format, "preserve_format": torch.preserve_format,
      "channels_last": torch.channels_last, "channels_last_3d": torch.channels_last_3d}
TOL = {"f32": (1.3e-6, 1e-5), "f64": (1e-7, 1e-7), "f16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5), "c64": (1.3e-6, 1e-5), "c128": (1e-7, 1e-7)}
EPS = {"f32": 2**-23, "f64": 2**-52, "f16": 2**-10, "bf16": 2**-7, "c64": 2**-23, "c128": 2**-52}

def raw(t):
    if not t.numel(): return ""
    if t.is_conj() or t.is_neg(): t = t.resolve_conj().resolve_neg()
    flat = torch.empty(t.numel(), dtype=t.dtype)
    flat.copy_(t.detach().reshape(-1))
    return base64.b64encode(flat.view(torch.uint8).numpy().tobytes()).decode()

def storage_tensor(t):
    n = t.untyped_storage().nbytes() // t.element_size()
    return torch.as_strided(t, (n,), (1,), 0)

class Skip(Exception):
    pass

def convert(flat, target):
    if flat.dtype == target:
        return flat.clone()
    if target == torch.bool:
        return flat > 0 if not flat.is_complex() else flat != 0
    if flat.dtype.is_floating_point and not target.is_floating_point and not target.is_complex:
        x = torch.nan_to_num(flat.double(), 3, 5, -5)
        x = torch.clamp(torch.round(x * 2), -9, 9)
        if target == torch.uint8:
            x = x.abs()
        return x.to(target)
    if not flat.dtype.is_floating_point and target in (torch.int8, torch.uint8, torch.int16):
        return torch.clamp(flat.to(torch.int64), 0 if target == torch.uint8 else -100, 100).to(target)
    return flat.to(target)

class Builder:
    def __init__(self, nominal, target, layout):
        self.nominal, self.target, self.layout = nominal, target, layout
        self.stores, self.changed = {}, False
    def value(self, j, path):
        if j is None:
            return None, None
        if isinstance(j.get("t"), str):
            if "storage_of" in j:
                if j["storage_of"] not in self.stores: raise Skip
                base = self.stores[j["storage_of"]]
                if NAME[base.dtype] != (self.target if j["t"] == self.nominal else j["t"]): raise Skip
                if self.layout != "same": raise Skip
                t = torch.as_strided(base, j["size"], j["stride"], j["offset"])
                self.stores[path] = base
                return t, {**j, "t": NAME[base.dtype]}
            flat = torch.frombuffer(bytearray(base64.b64decode(j["data"])), dtype=DT[j["t"]]) if j["data"] else torch.empty(0, dtype=DT[j["t"]])
            size, stride, offset = j["size"], j["stride"], j["offset"]
            if j["t"] == self.nominal:
                flat = convert(flat, DT[self.target])
                if self.layout == "transposed" and len(size) >= 2 and flat.numel():
                    view = torch.as_strided(flat, size, stride, offset)
                    perm = list(range(len(size))); rng.shuffle(perm)
                    inv = [perm.index(i) for i in range(len(perm))]
                    t2 = view.permute(perm).clone(memory_format=torch.contiguous_format)
                    flat = t2.view(-1); v = t2.permute(inv); stride, offset = list(v.stride()), 0
                    self.changed = True
                elif self.layout == "stepped" and len(size) >= 1 and flat.numel():
                    view = torch.as_strided(flat, size, stride, offset)
                    big = torch.zeros(list(size[:-1]) + [size[-1] * 2 + 1], dtype=flat.dtype)
                    v = big[..., 1::2]; v.copy_(view)
                    flat = big.view(-1); stride, offset = list(v.stride()), v.storage_offset()
                    self.changed = True
            else:
                flat = flat.clone()
            self.stores[path] = flat
            t = owning(flat, size, stride, offset)
            return t, {"t": NAME[flat.dtype], "size": size, "stride": stride, "offset": offset, "data": raw(flat)}
        (k, v), = j.items()
        if k == "i": return v, j
        if k == "f": return float(v), j
        if k == "b": return v, j
        if k == "s": return v, j
        if k == "c": return complex(float(v[0]), float(v[1])), j
        if k == "dtype": return LONG[v], j
        if k == "device": return torch.device("cpu"), j
        if k == "layout": return torch.strided, j
        if k == "memory_format": return MF[v], j
        if k == "wrapped_number":
            raise Skip
        if k == "list":
            items = [self.value(x, f"{path}.{i}") for i, x in enumerate(v)]
            return [a for a, _ in items], {"list": [b for _, b in items]}
        raise Skip

def reach(t):
    """The elements of its storage up to the last one that the tensor reaches."""
    if t.numel() == 0: return 0
    return t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1

def owning(flat, size, stride, offset):
    """A tensor on memory of its own: no view, which some operators refuse."""
    return torch.empty(0, dtype=flat.dtype).set_(flat.untyped_storage(), offset, size, stride)

def cancels(all):
    """Numbers so large that what is left of a sum of them is rounding."""
    return any(t.dtype.is_floating_point and t.numel() and float(torch.nan_to_num(t.double(), 0, 0, 0).abs().max()) > 1e15 for t in tensors(all))

def row_major(v):
    if isinstance(v, torch.Tensor): return v.clone(memory_format=torch.contiguous_format)
    if isinstance(v, list): return [row_major(x) for x in v]
    return v

def differ(a, b):
    a, b = list(tensors(a)), list(tensors(b))
    return any(x.dtype == y.dtype and x.shape == y.shape and not torch.allclose(x.to(torch.complex128), y.to(torch.complex128), rtol=1e-2, atol=1e-3, equal_nan=True)
               for x, y in zip(a, b))

def tensors(v):
    if isinstance(v, torch.Tensor): yield v
    elif isinstance(v, (list, tuple)):
        for x in v: yield from tensors(x)

def describe(v, args_by_path, random_case):
    if v is None: return None
    if isinstance(v, torch.Tensor):
        for p, a in args_by_path.items():
            if v is a: return {"same": p}
        if v.is_conj() or v.is_neg(): v = v.resolve_conj().resolve_neg()
        d = {"t": NAME[v.dtype], "size": list(v.shape), "stride": list(v.stride()), "offset": v.storage_offset()}
        for p, a in args_by_path.items():
            if v.numel() and a.untyped_storage().data_ptr() == v.untyped_storage().data_ptr():
                d["alias"] = p; break
        if not random_case: d["values"] = raw(v)
        return d
    if isinstance(v, bool): return {"b": v}
    if isinstance(v, int): return {"i": v}
    if isinstance(v, float): return {"f": repr(v) if v == v and abs(v) != float("inf") else str(v)}
    if isinstance(v, complex): return {"c": [repr(v.real), repr(v.imag)]}
    if isinstance(v, torch.dtype): return {"i": list(DT.values()).index(v)} if False else None
    if isinstance(v, (list, tuple)): return {"list": [describe(x, args_by_path, random_case) for x in v]}
    raise Skip

by_op = {}
for line in gzip.open(src, "rt"):
    c = json.loads(line)
    by_op.setdefault(c["op"], {}).setdefault(c["dtype"], []).append(c)
out, err = gzip.open(out_path, "wt", compresslevel=6), gzip.open(err_path, "wt")
stats = {}
def collect_paths(v, path, acc):
    if isinstance(v, torch.Tensor): acc[path] = v
    elif isinstance(v, list):
        for i, x in enumerate(v): collect_paths(x, f"{path}.{i}", acc)
for op, groups in sorted(by_op.items()):
    ns, name = op.split("::"); base, _, ov = name.partition(".")
    try: f = getattr(getattr(getattr(torch.ops, ns), base), ov or "default")
    except Exception: continue
    for nominal in ("f32", "i64", "bool", "f64", "c64", "none"):
        cases = groups.get(nominal, [])
        if not cases or (nominal in ("bool", "f64", "i64", "none") and "f32" in groups and nominal != "i64"): continue
        pick = rng.sample(cases, min(per_op, len(cases)))
        for k, c in enumerate(pick):
            for target in (TARGETS if nominal != "none" else ["f32"]):
                for layout in ("same", "transposed", "stepped") if target == nominal else (rng.choice(["same", "same", "transposed"]),):
                    if nominal == target and layout == "same": continue
                    b = Builder(nominal, target, layout)
                    try:
                        args, jargs, kwargs, jk = [], [], {}, {}
                        for i, j in enumerate(c["args"]):
                            a, ja = b.value(j, f"args.{i}"); args.append(a); jargs.append(ja)
                        for n, j in c["kwargs"].items():
                            a, ja = b.value(j, f"kwargs.{n}"); kwargs[n] = a; jk[n] = ja
                    except Skip: continue
                    if layout != "same" and not b.changed: continue
                    if target != nominal and cancels([args, list(kwargs.values())]): continue
                    paths = {}
                    for i, a in enumerate(args): collect_paths(a, f"args.{i}", paths)
                    for n, a in kwargs.items(): collect_paths(a, f"kwargs.{n}", paths)
                    before = {p: storage_tensor(t).clone() for p, t in paths.items()}
                    rand = bool(c.get("nondeterministic"))
                    case = {"op": op, "schema": c["schema"], "args": jargs, "kwargs": jk, "dtype": target,
                            "id": f"derived/{op}/{target}/{nominal}{k}{layout}", "source": c["id"]}
                    if isinstance(jk.get("generator"), dict): continue
                    plain_args, plain_kwargs = [row_major(a) for a in args], {n: row_major(a) for n, a in kwargs.items()}
                    try:
                        r = f(*args, **{n: a for n, a in kwargs.items()})
                    except NotImplementedError: continue
                    except Exception as e:
                        m = str(e)
                        stats["err"] = stats.get("err", 0) + 1
                        if "not implemented for" in m or "not supported" in m or "Unsupported" in m or "SymInt" in m: continue
                        case["error"] = {"type": type(e).__name__, "message": m[:300]}
                        err.write(json.dumps(case) + "\n"); continue
                    if layout != "same" and not rand and not c.get("weak_outs") and differ(r, f(*plain_args, **plain_kwargs)): continue
                    try:
                        rets = [] if r is None and len(f._schema.returns) == 0 else ([r] if len(f._schema.returns) == 1 else list(r))
                        case["outs"] = [describe(v, paths, rand) for v in rets]
                    except (Skip, Exception): continue
                    mut = {}
                    for p, t in paths.items():
                        now = storage_tensor(t)
                        same = now.numel() == before[p].numel() and torch.equal(now.view(torch.uint8) if now.numel() else now, before[p].view(torch.uint8) if now.numel() else before[p])
                        first = {"args": jargs, "kwargs": jk}
                        for k2 in p.split("."):
                            first = first[int(k2)] if isinstance(first, list) else first["list"][int(k2)] if isinstance(first, dict) and "list" in first else first[k2]
                        if not same or [list(t.shape), list(t.stride()), t.storage_offset()] != [first["size"], first["stride"], first["offset"]]:
                            mut[p] = {"t": NAME[t.dtype], "size": list(t.shape), "stride": list(t.stride()), "offset": t.storage_offset()}
                            seen = now[:reach(t)] if now.numel() > before[p].numel() else now
                            if not rand: mut[p]["data"] = raw(seen)
                    case["mutated"] = mut
                    if rand: case["nondeterministic"] = True
                    if c.get("weak_outs"): case["weak_outs"] = c["weak_outs"]
                    fl = [NAME[t.dtype] for t in list(tensors(rets)) + list(paths.values()) if t.dtype.is_floating_point or t.dtype.is_complex]
                    worst = max(fl, key=lambda n: EPS[n], default="f32")
                    rtol, atol = TOL[worst]
                    base_atol = (c.get("tol") or {}).get("atol", 1e-5)
                    scale = max([1.0] + [float(torch.nan_to_num(t.detach().abs().double(), 0, 0, 0).max()) for t in tensors(rets) if t.numel() and t.dtype.is_floating_point])
                    atol = max(atol, base_atol * EPS[worst] / 2**-23, 4 * EPS[worst] * min(scale, 1e4))
                    case["tol"] = {"rtol": rtol, "atol": atol}
                    out.write(json.dumps(case) + "\n"); stats["ok"] = stats.get("ok", 0) + 1
print(stats)
