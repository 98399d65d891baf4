//! A complex number and its parts.

use crate::cpu::kernels::Strided;
use num_complex::Complex;
use straightline_passes::ir::Dims;

/// A part of a complex number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names say it
pub enum Part {
    Real,
    Imaginary,
}

/// The strides of either part, in elements of the real dtype.
pub(in crate::cpu::kernels) fn part_strides(a: &Strided<'_>) -> Dims {
    a.strides.iter().map(|s| s * 2).collect()
}

/// A part of each element of a complex tensor, as a real one.
pub(in crate::cpu::kernels) fn part<'a>(
    a: &Strided<'a>,
    part: Part,
    strides: &'a [i64],
) -> Strided<'a> {
    let dtype = a.dtype.to_real();
    let skip = match part {
        Part::Real => 0,
        Part::Imaginary => dtype.size(),
    };
    Strided { ptr: a.ptr.wrapping_add(skip), dtype, sizes: a.sizes, strides }
}

/// A complex number whose parts are computed with.
pub(in crate::cpu::kernels) trait Number: Copy + Sync {
    /// The same in double precision.
    fn wide(self) -> Complex<f64>;
    /// Rounded from double precision.
    fn narrow(wide: Complex<f64>) -> Self;
    /// The real part, of the dtype of the parts.
    type Part: Copy;
    /// A part rounded from double precision.
    fn part(wide: f64) -> Self::Part;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for Complex<$t> {
            type Part = $t;
            #[inline(always)]
            fn wide(self) -> Complex<f64> {
                Complex::new(self.re.into(), self.im.into())
            }
            #[inline(always)]
            fn narrow(wide: Complex<f64>) -> Self {
                Complex::new(wide.re as $t, wide.im as $t)
            }
            #[inline(always)]
            fn part(wide: f64) -> $t {
                wide as $t
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            /// By the larger part of the divisor, so that no square overflows.
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                let (a, b, c, d) = (self.re, self.im, other.re, other.im);
                if c.abs() >= d.abs() {
                    if c == 0.0 && d == 0.0 {
                        return Complex::new(a / c.abs(), b / d.abs());
                    }
                    let ratio = d / c;
                    let scale = 1.0 / (c + d * ratio);
                    Complex::new((a + b * ratio) * scale, (b - a * ratio) * scale)
                } else {
                    let ratio = c / d;
                    let scale = 1.0 / (c * ratio + d);
                    Complex::new((a * ratio + b) * scale, (b * ratio - a) * scale)
                }
            }
        }
    )*};
}
number!(f32, f64);
