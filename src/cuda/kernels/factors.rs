//! Factors of matrices, and equations that they solve.

use super::{Call, Kernel, Made, contiguous, converted, rows::copied};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Op, Scalar, args};
use straightline_cuda::factors::{self as kernels, Matrices, Triangle};

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::linalg_cholesky_ex => cholesky,
        Op::linalg_inv_ex => inverse,
        Op::linalg_solve_triangular => triangular,
        Op::linalg_lu_factor_ex => factored,
        Op::linalg_lu_solve => solved_by_factors,
        Op::_linalg_solve_ex => solved,
        Op::_linalg_det => determinant,
        Op::_linalg_check_errors => nothing_failed,
        _ => return None,
    })
}

/// The leading dimensions, and the sizes of a matrix; `None` for what has none, or nothing in them.
fn shape(x: &Tensor) -> Option<(&[i64], i64, i64)> {
    match x.sizes() {
        [batch @ .., m, n] if x.numel() > 0 && kernels::computes(x.dtype()) => {
            Some((batch, *m, *n))
        }
        _ => None,
    }
}

fn matrices(x: &Tensor) -> Matrices {
    let [rows, cols] = [2, 1].map(|d| x.sizes()[x.dim() - d]);
    Matrices { dtype: x.dtype(), batch: x.numel() / (rows * cols), rows, cols }
}

fn turned(x: &Tensor) -> Result<Tensor> {
    aten::transpose_int(x, -2, -1)
}

/// Whether no matrix has failed. Waits for the answer.
fn all_done(info: &Tensor) -> Result<bool> {
    Ok(!aten::item(&aten::any(&aten::ne_scalar(info, Scalar::Int(0))?)?)?.as_bool())
}

fn cholesky(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::linalg_cholesky_ex<Tensor>>() else { return Ok(None) };
    let (Some(wanted), Some((batch, ..))) = (call.results(), shape(&a.self_)) else {
        return Ok(None);
    };
    let [of_factor, of_info] = &wanted[..] else { return Ok(None) };
    let x = copied(call, &if a.upper { turned(&a.self_)? } else { a.self_.clone() })?;
    let info = call.dense(DType::I32, batch)?;
    let (at, infos) = (x.device_address()?, info.device_address()?);
    // SAFETY: both are fresh and of these sizes.
    unsafe { kernels::cholesky(&call.stream()?, &matrices(&x), at, infos) }.map_err(program)?;
    // the CPU says what is wrong
    if a.check_errors && !all_done(&info)? {
        return Ok(None);
    }
    let x = if a.upper { turned(&x)? } else { x };
    Ok(Some(vec![call.deliver(x, of_factor)?, call.deliver(info, of_info)?]))
}

/// Factors in place of fresh matrices, with pivots and failures.
fn factor(call: &Call<'_>, x: &Tensor, batch: &[i64]) -> Result<[Tensor; 2]> {
    let m = matrices(x);
    let pivots = call.dense(DType::I32, &[batch, &[m.rows.min(m.cols)]].concat())?;
    let info = call.dense(DType::I32, batch)?;
    let addresses = [x.device_address()?, pivots.device_address()?, info.device_address()?];
    // SAFETY: all of them are fresh and of these sizes.
    unsafe { kernels::lu(&call.stream()?, &m, addresses) }.map_err(program)?;
    Ok([pivots, info])
}

/// Solves in place of a fresh right-hand side, for factors without gaps; of their product's transpose if so.
fn by_factors(
    call: &Call<'_>,
    lu: &Tensor,
    pivots: &Tensor,
    x: &Tensor,
    transposed: bool,
) -> Result<()> {
    let (m, stream) = (matrices(x), call.stream()?);
    let _held = access::read(&[lu, pivots])?;
    let (factors, at, swaps) =
        (lu.device_address()?, x.device_address()?, pivots.device_address()?);
    // the lower factor has ones on its diagonal; of a transpose it is the upper one
    let of = |unit: bool| Triangle { upper: unit == transposed, unit, transposed };
    // SAFETY: the factors are held, the right-hand side is fresh, all without gaps and of these sizes.
    unsafe {
        if !transposed {
            kernels::swap_rows(&stream, &m, false, swaps, at).map_err(program)?;
        }
        for unit in [!transposed, transposed] {
            kernels::solve(&stream, &m, of(unit), factors, at).map_err(program)?;
        }
        if transposed {
            kernels::swap_rows(&stream, &m, true, swaps, at).map_err(program)?;
        }
    }
    Ok(())
}

fn factored(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::linalg_lu_factor_ex<Tensor>>() else { return Ok(None) };
    let (Some(wanted), Some((batch, ..))) = (call.results(), shape(&a.A)) else { return Ok(None) };
    let ([of_lu, of_pivots, of_info], true) = (&wanted[..], a.pivot) else { return Ok(None) };
    let lu = copied(call, &a.A)?;
    let [pivots, info] = factor(call, &lu, batch)?;
    if a.check_errors && !all_done(&info)? {
        return Ok(None);
    }
    let deliver = |t, m| call.deliver(t, m);
    Ok(Some(vec![deliver(lu, of_lu)?, deliver(pivots, of_pivots)?, deliver(info, of_info)?]))
}

fn inverse(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::linalg_inv_ex<Tensor>>() else { return Ok(None) };
    let (Some(wanted), Some((batch, n, _))) = (call.results(), shape(&a.A)) else {
        return Ok(None);
    };
    let [of_inverse, of_info] = &wanted[..] else { return Ok(None) };
    let lu = copied(call, &a.A)?;
    let [pivots, info] = factor(call, &lu, batch)?;
    if a.check_errors && !all_done(&info)? {
        return Ok(None);
    }
    let x = call.dense(lu.dtype(), lu.sizes())?;
    let ones = aten::eye(n, Some(lu.dtype()), None, Some(call.device), None)?;
    aten::copy_(&x, &aten::expand(&ones, lu.sizes(), false)?, false)?;
    by_factors(call, &lu, &pivots, &x, false)?;
    Ok(Some(vec![call.deliver(x, of_inverse)?, call.deliver(info, of_info)?]))
}

/// A matrix and the right-hand side of its equation, for one batch: the former without gaps, the latter fresh and, where the
/// matrix is on the right, turned.
fn equation(call: &Call<'_>, a: &Tensor, b: &Tensor, left: bool) -> Result<Option<[Tensor; 2]>> {
    let (Some((of_a, m, n)), Some((of_b, p, q))) = (shape(a), shape(b)) else { return Ok(None) };
    let Some(batch) = straightline_catalog::layout::broadcast(of_a, of_b) else { return Ok(None) };
    if m != n || n != if left { p } else { q } || a.dtype() != b.dtype() {
        return Ok(None);
    }
    let wide = |t: &Tensor, m, n| aten::expand(t, &[&batch[..], &[m, n]].concat(), false);
    let b = wide(b, p, q)?;
    let x = copied(call, &if left { b } else { turned(&b)? })?;
    Ok(Some([contiguous(&wide(a, m, n)?)?, x]))
}

fn triangular(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::linalg_solve_triangular<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let (Some(wanted), Some([matrix, x])) =
        (wanted.first(), equation(call, &a.self_, &a.B, a.left)?)
    else {
        return Ok(None);
    };
    {
        let _held = access::read(&[&matrix])?;
        let t = Triangle { upper: a.upper == a.left, unit: a.unitriangular, transposed: !a.left };
        let (from, to) = (matrix.device_address()?, x.device_address()?);
        // SAFETY: the matrices are held, the right-hand side is fresh, both without gaps and of these sizes.
        unsafe { kernels::solve(&call.stream()?, &matrices(&x), t, from, to) }.map_err(program)?;
    }
    let x = if a.left { x } else { turned(&x)? };
    Ok(Some(vec![call.deliver(x, wanted)?]))
}

/// Factors and pivots of one batch with a right-hand side, which is solved.
fn solution(
    call: &Call<'_>,
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    [left, adjoint]: [bool; 2],
) -> Result<Option<Tensor>> {
    let Some([lu, x]) = equation(call, lu, b, left)? else { return Ok(None) };
    let n = lu.dim();
    let pivots = contiguous(&aten::expand(pivots, &lu.sizes()[..n - 1], false)?)?;
    by_factors(call, &lu, &pivots, &x, left == adjoint)?;
    Ok(Some(if left { x } else { turned(&x)? }))
}

fn solved_by_factors(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::linalg_lu_solve<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let (Some(wanted), Some((_, _, n))) = (wanted.first(), shape(&a.LU)) else { return Ok(None) };
    if a.pivots.dtype() != DType::I32 || !super::rows::within(&a.pivots, 1, n + 1)? {
        return Ok(None);
    }
    match solution(call, &a.LU, &a.pivots, &a.B, [a.left, a.adjoint])? {
        Some(x) => Ok(Some(vec![call.deliver(x, wanted)?])),
        None => Ok(None),
    }
}

fn solved(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_linalg_solve_ex<Tensor>>() else { return Ok(None) };
    let (Some(wanted), Some((batch, ..))) = (call.results(), shape(&a.A)) else { return Ok(None) };
    let [of_x, of_lu, of_pivots, of_info] = &wanted[..] else { return Ok(None) };
    let rank = a.B.dim();
    let vector = rank == 1 || (a.A.dim() == rank + 1 && a.A.sizes()[..rank] == *a.B.sizes());
    let b = if vector { aten::unsqueeze(&a.B, -1)? } else { a.B.clone() };
    let lu = copied(call, &a.A)?;
    let [pivots, info] = factor(call, &lu, batch)?;
    if a.check_errors && !all_done(&info)? {
        return Ok(None);
    }
    let Some(x) = solution(call, &lu, &pivots, &b, [a.left, false])? else { return Ok(None) };
    let x = if vector { aten::squeeze_dim(&x, -1)? } else { x };
    let deliver = |t, m| call.deliver(t, m);
    Ok(Some(vec![
        deliver(x, of_x)?,
        deliver(lu, of_lu)?,
        deliver(pivots, of_pivots)?,
        deliver(info, of_info)?,
    ]))
}

fn determinant(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_linalg_det<Tensor>>() else { return Ok(None) };
    let (Some(wanted), Some((batch, n, _))) = (call.results(), shape(&a.A)) else {
        return Ok(None);
    };
    let [of_result, of_lu, of_pivots] = &wanted[..] else { return Ok(None) };
    // as it lies for who reads columns: a matrix that lies by rows is its transpose
    let lu = copied(call, &if a.A.is_contiguous() { turned(&a.A)? } else { a.A.clone() })?;
    let [pivots, _] = factor(call, &lu, batch)?;
    let (dtype, device) = (Some(DType::I32), Some(call.device));
    let own = aten::arange_start(Scalar::Int(1), Scalar::Int(n + 1), dtype, None, device, None)?;
    let swaps = aten::sum_dim_int_list(&aten::ne_tensor(&pivots, &own)?, Some(&[-1]), false, None)?;
    let odd = aten::remainder_scalar(&swaps, Scalar::Int(2))?;
    let signs = aten::rsub_scalar(
        &aten::mul_scalar(&odd, Scalar::Int(2))?,
        Scalar::Int(1),
        Scalar::Int(1),
    )?;
    let diagonal = aten::diagonal(&lu, 0, -2, -1)?;
    let size = aten::prod_dim_int(&diagonal, -1, false, None)?;
    let result = aten::mul_tensor(&size, &converted(&signs, lu.dtype())?)?;
    let deliver = |t, m| call.deliver(t, m);
    Ok(Some(vec![deliver(result, of_result)?, deliver(lu, of_lu)?, deliver(pivots, of_pivots)?]))
}

/// Nothing is said where nothing has failed.
fn nothing_failed(call: &Call<'_>) -> Made {
    let [info] = &call.tensors[..] else { return Ok(None) };
    let done = info.numel() == 0 || all_done(info)?;
    Ok(done.then(Vec::<Value>::new))
}
