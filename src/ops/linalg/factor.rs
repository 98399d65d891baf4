//! Factors by themselves and what is solved with them: reflectors, triangles, `L D L^T`; the parts
//! of an LU factorisation.

use super::{
    batch, broadcast_batches, check_errors, check_matrix, columns, computes, each_matrix, infos,
    lu_factor_ex, of_columns, shape,
};
use crate::error::{Error, Result};
use crate::ops::by_dtype::{check_field, with_field};
use crate::ops::common::check_devices;
use crate::ops::copy;
use crate::ops::view;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};
use straightline_runtime::cpu::kernels::linalg::{self as kernels, Field, Form};

fn at_least_two(t: &Tensor, what: &str) -> Result<()> {
    ensure!(t.dim() >= 2, "{what} must have at least 2 dimensions.");
    Ok(())
}

fn fresh(a: &Tensor, dtype: DType, extra: &[usize]) -> Result<Tensor> {
    let extra: Vec<i64> = extra.iter().map(|n| *n as i64).collect();
    Tensor::allocate_contiguous(dtype, a.device(), &[batch(a), &extra].concat())
}

/// Reflectors below the diagonal of `r`, and their factors.
pub(crate) fn geqrf(a: &Tensor) -> Result<(Tensor, Tensor)> {
    at_least_two(a, "torch.geqrf: input")?;
    check_field("geqrf_cpu", a)?;
    let (m, n) = shape(a);
    let k = m.min(n);
    let (memory, tau) = (columns(a)?, fresh(a, a.dtype(), &[k])?);
    if tau.storage().has_data() {
        let (x, t) = (memory.clone(), tau.clone());
        each_matrix!(a.dtype(), "geqrf_cpu", T, (x: T, m * n; t: T, k), {
            kernels::qr(x, m, n, t);
        });
    }
    Ok((of_columns(&memory)?, tau))
}

/// What [`householder_product`] and [`ormqr`] ask of reflectors and their factors.
fn check_factors(a: &Tensor, tau: &Tensor, name: &str) -> Result<()> {
    let refuse = |text: String| Err(Error::runtime(format!("{name}: {text}")));
    let (m, n) = shape(a);
    let k = tau.sizes().last().copied().unwrap_or(0) as usize;
    if m < n {
        return refuse("input.shape[-2] must be greater than or equal to input.shape[-1]".into());
    }
    if n < k {
        return refuse("input.shape[-1] must be greater than or equal to tau.shape[-1]".into());
    }
    if a.dim() != tau.dim() + 1 {
        return refuse(format!(
            "Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim is equal to {}",
            tau.dim(),
            a.dim()
        ));
    }
    if batch(a) != &tau.sizes()[..tau.dim() - 1] {
        return refuse(format!(
            "Expected batch dimensions of tau to be equal to input.shape[:-2], but got {:?}",
            &tau.sizes()[..tau.dim() - 1]
        ));
    }
    if tau.dtype() != a.dtype() {
        return refuse(format!(
            "tau dtype {} does not match input dtype {}",
            tau.dtype().torch_name(),
            a.dtype().torch_name()
        ));
    }
    check_devices(&[a, tau])
}

/// The columns of the orthogonal matrix that is the product of reflectors.
pub(crate) fn householder_product(a: &Tensor, tau: &Tensor) -> Result<Tensor> {
    let name = "torch.linalg.householder_product";
    at_least_two(a, &format!("{name}: input"))?;
    check_factors(a, tau, name)?;
    check_field("orgqr_cpu", a)?;
    let (m, n) = shape(a);
    let k = tau.sizes().last().copied().unwrap_or(0) as usize;
    let (memory, tau) = (columns(a)?, copy::clone_contiguous(tau)?);
    let out = fresh(a, a.dtype(), &[n, m])?;
    if out.storage().has_data() {
        let (x, q) = (memory, out.clone());
        with_field!(a.dtype(), "orgqr_cpu", T => {
            let (x, t, mut q) = (x.elements::<T>()?, tau.elements::<T>()?, q.elements_mut::<T>()?);
            for (i, q) in q.chunks_exact_mut((m * n).max(1)).enumerate() {
                let t = &t[i * k..(i + 1) * k];
                kernels::orthogonal(&x[i * m * n..(i + 1) * m * n], m, t, q, n);
            }
            Ok::<(), Error>(())
        })?;
    }
    of_columns(&out)
}

/// The product of reflectors times a matrix, from either side, or of the transposed one.
pub(crate) fn ormqr(
    a: &Tensor,
    tau: &Tensor,
    other: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<Tensor> {
    at_least_two(a, "torch.ormqr: input")?;
    at_least_two(other, "torch.ormqr: other")?;
    let refuse = |text: String| Err(Error::runtime(format!("torch.ormqr: {text}")));
    let (m, n) = shape(a);
    let k = tau.sizes().last().copied().unwrap_or(0) as usize;
    let (rows, cols) = shape(other);
    let (side, place) = if left { (rows, -2) } else { (cols, -1) };
    if k > n {
        return refuse("tau.shape[-1] must be less than or equal to input.shape[-1]".into());
    }
    if side < k {
        return refuse(format!(
            "other.shape[{place}] must be greater than or equal to tau.shape[-1]"
        ));
    }
    if side != m {
        return refuse(format!("other.shape[{place}] must be equal to input.shape[-2]"));
    }
    if a.dim() != tau.dim() + 1 || a.dim() != other.dim() {
        return refuse(format!(
            "Expected tau to have one dimension less than input and other as many, but got {}, {} and {}",
            tau.dim(),
            a.dim(),
            other.dim()
        ));
    }
    if batch(a) != &tau.sizes()[..tau.dim() - 1] || batch(a) != batch(other) {
        return refuse(
            "Expected batch dimensions of tau and other to be equal to input.shape[:-2]".into(),
        );
    }
    if tau.dtype() != a.dtype() || other.dtype() != a.dtype() {
        return refuse(format!(
            "Expected input, tau and other to have one dtype, but got {}, {} and {}",
            a.dtype().torch_name(),
            tau.dtype().torch_name(),
            other.dtype().torch_name()
        ));
    }
    check_devices(&[a, tau, other])?;
    check_field("ormqr_cpu", a)?;
    let (memory, tau) = (columns(a)?, copy::clone_contiguous(tau)?);
    let out = match left {
        true => columns(other)?,
        false => copy::clone_contiguous(other)?,
    };
    if out.storage().has_data() {
        let (x, y) = (memory, out.clone());
        with_field!(a.dtype(), "ormqr_cpu", T => {
            let (x, t, mut y) = (x.elements::<T>()?, tau.elements::<T>()?, y.elements_mut::<T>()?);
            for (i, y) in y.chunks_exact_mut((rows * cols).max(1)).enumerate() {
                let (x, t) = (&x[i * m * n..(i + 1) * m * n], &t[i * k..(i + 1) * k]);
                if left {
                    kernels::reflect_all(x, m, t, y, transpose);
                } else {
                    // of the rows' conjugates they are the columns of `q^H y^H`
                    kernels::conjugate(y);
                    kernels::reflect_all(x, m, t, y, !transpose);
                    kernels::conjugate(y);
                }
            }
            Ok::<(), Error>(())
        })?;
    }
    of_columns(&if left { out } else { columns(&out)? })
}

/// The inverse of a matrix from its Cholesky factor.
pub(crate) fn cholesky_inverse(l: &Tensor, upper: bool) -> Result<Tensor> {
    let n = square_of("cholesky_inverse", "A", l)?;
    check_field("cholesky_inverse_out_cpu", l)?;
    let (memory, info) = (columns(l)?, infos(l, &[])?);
    let out = fresh(l, l.dtype(), &[n, n])?;
    if out.storage().has_data() {
        let (m, x, i) = (memory, out.clone(), info.clone());
        each_matrix!(l.dtype(), "cholesky_inverse_out_cpu", T, (i: i32, 1; x: T, n * n; m: T, n * n), {
            let zero = (0..n).find(|j| m[j * (n + 1)] == T::default());
            i[0] = zero.map_or(0, |j| j as i32 + 1);
            x.fill(T::default());
            x.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
            kernels::cholesky_solve(m, n, x, upper);
        });
        check_errors(&info, "cholesky_inverse", l.dim() == 2)?;
    }
    of_columns(&out)
}

fn square_of(name: &str, what: &str, a: &Tensor) -> Result<usize> {
    ensure!(a.dim() >= 2, "{name}: The input tensor {what} must have at least 2 dimensions.");
    let (m, n) = shape(a);
    ensure!(
        m == n,
        "{name}: {what} must be batches of square matrices, but they are {m} by {n} matrices"
    );
    Ok(n)
}

/// `a` and `b` of an old equation `a x = b`, expanded to one batch.
fn check_old_equation(a: &Tensor, b: &Tensor, name: &str) -> Result<(Tensor, Tensor)> {
    check_devices(&[a, b])?;
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        b.dtype().torch_name(),
        a.dtype().torch_name()
    );
    let ((m, n), (rows, _)) = (shape(a), shape(b));
    ensure!(m == n, "A must be batches of square matrices, but they are {m} by {n} matrices");
    ensure!(
        n == rows,
        "Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix is {rows} by {}",
        shape(b).1
    );
    broadcast_batches(a, b, name)
}

/// Solves with a matrix that is given by its Cholesky factor.
pub(crate) fn cholesky_solve(b: &Tensor, factor: &Tensor, upper: bool) -> Result<Tensor> {
    for (t, name) in [(b, "b"), (factor, "u")] {
        ensure!(
            t.dim() >= 2,
            "{name} should have at least 2 dimensions, but has {} dimensions instead",
            t.dim()
        );
    }
    let (l, b) = check_old_equation(factor, b, "cholesky_solve")?;
    check_field("cholesky_solve_cpu", &b)?;
    let ((n, _), (_, r)) = (shape(&l), shape(&b));
    let (memory, x) = (columns(&l)?, columns(&b)?);
    if x.storage().has_data() {
        let (m, y) = (memory, x.clone());
        each_matrix!(b.dtype(), "cholesky_solve_cpu", T, (y: T, n * r; m: T, n * n), {
            kernels::cholesky_solve(m, n, y, upper);
        });
    }
    of_columns(&x)
}

/// The solution, and a copy of the matrix.
pub(crate) fn triangular_solve(
    b: &Tensor,
    a: &Tensor,
    upper: bool,
    transpose: bool,
    unit: bool,
) -> Result<(Tensor, Tensor)> {
    for (t, name) in [(b, "b"), (a, "A")] {
        ensure!(
            t.dim() >= 2,
            "torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {} dimensions instead",
            t.dim()
        );
    }
    let (a, b) = check_old_equation(a, b, "triangular_solve")?;
    check_field("triangular_solve_cpu", &b)?;
    let ((n, _), (_, r)) = (shape(&a), shape(&b));
    let (memory, x) = (columns(&a)?, columns(&b)?);
    if x.storage().has_data() {
        let (m, y) = (memory.clone(), x.clone());
        each_matrix!(b.dtype(), "triangular_solve_cpu", T, (y: T, n * r; m: T, n * n), {
            let form = if transpose { Form::Transposed } else { Form::Plain };
            kernels::solve_triangular(m, n, y, upper, form, unit);
        });
    }
    Ok((of_columns(&x)?, of_columns(&memory)?))
}

/// `L D L^T` of symmetric matrices, of which the lower triangle is read.
pub(crate) fn ldl_factor_ex(
    a: &Tensor,
    hermitian: bool,
    check: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let n = square_of("torch.linalg.ldl_factor_ex", "A", a)?;
    check_matrix(a, "torch.linalg.ldl_factor_ex", "A")?;
    let lower = copy::tril(a, 0)?;
    let (memory, info) = (columns(&lower)?, infos(a, &[])?);
    let pivots = infos(a, &[n as i64])?;
    if computes(a, &info) {
        let (x, p, i) = (memory.clone(), pivots.clone(), info.clone());
        each_matrix!(a.dtype(), "ldl_factor_kernel_cpu", T, (i: i32, 1; x: T, n * n; p: i32, n), {
            i[0] = kernels::ldl(x, n, p, hermitian);
        });
        if check {
            check_errors(&info, "torch.linalg.ldl_factor_ex", a.dim() == 2)?;
        }
    }
    Ok((of_columns(&memory)?, pivots, info))
}

pub(crate) fn ldl_solve(
    ld: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    hermitian: bool,
) -> Result<Tensor> {
    let name = "torch.linalg.ldl_solve";
    let n = square_of(name, "LD", ld)?;
    check_matrix(ld, name, "LD")?;
    let refuse = |text: String| Err(Error::runtime(format!("{name}: {text}")));
    if b.dim() < 2 {
        return refuse(format!(
            "Expected B to have at least 2 dimensions, but it has {} dimensions instead",
            b.dim()
        ));
    }
    if pivots.dim() + 1 != ld.dim() || pivots.sizes() != &ld.sizes()[..ld.dim() - 1] {
        return refuse(format!(
            "Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {:?} instead",
            pivots.sizes()
        ));
    }
    if !pivots.dtype().is_integral() {
        return refuse(format!(
            "Expected pivots to be integers. Got {}",
            pivots.dtype().torch_name()
        ));
    }
    if ld.dtype() != b.dtype() {
        return refuse(format!(
            "LD dtype {} does not match b dtype {}",
            ld.dtype().torch_name(),
            b.dtype().torch_name()
        ));
    }
    let lead = [batch(ld), &[n as i64]].concat();
    let (a, b) = check_old_equation(ld, b, "linalg.ldl_solve")?;
    let pivots = view::expand(pivots, &lead, true)?;
    let pivots = view::expand(&pivots, &[batch(&a), &[n as i64]].concat(), true)?;
    let pivots = copy::clone_contiguous(&copy::to_dtype(&pivots, DType::I32)?)?;
    let r = shape(&b).1;
    let (memory, x) = (columns(&a)?, columns(&b)?);
    if computes(&a, &x) {
        let (m, p, y) = (memory, pivots, x.clone());
        let within = |p: &i32| (1..=n as u32).contains(&p.unsigned_abs());
        if !p.to_vec::<i32>()?.iter().all(within) {
            return refuse("pivots must be between 1 and the number of rows".into());
        }
        each_matrix!(a.dtype(), "ldl_solve_kernel_cpu", T, (y: T, n * r; m: T, n * n; p: i32, n), {
            kernels::ldl_solve(m, n, p, y, hermitian);
        });
    }
    of_columns(&x)
}

/// The permutations that row exchanges make, as matrices of ones and zeros.
fn permutations(lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let (m, k) = (shape(lu).0, pivots.sizes().last().copied().unwrap_or(0) as usize);
    let out = copy::fill_(&fresh(lu, DType::F64, &[m, m])?, Scalar::Int(0))?;
    if out.storage().has_data() && m > 0 {
        let pivots = crate::ops::copy::to_aligned(pivots)?;
        let (p, mut out) = (pivots.elements::<i32>()?, out.elements_mut::<f64>()?);
        for (i, out) in out.chunks_exact_mut(m * m).enumerate() {
            let mut rows: Vec<usize> = (0..m).collect();
            for (j, to) in p[i * k..(i + 1) * k].iter().enumerate() {
                let to = usize::try_from(*to).ok().and_then(|to| to.checked_sub(1));
                match to.filter(|to| *to < m && j < m) {
                    Some(to) => rows.swap(j, to),
                    None => {
                        return Err(Error::runtime(format!(
                            "torch.lu_unpack: pivots must be between 1 and the number of rows, {m}"
                        )));
                    }
                }
            }
            for (column, row) in rows.into_iter().enumerate() {
                out[row * m + column] = 1.0;
            }
        }
    }
    copy::to_dtype(&out, lu.dtype())
}

/// The triangles of `lu`, the lower one with ones on its diagonal.
fn triangles(lu: &Tensor) -> Result<(Tensor, Tensor)> {
    let (m, n) = shape(lu);
    let k = m.min(n) as i64;
    let row_major = |t: &Tensor| copy::to_contiguous(t);
    let lower = copy::tril(&row_major(&view::slice(lu, -1, Some(0), Some(k), 1)?)?, -1)?;
    let ones = copy::fill_(&view::diagonal(&lower, 0, -2, -1)?, Scalar::Int(1));
    ones?;
    let upper = copy::triu(&row_major(&view::slice(lu, -2, Some(0), Some(k), 1)?)?, 0)?;
    Ok((lower, upper))
}

/// Permutation and triangles; those that are not asked for have no elements.
pub(crate) fn lu_unpack(
    lu: &Tensor,
    pivots: &Tensor,
    data: bool,
    rows: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(lu.dim() >= 2, "torch.lu_unpack: Expected tensor with 2 or more dimensions.");
    ensure!(
        !rows || pivots.dtype() == DType::I32,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n\
             Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
    );
    let wanted = [batch(lu), &[lu.sizes()[lu.dim() - 2].min(lu.sizes()[lu.dim() - 1])]].concat();
    ensure!(
        !rows || pivots.sizes() == wanted,
        "torch.lu_unpack: Expected LU_pivots to have shape {wanted:?} but got {:?} instead.",
        pivots.sizes()
    );
    let none = || Tensor::allocate_contiguous(lu.dtype(), lu.device(), &[0]);
    let p = if rows { permutations(lu, pivots)? } else { none()? };
    let (l, u) = if data { triangles(lu)? } else { (none()?, none()?) };
    Ok((p, l, u))
}

/// `a = p l u`.
pub(crate) fn lu(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let (lu, pivots, _) = lu_factor_ex(a, pivot, false)?;
    lu_unpack(&lu, &pivots, true, true)
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::ops::aten;

    #[test]
    fn parts_of_lu_make_the_matrix_again() {
        for sizes in [[2i64, 3, 4], [2, 4, 3], [1, 3, 3]] {
            let n: i64 = sizes.iter().product();
            let x: Vec<f64> = (0..n).map(|i| (f64::from(i as i32) * 1.7).sin()).collect();
            let a = Tensor::from_vec(x, -1).unwrap().view(&sizes).unwrap();
            let (p, l, u) = aten::linalg_lu(&a, true).unwrap();
            let again = p.matmul(&l).unwrap().matmul(&u).unwrap();
            assert!(aten::allclose(&again, &a, 1e-12, 1e-12, false).unwrap());
        }
    }

    #[test]
    fn factors_of_complex_matrices_solve_from_both_sides() {
        use num_complex::Complex;
        let numbers = |n: usize| -> Vec<Complex<f64>> {
            (0..n)
                .map(|i| {
                    let x = (i * i + 3 * i) as f64;
                    Complex::new(x.sin() * 2.0, (1.7 * x).cos())
                })
                .collect()
        };
        let matrix = |m: i64, n: i64| {
            let numbers = numbers((m * n) as usize);
            Tensor::from_vec(numbers, -1).unwrap().view(&[m, n]).unwrap()
        };
        let (a, b) = (matrix(3, 3), matrix(3, 2));
        let row = b.t().unwrap();
        let (lu, pivots, _) = aten::linalg_lu_factor_ex(&a, true, true).unwrap();
        let adjoint = aten::conj_physical(&a.t().unwrap()).unwrap();
        for (with, is_adjoint) in [(&a, false), (&adjoint, true)] {
            let x = aten::linalg_lu_solve(&lu, &pivots, &b, true, is_adjoint).unwrap();
            assert!(aten::allclose(&with.matmul(&x).unwrap(), &b, 1e-10, 1e-10, false).unwrap());
            let x = aten::linalg_lu_solve(&lu, &pivots, &row, false, is_adjoint).unwrap();
            assert!(aten::allclose(&x.matmul(with).unwrap(), &row, 1e-10, 1e-10, false).unwrap());
        }
    }

    #[test]
    fn pivots_beyond_the_rows_are_refused() {
        let lu = Tensor::from_vec([1f32, 2.0, 3.0, 4.0], 4).unwrap().view(&[2, 2]).unwrap();
        let pivots = Tensor::from_vec([1i32, 7], 2).unwrap();
        assert!(aten::lu_unpack(&lu, &pivots, true, true).is_err());
        assert!(aten::linalg_ldl_solve(&lu, &pivots, &lu, false).is_err());
    }
}
