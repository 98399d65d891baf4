//! What is known of a tensor without its data.

use crate::{DType, Device, Dims, layout};
use std::fmt::{self, Display, Formatter};

/// What is known of a tensor without its data.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorMeta {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub sizes: Dims,
    /// Stride of each dimension, in elements.
    pub strides: Dims,
    /// Where the tensor lives.
    pub device: Device,
}

impl TensorMeta {
    /// A row-major CPU tensor.
    pub fn contiguous(dtype: DType, sizes: &[i64]) -> TensorMeta {
        TensorMeta {
            dtype,
            sizes: Dims::from_slice(sizes),
            strides: layout::contiguous_strides(sizes),
            device: Device::CPU,
        }
    }

    /// The number of elements.
    pub fn numel(&self) -> i64 {
        layout::numel(&self.sizes)
    }

    /// The bytes of a storage that such a tensor needs.
    pub fn storage_bytes(&self) -> usize {
        layout::storage_bytes(self.dtype.size(), &self.sizes, &self.strides, 0)
    }

    /// Whether the strides are row-major.
    pub fn is_contiguous(&self) -> bool {
        layout::is_contiguous(&self.sizes, &self.strides)
    }
}

impl Display for TensorMeta {
    /// `f32[2,3]`, with strides in braces unless row-major and `@device` unless the CPU.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.dtype, listed(&self.sizes))?;
        if self.strides != layout::contiguous_strides(&self.sizes) {
            write!(f, "{{{}}}", listed(&self.strides))?;
        }
        if !self.device.is_cpu() {
            write!(f, " @{}", self.device)?;
        }
        Ok(())
    }
}

fn listed(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}
