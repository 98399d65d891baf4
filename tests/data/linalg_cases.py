"""Linear algebra and convolutions of complex numbers, operands without elements, and ties, recorded from PyTorch.

    python linalg_cases.py OUT.jsonl.gz ERRORS.jsonl.gz

Matrices are well away from singular ones, so that no result hangs on the last bits.
"""
import gzip
import json
import sys

import torch

from vectors import record

A = torch.ops.aten
torch.manual_seed(20)
torch.set_num_threads(1)
out, err = (gzip.GzipFile(path, "wb", 9, mtime=0) for path in sys.argv[1:3])
n = 0


def case(op, *args, **kwargs):
    global n
    s = op._schema
    name = s.name + ("." + s.overload_name if s.overload_name else "")
    n += 1
    c = record(op, list(args), kwargs, f"linalg/{name}/{n}", "manual:linalg_cases")
    if c is None:
        print("nothing to record of", name, [getattr(a, "shape", a) for a in args])
    else:
        (err if "error" in c else out).write((json.dumps(c) + "\n").encode())


def eye(size, d):
    return torch.eye(size[-2], size[-1], dtype=d)


for d in (torch.complex64, torch.complex128):
    def r(*size):
        return torch.randn(*size, dtype=d)

    def regular(*size):
        return r(*size) + 3 * eye(size, d)

    def positive(*size):
        x = r(*size)
        return x @ x.mH + 2 * eye(size, d)

    for lead in ((), (2,)):
        a, b, h = regular(*lead, 4, 4), r(*lead, 4, 3), positive(*lead, 4, 4)
        c = r(*lead, 3, 4)
        for m in (a, a.mT, a.mH):
            case(A.linalg_lu_factor_ex.default, m)
            case(A.linalg_inv_ex.default, m)
            case(A._linalg_det.default, m)
            case(A._linalg_slogdet.default, m)
            case(A.linalg_matrix_exp.default, 0.3 * m)
        case(A.logdet.default, a)
        case(A.linalg_matrix_power.default, a, -2)
        case(A.linalg_lu.default, a)
        lu, pivots = torch.linalg.lu_factor(a)
        case(A.lu_unpack.default, lu, pivots)
        for adjoint in (False, True):
            case(A.linalg_lu_solve.default, lu, pivots, b, left=True, adjoint=adjoint)
            case(A.linalg_lu_solve.default, lu, pivots, c, left=False, adjoint=adjoint)
        case(A._linalg_solve_ex.default, a, b)
        case(A._linalg_solve_ex.default, a, c, left=False)
        for upper in (False, True):
            case(A.linalg_cholesky_ex.default, h, upper=upper)
            factor = torch.linalg.cholesky(h, upper=upper)
            case(A.cholesky_solve.default, b, factor, upper)
            case(A.cholesky_inverse.default, factor, upper)
            t = a.triu() if upper else a.tril()
            for unit in (False, True):
                case(A.linalg_solve_triangular.default, t, b, upper=upper, unitriangular=unit)
                case(A.linalg_solve_triangular.default, t, c, upper=upper, left=False, unitriangular=unit)
                case(A.triangular_solve.default, b, t, upper, True, unit)
                case(A.triangular_solve.default, b, t, upper, False, unit)
        for m in (a, r(*lead, 5, 3), r(*lead, 3, 5)):
            for mode in ("reduced", "complete", "r"):
                case(A.linalg_qr.default, m, mode)
            case(A.geqrf.default, m)
            for full in (False, True):
                case(A._linalg_svd.default, m, full, True)
            case(A._linalg_svd.default, m, False, False)
            case(A.linalg_pinv.default, m, 1e-4)
            case(A.linalg_matrix_rank.default, m, 1e-4)
            for ord in ("fro", "nuc"):
                case(A.linalg_matrix_norm.str_ord, m, ord)
            for ord in (1, -1, 2, -2, float("inf")):
                case(A.linalg_matrix_norm.default, m, ord)
        reflectors, tau = torch.geqrf(r(*lead, 4, 3))
        case(A.linalg_householder_product.default, reflectors, tau)
        for left in (False, True):
            for transpose in (False, True):
                other = r(*lead, 4, 2) if left else r(*lead, 2, 4)
                case(A.ormqr.default, reflectors, tau, other, left, transpose)
        for hermitian in (False, True):
            m = h if hermitian else a + a.mT
            case(A.linalg_ldl_factor_ex.default, m, hermitian=hermitian)
            ld, p = torch.linalg.ldl_factor(m, hermitian=hermitian)
            case(A.linalg_ldl_solve.default, ld, p, b, hermitian=hermitian)
            # no diagonal: pivots of two rows
            m = r(*lead, 5, 5)
            m = m + (m.mH if hermitian else m.mT)
            m.diagonal(dim1=-2, dim2=-1).zero_()
            case(A.linalg_ldl_factor_ex.default, m, hermitian=hermitian)
        for uplo in "LU":
            case(A._linalg_eigh.default, h, uplo)
            case(A._linalg_eigh.default, a, uplo, False)
        case(A.linalg_eig.default, torch.diag_embed(torch.arange(1, 5).to(d)) + 0.1 * a.triu(1))
        case(A.linalg_matrix_sqrth.default, h)
        case(A.linalg_polar.default, r(*lead, 5, 3))
        for driver in ("gels", "gelsy", "gelsd", "gelss"):
            case(A.linalg_lstsq.default, r(*lead, 5, 3), r(*lead, 5, 2), None, driver=driver)
        case(A.linalg_vecdot.default, a, a.mT)
        case(A.linalg_cross.default, r(*lead, 3, 3), r(*lead, 3, 3))
        case(A.linalg_multi_dot.default, [r(4, 2), r(2, 5), r(5, 3)])
    case(A.linalg_cholesky_ex.default, -positive(3, 3))
    case(A.linalg_inv_ex.default, torch.zeros(2, 2, dtype=d), check_errors=True)

    for k, plain, padded, back in ((1, A.conv1d.default, A.conv1d.padding, A.conv_transpose1d.default),
                                   (2, A.conv2d.default, A.conv2d.padding, A.conv_transpose2d.input),
                                   (3, A.conv3d.default, A.conv3d.padding, A.conv_transpose3d.input)):
        x, w, bias = r(2, 4, *[5] * k), r(4, 2, *[3] * k), r(4)
        case(plain, x, w, bias, [2] * k, [1] * k, [1] * k, 2)
        case(plain, x[0], w, None, [1] * k, [0] * k, [1] * k, 2)
        case(padded, x, w, bias, [1] * k, "same", [1] * k, 2)
        case(back, x, w, bias.repeat(1), [2] * k, [1] * k, [1] * k, 2)
        case(plain, x, w.real.contiguous(), None, [1] * k, [0] * k, [1] * k, 2)
    case(A.conv2d.default, r(2, 4, 5, 5).to(memory_format=torch.channels_last), r(3, 4, 2, 2), r(3))
    case(A.convolution.default, r(1, 2, 5), r(2, 2, 3), None, [1], [0], [1], False, [0], 1)

    x, y = r(3, 4), r(3, 4)
    x[0, 0] = 0
    for op in (A.sinc.default, A.neg.default):
        case(op, x)
    for op in (A.logaddexp.default, A.sigmoid_backward.default, A.tanh_backward.default):
        case(op, x, y)
        case(op, x, y[:1])
    ends = torch.tensor([complex(float("-inf"), 1), complex(float("inf"), 1), complex(float("nan"), 1), 2], dtype=d)
    case(A.logaddexp.default, ends, ends)
    case(A.logcumsumexp.default, x, 1)
    case(A.logcumsumexp.default, ends, 0)
    for reduction in range(3):
        case(A.soft_margin_loss.default, x, y, reduction)
        case(A.soft_margin_loss_backward.default, x, x, y, reduction)
    case(A.rms_norm.default, x, [4], y[0], 1e-3)
    case(A.im2col.default, r(2, 2, 4, 5), [2, 2], [1, 1], [1, 0], [1, 2])
    case(A.col2im.default, r(2, 8, 20), [5, 6], [2, 2], [1, 1], [0, 0], [1, 1])
    case(A.unfold_backward.default, r(3, 2, 2), [3, 4], 1, 2, 2)
    for k, reflect, repeat in ((1, A.reflection_pad1d_backward.default, A.replication_pad1d_backward.default),
                               (2, A.reflection_pad2d_backward.default, A.replication_pad2d_backward.default),
                               (3, A.reflection_pad3d_backward.default, A.replication_pad3d_backward.default)):
        for op in (reflect, repeat):
            case(op, r(2, 2, *[6] * k), r(2, 2, *[4] * k), [1] * (2 * k))
    case(A.reflection_pad2d_backward.default, r(2, 3, 6, 6), r(2, 3, 4, 4).to(memory_format=torch.channels_last), [1] * 4)
    case(A.kthvalue.default, r(()), 1)
    case(A.mode.default, r(()))
    case(A.cummin.default, r(2, 0), 1)
    case(A.kthvalue.default, r(3), 1)

# a factory's result into `out`, in a plan too
for d in (torch.complex64, torch.complex128):
    for op in (A.zeros_like.out, A.ones_like.out):
        case(op, torch.randn(2, 3, dtype=d), out=torch.randn(2, 3, dtype=d))
        case(op, torch.randn(2, 3), out=torch.randn(2, 3, dtype=d))
    case(A.full_like.out, torch.randn(2, 3, dtype=d), 2.5, out=torch.randn(2, 3, dtype=d))

# what has no elements comes to no kernel
for d in (torch.float16, torch.int64, torch.complex64):
    none, sides = torch.zeros(2, 0, 0, dtype=d), torch.zeros(2, 0, 3, dtype=d)
    for op in (A.linalg_cholesky_ex.default, A.linalg_lu_factor_ex.default, A.linalg_inv_ex.default, A._linalg_det.default, A._linalg_slogdet.default,
               A._linalg_eigh.default, A.linalg_ldl_factor_ex.default, A.linalg_qr.default, A.geqrf.default, A.linalg_matrix_exp.default):
        case(op, none)
    for full in (False, True):
        case(A._linalg_svd.default, sides, full, True)
    case(A._linalg_solve_ex.default, none, sides)
    case(A.linalg_solve_triangular.default, none, sides, upper=True)
    case(A._cdist_forward.default, torch.zeros(0, 2, dtype=d), torch.ones(3, 2, dtype=d), 2.0, None)
    case(A._cdist_backward.default, torch.zeros(0, 3, dtype=d), torch.zeros(0, 2, dtype=d), torch.ones(3, 2, dtype=d), 2.0, torch.zeros(0, 3, dtype=d))
    case(A._pdist_forward.default, torch.ones(1, 2, dtype=d))
    case(A.bmm.default, torch.zeros(2, 3, 0, dtype=d), torch.zeros(2, 0, 2, dtype=torch.float32))
    case(A.baddbmm.default, torch.ones(2, 3, 2, dtype=torch.bool), torch.zeros(2, 3, 0, dtype=torch.bool), torch.zeros(2, 0, 2, dtype=torch.bool), beta=0)
case(A._fft_c2c.default, torch.zeros(0, 2, 2, dtype=torch.complex64), [1], 0, True)
case(A._fft_c2r.default, torch.zeros(0, 2, 2, dtype=torch.complex64), [2], 0, 7)
case(A._fft_c2r.default, torch.randn(2, 3, 4, dtype=torch.complex64), [0, 2], 7, 6)
case(A.var.correction, torch.zeros(0), None, correction=-3)

# equal elements, of which PyTorch's algorithms take and leave some in an order of their own
for size in (5, 17, 40, 300):
    for d in (torch.int64, torch.float32, torch.bool):
        x = torch.randint(0, 4, (2, size)).to(d)
        case(A.sort.default, x, 1, False)
        case(A.sort.default, x, 1, True)
        case(A.sort.stable, x, stable=True, dim=1)
        if d != torch.bool:
            for k in (1, size // 2, size):
                case(A.kthvalue.default, x, k, 1)
            case(A.nanmedian.dim, x, 1)
case(A.nanmedian.dim, torch.full((2, 5), float("nan")), 1)
for x in (-8, -3, 0, 2):
    case(A.polygamma.default, 1, torch.tensor(x))
case(A.polygamma.default, 100, torch.tensor(5))
