//! Special functions of `f64`: gamma and its kin, error functions, Bessel functions, and small ones
//! of two operands.
//!
//! Each is computed from a published series, continued fraction or asymptotic expansion in the
//! range where it converges fast; narrower types are computed here as well and rounded. Values at
//! poles and infinities are PyTorch's.
//!
//! | file | functions |
//! |---|---|
//! | `gamma` | `lgamma`, `digamma`, `polygamma`, Hurwitz's `zeta` |
//! | `incomplete` | the regularised incomplete gamma functions |
//! | `error` | `erfcx`, `erfinv`, `ndtri`, `log_ndtr`, `entr` |
//! | `bessel` | `i0`, `i1`, `j0`, `j1`, scaled and spherical forms |
//! | `bessel_second` | `y0`, `y1`, `k0`, `k1`, scaled forms; Airy's function |
//! | `polynomials` | Chebyshev's, Hermite's, Laguerre's, Legendre's |
//! | `elementary` | `sinc`, `logit`, `logaddexp`, `nextafter`, `gcd`, shifts and others |

mod bessel;
mod bessel_second;
mod elementary;
mod error;
mod gamma;
mod incomplete;
mod polynomials;

pub use bessel::{i0, i0e, i1, i1e, j0, j1, spherical_j0};
pub use bessel_second::{airy_ai, k0, k0e, k1, k1e, y0, y1};
pub use elementary::{
    copysign, fmax, fmin, frexp, gcd, heaviside, lcm, logaddexp, logaddexp2, logit, nextafter,
    nextafter_bf16, nextafter_f16, nextafter_f32, sinc,
};
pub use error::{entr, erfcx, erfinv, log_ndtr, ndtri};
pub use gamma::{digamma, lgamma, polygamma, polygamma_of_single, zeta};
pub use incomplete::{lower as igamma, upper as igammac};
pub use polynomials::{
    Precision, chebyshev_t, chebyshev_u, chebyshev_v, chebyshev_w, hermite_h, hermite_he,
    laguerre_l, legendre_p, shifted_chebyshev_t, shifted_chebyshev_u, shifted_chebyshev_v,
    shifted_chebyshev_w,
};

#[cfg(test)]
mod tests;
