//! Plans of discrete Fourier transforms along a line, of any length, in `f32` and `f64`: those of
//! [`rustfft`] and [`realfft`].
//!
//! Internal to `straightline`, whose runtime brings lines of tensors to the plans and keeps those that it
//! has made.
//!
//! ```
//! use straightline_fourier::{Complex, Plan, Precision, Transform};
//!
//! let Plan::Complex(plan) = f64::make(Transform::Forward, 2) else { unreachable!() };
//! let mut line = [Complex::new(1.0, 0.0), Complex::new(3.0, 0.0)];
//! plan.process(&mut line);
//! assert_eq!(line.map(|z| z.re), [4.0, -2.0]);
//! ```

pub use realfft::{ComplexToReal, FftNum, RealToComplex};
pub use rustfft::Fft;
pub use rustfft::num_complex::Complex;
pub use rustfft::num_traits;

use realfft::RealFftPlanner;
use rustfft::FftPlanner;
use std::fmt;
use std::sync::Arc;

/// What the elements of a line are and become.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the names say it
pub enum Transform {
    /// Complex to complex.
    Forward,
    /// Complex to complex, without dividing by the length.
    Inverse,
    /// Real to complex: as many elements of the result as `out` has.
    FromReal,
    /// The first half of a symmetric spectrum to the real signal of the length of `out`, not
    /// divided either.
    ToReal,
}

/// A transform of one length. It holds tables only, so that any number of threads may run it.
#[derive(Clone)]
#[allow(missing_docs)] // the names say it
pub enum Plan<T> {
    Complex(Arc<dyn Fft<T>>),
    FromReal(Arc<dyn RealToComplex<T>>),
    ToReal(Arc<dyn ComplexToReal<T>>),
}

impl<T> fmt::Debug for Plan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plan::Complex(_) => "Complex(..)",
            Plan::FromReal(_) => "FromReal(..)",
            Plan::ToReal(_) => "ToReal(..)",
        })
    }
}

/// `f32` or `f64`.
pub trait Precision: FftNum {
    /// The nearest number of this precision.
    fn of(x: f64) -> Self;

    /// The plan of a transform whose complex line, or real signal, has `n` elements.
    fn make(what: Transform, n: usize) -> Plan<Self>;
}

macro_rules! precision {
    ($($t:ident)*) => {$(
        impl Precision for $t {
            fn of(x: f64) -> Self {
                x as $t
            }

            fn make(what: Transform, n: usize) -> Plan<Self> {
                match what {
                    Transform::Forward => Plan::Complex(FftPlanner::new().plan_fft_forward(n)),
                    Transform::Inverse => Plan::Complex(FftPlanner::new().plan_fft_inverse(n)),
                    Transform::FromReal => {
                        Plan::FromReal(RealFftPlanner::new().plan_fft_forward(n))
                    }
                    Transform::ToReal => Plan::ToReal(RealFftPlanner::new().plan_fft_inverse(n)),
                }
            }
        }
    )*};
}
precision!(f32 f64);
