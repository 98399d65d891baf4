//! Variants that write: `relu.out`, `eq_.Scalar`, `zeros.out` and the like, each made of its
//! functional variant.
//!
//! An entry `variant_of: relu` registers one generic kernel. It calls the functional variant and
//! writes the result into `out`, which takes the result's shape, or into `self`, which keeps its
//! own. The functional variant of a factory also takes `dtype` and `device`; it gets those of
//! `out`.
//!
//! Functionalisation does the same for itself, by the schemas (`modes::functionalize::forms`).

use crate::dispatch::{DispatchKey, Kernel, OperatorHandle, Value, hold_arguments};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{check_can_cast, promote};
use crate::ops::copy;
use crate::ops::forms::structured::{Variant, arguments, schema_of};
use crate::tensor::Tensor;
use crate::tensor::access::{self, Overlap, overlap};
use crate::tensor::launch;
use crate::tensor::placement::Offer;
use smallvec::SmallVec;
use straightline_catalog::Op;
use straightline_catalog::rules::{OutChecked, OutDtype, OutOverlap, OutRules, OutStrides};
use straightline_catalog::schema::FunctionSchema;
use straightline_catalog::{DType, layout};

/// How results get into the tensors that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By the kernels of our own memory; an `out` of another shape takes the result's strides too.
    Direct,
    /// By operators, from the top.
    Composed,
}

/// Refuses outputs that share memory with an input, also those that are the input.
fn check_no_overlap<'a>(
    outs: &[Tensor],
    mut inputs: impl Iterator<Item = &'a Tensor>,
) -> Result<()> {
    let meets = |o: &Tensor, i: &Tensor| matches!(overlap(o, i), Overlap::Partial | Overlap::Full);
    match inputs.any(|input| outs.iter().any(|out| meets(out, input))) {
        true => Err(access::partial_overlap()),
        false => Ok(()),
    }
}

/// Refuses operands that lie partly over what is written in place.
fn check_in_place(schema: &FunctionSchema, args: &[Value]) -> Result<()> {
    let arguments = || schema.args.iter().zip(args);
    for (_, written) in arguments().filter(|(a, _)| a.is_write() && !a.is_out()) {
        for t in written.tensors() {
            access::check_no_internal_overlap(t)?;
            let mut read = arguments().flat_map(|(_, v)| v.tensors());
            read.try_for_each(|o| access::check_no_partial_overlap(t, o))?;
        }
    }
    Ok(())
}

/// Whether the operator returns uninitialised memory: its `out` keeps the elements that it has.
pub(crate) fn makes_no_values(functional: OperatorHandle) -> bool {
    let name = functional.name().base();
    name.starts_with("empty") || name.starts_with("new_empty")
}

/// The kernel of a variant that writes.
pub(crate) fn of(functional: Op, rules: OutRules, key: DispatchKey) -> Kernel {
    let dtype = rules.dtype;
    let functional = Variant::new(functional);
    let way = match key {
        DispatchKey::CPU | DispatchKey::Meta => Way::Direct,
        _ => Way::Composed,
    };
    Kernel::boxed(move |op, keys, stack| {
        let args = arguments(op, stack)?;
        let schema = schema_of(op)?;
        let _whole = match key {
            DispatchKey::Meta => None,
            _ => Some(hold_arguments(schema, &args)?),
        };
        let named = |(a, v): (&straightline_catalog::schema::Argument, &Value)| {
            a.name == "dtype" && !v.is_none()
        };
        let rules = match rules.dtype {
            // a dtype that the call names is that of the result, and of `out`
            OutDtype::Castable if schema.args.iter().zip(&args).any(named) => {
                OutRules { dtype: OutDtype::Exact, ..rules }
            }
            _ => rules,
        };
        if rules.overlap == OutOverlap::Refused {
            let outs = schema.args.iter().zip(&args).filter(|(a, _)| a.is_out());
            let outs: Vec<Tensor> = outs.flat_map(|(_, v)| v.tensors()).cloned().collect();
            let inputs = schema.args.iter().zip(&args).filter(|(a, _)| !a.is_out());
            check_no_overlap(&outs, inputs.flat_map(|(_, v)| v.tensors()))?;
        }
        check_in_place(schema, &args)?;
        let functional = functional.get()?;
        let mut call = functional_arguments(functional, schema, &args, dtype)?;
        let offer = match way {
            Way::Direct if key == DispatchKey::CPU => offer(functional, schema, &args),
            _ => None,
        };
        let called = match way {
            Way::Direct => functional.redispatch_boxed(keys, &mut call),
            Way::Composed => functional.call_boxed(&mut call),
        };
        called.map_err(|e| match rules.checked {
            OutChecked::Last => e,
            OutChecked::First => check_beside(dtype, schema, &args, &e).err().unwrap_or(e),
        })?;
        let mut results: Vec<Tensor> = call.iter().flat_map(Value::tensors).cloned().collect();
        // when the offer ends, nobody may have a handle on what lies in the place
        drop(call);
        if let Some(offer) = &offer {
            settle(offer, schema, &args, &mut results)?;
        }
        let mut results = results.iter();
        for (arg, value) in schema.args.iter().zip(&args).filter(|(a, _)| a.is_write()) {
            for to in value.tensors() {
                let Some(result) = results.next() else {
                    return Err(Error::runtime(format!(
                        "`{}` gave fewer results than `{}` writes",
                        functional.name(),
                        op.name()
                    )));
                };
                let relaid = match rules.strides {
                    OutStrides::ResultFrom4d => result.dim() >= 4,
                    OutStrides::ResultFrom5d => result.dim() >= 5,
                    OutStrides::Kept | OutStrides::WhenResized => false,
                };
                if relaid
                    && to.sizes() == result.sizes()
                    && layout::is_non_overlapping_and_dense(result.sizes(), result.strides())
                {
                    to.set_geometry(to.sizes(), result.strides(), to.storage_offset())?;
                }
                match arg.is_out() {
                    true if is_computed_in(to, result) => {
                        // counts as a write, as a copy would
                        drop(to.write()?);
                    }
                    true if makes_no_values(functional) => {
                        check_out(to, result, rules)?;
                        resize_output(to, result, rules.strides, way)?;
                        access::check_no_internal_overlap(to)?;
                    }
                    true => write_out(to, result, rules, way)?,
                    false => write_self(to, result, way)?,
                }
            }
        }
        for r in 0..schema.returns.len() {
            if let Some(i) = schema.aliased_argument(r) {
                stack.push(args[i].clone());
            }
        }
        Ok(())
    })
}

/// Offers the memory of each `out` to the kernel of the functional variant, so that nothing is
/// copied. Not where it could fail once it has written: an `out` of a call that failed is as it
/// was.
fn offer(functional: OperatorHandle, schema: &FunctionSchema, args: &[Value]) -> Option<Offer> {
    if makes_no_values(functional) || functional.tags().contains(&"may_fail") {
        return None;
    }
    let of = |out: bool| {
        let args = schema.args.iter().zip(args);
        args.filter(move |(a, _)| a.is_out() == out)
            .flat_map(|(_, v)| v.tensors())
            .collect::<SmallVec<[&Tensor; 4]>>()
    };
    launch::offer(&of(true), &of(false))
}

/// Whether a result has been computed in the memory of its `out`.
fn is_computed_in(out: &Tensor, result: &Tensor) -> bool {
    let same = || matches!((out.data_ptr(), result.data_ptr()), (Ok(a), Ok(b)) if a == b);
    out.numel() > 0
        && out.dtype() == result.dtype()
        && out.sizes() == result.sizes()
        && out.is_contiguous()
        && result.is_contiguous()
        && same()
}

/// Takes results that lie in a place which is not theirs out of it, before anything is written.
fn settle(
    offer: &Offer,
    schema: &FunctionSchema,
    args: &[Value],
    results: &mut [Tensor],
) -> Result<()> {
    offer.close();
    let outs = schema.args.iter().zip(args).filter(|(a, _)| a.is_write());
    let outs = outs.flat_map(|(_, v)| v.tensors());
    for (out, result) in outs.zip(results) {
        if offer.has_given(result.storage()) && !is_computed_in(out, result) {
            *result = copy::clone_contiguous(result)?;
        }
    }
    Ok(())
}

/// Of a call that failed because it is not implemented for a dtype: whether its `out` could have
/// had the dtype that the operands promote to.
fn check_beside(
    rule: OutDtype,
    schema: &FunctionSchema,
    args: &[Value],
    why: &Error,
) -> Result<()> {
    let of = |out: bool| {
        let args = schema.args.iter().zip(args);
        args.filter(move |(a, _)| a.is_out() == out).flat_map(|(_, v)| v.tensors())
    };
    let inputs: Vec<&Tensor> = of(false).collect();
    let (Some(out), Ok(dtype)) = (of(true).next(), promote(&inputs)) else {
        return Ok(());
    };
    if why.python_class() != "NotImplementedError" {
        return Ok(());
    }
    match rule {
        OutDtype::Exact if out.dtype() != dtype => Err(Error::dtype(format!(
            "Expected out tensor to have dtype {}, but got {} instead",
            dtype.torch_name(),
            out.dtype().torch_name()
        ))),
        OutDtype::Castable => check_can_cast(dtype, out.dtype()),
        _ => Ok(()),
    }
}

/// What the functional variant is given: the arguments of the same name or, if there is none,
/// place; for the options of a factory those of `out`.
fn functional_arguments(
    functional: OperatorHandle,
    schema: &FunctionSchema,
    args: &[Value],
    dtype: OutDtype,
) -> Result<Vec<Value>> {
    let inputs: Vec<usize> = (0..args.len()).filter(|i| !schema.args[*i].is_out()).collect();
    let out =
        (0..args.len()).filter(|i| schema.args[*i].is_out()).find_map(|i| args[i].tensors().next());
    let mut next = inputs.iter();
    let wanted = &schema_of(functional)?.args;
    let mut given = Vec::with_capacity(wanted.len());
    for want in wanted {
        let named = inputs.iter().find(|i| schema.args[**i].name == want.name);
        let value = match (named, want.name.as_str(), out) {
            (None, "dtype", Some(out)) => Value::DType(out.dtype()),
            (None, "device", Some(out)) => Value::Device(out.device()),
            (None, "layout" | "pin_memory", Some(_)) => Value::None,
            _ => match next.next() {
                Some(i) => args[*i].clone(),
                None => {
                    return Err(Error::runtime(format!(
                        "`{}` wants an argument `{}` that its variant does not have",
                        functional.name(),
                        want.name
                    )));
                }
            },
        };
        given.push(match (value, out) {
            (Value::None, Some(out)) if want.name == "dtype" && dtype == OutDtype::Chosen => {
                Value::DType(out.dtype())
            }
            (value, _) => value,
        });
    }
    Ok(given)
}

/// Whether an `out` can have the result.
fn check_out(out: &Tensor, result: &Tensor, rules: OutRules) -> Result<()> {
    ensure_device!(
        out.device() == result.device(),
        "Expected out tensor to be on {}, but found it on {}",
        result.device(),
        out.device()
    );
    match rules.dtype {
        OutDtype::Castable => check_can_cast(result.dtype(), out.dtype())?,
        OutDtype::Joined => {
            check_can_cast(result.dtype(), out.dtype())
                .map_err(|e| Error::type_error(e.to_string()))?;
        }
        OutDtype::Copied => {}
        OutDtype::Truth if matches!(out.dtype(), DType::Bool | DType::U8) => {}
        _ if out.dtype() == result.dtype() => {}
        _ => {
            return Err(Error::dtype(format!(
                "Expected out tensor to have dtype {}, but got {} instead",
                result.dtype().torch_name(),
                out.dtype().torch_name()
            )));
        }
    }
    Ok(())
}

/// Writes a result into an `out`, which is resized where its shape is another.
fn write_out(out: &Tensor, result: &Tensor, rules: OutRules, way: Way) -> Result<()> {
    check_out(out, result, rules)?;
    resize_output(out, result, rules.strides, way)?;
    match way {
        Way::Direct => copy::copy_(out, result, false)?,
        Way::Composed => aten::copy_(out, result, false)?,
    };
    Ok(())
}

/// Gives `out` the result's shape; one that has elements in another shape gets a warning, as in
/// PyTorch.
fn resize_output(out: &Tensor, result: &Tensor, strides: OutStrides, way: Way) -> Result<()> {
    if out.sizes() == result.sizes() {
        return Ok(());
    }
    if out.numel() != 0 {
        tracing::warn!(
            out = ?out.sizes(),
            result = ?result.sizes(),
            "an `out` that has elements is resized: pass an empty one, or one of the result's shape"
        );
    }
    match way {
        Way::Composed => {
            aten::resize_(out, result.sizes(), None)?;
            match strides {
                OutStrides::WhenResized
                    if layout::is_non_overlapping_and_dense(result.sizes(), result.strides()) =>
                {
                    aten::as_strided_(out, result.sizes(), result.strides(), None).map(drop)
                }
                _ => Ok(()),
            }
        }
        Way::Direct => {
            let dense = layout::is_non_overlapping_and_dense(result.sizes(), result.strides());
            let own = layout::contiguous_strides(result.sizes());
            let strides = if dense { result.strides() } else { &own[..] };
            out.set_geometry(result.sizes(), strides, out.storage_offset())
        }
    }
}

/// Writes a result into the tensor that it was computed in place of.
fn write_self(to: &Tensor, result: &Tensor, way: Way) -> Result<()> {
    check_can_cast(result.dtype(), to.dtype())?;
    ensure_shape!(
        to.sizes() == result.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        to.sizes(),
        result.sizes()
    );
    match way {
        Way::Direct => copy::copy_(to, result, false)?,
        Way::Composed => aten::copy_(to, result, false)?,
    };
    Ok(())
}
