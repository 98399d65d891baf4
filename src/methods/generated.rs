//! The methods that the entries of `catalog/ops/` ask for; `build/methods.rs` writes them.

use super::convolution::each;
use super::losses::{Reduction, number};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, OptionalInt, OptionalTensors, Other, Tensor, Tensors};
use straightline_catalog::{DType, Device, MemoryFormat, QScheme, Scalar};

include!(concat!(env!("OUT_DIR"), "/methods.rs"));
