//! Other dtypes, other devices.

use super::TensorOptions;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::DType;

macro_rules! casts {
    ($($(#[$doc:meta])* $name:ident $dtype:ident $variant:literal;)*) => {
        impl Tensor {$(
            #[doc = concat!("The elements as `", $variant, "`; the tensor itself where they are already. See [`aten::to_dtype`].")]
            #[doc = ""]
            #[doc = "```"]
            #[doc = "use straightline::{DType, tensor};"]
            #[doc = concat!("assert_eq!(tensor([1, 0])?.", stringify!($name), "()?.dtype(), DType::", stringify!($dtype), ");")]
            #[doc = "# Ok::<(), straightline::Error>(())"]
            #[doc = "```"]
            #[track_caller]
            pub fn $name(&self) -> Result<Tensor> {
                self.to_dtype(DType::$dtype)
            }
        )*}
    };
}
casts! {
    double F64 "f64";
    float F32 "f32";
    half F16 "f16";
    bfloat16 BF16 "bf16";
    long I64 "i64";
    int I32 "i32";
    short I16 "i16";
    char I8 "i8";
    byte U8 "u8";
    bool Bool "bool";
}

impl Tensor {
    /// In another dtype, on another device, or both; the tensor itself where nothing changes. Takes
    /// what [`Tensor::with`] takes: a [`DType`], a [`Device`](crate::Device), a pair of them, a
    /// tensor whose dtype and device are meant. See [`aten::to_dtype_layout`].
    ///
    /// ```
    /// use straightline::{DType, Device, Tensor, tensor};
    /// let x = tensor([1, 2])?;
    /// assert_eq!(x.to(DType::F64)?.to_vec::<f64>()?, [1.0, 2.0]);
    /// assert!(x.to(Device::META)?.device().is_meta());
    /// assert_eq!(x.to((DType::F16, Device::CPU))?.dtype(), DType::F16);
    /// assert_eq!(x.to(&Tensor::zeros(1)?)?.dtype(), DType::F32);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Options with a generator: nothing is drawn.
    #[track_caller]
    pub fn to(&self, options: impl Into<TensorOptions>) -> Result<Tensor> {
        let options = options.into();
        if options.generator.is_some() {
            let message = "to() takes a dtype and a device, and no generator";
            return Err(Error::value(message).with_location(std::panic::Location::caller()));
        }
        let (dtype, device) = (options.dtype, options.device);
        aten::to_dtype_layout(self, dtype, None, device, None, false, false, None)
    }
}
