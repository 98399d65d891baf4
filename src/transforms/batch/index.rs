//! Elements by their indices.

use super::given::{Call, Results};
use super::shapes::wrapped;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::transforms::error::TransformError;
use crate::transforms::map::moved;
use straightline_catalog::{DType, Scalar};

fn one(t: Tensor) -> Result<Option<Results>> {
    Ok(Some(vec![Value::Tensor(t)]))
}

/// `0, step, 2 * step ...`, one for each sample, with `more` dimensions of one element.
fn offsets(call: &Call<'_>, like: &Tensor, step: i64, more: usize) -> Result<Tensor> {
    let (from, to) = (Scalar::Int(0), Scalar::Int(call.size * step.max(1)));
    let (dtype, device) = (Some(DType::I64), Some(like.device()));
    let range =
        aten::arange_start_step(from, to, Scalar::Int(step.max(1)), dtype, None, device, None)?;
    let mut sizes = vec![call.size];
    sizes.extend(std::iter::repeat_n(1, more));
    aten::reshape(&range, &sizes)
}

fn plus(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, b, Scalar::Int(1))
}

pub(super) fn index_select(call: &Call<'_>) -> Result<Option<Results>> {
    let (own, index) = (call.tensor(0)?, call.tensor(2)?);
    if own.dim() == 0 {
        return Ok(None);
    }
    let dim = wrapped(call.int(1)?, own.dim())?;
    let count = index.numel();
    match (call.front(own)?, call.front(index)?) {
        (Some(own), None) => one(aten::index_select(&own, dim as i64 + 1, index)?),
        (None, Some(index)) => {
            let flat = aten::reshape(&index, &[call.size * count])?;
            let picked = aten::index_select(own, dim as i64, &flat)?;
            let mut sizes = picked.sizes().to_vec();
            sizes.splice(dim..=dim, [call.size, count]);
            one(moved(&aten::reshape(&picked, &sizes)?, dim, 0)?)
        }
        (Some(value), Some(index)) => {
            let rows = moved(&value, dim + 1, 1)?;
            let along = rows.sizes()[1];
            let mut sizes = vec![call.size * along];
            sizes.extend(&rows.sizes()[2..]);
            let rows = aten::reshape(&rows, &sizes)?;
            let index = aten::reshape(&index, &[call.size, count])?;
            let index = plus(&index, &offsets(call, &index, along, 1)?)?;
            let picked = aten::index_select(&rows, 0, &aten::reshape(&index, &[-1])?)?;
            sizes.splice(0..1, [call.size, count]);
            one(moved(&aten::reshape(&picked, &sizes)?, 1, dim + 1)?)
        }
        (None, None) => Ok(None),
    }
}

pub(super) fn embedding(call: &Call<'_>) -> Result<Option<Results>> {
    let (weight, indices) = (call.tensor(0)?, call.tensor(1)?);
    let Some(rows) = call.front(weight)? else {
        let args = call.mapped(|t| call.front_or_own(t))?;
        return call.again(args).map(Some);
    };
    let (count, width) = (weight.sizes()[0], weight.sizes()[1]);
    let rows = aten::reshape(&rows, &[call.size * count, width])?;
    let indices = call.expanded(indices)?;
    let indices = plus(&indices, &offsets(call, &indices, count, indices.dim() - 1)?)?;
    one(aten::embedding(&rows, &indices, -1, call.flag(3), call.flag(4))?)
}

/// `(grad, indices, num_weights, padding_idx, scale_grad_by_freq)`.
pub(super) fn embedding_dense_backward(call: &Call<'_>) -> Result<Option<Results>> {
    if call.flag(4) {
        return Ok(None);
    }
    let (mut grad, indices) = (call.expanded(call.tensor(0)?)?, call.expanded(call.tensor(1)?)?);
    let (count, padding) = (call.int(2)?, call.int(3)?);
    if padding >= 0 {
        let kept = aten::ne_scalar(&indices, Scalar::Int(padding))?;
        grad = aten::mul_tensor(&grad, &aten::unsqueeze(&kept, -1)?)?;
    }
    let indices = plus(&indices, &offsets(call, &indices, count, indices.dim() - 1)?)?;
    let all = aten::embedding_dense_backward(&grad, &indices, call.size * count, -1, false)?;
    let width = all.sizes()[1];
    one(aten::reshape(&all, &[call.size, count, width])?)
}

/// The indices of a call.
struct Indices {
    all: Vec<Option<Tensor>>,
    /// The dimensions that they broadcast to, without the samples.
    rank: usize,
    /// The first dimension that is indexed.
    first: usize,
    /// Whether the indexed dimensions are neighbours.
    adjacent: bool,
    batched: bool,
    masks: bool,
}

fn indices(call: &Call<'_>) -> Result<Option<Indices>> {
    let all: Vec<Option<Tensor>> = match &call.args[1] {
        Value::OptionalTensorList(l) => l.clone(),
        Value::TensorList(l) => l.iter().cloned().map(Some).collect(),
        _ => return Ok(None),
    };
    let given: Vec<usize> = (0..all.len()).filter(|i| all[*i].is_some()).collect();
    let Some((&first, &last)) = given.first().zip(given.last()) else { return Ok(None) };
    let tensors = || all.iter().flatten();
    let masks = tensors().any(|t| matches!(t.dtype(), DType::Bool | DType::U8));
    if tensors().any(|t| call.is_batched(t) && t.dtype() == DType::Bool) {
        return Err(TransformError::Mask { op: call.op.name().to_string() }.into());
    }
    Ok(Some(Indices {
        rank: tensors().map(Tensor::dim).max().unwrap_or(0),
        first,
        adjacent: last - first + 1 == given.len(),
        batched: tensors().any(|t| call.is_batched(t)),
        masks,
        all,
    }))
}

impl Indices {
    /// The indices with their samples before the dimensions that they broadcast to.
    fn aligned(&self, call: &Call<'_>) -> Result<Vec<Option<Tensor>>> {
        let each = |t: &Option<Tensor>| {
            t.as_ref().map(|t| super::pointwise::aligned(call, t, self.rank)).transpose()
        };
        self.all.iter().map(each).collect()
    }

    /// The same after an index that is the sample.
    fn with_samples(&self, call: &Call<'_>, like: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let mut all = vec![Some(offsets(call, like, 1, self.rank)?)];
        all.extend(self.aligned(call)?);
        Ok(all)
    }
}

pub(super) fn index(call: &Call<'_>) -> Result<Option<Results>> {
    let Some(indices) = indices(call)? else { return Ok(None) };
    let own = call.tensor(0)?;
    let pick = |t: &Tensor, by: Vec<Option<Tensor>>| {
        let done = call.again(vec![t.clone().into(), Value::OptionalTensorList(by)])?;
        match done.into_iter().next() {
            Some(Value::Tensor(t)) => Ok(t),
            _ => Err(crate::Error::runtime("index gave no tensor")),
        }
    };
    match (call.front(own)?, indices.batched) {
        (Some(value), false) => {
            let mut by = vec![None];
            by.extend(indices.all.iter().cloned());
            match (indices.adjacent, indices.masks) {
                (true, _) => one(pick(&value, by)?),
                (false, false) => one(moved(&pick(&value, by)?, indices.rank, 0)?),
                (false, true) => Ok(None),
            }
        }
        _ if indices.masks => Ok(None),
        (None, _) => {
            let at = if indices.adjacent { indices.first } else { 0 };
            one(moved(&pick(own, indices.aligned(call)?)?, at, 0)?)
        }
        (Some(value), true) => {
            let picked = pick(&value, indices.with_samples(call, &value)?)?;
            if !indices.adjacent || indices.first == 0 {
                return one(picked);
            }
            // [samples, indexed, before, after] -> [samples, before, indexed, after]
            let (k, p) = (indices.rank as i64, indices.first as i64);
            let mut dims = vec![0];
            dims.extend(1 + k..1 + k + p);
            dims.extend(1..=k);
            dims.extend(1 + k + p..picked.dim() as i64);
            one(aten::permute(&picked, &dims)?)
        }
    }
}

pub(super) fn index_put(call: &Call<'_>) -> Result<Option<Results>> {
    let Some(indices) = indices(call)? else { return Ok(None) };
    if indices.masks || (indices.adjacent && indices.first > 0) {
        return Ok(None);
    }
    let own = call.tensor(0)?;
    let value = call.expanded(own)?;
    let given = indices.all.iter().flatten().count();
    let rank = indices.rank + own.dim().saturating_sub(given);
    let mut args = call.args.clone();
    args[1] = Value::OptionalTensorList(indices.with_samples(call, &value)?);
    args[0] = value.into();
    args[2] = super::pointwise::aligned(call, call.tensor(2)?, rank)?.into();
    call.again(args).map(Some)
}

/// `(self, dim, index, source, alpha)`, at the layer.
pub(super) fn index_add(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (own, index, source) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    if call.schema.is_mutable() || own.dim() == 0 || source.dim() != own.dim() {
        return Ok(None);
    }
    let dim = wrapped(call.int(1)?, own.dim())?;
    let alpha = call.args.get(4).and_then(Value::as_scalar).unwrap_or(Scalar::Int(1));
    let mut sizes = vec![1; own.dim()];
    sizes[dim] = index.numel();
    let index = aten::expand(&aten::reshape(index, &sizes)?, source.sizes(), false)?;
    let index = aten::to_dtype(&index, DType::I64, false, false, None)?;
    let source = match alpha.as_f64() == 1.0 {
        true => source.clone(),
        false => aten::mul_scalar(source, alpha)?,
    };
    Ok(Some(vec![aten::scatter_add(own, dim as i64, &index, &source)?.into()]))
}

/// A value of each sample, at the layer.
pub(super) fn masked_fill(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (own, mask, value) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if !call.is_batched(value) || value.dim() > 0 {
        return Ok(None);
    }
    let value = aten::to_dtype(value, own.dtype(), false, false, None)?;
    let filled = aten::where_self(mask, &value, own)?;
    Ok(Some(vec![match call.schema.is_mutable() {
        true => aten::copy_(own, &filled, false)?.into(),
        false => filled.into(),
    }]))
}
