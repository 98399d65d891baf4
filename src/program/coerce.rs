//! Values as a schema wants them: Python's arguments for the dispatcher.

use crate::dispatch::Value;
use crate::dispatch::schema::SchemaType;
use crate::error::Result;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

/// A value for an argument of this type, as PyTorch's bindings convert it: a number where a tensor is
/// wanted becomes a tensor that takes part in type promotion as a number does, an integer a float, an
/// empty list a list of what is wanted.
///
/// # Errors
/// What was expected.
pub(super) fn coerce(value: Value, ty: &SchemaType) -> Result<Value, String> {
    if value.is_none() {
        return match ty {
            SchemaType::Optional(_) | SchemaType::None | SchemaType::Any => Ok(value),
            other => Err(format!("expected {other}, and got None")),
        };
    }
    let ty = ty.unwrap_optional();
    let wrong = |value: &Value| Err(format!("expected {ty}, and got {}", value.type_name()));
    match (ty, value) {
        (SchemaType::Tensor, Value::Tensor(t)) => Ok(Value::Tensor(t)),
        (SchemaType::Tensor, number) => match number.as_scalar() {
            Some(n) => wrapped(n),
            None => wrong(&number),
        },
        (SchemaType::Int | SchemaType::SymInt | SchemaType::DeviceIndex, Value::Bool(b)) => {
            Ok(Value::Int(i64::from(b)))
        }
        (SchemaType::Int | SchemaType::SymInt | SchemaType::DeviceIndex, v @ Value::Int(_)) => {
            Ok(v)
        }
        (SchemaType::Float, v) => match v.as_scalar() {
            Some(Scalar::Complex(..)) | None => wrong(&v),
            Some(n) => Ok(Value::Double(n.as_f64())),
        },
        (SchemaType::Bool | SchemaType::SymBool, v @ Value::Bool(_)) => Ok(v),
        (SchemaType::Scalar | SchemaType::Complex, v) => match v.as_scalar() {
            Some(_) => Ok(v),
            None => wrong(&v),
        },
        (SchemaType::Str, v @ Value::String(_)) => Ok(v),
        (SchemaType::ScalarType, v @ Value::DType(_)) => Ok(v),
        (SchemaType::ScalarType, Value::Int(n)) => match DType::from_scalar_type(n) {
            Some(dtype) => Ok(Value::DType(dtype)),
            None => Err(format!("there is no dtype with the number {n}")),
        },
        (SchemaType::Layout, v @ (Value::Layout(_) | Value::Int(_))) => Ok(v),
        (SchemaType::MemoryFormat, v @ (Value::MemoryFormat(_) | Value::Int(_))) => Ok(v),
        (SchemaType::Device, v @ Value::Device(_)) => Ok(v),
        (SchemaType::Device, Value::String(s)) => {
            s.parse().map(Value::Device).map_err(|e| format!("{e}"))
        }
        (SchemaType::Generator, v @ Value::Generator(_)) => Ok(v),
        (SchemaType::List(element, count), v) => list(v, element, *count),
        (SchemaType::Any, v) => Ok(v),
        (_, v) => wrong(&v),
    }
}

fn wrapped(n: Scalar) -> Result<Value, String> {
    Tensor::wrapped_number(n).map(Value::Tensor).map_err(|e| e.to_string())
}

fn list(value: Value, element: &SchemaType, count: Option<u32>) -> Result<Value, String> {
    let items: Vec<Value> = match value {
        Value::TensorList(_) if matches!(element, SchemaType::Tensor) => return Ok(value),
        Value::IntList(_) if matches!(element, SchemaType::Int | SchemaType::SymInt) => {
            return Ok(value);
        }
        Value::DoubleList(_) if matches!(element, SchemaType::Float) => return Ok(value),
        Value::BoolList(_) if matches!(element, SchemaType::Bool) => return Ok(value),
        Value::OptionalTensorList(list) => {
            list.into_iter().map(|t| t.map_or(Value::None, Value::Tensor)).collect()
        }
        Value::TensorList(list) => list.into_iter().map(Value::Tensor).collect(),
        Value::IntList(list) => list.into_iter().map(Value::Int).collect(),
        Value::DoubleList(list) => list.into_iter().map(Value::Double).collect(),
        Value::BoolList(list) => list.into_iter().map(Value::Bool).collect(),
        Value::ScalarList(list) => list.into_iter().map(Value::from).collect(),
        Value::Tuple(list) => list,
        // one number stands for a whole list of a known size
        number => match (number.as_scalar(), count) {
            (Some(_), Some(n)) => vec![number; n as usize],
            _ => return Err(format!("expected {element}[], and got {}", number.type_name())),
        },
    };
    if let SchemaType::Optional(inner) = element
        && matches!(**inner, SchemaType::Tensor)
    {
        let tensor = |v: Value| match coerce(v, element)? {
            Value::Tensor(t) => Ok(Some(t)),
            _ => Ok(None),
        };
        let list = items.into_iter().map(tensor).collect::<Result<_, String>>()?;
        return Ok(Value::OptionalTensorList(list));
    }
    let each = |(at, v): (usize, Value)| {
        coerce(v, element).map_err(|why| format!("element {at} of the list: {why}"))
    };
    let items = items.into_iter().enumerate().map(each).collect::<Result<Vec<_>, String>>()?;
    let numbers = || items.iter().filter_map(Value::as_scalar);
    Ok(match element {
        SchemaType::Tensor => {
            Value::TensorList(items.iter().filter_map(Value::as_tensor).cloned().collect())
        }
        SchemaType::Int | SchemaType::SymInt | SchemaType::DeviceIndex => {
            Value::IntList(numbers().map(Scalar::as_i64).collect())
        }
        SchemaType::Float => Value::DoubleList(numbers().map(Scalar::as_f64).collect()),
        SchemaType::Bool | SchemaType::SymBool => {
            Value::BoolList(numbers().map(Scalar::as_bool).collect())
        }
        SchemaType::Scalar => Value::ScalarList(numbers().collect()),
        _ => Value::Tuple(items),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(schema: &str) -> SchemaType {
        let schema = format!("t::f({schema} x) -> ()");
        crate::dispatch::schema::FunctionSchema::parse(&schema).unwrap().args[0].ty.clone()
    }

    fn shown(value: impl Into<Value>, to: &str) -> String {
        match coerce(value.into(), &ty(to)) {
            Ok(Value::Tensor(t)) => format!("tensor {} {}", t.dtype(), t.is_wrapped_number()),
            Ok(Value::TensorList(l)) => format!("{} tensors", l.len()),
            Ok(Value::OptionalTensorList(l)) => {
                format!("{:?}", l.iter().map(Option::is_some).collect::<Vec<_>>())
            }
            Ok(v) => format!("{v:?}"),
            Err(e) => e,
        }
    }

    #[test]
    fn values_become_what_the_schema_wants() {
        assert_eq!(shown(2i64, "Tensor"), "tensor i64 true");
        assert_eq!(shown(0.5, "Tensor?"), "tensor f64 true");
        assert_eq!(shown(2i64, "float"), "Double(2.0)");
        assert_eq!(shown(true, "SymInt"), "Int(1)");
        assert_eq!(shown(1.5, "int"), "expected int, and got float");
        assert_eq!(shown(Value::None, "int"), "expected int, and got None");
        assert_eq!(shown(Value::None, "int?"), "None");
        assert_eq!(shown(3i64, "int[2]"), "IntList([3, 3])");
        assert_eq!(shown(3i64, "int[]"), "expected int[], and got int");
        assert_eq!(shown(Value::IntList(vec![]), "Tensor[]"), "0 tensors");
        assert_eq!(shown(Value::IntList(vec![1, 2]), "float[]"), "DoubleList([1.0, 2.0])");
        let t = Tensor::scalar(1.0).unwrap();
        let mixed = Value::Tuple(vec![Value::None, Value::Tensor(t.clone())]);
        assert_eq!(shown(mixed.clone(), "Tensor?[]"), "[false, true]");
        assert_eq!(
            shown(mixed, "Tensor[]"),
            "element 0 of the list: expected Tensor, and got None"
        );
        assert_eq!(
            shown(Value::Tuple(vec![Value::Int(2), Value::Int(7)]), "SymInt[]"),
            "IntList([2, 7])"
        );
        assert_eq!(shown(t, "Scalar"), "expected Scalar, and got Tensor");
        assert_eq!(shown(6i64, "ScalarType?"), "DType(F32)");
        assert_eq!(shown(99i64, "ScalarType"), "there is no dtype with the number 99");
    }
}
