//! Tensors made from nothing.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Generator, Tensor};
use straightline_passes::ir::{DType, Device, Scalar};

impl Tensor {
    /// Zeros. See [`aten::zeros`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// let t = Tensor::zeros(&[2], DType::F32, Device::CPU)?;
    /// assert_eq!(t.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn zeros(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        aten::zeros(sizes, Some(dtype), None, Some(device), None)
    }

    /// Ones. See [`aten::ones`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// let t = Tensor::ones(&[2], DType::F32, Device::CPU)?;
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ones(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        aten::ones(sizes, Some(dtype), None, Some(device), None)
    }

    /// Uniform random numbers in [0, 1). See [`aten::rand`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// let t = Tensor::rand(&[2], DType::F32, Device::CPU)?;
    /// assert_eq!(t.numel(), 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rand(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        aten::rand(sizes, Some(dtype), None, Some(device), None)
    }

    /// Normal random numbers. See [`aten::randn`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// let t = Tensor::randn(&[2], DType::F32, Device::CPU)?;
    /// assert_eq!(t.numel(), 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn randn(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        aten::randn(sizes, Some(dtype), None, Some(device), None)
    }

    /// Memory with arbitrary contents. See [`aten::empty_memory_format`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// assert_eq!(Tensor::empty(&[2], DType::F32, Device::CPU)?.sizes(), [2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn empty(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        aten::empty_memory_format(sizes, Some(dtype), None, Some(device), None, None)
    }

    /// One number everywhere. See [`aten::full`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// assert_eq!(Tensor::full(&[2], 7, DType::I64, Device::CPU)?.to_vec::<i64>()?, [7, 7]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn full(
        sizes: &[i64],
        value: impl Into<Scalar>,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        aten::full(sizes, value.into(), Some(dtype), None, Some(device), None)
    }

    /// `start`, `start + step` ... below `end`. See [`aten::arange_start_step`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// assert_eq!(Tensor::arange(0, 3, 1, DType::I64, Device::CPU)?.to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        aten::arange_start_step(
            start.into(),
            end.into(),
            step.into(),
            Some(dtype),
            None,
            Some(device),
            None,
        )
    }

    /// The identity matrix. See [`aten::eye`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// assert_eq!(Tensor::eye(2, DType::I64, Device::CPU)?.to_vec::<i64>()?, [1, 0, 0, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn eye(n: i64, dtype: DType, device: Device) -> Result<Tensor> {
        aten::eye(n, Some(dtype), None, Some(device), None)
    }

    /// Zeros in this tensor's shape, dtype and device. See [`aten::zeros_like`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([5f32])?.zeros_like()?.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn zeros_like(&self) -> Result<Tensor> {
        aten::zeros_like(self, None, None, None, None, None)
    }

    /// Ones in this tensor's shape, dtype and device. See [`aten::ones_like`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([5f32])?.ones_like()?.to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ones_like(&self) -> Result<Tensor> {
        aten::ones_like(self, None, None, None, None, None)
    }

    /// Normal random numbers from a generator. See [`aten::randn_generator`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::{DType, Device};
    /// use straightline::Generator;
    /// assert_eq!(Tensor::randn_with(&[2], DType::F32, Device::CPU, &Generator::new(1))?.sizes(), [2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn randn_with(
        sizes: &[i64],
        dtype: DType,
        device: Device,
        generator: &Generator,
    ) -> Result<Tensor> {
        aten::randn_generator(
            sizes,
            Some(generator),
            Some(dtype),
            None,
            Some(device),
            None,
        )
    }

    /// The size of a dimension, counted from the end where negative.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_slice(&[1f32, 2.0], &[1, 2])?.size(-1)?, 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// A dimension out of range.
    pub fn size(&self, dim: i64) -> Result<i64> {
        let d = crate::ops::common::wrap_dim(dim, self.dim())?;
        self.sizes()
            .get(d)
            .copied()
            .ok_or_else(|| Error::index("a 0-dim tensor has no dimension to take the size of"))
    }
}
