//! Random numbers, alike or not for the samples.

use super::given::Call;
use super::looped;
use crate::autograd::Randomness;
use crate::dispatch::{TlsKeySets, Value};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::transforms::error::TransformError;
use crate::transforms::{composite, layer};

/// Whether an operator draws numbers.
pub(super) fn is_random(call: &Call<'_>) -> bool {
    call.op.tags().contains(&"nondeterministic_seeded") && !call.name.contains("sdp")
}

/// A call of such an operator.
pub(super) fn call(call: Call<'_>, randomness: Randomness) -> Result<Vec<Value>> {
    let batched = call.args.iter().flat_map(Value::tensors).any(|t| call.is_batched(t));
    let training =
        call.position("train").is_none_or(|at| !matches!(call.args[at], Value::Bool(false)));
    let dropout = call.name.ends_with("dropout");
    if composite::is_composite(call.op)
        && !(dropout && training && randomness == Randomness::Same && batched)
    {
        return composite::decompose(call.op, call.args);
    }
    if dropout && !training {
        let results = below(&call, || call.again(call.mapped(|t| call.front_or_own(t))?))?;
        return Ok(if batched { call.wrapped(results) } else { results });
    }
    match randomness {
        Randomness::Error => Err(TransformError::Random.into()),
        Randomness::Same if !batched => below(&call, || call.again(call.args.clone())),
        Randomness::Same if dropout && !call.schema.is_mutable() => same_dropout(&call),
        Randomness::Same => Err(TransformError::SameRandomness.into()),
        Randomness::Different => different(&call, batched),
    }
}

fn below<R>(call: &Call<'_>, f: impl FnOnce() -> Result<R>) -> Result<R> {
    layer::below(call.layer, TlsKeySets::current(), f)
}

/// One mask for all samples.
fn same_dropout(call: &Call<'_>) -> Result<Vec<Value>> {
    let input = call.tensor(0)?;
    let results = below(call, || {
        let (dtype, device) = (Some(input.dtype()), Some(input.device()));
        let ones = aten::ones(input.sizes(), dtype, None, device, None)?;
        let mut args = call.args.clone();
        args[0] = ones.into();
        call.again(args)
    })?;
    let mut results = results.into_iter();
    let mut all = Vec::new();
    if let Some(Value::Tensor(factor)) = results.next() {
        all.push(aten::mul_tensor(input, &factor)?.into());
    }
    all.extend(results);
    Ok(all)
}

/// One draw for all samples, with theirs in front.
fn different(call: &Call<'_>, batched: bool) -> Result<Vec<Value>> {
    if call.schema.is_mutable() && !batched {
        return Err(TransformError::DifferentInPlace.into());
    }
    if call.schema.is_mutable() {
        call.check_written()?;
    }
    let size = call.position("size").filter(|at| matches!(call.args[*at], Value::IntList(_)));
    let tensors: Vec<&Tensor> = call.args.iter().flat_map(Value::tensors).collect();
    let alike = tensors.windows(2).all(|w| w[0].dim() == w[1].dim());
    let matrix = call.name == "multinomial" && call.rank() > 1;
    let results = below(call, || match size {
        Some(at) => {
            let mut args = call.args.clone();
            let mut sizes = call.ints(at)?;
            sizes.insert(0, call.size);
            args[at] = Value::IntList(sizes);
            call.again(args)
        }
        None if !tensors.is_empty() && alike && !matrix => {
            call.again(call.mapped(|t| call.expanded(t))?)
        }
        None => looped::run(call),
    })?;
    Ok(call.wrapped(results))
}
