//! What programs take and give.

use crate::compile::{RowElement, TensorTree};
use crate::dispatch::Value;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::fmt;

/// A value that a program takes or gives: a tensor, or a number, a flag, a text or nothing, which are
/// part of the program itself where it is compiled.
///
/// ```
/// use straightline::{program::Leaf, tensor};
/// let leaves = vec![Leaf::from(tensor([1.0, 2.0])?), Leaf::from(3), Leaf::None];
/// assert_eq!(leaves[0].tensor()?.sizes(), [2]);
/// assert!(leaves[1].tensor().is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default, crate::TensorTree)]
#[allow(missing_docs)] // the names say it
pub enum Leaf {
    #[default]
    None,
    Tensor(Tensor),
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
}

impl Leaf {
    /// The tensor.
    ///
    /// # Errors
    /// It is something else.
    pub fn tensor(&self) -> Result<&Tensor> {
        match self {
            Leaf::Tensor(t) => Ok(t),
            other => Err(Error::type_error(format!("expected a tensor, and this is {other}"))),
        }
    }

    /// The tensor itself.
    ///
    /// # Errors
    /// It is something else.
    pub fn into_tensor(self) -> Result<Tensor> {
        match self {
            Leaf::Tensor(t) => Ok(t),
            other => Err(Error::type_error(format!("expected a tensor, and this is {other}"))),
        }
    }

    /// As the dispatcher takes it.
    pub(super) fn into_value(self) -> Value {
        match self {
            Leaf::None => Value::None,
            Leaf::Tensor(t) => Value::Tensor(t),
            Leaf::Int(n) => Value::Int(n),
            Leaf::Float(x) => Value::Double(x),
            Leaf::Bool(b) => Value::Bool(b),
            Leaf::Str(s) => Value::String(s),
        }
    }

    /// What the dispatcher gave.
    pub(super) fn of_value(value: Value) -> Result<Leaf> {
        Ok(match value {
            Value::None => Leaf::None,
            Value::Tensor(t) => Leaf::Tensor(t),
            Value::Int(n) => Leaf::Int(n),
            Value::Double(x) => Leaf::Float(x),
            Value::Bool(b) => Leaf::Bool(b),
            Value::String(s) => Leaf::Str(s),
            other => {
                let what = other.type_name();
                return Err(Error::type_error(format!(
                    "a program can not return a value of type {what}"
                )));
            }
        })
    }

    /// Whether both are the same, where they are no tensors.
    pub(super) fn is_same_constant(&self, other: &Leaf) -> bool {
        !matches!(self, Leaf::Tensor(_)) && self.matches(other).is_none()
    }
}

/// `f32[2, 3]`, `3`, `"mean"`, `None`.
impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leaf::None => f.write_str("None"),
            Leaf::Tensor(t) => write!(f, "{}{:?}", t.dtype(), t.sizes()),
            Leaf::Int(n) => write!(f, "{n}"),
            Leaf::Float(x) => write!(f, "{x:?}"),
            Leaf::Bool(b) => write!(f, "{b}"),
            Leaf::Str(s) => write!(f, "{s:?}"),
        }
    }
}

macro_rules! leaf_from {
    ($($t:ty: $x:ident => $leaf:expr;)*) => {$(
        impl From<$t> for Leaf {
            fn from($x: $t) -> Leaf { $leaf }
        }
    )*};
}
leaf_from! {
    Tensor: t => Leaf::Tensor(t);
    i64: n => Leaf::Int(n);
    i32: n => Leaf::Int(i64::from(n));
    f64: x => Leaf::Float(x);
    bool: b => Leaf::Bool(b);
    String: s => Leaf::Str(s);
    &str: s => Leaf::Str(s.to_owned());
}

impl RowElement for Leaf {
    fn from_tensor(t: Tensor) -> Leaf {
        Leaf::Tensor(t)
    }

    fn into_tensor(self) -> std::result::Result<Tensor, Leaf> {
        match self {
            Leaf::Tensor(t) => Ok(t),
            other => Err(other),
        }
    }

    fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Leaf::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl From<&Tensor> for Leaf {
    fn from(t: &Tensor) -> Leaf {
        Leaf::Tensor(t.clone())
    }
}

impl From<&Leaf> for Leaf {
    fn from(leaf: &Leaf) -> Leaf {
        leaf.clone()
    }
}
