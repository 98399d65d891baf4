//! Calls and their arguments as text.

use super::Call;
use crate::dispatch::Value;
use crate::tensor::Tensor;
use straightline_catalog::schema::{DefaultValue, SchemaType};
use straightline_catalog::{Layout, MemoryFormat, Scalar};

/// `f32[2,3]`.
pub(super) fn tensor(t: &Tensor) -> String {
    let sizes: Vec<String> = t.sizes().iter().map(ToString::to_string).collect();
    format!("{}[{}]", t.dtype(), sizes.join(","))
}

/// `aten::add.Tensor(f32[2], f32[2], alpha=2)`, tensors as `tensor` names them.
pub(super) fn call(call: &Call<'_>, tensor: &mut dyn FnMut(&Tensor) -> String) -> String {
    let (positional, keyword) = call.written();
    let mut args: Vec<String> = positional.iter().map(|v| value(v, tensor)).collect();
    args.extend(keyword.iter().map(|(name, v)| format!("{name}={}", value(v, tensor))));
    format!("{}({})", call.op().name(), args.join(", "))
}

fn list<T>(items: &[T], f: impl FnMut(&T) -> String) -> String {
    format!("[{}]", items.iter().map(f).collect::<Vec<_>>().join(", "))
}

fn scalar(x: &Scalar) -> String {
    match x {
        Scalar::Bool(b) => b.to_string(),
        Scalar::Int(i) => i.to_string(),
        Scalar::Float(x) => format!("{x:?}"),
        Scalar::Complex(..) => x.to_string(),
    }
}

/// A value, its tensors as `tensor` names them.
pub(super) fn value(v: &Value, tensor: &mut dyn FnMut(&Tensor) -> String) -> String {
    match v {
        Value::None => "None".into(),
        // a bare number that was wrapped into a tensor prints as a number
        Value::Tensor(t) if t.is_wrapped_number() && t.storage().has_data() => {
            t.read_item().map_or_else(|_| tensor(t), |x| scalar(&x))
        }
        Value::Tensor(t) => tensor(t),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Double(x) => format!("{x:?}"),
        Value::Complex(re, im) => scalar(&Scalar::Complex(*re, *im)),
        Value::String(s) => format!("{s:?}"),
        Value::Device(d) => d.to_string(),
        Value::DType(d) => d.to_string(),
        Value::Layout(l) => format!("{l:?}"),
        Value::MemoryFormat(m) => m.to_string(),
        Value::Generator(_) => "Generator".into(),
        Value::Object(o) => format!("{o:?}"),
        Value::IntList(l) => list(l, ToString::to_string),
        Value::DoubleList(l) => list(l, |x| format!("{x:?}")),
        Value::BoolList(l) => list(l, ToString::to_string),
        Value::ScalarList(l) => list(l, scalar),
        Value::TensorList(l) => list(l, tensor),
        Value::OptionalTensorList(l) => {
            list(l, |t| t.as_ref().map_or_else(|| "None".into(), &mut *tensor))
        }
        Value::Tuple(l) => {
            format!("({})", l.iter().map(|v| value(v, tensor)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Whether a value is the default of its argument.
pub(super) fn is_default(value: &Value, default: &DefaultValue, ty: &SchemaType) -> bool {
    same(value, &Value::from_default(default, ty))
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Bool(_), _) | (_, Value::Bool(_)) => false,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Device(a), Value::Device(b)) => a == b,
        (Value::DType(a), Value::DType(b)) => a == b,
        (Value::Layout(a), Value::Layout(b)) => a == b,
        (Value::MemoryFormat(a), Value::MemoryFormat(b)) => a == b,
        // formats and layouts may travel as c10's numbers, of which 0 is the plain one
        (Value::MemoryFormat(MemoryFormat::Contiguous), Value::Int(0))
        | (Value::Layout(Layout::Strided), Value::Int(0)) => true,
        (Value::IntList(a), Value::IntList(b)) => a == b,
        (Value::DoubleList(a), Value::DoubleList(b)) => a == b,
        (Value::BoolList(a), Value::BoolList(b)) => a == b,
        (a, b) => match (a.as_scalar(), b.as_scalar()) {
            (Some(a), Some(b)) => a.as_f64().to_bits() == b.as_f64().to_bits(),
            _ => false,
        },
    }
}
