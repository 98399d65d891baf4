//! Eigenvalues, singular values and what is made of them: least squares, square roots, polar factors; the exponential of a matrix.
//!
//! Eigenvalues are computed in `f64` whatever the dtype is, singular values in the dtype itself.

use super::common::needs_data;
use super::copy;
use super::dense::{check_kernel, slice, slice_mut, with_float};
use super::linalg::{batch, check_errors, check_matrix, columns, infos, of_columns, shape};
use super::view;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use straightline_passes::ir::{DType, Scalar};
use straightline_runtime::cpu::kernels::{indefinite, linalg, spectral};

fn check_square(a: &Tensor, name: &str) -> Result<usize> {
    if a.dim() < 2 {
        return Err(Error::runtime(format!(
            "{name}: The input tensor A must have at least 2 dimensions."
        )));
    }
    let (m, n) = shape(a);
    if m != n {
        return Err(Error::runtime(format!(
            "{name}: A must be batches of square matrices, but they are {m} by {n} matrices"
        )));
    }
    Ok(n)
}

/// The size of square matrices of a dtype that their kernel has.
fn square(a: &Tensor, name: &str, kernel: &str) -> Result<usize> {
    let n = check_square(a, name)?;
    check_kernel(kernel, a)?;
    Ok(n)
}

fn fresh(a: &Tensor, dtype: DType, extra: &[usize]) -> Result<Tensor> {
    let extra: Vec<i64> = extra.iter().map(|n| *n as i64).collect();
    Tensor::allocate_contiguous(dtype, a.device(), &[batch(a), &extra].concat())
}

/// [`fresh`] memory to add to.
fn zeros(a: &Tensor, dtype: DType, extra: &[usize]) -> Result<Tensor> {
    copy::fill_(&fresh(a, dtype, extra)?, Scalar::Int(0))
}

/// A tensor of no elements, in place of a result that is not wanted.
fn none(a: &Tensor, dtype: DType) -> Result<Tensor> {
    Tensor::allocate_contiguous(dtype, a.device(), &[0])
}

/// Fresh row-major memory in `f64`.
fn wide(a: &Tensor) -> Result<Tensor> {
    copy::clone_contiguous(&copy::to_dtype(a, DType::F64)?)
}

fn wide_columns(a: &Tensor) -> Result<Tensor> {
    wide(&view::transpose(a, -2, -1)?)
}

/// Values and vectors of symmetric matrices, in `f64`: vectors in the rows of the last two dimensions.
fn symmetric(a: &Tensor, upper: bool, vectors: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let n = shape(a).0;
    // the kernel reads the lower triangle of columns: of the rows it is the upper one
    let memory = if upper { wide(a)? } else { wide_columns(a)? };
    let (values, info) = (fresh(a, DType::F64, &[n])?, infos(a, &[])?);
    if values.storage().has_data() && n > 0 {
        // SAFETY: fresh row-major tensors of these dtypes.
        let (x, w, failed) = unsafe {
            (
                slice_mut::<f64>(&memory)?,
                slice_mut::<f64>(&values)?,
                slice_mut::<i32>(&info)?,
            )
        };
        let matrices = x.chunks_exact_mut(n * n).zip(w.chunks_exact_mut(n));
        for ((x, w), failed) in matrices.zip(failed) {
            // as LAPACK's, NaN gives NaN
            if x.iter().any(|x| !x.is_finite()) {
                x.fill(f64::NAN);
                w.fill(f64::NAN);
                continue;
            }
            *failed = spectral::symmetric(x, n, w, vectors);
        }
    }
    Ok((values, memory, info))
}

/// Eigenvalues, least first, and vectors of symmetric matrices of which one triangle is read.
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
    check_kernel("linalg_eigh_cpu", a)?;
    let (values, memory, info) = symmetric(a, upper, vectors)?;
    check_errors(&info, "linalg.eigh", a.dim() == 2)?;
    let of_dtype = |t: &Tensor| copy::to_dtype(t, a.dtype());
    let vectors = match vectors {
        true => of_columns(&of_dtype(&memory)?)?,
        false => none(a, a.dtype())?,
    };
    Ok((of_dtype(&values)?, vectors))
}

/// Eigenvalues and (where `vectors`) vectors of general matrices, complex.
fn general(a: &Tensor, vectors: bool) -> Result<(Tensor, Tensor)> {
    let n = check_square(a, "linalg.eig")?;
    if !a.dtype().is_floating() {
        return Err(match a.dtype().is_complex() {
            true => super::dense::no_kernel("linalg_eig_cpu", a.dtype()),
            false => Error::runtime(format!(
                "Unknown Complex ScalarType for {}",
                a.dtype().torch_name()
            )),
        });
    }
    check_kernel("linalg_eig_cpu", a)?;
    let values = fresh(a, DType::C128, &[n])?;
    let memory = fresh(a, DType::C128, &[n, if vectors { n } else { 0 }])?;
    let (input, info) = (wide_columns(a)?, infos(a, &[])?);
    if values.storage().has_data() && n > 0 {
        // SAFETY: fresh row-major tensors of these dtypes; a complex number is two reals.
        let (x, w, v, failed) = unsafe {
            (
                slice_mut::<f64>(&input)?,
                slice_mut::<[f64; 2]>(&values)?,
                slice_mut::<[f64; 2]>(&memory)?,
                slice_mut::<i32>(&info)?,
            )
        };
        if x.iter().any(|x| !x.is_finite()) {
            return Err(Error::runtime(
                "torch.linalg.eig: input tensor should not contain infs or NaNs.",
            ));
        }
        let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
        for (i, failed) in failed.iter_mut().enumerate() {
            let x = &mut x[i * n * n..(i + 1) * n * n];
            *failed = spectral::general(x, n, &mut re, &mut im, vectors);
            for (w, (re, im)) in w[i * n..].iter_mut().zip(re.iter().zip(&im)) {
                *w = [*re, *im];
            }
            if vectors {
                pairs(x, n, &im, &mut v[i * n * n..(i + 1) * n * n]);
            }
        }
    }
    check_errors(&info, "linalg.eig", a.dim() == 2)?;
    let of_dtype = |t: &Tensor| copy::to_dtype(t, a.dtype().to_complex());
    Ok((of_dtype(&values)?, of_columns(&of_dtype(&memory)?)?))
}

/// Complex columns of a kernel's real ones: those of a pair are `x + i y` and `x - i y`.
fn pairs(x: &[f64], n: usize, im: &[f64], v: &mut [[f64; 2]]) {
    let mut k = 0;
    while k < n {
        let pair = im[k] != 0.0 && k + 1 < n;
        for i in 0..n {
            let re = x[k * n + i];
            if pair {
                let im = x[(k + 1) * n + i];
                v[k * n + i] = [re, im];
                v[(k + 1) * n + i] = [re, -im];
            } else {
                v[k * n + i] = [re, 0.0];
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
    if driver.is_some() {
        return Err(Error::runtime(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
        ));
    }
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
    let values = fresh(a, a.dtype(), &[k])?;
    // columns of the long factor, and those of the short one
    let (u, v) = (
        fresh(a, a.dtype(), &[long, rows])?,
        fresh(a, a.dtype(), &[wanted(k), k])?,
    );
    if values.storage().has_data() {
        let batches = batch(a).iter().product::<i64>() as usize;
        let (x, s, u, v) = (memory, values.clone(), u.clone(), v.clone());
        with_float!(a.dtype(), "linalg_svd_cpu", T => {
            // SAFETY: the tensors are fresh, row-major and of this dtype.
            let (x, s, u, v) = unsafe {
                (
                    slice_mut::<T>(&x)?,
                    slice_mut::<T>(&s)?,
                    slice_mut::<T>(&u)?,
                    slice_mut::<T>(&v)?,
                )
            };
            if x.iter().any(|x| !x.is_finite()) {
                return Err(Error::linalg(
                    "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.",
                ));
            }
            for b in 0..batches {
                let x = &mut x[b * rows * k..(b + 1) * rows * k];
                let s = &mut s[b * k..(b + 1) * k];
                let v = &mut v[b * wanted(k) * k..(b + 1) * wanted(k) * k];
                linalg::singular_values(x, rows, k, v, s);
                if vectors {
                    let u = &mut u[b * long * rows..(b + 1) * long * rows];
                    let rank = s.iter().take_while(|s| **s > T::MIN_POSITIVE).count();
                    for j in 0..rank {
                        for i in 0..rows {
                            u[j * rows + i] = x[j * rows + i] / s[j];
                        }
                    }
                    linalg::complete(u, rows, rank, long);
                }
            }
            Ok::<(), Error>(())
        })?;
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
    if !a.dtype().is_floating() {
        return Err(match a.dtype().is_complex() {
            true => super::dense::no_kernel("linalg_matrix_exp", a.dtype()),
            false => Error::not_implemented(format!(
                "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {}",
                a.dtype().torch_name()
            )),
        });
    }
    // the transposed matrix has the transposed exponential: rows serve as well as columns
    let memory = wide(a)?;
    if memory.storage().has_data() && n > 0 {
        // SAFETY: fresh, row-major, of this dtype.
        let x = unsafe { slice_mut::<f64>(&memory)? };
        x.chunks_exact_mut(n * n)
            .for_each(|x| indefinite::exponential(x, n));
    }
    copy::to_dtype(&memory, a.dtype())
}

/// The square root of symmetric matrices without negative eigenvalues; those that there are count as 0.
pub(crate) fn matrix_sqrth(a: &Tensor) -> Result<Tensor> {
    let n = square(a, "linalg.matrix_sqrth", "linalg_matrix_sqrth")?;
    let (values, memory, info) = symmetric(a, false, true)?;
    check_errors(&info, "linalg.eigh", a.dim() == 2)?;
    let out = zeros(a, DType::F64, &[n, n])?;
    if out.storage().has_data() && n > 0 {
        // SAFETY: row-major tensors of this dtype, the result fresh, the others of this function alone.
        let (v, w, out) = unsafe {
            (
                slice::<f64>(&memory)?,
                slice::<f64>(&values)?,
                slice_mut::<f64>(&out)?,
            )
        };
        for (b, out) in out.chunks_exact_mut(n * n).enumerate() {
            for (k, v) in v[b * n * n..(b + 1) * n * n].chunks_exact(n).enumerate() {
                let root = w[b * n + k].max(0.0).sqrt();
                add_outer(out, n, root, v, v);
            }
        }
    }
    copy::to_dtype(&out, a.dtype())
}

/// `out[i][j] += factor x[i] y[j]`, rows of `n`.
fn add_outer(out: &mut [f64], n: usize, factor: f64, x: &[f64], y: &[f64]) {
    for (row, x) in out.chunks_exact_mut(n).zip(x) {
        row.iter_mut()
            .zip(y)
            .for_each(|(o, y)| *o += factor * x * y);
    }
}

/// `a = u h`, `u` with orthonormal columns and `h` symmetric without negative eigenvalues.
pub(crate) fn polar(a: &Tensor) -> Result<(Tensor, Tensor)> {
    check_matrix(a, "linalg.polar", "A")?;
    let (m, n) = shape(a);
    if m < n {
        return Err(Error::runtime(format!(
            "linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices"
        )));
    }
    let (u, s, vh) = svd(a, false, true, None)?;
    let (out, h) = (
        zeros(a, DType::F64, &[m, n])?,
        zeros(a, DType::F64, &[n, n])?,
    );
    if out.storage().has_data() && n > 0 {
        let (u, s, v) = (wide_columns(&u)?, wide(&s)?, wide(&vh)?);
        // SAFETY: row-major tensors of this dtype, all of this function alone.
        let (u, s, v, out, h) = unsafe {
            (
                slice::<f64>(&u)?,
                slice::<f64>(&s)?,
                slice::<f64>(&v)?,
                slice_mut::<f64>(&out)?,
                slice_mut::<f64>(&h)?,
            )
        };
        for (b, (out, h)) in (out.chunks_exact_mut(m * n))
            .zip(h.chunks_exact_mut(n * n))
            .enumerate()
        {
            for k in 0..n {
                let at = (b * n + k) * n;
                let (u, v) = (&u[(b * n + k) * m..(b * n + k + 1) * m], &v[at..at + n]);
                add_outer(out, n, 1.0, u, v);
                add_outer(h, n, s[b * n + k], v, v);
            }
        }
    }
    Ok((
        copy::to_dtype(&out, a.dtype())?,
        copy::to_dtype(&h, a.dtype())?,
    ))
}

/// What a driver of [`lstsq`] delivers beside the solution.
struct Driver {
    residuals: bool,
    rank: bool,
    values: bool,
}

/// The shortest of the vectors for which `a x` is nearest to `b`; squared distances, ranks and singular values as far as the driver of
/// LAPACK that is named computes them.
pub(crate) fn lstsq(
    a: &Tensor,
    b: &Tensor,
    rcond: Option<f64>,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let refuse = |text: String| Err(Error::runtime(format!("torch.linalg.lstsq: {text}")));
    if a.dim() < 2 {
        return refuse("input must have at least 2 dimensions.".into());
    }
    if b.dim() < 1 {
        return refuse("other must have at least 1 dimension.".into());
    }
    let vector = b.dim() == 1 || (a.dim() == b.dim() + 1 && a.sizes()[..b.dim()] == *b.sizes());
    if !vector && a.dim() != b.dim() && a.dim() < b.dim() {
        return refuse(format!(
            "input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1, but got {} and {}",
            a.dim(),
            b.dim()
        ));
    }
    if a.dtype() != b.dtype() {
        return refuse(format!(
            "Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
            a.dtype().torch_name(),
            b.dtype().torch_name()
        ));
    }
    let columns_of_b = match vector {
        true => view::unsqueeze(b, -1)?,
        false => b.clone(),
    };
    let (m, n) = shape(a);
    let (rows, r) = shape(&columns_of_b);
    if rows != m {
        let place = if vector { -1 } else { -2 };
        return refuse(format!("input.size(-2) should match other.size({place})"));
    }
    if batch(a) != batch(&columns_of_b) {
        return refuse("input.size(i) should match other.size(i) for all batch dimensions".into());
    }
    let gives = match driver.unwrap_or("gelsy") {
        "gels" => Driver {
            residuals: true,
            rank: false,
            values: false,
        },
        "gelsy" => Driver {
            residuals: false,
            rank: true,
            values: false,
        },
        "gelsd" | "gelss" => Driver {
            residuals: true,
            rank: true,
            values: true,
        },
        _ => {
            return refuse(
                "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)".into(),
            );
        }
    };
    if !matches!(a.dtype(), DType::F32 | DType::F64) {
        return Err(Error::runtime(
            "This function doesn't handle types other than float and double",
        ));
    }
    if gives.residuals && gives.rank && m > n {
        needs_data("linalg_lstsq", a)?;
    }
    let (u, s, vh) = svd(a, false, true, None)?;
    let k = m.min(n);
    let (memory, distances) = (
        // the columns lie in memory for the longer side, as LAPACK leaves them
        zeros(a, DType::F64, &[r, m.max(n)])?,
        fresh(a, DType::F64, &[r])?,
    );
    let ranks = fresh(a, DType::I64, &[])?;
    let mut full_rank = true;
    if memory.storage().has_data() {
        let (u, s, v) = (wide_columns(&u)?, wide(&s)?, wide(&vh)?);
        let b = wide_columns(&columns_of_b)?;
        // SAFETY: row-major tensors of these dtypes, all of this function alone.
        let (u, s, v, b, x, distances, ranks) = unsafe {
            (
                slice::<f64>(&u)?,
                slice::<f64>(&s)?,
                slice::<f64>(&v)?,
                slice::<f64>(&b)?,
                slice_mut::<f64>(&memory)?,
                slice_mut::<f64>(&distances)?,
                slice_mut::<i64>(&ranks)?,
            )
        };
        let epsilon = if a.dtype() == DType::F32 {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        };
        let rcond = rcond.unwrap_or(epsilon * m.max(n) as f64);
        for (i, rank) in ranks.iter_mut().enumerate() {
            let s = &s[i * k..(i + 1) * k];
            let least = rcond.max(0.0) * s.first().copied().unwrap_or(0.0);
            let used = match gives.rank {
                true => s.iter().take_while(|s| **s > least).count(),
                false => s.iter().take_while(|s| **s > 0.0).count(),
            };
            *rank = used as i64;
            full_rank &= !gives.rank || used == n;
            for c in 0..r {
                let b = &b[(i * r + c) * m..(i * r + c + 1) * m];
                let x = &mut x[(i * r + c) * m.max(n)..(i * r + c + 1) * m.max(n)];
                let mut left = b.to_vec();
                for j in 0..used {
                    let u = &u[(i * k + j) * m..(i * k + j + 1) * m];
                    let v = &v[(i * k + j) * n..(i * k + j + 1) * n];
                    let along: f64 = u.iter().zip(b).map(|(u, b)| u * b).sum();
                    for (x, v) in x.iter_mut().zip(v) {
                        *x += along / s[j] * v;
                    }
                    left.iter_mut().zip(u).for_each(|(l, u)| *l -= along * u);
                }
                distances[i * r + c] = left.iter().map(|l| l * l).sum();
            }
        }
    }
    let of_dtype = |t: &Tensor| copy::to_dtype(t, a.dtype());
    let solution = view::narrow(&of_columns(&of_dtype(&memory)?)?, -2, 0, n as i64)?;
    let solution = match vector {
        true => view::squeeze_dim(&solution, -1)?,
        false => solution,
    };
    let or_none = |wanted: bool, t: Tensor| if wanted { Ok(t) } else { none(a, t.dtype()) };
    Ok((
        solution,
        or_none(gives.residuals && m > n && full_rank, of_dtype(&distances)?)?,
        or_none(gives.rank, ranks)?,
        or_none(gives.values, s)?,
    ))
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::ops::aten;

    /// Numbers without a pattern, in matrices.
    fn matrices(sizes: &[i64]) -> Tensor {
        let n: i64 = sizes.iter().product();
        let x: Vec<f64> = (0..n)
            .map(|i| ((i * i + 7 * i + 3) as f64).sin() * 2.0)
            .collect();
        Tensor::from_vec(x).unwrap().view(sizes).unwrap()
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
        let a = Tensor::from_vec([0f64; 12]).unwrap().view(&[4, 3]).unwrap();
        let (u, _, vh) = aten::_linalg_svd(&a, true, true, None).unwrap();
        let eye = u.transpose(0, 1).unwrap().matmul(&u).unwrap();
        near(
            &aten::trace(&eye).unwrap(),
            &Tensor::from_vec([4f64]).unwrap().squeeze().unwrap(),
        );
        assert_eq!((u.sizes(), vh.sizes()), (&[4i64, 4][..], &[3i64, 3][..]));
    }

    #[test]
    fn eigenvectors_are_only_stretched() {
        let a = matrices(&[2, 4, 4]);
        let (w, v) = aten::linalg_eig(&a).unwrap();
        let complex = a.to_dtype(crate::DType::C128).unwrap();
        let stretched = aten::mul_tensor(&v, &w.unsqueeze(-2).unwrap()).unwrap();
        let gone = aten::sub_tensor(&complex.matmul(&v).unwrap(), &stretched, 1.into()).unwrap();
        let most = aten::max(&aten::abs(&gone).unwrap())
            .unwrap()
            .item::<f64>()
            .unwrap();
        assert!(most < 1e-10, "{most}");
        let symmetric = aten::add_tensor(&a, &a.transpose(-2, -1).unwrap(), 1.into()).unwrap();
        for uplo in ["L", "U"] {
            let (w, v) = aten::_linalg_eigh(&symmetric, uplo, true).unwrap();
            let stretched = aten::mul_tensor(&v, &w.unsqueeze(-2).unwrap()).unwrap();
            near(&symmetric.matmul(&v).unwrap(), &stretched);
        }
    }
}
