//! Indexing with tensors: `index`, `index_put` and their variants.

use crate::error::{Error, Result};
use crate::ops::common::{needs_data, sorted_strides};
use crate::ops::copy;
use crate::tensor::launch;
use crate::tensor::{Tensor, access};
use straightline_catalog::view::view_strides;
use straightline_catalog::{DType, Dims, layout};
use straightline_runtime::cpu::kernels::{self, IndexedDim, ScatterOp};

fn is_mask(index: &Tensor) -> bool {
    matches!(index.dtype(), DType::Bool | DType::U8)
}

/// The indices that a mask stands for: one vector for each of its dimensions.
fn expand_mask(mask: &Tensor) -> Result<Vec<Tensor>> {
    needs_data("index with a mask", mask)?;
    let places = crate::ops::index::masked::nonzero(mask)?;
    (0..mask.dim() as i64).map(|d| crate::ops::view::select(&places, 1, d)).collect()
}

/// Refuses masks of other sizes than the dimensions that they stand for.
fn check_masks(x: &Tensor, indices: &[Option<Tensor>]) -> Result<()> {
    let mut at = 0;
    for (i, index) in indices.iter().enumerate() {
        let Some(mask) = index.as_ref().filter(|i| is_mask(i)) else {
            at += 1;
            continue;
        };
        let covered = x.sizes().get(at..at + mask.dim()).ok_or_else(|| too_many(x, indices))?;
        ensure_index!(
            covered == mask.sizes(),
            "The shape of the mask {:?} at index {i} does not match the shape of the indexed tensor {:?} at index {at}",
            mask.sizes(),
            x.sizes()
        );
        at += mask.dim();
    }
    Ok(())
}

/// One index for each dimension, masks taken apart.
fn per_dimension(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    ensure_index!(!indices.is_empty(), "at least one index must be provided");
    check_masks(x, indices)?;
    let mut out: Vec<Option<Tensor>> = Vec::new();
    for index in indices {
        let Some(index) = index else {
            out.push(None);
            continue;
        };
        if !is_mask(index) {
            ensure_index!(
                matches!(index.dtype(), DType::I64 | DType::I32),
                "tensors used as indices must be long, int, byte or bool tensors"
            );
            out.push(Some(index.clone()));
            continue;
        }
        out.extend(expand_mask(index)?.into_iter().map(Some));
    }
    if out.len() > x.dim() {
        return Err(too_many(x, indices));
    }
    out.resize(x.dim(), None);
    Ok(out)
}

fn too_many(x: &Tensor, indices: &[Option<Tensor>]) -> Error {
    Error::index(format!(
        "too many indices for tensor of dimension {} (got {})",
        x.dim(),
        indices.len()
    ))
}

/// What indexing a tensor means: the sizes of the result, and how each of its dimensions walks the
/// tensor.
struct Indexed {
    /// Of the result.
    sizes: Dims,
    /// Of the indexed tensor for each dimension of the result, 0 for those of the indices.
    strides: Dims,
    /// Where the dimensions of the indices are, in the result.
    at: usize,
    /// How many they are.
    rank: usize,
    /// The index tensors, each with the size and the stride of the dimension that it indexes.
    dims: Vec<(Tensor, i64, i64)>,
}

impl Indexed {
    fn new(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Indexed> {
        let indices = per_dimension(x, indices)?;
        let given: Vec<&Tensor> = indices.iter().flatten().collect();
        if given.is_empty() {
            return Ok(Indexed {
                sizes: Dims::from_slice(x.sizes()),
                strides: Dims::from_slice(x.strides()),
                at: 0,
                rank: 0,
                dims: Vec::new(),
            });
        }
        let places = given[1..]
            .iter()
            .try_fold(Dims::from_slice(given[0].sizes()), |sizes, t| {
                layout::broadcast(&sizes, t.sizes())
            })
            .ok_or_else(|| {
                Error::index(format!(
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                    given
                        .iter()
                        .map(|t| format!("{:?}", t.sizes()))
                        .collect::<Vec<_>>()
                        .join(", ")
                ))
            })?;
        let first = indices.iter().position(Option::is_some).unwrap_or(0);
        let last = indices.iter().rposition(Option::is_some).unwrap_or(0);
        let adjacent = indices[first..=last].iter().all(Option::is_some);
        // the dimensions of the indices stand where they were, or in front where that is no one
        // place
        let at = if adjacent { first } else { 0 };
        let (mut sizes, mut strides) = (Dims::new(), Dims::new());
        let free = (0..x.dim()).filter(|d| indices[*d].is_none());
        for d in free {
            sizes.push(x.sizes()[d]);
            strides.push(x.strides()[d]);
        }
        for (k, size) in places.iter().enumerate() {
            sizes.insert(at + k, *size);
            strides.insert(at + k, 0);
        }
        let mut dims = Vec::new();
        for (d, index) in indices.iter().enumerate() {
            if let Some(index) = index {
                let index_strides =
                    layout::broadcast_strides(index.sizes(), index.strides(), &places);
                // the strides of dimensions of one element are what a reshape makes of them, and
                // order the result's
                let index_strides =
                    view_strides(&places, &index_strides, &places).unwrap_or(index_strides);
                let index =
                    index.with_geometry(places.clone(), index_strides, index.storage_offset());
                ensure_index!(
                    x.sizes()[d] != 0 || index.numel() == 0 || layout::numel(&sizes) == 0,
                    "index is out of bounds for dimension with size 0"
                );
                dims.push((index, x.sizes()[d], x.strides()[d]));
            }
        }
        Ok(Indexed { sizes, strides, at, rank: places.len(), dims })
    }

    /// Strides of something that the indices give, for the dimensions of the result.
    fn spread(&self, strides: &[i64]) -> Dims {
        let mut out = Dims::from_elem(0, self.sizes.len());
        out[self.at..self.at + self.rank].copy_from_slice(strides);
        out
    }

    /// The strides that PyTorch gives the result: those of an element-wise operation on the tensor
    /// and its indices.
    fn result_strides(&self, x: &Tensor) -> Dims {
        let mut operands =
            vec![x.with_geometry(self.sizes.clone(), self.strides.clone(), x.storage_offset())];
        for (index, ..) in &self.dims {
            let strides = self.spread(index.strides());
            operands.push(index.with_geometry(self.sizes.clone(), strides, index.storage_offset()));
        }
        // to PyTorch's iterator the tensor has the result's shape by decree, and it does not ask
        // whether it is row-major
        sorted_strides(&self.sizes, &operands.iter().collect::<Vec<_>>())
    }

    /// The offset of each place, for the dimensions of the result.
    fn offsets(&self) -> Result<Tensor> {
        let indices: Vec<&Tensor> = self.dims.iter().map(|(t, ..)| t).collect();
        let mut offsets = launch::read(&indices[..], |indices| {
            let dims: Vec<IndexedDim<'_>> = (indices.into_iter().zip(&self.dims))
                .map(|(index, (_, size, stride))| IndexedDim {
                    index,
                    size: *size,
                    stride: *stride,
                })
                .collect();
            Ok(kernels::offsets(&dims, true)?)
        })?;
        if self.dims.is_empty() {
            offsets.push(0);
        }
        let sizes = &self.sizes[self.at..self.at + self.rank];
        let strides = self.spread(&layout::contiguous_strides(sizes));
        let offsets = Tensor::from_slice(&offsets, sizes)?;
        Ok(offsets.with_geometry(self.sizes.clone(), strides, 0))
    }
}

/// [`index`] by positions alone: a mask has a result whose shape depends on it.
pub(crate) fn unsafe_index(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let positions = |t: &&Tensor| matches!(t.dtype(), DType::I64 | DType::I32);
    if let Some(t) = indices.iter().flatten().find(|t| !positions(t)) {
        return Err(Error::dtype(format!(
            "_unsafe_index found unexpected index type {}",
            t.dtype().torch_name()
        )));
    }
    index(x, indices)
}

pub(crate) fn index(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let indexed = Indexed::new(x, indices)?;
    let strides = indexed.result_strides(x);
    let mut out = Tensor::allocate(x.dtype(), x.device(), indexed.sizes.clone(), strides)?;
    if out.storage().has_data() && out.numel() > 0 {
        launch::run(&mut out, [x, &indexed.offsets()?], |out, [x, offsets]| {
            let places = x.places(&indexed.sizes, &indexed.strides)?;
            Ok(kernels::take_at(out, places, offsets)?)
        })?;
    }
    Ok(out)
}

/// Whether an index is a mask whose values are not known, so that the places are not.
fn places_unknown(indices: &[Option<Tensor>]) -> bool {
    indices.iter().flatten().any(|i| is_mask(i) && !i.storage().has_data())
}

pub(crate) fn index_put_(
    x: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    ensure_dtype!(
        x.dtype() == values.dtype(),
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        x.dtype().torch_name(),
        values.dtype().torch_name()
    );
    if indices.len() > x.dim() {
        return Err(too_many(x, indices));
    }
    check_masks(x, indices)?;
    access::check_apart(x, indices.iter().flatten().chain([values]))?;
    if places_unknown(indices) {
        return Ok(x.clone());
    }
    let indexed = Indexed::new(x, indices)?;
    let fits = layout::broadcast(values.sizes(), &indexed.sizes)
        .is_some_and(|sizes| sizes == indexed.sizes);
    ensure_shape!(
        fits,
        "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
        values.sizes(),
        indexed.sizes.as_slice()
    );
    if x.storage().has_data() && layout::numel(&indexed.sizes) > 0 {
        let offsets = indexed.offsets()?;
        let values = match values.shares_storage_with(x) {
            true => copy::clone_contiguous(values)?,
            false => values.clone(),
        };
        let value_strides =
            layout::broadcast_strides(values.sizes(), values.strides(), &indexed.sizes);
        let op = if accumulate { ScatterOp::Add } else { ScatterOp::Replace };
        launch::run(launch::InTurn(x), [&values, &offsets], |x, [values, offsets]| {
            let places = x.places(&indexed.sizes, &indexed.strides)?;
            let values = values.broadcast(&indexed.sizes, &value_strides)?;
            Ok(kernels::put_at(op, places, values, offsets)?)
        })?;
    }
    Ok(x.clone())
}

/// A fresh copy in the order of the tensor's dimensions.
pub(crate) fn preserved_copy(x: &Tensor) -> Result<Tensor> {
    let strides = copy::format_strides(x, None)?;
    let out = Tensor::allocate(x.dtype(), x.device(), Dims::from_slice(x.sizes()), strides)?;
    copy::copy_(&out, x, false)
}

pub(crate) fn index_put(
    x: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    index_put_(&preserved_copy(x)?, indices, values, accumulate)
}

pub(crate) fn index_put_impl_(
    x: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
    _unsafe: bool,
) -> Result<Tensor> {
    index_put_(x, indices, values, accumulate)
}

pub(crate) fn index_put_impl(
    x: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
    _unsafe: bool,
) -> Result<Tensor> {
    index_put(x, indices, values, accumulate)
}
