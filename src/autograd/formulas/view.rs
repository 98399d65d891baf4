//! Gradients of views, and of operators that write into a part of a tensor.

use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::{MemoryFormat, Scalar, layout};

pub(crate) use crate::ops::aten::{
    diagonal, diagonal_backward, reshape, select_backward, select_int as select,
    slice_tensor as slice, squeeze_dim, t, transpose_int as transpose, unfold_backward,
};

/// Zeros of these sizes, of a gradient's dtype and device.
pub(crate) fn zeros_of(like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    aten::new_zeros(like, sizes, None, None, None, None)
}

pub(crate) fn permute_backward(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut inverse = vec![0; dims.len()];
    for (to, from) in dims.iter().enumerate() {
        inverse[wrap_dim(*from, dims.len())?] = to as i64;
    }
    aten::permute(grad, &inverse)
}

/// Puts back the dimensions of size 1 among `sizes`.
pub(crate) fn unsqueeze_to(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let mut out = grad.clone();
    for (dim, size) in sizes.iter().enumerate() {
        if *size == 1 {
            out = aten::unsqueeze(&out, dim as i64)?;
        }
    }
    Ok(out)
}

/// Puts back a dimension if it is of size 1.
pub(crate) fn unsqueeze_dim_to(grad: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    unsqueeze_dims_to(grad, &[dim], sizes)
}

/// Puts back those of the dimensions that are of size 1.
pub(crate) fn unsqueeze_dims_to(grad: &Tensor, dims: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let mut out = grad.clone();
    if sizes.is_empty() {
        return Ok(out);
    }
    let mut squeezed = vec![false; sizes.len()];
    for dim in dims {
        squeezed[wrap_dim(*dim, sizes.len())?] = true;
    }
    for (dim, size) in sizes.iter().enumerate() {
        if squeezed[dim] && *size == 1 {
            out = aten::unsqueeze(&out, dim as i64)?;
        }
    }
    Ok(out)
}

/// The gradient of a slice whose ends may be open.
pub(crate) fn slice_backward_from(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(i64::MAX));
    aten::slice_backward(grad, sizes, dim, start, end, step)
}

pub(crate) fn narrow_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: i64,
    length: i64,
) -> Result<Tensor> {
    aten::slice_backward(grad, sizes, dim, start, start + length, 1)
}

/// The part that `slice_backward` puts back.
pub(crate) fn slice_of(grad: &Tensor, dim: i64, start: i64, end: i64, step: i64) -> Result<Tensor> {
    aten::slice_tensor(grad, dim, Some(start), Some(end), step)
}

pub(crate) fn slice_scatter_backward(
    grad: &Tensor,
    part: &[i64],
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    aten::slice_scatter(grad, &zeros_of(grad, part)?, dim, start, end, step)
}

pub(crate) fn select_scatter_backward(
    grad: &Tensor,
    part: &[i64],
    dim: i64,
    index: i64,
) -> Result<Tensor> {
    aten::select_scatter(grad, &zeros_of(grad, part)?, dim, index)
}

pub(crate) fn diagonal_scatter_backward(
    grad: &Tensor,
    part: &[i64],
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    aten::diagonal_scatter(grad, &zeros_of(grad, part)?, offset, dim1, dim2)
}

/// A gradient in the layout that a tensor had, which is what strides of a part of it mean.
fn laid_out(grad: &Tensor, strides: &[i64]) -> Result<Tensor> {
    if grad.strides() == strides {
        return Ok(grad.clone());
    }
    if layout::is_non_overlapping_and_dense(grad.sizes(), strides) {
        let out = aten::new_empty_strided(grad, grad.sizes(), strides, None, None, None, None)?;
        return aten::copy_(&out, grad, false);
    }
    aten::contiguous(grad, MemoryFormat::Contiguous)
}

/// Where the part begins in a gradient, whose memory is its own.
fn place_in(grad: &Tensor, own_offset: i64, offset: Option<i64>) -> Option<i64> {
    offset.map(|offset| grad.offset() + offset - own_offset)
}

/// The gradient of what `as_strided_scatter` writes over: zero in that part.
pub(crate) fn as_strided_scatter_backward(
    grad: &Tensor,
    strides: &[i64],
    own_offset: i64,
    part: &[i64],
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let zeros = zeros_of(grad, part)?;
    let grad = laid_out(grad, strides)?;
    let place = place_in(&grad, own_offset, offset);
    aten::as_strided_scatter(&grad, &zeros, size, stride, place)
}

/// The gradient of what it writes: the part.
pub(crate) fn as_strided_part(
    grad: &Tensor,
    strides: &[i64],
    own_offset: i64,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let grad = laid_out(grad, strides)?;
    let place = place_in(&grad, own_offset, offset.or(Some(own_offset)));
    aten::as_strided(&grad, size, stride, place)
}

/// One tensor's way through a memory.
struct Geometry {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
}

impl Geometry {
    fn extent(&self) -> i64 {
        layout::storage_extent(&self.sizes, &self.strides, self.offset)
    }

    fn overlaps(&self) -> bool {
        layout::may_overlap(&self.sizes, &self.strides)
    }

    fn seen(&self, memory: &Tensor) -> Result<Tensor> {
        aten::as_strided(memory, &self.sizes, &self.strides, Some(self.offset))
    }
}

/// The gradient of `as_strided`: the gradient is added up in a memory like the input's, where the
/// result had its elements, and read where the input had its. Of an element that the input has
/// several times each gets an equal part.
pub(crate) fn as_strided_backward(
    grad: &Tensor,
    input_sizes: &[i64],
    input_strides: &[i64],
    input_offset: i64,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let offset = offset.unwrap_or(input_offset);
    // what the result repeats is summed first; the rest of it meets other elements
    let (mut grad, mut sizes, mut strides) = (grad.clone(), Vec::new(), Vec::new());
    for (dim, (size, stride)) in size.iter().zip(stride).enumerate().rev() {
        match (size, stride) {
            (1, _) => grad = aten::squeeze_dim(&grad, dim as i64)?,
            (_, 0) => grad = aten::sum_dim_int_list(&grad, Some(&[dim as i64]), false, None)?,
            _ => {
                sizes.insert(0, *size);
                strides.insert(0, *stride);
            }
        }
    }
    if input_sizes.contains(&0) {
        return zeros_of(&grad, input_sizes);
    }
    let first = offset.min(input_offset);
    let output = Geometry { sizes, strides, offset: offset - first };
    let input = Geometry {
        sizes: input_sizes.to_vec(),
        strides: input_strides.to_vec(),
        offset: input_offset - first,
    };
    let extent = input.extent().max(output.extent());
    let zeros = zeros_of(&grad, &[extent])?;
    let places = |of: &Geometry| -> Result<Tensor> {
        let dtype = Some(straightline_catalog::DType::I64);
        let all = aten::arange(Scalar::Int(extent), dtype, None, Some(grad.device()), None)?;
        aten::reshape(&of.seen(&all)?, &[-1])
    };
    let mut memory = if output.overlaps() {
        let flat = aten::reshape(&grad, &[-1])?;
        aten::index_add(&zeros, 0, &places(&output)?, &flat, Scalar::Int(1))?
    } else {
        let Geometry { sizes, strides, offset } = &output;
        aten::as_strided_scatter(&zeros, &grad, sizes, strides, Some(*offset))?
    };
    if input.overlaps() {
        let places = places(&input)?;
        let one = aten::new_ones(&grad, places.sizes(), None, None, None, None)?;
        let times = aten::index_add(&zeros, 0, &places, &one, Scalar::Int(1))?;
        let times = aten::clamp_min(&times, Scalar::Int(1))?;
        memory = aten::div_tensor(&memory, &times)?;
    }
    input.seen(&memory)
}

/// The gradients of parts one after another, zeros where there is none.
fn joined(
    grads: &[Option<Tensor>],
    parts: impl Iterator<Item = i64>,
    dim: i64,
    sizes: &[i64],
) -> Result<Option<Tensor>> {
    let Some(like) = grads.iter().flatten().next() else { return Ok(None) };
    let at = wrap_dim(dim, sizes.len())?;
    let mut all = Vec::with_capacity(grads.len());
    for (grad, part) in grads.iter().zip(parts) {
        all.push(match grad {
            Some(grad) => grad.clone(),
            None => {
                let mut sizes = sizes.to_vec();
                sizes[at] = part;
                zeros_of(like, &sizes)?
            }
        });
    }
    aten::cat(&all, dim).map(Some)
}

pub(crate) fn split_backward(
    grads: &[Option<Tensor>],
    part: i64,
    dim: i64,
    sizes: &[i64],
) -> Result<Option<Tensor>> {
    let whole = sizes[wrap_dim(dim, sizes.len())?];
    let parts = (0..grads.len() as i64).map(|i| part.min(whole - i * part));
    joined(grads, parts, dim, sizes)
}

pub(crate) fn split_with_sizes_backward(
    grads: &[Option<Tensor>],
    parts: &[i64],
    dim: i64,
    sizes: &[i64],
) -> Result<Option<Tensor>> {
    joined(grads, parts.iter().copied(), dim, sizes)
}

pub(crate) fn unbind_backward(grads: &[Option<Tensor>], dim: i64) -> Result<Option<Tensor>> {
    let Some(like) = grads.iter().flatten().next() else { return Ok(None) };
    let all: Result<Vec<Tensor>> = (grads.iter())
        .map(|grad| match grad {
            Some(grad) => Ok(grad.clone()),
            None => zeros_of(like, like.sizes()),
        })
        .collect();
    aten::stack(&all?, dim).map(Some)
}
