use super::{Checks, First, Second, complex, numbers};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

const ONE: Scalar = Scalar::Int(1);

/// A Hermitian matrix, from any.
fn hermitian(a: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, &aten::conj(&aten::transpose_int(a, -2, -1)?)?, ONE)
}

/// A Hermitian matrix with positive eigenvalues, from any.
fn positive(a: &Tensor) -> Result<Tensor> {
    let squared = aten::matmul(a, &aten::conj(&aten::transpose_int(a, -2, -1)?)?)?;
    let n = a.sizes()[a.dim() - 2];
    let one = aten::eye(n, Some(a.dtype()), None, None, None)?;
    aten::add_tensor(&squared, &one, ONE)
}

/// A matrix that is far from singular, from any.
fn regular(a: &Tensor) -> Result<Tensor> {
    let n = a.sizes()[a.dim() - 2];
    let one = aten::eye(n, Some(a.dtype()), None, None, None)?;
    aten::add_tensor(a, &one, Scalar::Float(1.5))
}

/// What does not depend on the phases of vectors.
fn phaseless(v: &Tensor) -> Result<Tensor> {
    aten::abs(v)
}

#[test]
fn solutions() {
    let mut c = Checks::default();
    c.of_both("inv", Second, &[&[2, 3, 3]], |x| Ok(vec![aten::linalg_inv(&regular(&x[0])?)?]));
    c.of_both("det", Second, &[&[2, 3, 3]], |x| Ok(vec![aten::linalg_det(&regular(&x[0])?)?]));
    c.of("det of columns", First, &[&[3, 3]], |x| Ok(vec![aten::linalg_det(&aten::t(&x[0])?)?]));
    c.at(
        "det of a singular matrix",
        Second,
        vec![Tensor::from_vec([1.0, 2.0, 2.0, 4.0], [2, 2]).unwrap()],
        |x| Ok(vec![aten::linalg_det(&x[0])?]),
    );
    c.of_both("slogdet", Second, &[&[2, 3, 3]], |x| {
        let (sign, log) = aten::linalg_slogdet(&regular(&x[0])?)?;
        match sign.dtype().is_complex() {
            true => Ok(vec![sign, log]),
            false => Ok(vec![log]),
        }
    });
    for (left, b) in [(true, &[3i64, 2] as &[i64]), (false, &[2, 3]), (true, &[3])] {
        c.of_both(&format!("solve {left} {b:?}"), Second, &[&[3, 3], b], |x| {
            Ok(vec![aten::linalg_solve(&regular(&x[0])?, &x[1], left)?])
        });
    }
    for upper in [true, false] {
        for (left, unit) in [(true, false), (true, true), (false, false)] {
            let b: &[i64] = if left { &[3, 2] } else { &[2, 3] };
            let name = format!("solve_triangular {upper} {left} {unit}");
            c.of_both(&name, Second, &[&[3, 3], b], |x| {
                let a = regular(&x[0])?;
                Ok(vec![aten::linalg_solve_triangular(&a, &x[1], upper, left, unit)?])
            });
        }
        for transpose in [true, false] {
            let name = format!("triangular_solve {upper} {transpose}");
            c.of_both(&name, Second, &[&[3, 2], &[3, 3]], |x| {
                let a = regular(&x[1])?;
                Ok(vec![aten::triangular_solve(&x[0], &a, upper, transpose, false)?.0])
            });
        }
        let triangle = move |x: &Tensor| match upper {
            true => aten::triu(x, 0),
            false => aten::tril(x, 0),
        };
        c.of_both(&format!("cholesky_solve {upper}"), Second, &[&[3, 2], &[3, 3]], |x| {
            Ok(vec![aten::cholesky_solve(&x[0], &triangle(&regular(&x[1])?)?, upper)?])
        });
        c.of_both(&format!("cholesky_inverse {upper}"), Second, &[&[3, 3]], |x| {
            Ok(vec![aten::cholesky_inverse(&triangle(&regular(&x[0])?)?, upper)?])
        });
    }
    for sizes in [&[3i64, 2] as &[i64], &[2, 3]] {
        c.of_both(&format!("pinv {sizes:?}"), Second, &[sizes], |x| {
            Ok(vec![aten::linalg_pinv_atol_rtol_float(&x[0], None, None, false)?])
        });
    }
    c.of_both("lstsq", First, &[&[4, 2], &[4, 3]], |x| {
        let (x, residuals, _, _) = aten::linalg_lstsq(&x[0], &x[1], None, None)?;
        Ok(vec![x, residuals])
    });
    c.done();
}

#[test]
fn factors() {
    let mut c = Checks::default();
    for upper in [true, false] {
        c.of_both(&format!("cholesky {upper}"), Second, &[&[2, 3, 3]], |x| {
            Ok(vec![aten::linalg_cholesky(&positive(&x[0])?, upper)?])
        });
    }
    for sizes in [&[3i64, 3] as &[i64], &[4, 2], &[2, 4]] {
        c.of_both(&format!("lu {sizes:?}"), Second, &[sizes], |x| {
            let (_, l, u) = aten::linalg_lu(&x[0], true)?;
            Ok(vec![l, u])
        });
        c.of_both(&format!("lu_factor {sizes:?}"), Second, &[sizes], |x| {
            Ok(vec![aten::linalg_lu_factor(&x[0], true)?.0])
        });
        c.of_both(&format!("lu_unpack {sizes:?}"), Second, &[sizes], |x| {
            let pivots = Tensor::from_slice(&[1, 2, 3][..sizes[0].min(sizes[1]) as usize], -1)?;
            let pivots = aten::to_dtype(&pivots, DType::I32, false, false, None)?;
            let (_, l, u) = aten::lu_unpack(&x[0], &pivots, true, true)?;
            Ok(vec![l, u])
        });
        c.of(&format!("qr {sizes:?}"), Second, &[sizes], |x| {
            let (q, r) = aten::linalg_qr(&x[0], "reduced")?;
            Ok(vec![q, r])
        });
        c.of_complex(&format!("qr {sizes:?}"), Second, &[sizes], |x| {
            let (q, r) = aten::linalg_qr(&x[0], "reduced")?;
            Ok(vec![q, r])
        });
    }
    c.of("qr, one of two", First, &[&[2, 3]], |x| {
        Ok(vec![aten::linalg_qr(&x[0], "complete")?.0, aten::linalg_qr(&x[0], "reduced")?.1])
    });
    for (left, adjoint) in [(true, true), (true, false), (false, true), (false, false)] {
        let name = format!("lu_solve {left} {adjoint}");
        let b: &[i64] = if left { &[3, 2] } else { &[2, 3] };
        c.of_both(&name, Second, &[&[3, 3], b], |x| {
            let (lu, pivots) = aten::linalg_lu_factor(&regular(&x[0])?, true)?;
            Ok(vec![aten::linalg_lu_solve(&lu, &pivots, &x[1], left, adjoint)?])
        });
    }
    for sizes in [&[4i64, 3] as &[i64], &[3, 3]] {
        c.of_both(&format!("householder_product {sizes:?}"), Second, &[sizes, &[2]], |x| {
            Ok(vec![aten::linalg_householder_product(&x[0], &x[1])?])
        });
    }
    for (left, transpose) in [(true, true), (true, false), (false, true), (false, false)] {
        let name = format!("ormqr {left} {transpose}");
        let other: &[i64] = if left { &[4, 2] } else { &[2, 4] };
        c.of_both(&name, Second, &[&[4, 2], &[2], other], |x| {
            Ok(vec![aten::ormqr(&x[0], &x[1], &x[2], left, transpose)?])
        });
    }
    c.done();
}

#[test]
fn spectra() {
    let mut c = Checks::default();
    c.of_both("eigvalsh", Second, &[&[3, 3]], |x| {
        Ok(vec![aten::linalg_eigvalsh(&hermitian(&x[0])?, "L")?])
    });
    c.of_both("eigh", Second, &[&[2, 3, 3]], |x| {
        let (l, v) = aten::linalg_eigh(&hermitian(&x[0])?, "L")?;
        Ok(vec![l, phaseless(&v)?])
    });
    c.of_both("eigvals", First, &[&[3, 3]], |x| Ok(vec![aten::linalg_eigvals(&x[0])?]));
    c.of_both("eig", First, &[&[3, 3]], |x| {
        let (l, v) = aten::linalg_eig(&x[0])?;
        Ok(vec![l, phaseless(&v)?])
    });
    for sizes in [&[3i64, 3] as &[i64], &[4, 2], &[2, 4]] {
        c.of_both(&format!("svdvals {sizes:?}"), Second, &[sizes], |x| {
            Ok(vec![aten::linalg_svdvals(&x[0], None)?])
        });
        c.of_both(&format!("svd {sizes:?}"), Second, &[sizes], |x| {
            let (u, s, vh) = aten::linalg_svd(&x[0], false, None)?;
            let half = aten::mul_tensor(&u, &aten::unsqueeze(&aten::sqrt(&s)?, -2)?)?;
            Ok(vec![phaseless(&u)?, s, phaseless(&vh)?, aten::matmul(&half, &vh)?])
        });
        c.of(&format!("svd, one of two {sizes:?}"), First, &[sizes], |x| {
            let (u, _, _) = aten::linalg_svd(&x[0], false, None)?;
            let (_, _, vh) = aten::linalg_svd(&x[0], false, None)?;
            Ok(vec![u, vh])
        });
    }
    c.of_both("matrix_exp", Second, &[&[2, 2, 2]], |x| Ok(vec![aten::linalg_matrix_exp(&x[0])?]));
    c.of_both("matrix_sqrth", Second, &[&[3, 3]], |x| {
        Ok(vec![aten::linalg_matrix_sqrth(&positive(&x[0])?)?])
    });
    for sizes in [&[3i64, 3] as &[i64], &[4, 2]] {
        c.of_both(&format!("polar {sizes:?}"), Second, &[sizes], |x| {
            let (u, h) = aten::linalg_polar(&x[0])?;
            Ok(vec![u, h])
        });
    }
    c.done();
}

#[test]
fn undetermined_phases_are_refused() {
    let a = hermitian(&complex(&[3, 3], 0)).unwrap().requires_grad_(true).unwrap();
    let (_, v) = aten::linalg_eigh(&a, "L").unwrap();
    let parts = aten::sum(&aten::imag(&v).unwrap(), None).unwrap();
    let e = parts.backward().unwrap_err();
    assert!(e.to_string().contains("ill-defined"), "{e}");
}

#[test]
fn gradients_lie_as_their_operands_do() {
    let row = numbers(&[3, 2], 0).requires_grad_(true).unwrap();
    let column = numbers(&[4, 2], 1).t().unwrap().detach().unwrap();
    let column = column.requires_grad_(true).unwrap();
    let out = aten::sum(&aten::mm(&row, &column).unwrap(), None).unwrap();
    let grads = crate::autograd::grad(&[out], &[row.clone(), column.clone()]).unwrap();
    assert_eq!(grads[0].strides(), row.strides());
    assert_eq!(grads[1].strides(), column.strides());
}
