"""Recording one call of an operator in the format of the conformance cases: what PyTorch was given and what it made of it.

`record` gives the case, a call that must fail included, or `None` where PyTorch does not settle what comes out.
"""
import base64
import torch

NAME = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
        torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
        torch.complex64: "c64", torch.complex128: "c128"}
TOL = {"f32": (1.3e-6, 1e-5), "f64": (1e-7, 1e-7), "f16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5), "c64": (1.3e-6, 1e-5), "c128": (1e-7, 1e-7)}
EPS = {"f32": 2**-23, "f64": 2**-52, "f16": 2**-10, "bf16": 2**-7, "c64": 2**-23, "c128": 2**-52}
WIDE = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.complex64: torch.complex128}
# results that nothing was written to
UNINITIALISED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "resize_", "empty_permuted", "_embedding_bag",
                 "resize_as_", "resize", "resize_as")
DTYPES = {v: k for k, v in NAME.items()}
FORMATS = {"contiguous_format": torch.contiguous_format, "preserve_format": torch.preserve_format,
           "channels_last": torch.channels_last, "channels_last_3d": torch.channels_last_3d}
LIMIT = 1 << 16


class Skip(Exception):
    """Nothing to record."""


def raw(t):
    if not t.numel():
        return ""
    flat = torch.empty(t.numel(), dtype=t.dtype)
    flat.copy_(t.detach().resolve_conj().resolve_neg().reshape(-1))
    return base64.b64encode(flat.view(torch.uint8).numpy().tobytes()).decode()


def whole(t):
    """The storage of a tensor, as one row."""
    return torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), 0, (t.untyped_storage().nbytes() // t.element_size(),), (1,))


def reach(t):
    if t.numel() == 0:
        return 0
    return t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1


def tensors(v):
    if isinstance(v, torch.Tensor):
        yield v
    elif isinstance(v, (list, tuple)):
        for x in v:
            yield from tensors(x)
    elif isinstance(v, dict):
        for x in v.values():
            yield from tensors(x)


def plain(t):
    return type(t) in (torch.Tensor, torch.nn.Parameter) and t.layout == torch.strided and t.dtype in NAME and t.device.type == "cpu" \
        and not t.is_quantized


def copied(v, stores=None, change=None):
    """Arguments with storages of their own, shared where they were shared; `change` maps each storage, a row."""
    stores = {} if stores is None else stores
    if isinstance(v, torch.Tensor):
        if not plain(v):
            raise Skip("tensor")
        t = v.detach()
        if t.is_conj() or t.is_neg():
            t = t.resolve_conj().resolve_neg()
        key = t.untyped_storage().data_ptr() if t.untyped_storage().nbytes() else id(v)
        row = whole(t)
        if row.numel() * row.element_size() > LIMIT:
            t = t.clone() if reach(t) == t.numel() + t.storage_offset() else t
            row = whole(t)
            if row.numel() * row.element_size() > LIMIT:
                raise Skip("large")
        if key not in stores or stores[key][0] != t.dtype:
            stores[key] = (t.dtype, row.clone() if change is None else change(row.clone()))
        new = stores[key][1]
        return torch.empty(0, dtype=new.dtype).set_(new.untyped_storage(), t.storage_offset(), t.shape, t.stride())
    if isinstance(v, (list, tuple)):
        return [copied(x, stores, change) for x in v]
    if isinstance(v, dict):
        return {k: copied(x, stores, change) for k, x in v.items()}
    return v


def widened(row):
    return row.to(WIDE[row.dtype]) if row.dtype in WIDE else row


def moved(row):
    """Every element a last place of f32 away (of f64 what is f64)."""
    if not (row.is_floating_point() or row.is_complex()):
        return row
    eps = 2**-23 if row.dtype in WIDE else 2**-52
    row = widened(row)
    sign = torch.where(torch.arange(row.numel()) * 2654435761 % 7 < 3, 1.0, -1.0)
    return row * (1 + eps * sign)


def paths_of(args, kwargs):
    out = {}
    def walk(v, path):
        if isinstance(v, torch.Tensor):
            out[path] = v
        elif isinstance(v, (list, tuple)):
            for i, x in enumerate(v):
                walk(x, f"{path}.{i}")
    for i, a in enumerate(args):
        walk(a, f"args.{i}")
    for n, a in kwargs.items():
        walk(a, f"kwargs.{n}")
    return out


def number(v):
    if isinstance(v, bool):
        return {"b": v}
    if isinstance(v, int):
        if not -2**63 <= v < 2**63:
            raise Skip("int")
        return {"i": v}
    if isinstance(v, float):
        return {"f": repr(v)}
    if isinstance(v, complex):
        return {"c": [repr(v.real), repr(v.imag)]}
    raise Skip(f"number {type(v)}")


def encode(v, kind, path, seen):
    kind = str(kind).removeprefix("Optional[").removesuffix("]") if str(kind).startswith("Optional[") else str(kind)
    if v is None:
        return None
    if kind.startswith("List[") and isinstance(v, (bool, int, float)):
        raise Skip("a number for a list")
    if isinstance(v, torch.Tensor) and "Tensor" not in kind:
        raise Skip("a tensor for a number")
    if isinstance(v, torch.Tensor):
        d = {"t": NAME[v.dtype], "size": list(v.shape), "stride": list(v.stride()), "offset": v.storage_offset()}
        key = v.untyped_storage().data_ptr() if v.untyped_storage().nbytes() else None
        if key is not None and key in seen:
            if seen[key][1] != v.dtype:
                raise Skip("storage of two dtypes")
            d["storage_of"] = seen[key][0]
        else:
            d["data"] = raw(whole(v))
            if key is not None:
                seen[key] = (path, v.dtype)
        return d
    if isinstance(v, torch.dtype):
        if v not in NAME:
            raise Skip("dtype")
        return {"dtype": str(v).split(".")[1]}
    if isinstance(v, torch.device):
        return {"device": "cpu"}
    if isinstance(v, torch.layout):
        if v != torch.strided:
            raise Skip("layout")
        return {"layout": "strided"}
    if isinstance(v, torch.memory_format):
        return {"memory_format": str(v).split(".")[1]}
    if isinstance(v, str):
        return {"s": v}
    if isinstance(v, (list, tuple, torch.Size)):
        inner = kind.removeprefix("List[").removesuffix("]")
        return {"list": [encode(x, inner, f"{path}.{i}", seen) for i, x in enumerate(v)]}
    if isinstance(v, (bool, int, float, complex)):
        if kind == "Tensor":
            return {"wrapped_number": number(v)}
        if kind == "float":
            return number(float(v))
        if kind == "bool":
            return {"b": bool(v)}
        if kind in ("number", "Scalar", "int", "SymInt"):
            return number(v)
        if kind == "ScalarType" or "Device" in kind:
            raise Skip(kind)
        return number(v)
    raise Skip(f"value {type(v)}")


def described(v, paths, rand):
    if v is None:
        return None
    if isinstance(v, torch.Tensor):
        for p, a in paths.items():
            if v is a:
                return {"same": p}
        if not plain(v):
            raise Skip("result")
        if v.is_conj() or v.is_neg():
            raise Skip("a view of bits")
        d = {"t": NAME[v.dtype], "size": list(v.shape), "stride": list(v.stride()), "offset": v.storage_offset()}
        for p, a in paths.items():
            if v.numel() and a.untyped_storage().data_ptr() == v.untyped_storage().data_ptr():
                d["alias"] = p
                break
        if not rand:
            d["values"] = raw(v)
        return d
    if isinstance(v, (list, tuple)):
        return {"list": [described(x, paths, rand) for x in v]}
    if isinstance(v, torch.dtype):
        raise Skip("dtype")
    return number(v)


def full(op, args, kwargs):
    """All arguments of the schema, defaults filled in."""
    args, kwargs = list(args), dict(kwargs)
    pos, kw = [], {}
    for a in op._schema.arguments:
        if a.kwarg_only:
            kw[a.name] = kwargs.pop(a.name, a.default_value)
        elif args:
            pos.append(args.pop(0))
        elif a.name in kwargs:
            pos.append(kwargs.pop(a.name))
        elif a.has_default_value():
            pos.append(a.default_value)
        else:
            raise Skip("missing argument")
    if args or kwargs:
        raise Skip("too many arguments")
    # a number stands for a list of as many as the schema says
    for box, keys in ((pos, list(enumerate(a for a in op._schema.arguments if not a.kwarg_only))), (kw, [(a.name, a) for a in op._schema.arguments if a.kwarg_only])):
        for k, a in keys:
            if type(box[k]) is int and "List[" in str(a.type):
                box[k] = [box[k]] * (a.N or 1)
    return pos, kw


def results(op, r):
    n = len(op._schema.returns)
    return [] if n == 0 else [r] if n == 1 else list(r)


def nominal(all):
    ts = list(tensors(all))
    for test in (lambda t: t.is_floating_point() or t.is_complex(), lambda t: t.dtype != torch.bool, lambda t: True):
        for t in ts:
            if test(t):
                return NAME[t.dtype]
    return "none"


def away(a, b):
    """How far two results are from each other."""
    worst = 0.0
    for x, y in zip(tensors(a), tensors(b)):
        if x.shape != y.shape or not x.numel() or not (x.is_floating_point() or x.is_complex()):
            continue
        d = (x.detach().to(torch.complex128) - y.detach().to(torch.complex128)).abs()
        worst = max(worst, float(torch.nan_to_num(d, 0, 0, 0).max()))
    return worst


def settled(a, b):
    for x, y in zip(tensors(a), tensors(b)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.numel() and not torch.equal(torch.nan_to_num(x.detach().clone(), 1.25), torch.nan_to_num(y.detach().clone(), 1.25)):
            return False
    return True


REFUSED = ("Expected a value of type", "missing value for argument", "got unexpected keyword", "takes", "Cast error details",
           "Unsupported type", "SymInt", "Overloaded torch operator", "Expected at most", "NVIDIA")


def record(op, args, kwargs, ident, source, memory=None):
    """The case of a call, or None. The arguments are left as they are."""
    name = op._schema.name
    try:
        args, kwargs = full(op, args, kwargs)
        args0, kwargs0 = copied([args, kwargs])
        for a, v in [*zip(op._schema.arguments, args0), *((a, kwargs0[a.name]) for a in op._schema.arguments if a.kwarg_only)]:
            if a.name in ("memory_format", "dtype", "layout") and isinstance(v, (bool, int)):
                return None
        seen = {}
        pos_s = [a for a in op._schema.arguments if not a.kwarg_only]
        kw_s = [a for a in op._schema.arguments if a.kwarg_only]
        jargs = [encode(v, s.type, f"args.{i}", seen) for i, (v, s) in enumerate(zip(args0, pos_s))]
        jkw = {s.name: encode(kwargs0[s.name], s.type, f"kwargs.{s.name}", seen) for s in kw_s}
    except Skip:
        return None
    case = {"op": name + ("." + op._schema.overload_name if op._schema.overload_name else ""), "schema": str(op._schema), "args": jargs,
            "kwargs": jkw, "dtype": nominal([args0, kwargs0]), "id": ident, "source": source}
    state = torch.get_rng_state()
    try:
        with torch.no_grad():
            r = op(*args0, **kwargs0)
    except Exception as e:  # noqa: BLE001
        m = str(e)
        if any(x in m for x in REFUSED) or "INTERNAL ASSERT" in m or isinstance(e, MemoryError) or "can't allocate" in m:
            return None
        case["error"] = {"type": type(e).__name__, "message": m[:300]}
        return case
    try:
        rets = results(op, r)
        paths = paths_of(args0, kwargs0)
        args1, kwargs1 = copied([args, kwargs])
        before = {p: whole(t).clone() for p, t in paths_of(*copied([args, kwargs])).items()}
        rand = torch.Tag.nondeterministic_seeded in op.tags or name.split("::")[1] in UNINITIALISED
        if not rand:
            junk = [torch.full((max(1, t.numel()),), 77, dtype=t.dtype) for t in tensors(rets)]
            del junk
            with torch.no_grad():
                again = results(op, op(*args1, **kwargs1))
            if not settled([rets, list(paths.values())], [again, list(paths_of(args1, kwargs1).values())]):
                return None
        case["outs"] = [described(v, paths, rand) for v in rets]
        mutated = {}
        for p, t in paths.items():
            now = whole(t)
            old = before[p]
            same = now.dtype == old.dtype and now.numel() == old.numel() and (not now.numel() or torch.equal(now.view(torch.uint8), old.view(torch.uint8)))
            if not same or any(v is t for v in tensors(rets)):
                mutated[p] = {"t": NAME[t.dtype], "size": list(t.shape), "stride": list(t.stride()), "offset": t.storage_offset()}
                if not rand:
                    mutated[p]["data"] = raw(now[:reach(t)] if now.numel() > old.numel() else now)
        case["mutated"] = mutated
        if rand:
            case["nondeterministic"] = True
        floats = [NAME[t.dtype] for t in [*tensors(rets), *paths.values()] if t.is_floating_point() or t.is_complex()]
        worst = max(floats, key=lambda n: EPS[n], default="f32")
        rtol, atol = TOL[worst]
        if not rand and any(t.is_floating_point() or t.is_complex() for t in tensors(rets)):
            scale = max([0.0] + [float(torch.nan_to_num(t.detach().abs().double(), 0, 0, 0).max()) for t in tensors(rets)
                                 if t.numel() and (t.is_floating_point() or t.is_complex())])
            try:
                with torch.no_grad():
                    a2, k2 = copied([args, kwargs], change=widened)
                    exact = results(op, op(*a2, **k2))
                    a3, k3 = copied([args, kwargs], change=moved)
                    nudged = results(op, op(*a3, **k3))
                error, drift = away(rets, exact), away(exact, nudged)
                if max(error / max(EPS[worst] / 2**-23, 1), drift) > 1e-2 * max(scale, 1e-3):
                    return None
                atol += 3 * error + 3 * drift
            except Exception:  # noqa: BLE001
                atol = max(atol, 4 * EPS[worst] * scale)
        case["tol"] = {"rtol": rtol, "atol": atol}
        return case
    except Skip:
        return None


class Unknown(Exception):
    """A recorded value that stands for none of a call by itself: memory shared with another argument, for instance."""


def value(j):
    """An argument of a recorded case."""
    if j is None:
        return None
    if "t" in j:
        if "data" not in j:
            raise Unknown
        row = torch.frombuffer(bytearray(base64.b64decode(j["data"])), dtype=DTYPES[j["t"]]) if j["data"] else torch.empty(0, dtype=DTYPES[j["t"]])
        return torch.empty(0, dtype=row.dtype).set_(row.untyped_storage(), j["offset"], j["size"], j["stride"])
    (kind, v), = j.items()
    if kind in ("i", "b", "s"):
        return v
    if kind == "f":
        return float(v)
    if kind == "dtype":
        return getattr(torch, v)
    if kind == "memory_format":
        return FORMATS[v]
    if kind == "list":
        return [value(x) for x in v]
    raise Unknown
