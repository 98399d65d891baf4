"""Reductions, products and functions of half numbers whose intermediate values are beyond the type of the operands or of the result, recorded from PyTorch.

    python narrow_cases.py OUT.jsonl.gz ERRORS.jsonl.gz

Of the 14,000 calls `narrow.jsonl.gz` and `narrow_errors.jsonl.gz` hold three and two of each kind that once failed, and every 40th of the others.
"""
import gzip
import json
import sys
import warnings

import torch

from vectors import NAME, record

warnings.filterwarnings("ignore")
class A_:
    """Operators that this PyTorch has."""
    def __getattr__(self, name):
        return P_(name)


class P_:
    def __init__(self, name):
        self.name = name
    def __getattr__(self, overload):
        try:
            return getattr(getattr(torch.ops.aten, self.name), overload)
        except AttributeError:
            print("no", self.name, overload) if (self.name, overload) not in MISSING else None
            MISSING.add((self.name, overload))
            return None


MISSING = set()
A = A_()
torch.set_num_threads(1)
out, err = gzip.open(sys.argv[1], "wt"), gzip.open(sys.argv[2], "wt")
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
n = 0


def case(op, *args, **kwargs):
    global n
    if op is None:
        return
    s = op._schema
    name = s.name + ("." + s.overload_name if s.overload_name else "")
    made = record(op, list(args), kwargs, f"narrow/{name}/{n}", "manual:narrow_cases")
    if made is not None:
        n += 1
        (err if "error" in made else out).write(json.dumps(made) + "\n")


# sums, squares and powers of these are beyond f16, and numbers of the others are themselves
ROWS = {F16: ([40000, 40000, 40000, -65504, -50000, 30000], [300, -400, 250, 0.001, 3e-5, 1000], [6e-5, 3e-6, 6e-8, 0.0, 1e-4, 2e-5], [11.0, 12.0, -9.5, 11.5, 10.25, 13.0]),
        BF16: ([3e38, -3e38, 2e38, 65536, -70000, 1e38], [65536, 4, 4, -65536, 70000, -2], [1e-40, 3e-39, 1e-38, 0.0, 1e-38, 2e-20], [1e19, 2e19, -3e19, 1e-19, 1e20, 4.0]),
        F32: ([70000, -69000, 3e38, -3e38, 1e5, 4], [1e-8, 3e-8, 65519.9, -65520, 65535, 5.9e-8], [1e-40, 3e-39, 1e-8, 70000, -70000, 9.0], [1e5, 1e5, -1e5, 0.5, 1e3, -1e5]),
        F64: ([1e39, -1e39, 70000, -69000, 3, 4], [1e-8, 1e-46, 65519.9, -65520, 65535, 5.9e-8], [1e300, -1e300, 1, 2, 3, 4], [1e5, 1e5, -1e5, 0.5, 1e3, -1e5])}
for d, rows in ROWS.items():
    x = [torch.tensor(r, dtype=F64).to(d).view(2, 3) for r in rows]
    half = d in (F16, BF16)
    for x in x:
        for t in (None, F16, BF16, F32, F64):
            for op in (A.sum.default, A.mean.default, A.nansum.default, A.prod.default):
                case(op, x, dtype=t)
            case(A.sum.dim_IntList, x, [1], True, dtype=t)
            case(A.mean.dim, x, [0], dtype=t)
            case(A.mean.dim, x, [0, 1], True, dtype=t)
            case(A.nansum.default, x, [1], dtype=t)
            case(A.nanmean.default, x, [0], dtype=t)
            case(A.prod.dim_int, x, 1, dtype=t)
            case(A.cumsum.default, x, 1, dtype=t)
            case(A.cumprod.default, x, 1, dtype=t)
            case(A.softmax.int, x, 1, t)
            case(A.log_softmax.int, x, 1, t)
            case(A.linalg_vector_norm.default, x, 2, dtype=t)
            case(A.linalg_vector_norm.default, x, 3, [0], dtype=t)
            if t is not None:
                case(A.norm.ScalarOpt_dtype, x, 2, dtype=t)
                case(A.norm.ScalarOpt_dim_dtype, x, 2, [1], False, dtype=t)
                for o in (F16, BF16, F32, F64):
                    if o != t:
                        case(A.sum.IntList_out, x, [1], dtype=t, out=torch.empty(0, dtype=o))
                        case(A.mean.out, x, [1], dtype=t, out=torch.empty(0, dtype=o))
                e = torch.empty(0, dtype=t)
                case(A.sum.IntList_out, x, [1], out=e)
                case(A.sum.out, x, out=torch.empty((), dtype=t))
                case(A.mean.out, x, [0], out=e)
                case(A.mean.dtype_out, x, out=torch.empty((), dtype=t))
                case(A.mean.out, x, [0, 1], out=torch.empty((), dtype=t))
                case(A.nansum.out, x, [1], out=e)
                case(A.nanmean.out, x, [1], out=e)
                case(A.prod.int_out, x, 1, out=e)
                case(A.prod.out, x, out=torch.empty((), dtype=t))
                case(A.cumsum.out, x, 1, out=e)
                case(A.cumprod.out, x, 1, out=e)
                case(A.logcumsumexp.out, x, 1, out=e)
                case(A.logsumexp.out, x, [1], out=e)
                case(A.softmax.int_out, x, 1, out=e)
                case(A.log_softmax.int_out, x, 1, out=e)
                case(A.norm.out, x, 2, [1], out=e)
                case(A.linalg_vector_norm.out, x, 2, [1], out=e)
                case(A.linalg_norm.out, x, 2, [1], out=e)
                case(A.var.correction_out, x, [1], out=e)
                case(A.std.correction_out, x, [1], out=e)
                case(A.var_mean.correction_out, x, [1], out0=e, out1=torch.empty(0, dtype=t))
                for op in (A.mul.out, A.add.out, A.div.out, A.sub.out, A.pow.Tensor_Tensor_out, A.hypot.out, A.atan2.out, A.remainder.Tensor_out, A.fmod.Tensor_out, A.copysign.out, A.maximum.out, A.fmax.out):
                    case(op, x, x.flip(1).contiguous(), out=torch.empty(0, dtype=t))
                case(A.add.out, x, x, alpha=0.25, out=torch.empty(0, dtype=t))
                case(A.add.out, x, x, alpha=-100000 if half else -1, out=torch.empty(0, dtype=t))
                for op in (A.exp.out, A.expm1.out, A.sqrt.out, A.rsqrt.out, A.reciprocal.out, A.log.out, A.log1p.out, A.sigmoid.out, A.tanh.out, A.square.out, A.neg.out, A.abs.out, A.ceil.out, A.round.out, A.sign.out,
                           A.sinh.out, A.cosh.out, A.asinh.out, A.exp2.out, A.softplus.out, A.gelu.out, A.silu.out, A.relu.default, A.hardswish.out, A.mish.out, A.log_sigmoid.out, A.elu.out, A.leaky_relu.out, A.hardtanh.out):
                    case(op, x, **({} if op is A.relu.default else {"out": torch.empty(0, dtype=t)}))
                case(A.lerp.Scalar_out, x, x.flip(1).contiguous(), 0.5, out=torch.empty(0, dtype=t))
                case(A.addcmul.out, x, x, x, value=0.01, out=torch.empty(0, dtype=t))
                case(A.addcdiv.out, x, x, x, value=0.01, out=torch.empty(0, dtype=t))
                case(A.clamp.out, x, -100000, 100000, out=torch.empty(0, dtype=t))
                case(A.pow.Tensor_Scalar_out, x, 3, out=torch.empty(0, dtype=t))
                case(A.pow.Tensor_Scalar_out, x, 0.5, out=torch.empty(0, dtype=t))
                case(A.mse_loss.out, x, x.flip(1).contiguous(), 1, out=torch.empty(0, dtype=t))
                case(A.huber_loss.out, x, x.flip(1).contiguous(), 1, 1e5, out=torch.empty(0, dtype=t))
                case(A.smooth_l1_loss.out, x, x.flip(1).contiguous(), 1, 1e5, out=torch.empty(0, dtype=t))
                case(A._to_copy.default, x, dtype=t)
                case(A.mul.Tensor, x, x.to(t))
                case(A.where.self, x > 0, x, x.to(t))
                case(A.cat.default, [x, x.to(t)])
                case(A.cat.out, [x, x], 0, out=torch.empty(0, dtype=t))
                case(A.copy_.default, torch.zeros(2, 3, dtype=t), x)
                case(A.add_.Tensor, torch.ones(2, 3, dtype=t), x)
                case(A.mul_.Tensor, torch.full((2, 3), 0.01, dtype=t), x)
        for op in (A.var.default, A.std.default, A.var_mean.default, A.std_mean.default):
            case(op, x)
        for c in (0, 1, 2):
            case(A.var.correction, x, [1], correction=c)
            case(A.std.correction, x, None, correction=c)
            case(A.std_mean.correction, x, [0], correction=c)
        for p in (0, 1, 2, 3, 0.5, -1, float("inf"), -float("inf")):
            case(A.norm.Scalar, x, p)
            case(A.norm.ScalarOpt_dim, x, p, [1])
            case(A.linalg_vector_norm.default, x, p, [0])
            case(A.linalg_norm.default, x, p, [1])
            case(A.dist.default, x, x.flip(1).contiguous(), p)
            case(A.renorm.default, x, p, 0, 2.0) if p > 0 else None
            case(A.pairwise_distance.default, x, x.flip(1).contiguous(), p)
        case(A.norm.ScalarOpt_dim, x, 2, [0, 1], True)
        case(A.norm.ScalarOpt_dim, x, None, [1])
        case(A.norm.ScalarOpt_dim, x, 2, [])
        for op in (A.logsumexp.default, A._logcumsumexp.default, A.logcumsumexp.default, A.cummax.default, A.amax.default, A.aminmax.default):
            case(op, x, *([[1]] if op in (A.logsumexp.default, A.amax.default) else [] if op is A.aminmax.default else [1]))
        a, b, c = x[0], x[1], x.t()
        case(A.dot.default, a, b)
        case(A.vdot.default, a, b)
        case(A.inner.default, x, x)
        case(A.outer.default, a, b)
        case(A.mv.default, x, a)
        case(A.mm.default, x, c)
        case(A.bmm.default, x[None], c[None])
        case(A.matmul.default, x, c)
        case(A.linear.default, x, x)
        case(A.linear.default, x, x, x.new_full((2,), -60000))
        for beta, alpha in ((1, 1), (1, 0.001), (0.5, 0.01), (0, 1), (1, 0), (100000, 1), (1, 100000)):
            m = x[:, :2].contiguous()
            case(A.addmm.default, m, x, c, beta=beta, alpha=alpha)
            case(A.addmv.default, m[0], x, a, beta=beta, alpha=alpha)
            case(A.addr.default, m, x[:, 0].contiguous(), x[:, 1].contiguous(), beta=beta, alpha=alpha)
            case(A.baddbmm.default, m[None], x[None], c[None], beta=beta, alpha=alpha)
            case(A.addbmm.default, m, x[None], c[None], beta=beta, alpha=alpha)
        case(A.native_layer_norm.default, x, [3], None, None, 1e-5)
        case(A.native_group_norm.default, x, None, None, 2, 3, 1, 1, 1e-5)
        case(A.rms_norm.default, x, [3])
        case(A._native_batch_norm_legit.no_stats, x, None, None, True, 0.1, 1e-5)
        case(A.avg_pool1d.default, x[None], [2], [1])
        case(A.avg_pool2d.default, x[None], [2, 2], [1, 1])
        case(A.adaptive_avg_pool1d.default, x[None], [2])
        case(A._adaptive_avg_pool2d.default, x[None], [1, 1])
        case(A.cosine_similarity.default, x, x.flip(0).contiguous())
        case(A.mse_loss.default, x, x.flip(1).contiguous())
        case(A.l1_loss.default, x, x.flip(1).contiguous())
        case(A.huber_loss.default, x, x.flip(1).contiguous())
        case(A.smooth_l1_loss.default, x, x.flip(1).contiguous())
        case(A.soft_margin_loss.default, x, x.sign())
        case(A.kl_div.default, x, x.abs())
        case(A.nll_loss_forward.default, x, torch.tensor([0, 2]), None, 1, -100)
        case(A.cross_entropy_loss.default, x, torch.tensor([0, 2]))
        case(A.binary_cross_entropy_with_logits.default, x, (x > 0).to(d))
        case(A.poisson_nll_loss.default, x.clamp(-5, 5), x, True, False, 1e-8, 1)
        case(A.index_add.default, x, 0, torch.tensor([0, 0, 1, 1]), torch.cat([x, x]))
        case(A.scatter_add.default, x, 1, torch.tensor([[0, 0, 0], [1, 1, 1]]), x)
        for r in ("sum", "mean", "prod"):
            case(A.scatter_reduce.two, x, 1, torch.tensor([[0, 0, 0], [1, 1, 1]]), x, r)
            case(A.index_reduce.default, x, 0, torch.tensor([0, 0, 1, 1]), torch.cat([x, x]), r.replace("sum", "amax"))
        case(A.index_put.default, x, [torch.tensor([0, 0, 1])], torch.cat([x, x])[:3], True)
        case(A.embedding_bag.default, x, torch.tensor([0, 1, 1, 0]), torch.tensor([0, 2]), False, 0)
        case(A.embedding_bag.default, x, torch.tensor([0, 1, 1, 0]), torch.tensor([0, 2]), False, 1)
        case(A.cumsum.default, x, 0)
        case(A.trapezoid.dx, x)
        case(A.diff.default, x)
        case(A.trace.default, x)
        case(A.linalg_cross.default, x, x.flip(0).contiguous())
        case(A.kron.default, x, x)
        case(A.convolution.default, x[None], x[None].transpose(0, 1).reshape(1, 2, 3), None, [1], [0], [1], False, [0], 1)
        case(A.upsample_linear1d.default, x[None], [5], False)
        case(A.upsample_bilinear2d.default, x[None, None], [3, 5], True)
        case(A.cdist.default, x, x.flip(0).contiguous())
        case(A.scaled_dot_product_attention.default, x[None, None], x[None, None], x[None, None])
        for s in (1e6, 65520.0, -7e4, 1e39, 1e-9, 3):
            for op in (A.add.Scalar, A.sub.Scalar, A.rsub.Scalar, A.mul.Scalar, A.div.Scalar, A.remainder.Scalar, A.fmod.Scalar, A.pow.Tensor_Scalar, A.clamp_min.default, A.clamp_max.default, A.gt.Scalar, A.eq.Scalar, A.le.Scalar,
                       A.masked_fill.Scalar, A.fill.Scalar, A.fill_.Scalar, A.full_like.default, A.where.ScalarOther, A.xlogy.Scalar_Other, A.floor_divide.Scalar, A.leaky_relu.default, A.celu.default, A.elu.default, A.softplus.default,
                       A.hardshrink.default, A.softshrink.default, A.logit.default, A.lerp.Scalar, A.constant_pad_nd.default, A.index_fill.int_Scalar, A.scatter.value, A.threshold.default, A.nan_to_num.default, A.bucketize.Scalar):
                i = torch.tensor([0])
                args = {A.masked_fill.Scalar: (x > 0, s), A.lerp.Scalar: (x.flip(1).contiguous(), s), A.constant_pad_nd.default: ([1, 0], s), A.index_fill.int_Scalar: (0, i, s), A.scatter.value: (0, i[None], s),
                        A.threshold.default: (s, s)}.get(op, (s,))
                if op is A.where.ScalarOther:
                    case(op, x > 0, x, s)
                elif op is not A.bucketize.Scalar:
                    case(op, x, *args)
            case(A.full.default, [2], s, dtype=d)
            case(A.scalar_tensor.default, s, dtype=d)
            case(A.new_full.default, x, [2], s)
            case(A.add.Tensor, x, x, alpha=s)
            case(A.sub.Tensor, x, x, alpha=s)
            case(A.addcmul.default, x, x, x, value=s)
            case(A.addcdiv.default, x, x, x, value=s)
            case(A.clamp.default, x, -s, s)
            case(A.hardtanh.default, x, -abs(s), abs(s))
            case(A.linspace.default, -s, s, 4, dtype=d)
            case(A.arange.start_step, 0, s, s / 4, dtype=d)
            case(A.fill_diagonal_.default, x.clone(), s)
            case(A.mul.Tensor, x, torch.tensor(s, dtype=F64))
            case(A.add.Tensor, x, torch.tensor(s, dtype=F64))
            case(A.div.Tensor, x, torch.tensor(s, dtype=F32))
            case(A.where.self, x > 0, x, torch.tensor(s, dtype=F64))
            case(A.pow.Tensor_Tensor, x, torch.tensor(s, dtype=F64))
            case(A.maximum.default, x, torch.tensor(s, dtype=F32))
            case(A.lt.Tensor, x, torch.tensor(s, dtype=F64))
            case(A.eq.Tensor, x, torch.tensor(s, dtype=F64))
            case(A.copysign.Tensor, x, torch.tensor(s, dtype=F64))
            case(A.lerp.Tensor, x, x.flip(1).contiguous(), torch.tensor(s).to(d))
            case(A.masked_fill.Tensor, x, x > 0, torch.tensor(s, dtype=F64))
out.close()
err.close()
print(n)
