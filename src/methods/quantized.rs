//! Quantized tensors: making them and reading them.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
use straightline_catalog::{DType, QScheme};

impl Tensor {
    /// The nearest integers of a scale and a zero point; `dtype` is `QUInt8`, `QInt8` or `QInt32`. See
    /// [`aten::quantize_per_tensor`].
    ///
    /// ```
    /// use straightline::{DType, Tensor};
    /// let q = Tensor::from_vec([0.5f32, -1.0, 2.0], 3)?.quantize_per_tensor(0.1, 10, DType::QUInt8)?;
    /// assert_eq!(q.int_repr()?.to_vec::<u8>()?, [15, 0, 30]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn quantize_per_tensor(
        &self,
        scale: impl Into<f64>,
        zero_point: impl Int,
        dtype: DType,
    ) -> Result<Tensor> {
        aten::quantize_per_tensor(self, scale.into(), zero_point.to_i64(), dtype)
    }

    /// The nearest integers, each index of a dimension with its own scale and zero point. See
    /// [`aten::quantize_per_channel`].
    #[track_caller]
    pub fn quantize_per_channel(
        &self,
        scales: impl AsRef<Tensor>,
        zero_points: impl AsRef<Tensor>,
        axis: impl Int,
        dtype: DType,
    ) -> Result<Tensor> {
        aten::quantize_per_channel(
            self,
            scales.as_ref(),
            zero_points.as_ref(),
            axis.to_i64(),
            dtype,
        )
    }

    /// The real numbers that a quantized tensor stands for. See [`aten::dequantize_self`].
    ///
    /// ```
    /// use straightline::{DType, Tensor};
    /// let q = Tensor::from_vec([0.3f32, 9.0], 2)?.quantize_per_tensor(0.5, 0, DType::QInt8)?;
    /// assert_eq!(q.dequantize()?.to_vec::<f32>()?, [0.5, 9.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn dequantize(&self) -> Result<Tensor> {
        aten::dequantize_self(self)
    }

    /// A copy of the integers of a quantized tensor. See [`aten::int_repr`].
    #[track_caller]
    pub fn int_repr(&self) -> Result<Tensor> {
        aten::int_repr(self)
    }

    /// The scale of a tensor that has one. See [`aten::q_scale`].
    #[track_caller]
    pub fn q_scale(&self) -> Result<f64> {
        aten::q_scale(self)
    }

    /// The zero point of a tensor that has one. See [`aten::q_zero_point`].
    #[track_caller]
    pub fn q_zero_point(&self) -> Result<i64> {
        aten::q_zero_point(self)
    }

    /// How the integers stand for real numbers. See [`aten::qscheme`].
    #[track_caller]
    pub fn qscheme(&self) -> Result<QScheme> {
        aten::qscheme(self)
    }
}
