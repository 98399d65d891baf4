//! Comparing tensors, for tests: [`assert_close`] and [`Closeness`].

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;
use num_complex::Complex;
use std::fmt;
use std::panic::Location;
use straightline_catalog::DType;

#[doc(hidden)]
pub use crate::tensor::watch::gives_back_early;

/// Fails unless two tensors have the same shape, dtype and device and close values:
/// `torch.testing.assert_close`.
///
/// Values are close where `|actual - expected| <= atol + rtol * |expected|`; NaN is close to
/// nothing, and infinities to themselves. The tolerances are those of the dtype, the larger ones
/// where dtypes differ and may ([`Closeness`]):
///
/// | dtype | `rtol` | `atol` |
/// |---|---|---|
/// | `f16` | 1e-3 | 1e-5 |
/// | `bf16` | 1.6e-2 | 1e-5 |
/// | `f32`, `c64`, quantized | 1.3e-6 | 1e-5 |
/// | `f64`, `c128` | 1e-7 | 1e-7 |
/// | integers, `bool` | 0 | 0 |
///
/// ```
/// use straightline::{assert_close, tensor};
/// let x = tensor([1.0, 2.0, 3.0])?;
/// assert_close(&x.exp()?.log()?, &x)?;
/// let error = assert_close(&tensor([1.0, 2.5, 3.0])?, &x).unwrap_err();
/// assert!(error.to_string().contains("1 of 3 elements differ (33.3 %)"));
/// assert!(error.to_string().contains("0.5 at [1]"));
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NotClose`], which says how many elements differ, by how much and where;
/// [`ErrorKind::Shape`], [`ErrorKind::DType`] and [`ErrorKind::Device`] where these differ.
#[track_caller]
pub fn assert_close(actual: &Tensor, expected: &Tensor) -> Result<()> {
    Closeness::new().check(actual, expected)
}

/// How close is close, where [`assert_close`]'s defaults will not do.
///
/// ```
/// use straightline::testing::Closeness;
/// use straightline::tensor;
/// let (x, y) = (tensor([1.0, f32::NAN])?, tensor([1.001, f32::NAN])?);
/// Closeness::new().rtol(1e-2).equal_nan().check(&x, &y)?;
/// assert!(Closeness::new().rtol(1e-2).check(&x, &y).is_err());
/// Closeness::new().any_dtype().check(&tensor([1])?, &tensor([1.0])?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Closeness {
    rtol: Option<f64>,
    atol: Option<f64>,
    equal_nan: bool,
    any_dtype: bool,
    any_device: bool,
}

impl Closeness {
    /// The defaults.
    pub fn new() -> Closeness {
        Closeness::default()
    }

    /// With a tolerance relative to what is expected.
    pub fn rtol(mut self, rtol: f64) -> Closeness {
        self.rtol = Some(rtol);
        self
    }

    /// With an absolute tolerance.
    pub fn atol(mut self, atol: f64) -> Closeness {
        self.atol = Some(atol);
        self
    }

    /// NaN is close to NaN.
    pub fn equal_nan(mut self) -> Closeness {
        self.equal_nan = true;
        self
    }

    /// Dtypes may differ.
    pub fn any_dtype(mut self) -> Closeness {
        self.any_dtype = true;
        self
    }

    /// Devices may differ.
    pub fn any_device(mut self) -> Closeness {
        self.any_device = true;
        self
    }

    /// Fails unless the tensors are close.
    ///
    /// # Errors
    /// As [`assert_close`].
    #[track_caller]
    pub fn check(&self, actual: &Tensor, expected: &Tensor) -> Result<()> {
        let at = Location::caller();
        self.compare(actual, expected).map_err(|e| e.with_location(at))
    }

    fn compare(&self, actual: &Tensor, expected: &Tensor) -> Result<()> {
        let (a, b) = (actual.sizes(), expected.sizes());
        ensure_shape!(a == b, "the sizes are {a:?}, not {b:?}");
        let (a, b) = (actual.dtype(), expected.dtype());
        ensure_dtype!(a == b || self.any_dtype, "the dtype is {a}, not {b}");
        let (a, b) = (actual.device(), expected.device());
        ensure_device!(a == b || self.any_device, "the device is `{a}`, not `{b}`");
        let defaults = |t: &Tensor| tolerances(t.dtype());
        let ((ra, aa), (rb, ab)) = (defaults(actual), defaults(expected));
        let (rtol, atol) = (self.rtol.unwrap_or(ra.max(rb)), self.atol.unwrap_or(aa.max(ab)));
        let (left, right) = (numbers(actual)?, numbers(expected)?);
        let found = differences(&left, &right, rtol, atol, self.equal_nan);
        let Some(found) = found else {
            return Ok(());
        };
        let place =
            |(value, at): (f64, usize)| Difference { value, index: position(at, actual.sizes()) };
        Err(Error::new(ErrorKind::NotClose(Box::new(Mismatch {
            differing: found.differing,
            elements: left.len(),
            absolute: place(found.absolute),
            relative: place(found.relative),
            rtol,
            atol,
        }))))
    }
}

/// In what two tensors differ.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Mismatch {
    /// How many elements are not close.
    pub differing: usize,
    /// How many there are.
    pub elements: usize,
    /// The greatest `|actual - expected|` among those that are not close.
    pub absolute: Difference,
    /// The greatest `|actual - expected| / |expected|` among them.
    pub relative: Difference,
    /// The relative tolerance.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
}

/// A difference between two elements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// How great it is; NaN where one of the elements is.
    pub value: f64,
    /// Where it is.
    pub index: Vec<i64>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.value, self.index)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.differing as f64 / self.elements as f64;
        write!(
            f,
            "the tensors are not close: {} of {} elements differ ({percent:.1} %)\n  \
             greatest absolute difference: {} (allowed: {:e})\n  \
             greatest relative difference: {} (allowed: {:e})",
            self.differing, self.elements, self.absolute, self.atol, self.relative, self.rtol
        )
    }
}

/// The tolerances `(rtol, atol)` of a dtype.
fn tolerances(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        DType::F32 | DType::C64 | DType::QInt8 | DType::QUInt8 | DType::QInt32 => (1.3e-6, 1e-5),
        DType::F64 | DType::C128 => (1e-7, 1e-7),
        DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => (0.0, 0.0),
    }
}

/// The elements, with all their bits: of integers beyond 2^53 the difference has to be exact.
enum Numbers {
    Whole(Vec<i64>),
    Complex(Vec<Complex<f64>>),
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Numbers::Whole(v) => v.len(),
            Numbers::Complex(v) => v.len(),
        }
    }

    fn complex(&self, i: usize) -> Complex<f64> {
        match self {
            Numbers::Whole(v) => Complex::new(v[i] as f64, 0.0),
            Numbers::Complex(v) => v[i],
        }
    }
}

fn numbers(t: &Tensor) -> Result<Numbers> {
    let dtype = t.dtype();
    if dtype.is_quantized() {
        return numbers(&crate::ops::aten::dequantize_self(t)?);
    }
    if !dtype.is_floating() && !dtype.is_complex() {
        return Ok(Numbers::Whole(t.to_dtype(DType::I64)?.to_vec()?));
    }
    Ok(Numbers::Complex(t.to_dtype(DType::C128)?.to_vec()?))
}

struct Found {
    differing: usize,
    absolute: (f64, usize),
    relative: (f64, usize),
}

fn differences(a: &Numbers, b: &Numbers, rtol: f64, atol: f64, equal_nan: bool) -> Option<Found> {
    let mut found: Option<Found> = None;
    for i in 0..a.len() {
        let (x, y) = (a.complex(i), b.complex(i));
        let same = match (a, b) {
            (Numbers::Whole(a), Numbers::Whole(b)) => a[i] == b[i],
            _ => x == y || (equal_nan && is_nan(x) && is_nan(y)),
        };
        let absolute = match (a, b) {
            (Numbers::Whole(a), Numbers::Whole(b)) => a[i].abs_diff(b[i]) as f64,
            _ => magnitude(x - y),
        };
        // an infinity is close to itself only, whatever the tolerance makes of the other
        let near = absolute.is_finite() && absolute <= atol + rtol * magnitude(y);
        if same || near {
            continue;
        }
        let relative = absolute / magnitude(y);
        let found = found.get_or_insert(Found {
            differing: 0,
            absolute: (absolute, i),
            relative: (relative, i),
        });
        found.differing += 1;
        if greater(absolute, found.absolute.0) {
            found.absolute = (absolute, i);
        }
        if greater(relative, found.relative.0) {
            found.relative = (relative, i);
        }
    }
    found
}

/// NaN is the greatest difference.
fn greater(x: f64, y: f64) -> bool {
    x > y || (x.is_nan() && !y.is_nan())
}

fn magnitude(x: Complex<f64>) -> f64 {
    x.re.hypot(x.im)
}

fn is_nan(x: Complex<f64>) -> bool {
    x.re.is_nan() || x.im.is_nan()
}

/// The indices of the `at`-th element in row-major order.
fn position(mut at: usize, sizes: &[i64]) -> Vec<i64> {
    let mut index = vec![0; sizes.len()];
    for (place, size) in index.iter_mut().zip(sizes).rev() {
        *place = (at % *size as usize) as i64;
        at /= *size as usize;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;

    fn mismatch(a: &Tensor, b: &Tensor) -> Mismatch {
        let e = assert_close(a, b).unwrap_err();
        assert!(e.location().expect("a line").file().ends_with("testing.rs"));
        match e.kind() {
            ErrorKind::NotClose(m) => (**m).clone(),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn says_how_many_differ_by_how_much_and_where() -> Result<()> {
        let a = tensor([[1.0, 2.0, 0.001], [4.0, 5.0, 6.0]])?;
        let b = tensor([[1.0, 2.5, 0.002], [4.0, 5.0, 6.0]])?;
        let m = mismatch(&a, &b);
        assert_eq!((m.differing, m.elements), (2, 6));
        assert_eq!((m.absolute.value, m.absolute.index), (0.5, vec![0, 1]));
        assert_eq!(m.relative.index, [0, 2]);
        assert_close(&a, &(&a + 1e-6))?;
        Ok(())
    }

    #[test]
    fn tolerances_follow_the_dtype() -> Result<()> {
        let x = tensor([1.0])?;
        let far = &x + 1e-3;
        assert!(assert_close(&x, &far).is_err());
        assert_close(&x.to_dtype(DType::BF16)?, &far.to_dtype(DType::BF16)?)?;
        // exact beyond what an `f64` tells apart
        let large = tensor([i64::MAX])?;
        assert_eq!(mismatch(&large, &(&large - 1)).absolute.value, 1.0);
        assert_close(&tensor([true])?, &tensor([true])?)
    }

    #[test]
    fn infinities_and_nan() -> Result<()> {
        let inf = tensor([f32::INFINITY])?;
        assert_close(&inf, &inf)?;
        assert!(assert_close(&tensor([1f32])?, &inf).is_err());
        assert!(assert_close(&-&inf, &inf).is_err());
        let nan = tensor([f32::NAN])?;
        assert!(mismatch(&nan, &nan).absolute.value.is_nan());
        Closeness::new().equal_nan().check(&nan, &nan)
    }

    #[test]
    fn shapes_dtypes_and_devices_count() -> Result<()> {
        let x = Tensor::zeros([2, 3])?;
        let kind = |y: &Tensor| assert_close(y, &x).unwrap_err().to_string();
        assert!(kind(&Tensor::zeros([3, 2])?).contains("the sizes are [3, 2], not [2, 3]"));
        assert!(
            kind(&Tensor::with(DType::F64).zeros([2, 3])?).contains("the dtype is f64, not f32")
        );
        let meta = Tensor::with(crate::Device::META).zeros([2, 3])?;
        assert!(kind(&meta).contains("the device is `meta`, not `cpu`"));
        Ok(())
    }
}
