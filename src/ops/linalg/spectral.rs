//! Eigenvalues, singular values and what is made of them: least squares, square roots, polar
//! factors; the exponential of a matrix.
//!
//! Eigenvalues are computed in double precision whatever the dtype is, so are singular values of
//! all but small matrices.

use super::{
    batch, check_elements, check_errors, check_matrix, check_precision, columns, computes, infos,
    of_columns, shape,
};
use crate::error::{Error, Result};
use crate::ops::by_dtype::{check_field, with_field};
use crate::ops::copy;
use crate::ops::view;
use crate::tensor::Tensor;
use num_complex::Complex;
use straightline_catalog::{DType, Scalar};
use straightline_runtime::cpu::kernels::linalg::{self as kernels, Field, Part};

fn check_square(a: &Tensor, name: &str) -> Result<usize> {
    ensure!(a.dim() >= 2, "{name}: The input tensor A must have at least 2 dimensions.");
    let (m, n) = shape(a);
    ensure!(
        m == n,
        "{name}: A must be batches of square matrices, but they are {m} by {n} matrices"
    );
    Ok(n)
}

pub(super) fn fresh(a: &Tensor, dtype: DType, extra: &[usize]) -> Result<Tensor> {
    let extra: Vec<i64> = extra.iter().map(|n| *n as i64).collect();
    Tensor::allocate_contiguous(dtype, a.device(), &[batch(a), &extra].concat())
}

/// [`fresh`] memory to add to.
pub(super) fn zeros(a: &Tensor, dtype: DType, extra: &[usize]) -> Result<Tensor> {
    copy::fill_(&fresh(a, dtype, extra)?, Scalar::Int(0))
}

/// A tensor of no elements, in place of a result that is not wanted.
pub(super) fn none(a: &Tensor, dtype: DType) -> Result<Tensor> {
    Tensor::allocate_contiguous(dtype, a.device(), &[0])
}

/// The dtype of double precision: `f64`, of complex numbers `c128`.
pub(super) fn double(dtype: DType) -> DType {
    match dtype.is_complex() {
        true => DType::C128,
        false => DType::F64,
    }
}

/// Runs an expression with a type alias bound to the element type of [`double`].
macro_rules! with_double {
    ($dtype:expr, $t:ident => $body:expr) => {
        if $dtype.is_complex() {
            type $t = Complex<f64>;
            $body
        } else {
            type $t = f64;
            $body
        }
    };
}

pub(super) use with_double;

/// Fresh row-major memory in double precision.
pub(super) fn wide(a: &Tensor) -> Result<Tensor> {
    copy::clone_contiguous(&copy::to_dtype(a, double(a.dtype()))?)
}

pub(super) fn wide_columns(a: &Tensor) -> Result<Tensor> {
    wide(&view::transpose(a, -2, -1)?)
}

/// Values and vectors of symmetric or Hermitian matrices, in double precision: vectors in the rows
/// of the last two dimensions.
fn hermitian(a: &Tensor, upper: bool, vectors: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let n = shape(a).0;
    // the kernel reads the lower triangle of columns: of the rows' conjugates it is the upper one
    let memory = if upper { wide(a)? } else { wide_columns(a)? };
    let (values, info) = (fresh(a, DType::F64, &[n])?, infos(a, &[])?);
    if computes(a, &values) {
        with_double!(a.dtype(), T => {
            let (mut x, mut w, mut failed) = (memory.elements_mut::<T>()?, values.elements_mut::<f64>()?, info.elements_mut::<i32>()?);
            if upper {
                kernels::conjugate(&mut x);
            }
            let matrices = x.chunks_exact_mut(n * n).zip(w.chunks_exact_mut(n));
            for ((x, w), failed) in matrices.zip(failed.iter_mut()) {
                // as LAPACK's, NaN gives NaN
                if x.iter().any(|x| !Field::is_finite(*x)) {
                    x.fill(T::of(f64::NAN));
                    w.fill(f64::NAN);
                    continue;
                }
                *failed = kernels::hermitian(x, n, w, vectors);
            }
        });
    }
    Ok((values, memory, info))
}

/// Eigenvalues, least first, and vectors of symmetric or Hermitian matrices of which one triangle
/// is read.
pub(crate) fn eigh(a: &Tensor, uplo: &str, vectors: bool) -> Result<(Tensor, Tensor)> {
    check_square(a, "linalg.eigh")?;
    let upper = match uplo.as_bytes() {
        [b'U' | b'u'] => true,
        [b'L' | b'l'] => false,
        _ => {
            return Err(Error::runtime(format!(
                "Expected UPLO argument to be 'L' or 'U', but got {uplo}"
            )));
        }
    };
    check_elements("linalg_eigh_cpu", a)?;
    let (values, memory, info) = hermitian(a, upper, vectors)?;
    check_errors(&info, "linalg.eigh", a.dim() == 2)?;
    let vectors = match vectors {
        true => of_columns(&copy::to_dtype(&memory, a.dtype())?)?,
        false => none(a, a.dtype())?,
    };
    Ok((copy::to_dtype(&values, a.dtype().to_real())?, vectors))
}

/// Eigenvalues and (where `vectors`) vectors of general matrices, complex.
fn general(a: &Tensor, vectors: bool) -> Result<(Tensor, Tensor)> {
    let n = check_square(a, "linalg.eig")?;
    ensure!(
        a.dtype().is_floating() || a.dtype().is_complex(),
        "Unknown Complex ScalarType for {}",
        a.dtype().torch_name()
    );
    check_field("linalg_eig_out_cpu", a)?;
    let values = fresh(a, DType::C128, &[n])?;
    let memory = fresh(a, DType::C128, &[n, if vectors { n } else { 0 }])?;
    let (input, info) = (wide_columns(a)?, infos(a, &[])?);
    if values.storage().has_data() && n > 0 {
        type C = Complex<f64>;
        let (mut w, mut v, mut failed) =
            (values.elements_mut::<C>()?, memory.elements_mut::<C>()?, info.elements_mut::<i32>()?);
        let not_finite =
            || Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs.");
        if a.dtype().is_complex() {
            let mut x = input.elements_mut::<C>()?;
            if x.iter().any(|x| !Field::is_finite(*x)) {
                return Err(not_finite());
            }
            for (i, failed) in failed.iter_mut().enumerate() {
                let x = &mut x[i * n * n..(i + 1) * n * n];
                *failed = kernels::general_complex(x, n, &mut w[i * n..(i + 1) * n], vectors);
                if vectors {
                    v[i * n * n..(i + 1) * n * n].copy_from_slice(x);
                }
            }
        } else {
            let mut x = input.elements_mut::<f64>()?;
            if x.iter().any(|x| !x.is_finite()) {
                return Err(not_finite());
            }
            let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
            for (i, failed) in failed.iter_mut().enumerate() {
                let x = &mut x[i * n * n..(i + 1) * n * n];
                *failed = kernels::general(x, n, &mut re, &mut im, vectors);
                for (w, (re, im)) in w[i * n..].iter_mut().zip(re.iter().zip(&im)) {
                    *w = C::new(*re, *im);
                }
                if vectors {
                    pairs(x, n, &im, &mut v[i * n * n..(i + 1) * n * n]);
                }
            }
        }
    }
    check_errors(&info, "linalg.eig", a.dim() == 2)?;
    let of_dtype = |t: &Tensor| copy::to_dtype(t, a.dtype().to_complex());
    Ok((of_dtype(&values)?, of_columns(&of_dtype(&memory)?)?))
}

/// Complex columns of a kernel's real ones: those of a pair are `x + i y` and `x - i y`.
fn pairs(x: &[f64], n: usize, im: &[f64], v: &mut [Complex<f64>]) {
    let mut k = 0;
    while k < n {
        let pair = im[k] != 0.0 && k + 1 < n;
        for i in 0..n {
            let re = x[k * n + i];
            if pair {
                let im = x[(k + 1) * n + i];
                v[k * n + i] = Complex::new(re, im);
                v[(k + 1) * n + i] = Complex::new(re, -im);
            } else {
                v[k * n + i] = Complex::new(re, 0.0);
            }
        }
        k += if pair { 2 } else { 1 };
    }
}

pub(crate) fn eig(a: &Tensor) -> Result<(Tensor, Tensor)> {
    general(a, true)
}

pub(crate) fn eigvals(a: &Tensor) -> Result<Tensor> {
    Ok(general(a, false)?.0)
}

/// `a = u diag(s) vh`; where no vectors are wanted they have no elements.
pub(crate) fn svd(
    a: &Tensor,
    full_matrices: bool,
    vectors: bool,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_matrix(a, "linalg.svd", "A")?;
    ensure!(
        driver.is_none(),
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    );
    let (m, n) = shape(a);
    let k = m.min(n);
    let (rows, tall) = (m.max(n), m >= n);
    // of a wide matrix the transposed one is taken apart
    let memory = match tall {
        true => columns(a)?,
        false => copy::clone_contiguous(a)?,
    };
    let wanted = |size: usize| if vectors { size } else { 0 };
    let long = wanted(if full_matrices { rows } else { k });
    let values = fresh(a, a.dtype().to_real(), &[k])?;
    // columns of the long factor, and those of the short one
    let (u, v) = (fresh(a, a.dtype(), &[long, rows])?, fresh(a, a.dtype(), &[wanted(k), k])?);
    if computes(a, &values) {
        let batches = batch(a).iter().product::<i64>() as usize;
        let (x, s, u, v) = (memory, values.clone(), u.clone(), v.clone());
        with_field!(a.dtype(), "linalg_svd_cpu", T => {
            type R = <T as Field>::Part;
            let (mut x, mut s, mut u, mut v) = (x.elements_mut::<T>()?, s.elements_mut::<R>()?, u.elements_mut::<T>()?, v.elements_mut::<T>()?);
            ensure_linalg!(!x.iter().any(|x| !Field::is_finite(*x)), "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.");
            for b in 0..batches {
                let x = &mut x[b * rows * k..(b + 1) * rows * k];
                let s = &mut s[b * k..(b + 1) * k];
                let v = &mut v[b * wanted(k) * k..(b + 1) * wanted(k) * k];
                kernels::singular_values(x, rows, k, v, s);
                if vectors {
                    let u = &mut u[b * long * rows..(b + 1) * long * rows];
                    let rank = s.iter().take_while(|s| **s > R::LEAST).count();
                    for j in 0..rank {
                        for i in 0..rows {
                            u[j * rows + i] = x[j * rows + i].over(T::of(s[j]));
                        }
                    }
                    kernels::complete(u, rows, rank, long);
                }
            }
            // of a tall matrix the other factor is wanted as its adjoint, of a wide one (whose
            // transposed was taken) as its conjugate
            kernels::conjugate(&mut v);
            Ok::<(), Error>(())
        })?;
    } else if vectors && full_matrices {
        let diagonal = view::diagonal(&copy::fill_(&u, Scalar::Int(0))?, 0, -2, -1)?;
        copy::fill_(&diagonal, Scalar::Int(1))?;
    }
    if !vectors {
        return Ok((none(a, a.dtype())?, values, none(a, a.dtype())?));
    }
    // the short factor's columns lie as rows: those of `vh`, in row-major order
    let (first, second) = match tall {
        true => (of_columns(&u)?, v),
        false => (of_columns(&v)?, u),
    };
    Ok((first, values, of_columns(&columns(&second)?)?))
}

/// The exponential of square matrices.
pub(crate) fn matrix_exp(a: &Tensor) -> Result<Tensor> {
    let n = check_square(a, "linalg.matrix_exp")?;
    ensure_not_implemented!(
        a.dtype().is_floating() || a.dtype().is_complex(),
        "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {}",
        a.dtype().torch_name()
    );
    // the transposed matrix has the transposed exponential: rows serve as well as columns
    let memory = wide(a)?;
    if memory.storage().has_data() && n > 0 {
        with_double!(a.dtype(), T => {
            let mut x = memory.elements_mut::<T>()?;
            x.chunks_exact_mut(n * n)
                .for_each(|x| kernels::exponential(x, n));
        });
    }
    copy::to_dtype(&memory, a.dtype())
}

/// The square root of Hermitian matrices without negative eigenvalues; those that there are count
/// as 0.
pub(crate) fn matrix_sqrth(a: &Tensor) -> Result<Tensor> {
    let n = check_square(a, "linalg.matrix_sqrth")?;
    check_matrix(a, "linalg.matrix_sqrth", "A")?;
    check_precision("linalg.matrix_sqrth", a)?;
    let (values, memory, info) = hermitian(a, false, true)?;
    check_errors(&info, "linalg.eigh", a.dim() == 2)?;
    let out = zeros(a, double(a.dtype()), &[n, n])?;
    if computes(a, &out) {
        with_double!(a.dtype(), T => {
            let (v, w, mut out) = (memory.elements::<T>()?, values.elements::<f64>()?, out.elements_mut::<T>()?);
            for (b, out) in out.chunks_exact_mut(n * n).enumerate() {
                for (k, v) in v[b * n * n..(b + 1) * n * n].chunks_exact(n).enumerate() {
                    let root = w[b * n + k].max(0.0).sqrt();
                    add_outer(out, n, root, v.iter().copied(), v.iter().map(|v| v.conj()));
                }
            }
        });
    }
    copy::to_dtype(&out, a.dtype())
}

/// `out[i][j] += factor x[i] y[j]`, rows of `n`.
fn add_outer<T: Field<Part = f64>>(
    out: &mut [T],
    n: usize,
    factor: f64,
    x: impl Iterator<Item = T>,
    y: impl Iterator<Item = T> + Clone,
) {
    for (row, x) in out.chunks_exact_mut(n).zip(x) {
        for (o, y) in row.iter_mut().zip(y.clone()) {
            *o = *o + (x * y).scaled(factor);
        }
    }
}

/// `a = u h`, `u` with orthonormal columns and `h` Hermitian without negative eigenvalues.
pub(crate) fn polar(a: &Tensor) -> Result<(Tensor, Tensor)> {
    check_matrix(a, "linalg.polar", "A")?;
    let (m, n) = shape(a);
    ensure!(
        m >= n,
        "linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices"
    );
    let (u, s, vh) = svd(a, false, true, None)?;
    let dtype = double(a.dtype());
    let (out, h) = (zeros(a, dtype, &[m, n])?, zeros(a, dtype, &[n, n])?);
    if computes(a, &out) {
        let (u, s, v) = (wide_columns(&u)?, wide(&s)?, wide(&vh)?);
        with_double!(a.dtype(), T => {
            let (u, s, v, mut out, mut h) = (u.elements::<T>()?, s.elements::<f64>()?, v.elements::<T>()?, out.elements_mut::<T>()?, h.elements_mut::<T>()?);
            for (b, (out, h)) in (out.chunks_exact_mut(m * n))
                .zip(h.chunks_exact_mut(n * n))
                .enumerate()
            {
                for k in 0..n {
                    let at = (b * n + k) * n;
                    let (u, v) = (&u[(b * n + k) * m..(b * n + k + 1) * m], &v[at..at + n]);
                    add_outer(out, n, 1.0, u.iter().copied(), v.iter().copied());
                    let back = v.iter().map(|v| v.conj());
                    add_outer(h, n, s[b * n + k], back, v.iter().copied());
                }
            }
        });
    }
    Ok((copy::to_dtype(&out, a.dtype())?, copy::to_dtype(&h, a.dtype())?))
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::ops::aten;

    /// Numbers without a pattern, in matrices.
    fn matrices(sizes: &[i64]) -> Tensor {
        let n: i64 = sizes.iter().product();
        let x: Vec<f64> = (0..n).map(|i| ((i * i + 7 * i + 3) as f64).sin() * 2.0).collect();
        Tensor::from_vec(x, -1).unwrap().view(sizes).unwrap()
    }

    fn near(a: &Tensor, b: &Tensor) {
        assert!(aten::allclose(a, b, 1e-9, 1e-9, false).unwrap(), "{a} {b}");
    }

    #[test]
    fn singular_vectors_make_the_matrix_again() {
        for sizes in [[2i64, 5, 3], [1, 3, 5], [1, 4, 4], [2, 1, 1]] {
            for full in [false, true] {
                let a = matrices(&sizes);
                let (u, s, vh) = aten::_linalg_svd(&a, full, true, None).unwrap();
                let k = s.sizes()[1];
                let left = aten::narrow(&u, -1, 0, k).unwrap();
                let scaled = aten::mul_tensor(&left, &s.unsqueeze(-2).unwrap()).unwrap();
                let right = aten::narrow(&vh, -2, 0, k).unwrap();
                near(&scaled.matmul(&right).unwrap(), &a);
                for (q, n) in [
                    (u.transpose(-2, -1).unwrap(), u.clone()),
                    (vh.clone(), vh.transpose(-2, -1).unwrap()),
                ] {
                    let eye = q.matmul(&n).unwrap();
                    let one = aten::diag_embed(
                        &aten::ones_like(&eye.select(-1, 0).unwrap(), None, None, None, None, None)
                            .unwrap(),
                        0,
                        -2,
                        -1,
                    )
                    .unwrap();
                    near(&eye, &one);
                }
            }
        }
    }

    #[test]
    fn vectors_of_a_matrix_without_rank_are_orthonormal_all_the_same() {
        let a = Tensor::from_vec([0f64; 12], -1).unwrap().view(&[4, 3]).unwrap();
        let (u, _, vh) = aten::_linalg_svd(&a, true, true, None).unwrap();
        let eye = u.transpose(0, 1).unwrap().matmul(&u).unwrap();
        near(&aten::trace(&eye).unwrap(), &Tensor::from_vec([4f64], 1).unwrap().squeeze().unwrap());
        assert_eq!((u.sizes(), vh.sizes()), (&[4i64, 4][..], &[3i64, 3][..]));
    }

    #[test]
    fn eigenvectors_are_only_stretched() {
        let a = matrices(&[2, 4, 4]);
        let (w, v) = aten::linalg_eig(&a).unwrap();
        let complex = a.to_dtype(crate::DType::C128).unwrap();
        let stretched = aten::mul_tensor(&v, &w.unsqueeze(-2).unwrap()).unwrap();
        let gone = aten::sub_tensor(&complex.matmul(&v).unwrap(), &stretched, 1.into()).unwrap();
        let most = aten::max(&aten::abs(&gone).unwrap()).unwrap().item::<f64>().unwrap();
        assert!(most < 1e-10, "{most}");
        let symmetric = aten::add_tensor(&a, &a.transpose(-2, -1).unwrap(), 1.into()).unwrap();
        for uplo in ["L", "U"] {
            let (w, v) = aten::_linalg_eigh(&symmetric, uplo, true).unwrap();
            let stretched = aten::mul_tensor(&v, &w.unsqueeze(-2).unwrap()).unwrap();
            near(&symmetric.matmul(&v).unwrap(), &stretched);
        }
    }
}
