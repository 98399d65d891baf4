//! Operators on tensors of backends from outside, taken apart into fewer operators.
//!
//! The kernels at `CompositeExplicitAutograd` serve all backends. On tensors in our own memory they
//! work directly; a tensor that carries a payload is known only to the kernels of its backend, and
//! for such tensors each operator becomes calls of others, as PyTorch's composites do. Copies and
//! factories do so by themselves (`copy`, `factory`); the rest is here:
//!
//! | operators | become |
//! |---|---|
//! | views | `as_strided` |
//! | `add.Scalar` and other overloads with a number | the overload with a tensor |
//! | `abs_`, `add_.Scalar` and other in-place operators | the functional variant and `copy_` |
//! | `sum`, `mean` over everything | the overload with dimensions |
//! | `t`, `transpose`, `select`, `unsqueeze`, `detach` of sparse tensors | new coordinates, the tensor itself |
//! | views of quantized tensors | the same view of the integers |
//! | others | no others: they go to the fallback of the backend, and without one are an error |

use crate::dispatch::{
    DispatchKey, DispatchKeySet, OperatorHandle, Stack, Value, find_schema, hold_arguments,
};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::check_can_cast;
use crate::ops::forms::structured::{arguments, schema_of, shapes};
use crate::tensor::Tensor;
use straightline_catalog::schema::{OperatorName, SchemaType};
use straightline_catalog::{DType, Op};

/// Whether only the kernels of its own backend know what is in the tensor. (One that a function made
/// of data while it was captured carries a note of that, and has its data.)
#[inline]
pub(crate) fn is_foreign(t: &Tensor) -> bool {
    t.extra().is_some() && t.made_during_capture().is_none()
}

/// Runs an operator by calls of others; arguments and results are on the stack.
pub(crate) fn decompose(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let args = arguments(op, stack)?;
    if let Some(result) = parts(op, &args)? {
        stack.push(result);
        return Ok(());
    }
    let backend = backend_of(op, &args);
    let no_way = no_way(op, &args);
    stack.extend(args);
    op.call_fallback(backend, stack).unwrap_or(Err(no_way))
}

pub(crate) fn backend_of(op: OperatorHandle, args: &[Value]) -> DispatchKey {
    let keys = op.argument_keys(args) & DispatchKeySet::full_after(DispatchKey::BackendSelect);
    keys.highest_priority_key()
}

/// The operator by others; `None` if there is no such way.
pub(crate) fn parts(op: OperatorHandle, args: &[Value]) -> Result<Option<Value>> {
    let schema = schema_of(op)?;
    let (Some(called), [Value::Tensor(of), rest @ ..]) = (op.op(), args) else {
        return Ok(None);
    };
    let (base, overload) = (&*schema.name.name, &*schema.name.overload);
    if let Some(result) = crate::ops::sparse::composite(called, of, rest) {
        return result.map(|t| Some(t.into()));
    }
    let made = match (called, rest) {
        (Op::sum, [dtype]) => aten::sum_dim_int_list(of, None, false, dtype_of(dtype))?,
        (Op::mean, [dtype]) => aten::mean_dim(of, None, false, dtype_of(dtype))?,
        (Op::unbind_int, [Value::Int(dim)]) if of.is_sparse() => {
            return Ok(Some(crate::ops::sparse::unbind(of, *dim)?.into()));
        }
        _ if schema.is_view() && of.is_quantized() => {
            return crate::ops::quantized::of_ints(op, of, rest).map(Some);
        }
        // no strides say where the elements lie
        _ if schema.is_view() && of.kind_without_memory().is_some() => return Ok(None),
        _ if called.facts().view => {
            let (shapes, _) = shapes(op, args)?;
            let [shape] = &shapes[..] else {
                return Ok(None);
            };
            let offset = Some(shape.storage_offset());
            aten::as_strided(of, shape.sizes(), shape.strides(), offset)?
        }
        _ if schema.is_inplace() && base.ends_with('_') => {
            let Some(functional) = variant(base.trim_end_matches('_'), overload)
                .filter(|v| !is_for_fallback(*v, op, args))
            else {
                return Ok(None);
            };
            let _whole = hold_arguments(schema, args)?;
            let mut inner = args.to_vec();
            functional.call_boxed(&mut inner)?;
            let Some(result) = inner.iter().flat_map(Value::tensors).next() else {
                return Ok(None);
            };
            check_can_cast(result.dtype(), of.dtype())?;
            ensure_shape!(
                result.sizes() == of.sizes(),
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                of.sizes(),
                result.sizes()
            );
            aten::copy_(of, result, false)?
        }
        _ if overload.starts_with("Scalar") => {
            let Some(with_tensor) = variant(base, &overload.replace("Scalar", "Tensor"))
                .filter(|v| !is_for_fallback(*v, op, args))
            else {
                return Ok(None);
            };
            let mut inner = Vec::with_capacity(args.len());
            for (value, want) in args.iter().zip(&schema_of(with_tensor)?.args) {
                inner.push(match (value.as_scalar(), &want.ty) {
                    (Some(s), SchemaType::Tensor) => Tensor::wrapped_number(s)?.into(),
                    _ => value.clone(),
                });
            }
            with_tensor.call_boxed(&mut inner)?;
            return Ok(inner.pop());
        }
        _ => return Ok(None),
    };
    Ok(Some(made.into()))
}

/// Whether the backend has a fallback and no kernel of its own for another form of an operator:
/// then the operator itself goes to the fallback, which knows its rules.
pub(crate) fn is_for_fallback(other: OperatorHandle, op: OperatorHandle, args: &[Value]) -> bool {
    let backend = backend_of(op, args);
    !other.registers(backend) && op.has_fallback(backend)
}

fn variant(base: &str, overload: &str) -> Option<OperatorHandle> {
    find_schema(&OperatorName::new(base, overload))
}

fn dtype_of(v: &Value) -> Option<DType> {
    match v {
        Value::DType(d) => Some(*d),
        _ => None,
    }
}

fn no_way(op: OperatorHandle, args: &[Value]) -> Error {
    let (keys, backend) = (op.argument_keys(args), backend_of(op, args));
    let kind = args.iter().flat_map(Value::tensors).find_map(Tensor::kind_without_memory);
    let instead =
        kind.map_or(String::new(), |(what, instead)| format!("; the operand is {what}: {instead}"));
    Error::not_implemented(format!(
        "`{}` has no kernel for these tensors ({keys}) and does not fall apart into operators that \
         their backend may have: register one, `library.impl_at(\"{}\", DispatchKey::{backend}, ..)`{instead}",
        op.name(),
        op.op().map_or_else(String::new, |op| op.unqualified().to_string()),
    ))
}
