//! Variants that write: `relu.out`, `eq_.Scalar`, `zeros.out` and the like, each made of its
//! functional variant.
//!
//! An entry `variant_of: relu` registers one generic kernel. It calls the functional variant and
//! writes the result into `out`, which takes the result's shape, or into `self`, which keeps its
//! own. The functional variant of a factory also takes `dtype` and `device`; it gets those of
//! `out`.
//!
//! Functionalisation does the same for itself, by the schemas (`modes::functionalize::forms`).

use crate::dispatch::{DispatchKey, Kernel, Value, grad_enabled};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{check_can_cast, promote};
use crate::ops::copy;
use crate::ops::forms::over::Over;
use crate::ops::forms::relation::Relation;
use crate::ops::forms::structured::{Variant, arguments};
use crate::tensor::Tensor;
use crate::tensor::access;
use crate::tensor::launch;
use crate::tensor::placement::Offer;
use smallvec::SmallVec;
use std::sync::OnceLock;
use straightline_catalog::Op;
use straightline_catalog::rules::{OutChecked, OutDtype, OutRules, OutStrides};
use straightline_catalog::{DType, Kind, layout};

/// How results get into the tensors that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By the kernels of memory that we know; an `out` of another shape takes the result's strides too.
    Direct,
    /// By operators, from the top.
    Composed,
}

/// Refuses operands in the memory of an `out`.
fn check_outs(of: &Relation, args: &[Value]) -> Result<()> {
    if of.over == Over::Anything {
        return Ok(());
    }
    for out in of.outs(args) {
        of.inputs(args).into_iter().try_for_each(|input| of.over.check(out, input))?;
    }
    Ok(())
}

/// Refuses operands that lie partly over what is written in place.
fn check_in_place(of: &Relation, args: &[Value]) -> Result<()> {
    for t in of.written(args) {
        access::check_no_internal_overlap(t)?;
        let mut read = args.iter().flat_map(Value::tensors);
        read.try_for_each(|o| access::check_no_partial_overlap(t, o))?;
    }
    Ok(())
}

/// The kernel of a variant that writes.
pub(crate) fn of(functional: Op, rules: OutRules, key: DispatchKey) -> Kernel {
    let functional = Variant::new(functional);
    let relation: OnceLock<Relation> = OnceLock::new();
    let way = match key {
        DispatchKey::CPU | DispatchKey::Meta | DispatchKey::CUDA => Way::Direct,
        _ => Way::Composed,
    };
    Kernel::boxed(move |op, keys, stack| {
        let args = arguments(op, stack)?;
        let of = match relation.get() {
            Some(of) => of,
            None => {
                let new = Relation::new(op, functional.get()?, rules.dtype)?;
                relation.get_or_init(|| new)
            }
        };
        let _whole = match key {
            DispatchKey::Meta => None,
            _ => Some(of.hold(&args)?),
        };
        let rules = match rules.dtype {
            // a dtype that the call names is that of the result, and of `out`
            OutDtype::Castable if of.names_dtype(&args) => {
                OutRules { dtype: OutDtype::Exact, ..rules }
            }
            OutDtype::ExactIfReal => {
                let complex = of.inputs(&args).iter().any(|t| t.dtype().is_complex());
                let dtype = if complex { OutDtype::Castable } else { OutDtype::Exact };
                OutRules { dtype, ..rules }
            }
            _ => rules,
        };
        check_outs(of, &args)?;
        // kernels of our own memory check what they write by themselves
        let checks = key == DispatchKey::CUDA
            && matches!(
                of.functional.op().map(|op| op.facts().kind),
                Some(Kind::Pointwise | Kind::Test)
            );
        if !of.has_outs() || checks {
            check_in_place(of, &args)?;
        }
        let mut call = of.functional_arguments(&args);
        if key == DispatchKey::CompositeImplicitAutograd && grad_enabled() {
            // its parts may keep the old value, which is about to be written
            let written = of.written(&args);
            let lost =
                |t: &Tensor| t.requires_grad() && written.iter().any(|w| w.shares_storage_with(t));
            for value in &mut call {
                *value = value.map_tensors(|t| match lost(t) {
                    true => aten::clone(t, None),
                    false => Ok(t.clone()),
                })?;
            }
        }
        let offer = match way {
            Way::Direct if key == DispatchKey::CPU => offer(of, &args),
            _ => None,
        };
        let called = match way {
            Way::Direct => of.functional.redispatch_boxed(keys, &mut call),
            Way::Composed => of.functional.call_boxed(&mut call),
        };
        called.map_err(|e| match rules.checked {
            OutChecked::Last => e,
            OutChecked::First => check_beside(rules.dtype, of, &args, &e).err().unwrap_or(e),
        })?;
        let mut results: SmallVec<[Tensor; 2]> =
            call.iter().flat_map(Value::tensors).cloned().collect();
        // when the offer ends, nobody may have a handle on what lies in the place
        drop(call);
        let written = of.written(&args);
        if let Some(offer) = &offer {
            settle(offer, &written, &mut results)?;
        }
        if results.len() < written.len() {
            return Err(Error::runtime(format!(
                "`{}` gave fewer results than `{}` writes",
                of.functional.name(),
                op.name()
            )));
        }
        for (to, result) in written.into_iter().zip(&results) {
            write(of, to, result, rules, way)?;
        }
        stack.extend(of.returned.iter().map(|i| args[*i].clone()));
        Ok(())
    })
}

/// Writes a result to where it belongs.
fn write(of: &Relation, to: &Tensor, result: &Tensor, rules: OutRules, way: Way) -> Result<()> {
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
    match of.has_outs() {
        true if is_computed_in(to, result) => {
            // counts as a write, as a copy would
            drop(to.write()?);
            Ok(())
        }
        true if of.makes_no_values => {
            check_result(to, result, rules)?;
            resize_output(to, result, rules.strides, way)?;
            access::check_no_internal_overlap(to)
        }
        true => write_out(to, result, rules, way),
        false => write_self(to, result, way),
    }
}

/// Offers the memory of each `out` to the kernel of the functional variant, so that nothing is
/// copied. Not where it could fail once it has written: an `out` of a call that failed is as it
/// was.
fn offer(of: &Relation, args: &[Value]) -> Option<Offer> {
    match of.makes_no_values || of.may_fail {
        true => None,
        false => launch::offer(&of.outs(args), &of.inputs(args)),
    }
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
fn settle(offer: &Offer, written: &[&Tensor], results: &mut [Tensor]) -> Result<()> {
    offer.close();
    for (out, result) in written.iter().zip(results) {
        if offer.has_given(result.storage()) && !is_computed_in(out, result) {
            *result = copy::clone(result, None)?;
        }
    }
    Ok(())
}

/// Of a call that failed because it is not implemented for a dtype: whether its `out` could have
/// had the dtype that the operands promote to.
fn check_beside(rule: OutDtype, of: &Relation, args: &[Value], why: &Error) -> Result<()> {
    let outs = of.outs(args);
    let (Some(out), Ok(dtype)) = (outs.first(), promote(&of.inputs(args))) else {
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

/// Whether an `out` can have the result.
fn check_result(out: &Tensor, result: &Tensor, rules: OutRules) -> Result<()> {
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
    check_result(out, result, rules)?;
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
