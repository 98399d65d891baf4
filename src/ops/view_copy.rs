//! Views as copies: what a view shows, in row-major memory of its own.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, MemoryFormat};

fn copied(view: &Tensor) -> Result<Tensor> {
    aten::clone(view, Some(MemoryFormat::Contiguous))
}

macro_rules! copies {
    ($($name:ident($($arg:ident: $ty:ty),*) = $of:ident;)*) => {$(
        pub(crate) fn $name(t: &Tensor, $($arg: $ty),*) -> Result<Tensor> {
            copied(&aten::$of(t, $($arg),*)?)
        }
    )*};
}

copies! {
    alias_copy() = alias;
    detach_copy() = detach;
    as_strided_copy(size: &[i64], stride: &[i64], offset: Option<i64>) = as_strided;
    expand_copy(size: &[i64], implicit: bool) = expand;
    narrow_copy(dim: i64, start: i64, length: i64) = narrow;
    permute_copy(dims: &[i64]) = permute;
    select_copy(dim: i64, index: i64) = select_int;
    slice_copy(dim: i64, start: Option<i64>, end: Option<i64>, step: i64) = slice_tensor;
    squeeze_copy() = squeeze;
    squeeze_dim_copy(dim: i64) = squeeze_dim;
    squeeze_dims_copy(dims: &[i64]) = squeeze_dims;
    t_copy() = t;
    transpose_copy(a: i64, b: i64) = transpose_int;
    unfold_copy(dimension: i64, size: i64, step: i64) = unfold;
    unsqueeze_copy(dim: i64) = unsqueeze;
    view_dtype_copy(dtype: DType) = view_dtype;
    view_as_real_copy() = view_as_real;
    view_as_complex_copy() = view_as_complex;
}

/// A tensor that no view has these sizes of is copied all the same.
pub(crate) fn view_copy(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    copied(&aten::reshape(t, size)?)
}

macro_rules! copies_of_parts {
    ($($name:ident($($arg:ident: $ty:ty),*) = $of:ident;)*) => {$(
        pub(crate) fn $name(t: &Tensor, $($arg: $ty),*) -> Result<Vec<Tensor>> {
            aten::$of(t, $($arg),*)?.iter().map(copied).collect()
        }
    )*};
}

copies_of_parts! {
    split_copy(size: i64, dim: i64) = split_tensor;
    split_with_sizes_copy(sizes: &[i64], dim: i64) = split_with_sizes;
    unbind_copy(dim: i64) = unbind_int;
}
