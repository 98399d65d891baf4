//! Special functions of `f64`: gamma and its kin, error functions, Bessel functions, and small ones of two operands.
//!
//! Each is computed from a published series, continued fraction or asymptotic expansion in the range where it converges
//! fast; narrower types are computed here as well and rounded. Values at poles and infinities are PyTorch's.
//!
//! | file | functions |
//! |---|---|
//! | `gamma` | `lgamma`, `digamma`, `polygamma`, Hurwitz's `zeta` |
//! | `incomplete` | the regularised incomplete gamma functions |
//! | `error` | `erfcx`, `erfinv`, `ndtri`, `log_ndtr`, `entr` |
//! | `bessel` | `i0`, `i1`, `j0`, `j1`, scaled and spherical forms |
//! | `elementary` | `sinc`, `logit`, `logaddexp`, `nextafter`, `gcd`, shifts and others |

mod bessel;
mod elementary;
mod error;
mod gamma;
mod incomplete;

pub use bessel::{i0, i0e, i1, i1e, j0, j1, spherical_j0};
pub use elementary::{
    copysign, fmax, fmin, frexp, gcd, heaviside, lcm, logaddexp, logaddexp2, logit, nextafter,
    nextafter_bf16, nextafter_f16, nextafter_f32, sinc,
};
pub use error::{entr, erfcx, erfinv, log_ndtr, ndtri};
pub use gamma::{digamma, lgamma, polygamma, zeta};
pub use incomplete::{lower as igamma, upper as igammac};

#[cfg(test)]
mod tests;
