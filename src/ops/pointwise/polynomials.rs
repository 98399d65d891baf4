//! Orthogonal polynomials: degree and place broadcast, as tensors or numbers.

use crate::error::Result;
use crate::ops::common::{broadcast, float_of, promote};
use crate::ops::pointwise::special::{number, unsupported, zip};
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};
use straightline_runtime::cpu::math::special as math;

/// `f(x, n)` in `f32` or `f64`.
fn polynomial(
    name: &str,
    x: &Tensor,
    n: &Tensor,
    f: fn(f64, i64, math::Precision) -> f64,
) -> Result<Tensor> {
    broadcast(&[x, n])?;
    let dtype = float_of(promote(&[x, n])?);
    let precision = match dtype {
        DType::F32 => math::Precision::Single,
        DType::F64 => math::Precision::Double,
        other => return Err(unsupported(name, other)),
    };
    // what is no degree counts as a negative one, as it does where PyTorch converts it
    let degree = |n: f64| if n.abs() < 9.2e18 { n as i64 } else { i64::MIN };
    zip(x, n, dtype, &|x, n| f(x, degree(n), precision))
}

macro_rules! polynomials {
    ($($name:ident $of_number:ident $at_number:ident = $f:expr),* $(,)?) => {$(
        pub(crate) fn $name(x: &Tensor, n: &Tensor) -> Result<Tensor> {
            polynomial(stringify!($name), x, n, $f)
        }
        pub(crate) fn $of_number(x: Scalar, n: &Tensor) -> Result<Tensor> {
            $name(&number(x, n)?, n)
        }
        pub(crate) fn $at_number(x: &Tensor, n: Scalar) -> Result<Tensor> {
            $name(x, &number(n, x)?)
        }
    )*};
}

polynomials!(
    chebyshev_t chebyshev_t_of chebyshev_t_at = math::chebyshev_t,
    chebyshev_u chebyshev_u_of chebyshev_u_at = math::chebyshev_u,
    chebyshev_v chebyshev_v_of chebyshev_v_at = math::chebyshev_v,
    chebyshev_w chebyshev_w_of chebyshev_w_at = math::chebyshev_w,
    shifted_t shifted_t_of shifted_t_at = math::shifted_chebyshev_t,
    shifted_u shifted_u_of shifted_u_at = math::shifted_chebyshev_u,
    shifted_v shifted_v_of shifted_v_at = math::shifted_chebyshev_v,
    shifted_w shifted_w_of shifted_w_at = math::shifted_chebyshev_w,
    hermite_h hermite_h_of hermite_h_at = math::hermite_h,
    hermite_he hermite_he_of hermite_he_at = math::hermite_he,
    laguerre_l laguerre_l_of laguerre_l_at = math::laguerre_l,
    legendre_p legendre_p_of legendre_p_at = math::legendre_p,
);
