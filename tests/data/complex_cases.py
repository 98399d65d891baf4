"""Makes complex.jsonl.gz: calls with complex tensors and what PyTorch made of them, in the format of the other cases.

Run with PyTorch 2.15: python3 complex_cases.py
"""

import base64
import gzip
import json
import pathlib

import torch

torch.manual_seed(7)
NAMES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
    torch.complex64: "c64", torch.complex128: "c128",
}
SCHEMAS = {}
for s in torch._C._jit_get_all_schemas():
    SCHEMAS[s.name + ("." + s.overload_name if s.overload_name else "")] = s


def raw(t):
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    if t.dtype.is_complex:
        t = torch.view_as_real(t)
    if t.dtype == torch.bool:
        t = t.to(torch.uint8)
    return base64.b64encode(t.numpy().tobytes()).decode() if t.dtype != torch.bfloat16 else base64.b64encode(
        t.view(torch.int16).numpy().tobytes()).decode()


def storage(t):
    n = t.untyped_storage().nbytes() // t.element_size()
    return torch.as_strided(t, (n,), (1,), 0)


def shape(t):
    return {"t": NAMES[t.dtype], "size": list(t.shape), "stride": list(t.stride()), "offset": t.storage_offset()}


def value(x, kind):
    if x is None:
        return None
    if isinstance(x, torch.Tensor):
        return {**shape(x), "data": raw(storage(x))}
    if isinstance(x, torch.dtype):
        return {"dtype": str(x).removeprefix("torch.")}
    if isinstance(x, (list, tuple)):
        return {"list": [value(y, kind) for y in x]}
    if isinstance(x, bool):
        return {"b": x}
    if isinstance(x, complex):
        return {"c": [repr(x.real), repr(x.imag)]}
    if isinstance(x, int):
        return {"f": repr(float(x))} if kind == "float" else {"i": x}
    if isinstance(x, float):
        return {"f": repr(x)}
    return {"s": x}


def tolerance(outs, accumulate):
    small = any(isinstance(o, torch.Tensor) and o.dtype in (torch.float32, torch.complex64) for o in outs)
    scale = max([float(o.detach().abs().max()) for o in outs if isinstance(o, torch.Tensor) and o.numel()
                 and (o.dtype.is_complex or o.dtype.is_floating_point) and torch.isfinite(o).all()] + [1.0])
    rtol, atol = (1.3e-6, 1e-5) if small else (1e-7, 1e-7)
    return {"rtol": rtol, "atol": atol + (scale * (1e-5 if small else 1e-12))}


LINES = []


def case(op, *args, **kwargs):
    schema = SCHEMAS["aten::" + op]
    name, _, overload = op.partition(".")
    call = getattr(getattr(torch.ops.aten, name), overload or "default")
    positional, keyword = [], {}
    for i, a in enumerate(schema.arguments):
        if a.kwarg_only:
            keyword[a.name] = kwargs.get(a.name, a.default_value)
        else:
            positional.append(args[i] if i < len(args) else kwargs.get(a.name, a.default_value))
    kinds = [str(a.type) for a in schema.arguments]
    line = {
        "op": "aten::" + op, "schema": str(schema), "args": [value(x, k) for x, k in zip(positional, kinds)],
        "kwargs": {k: value(x, "") for k, x in keyword.items()},
    }
    written = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    result = call(*positional, **keyword)
    results = result if isinstance(result, (list, tuple)) else [result]
    line["outs"] = []
    for r in results:
        if not isinstance(r, torch.Tensor):
            line["outs"].append(value(r, ""))
            continue
        same = [i for i, x in enumerate(positional) if x is r]
        if same:
            line["outs"].append({"same": f"args.{same[0]}"})
            continue
        out = {**shape(r), "values": raw(r)}
        for i, x in enumerate(positional):
            if isinstance(x, torch.Tensor) and x.numel() and x.untyped_storage().data_ptr() == r.untyped_storage().data_ptr():
                out["alias"] = f"args.{i}"
        line["outs"].append(out)
    line["mutated"] = {f"args.{i}": value(positional[i], "") for i in written}
    line["tol"] = tolerance(list(results), True)
    first = next((x for x in positional if isinstance(x, torch.Tensor)), None)
    line["dtype"] = NAMES[first.dtype] if first is not None else "none"
    line["id"] = f"complex/aten::{op}/{line['dtype']}/{len(LINES)}"
    line["source"] = "manual:complex"
    LINES.append(json.dumps(line))


def refused(op, *args):
    """A call that must fail, as PyTorch's does."""
    try:
        case(op, *args)
    except Exception:  # noqa: BLE001
        return
    raise AssertionError(op)


C64, C128 = torch.complex64, torch.complex128
for d in (C64, C128):
    def r(*size):
        return torch.randn(*size, dtype=d)

    x, y = r(3, 4), r(3, 4)
    turned, stepped, scalar, empty = r(4, 3).t(), r(3, 8)[:, ::2], r(()), r(0, 4)
    for name in ("abs angle sgn exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh reciprocal rsqrt "
                 "neg square sigmoid log2 log10 log1p expm1 isnan isinf isfinite logical_not isreal _conj_physical "
                 "conj_physical silu").split():
        case(name, x)
        case(name, turned)
        if name in ("abs", "exp", "neg", "sgn"):
            case(name, stepped)
            case(name, scalar)
            case(name, empty)
    for name in "exp_ neg_ sqrt_ sgn_ reciprocal_ conj_physical_ tanh_".split():
        case(name, x.clone())
        case(name, r(4, 3).t())
    for name in "add.Tensor sub.Tensor mul.Tensor div.Tensor".split():
        case(name, x, y)
        case(name, x, r(4))
        case(name, turned, x)
        case(name, x, torch.randn(3, 4))
        case(name, torch.randn(3, 4, dtype=torch.float64), x)
        case(name, x, torch.arange(4))
        case(name, empty, r(1, 4))
    for name in "add.Scalar sub.Scalar mul.Scalar div.Scalar".split():
        case(name, x, 2)
        case(name, x, 1.5)
        case(name, x, 1.5 - 2j)
        case(name, torch.randn(3), 1j)
    case("add.Tensor", x, y, alpha=2 - 1j)
    case("add_.Tensor", x.clone(), y)
    case("mul_.Tensor", x.clone(), torch.randn(4))
    case("div_.Scalar", x.clone(), 2j)
    case("pow.Tensor_Tensor", x, y)
    for e in (0, 1, 2, 3, -1, 0.5, 1.5, 1 + 2j):
        case("pow.Tensor_Scalar", x, e)
    case("pow.Scalar", 2.0, x)
    for name in "eq.Tensor ne.Tensor".split():
        case(name, x, torch.where(x.real > 0, x, y))
    case("eq.Scalar", x, x[0, 0].item())
    case("ne.Scalar", x, 1)
    case("where.self", x.real > 0, x, y)
    case("where.self", x.real > 0, x, torch.randn(4))
    case("where.ScalarOther", x.real > 0, x, 1j)
    case("addcmul", x, y, x, value=2)
    case("addcdiv", x, y, x)
    for name in ("sum", "prod", "mean"):
        case(name, x)
        case(name, turned)
    case("sum.dim_IntList", x, [0])
    case("sum.dim_IntList", r(2, 3, 4), [0, 2], True)
    case("sum.dim_IntList", empty, [0])
    case("mean.dim", x, [1])
    case("prod.dim_int", x, 0)
    case("sum", torch.randn(4), dtype=d)
    case("any", x)
    case("all.dim", torch.where(x.real > 0, x, 0), 1)
    a, b = r(3, 5), r(5, 4)
    case("mm", a, b)
    case("mm", r(5, 3).t(), r(4, 5).t())
    case("mm", r(3, 0), r(0, 4))
    case("addmm", r(4), a, b)
    case("addmm", r(3, 4), a, b, beta=0.5, alpha=1j)
    case("bmm", r(2, 3, 5), r(2, 5, 4))
    case("baddbmm", r(2, 3, 4), r(2, 3, 5), r(2, 5, 4))
    case("matmul", r(2, 3, 5), b)
    case("matmul", r(5), r(5))
    case("linear", a, r(4, 5), r(4))
    case("dot", r(5), r(5))
    case("vdot", r(5), r(10)[::2])
    for name in "view_as_real real imag".split():
        case(name, x)
        case(name, turned)
    case("view_as_complex", torch.view_as_real(x).contiguous())
    case("is_complex", x)
    case("is_floating_point", x)
    p = torch.randn(3, 4, dtype=x.real.dtype)
    case("complex", p, p[0])
    case("complex", p.t(), p.t())
    case("polar", p, p)
    case("angle", p)
    case("sgn", p)
    case("isfinite", p)
    case("clone", turned)
    case("cat", [x, turned, x[:, :1]], 1)
    case("stack", [x, y], 2)
    case("t", x)
    case("view", x, [2, 6])
    case("select.int", x, 1, -1)
    case("slice.Tensor", x, 1, 1, 4, 2)
    case("expand", x[:, :1], [3, 5])
    case("permute", r(2, 3, 4), [2, 0, 1])
    case("fill_.Scalar", x.clone(), 1 - 2j)
    case("copy_", x.clone(), torch.randn(4))
    case("copy_", torch.randn(3, 4), x)
    case("zero_", x.clone())
    case("_to_copy", x, dtype=torch.float32)
    case("_to_copy", x, dtype=torch.bool)
    case("_to_copy", x, dtype=C128 if d == C64 else C64)
    case("_to_copy", torch.arange(5), dtype=d)
    case("_to_copy", torch.tensor([True, False]), dtype=d)
    case("full", [2, 3], 1 + 2j, dtype=d)
    case("full_like", x, 2j)
    case("zeros", [2, 3], dtype=d)
    case("ones_like", turned)
    case("masked_fill.Scalar", x, x.real > 0, 1j)
    s = r(3, 4, 6)
    for dims in ([0], [1], [2], [0, 1], [2, 0], [0, 1, 2]):
        for mode in (0, 1, 2):
            case("_fft_c2c", s, dims, mode, mode != 1)
            case("_fft_r2c", s.real.contiguous(), dims, mode, mode != 0)
            n = s.shape[dims[-1]]
            case("_fft_c2r", s, dims, mode, 2 * (n - 1) + mode % 2)
        case("_fft_c2c", s.permute(2, 0, 1), dims, 0, False)
        case("_fft_r2c", s.real.permute(2, 0, 1), dims, 0, True)
    for n in (1, 5, 7, 16, 37):
        case("_fft_c2c", r(n), [0], 0, True)
    case("fft_fft", torch.randn(5), 8)
    case("fft_ifft", x, 3, 0)
    case("fft_rfft", torch.randn(3, 6, dtype=p.dtype), None, -1, "ortho")
    case("fft_irfft", x)
    case("fft_hfft", x)
    case("fft_ihfft", p)
    case("fft_fft2", x)
    case("fft_ifft2", x, None, [0, 1], "forward")
    case("fft_fftn", s, [2, 8])
    case("fft_rfftn", p)
    case("fft_irfftn", x)
    case("fft_fftshift", x)
    case("fft_ifftshift", x, [1])
    for name in "lt.Tensor maximum fmod.Tensor floor_divide bitwise_and.Tensor atan2".split():
        refused(name, x, y)
    for name in "sign floor abs_ relu".split():
        refused(name, x)

# elements that move, or are added, where an index or a mask says
for d in (C64, C128):
    def r(*size):
        return torch.randn(*size, dtype=d)

    i, j = torch.tensor([2, 0, 2]), torch.tensor([[0, 1, 0, 2], [2, 2, 1, 0]])
    mask = torch.tensor([[True, False, True, True], [False] * 4, [True, False, False, True]])
    for x in (r(3, 4), r(4, 3).t()):
        case("index_select", x, 0, i)
        case("index_select", x, 1, i)
        case("gather", x, 0, j)
        case("take_along_dim", x, torch.tensor([[1, 0, 2, 1]]), 0)
        case("take", x, j)
        case("put_", x.clone(), i[:2], r(2))
        case("index.Tensor", x, [i, None])
        case("index.Tensor", x, [None, i])
        case("index.Tensor", x, [mask])
        case("index_put", x, [i, i], r(3))
        case("index_put", x, [i], r(4), True)
        case("index_put_", x.clone(), [None, i[:2]], r(3, 2))
        case("index_add", x, 0, i, r(3, 4), alpha=0.5 - 1j)
        case("index_add_", x.clone(), 1, i, r(3, 3))
        case("index_copy", x, 0, i[:2], r(2, 4))
        case("index_fill.int_Scalar", x, 1, i, 1 - 2j)
        case("index_fill.int_Tensor", x, 0, i, r(()))
        case("scatter.src", x, 0, j, r(2, 4))
        case("scatter.value", x, 1, j, 3 + 1j)
        case("scatter_.value", x.clone(), 0, j, 2)
        case("scatter_add", x, 0, j, r(4, 2).t())
        case("embedding", x, j)
        case("masked_select", x, mask)
        case("masked_scatter", x, mask, r(6))
        case("masked_scatter_", x.clone(), mask[0], r(12))
        case("tril", x)
        case("triu", x, 1)
        case("constant_pad_nd", x, [1, 2], 1j)
        case("constant_pad_nd", x, [1, -1, -1, 2])
        case("constant_pad_nd", x, [-1, 0])
    case("tril_", r(2, 3, 3), -1)
    for reduce in ("sum", "prod", "mean"):
        case("scatter_reduce.two", x, 0, j, r(2, 4), reduce)
        case("scatter_reduce_.two", x.clone(), 0, j, r(2, 4), reduce, include_self=False)
        if reduce != "sum":
            case("index_reduce", x, 0, i, r(3, 4), reduce)
            case("index_reduce", x, 1, i, r(3, 3), reduce)
    case("scatter.reduce", x, 0, j, r(2, 4), reduce="multiply")
    case("scatter.value_reduce", x, 0, j, 1 - 1j, reduce="add")
    for reduce in ("amax", "amin"):
        refused("scatter_reduce.two", x, 0, j, r(2, 4), reduce)

# spreads, sizes and running results
for d in (C64, C128):
    def r(*size):
        return torch.randn(*size, dtype=d)

    for x in (r(3, 5), r(5, 3).t(), r(4)):
        for dims in ([0], [-1], None):
            case("var.correction", x, dims, correction=1)
            case("std.correction", x, dims, correction=0, keepdim=True)
            for p in (0, 1, 2, 3, float("inf"), -1.5):
                case("linalg_vector_norm", x, p, dims)
        case("var.dim", x, [0])
        case("std.dim", x, [0], False)
        case("norm.ScalarOpt_dim", x, 2, [0])
        case("norm.Scalar", x, 1)
        case("linalg_norm", x)
        case("logsumexp", x, [0])
        case("cumsum", x, 0)
        case("cumprod", x, -1)
        case("cumsum_", x.clone(), 0)
    case("linalg_vector_norm", r(4), 2, None, False, dtype=C128)
    case("cumsum", torch.randn(4), 0, dtype=d)
    case("cumprod", r(()), 0)
    x, end = r(3, 4), r(3, 4)
    for weight in (0.25, 0.75, 0.3 + 0.9j):
        case("lerp.Scalar", x, end, weight)
        case("lerp_.Scalar", x.clone(), end, weight)
    case("lerp.Tensor", x, end, r(3, 4))
    case("lerp_.Tensor", x.clone(), end, r(4))

path = pathlib.Path(__file__).with_name("complex.jsonl.gz")
with gzip.GzipFile(path, "wb", mtime=0) as f:
    f.write(("\n".join(LINES) + "\n").encode())
print(len(LINES), path.stat().st_size)
