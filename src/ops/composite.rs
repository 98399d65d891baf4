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

use super::aten;
use super::structured::{arguments, schema_of, shapes};
use crate::dispatch::{OperatorHandle, Stack, Value, operator};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use straightline_passes::ir::DType;
use straightline_passes::ir::schema::SchemaType;

/// Whether only the kernels of its own backend know what is in the tensor.
#[inline]
pub(crate) fn is_foreign(t: &Tensor) -> bool {
    t.extra().is_some()
}

/// Runs an operator by calls of others; arguments and results are on the stack.
pub(crate) fn decompose(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let args = arguments(op, stack)?;
    let result = parts(op, &args)?;
    stack.push(result);
    Ok(())
}

fn parts(op: OperatorHandle, args: &[Value]) -> Result<Value> {
    let schema = schema_of(op)?;
    let name = op.name().to_string();
    let name = name.trim_start_matches("aten::");
    let new = |t: Result<Tensor>| t.map(Value::Tensor);
    let (base, overload) = name.split_once('.').unwrap_or((name, ""));
    match (name, args) {
        ("sum", [t, dtype]) => {
            let t = tensor(op, t)?;
            new(aten::sum_dim_int_list(t, None, false, dtype_of(dtype)))
        }
        ("mean", [t, dtype]) => {
            let t = tensor(op, t)?;
            new(aten::mean_dim(t, None, false, dtype_of(dtype)))
        }
        _ if schema.is_view() || name == "_unsafe_view" => {
            let (shapes, _) = shapes(op, args)?;
            let [shape] = &shapes[..] else {
                return Err(no_way(op, args));
            };
            let of = tensor(op, &args[0])?;
            new(aten::as_strided(
                of,
                shape.sizes(),
                shape.strides(),
                Some(shape.storage_offset()),
            ))
        }
        _ if schema.is_inplace() && base.ends_with('_') => {
            let functional = join(base.trim_end_matches('_'), overload);
            let mut inner = args.to_vec();
            found(op, args, &functional)?.call_boxed(&mut inner)?;
            let target = tensor(op, &args[0])?;
            let result = inner.iter().flat_map(Value::tensors).next();
            new(aten::copy_(
                target,
                result.ok_or_else(|| no_way(op, args))?,
                false,
            ))
        }
        _ if overload.starts_with("Scalar") => {
            let other = join(base, &overload.replace("Scalar", "Tensor"));
            let target = found(op, args, &other)?;
            let mut inner = Vec::with_capacity(args.len());
            for (value, want) in args.iter().zip(&schema_of(target)?.args) {
                inner.push(match (value.as_scalar(), &want.ty) {
                    (Some(s), SchemaType::Tensor) => Tensor::wrapped_number(s)?.into(),
                    _ => value.clone(),
                });
            }
            target.call_boxed(&mut inner)?;
            inner.pop().ok_or_else(|| no_way(op, args))
        }
        _ => Err(no_way(op, args)),
    }
}

fn join(base: &str, overload: &str) -> String {
    if overload.is_empty() {
        base.to_string()
    } else {
        format!("{base}.{overload}")
    }
}

fn found(op: OperatorHandle, args: &[Value], name: &str) -> Result<OperatorHandle> {
    operator(&format!("aten::{name}")).map_err(|_| no_way(op, args))
}

fn dtype_of(v: &Value) -> Option<DType> {
    match v {
        Value::DType(d) => Some(*d),
        _ => None,
    }
}

fn tensor(op: OperatorHandle, v: &Value) -> Result<&Tensor> {
    v.as_tensor()
        .ok_or_else(|| no_way(op, std::slice::from_ref(v)))
}

fn no_way(op: OperatorHandle, args: &[Value]) -> Error {
    let keys = op.argument_keys(args);
    let backend = crate::dispatch::DispatchKey::Dense.on_backend(keys.highest_backend());
    Error::not_implemented(format!(
        "`{}` has no kernel for these tensors ({keys}) and does not fall apart into operators that \
         their backend may have: register one, `library.impl_at(\"{}\", DispatchKey::{backend}, ..)`",
        op.name(),
        op.name().to_string().trim_start_matches("aten::"),
    ))
}
