//! Sparse, quantized and nested tensors in a captured function: only their dense parts appear in
//! the graph.
//!
//! Operators that return a part, or a number known without data, run directly. A few that make a
//! dense tensor of the parts are expressed by other operators here. All others are refused by name.

use super::below;
use crate::dispatch::{DispatchKeySet, ExcludeGuard, OperatorHandle, Stack, Value};
use crate::error::Result;
use crate::modes::{ABOVE_PYTHON, outside};
use crate::ops::aten;
use crate::ops::kinds;
use crate::ops::nested;
use crate::ops::quantized;
use crate::ops::sparse;
use crate::tensor::Tensor;
use straightline_catalog::schema::FunctionSchema;
use straightline_catalog::{DType, Op, Scalar};

/// Operators that need only the parts themselves.
const OF_STRUCTURE: [Op; 17] = [
    Op::values,
    Op::_values,
    Op::indices,
    Op::_indices,
    Op::crow_indices,
    Op::col_indices,
    Op::is_coalesced,
    Op::_nnz,
    Op::sparse_dim,
    Op::dense_dim,
    Op::q_scale,
    Op::q_zero_point,
    Op::q_per_channel_scales,
    Op::q_per_channel_zero_points,
    Op::q_per_channel_axis,
    Op::qscheme,
    Op::_nested_tensor_size,
];

/// Whether a call has an operand of another kind.
pub(super) fn concerns(schema: &FunctionSchema, stack: &Stack) -> bool {
    let from = stack.len().saturating_sub(schema.args.len());
    let mut tensors = stack[from..].iter().flat_map(Value::tensors);
    tensors.any(|t| t.kind_without_memory().is_some())
}

/// The call.
pub(super) fn call(
    op: OperatorHandle,
    schema: &FunctionSchema,
    keys: DispatchKeySet,
    stack: &mut Stack,
) -> Result<()> {
    let from = stack.len().saturating_sub(schema.args.len());
    let name = op.name().to_string();
    let first = stack[from..].first().and_then(Value::as_tensor).cloned();
    if let Some(t) = first.filter(kinds::has_parts) {
        let rest = &stack[from + 1..];
        let Some(called) = op.op() else {
            return Err(crate::Error::compile(format!("`{name}` has no schema")));
        };
        let made = match (called, rest) {
            (Op::values, _) if t.is_nested() => Some(vec![buffer(&t)?.into()]),
            (Op::unbind_int, [dim, ..]) if t.is_nested() && is_first(dim, &t) => {
                Some(vec![Value::TensorList(nested::components(&t)?.to_vec())])
            }
            (Op::select_int, [dim, Value::Int(at), ..]) if t.is_nested() && is_first(dim, &t) => {
                let components = nested::components(&t)?;
                let at = if *at < 0 { *at + components.len() as i64 } else { *at };
                let found = usize::try_from(at).ok().and_then(|at| components.get(at));
                found.map(|t| vec![Value::Tensor(t.clone())])
            }
            (Op::to_padded_tensor, [padding, sizes, ..]) if t.is_nested() => {
                let sizes = match sizes {
                    Value::IntList(sizes) => Some(sizes.clone()),
                    _ => None,
                };
                padded(&t, padding.as_scalar(), sizes)?.map(|t| vec![t.into()])
            }
            (Op::dequantize_self, _) => Some(vec![dequantized(&t)?.into()]),
            (Op::int_repr, _) => {
                let ints = kinds::parts(&t).and_then(|parts| parts.first().copied().cloned());
                ints.map(|ints| Ok::<_, crate::Error>(vec![aten::clone(&ints, None)?.into()]))
                    .transpose()?
            }
            (Op::_to_dense, [Value::None, ..]) if t.is_sparse() => {
                dense(&t)?.map(|t| vec![t.into()])
            }
            _ => None,
        };
        if let Some(results) = made {
            stack.truncate(from);
            stack.extend(results);
            return Ok(());
        }
        if OF_STRUCTURE.contains(&called) {
            let _guard = below();
            let _above = ExcludeGuard::new(ABOVE_PYTHON);
            return op.redispatch_boxed(keys - ABOVE_PYTHON, stack);
        }
    }
    let mut operands = stack[from..].iter().flat_map(Value::tensors);
    let (kind, _) = operands.find_map(Tensor::kind_without_memory).unwrap_or_default();
    let captured = match kind {
        _ if kind.contains("coordinate") => "`values`, `indices` and `to_dense`",
        _ if kind.contains("row") => "`values`, `crow_indices` and `col_indices`",
        _ if kind.contains("quantized") => "`dequantize` and `int_repr`",
        _ => "`values`, `unbind` and `to_padded`",
    };
    Err(outside::refuse(
        &format!("`{name}` with {kind}"),
        &format!(
            "the values of a graph are dense, so that of such a tensor {captured} can be captured and this operator can not: call \
             it before, and pass what it gives as an argument"
        ),
        None,
    ))
}

fn is_first(dim: &Value, t: &Tensor) -> bool {
    matches!(dim, Value::Int(d) if *d == 0 || *d + t.dim() as i64 == 0)
}

/// All elements of a nested tensor, one component after the other.
fn buffer(t: &Tensor) -> Result<Tensor> {
    let flat = nested::components(t)?.iter().map(|c| aten::reshape(c, &[-1]));
    let flat = flat.collect::<Result<Vec<_>>>()?;
    match flat.is_empty() {
        true => aten::zeros(&[0], Some(t.dtype()), None, Some(t.device()), None),
        false => aten::cat(&flat, 0),
    }
}

/// The components of a nested tensor beside each other, with a number behind them; `None` if the
/// sizes do not fit.
fn padded(t: &Tensor, padding: Option<Scalar>, sizes: Option<Vec<i64>>) -> Result<Option<Tensor>> {
    let (Some(least), Some(padding)) = (nested::padded_sizes(t)?, padding) else {
        return Ok(None);
    };
    let sizes = sizes.unwrap_or_else(|| least.clone());
    if sizes.len() != least.len() || sizes.iter().zip(&least).any(|(s, l)| s < l) {
        return Ok(None);
    }
    let out = aten::full(&sizes, padding, Some(t.dtype()), None, Some(t.device()), None)?;
    for (i, part) in nested::components(t)?.iter().enumerate() {
        let mut place = aten::select_int(&out, 0, i as i64)?;
        for (d, size) in part.sizes().iter().enumerate() {
            place = aten::slice_tensor(&place, d as i64, Some(0), Some(*size), 1)?;
        }
        aten::copy_(&place, part, false)?;
    }
    Ok(Some(out))
}

/// `(q - zero_point) * scale` in `f32`, as the kernel computes it.
fn dequantized(t: &Tensor) -> Result<Tensor> {
    let as_type = |t: &Tensor, dtype| aten::to_dtype(t, dtype, false, false, None);
    let (ints, quantizer) = quantized::parts(t)?;
    let ints = as_type(ints, DType::I32)?;
    match quantizer {
        quantized::Quantizer::PerTensor { scale, zero_point } => {
            let steps = aten::sub_scalar(&ints, Scalar::Int(*zero_point), Scalar::Int(1))?;
            let scale = Scalar::Float(f64::from(*scale as f32));
            aten::mul_scalar(&as_type(&steps, DType::F32)?, scale)
        }
        quantized::Quantizer::PerChannel { scales, zero_points, axis } => {
            let mut sizes = vec![1; t.dim()];
            sizes[*axis] = -1;
            let along = |t: &Tensor, dtype| aten::reshape(&as_type(t, dtype)?, &sizes);
            let zeros = along(zero_points, DType::I32)?;
            let steps = aten::sub_tensor(&ints, &zeros, Scalar::Int(1))?;
            aten::mul_tensor(&as_type(&steps, DType::F32)?, &along(scales, DType::F32)?)
        }
    }
}

/// A dense tensor of coordinates and values.
fn dense(t: &Tensor) -> Result<Option<Tensor>> {
    if t.dtype() == DType::Bool {
        return Ok(None);
    }
    let coo = sparse::coo(t)?;
    let [indices, values] = coo.parts();
    let rows: Vec<Option<Tensor>> = aten::unbind_int(indices, 0)?.into_iter().map(Some).collect();
    let zeros = aten::zeros(t.sizes(), Some(t.dtype()), None, Some(t.device()), None)?;
    match rows.is_empty() {
        // no coordinates: the values are sums of themselves
        true => Ok(Some(aten::sum_dim_int_list(values, Some(&[0]), false, Some(t.dtype()))?)),
        false => Ok(Some(aten::index_put(&zeros, &rows, values, true)?)),
    }
}
