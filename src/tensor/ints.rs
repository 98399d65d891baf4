//! Argument types for sizes, dimensions and shifts: lists of integers in Rust's forms.

use straightline_catalog::Dims;

mod sealed {
    pub trait Sealed {}
}

/// An integer type that sizes and dimensions may have.
///
/// Sealed; implemented for `i64`, `i32`, `i16`, `i8`, `usize`, `u64`, `u32`, `u16` and `u8`.
pub trait Int: sealed::Sealed + Copy {
    /// The number; the largest `i64` if it is larger, which no size can be.
    fn to_i64(self) -> i64;
}

macro_rules! int {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}

        impl Int for $t {
            #[inline]
            #[allow(clippy::allow_attributes, clippy::unnecessary_fallible_conversions, clippy::useless_conversion)]
            fn to_i64(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )*};
}
int!(i64, i32, i16, i8, usize, u64, u32, u16, u8);

/// A dimension, or `None` for the whole tensor: any [`Int`], or an `Option<i64>`.
///
/// ```
/// use straightline::tensor;
/// let x = tensor([[1.0, 3.0], [0.0, 2.0]])?;
/// let last = x.dim() - 1;
/// assert_eq!(x.argmax(last)?.shape(), [2]);
/// assert_eq!(x.argmax(Some(0))?.shape(), [2]);
/// assert_eq!(x.argmax(None)?.dim(), 0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no dimension",
    label = "a dimension is an integer, or `None` for the whole tensor"
)]
pub trait OptionalInt: sealed::Sealed {
    /// The number, if there is one.
    fn to_option(self) -> Option<i64>;
}

// for one integer type only, so that a bare `None` is unambiguous
impl sealed::Sealed for Option<i64> {}

impl OptionalInt for Option<i64> {
    #[inline]
    fn to_option(self) -> Option<i64> {
        self
    }
}

macro_rules! optional_int {
    ($($t:ty),*) => {$(
        impl OptionalInt for $t {
            #[inline]
            fn to_option(self) -> Option<i64> {
                Some(self.to_i64())
            }
        }
    )*};
}
optional_int!(i64, i32, i16, i8, usize, u64, u32, u16, u8);

/// Sizes, dimensions, repeats or shifts: one integer, a tuple, an array, a slice or a `Vec` of
/// them, or `()` for none.
///
/// ```
/// use straightline::Tensor;
/// let x = Tensor::arange(0..6)?;
/// let (rows, columns) = (2usize, 3u8);
/// for y in [x.reshape([2, 3])?, x.reshape((rows, columns))?, x.reshape(vec![2, -1])?, x.reshape(&[2, 3][..])?] {
///     assert_eq!(y.sum_dim(1)?.to_vec::<i64>()?, [3, 12]);
/// }
/// assert_eq!(Tensor::full((), 1.5)?.dim(), 0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of integers",
    label = "sizes and dimensions are an integer, or a tuple, an array, a slice or a `Vec` of integers"
)]
pub trait Ints {
    /// The integers.
    fn ints(&self) -> Dims;
}

impl<N: Int> Ints for N {
    #[inline]
    fn ints(&self) -> Dims {
        Dims::from_slice(&[self.to_i64()])
    }
}

macro_rules! lists {
    ($($ty:ty $(, const $k:ident)?;)*) => {$(
        impl<N: Int $(, const $k: usize)?> Ints for $ty {
            #[inline]
            fn ints(&self) -> Dims {
                self.iter().map(|n| n.to_i64()).collect()
            }
        }
    )*};
}
lists! {
    &[N];
    [N; K], const K;
    &[N; K], const K;
    Vec<N>;
    &Vec<N>;
}

impl Ints for Dims {
    #[inline]
    fn ints(&self) -> Dims {
        self.clone()
    }
}

impl Ints for &Dims {
    #[inline]
    fn ints(&self) -> Dims {
        (*self).clone()
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)*;)*) => {$(
        impl<$($name: Int),*> Ints for ($($name,)*) {
            #[inline]
            fn ints(&self) -> Dims {
                Dims::from_slice(&[$(self.$index.to_i64()),*])
            }
        }
    )*};
}
tuples! {
    ;
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

/// How [`Tensor::split`](super::Tensor::split) cuts.
#[derive(Clone, Debug)]
pub enum Split {
    /// Into parts of this size.
    Each(i64),
    /// Into parts of these sizes.
    Sizes(Dims),
}

/// The parts of a dimension: an integer for the size of each, or an array, a slice or a `Vec` of
/// their sizes.
///
/// See [`Tensor::split`](super::Tensor::split).
pub trait Sections {
    /// How to cut.
    #[doc(hidden)]
    fn sections(&self) -> Split;
}

impl<N: Int> Sections for N {
    fn sections(&self) -> Split {
        Split::Each(self.to_i64())
    }
}

macro_rules! sections {
    ($($ty:ty $(, const $k:ident)? ;)*) => {$(
        impl<N: Int $(, const $k: usize)?> Sections for $ty {
            fn sections(&self) -> Split {
                Split::Sizes(self.ints())
            }
        }
    )*};
}
sections! {
    &[N];
    [N; K], const K;
    &[N; K], const K;
    Vec<N>;
    &Vec<N>;
}
