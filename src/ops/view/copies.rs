//! Views of parts as copies, each in row-major memory of its own.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::MemoryFormat;

fn copied(parts: Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
    let copy = |part: &Tensor| aten::clone(part, Some(MemoryFormat::Contiguous));
    parts?.iter().map(copy).collect()
}

pub(crate) fn split_copy(t: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    copied(aten::split_tensor(t, size, dim))
}

pub(crate) fn split_with_sizes_copy(t: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    copied(aten::split_with_sizes(t, sizes, dim))
}

pub(crate) fn unbind_copy(t: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    copied(aten::unbind_int(t, dim))
}
