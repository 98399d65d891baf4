//! A value of any schema type: what boxed kernels take from the stack and leave on it.

use super::object::Object;
use crate::error::Result;
use crate::tensor::{Generator, Tensor};
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::{DefaultValue, SchemaType};
use straightline_catalog::{DType, Device, Layout, MemoryFormat, QScheme, Scalar};

/// The arguments of a boxed call, pushed in schema order; a kernel takes the last N and leaves its
/// returns in their place.
pub type Stack = Vec<Value>;

/// A value of any schema type (c10's `IValue`).
///
/// A `Scalar` travels as the kind of number it is. A dtype, layout or memory format travels as
/// itself, and a kernel also takes the integer that c10 uses for it.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the names say it
pub enum Value {
    #[default]
    None,
    Tensor(Tensor),
    Bool(bool),
    Int(i64),
    Double(f64),
    Complex(f64, f64),
    String(String),
    Device(Device),
    DType(DType),
    Layout(Layout),
    MemoryFormat(MemoryFormat),
    Generator(Generator),
    IntList(Vec<i64>),
    DoubleList(Vec<f64>),
    BoolList(Vec<bool>),
    ScalarList(Vec<Scalar>),
    TensorList(Vec<Tensor>),
    OptionalTensorList(Vec<Option<Tensor>>),
    Tuple(Vec<Value>),
    Object(Object),
}

// boxed calls copy stacks, so larger values go behind a pointer
const _: () = assert!(size_of::<Value>() <= 32);

impl Value {
    /// The schema name of the value's type, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::None => "NoneType",
            Value::Tensor(_) => "Tensor",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Double(_) => "float",
            Value::Complex(..) => "complex",
            Value::String(_) => "str",
            Value::Device(_) => "Device",
            Value::DType(_) => "ScalarType",
            Value::Layout(_) => "Layout",
            Value::MemoryFormat(_) => "MemoryFormat",
            Value::Generator(_) => "Generator",
            Value::IntList(_) => "int[]",
            Value::DoubleList(_) => "float[]",
            Value::BoolList(_) => "bool[]",
            Value::ScalarList(_) => "Scalar[]",
            Value::TensorList(_) => "Tensor[]",
            Value::OptionalTensorList(_) => "Tensor?[]",
            Value::Tuple(_) => "tuple",
            Value::Object(_) => "Object",
        }
    }

    /// Whether this is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// The number, if this is one.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match self {
            Value::Bool(b) => Some(Scalar::Bool(*b)),
            Value::Int(i) => Some(Scalar::Int(*i)),
            Value::Double(x) => Some(Scalar::Float(*x)),
            Value::Complex(re, im) => Some(Scalar::Complex(*re, *im)),
            _ => None,
        }
    }

    /// The tensor, if this is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// The dispatch keys of the tensors in this value.
    #[inline]
    pub(super) fn key_set(&self) -> DispatchKeySet {
        match self {
            Value::Tensor(t) => t.call_keys(),
            Value::TensorList(_) | Value::OptionalTensorList(_) => {
                super::arg::union(self.tensors())
            }
            _ => DispatchKeySet::EMPTY,
        }
    }

    /// The tensors in this value, itself or its elements.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let (one, list, optional): (_, &[Tensor], &[Option<Tensor>]) = match self {
            Value::Tensor(t) => (Some(t), &[], &[]),
            Value::TensorList(l) => (None, l, &[]),
            Value::OptionalTensorList(l) => (None, &[], l),
            _ => (None, &[], &[]),
        };
        one.into_iter().chain(list).chain(optional.iter().flatten())
    }

    /// The value with `f` of each of its tensors, those in lists too; other values stay as they
    /// are.
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::dispatch::Value;
    ///
    /// let x = Tensor::from_vec([1f32, 2.0], 2)?;
    /// let list = Value::from(vec![Some(x), None]);
    /// let doubled = list.map_tensors(|t| t.mul(2))?;
    /// let tensors: Vec<&Tensor> = doubled.tensors().collect();
    /// assert_eq!(tensors[0].to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of `f`.
    pub fn map_tensors(&self, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Value> {
        Ok(match self {
            Value::Tensor(t) => Value::Tensor(f(t)?),
            Value::TensorList(l) => Value::TensorList(l.iter().map(f).collect::<Result<_>>()?),
            Value::OptionalTensorList(l) => Value::OptionalTensorList(
                l.iter().map(|t| t.as_ref().map(&mut f).transpose()).collect::<Result<_>>()?,
            ),
            other => other.clone(),
        })
    }

    /// The value that a schema default stands for.
    pub fn from_default(default: &DefaultValue, ty: &SchemaType) -> Value {
        match (default, ty.unwrap_optional()) {
            (DefaultValue::Int(n), SchemaType::ScalarType) => {
                DType::from_scalar_type(*n).map_or(Value::Int(*n), Value::DType)
            }
            (DefaultValue::Str(s), SchemaType::Device) => {
                s.parse().map_or_else(|_| Value::String(s.clone()), Value::Device)
            }
            (DefaultValue::None, _) => Value::None,
            (DefaultValue::Bool(b), _) => Value::Bool(*b),
            // one number stands for a whole list of known size
            (DefaultValue::Int(n), SchemaType::List(_, Some(size))) => {
                Value::IntList(vec![*n; *size as usize])
            }
            (DefaultValue::Int(n), _) => Value::Int(*n),
            (DefaultValue::Float(x), _) => Value::Double(*x),
            (DefaultValue::Imaginary(x), _) => Value::Complex(0.0, *x),
            (DefaultValue::Str(s), _) => Value::String(s.clone()),
            (DefaultValue::List(items), SchemaType::List(element, _)) => {
                Value::list_from_defaults(items, element)
            }
            (DefaultValue::List(items), _) => Value::Tuple(
                items.iter().map(|d| Value::from_default(d, &SchemaType::Any)).collect(),
            ),
        }
    }

    fn list_from_defaults(items: &[DefaultValue], element: &SchemaType) -> Value {
        let number = |d: &DefaultValue| match d {
            DefaultValue::Int(n) => Scalar::Int(*n),
            DefaultValue::Float(x) => Scalar::Float(*x),
            DefaultValue::Bool(b) => Scalar::Bool(*b),
            _ => Scalar::Int(0),
        };
        let numbers = items.iter().map(number);
        match element {
            SchemaType::Float => Value::DoubleList(numbers.map(Scalar::as_f64).collect()),
            SchemaType::Bool => Value::BoolList(numbers.map(Scalar::as_bool).collect()),
            SchemaType::Scalar => Value::ScalarList(numbers.collect()),
            _ => Value::IntList(numbers.map(Scalar::as_i64).collect()),
        }
    }
}

macro_rules! value_from {
    ($($t:ty => $v:ident),* $(,)?) => {$(
        impl From<$t> for Value {
            fn from(x: $t) -> Self { Value::$v(x) }
        }
    )*};
}
value_from!(
    Tensor => Tensor, bool => Bool, i64 => Int, f64 => Double, String => String, Device => Device,
    DType => DType, Layout => Layout, MemoryFormat => MemoryFormat, Generator => Generator,
    Vec<i64> => IntList, Vec<f64> => DoubleList, Vec<bool> => BoolList, Vec<Scalar> => ScalarList,
    Vec<Tensor> => TensorList, Vec<Option<Tensor>> => OptionalTensorList,
);

impl From<Scalar> for Value {
    fn from(x: Scalar) -> Self {
        match x {
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(i) => Value::Int(i),
            Scalar::Float(f) => Value::Double(f),
            Scalar::Complex(re, im) => Value::Complex(re, im),
        }
    }
}

impl From<QScheme> for Value {
    fn from(x: QScheme) -> Self {
        // c10 boxes it as the integer, too
        Value::Int(x as i64)
    }
}

impl From<&Tensor> for Value {
    fn from(x: &Tensor) -> Self {
        Value::Tensor(x.clone())
    }
}

impl From<&str> for Value {
    fn from(x: &str) -> Self {
        Value::String(x.to_string())
    }
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Value::None
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(x: Option<T>) -> Self {
        x.map_or(Value::None, Into::into)
    }
}
