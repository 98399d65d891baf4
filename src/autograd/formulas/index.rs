//! Gradients of reading and writing at indices.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(crate) use crate::ops::aten::{
    _unsafe_index_tensor as unsafe_index, gather_backward, index_select_backward,
    index_tensor as index, masked_scatter_backward, masked_select_backward,
};

use super::view::zeros_of;

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

type Indices<'a> = &'a [Option<Tensor>];

pub(crate) fn index_backward(grad: &Tensor, sizes: &[i64], indices: Indices<'_>) -> Result<Tensor> {
    aten::_index_put_impl_(&zeros_of(grad, sizes)?, indices, grad, true, true)
}

pub(crate) fn unsafe_index_backward(
    grad: &Tensor,
    sizes: &[i64],
    indices: Indices<'_>,
) -> Result<Tensor> {
    aten::_unsafe_index_put(&zeros_of(grad, sizes)?, indices, grad, true)
}

/// The gradient of what is written over at indices: zero there, unless what is written was added.
pub(crate) fn index_put_self_backward(
    grad: &Tensor,
    indices: Indices<'_>,
    values: &[i64],
    accumulate: bool,
) -> Result<Tensor> {
    match accumulate {
        true => Ok(grad.clone()),
        false => aten::index_put(grad, indices, &zeros_of(grad, values)?, false),
    }
}

pub(crate) fn unsafe_index_put_self_backward(
    grad: &Tensor,
    indices: Indices<'_>,
    values: &[i64],
    accumulate: bool,
) -> Result<Tensor> {
    match accumulate {
        true => Ok(grad.clone()),
        false => aten::_unsafe_index_put(grad, indices, &zeros_of(grad, values)?, false),
    }
}

pub(crate) fn take_backward(grad: &Tensor, sizes: &[i64], index: &Tensor) -> Result<Tensor> {
    aten::put(&zeros_of(grad, sizes)?, index, grad, true)
}

pub(crate) fn put_self_backward(
    grad: &Tensor,
    index: &Tensor,
    source: &[i64],
    accumulate: bool,
) -> Result<Tensor> {
    match accumulate {
        true => Ok(grad.clone()),
        false => aten::put(grad, index, &zeros_of(grad, source)?, false),
    }
}

pub(crate) fn put_source_backward(grad: &Tensor, index: &Tensor, source: &[i64]) -> Result<Tensor> {
    aten::reshape(&aten::take(grad, index)?, source)
}

pub(crate) fn index_fill_zero(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    aten::index_fill_int_scalar(grad, dim, index, ZERO)
}

/// The gradient of the number that fills: the sum of where it went, each place once.
pub(crate) fn index_fill_value_backward(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let (places, _) = aten::_unique(index, false, false)?;
    aten::sum(&aten::index_select(grad, dim, &places)?, None)
}

/// The gradient of slices that are written at an index: the slices.
pub(crate) fn index_source_backward(
    grad: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &[i64],
) -> Result<Tensor> {
    match source.len() {
        0 => aten::index_select(grad, dim, &aten::squeeze_dim(index, 0)?),
        _ => {
            let slices = aten::index_select(grad, dim, index)?;
            match slices.sizes() == source {
                true => Ok(slices),
                false => aten::expand(&slices, source, false),
            }
        }
    }
}

pub(crate) fn index_add_source_backward(
    grad: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &[i64],
    alpha: Scalar,
) -> Result<Tensor> {
    let grad = index_source_backward(grad, dim, index, source)?;
    super::maybe_multiply(&grad, alpha)
}

pub(crate) fn masked_fill_zero(grad: &Tensor, mask: &Tensor) -> Result<Tensor> {
    aten::masked_fill_scalar(grad, mask, ZERO)
}

pub(crate) fn masked_scatter_double_backward(
    grad: &Tensor,
    sizes: &[i64],
    mask: &Tensor,
) -> Result<Tensor> {
    aten::masked_scatter(&zeros_of(grad, sizes)?, mask, grad)
}

pub(crate) fn scatter_zero(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    aten::scatter_value(grad, dim, index, ZERO)
}

/// The plain `gather`, which makes no sparse gradients.
pub(crate) fn gather(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    aten::gather(x, dim, index, false)
}

pub(crate) fn embedding_backward(
    grad: &Tensor,
    indices: &Tensor,
    weight: &[i64],
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    let rows = weight.first().copied().unwrap_or(0);
    aten::embedding_backward(grad, indices, rows, padding_idx, scale_grad_by_freq, sparse)
}

pub(crate) fn embedding_dense_double_backward(
    grad: &Tensor,
    indices: &Tensor,
    padding_idx: i64,
) -> Result<Tensor> {
    let mut rows = aten::index_select(grad, 0, &aten::reshape(indices, &[-1])?)?;
    if padding_idx >= 0 {
        let padding = aten::eq_scalar(indices, Scalar::Int(padding_idx))?;
        rows = masked_fill_zero(&rows, &aten::reshape(&padding, &[-1, 1])?)?;
    }
    let mut sizes = indices.sizes().to_vec();
    sizes.extend(grad.sizes().iter().skip(1));
    aten::reshape(&rows, &sizes)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn embedding_bag_backward(
    grad: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    bag_of: &Tensor,
    bag_sizes: &Tensor,
    maxima: &Tensor,
    weight: &[i64],
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    aten::_embedding_bag_backward(
        grad,
        indices,
        offsets,
        bag_of,
        bag_sizes,
        maxima,
        weight.first().copied().unwrap_or(0),
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample,
        padding_idx,
    )
}

/// The gradient of the factors in a bag: each row of the table times the gradient of its bag.
pub(crate) fn embedding_bag_sample_weights_backward(
    grad: &Tensor,
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    bag_of: &Tensor,
    mode: i64,
    padding_idx: i64,
) -> Result<Tensor> {
    ensure!(mode == 0, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
    let bag_of = match bag_of.numel() == indices.numel() {
        true => bag_of.clone(),
        // not told: the number of bags that start at or before each index, less one
        false => {
            let (dtype, device) = (Some(indices.dtype()), Some(indices.device()));
            let at = aten::arange(Scalar::Int(indices.numel()), dtype, None, device, None)?;
            let started = aten::searchsorted_tensor(offsets, &at, false, true, None, None)?;
            let last = Scalar::Int(grad.sizes().first().copied().unwrap_or(1) - 1);
            aten::clamp_max(&aten::sub_scalar(&started, ONE, ONE)?, last)?
        }
    };
    let grads = aten::index_select(grad, 0, &bag_of)?;
    let rows = aten::index_select(weight, 0, indices)?;
    let product = aten::mul_tensor(&grads, &rows)?;
    let sums = aten::sum_dim_int_list(&product, Some(&[1]), false, None)?;
    if padding_idx < 0 {
        return Ok(sums);
    }
    masked_fill_zero(&sums, &aten::eq_scalar(indices, Scalar::Int(padding_idx))?)
}

/// The gradient of the least and the greatest elements, where several are equal in equal parts.
pub(crate) fn aminmax_backward(
    grads: &[Option<Tensor>],
    x: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    min: &Tensor,
    max: &Tensor,
) -> Result<Option<Tensor>> {
    let mut total: Option<Tensor> = None;
    for (grad, extreme) in grads.iter().zip([min, max]) {
        let Some(grad) = grad else { continue };
        let restored = |t: &Tensor| match dim {
            Some(dim) if !keepdim && x.dim() > 0 => aten::unsqueeze(t, dim),
            _ => Ok(t.clone()),
        };
        let (grad, extreme) = (restored(grad)?, restored(extreme)?);
        let there = aten::eq_tensor(x, &extreme)?;
        let count = match dim {
            Some(dim) if x.dim() > 0 => aten::sum_dim_int_list(&there, Some(&[dim]), true, None)?,
            _ => aten::sum(&there, None)?,
        };
        let share = aten::div_tensor(&grad, &count)?;
        let part = aten::mul_tensor(&share, &there)?;
        total = Some(match total {
            Some(total) => aten::add_tensor(&total, &part, ONE)?,
            None => part,
        });
    }
    Ok(total)
}

/// Where a reduction into a tensor puts what: single elements (`scatter_reduce`) or slices
/// (`index_reduce`).
struct Places<'a> {
    dim: i64,
    index: &'a Tensor,
    slices: bool,
}

impl Places<'_> {
    fn read(&self, x: &Tensor) -> Result<Tensor> {
        match self.slices {
            true => aten::index_select(x, self.dim, self.index),
            false => gather(x, self.dim, self.index),
        }
    }

    fn added(&self, x: &Tensor, source: &Tensor) -> Result<Tensor> {
        match self.slices {
            true => aten::index_add(x, self.dim, self.index, source, ONE),
            false => aten::scatter_add(x, self.dim, self.index, source),
        }
    }

    fn cleared(&self, x: &Tensor) -> Result<Tensor> {
        match self.slices {
            true => index_fill_zero(x, self.dim, self.index),
            false => scatter_zero(x, self.dim, self.index),
        }
    }

    fn multiplied(&self, x: &Tensor, source: &Tensor, include_self: bool) -> Result<Tensor> {
        let f = match self.slices {
            true => aten::index_reduce,
            false => aten::scatter_reduce_two,
        };
        f(x, self.dim, self.index, source, "prod", include_self)
    }

    /// The gradients of a product: of each factor that of the others. A factor that alone is 0 has
    /// the product without it; where two are 0 nothing is left.
    fn of_products(
        &self,
        grad: &Tensor,
        x: &Tensor,
        source: &Tensor,
        include_self: bool,
        result: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let own = aten::masked_fill_scalar(x, &aten::eq_scalar(x, ZERO)?, ONE)?;
        let others = self.multiplied(&own, source, include_self)?;
        let of_x = aten::div_tensor(&aten::mul_tensor(grad, &others)?, &own)?;
        let zero = aten::eq_scalar(source, ZERO)?;
        let none = aten::zeros_like(x, None, None, None, None, None)?;
        let ones = aten::to_dtype(&zero, x.dtype(), false, false, None)?;
        let zeros = self.read(&self.added(&none, &ones)?)?;
        let alone = aten::logical_and(&zero, &aten::eq_scalar(&zeros, ONE)?)?;
        let rest = aten::masked_fill_scalar(source, &alone, ONE)?;
        let without = self.multiplied(x, &rest, include_self)?;
        let of_alone = self.read(&aten::mul_tensor(grad, &without)?)?;
        let divisor = aten::masked_fill_scalar(source, &zero, ONE)?;
        let of_others = self.read(&aten::mul_tensor(grad, result)?)?;
        let of_others = aten::div_tensor(&of_others, &divisor)?;
        Ok((of_x, aten::where_self(&alone, &of_alone, &of_others)?))
    }

    fn of_means(
        &self,
        grad: &Tensor,
        source: &Tensor,
        include_self: bool,
    ) -> Result<(Tensor, Tensor)> {
        let start = match include_self {
            true => aten::ones_like(grad, None, None, None, None, None)?,
            false => aten::zeros_like(grad, None, None, None, None, None)?,
        };
        let ones = aten::ones_like(source, None, None, None, None, None)?;
        let count = self.added(&start, &ones)?;
        let count = aten::masked_fill_scalar(&count, &aten::eq_scalar(&count, ZERO)?, ONE)?;
        let of_x = aten::div_tensor(grad, &count)?;
        let of_source = aten::div_tensor(&self.read(grad)?, &self.read(&count)?)?;
        Ok((of_x, of_source))
    }

    /// The gradients of extremes: equal parts for all that are equal to the result.
    fn of_extremes(
        &self,
        grad: &Tensor,
        x: &Tensor,
        source: &Tensor,
        result: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let number = |t: Tensor| aten::to_dtype(&t, x.dtype(), false, false, None);
        let own = number(aten::eq_tensor(x, result)?)?;
        let given = number(aten::eq_tensor(source, &self.read(result)?)?)?;
        let shared = aten::div_tensor(grad, &self.added(&own, &given)?)?;
        let of_x = aten::mul_tensor(&own, &shared)?;
        Ok((of_x, aten::mul_tensor(&given, &self.read(&shared)?)?))
    }

    fn backward(
        &self,
        grad: &Tensor,
        x: &Tensor,
        source: &Tensor,
        reduce: &str,
        include_self: bool,
        result: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (of_x, of_source) = match reduce {
            "sum" => (grad.clone(), self.read(grad)?),
            "prod" => self.of_products(grad, x, source, include_self, result)?,
            "mean" => self.of_means(grad, source, include_self)?,
            _ => self.of_extremes(grad, x, source, result)?,
        };
        match include_self {
            true => Ok((of_x, of_source)),
            false => Ok((self.cleared(&of_x)?, of_source)),
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn scatter_reduce_backward(
    grad: &Tensor,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let places = Places { dim, index, slices: false };
    places.backward(grad, x, source, reduce, include_self, result)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn index_reduce_backward(
    grad: &Tensor,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let places = Places { dim, index, slices: true };
    places.backward(grad, x, source, reduce, include_self, result)
}
