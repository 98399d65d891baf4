"""Results whose layout, sizes or memory are easily mistaken, recorded from PyTorch.

    python layout_cases.py OUT.jsonl.gz ERRORS.jsonl.gz
"""
import gzip
import json
import os
import sys

import torch

from vectors import record

A = torch.ops.aten
torch.manual_seed(0)
torch.set_num_threads(1)
out, err = gzip.open(sys.argv[1], "wt"), gzip.open(sys.argv[2], "wt")
n = 0


def case(op, *args, **kwargs):
    global n
    s = op._schema
    name = s.name + ("." + s.overload_name if s.overload_name else "")
    n += 1
    # in a process of its own: some arguments crash PyTorch
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "w") as f:
            json.dump(record(op, list(args), kwargs, f"layout/{name}/{n}", "manual:layout_cases"), f)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        text = f.read()
    if os.waitpid(child, 0)[1] or text == "null":
        print("nothing to record of", name, [getattr(a, "shape", a) for a in args])
    else:
        (err if '"error": {"type"' in text else out).write(text + "\n")


def strided(size, stride, d=torch.float32, offset=0):
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1 if 0 not in size else offset + 1
    row = torch.randn(reach).to(d) if d.is_floating_point else torch.randint(1, 9, (reach,)).to(d)
    return row.as_strided(size, stride, offset)


# dimensions of size 1 with strides of their own, channels-last and empty ones
LAYOUTS = [((4, 1, 3), (3, 1, 1)), ((4, 3, 1), (3, 1, 5)), ((1, 4), (1, 1)), ((1, 4), (9, 1)), ((4, 1), (1, 7)), ((1, 3, 1, 2), (6, 1, 1, 3)),
           ((2, 3, 1, 1), (3, 1, 3, 3)), ((2, 3, 1, 1), (3, 1, 1, 1)), ((1, 3, 2, 2), (12, 1, 6, 3)), ((1, 3, 2, 2), (1, 1, 6, 3)), ((2, 1, 3), (1, 1, 2)), ((3, 2), (1, 3)), ((3, 2), (4, 2)),
           ((0, 1), (1, 1)), ((2, 0, 3), (1, 2, 2)), ((1, 1), (1, 1)), ((1, 1), (5, 3)), ((2, 2, 1), (1, 2, 1)), ((1, 2, 3, 1, 2), (12, 1, 4, 2, 2))]
UNARY = [A.neg.default, A.isinf.default, A.hardtanh.default, A.relu.default, A.clone.default, A.exp.default, A.isnan.default, A.empty_like.default,
         A.sigmoid.default, A.logical_not.default, A.abs.default, A.silu.default, A.gelu.default, A.hardswish.default, A.sign.default, A.leaky_relu.default,
         A.softplus.default, A.elu.default, A.isposinf.default, A.isfinite.default, A.square.default, A.signbit.default, A.relu6.default,
         A.log_sigmoid.default, A.hardsigmoid.default, A.mish.default, A.celu.default, A.selu.default, A.erf.default]
for size, stride in LAYOUTS:
    x = strided(size, stride)
    for op in UNARY:
        case(op, x)
    for op in (A.add.Scalar, A.mul.Scalar, A.sub.Scalar, A.div.Scalar, A.eq.Scalar, A.lt.Scalar, A.pow.Tensor_Scalar, A.remainder.Scalar, A.fmod.Scalar,
               A.clamp_min.default, A.clamp.default, A.xlogy.Scalar_Other, A.floor_divide.Scalar, A.rsub.Scalar, A.pow.Scalar):
        case(op, *((2.0, x) if op is A.pow.Scalar else (x, 2.0)))
    case(A.threshold.default, x, 0.1, 2.0)
    case(A.add.Tensor, x, x, alpha=2)
    case(A.add.Tensor, x, strided(size, torch.empty(size).stride()))
    case(A.add.Tensor, strided(size, torch.empty(size).stride()), x, alpha=3)
    case(A.mul.Tensor, x, torch.tensor(2.0))
    case(A.where.self, x > 0, x, torch.tensor(1.0))
    case(A.where.ScalarOther, x > 0, x, 1.0)
    case(A.lerp.Scalar, x, x, 0.5)
    case(A.addcmul.default, x, x, x)
    case(A.native_dropout.default, x, 0.5, True)
    case(A.native_dropout.default, x, 0.5, False)
    case(A.dropout.default, x, 0.5, True)
    case(A.bernoulli.default, x.abs().clamp(0, 1))
    case(A.rms_norm.default, x, [size[-1]])
    case(A.rms_norm.default, x, [size[-1]], torch.ones(size[-1]))
    case(A._fused_rms_norm.default, x, [size[-1]], None, None)
    case(A.native_layer_norm.default, x, [size[-1]], None, None, 1e-5)
    case(A._softmax.default, x, -1, False)
    case(A._log_softmax.default, x, 0, False)
    case(A.cumsum.default, x, 0)
    case(A.sum.dim_IntList, x, [0], True)
    case(A.sum.dim_IntList, x, [-1])
    case(A.amax.default, x, [0], True)
    case(A.flip.default, x, [0])
    case(A.roll.default, x, [1], [0])
    case(A.expand.default, x, [2, *size])
    case(A.expand.default, x, [1, 1, *size])
    case(A.expand.default, x, [5 if s == 1 else s for s in size])
    case(A.unsqueeze.default, x, 0)
    case(A.unsqueeze.default, x, -1)
    case(A.squeeze.default, x)
    case(A._to_copy.default, x, dtype=torch.float64)
    case(A.clone.default, x, memory_format=torch.contiguous_format)
    case(A.contiguous.default, x)
    case(A.t.default, x) if len(size) < 3 else None
    case(A.cat.default, [x, x], 0)
    case(A.tril.default, x)
    case(A.masked_fill.Scalar, x, x > 0, 1.0)
    case(A.bitwise_not.default, x > 0)
    case(A.bitwise_and.Scalar, strided(size, stride, torch.int64), 3)
    case(A.bitwise_left_shift.Tensor_Scalar, strided(size, stride, torch.int64), 1)
    if len(size) == 4:
        case(A.contiguous.default, x, memory_format=torch.channels_last)
        case(A.native_group_norm.default, x, None, None, size[0], size[1], size[2] * size[3], 1, 1e-5)
        case(A.avg_pool2d.default, x, [1, 1])
        case(A.upsample_nearest2d.default, x, [4, 4])

for d in (torch.float32, torch.bfloat16):
    for q in (torch.randn(2, 3, 4, 8), torch.randn(2, 4, 3, 8).transpose(1, 2), torch.randn(4, 2, 3, 8).permute(1, 2, 0, 3), torch.randn(1, 1, 4, 8),
              torch.randn(2, 4, 1, 8).transpose(1, 2)):
        q = q.to(d)
        for causal in (False, True):
            case(A._scaled_dot_product_flash_attention_for_cpu.default, q, q.clone(), q.clone(), 0.0, causal)
            case(A.scaled_dot_product_attention.default, q, q.contiguous(), q.contiguous(), None, 0.0, causal)

x, lo, hi = torch.randn(3, 4), torch.full((3, 4), -0.5), torch.full((3, 4), 0.5)
case(A.clamp.Tensor_out, x, lo, hi, out=torch.empty(4, 3).t())
case(A.clamp.Tensor_out, x, lo, None, out=torch.empty(4, 3).t())
case(A.clamp.Tensor_out, x, None, hi, out=torch.empty(3, 8)[:, ::2])
case(A.clamp.out, x, -0.5, 0.5, out=torch.empty(4, 3).t())
w, ix = torch.randn(7, 3), torch.tensor([1, 2, 4, 5, 4, 3, 2, 6])
for mode in (0, 1, 2):
    for offsets, last in ((torch.tensor([0, 3, 8]), True), (torch.tensor([0, 3]), False), (torch.tensor([0]), True), (torch.tensor([0, 0, 8]), True)):
        for op in (A.embedding_bag.padding_idx, A._embedding_bag.default, A._embedding_bag_forward_only.default):
            case(op, w, ix, offsets, False, mode, False, None, last, 4)
            case(op, w, ix, offsets, False, mode, False, None, last, None if op is A.embedding_bag.padding_idx else -1)
        case(A.embedding_bag.default, w, ix, offsets, False, mode, False, None, last)
for batch in ([0], [2, 0], []):
    for n1, n2, m in ((3, 4, 2), (0, 4, 2), (3, 0, 2), (3, 4, 0)):
        a, b = torch.randn(*batch, n1, m), torch.randn(*batch, n2, m)
        for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
            case(A._cdist_backward.default, torch.randn(*batch, n1, n2), a, b, p, torch.rand(*batch, n1, n2))
            case(A.cdist.default, a, b, p)
a, b = torch.randn(3, 4), torch.randn(4)
for eq, ops in (("ij->ij", [a]), ("ij->ji", [a]), ("ii->i", [a[:, :3]]), ("i->i", [b]), ("...->...", [a]), ("i,->i", [b, torch.tensor(2.0)]), ("ij,j->ij", [a, b]),
                ("ij,->ji", [a, torch.tensor(1.0)]), ("ii->", [a[:, :3]]), ("ij->i", [a]), ("ij,ij->ij", [a, a]), ("i,j->ij", [b, b]), ("i,j->ji", [b, b]),
                ("ij,jk->ki", [a, a.t()]), ("bij,bjk->bik", [a.view(1, 3, 4), a.t().reshape(1, 4, 3)]), ("ij,jk,kl->il", [a, a.t(), a]), ("aij->ija", [torch.randn(2, 3, 4)])):
    case(A.einsum.default, eq, ops)
for size in ((0, 0), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0), (0, 2, 2)):
    x = torch.randn(size)
    for o in (2, -2, 1, -1, float("inf"), -float("inf")):
        case(A.linalg_norm.default, x, o, [-2, -1])
        case(A.linalg_matrix_norm.default, x, o)
    for o in ("fro", "nuc"):
        case(A.linalg_norm.ord_str, x, o, [-2, -1])
        case(A.linalg_matrix_norm.str_ord, x, o)
    case(A.linalg_norm.default, x)
    case(A.linalg_vector_norm.default, x)
    for o in (2, 0, 1, -1, float("inf")):
        case(A.linalg_vector_norm.default, x, o, [-1])
x = torch.randn(3, 4)
for i in (torch.tensor([[-1], [2], [-3]]), torch.tensor([[0, -1, 2, 3]]), torch.tensor([[4], [0], [0]]), torch.tensor([[-5], [0], [0]])):
    for d in (0, 1, -1, None):
        case(A.take_along_dim.default, x, i, d)
for i in (torch.tensor([-1, 0, 11]), torch.tensor([-12]), torch.tensor([-13]), torch.tensor([12])):
    case(A.take.default, x, i)
    case(A.take_along_dim.default, x, i, None)
for size, reps in (((0,), [-1]), ((0, 2), [-1, 2]), ((2, 0), [2, -1]), ((2, 3), [-1]), ((2, 3), [0, -1]), ((0, 3), [-2]), ((2, 3), [0]), ((0,), [2, -1]), ((), [-1]), ((3,), [-1, 0])):
    case(A.tile.default, torch.randn(size), reps)
    case(A.repeat.default, torch.randn(size), reps)
out.close()
err.close()
print(n)
