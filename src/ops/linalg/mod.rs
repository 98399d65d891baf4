//! Linear algebra: factorisations, inverses, solutions, determinants. Results are column-major, as
//! LAPACK's are.

pub(crate) mod composite;
pub(crate) mod factor;
pub(crate) mod least_squares;
pub(crate) mod norms;
pub(crate) mod spectral;
pub(crate) mod tensors;

use crate::error::{Error, Result};
use crate::ops::by_dtype::{check_field, with_field};
use crate::ops::common::check_devices;
use crate::ops::copy;
use crate::ops::view;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::linalg as kernels;
use straightline_runtime::cpu::kernels::linalg::{Field, Form};
use straightline_runtime::cpu::kernels::real::Real;

/// A matrix (or batch) of real or complex numbers that are no integers, of a dtype that kernels
/// have. As in PyTorch, matrices without elements come to no kernel, and so may be of half
/// precision.
pub(super) fn check_matrix(a: &Tensor, name: &str, what: &str) -> Result<()> {
    ensure!(a.dim() >= 2, "{name}: The input tensor {what} must have at least 2 dimensions.");
    ensure_not_implemented!(
        a.dtype().is_floating() || a.dtype().is_complex(),
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        a.dtype().torch_name()
    );
    check_elements(name, a)
}

/// Refuses elements that no kernel takes.
fn check_elements(name: &str, a: &Tensor) -> Result<()> {
    match a.numel() {
        0 => Ok(()),
        _ => check_field(name, a),
    }
}

/// Refuses half precision, elements or none.
fn check_precision(name: &str, a: &Tensor) -> Result<()> {
    ensure_not_implemented!(
        !matches!(a.dtype(), DType::F16 | DType::BF16),
        "{name}: Low precision dtypes not supported. Got {}",
        a.dtype().torch_name()
    );
    Ok(())
}

/// Whether a kernel has something to compute: matrices with elements, and memory for the results.
fn computes(a: &Tensor, result: &Tensor) -> bool {
    a.numel() > 0 && result.storage().has_data()
}

/// Rows and columns.
pub(super) fn shape(a: &Tensor) -> (usize, usize) {
    let n = a.dim();
    (a.sizes()[n - 2] as usize, a.sizes()[n - 1] as usize)
}

pub(super) fn check_square(a: &Tensor, name: &str) -> Result<usize> {
    check_matrix(a, name, "A")?;
    let (m, n) = shape(a);
    ensure!(
        m == n,
        "{name}: A must be batches of square matrices, but they are {m} by {n} matrices"
    );
    Ok(n)
}

pub(super) fn batch(a: &Tensor) -> &[i64] {
    &a.sizes()[..a.dim() - 2]
}

/// Fresh memory with the columns of each matrix one after another; its last two sizes are those of
/// the transposed.
pub(super) fn columns(a: &Tensor) -> Result<Tensor> {
    copy::clone_contiguous(&view::transpose(a, -2, -1)?)
}

/// The matrices whose columns these are.
pub(super) fn of_columns(memory: &Tensor) -> Result<Tensor> {
    view::transpose(memory, -2, -1)
}

pub(super) fn infos(a: &Tensor, extra: &[i64]) -> Result<Tensor> {
    let sizes = [batch(a), extra].concat();
    let infos = Tensor::allocate_contiguous(DType::I32, a.device(), &sizes)?;
    // a matrix without elements is never factored, and has not failed
    copy::fill_(&infos, Scalar::Int(0))
}

/// The first failure of a batch, where there is memory to look at: which matrix, and what it said.
fn first_failure(info: &Tensor) -> Result<Option<(usize, i32)>> {
    if !info.storage().has_data() {
        return Ok(None);
    }
    let info = info.to_vec::<i32>()?;
    Ok(info.iter().position(|i| *i != 0).map(|i| (i, info[i])))
}

/// Refuses a failure in PyTorch's words.
pub(crate) fn check_errors(info: &Tensor, api: &str, is_matrix: bool) -> Result<()> {
    let Some((which, code)) = first_failure(info)? else {
        return Ok(());
    };
    let place = if is_matrix { ": ".to_string() } else { format!(": (Batch element {which}): ") };
    // the classes are PyTorch's: an argument of LAPACK's, or a factor that exists and that nothing
    // can be solved with, is no `LinAlgError`
    let class = match code < 0 || api.contains("lu_factor") || api.contains("ldl") {
        true => Error::runtime,
        false => Error::linalg,
    };
    let text = if code < 0 {
        format!("Argument {} has illegal value.", -code)
    } else if api.contains("inv") {
        format!(
            "The diagonal element {code} is zero, the inversion could not be completed because the input matrix is singular."
        )
    } else if api.contains("solve") {
        "The solver failed because the input matrix is singular.".to_string()
    } else if api.contains("cholesky") {
        format!(
            "The factorization could not be completed because the input is not positive-definite (the leading minor of order {code} is not positive-definite)."
        )
    } else if api.contains("svd") {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values (error code: {code})."
        )
    } else if api.contains("eig") {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {code})."
        )
    } else if api.contains("lu_factor") {
        format!(
            "U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    } else {
        format!("failed with code {code}")
    };
    Err(class(format!("{api}{place}{text}")))
}

/// Runs an expression for each matrix of a batch, with slices of the fresh tensors.
macro_rules! each_matrix {
    ($dtype:expr, $name:expr, $t:ident, ($($tensor:ident: $elem:ty, $len:expr);+), $body:expr) => {
        crate::ops::by_dtype::with_field!($dtype, $name, $t => {
            $(let mut $tensor = $tensor.elements_mut::<$elem>()?;)+
            let mut index = 0;
            loop {
                $(
                    let Some($tensor) = $tensor.get_mut(index * $len..(index + 1) * $len) else {
                        break;
                    };
                )+
                if crate::ops::linalg::each_matrix!(@nothing $($tensor)+) {
                    break;
                }
                $body;
                index += 1;
            }
            Ok::<(), crate::Error>(())
        })?
    };
    (@nothing $first:ident $($rest:ident)*) => { $first.is_empty() };
}
pub(super) use each_matrix;

pub(crate) fn cholesky_ex(a: &Tensor, upper: bool, check: bool) -> Result<(Tensor, Tensor)> {
    let n = check_square(a, "linalg.cholesky")?;
    let (memory, info) = (columns(a)?, infos(a, &[])?);
    if computes(a, &info) {
        let (m, i) = (memory.clone(), info.clone());
        each_matrix!(a.dtype(), "cholesky_cpu", T, (i: i32, 1; m: T, n * n), {
            i[0] = kernels::cholesky(m, n, upper);
        });
        if check {
            check_errors(&info, "linalg.cholesky", a.dim() == 2)?;
        }
    }
    Ok((of_columns(&memory)?, info))
}

/// The factors in place of the columns in `memory`, with pivots and failures.
pub(super) fn factor(a: &Tensor, memory: &Tensor, m: usize, n: usize) -> Result<(Tensor, Tensor)> {
    let k = m.min(n);
    let (pivots, info) = (infos(a, &[k as i64])?, infos(a, &[])?);
    if computes(a, &info) {
        let (x, p, i) = (memory.clone(), pivots.clone(), info.clone());
        each_matrix!(a.dtype(), "lu_factor_cpu", T, (i: i32, 1; x: T, m * n; p: i32, k), {
            i[0] = kernels::lu(x, m, n, p);
        });
    }
    Ok((pivots, info))
}

pub(crate) fn lu_factor_ex(
    a: &Tensor,
    pivot: bool,
    check: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(
        a.dim() >= 2,
        "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {:?} instead",
        a.sizes()
    );
    check_elements("lu_cpu", a)?;
    ensure!(
        pivot || a.numel() == 0,
        "linalg.lu_factor: LU without pivoting is not implemented on the CPU"
    );
    let (m, n) = shape(a);
    let memory = columns(a)?;
    let (pivots, info) = factor(a, &memory, m, n)?;
    if check {
        check_errors(&info, "torch.linalg.lu_factor", a.dim() == 2)?;
    }
    Ok((of_columns(&memory)?, pivots, info))
}

pub(crate) fn inv_ex(a: &Tensor, check: bool) -> Result<(Tensor, Tensor)> {
    let n = check_square(a, "linalg.inv")?;
    check_precision("linalg.inv", a)?;
    let memory = columns(a)?;
    let (pivots, info) = factor(a, &memory, n, n)?;
    let inverse = Tensor::allocate_contiguous(a.dtype(), a.device(), a.sizes())?;
    if computes(a, &info) {
        let (lu, p, x) = (memory, pivots, inverse.clone());
        each_matrix!(a.dtype(), "inv_cpu", T, (x: T, n * n; lu: T, n * n; p: i32, n), {
            x.fill(T::default());
            x.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
            kernels::lu_solve(lu, n, p, x, Form::Plain);
        });
        if check {
            check_errors(&info, "linalg.inv", a.dim() == 2)?;
        }
    }
    Ok((of_columns(&inverse)?, info))
}

/// Sizes of `a` and `b` in an equation `a x = b` (or `x a = b`), expanded to one batch.
pub(super) fn check_equation(
    a: &Tensor,
    b: &Tensor,
    left: bool,
    name: &str,
) -> Result<(Tensor, Tensor)> {
    check_square(a, name)?;
    check_matrix(b, name, "B")?;
    check_devices(&[a, b])?;
    let ((m, n), (p, q)) = (shape(a), shape(b));
    if n != if left { p } else { q } {
        return Err(Error::runtime(format!(
            "{name}: Incompatible shapes of A and B for the equation {} ({m}x{n} and {p}x{q})",
            if left { "AX = B" } else { "XA = B" }
        )));
    }
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "{name}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        a.dtype(),
        b.dtype()
    );
    broadcast_batches(a, b, name)
}

/// The matrices of both, for the batch that their batches broadcast to.
fn broadcast_batches(a: &Tensor, b: &Tensor, name: &str) -> Result<(Tensor, Tensor)> {
    let lead = layout::broadcast(batch(a), batch(b)).ok_or_else(|| {
        Error::shape(format!(
            "{name}: the batches {:?} and {:?} do not broadcast",
            batch(a),
            batch(b)
        ))
    })?;
    let expand = |t: &Tensor| {
        let sizes = [lead.as_slice(), &t.sizes()[t.dim() - 2..]].concat();
        view::expand(t, &sizes, true)
    };
    Ok((expand(a)?, expand(b)?))
}

pub(crate) fn solve_triangular(
    a: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unit: bool,
) -> Result<Tensor> {
    let (a, b) = check_equation(a, b, left, "linalg.solve_triangular")?;
    check_field("triangular_solve_cpu", &a)?;
    let n = shape(&a).0;
    let (rows, cols) = shape(&b);
    // `x a = b` is `a^T x^T = b^T`: the rows of both, taken for columns
    let (memory, x) = if left {
        (columns(&a)?, columns(&b)?)
    } else {
        (copy::clone_contiguous(&a)?, copy::clone_contiguous(&b)?)
    };
    if x.storage().has_data() {
        let (m, y) = (memory, x.clone());
        each_matrix!(a.dtype(), "triangular_solve", T, (y: T, rows * cols; m: T, n * n), {
            kernels::solve_triangular(m, n, y, upper == left, Form::Plain, unit);
        });
    }
    of_columns(&if left { x } else { columns(&x)? })
}

/// Solves from factors: column-major from the left, row-major from the right.
pub(crate) fn lu_solve(
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    left: bool,
    adjoint: bool,
) -> Result<Tensor> {
    ensure_dtype!(
        pivots.dtype() == DType::I32,
        "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32. Got {}",
        pivots.dtype()
    );
    ensure_shape!(
        pivots.dim() + 1 == lu.dim() && pivots.sizes() == &lu.sizes()[..pivots.dim()],
        "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix, got {:?} for {:?}",
        pivots.sizes(),
        lu.sizes()
    );
    let (a, b) = check_equation(lu, b, left, "linalg.lu_solve")?;
    let n = shape(&a).0;
    let (rows, cols) = shape(&b);
    let lead = [batch(&a), &[n as i64]].concat();
    let pivots = copy::clone_contiguous(&view::expand(pivots, &lead, true)?)?;
    let memory = columns(&a)?;
    let x = if left { columns(&b)? } else { copy::clone_contiguous(&b)? };
    if computes(&a, &x) {
        let (m, p, y) = (memory, pivots, x.clone());
        ensure!(
            !p.to_vec::<i32>()?.iter().any(|i| *i < 1 || *i > n as i32),
            "linalg.lu_solve: pivots must be between 1 and the number of rows"
        );
        each_matrix!(a.dtype(), "lu_solve", T, (y: T, rows * cols; m: T, n * n; p: i32, n), {
            // from the right it is the transposed equation that the rows solve, and what is adjoint
            // in it, conjugated
            let (form, conjugated) = match (left, adjoint) {
                (true, false) => (Form::Plain, false),
                (true, true) => (Form::Adjoint, false),
                (false, false) => (Form::Transposed, false),
                (false, true) => (Form::Plain, true),
            };
            if conjugated {
                kernels::conjugate(y);
            }
            kernels::lu_solve(m, n, p, y, form);
            if conjugated {
                kernels::conjugate(y);
            }
        });
    }
    if left { of_columns(&x) } else { Ok(x) }
}

/// The factors of `a`, or of its transposed where it is real and that is how it lies in memory:
/// `(lu, pivots, info, transposed)`.
fn factor_as_it_lies(a: &Tensor) -> Result<(Tensor, Tensor, Tensor, bool)> {
    let n = shape(a).0;
    let transposed = a.is_contiguous() && !a.dtype().is_complex();
    let memory = if transposed { copy::clone_contiguous(a)? } else { columns(a)? };
    let (pivots, info) = factor(a, &memory, n, n)?;
    Ok((of_columns(&memory)?, pivots, info, transposed))
}

/// Column-major strides (or row-major) of the last two of these sizes.
fn matrix_strides(sizes: &[i64], column_major: bool) -> Dims {
    let mut strides = layout::contiguous_strides(sizes);
    if let (true, [.., m, _]) = (column_major, sizes) {
        let n = sizes.len();
        strides[n - 2] = 1;
        strides[n - 1] = (*m).max(1);
    }
    strides
}

pub(crate) fn solve_ex(
    a: &Tensor,
    b: &Tensor,
    left: bool,
    check: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check_square(a, "linalg.solve")?;
    let vector = b.dim() == 1 || (a.dim() == b.dim() + 1 && a.sizes()[..b.dim()] == *b.sizes());
    ensure!(
        !vector || left,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
    );
    let b = if vector { view::unsqueeze(b, -1)? } else { b.clone() };
    check_equation(a, &b, left, "linalg.solve")?;
    let (lu, pivots, info) = lu_factor_ex(a, true, false)?;
    let mut x = lu_solve(&lu, &pivots, &b, left, false)?;
    if vector {
        x = view::squeeze_dim(&x, -1)?;
        let strides = matrix_strides(x.sizes(), left);
        let out = Tensor::allocate(x.dtype(), x.device(), Dims::from_slice(x.sizes()), strides)?;
        x = copy::copy_(&out, &x, false)?;
    }
    if check {
        check_errors(&info, "torch.linalg.solve", a.dim() == 2)?;
    }
    Ok((x, lu, pivots, info))
}

/// Signs and logarithms of the sizes of determinants, from factors; the determinants themselves
/// where `plain`.
fn determinants(lu: &Tensor, pivots: &Tensor, plain: bool) -> Result<(Tensor, Tensor)> {
    let n = shape(lu).0;
    let fresh = |dtype| Tensor::allocate_contiguous(dtype, lu.device(), batch(lu));
    let (sign, log) = (fresh(lu.dtype())?, fresh(lu.dtype().to_real())?);
    if lu.numel() == 0 {
        // the product of no elements
        copy::fill_(&log, Scalar::Int(0))?;
        return Ok((copy::fill_(&sign, Scalar::Int(1))?, log));
    }
    if sign.storage().has_data() {
        // the factors' columns, which is how they lie
        let memory = copy::to_contiguous(&view::transpose(lu, -2, -1)?)?;
        with_field!(lu.dtype(), "det", T => {
            type R = <T as Field>::Part;
            let (lu, pivots, mut sign, mut log) = (memory.elements::<T>()?, pivots.elements::<i32>()?, sign.elements_mut::<T>()?, log.elements_mut::<R>()?);
            for i in 0..sign.len() {
                let swaps = (0..n).filter(|j| pivots[i * n + j] != *j as i32 + 1).count();
                let mut s = if swaps % 2 == 0 { T::ONE } else { -T::ONE };
                let mut l = 0.0;
                for j in 0..n {
                    let x = lu[i * n * n + j * (n + 1)];
                    if plain {
                        s *= x;
                    } else {
                        l += Field::abs(x).wide().ln();
                        s *= x.sign();
                    }
                }
                (sign[i], log[i]) = (s, R::narrow(l));
            }
            Ok::<(), Error>(())
        })?;
    }
    Ok((sign, log))
}

pub(crate) fn det_parts(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    check_square(a, "linalg.det")?;
    let (lu, pivots, _, _) = factor_as_it_lies(a)?;
    Ok((determinants(&lu, &pivots, true)?.0, lu, pivots))
}

pub(crate) fn slogdet_parts(a: &Tensor) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check_square(a, "linalg.slogdet")?;
    check_precision("linalg.slogdet", a)?;
    let (lu, pivots, _, _) = factor_as_it_lies(a)?;
    let (sign, log) = determinants(&lu, &pivots, false)?;
    Ok((sign, log, lu, pivots))
}

pub(crate) fn qr(a: &Tensor, mode: &str) -> Result<(Tensor, Tensor)> {
    check_matrix(a, "linalg.qr", "A")?;
    check_field("geqrf_cpu", a)?;
    let (m, n) = shape(a);
    let k = m.min(n);
    let columns_of_q = match mode {
        "reduced" => k,
        "complete" => m,
        "r" => 0,
        _ => {
            return Err(Error::runtime(format!(
                "qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
            )));
        }
    };
    let rows_of_r = if mode == "complete" { m } else { k };
    let with = |rows: usize, cols: usize| -> Result<Tensor> {
        let sizes = [batch(a), &[cols as i64, rows as i64]].concat();
        Tensor::allocate_contiguous(a.dtype(), a.device(), &sizes)
    };
    let (q, r) = (with(m, columns_of_q)?, with(rows_of_r, n)?);
    let memory = columns(a)?;
    if r.storage().has_data() {
        let (x, qm, rm) = (memory, q.clone(), r.clone());
        let (q_len, r_len) = (m * columns_of_q, rows_of_r * n);
        let batches = batch(a).iter().product::<i64>() as usize;
        with_field!(a.dtype(), "qr_cpu", T => {
            let (mut x, mut q, mut r) = (x.elements_mut::<T>()?, qm.elements_mut::<T>()?, rm.elements_mut::<T>()?);
            let mut tau = vec![T::default(); k];
            for b in 0..batches {
                let x = &mut x[b * m * n..(b + 1) * m * n];
                let (q, r) = (
                    &mut q[b * q_len..(b + 1) * q_len],
                    &mut r[b * r_len..(b + 1) * r_len],
                );
                kernels::qr(x, m, n, &mut tau);
                kernels::orthogonal(x, m, &tau, q, columns_of_q);
                for j in 0..n {
                    for i in 0..rows_of_r {
                        r[j * rows_of_r + i] = if i <= j { x[j * m + i] } else { T::default() };
                    }
                }
            }
            Ok::<(), Error>(())
        })?;
    }
    let q = if mode == "r" {
        Tensor::allocate_contiguous(a.dtype(), a.device(), &[0])?
    } else {
        of_columns(&q)?
    };
    Ok((q, of_columns(&r)?))
}
