//! Values out of tensors: one, rows, all.

use crate::error::{Error, Result};
use crate::tensor::{Element, Tensor};
use half::{bf16, f16};
use num_complex::Complex;
use std::panic::Location;
use straightline_catalog::Scalar;

/// What [`Tensor::item`] gives: a number of Rust's, or a [`Scalar`] of whichever kind the tensor
/// has.
///
/// A conversion keeps the value or fails. Floating-point types round to the nearest number that
/// they have; integers come from a floating-point element if it is whole, and have to fit; a real
/// number from a complex element if its imaginary part is 0; `bool` from 0 and 1.
#[diagnostic::on_unimplemented(
    message = "an element cannot be read as `{Self}`",
    label = "numbers, `bool`, complex numbers and `Scalar` can be read"
)]
pub trait Item: Sized {
    /// The value, if this type has it.
    fn of(value: Scalar) -> Option<Self>;
}

/// The real number, if it is one.
fn real(value: Scalar) -> Option<f64> {
    match value {
        Scalar::Complex(_, im) if im != 0.0 => None,
        value => Some(value.as_f64()),
    }
}

/// The whole number, if it is one.
fn whole(value: Scalar) -> Option<i64> {
    match value {
        Scalar::Bool(b) => Some(i64::from(b)),
        Scalar::Int(i) => Some(i),
        value => {
            let x = real(value)?;
            // 2^63 itself is no `i64`
            let fits = x >= i64::MIN as f64 && x < i64::MAX as f64;
            (fits && x.fract() == 0.0).then_some(x as i64)
        }
    }
}

macro_rules! items {
    ($($t:ty: |$v:ident| $from:expr;)*) => {$(
        impl Item for $t {
            fn of($v: Scalar) -> Option<$t> {
                $from
            }
        }
    )*};
}

items! {
    Scalar: |v| Some(v);
    f64: |v| real(v);
    f32: |v| real(v).map(|x| x as f32);
    f16: |v| real(v).map(|x| f16::from_f32(x as f32));
    bf16: |v| real(v).map(|x| bf16::from_f32(x as f32));
    i64: |v| whole(v);
    i32: |v| whole(v)?.try_into().ok();
    i16: |v| whole(v)?.try_into().ok();
    i8: |v| whole(v)?.try_into().ok();
    u64: |v| whole(v)?.try_into().ok();
    u32: |v| whole(v)?.try_into().ok();
    u16: |v| whole(v)?.try_into().ok();
    u8: |v| whole(v)?.try_into().ok();
    usize: |v| whole(v)?.try_into().ok();
    bool: |v| match whole(v)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    Complex<f64>: |v| {
        let (re, im) = v.as_complex();
        Some(Complex::new(re, im))
    };
    Complex<f32>: |v| {
        let (re, im) = v.as_complex();
        Some(Complex::new(re as f32, im as f32))
    };
}

impl Tensor {
    /// The only element of a one-element tensor, as a number of Rust's; [`Item`] says what
    /// converts.
    ///
    /// ```
    /// use straightline::{Scalar, tensor};
    /// let x = tensor([2.5])?;
    /// assert_eq!(x.item::<f32>()?, 2.5);
    /// let y: f64 = x.item()?;
    /// assert_eq!(y, 2.5);
    /// assert_eq!(x.item::<Scalar>()?, Scalar::Float(2.5));
    /// assert!(x.item::<i64>().is_err());
    /// assert_eq!(tensor(300)?.item::<i64>()?, 300);
    /// assert!(tensor(300)?.item::<u8>().is_err());
    /// assert!(tensor([1.0, 2.0])?.item::<f32>().is_err());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// More or fewer than one element; a value that `T` does not have; no data to read, as while a
    /// function is being captured.
    #[doc(alias = "to_scalar")]
    #[doc(alias = "into_scalar")]
    #[track_caller]
    pub fn item<T: Item>(&self) -> Result<T> {
        let value = crate::ops::aten::item(self)?;
        T::of(value).ok_or_else(|| {
            let what = std::any::type_name::<T>();
            Error::value(format!("item(): {value} is no `{what}`"))
                .with_location(Location::caller())
        })
    }

    /// The elements of a matrix, row by row.
    ///
    /// ```
    /// use straightline::tensor;
    /// let rows = tensor([[1.0, 2.0], [3.0, 4.0]])?.to_vec2::<f32>()?;
    /// assert_eq!(rows, [[1.0, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of dimensions than two; otherwise as [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_vec2<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        let [_, columns] = self.dims()?;
        Ok(rows(self.to_vec()?, self.sizes()[0], columns))
    }

    /// The elements of a tensor of three dimensions.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[[1, 2], [3, 4]]])?.to_vec3::<i64>()?;
    /// assert_eq!(x, [[[1, 2], [3, 4]]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of dimensions than three; otherwise as [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_vec3<T: Element>(&self) -> Result<Vec<Vec<Vec<T>>>> {
        let [planes, height, width] = self.dims()?;
        Ok(rows(rows(self.to_vec()?, planes * height, width), planes, height))
    }

    /// The elements one by one, in row-major order; [`Tensor::unbind`] gives the rows as tensors.
    ///
    /// ```
    /// use straightline::tensor;
    /// let mut sum = 0.0;
    /// for x in tensor([[1.0, 2.0], [3.0, 4.0]])?.iter::<f32>()? {
    ///     sum += x;
    /// }
    /// assert_eq!(sum, 10.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`]: the elements are copied when the iterator is made, and writes that
    /// come later are not seen.
    #[track_caller]
    pub fn iter<T: Element>(&self) -> Result<std::vec::IntoIter<T>> {
        Ok(self.to_vec()?.into_iter())
    }
}

/// So many rows, of so many elements each.
fn rows<T>(elements: Vec<T>, rows: i64, columns: i64) -> Vec<Vec<T>> {
    let mut elements = elements.into_iter();
    (0..rows).map(|_| elements.by_ref().take(columns as usize).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_or_refused() {
        assert_eq!(i64::of(Scalar::Float(2.0)), Some(2));
        assert_eq!(i64::of(Scalar::Float(2.5)), None);
        assert_eq!(i64::of(Scalar::Float(f64::NAN)), None);
        assert_eq!(i64::of(Scalar::Float(2f64.powi(63))), None);
        assert_eq!(i64::of(Scalar::Float(-(2f64.powi(63)))), Some(i64::MIN));
        assert_eq!(u8::of(Scalar::Int(-1)), None);
        assert_eq!(usize::of(Scalar::Bool(true)), Some(1));
        assert_eq!(bool::of(Scalar::Int(2)), None);
        assert_eq!(f64::of(Scalar::Complex(1.0, 0.0)), Some(1.0));
        assert_eq!(f64::of(Scalar::Complex(1.0, 1.0)), None);
        assert_eq!(f32::of(Scalar::Float(1e300)), Some(f32::INFINITY));
    }

    #[test]
    fn rows_of_empty_tensors() -> Result<()> {
        assert_eq!(Tensor::zeros([2, 0])?.to_vec2::<f32>()?, [[], []] as [[f32; 0]; 2]);
        let none = Tensor::zeros([2, 0, 3])?.to_vec3::<f32>()?;
        assert_eq!(none, [Vec::<Vec<f32>>::new(), Vec::new()]);
        assert!(Tensor::zeros([2])?.to_vec2::<f32>().is_err());
        Ok(())
    }
}
