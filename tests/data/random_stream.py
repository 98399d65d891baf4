"""Makes random_stream.json: what PyTorch's CPU generator draws after `manual_seed`, operator by operator.

Each case is a seed and calls in a row; each call says how its tensor is made and what was in it. Operands are made by formulas that
the test repeats. Elements are written as text, which is parsed to the last bit. Of long results
the first and the last are kept, with a sum over the bits (exact) or over the values.

Run with PyTorch 2.15: python3 random_stream.py
"""

import json
import pathlib

import torch

NAMES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}
FLOATS = ["f32", "f64", "f16", "bf16"]
SIZES = [1, 3, 15, 16, 17, 40, 1000]
aten = torch.ops.aten


def numbers(n, dtype, formula):
    return torch.tensor([formula(i) for i in range(n)], dtype=torch.float64).to(NAMES[dtype])


def signed(n, dtype):
    return numbers(n, dtype, lambda i: (i * 37 % 19 - 9) / 8)


def probabilities(n, dtype):
    return numbers(n, dtype, lambda i: i % 11 / 10)


def weights(n, dtype):
    return numbers(n, dtype, lambda i: i * 7 % 5 + 1)


def laid(t, size, stride):
    out = torch.empty_strided(size, stride, dtype=t.dtype)
    return out.copy_(t.view(size))


def run(call):
    op, dtype, size = call["op"], call["dtype"], call["size"]
    stride, args = call.get("stride") or torch.empty(size).stride(), call.get("args", [])
    n = torch.Size(size).numel()
    t = torch.empty_strided(size, stride, dtype=NAMES[dtype])
    if op in ("rand", "randn"):
        return getattr(aten, op)(size, dtype=NAMES[dtype])
    if op in ("rand_like", "randn_like"):
        return getattr(aten, op)(t)
    if op == "randint":
        return aten.randint(args[0], args[1], size, dtype=NAMES[dtype])
    if op == "randperm":
        return aten.randperm(n, dtype=NAMES[dtype])
    if op == "bernoulli_tensor":
        return t.bernoulli_(laid(probabilities(n, call["of"]), size, call.get("of_stride") or torch.empty(size).stride()))
    if op == "bernoulli":
        return aten.bernoulli(laid(probabilities(n, dtype), size, stride))
    if op == "bernoulli_p":
        return aten.bernoulli(t, args[0])
    if op == "dropout":
        return aten.dropout(laid(signed(n, dtype), size, stride), args[0], True)
    if op == "native_dropout":
        return aten.native_dropout(laid(signed(n, dtype), size, stride), args[0], True)[0]
    if op == "multinomial":
        return aten.multinomial(laid(weights(n, dtype), size, stride), args[0], args[1])
    if op == "rrelu":
        return aten.rrelu(laid(signed(n, dtype), size, stride), args[0], args[1], True)
    if op == "normal_tensor_tensor":
        return aten.normal(laid(signed(n, dtype), size, stride), laid(weights(n, dtype), size, stride))
    if op == "normal_tensor_float":
        return aten.normal(laid(signed(n, dtype), size, stride), args[0])
    if op == "normal_float_tensor":
        return aten.normal(args[0], laid(weights(n, dtype), size, stride))
    return getattr(t, op)(*args)


# results of logarithms and cosines, which differ in the last digits
ROUNDED = ("normal", "randn", "exponential_", "cauchy_", "log_normal_", "rrelu", "dropout", "native_dropout")


def record(call):
    out = run(call)
    flat = out.reshape(-1)
    if flat.dtype != torch.int64:
        flat = flat.double()
    values = [repr(x) for x in flat.tolist()]
    call["exact"] = not call["op"].startswith(ROUNDED) or call["dtype"] not in FLOATS
    call["result_size"] = list(out.shape)
    if len(values) <= 40:
        call["first"] = values
        return
    call["first"], call["last"] = values[:8], values[-8:]
    if call["exact"]:
        bits = flat if flat.dtype == torch.int64 else flat.view(torch.int64)
        total = 0
        for x in bits.tolist():
            total = (total * 31 + x) % 2**64
        call["bits"] = str(total)
    else:
        call["sum"] = flat.sum().item()


def state():
    bytes = torch.get_rng_state().tolist()
    # a normal number that waits is the work of the machine's sine
    bytes[5024:5032] = [0] * 8
    total = 0
    for x in bytes:
        total = (total * 31 + x) % 2**64
    return str(total)


cases = []


def case(seed, *calls):
    torch.manual_seed(seed)
    for call in calls:
        record(call)
    cases.append({"seed": seed, "calls": list(calls), "state": state()})


def call(op, dtype, size, args=(), **more):
    return {"op": op, "dtype": dtype, "size": [size] if isinstance(size, int) else size, "args": list(args), **more}


for dtype in FLOATS:
    for n in SIZES:
        case(0, call("rand", dtype, n))
        case(7, call("randn", dtype, n), call("randn", dtype, 1))
        case(123456789012345, call("uniform_", dtype, n, [-1.3, 2.7]), call("normal_", dtype, n, [0.3, 1.7]))
    # odd and even numbers of normal numbers, and others in between
    case(42, *[call("randn", dtype, n) for n in (3, 1, 5, 2, 17, 1, 4)], call("rand", dtype, 3), call("randn", dtype, 2))
    # other layouts are filled in the order of their memory
    for size, stride in (([4, 5], [1, 4]), ([3, 8], [16, 2]), ([2, 3, 4, 5], [60, 1, 15, 3]), ([2, 3, 4], [4, 8, 1])):
        case(3, call("uniform_", dtype, size, [0.0, 1.0], stride=stride), call("normal_", dtype, size, [0.0, 1.0], stride=stride),
             call("rand_like", dtype, size, stride=stride), call("randn_like", dtype, size, stride=stride),
             call("bernoulli_", dtype, size, [0.3], stride=stride), call("exponential_", dtype, size, [1.5], stride=stride))
    for n in (1, 17, 1000):
        case(5, call("exponential_", dtype, n, [1.5]), call("geometric_", dtype, n, [0.2]), call("bernoulli_", dtype, n, [0.3]))
        case(6, call("log_normal_", dtype, n, [0.25, 0.5]), call("log_normal_", dtype, n, [0.25, 0.5]))
        case(6, call("cauchy_", dtype, n, [1.0, 2.0]))
        case(8, call("bernoulli", dtype, n), call("bernoulli_p", dtype, n, [0.6]), call("dropout", dtype, n, [0.3]),
             call("native_dropout", dtype, n, [0.3]))
    case(9, call("bernoulli_p", dtype, [4, 5], [0.6], stride=[1, 4]), call("bernoulli", dtype, [4, 5], stride=[1, 4]),
         call("dropout", dtype, [4, 5], [0.5], stride=[1, 4]))
    case(2, call("multinomial", dtype, 9, [1, False]), call("multinomial", dtype, 9, [6, False]),
         call("multinomial", dtype, [3, 7], [5, True]), call("multinomial", dtype, [3, 7], [4, False]),
         call("multinomial", dtype, [3, 7], [1, True]), call("multinomial", dtype, [3, 7], [3, False], stride=[1, 3]))
    case(2, call("normal_tensor_tensor", dtype, 20), call("normal_tensor_float", dtype, 9, [1.5]),
         call("normal_float_tensor", dtype, [4, 4], [1.5], stride=[1, 4]))
    if dtype != "f16":
        case(4, call("rrelu", dtype, 30, [0.125, 0.375]), call("rrelu", dtype, [4, 5], [0.1, 0.3], stride=[1, 4]), call("rand", dtype, 2))
for dtype in NAMES:
    for n in (1, 17, 1000):
        case(1, call("random_", dtype, n), call("random_", dtype, n, [2]))
    for bounds in ([0, 2],) if dtype == "bool" else ([-3, 7], [5, None], [100, 101]) if dtype != "u8" else ([3, 7], [5, None]):
        case(11, call("random_", dtype, 20, bounds))
    case(12, call("bernoulli_", dtype, 17, [0.25]), call("bernoulli_tensor", dtype, 22, of="f32"),
         call("bernoulli_tensor", dtype, 22, of="f64"),
         call("bernoulli_tensor", dtype, [4, 6], of="f32", stride=[1, 4]),
         call("bernoulli_tensor", dtype, [4, 6], of="f16", of_stride=[1, 4]))
    if dtype != "bool":
        case(13, call("geometric_", dtype, 40, [0.3]))
        case(14, *[call("randperm", dtype, n) for n in (0, 1, 2, 10, 100)], call("randperm", dtype, 10))
case(14, call("randperm", "i64", 1000), call("randperm", "i32", 1000), call("rand", "f32", 1))
for low, high in ((0, 10), (-5, 2**28 - 6), (-5, 2**28 - 5), (0, 2**32), (-2**62, 2**62), (-2**63, 2**63 - 1)):
    case(15, call("randint", "i64", 17, [low, high]), call("randint", "i64", 100, [low, high]))
case(15, call("random_", "i64", 20, [-2**63, None]), call("random_", "f64", 20, [-2**63, None]))
case(15, call("random_", "bf16", 20, [0, 2**40]), call("random_", "f32", 20, [2**24 - 10, 2**24 + 11]), call("random_", "i32", 20, [-2**31, 2**31 - 1]))
case(16, call("randint", "f32", 17, [0, 10]), call("randint", "i32", 17, [-9, 10]), call("randint", "u8", 17, [0, 256]))
case(17, call("uniform_", "f32", 100, [1.0, 1.0000002384185791]), call("uniform_", "f16", 1000, [0.0, 0.3]), call("uniform_", "bf16", 1000, [-2.0, -1.0]))
for seed in (-1 % 2**64, 2**32, 2**32 + 1):
    case(seed, call("rand", "f32", 5))

lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
pathlib.Path(__file__).with_name("random_stream.json").write_text("[\n" + lines + "\n]\n")
