//! Singular vectors and eigenvectors: they are settled up to a factor of size 1 each, and where
//! values are equal up to any rotation, so that what counts is not which they are but what they
//! make: the matrix again, of columns that are orthonormal.

use super::compare::{Tolerance, same_values};
use straightline::dispatch::Value;
use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor};

/// What the results of an operator are to the matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `u diag(s) v^H`, the last result being `v^H` or `v`.
    Singular { adjoint: bool },
    /// Eigenvalues and orthonormal eigenvectors of a matrix of which one triangle is read.
    Hermitian { upper: bool },
    /// Eigenvalues and eigenvectors of length 1.
    General,
}

impl Kind {
    /// Of a call of the operator on these arguments, `None` where its results have no vectors.
    pub(crate) fn of(op: &str, stack: &[Value]) -> Option<Kind> {
        let name = op.strip_prefix("aten::")?.split('.').next()?;
        let flag = |i: usize| !matches!(stack.get(i), Some(Value::Bool(false)));
        let upper = || matches!(stack.get(1), Some(Value::String(s)) if s.starts_with(['u', 'U']));
        match name {
            "_linalg_svd" if flag(2) => Some(Kind::Singular { adjoint: true }),
            "linalg_svd" => Some(Kind::Singular { adjoint: true }),
            "svd" if flag(2) => Some(Kind::Singular { adjoint: false }),
            "_linalg_eigh" if flag(2) => Some(Kind::Hermitian { upper: upper() }),
            "linalg_eigh" => Some(Kind::Hermitian { upper: upper() }),
            "linalg_eig" => Some(Kind::General),
            _ => None,
        }
    }

    /// Whether the result at this position consists of vectors.
    pub(crate) fn has_vectors(self, position: usize) -> bool {
        match self {
            Kind::Singular { .. } => position != 1,
            _ => position == 1,
        }
    }

    /// Whether the results are what the operator promises of the matrix.
    pub(crate) fn check(
        self,
        matrix: &Tensor,
        results: &[&Tensor],
        tol: Tolerance,
    ) -> std::result::Result<(), String> {
        let pairs = self.equations(matrix, results).map_err(|e| e.to_string())?;
        for (what, got, want) in pairs {
            let eps = match matrix.dtype().to_real() {
                DType::F64 => f64::EPSILON,
                _ => f64::from(f32::EPSILON),
            };
            let largest = match want.numel() {
                0 => continue,
                _ => aten::max(&aten::abs(&want).map_err(|e| e.to_string())?)
                    .and_then(|m| m.item::<f64>())
                    .map_err(|e| e.to_string())?,
            };
            let sizes = want.sizes().last().copied().unwrap_or(1) as f64;
            let tol = tol.raised(64.0 * sizes * eps * largest);
            same_values(&got, &want, tol).map_err(|e| format!("{what}: {e}"))?;
        }
        Ok(())
    }

    /// What has to be equal.
    fn equations(
        self,
        matrix: &Tensor,
        results: &[&Tensor],
    ) -> Result<Vec<(&'static str, Tensor, Tensor)>> {
        let wide = |t: &Tensor| t.to_dtype(DType::C128);
        let a = wide(matrix)?;
        let &[first, second, ..] = results else {
            return Ok(Vec::new());
        };
        let (first, second) = (wide(first)?, wide(second)?);
        Ok(match self {
            Kind::Singular { adjoint: is_adjoint } => {
                let third = wide(results[2])?;
                let (u, s) = (first, second);
                let vh = if is_adjoint { third } else { adjoint(&third)? };
                let k = s.sizes().last().copied().unwrap_or(0);
                let left = scaled(&aten::narrow(&u, -1, 0, k)?, &s)?;
                let made = left.matmul(&aten::narrow(&vh, -2, 0, k)?)?;
                let (uu, vv) = (adjoint(&u)?.matmul(&u)?, vh.matmul(&adjoint(&vh)?)?);
                let (one, other) = (identity(&uu)?, identity(&vv)?);
                vec![
                    ("what the factors make", made, a),
                    ("the left vectors' products", uu, one),
                    ("the right vectors' products", vv, other),
                ]
            }
            Kind::Hermitian { upper } => {
                let triangle = match upper {
                    true => adjoint(&aten::triu(&a, 0)?)?,
                    false => aten::tril(&a, 0)?,
                };
                let below = aten::tril(&triangle, -1)?;
                let diagonal = aten::sub_tensor(&triangle, &below, Scalar::Int(1))?;
                let both = aten::add_tensor(&below, &adjoint(&below)?, Scalar::Int(1))?;
                let real = wide(&aten::real(&diagonal)?)?;
                let whole = aten::add_tensor(&both, &real, Scalar::Int(1))?;
                let products = adjoint(&second)?.matmul(&second)?;
                let one = identity(&products)?;
                vec![
                    (
                        "the matrix times its vectors",
                        whole.matmul(&second)?,
                        scaled(&second, &first)?,
                    ),
                    ("the vectors' products", products, one),
                ]
            }
            Kind::General => {
                let squares = aten::mul_tensor(&second, &aten::conj_physical(&second)?)?;
                let lengths = aten::sum_dim_int_list(&squares, Some(&[-2]), false, None)?;
                let ones = aten::ones_like(&lengths, None, None, None, None, None)?;
                vec![
                    ("the matrix times its vectors", a.matmul(&second)?, scaled(&second, &first)?),
                    ("the vectors' lengths", lengths, ones),
                ]
            }
        })
    }
}

fn adjoint(t: &Tensor) -> Result<Tensor> {
    aten::conj_physical(&t.transpose(-2, -1)?)
}

/// The columns times these numbers.
fn scaled(t: &Tensor, by: &Tensor) -> Result<Tensor> {
    aten::mul_tensor(t, &aten::unsqueeze(by, -2)?)
}

/// Ones on the diagonal, in the shape of square matrices.
fn identity(like: &Tensor) -> Result<Tensor> {
    let n = like.sizes().last().copied().unwrap_or(0);
    let eye = aten::eye(n, Some(like.dtype()), None, None, None)?;
    aten::clone(&aten::expand(&eye, like.sizes(), false)?, None)
}

#[test]
fn vectors_that_make_another_matrix_are_found() {
    let a = straightline::tensor([[2.0, 1.0, 0.5], [1.0, -3.0, 0.25]]).expect("numbers");
    let a = a.to_dtype(DType::F64).expect("a dtype");
    let tol = Tolerance::of(&serde_json::Value::Null);
    let (u, s, vh) = aten::_linalg_svd(&a, true, true, None).expect("factors");
    let kind = Kind::Singular { adjoint: true };
    assert_eq!(kind.check(&a, &[&u, &s, &vh], tol), Ok(()));
    // another sign of a pair is as good, of one of them it is not
    let minus = |t: &Tensor| aten::neg(t).expect("a sign");
    assert_eq!(kind.check(&a, &[&minus(&u), &s, &minus(&vh)], tol), Ok(()));
    assert!(kind.check(&a, &[&minus(&u), &s, &vh], tol).is_err());
    // factors that make the matrix, but whose columns are no unit vectors
    let twice = aten::mul_scalar(&u, Scalar::Int(2)).expect("a product");
    let half = aten::mul_scalar(&s, Scalar::Float(0.5)).expect("a product");
    assert!(kind.check(&a, &[&twice, &half, &vh], tol).is_err());

    let square = a.matmul(&a.transpose(0, 1).expect("a view")).expect("a product");
    let (w, v) = aten::linalg_eigh(&square, "L").expect("eigenvalues");
    let kind = Kind::Hermitian { upper: false };
    assert_eq!(kind.check(&square, &[&w, &v], tol), Ok(()));
    assert!(kind.check(&square, &[&minus(&w), &v], tol).is_err());
    let (w, v) = aten::linalg_eig(&square).expect("eigenvalues");
    assert_eq!(Kind::General.check(&square, &[&w, &v], tol), Ok(()));
    assert!(Kind::General.check(&square, &[&v, &w], tol).is_err());
}
