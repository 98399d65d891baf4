//! Batching rules: what an operator does with several samples at once.
//!
//! A rule runs below its layer, on the tensors that are inside of the batched ones, whose samples
//! it moves to the front; its results have theirs there. A *recipe* runs at the layer and makes
//! other calls, which are batched in turn. Composites are their own recipes. What has neither is
//! called for each sample.

mod given;
mod index;
mod lists;
mod looped;
mod losses;
mod nn;
mod pointwise;
mod products;
mod random;
mod reduce;
mod shapes;
mod strided;
mod table;

use super::composite::{answers, decompose, is_composite};
use super::layer::{self, Kind, Layer};
use crate::dispatch::schema::FunctionSchema;
use crate::dispatch::{OperatorHandle, TlsKeySets, Value};
use crate::error::{Error, Result};
use given::{Call, is_batched, name_of};
use std::rc::Rc;
use table::Rule;

/// Handles a call of a `Vmap` layer.
pub(super) fn call(
    layer: &Rc<Layer>,
    op: OperatorHandle,
    schema: &'static FunctionSchema,
    mut args: Vec<Value>,
) -> Result<Vec<Value>> {
    let Kind::Vmap { size, randomness } = layer.kind else {
        return Err(Error::runtime("a layer that is no vmap has batched tensors"));
    };
    let keys = TlsKeySets::current();
    let batched = args.iter().flat_map(Value::tensors).any(|t| is_batched(t, layer));
    let call = Call { layer, op, name: name_of(op, schema), schema, args: Vec::new(), size };
    if random::is_random(&call) {
        return random::call(Call { args, ..call }, randomness);
    }
    if !batched {
        if is_composite(op) && !answers(schema) {
            return decompose(op, args);
        }
        layer::below(layer, keys, || op.call_boxed(&mut args))?;
        return Ok(args);
    }
    let call = Call { args, ..call };
    call.refuse_what_depends_on_data()?;
    call.refuse_shared_statistics()?;
    let rule = table::find(&call);
    if call.schema.is_mutable() {
        call.check_written()?;
    }
    if let Some(Rule::Recipe(recipe)) = rule
        && let Some(results) = recipe(&call)?
    {
        return Ok(results);
    }
    if let Some(Rule::Below(rule)) = rule {
        let done = layer::below(layer, keys, || rule(&call))?;
        if let Some(results) = done {
            return Ok(call.wrapped(results));
        }
    }
    if is_composite(op) {
        return decompose(op, call.args);
    }
    let results = layer::below(layer, keys, || looped::run(&call))?;
    Ok(call.wrapped(results))
}
