//! Factories of random tensors: an empty tensor and an operator that fills it.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Generator, Tensor};
use straightline_catalog::{DType, Device, Layout, MemoryFormat, default_dtype};

/// What a factory fills its tensor with.
#[derive(Clone, Copy)]
enum Fill {
    Uniform,
    Normal,
    /// From the first to below the second.
    Integers(i64, i64),
}

impl Fill {
    fn apply(self, t: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
        match self {
            Fill::Uniform => aten::uniform_(t, 0.0, 1.0, generator),
            Fill::Normal => aten::normal_(t, 0.0, 1.0, generator),
            Fill::Integers(low, high) => aten::random_from_(t, low, Some(high), generator),
        }
    }

    fn dtype(self) -> DType {
        match self {
            Fill::Integers(..) => DType::I64,
            _ => default_dtype(),
        }
    }
}

/// Factories of given sizes: the overload without a generator and the one with, the arguments ahead
/// of the sizes, and what fills.
macro_rules! of_sizes {
    ($($name:ident $with:ident ($($arg:ident: $t:ty),*) $fill:expr;)*) => {$(
        pub(crate) fn $name(
            $($arg: $t,)*
            size: &[i64],
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            $with($($arg,)* size, None, dtype, layout, device, pin_memory)
        }

        #[allow(clippy::too_many_arguments, reason = "the schema's")]
        pub(crate) fn $with(
            $($arg: $t,)*
            size: &[i64],
            generator: Option<&Generator>,
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            let fill: Fill = $fill;
            let dtype = Some(dtype.unwrap_or(fill.dtype()));
            let t = aten::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
            fill.apply(&t, generator)
        }
    )*};
}
of_sizes! {
    rand rand_generator () Fill::Uniform;
    randn randn_generator () Fill::Normal;
    randint randint_generator (high: i64) Fill::Integers(0, high);
    randint_low randint_low_generator (low: i64, high: i64) Fill::Integers(low, high);
}

/// Factories of a tensor's shape, in the same way.
macro_rules! alike {
    ($($name:ident $with:ident ($($arg:ident: $t:ty),*) $fill:expr;)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "the schema's")]
        pub(crate) fn $name(
            t: &Tensor,
            $($arg: $t,)*
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
            format: Option<MemoryFormat>,
        ) -> Result<Tensor> {
            $with(t, $($arg,)* None, dtype, layout, device, pin_memory, format)
        }

        #[allow(clippy::too_many_arguments, reason = "the schema's")]
        pub(crate) fn $with(
            t: &Tensor,
            $($arg: $t,)*
            generator: Option<&Generator>,
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
            format: Option<MemoryFormat>,
        ) -> Result<Tensor> {
            let fill: Fill = $fill;
            let out = aten::empty_like(t, dtype, layout, device, pin_memory, format)?;
            fill.apply(&out, generator)
        }
    )*};
}
alike! {
    rand_like rand_like_generator () Fill::Uniform;
    randn_like randn_like_generator () Fill::Normal;
    randint_like randint_like_generator (high: i64) Fill::Integers(0, high);
    randint_like_low randint_like_low_generator (low: i64, high: i64) Fill::Integers(low, high);
    randint_like_tensor randint_like_tensor_generator (high: &Tensor) Fill::Integers(0, bound(high)?);
}

fn bound(high: &Tensor) -> Result<i64> {
    ensure!(high.numel() == 1 && high.dim() == 0, "high must be a scalar tensor and on CPU");
    Ok(aten::item(high)?.as_i64())
}
