//! Operators by element.

use super::given::{Call, Results};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::promote;
use crate::tensor::Tensor;
use straightline_catalog::MemoryFormat;

/// The operands with the dimensions of their samples aligned from the right, as broadcasting
/// aligns them, and the samples before those.
pub(super) fn aligned(call: &Call<'_>, t: &Tensor, rank: usize) -> Result<Tensor> {
    let Some(value) = call.front(t)? else { return Ok(t.clone()) };
    let own = t.dim();
    if own >= rank {
        return Ok(value);
    }
    let mut sizes = vec![call.size];
    sizes.extend(std::iter::repeat_n(1, rank - own));
    sizes.extend(t.sizes());
    aten::reshape(&value, &sizes)
}

/// The rule of operators by element: all operands aligned.
pub(super) fn pointwise(call: &Call<'_>) -> Result<Option<Results>> {
    let tensors: Vec<&Tensor> = call.args.iter().flat_map(Value::tensors).collect();
    let rank = tensors.iter().map(|t| t.dim()).max().unwrap_or(0);
    // a batch of numbers has a dimension, and a number has none when dtypes are promoted
    let numbers = rank > 0 && tensors.len() > 1 && tensors.iter().any(|t| t.dim() == 0);
    let mixed = tensors.iter().any(|t| t.dtype() != tensors[0].dtype());
    let target = match (numbers || tensors.len() > 1) && mixed && promotes(&call.name) {
        true => Some(promote(&tensors)?),
        false => None,
    };
    let mut args = call.mapped(|t| {
        let value = aligned(call, t, rank)?;
        match target {
            Some(dtype) if t.dim() == 0 && call.is_batched(t) && t.dtype() != dtype => {
                aten::to_dtype(&value, dtype, false, false, None)
            }
            _ => Ok(value),
        }
    })?;
    for value in &mut args {
        if matches!(
            value,
            Value::MemoryFormat(MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d)
        ) {
            *value = Value::MemoryFormat(MemoryFormat::Preserve);
        }
    }
    if call.schema.is_inplace() && !call.is_batched(call.tensor(0)?) {
        // the kernel's own words
        return call.again(args).map(Some);
    }
    if call.schema.is_inplace() && call.tensor(0)?.dim() < rank {
        let sizes: Vec<&[i64]> = tensors.iter().map(|t| t.sizes()).collect();
        return Err(crate::Error::shape(format!(
            "output with shape {:?} doesn't match the broadcast shape of {sizes:?}",
            call.tensor(0)?.sizes()
        )));
    }
    let mut results = call.again(args)?;
    // an operand that all share and that is larger makes the result
    for value in &mut results {
        if let Value::Tensor(t) = value
            && t.dim() == rank
            && !call.schema.is_inplace()
        {
            let mut sizes = vec![call.size];
            sizes.extend(t.sizes());
            *t = aten::expand(&aten::unsqueeze(t, 0)?, &sizes, false)?;
        }
    }
    Ok(Some(results))
}

/// Operators that take each operand as it is.
fn promotes(name: &str) -> bool {
    !matches!(
        name.split('.').next().unwrap_or(name),
        "where" | "masked_fill" | "copy" | "fill" | "polar" | "complex" | "native_dropout_backward"
    )
}
