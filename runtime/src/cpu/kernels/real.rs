//! Float elements as numbers: for kernels whose time is in memory or in rare use, written once for
//! all float types.

use ::half::{bf16, f16};

/// An element of a float dtype, computed with in `f64` and rounded once.
pub trait Real: Copy + Send + Sync + 'static {
    /// The value.
    fn wide(self) -> f64;
    /// The nearest element.
    fn narrow(x: f64) -> Self;
}

macro_rules! real {
    ($($t:ty: $wide:expr, $narrow:expr;)*) => {$(
        impl Real for $t {
            #[inline(always)]
            fn wide(self) -> f64 {
                ($wide)(self)
            }
            #[inline(always)]
            fn narrow(x: f64) -> Self {
                ($narrow)(x)
            }
        }
    )*};
}
real! {
    f32: f64::from, |x| x as f32;
    f64: |x| x, |x| x;
    f16: f16::to_f64, |x| f16::from_f32(x as f32);
    bf16: bf16::to_f64, |x| bf16::from_f32(x as f32);
}
