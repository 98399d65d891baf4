//! Tensors from data, and data from tensors.

use super::watcher::{self, Line};
use super::{Element, Ints, Tensor, access};
use crate::error::Result;
use num_complex::Complex;
use straightline_catalog::{DType, Device, Scalar, layout};

impl Tensor {
    /// A CPU tensor with a copy of the elements, row-major. One of the sizes may be -1; it is then
    /// inferred.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let t = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(t.sizes(), [2, 3]);
    /// assert_eq!(Tensor::from_slice(&[1u8, 2], -1)?.sizes(), [2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Sizes that hold more or fewer elements.
    #[doc(alias = "of_slice")]
    #[doc(alias = "new")]
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], sizes: impl Ints) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        Tensor::from_elements(data, &sizes.ints()).map_err(|e| e.with_location(at))
    }

    fn from_elements<T: Element>(data: &[T], sizes: &[i64]) -> Result<Tensor> {
        if sizes.contains(&-1) {
            let sizes = straightline_catalog::view::infer_sizes(sizes, data.len() as i64)?;
            return Tensor::from_elements(data, &sizes);
        }
        ensure_shape!(sizes.iter().all(|s| *s >= 0), "sizes {sizes:?} must not be negative");
        ensure_shape!(
            layout::numel(sizes) == data.len() as i64,
            "sizes {sizes:?} hold {} elements, and {} were given",
            layout::numel(sizes),
            data.len()
        );
        let t = Tensor::allocate_contiguous(T::DTYPE, Device::CPU, sizes)?;
        // SAFETY: the storage is fresh, ours alone and data.len() elements long; T is the
        // element type, so its size and alignment (64) suit.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), t.data_ptr()?.cast::<T>(), data.len());
        }
        Ok(t.mark_made_during_capture())
    }

    /// [`Tensor::from_slice`] of a `Vec` or an array.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let t = Tensor::from_vec(vec![1f64, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(t.to_vec2::<f64>()?, [[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(Tensor::from_vec([1i8, 2], -1)?.sizes(), [2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    #[doc(alias = "from_data")]
    #[track_caller]
    pub fn from_vec<T: Element>(data: impl AsRef<[T]>, sizes: impl Ints) -> Result<Tensor> {
        Tensor::from_slice(data.as_ref(), sizes)
    }

    /// A 0-dim CPU tensor of the number's default dtype (`bool`, `i64`, `f32`, `c64`).
    pub fn scalar(value: impl Into<Scalar>) -> Result<Tensor> {
        let value = value.into();
        Tensor::scalar_of(value, value.default_dtype())
    }

    /// A bare number for an operator that takes a tensor: a 0-dim `bool`, `i64`, `f64` or `c128`
    /// CPU tensor that takes part in type promotion as a number does.
    ///
    /// ```
    /// use straightline::{DType, Tensor};
    /// let x = Tensor::from_vec([1f32], 1)?;
    /// assert_eq!(x.add(&Tensor::wrapped_number(2.0)?)?.dtype(), DType::F32);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn wrapped_number(value: impl Into<Scalar>) -> Result<Tensor> {
        let value = value.into();
        let dtype = match value {
            Scalar::Float(_) => DType::F64,
            Scalar::Complex(..) => DType::C128,
            other => other.default_dtype(),
        };
        Ok(Tensor::scalar_of(value, dtype)?.into_wrapped_number())
    }

    /// A 0-dim CPU tensor of a dtype.
    pub(crate) fn scalar_of(value: Scalar, dtype: DType) -> Result<Tensor> {
        match dtype {
            DType::F32 => Tensor::from_slice(&[value.as_f64() as f32], ()),
            DType::F64 => Tensor::from_slice(&[value.as_f64()], ()),
            DType::F16 => Tensor::from_slice(&[half::f16::from_f32(value.as_f64() as f32)], ()),
            DType::BF16 => Tensor::from_slice(&[half::bf16::from_f32(value.as_f64() as f32)], ()),
            DType::I64 => Tensor::from_slice(&[value.as_i64()], ()),
            DType::I32 => Tensor::from_slice(&[value.as_i64() as i32], ()),
            DType::I16 => Tensor::from_slice(&[value.as_i64() as i16], ()),
            DType::I8 => Tensor::from_slice(&[value.as_i64() as i8], ()),
            DType::U8 => Tensor::from_slice(&[value.as_i64() as u8], ()),
            DType::Bool => Tensor::from_slice(&[value.as_bool()], ()),
            DType::C64 => {
                let (re, im) = value.as_complex();
                Tensor::from_slice(&[Complex::new(re as f32, im as f32)], ())
            }
            DType::C128 => {
                let (re, im) = value.as_complex();
                Tensor::from_slice(&[Complex::new(re, im)], ())
            }
            DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
                Err(super::kind::quantized_memory(dtype))
            }
        }
    }

    /// A copy of the elements in row-major order.
    ///
    /// # Errors
    /// `T` must be the tensor's own element type (use [`Tensor::to_dtype`] first), and the tensor
    /// must have data. [`ErrorKind::DataDependent`](crate::ErrorKind::DataDependent) while a
    /// function is being captured, for a tensor that it closes over, too.
    #[doc(alias = "tolist")]
    #[doc(alias = "to_vec1")]
    #[doc(alias = "numpy")]
    #[doc(alias = "into_data")]
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let at = std::panic::Location::caller();
        self.read_elements("to_vec()", at).map_err(|e| e.with_location(at))
    }

    fn read_elements<T: Element>(&self, what: &str, at: Line) -> Result<Vec<T>> {
        watcher::check_read(self, what, Some(at))?;
        ensure_dtype!(
            T::DTYPE == self.dtype(),
            "the tensor's elements are {}, not {}: convert with `to_dtype` first",
            self.dtype(),
            T::DTYPE
        );
        if !self.device().is_cpu() && !self.device().is_meta() {
            let on_cpu = self.to_device(Device::CPU)?;
            return on_cpu.read_elements(what, at);
        }
        if self.has_math_bits() {
            return self.resolved()?.read_elements(what, at);
        }
        self.check_has_data(what)?;
        let t = if self.is_contiguous() {
            self.clone()
        } else {
            super::launch::clone_contiguous(self)?
        };
        let n = t.numel() as usize;
        let _guard = access::read(&[&t])?;
        let p = t.data_ptr()?.cast::<T>();
        let mut out = Vec::with_capacity(n);
        // SAFETY: p points at n contiguous elements of type T, which the guard keeps from being
        // written; out has room for n. Bytes are 0 or 1 before they are taken for a bool: memory
        // that nobody has written, or that was written as bytes, can have others.
        unsafe {
            std::ptr::copy_nonoverlapping(p, out.as_mut_ptr(), n);
            if T::DTYPE == DType::Bool {
                let bytes = out.as_mut_ptr().cast::<u8>();
                for i in 0..n {
                    *bytes.add(i) = u8::from(*bytes.add(i) != 0);
                }
            }
            out.set_len(n);
        }
        Ok(out)
    }

    /// The only element, of a tensor in memory.
    #[track_caller]
    pub(crate) fn read_item(&self) -> Result<Scalar> {
        let at = std::panic::Location::caller();
        ensure!(
            self.numel() == 1,
            "a Tensor with {} elements cannot be converted to Scalar",
            self.numel()
        );
        macro_rules! get {
            ($t:ty, $wrap:expr) => {
                self.read_elements::<$t>("item()", at).map(|v| $wrap(v[0]))
            };
        }
        match self.dtype() {
            DType::F32 => get!(f32, |x| Scalar::Float(f64::from(x))),
            DType::F64 => get!(f64, Scalar::Float),
            DType::F16 => get!(half::f16, |x: half::f16| Scalar::Float(x.to_f64())),
            DType::BF16 => get!(half::bf16, |x: half::bf16| Scalar::Float(x.to_f64())),
            DType::I64 => get!(i64, Scalar::Int),
            DType::I32 | DType::QInt32 => get!(i32, |x| Scalar::Int(i64::from(x))),
            DType::I16 => get!(i16, |x| Scalar::Int(i64::from(x))),
            DType::I8 | DType::QInt8 => get!(i8, |x| Scalar::Int(i64::from(x))),
            DType::U8 | DType::QUInt8 => get!(u8, |x| Scalar::Int(i64::from(x))),
            DType::Bool => get!(bool, Scalar::Bool),
            DType::C64 => get!(Complex<f32>, Scalar::from),
            DType::C128 => get!(Complex<f64>, Scalar::from),
        }
    }

    /// Fails if the tensor has no data to read, naming the reader.
    pub(crate) fn check_has_data(&self, what: &str) -> Result<()> {
        if self.storage().has_data() {
            return Ok(());
        }
        Err(self.no_memory_error(what))
    }
}
