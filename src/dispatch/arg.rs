//! Which Rust types stand for which schema types in a typed kernel, and how they box.
//!
//! | schema | argument | return |
//! |---|---|---|
//! | `Tensor`, `Tensor(a!)` | `&Tensor` | `Tensor` |
//! | `Tensor?` | `Option<&Tensor>` | |
//! | `Tensor[]` | `&[Tensor]` | `Vec<Tensor>` |
//! | `Tensor?[]` | `&[Option<Tensor>]` | |
//! | `int`, `SymInt` | `i64` | `i64` |
//! | `float`, `bool`, `Scalar` | `f64`, `bool`, `Scalar` | the same |
//! | `str` | `&str` | `String` |
//! | `int[]`, `float[]`, `bool[]`, `Scalar[]` | `&[i64]`, `&[f64]`, `&[bool]`, `&[Scalar]` | `Vec<i64>` |
//! | `ScalarType`, `Layout`, `Device`, `MemoryFormat` | the type | `ScalarType` |
//! | `QScheme` | the type | the type |
//! | a class, `__torch__.torch.classes.NS.NAME` | `&T` of a [`ScriptClass`](super::ScriptClass) | `Arc<T>` |
//! | `Generator?` | `Option<&Generator>` | |
//! | `T?` | `Option<..>` of the above | |
//! | no return, several returns | | `()`, a tuple |

use super::value::{Stack, Value};
use crate::tensor::{Generator, Tensor};
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::SchemaType;
use straightline_catalog::{DType, Device, Layout, MemoryFormat, QScheme, Scalar};

pub(super) mod sealed {
    /// Keeps [`Arg`](super::Arg) closed: the erased call is sound because each argument type has
    /// one item type per lifetime.
    pub trait Sealed {}
}

/// A type that a typed kernel takes.
pub trait Arg: sealed::Sealed {
    /// The type with the lifetime of a call.
    type Item<'a>: Copy + 'a;

    /// The schema type.
    fn ty() -> SchemaType;

    /// The dispatch keys that the argument contributes to a call.
    #[inline]
    fn keys(_item: &Self::Item<'_>) -> DispatchKeySet {
        DispatchKeySet::EMPTY
    }

    /// Shows the tensors of the argument.
    #[doc(hidden)]
    fn tensors<'a>(_item: Self::Item<'a>, _each: &mut impl FnMut(&'a Tensor)) {}

    /// Turns a value that stands for this type into the form that [`Arg::unbox`] borrows from:
    /// an integer given for a float, `Tensor[]` for `Tensor?[]`, an int for a dtype.
    fn coerce(_value: &mut Value) {}

    /// Borrows the argument from a value.
    fn unbox(value: &Value) -> Option<Self::Item<'_>>;

    /// Boxes the argument.
    fn to_value(item: Self::Item<'_>) -> Value;
}

/// A type that a typed kernel returns as one value.
pub trait RetValue: sealed::Sealed + Sized + 'static {
    /// The schema type.
    fn ty() -> SchemaType;
    /// Boxes the value.
    fn into_value(self) -> Value;
    /// Unboxes the value.
    fn from_value(value: Value) -> Option<Self>;
    /// Passes on the tensors.
    #[doc(hidden)]
    fn tensors_mut<'a>(&'a mut self, _each: &mut impl FnMut(&'a mut Tensor)) {}
}

/// The whole return of a typed kernel: nothing, one value or a tuple.
pub trait Ret: Sized + 'static {
    /// The schema types.
    fn types() -> Vec<SchemaType>;
    /// Pushes the returns.
    fn push_returns(self, stack: &mut Stack);
    /// Takes the returns, which are all that is on the stack; `None` if they do not fit.
    fn pop_returns(stack: &mut Stack) -> Option<Self>;
    /// Passes on the tensors, each with the position of its return.
    #[doc(hidden)]
    fn tensors_mut<'a>(&'a mut self, each: &mut impl FnMut(usize, &'a mut Tensor));
}

macro_rules! by_value {
    ($($t:ty, $schema:expr, |$v:ident| $unbox:expr, $coerce:expr;)*) => {$(
        impl sealed::Sealed for $t {}
        impl Arg for $t {
            type Item<'a> = $t;
            fn ty() -> SchemaType { $schema }
            fn coerce(value: &mut Value) {
                let coerce: fn(&Value) -> Option<Value> = $coerce;
                if let Some(v) = coerce(value) { *value = v; }
            }
            fn unbox($v: &Value) -> Option<$t> { $unbox }
            fn to_value(item: $t) -> Value { item.into() }
        }
        optional!($t, $schema);
    )*};
}

macro_rules! by_slice {
    ($($t:ty, $variant:ident, $schema:expr, $coerce:expr;)*) => {$(
        impl sealed::Sealed for &[$t] {}
        impl Arg for &[$t] {
            type Item<'a> = &'a [$t];
            fn ty() -> SchemaType { $schema.list() }
            fn coerce(value: &mut Value) {
                let coerce: fn(&Value) -> Option<Value> = $coerce;
                if let Some(v) = coerce(value) { *value = v; }
            }
            fn unbox(value: &Value) -> Option<&[$t]> {
                match value { Value::$variant(l) => Some(l), _ => None }
            }
            fn to_value(item: &[$t]) -> Value { Value::$variant(item.to_vec()) }
        }
        impl sealed::Sealed for Option<&[$t]> {}
        impl Arg for Option<&[$t]> {
            type Item<'a> = Option<&'a [$t]>;
            fn ty() -> SchemaType { $schema.list().optional() }
            fn coerce(value: &mut Value) { <&[$t] as Arg>::coerce(value) }
            fn unbox(value: &Value) -> Option<Option<&[$t]>> {
                match value { Value::None => Some(None), v => <&[$t] as Arg>::unbox(v).map(Some) }
            }
            fn to_value(item: Option<&[$t]>) -> Value {
                item.map_or(Value::None, <&[$t] as Arg>::to_value)
            }
        }
    )*};
}

macro_rules! optional {
    ($t:ty, $schema:expr) => {
        impl sealed::Sealed for Option<$t> {}
        impl Arg for Option<$t> {
            type Item<'a> = Option<$t>;
            fn ty() -> SchemaType {
                $schema.optional()
            }
            fn coerce(value: &mut Value) {
                if !value.is_none() {
                    <$t as Arg>::coerce(value);
                }
            }
            fn unbox(value: &Value) -> Option<Option<$t>> {
                match value {
                    Value::None => Some(None),
                    v => <$t as Arg>::unbox(v).map(Some),
                }
            }
            fn to_value(item: Option<$t>) -> Value {
                item.into()
            }
        }
    };
}

by_value! {
    i64, SchemaType::Int, |v| match v { Value::Int(i) => Some(*i), _ => None }, |_| None;
    f64, SchemaType::Float,
        |v| match v { Value::Double(x) => Some(*x), Value::Int(i) => Some(*i as f64), _ => None }, |_| None;
    bool, SchemaType::Bool, |v| match v { Value::Bool(b) => Some(*b), _ => None }, |_| None;
    Scalar, SchemaType::Scalar, |v| v.as_scalar(), |_| None;
    Device, SchemaType::Device, |v| match v { Value::Device(d) => Some(*d), _ => None },
        |v| match v { Value::String(s) => s.parse().ok().map(Value::Device), _ => None };
    DType, SchemaType::ScalarType,
        |v| match v { Value::DType(d) => Some(*d), Value::Int(n) => DType::from_scalar_type(*n), _ => None },
        |_| None;
    Layout, SchemaType::Layout,
        |v| match v { Value::Layout(l) => Some(*l), Value::Int(n) => Layout::from_number(*n), _ => None }, |_| None;
    QScheme, SchemaType::QScheme,
        |v| match v { Value::Int(n) => QScheme::from_number(*n), _ => None }, |_| None;
    MemoryFormat, SchemaType::MemoryFormat,
        |v| match v { Value::MemoryFormat(m) => Some(*m), Value::Int(n) => memory_format(*n), _ => None }, |_| None;
}

by_slice! {
    i64, IntList, SchemaType::Int, |_| None;
    f64, DoubleList, SchemaType::Float, |v| match v {
        Value::IntList(l) => Some(Value::DoubleList(l.iter().map(|i| *i as f64).collect())),
        _ => None,
    };
    bool, BoolList, SchemaType::Bool, |v| match v {
        // an empty list has no element type
        Value::IntList(l) if l.is_empty() => Some(Value::BoolList(Vec::new())),
        _ => None,
    };
    Scalar, ScalarList, SchemaType::Scalar, |v| match v {
        Value::IntList(l) => Some(Value::ScalarList(l.iter().map(|x| Scalar::Int(*x)).collect())),
        Value::DoubleList(l) => Some(Value::ScalarList(l.iter().map(|x| Scalar::Float(*x)).collect())),
        Value::BoolList(l) => Some(Value::ScalarList(l.iter().map(|x| Scalar::Bool(*x)).collect())),
        _ => None,
    };
}

/// c10's numbers for memory formats.
fn memory_format(n: i64) -> Option<MemoryFormat> {
    Some(match n {
        0 => MemoryFormat::Contiguous,
        1 => MemoryFormat::Preserve,
        2 => MemoryFormat::ChannelsLast,
        3 => MemoryFormat::ChannelsLast3d,
        _ => return None,
    })
}

impl sealed::Sealed for &Tensor {}
impl Arg for &Tensor {
    type Item<'a> = &'a Tensor;

    fn ty() -> SchemaType {
        SchemaType::Tensor
    }

    #[inline]
    fn keys(item: &&Tensor) -> DispatchKeySet {
        item.call_keys()
    }

    fn tensors<'a>(item: &'a Tensor, each: &mut impl FnMut(&'a Tensor)) {
        each(item);
    }

    fn unbox(value: &Value) -> Option<&Tensor> {
        value.as_tensor()
    }

    fn to_value(item: &Tensor) -> Value {
        item.into()
    }
}

impl sealed::Sealed for Option<&Tensor> {}
impl Arg for Option<&Tensor> {
    type Item<'a> = Option<&'a Tensor>;

    fn ty() -> SchemaType {
        SchemaType::Tensor.optional()
    }

    #[inline]
    fn keys(item: &Option<&Tensor>) -> DispatchKeySet {
        item.map_or(DispatchKeySet::EMPTY, Tensor::call_keys)
    }

    fn tensors<'a>(item: Option<&'a Tensor>, each: &mut impl FnMut(&'a Tensor)) {
        item.into_iter().for_each(each);
    }

    fn unbox(value: &Value) -> Option<Option<&Tensor>> {
        match value {
            Value::None => Some(None),
            v => v.as_tensor().map(Some),
        }
    }

    fn to_value(item: Option<&Tensor>) -> Value {
        item.into()
    }
}

impl sealed::Sealed for &[Tensor] {}
impl Arg for &[Tensor] {
    type Item<'a> = &'a [Tensor];

    fn ty() -> SchemaType {
        SchemaType::Tensor.list()
    }

    #[inline]
    fn keys(item: &&[Tensor]) -> DispatchKeySet {
        union(item.iter())
    }

    fn tensors<'a>(item: &'a [Tensor], each: &mut impl FnMut(&'a Tensor)) {
        item.iter().for_each(each);
    }

    fn coerce(value: &mut Value) {
        if matches!(value, Value::IntList(l) if l.is_empty()) {
            *value = Value::TensorList(Vec::new());
        }
    }

    fn unbox(value: &Value) -> Option<&[Tensor]> {
        match value {
            Value::TensorList(l) => Some(l),
            _ => None,
        }
    }

    fn to_value(item: &[Tensor]) -> Value {
        Value::TensorList(item.to_vec())
    }
}

impl sealed::Sealed for &[Option<Tensor>] {}
impl Arg for &[Option<Tensor>] {
    type Item<'a> = &'a [Option<Tensor>];

    fn ty() -> SchemaType {
        SchemaType::Tensor.optional().list()
    }

    #[inline]
    fn keys(item: &&[Option<Tensor>]) -> DispatchKeySet {
        union(item.iter().flatten())
    }

    fn tensors<'a>(item: &'a [Option<Tensor>], each: &mut impl FnMut(&'a Tensor)) {
        item.iter().flatten().for_each(each);
    }

    fn coerce(value: &mut Value) {
        if let Value::TensorList(l) = value {
            *value = Value::OptionalTensorList(std::mem::take(l).into_iter().map(Some).collect());
        }
    }

    fn unbox(value: &Value) -> Option<&[Option<Tensor>]> {
        match value {
            Value::OptionalTensorList(l) => Some(l),
            _ => None,
        }
    }

    fn to_value(item: &[Option<Tensor>]) -> Value {
        Value::OptionalTensorList(item.to_vec())
    }
}

pub(super) fn union<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> DispatchKeySet {
    tensors.fold(DispatchKeySet::EMPTY, |ks, t| ks | t.call_keys())
}

impl sealed::Sealed for &str {}
impl Arg for &str {
    type Item<'a> = &'a str;

    fn ty() -> SchemaType {
        SchemaType::Str
    }

    fn unbox(value: &Value) -> Option<&str> {
        match value {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    fn to_value(item: &str) -> Value {
        item.into()
    }
}

impl sealed::Sealed for Option<&str> {}
impl Arg for Option<&str> {
    type Item<'a> = Option<&'a str>;

    fn ty() -> SchemaType {
        SchemaType::Str.optional()
    }

    fn unbox(value: &Value) -> Option<Option<&str>> {
        match value {
            Value::None => Some(None),
            v => <&str as Arg>::unbox(v).map(Some),
        }
    }

    fn to_value(item: Option<&str>) -> Value {
        item.into()
    }
}

impl sealed::Sealed for Option<&Generator> {}
impl Arg for Option<&Generator> {
    type Item<'a> = Option<&'a Generator>;

    fn ty() -> SchemaType {
        SchemaType::Generator.optional()
    }

    fn unbox(value: &Value) -> Option<Option<&Generator>> {
        match value {
            Value::None => Some(None),
            Value::Generator(g) => Some(Some(g)),
            _ => None,
        }
    }

    fn to_value(item: Option<&Generator>) -> Value {
        item.cloned().into()
    }
}

macro_rules! ret_value {
    ($($t:ty, $schema:expr, |$v:ident| $from:expr $(, |$own:ident| $tensors:expr)?;)*) => {$(
        impl RetValue for $t {
            fn ty() -> SchemaType { $schema }
            fn into_value(self) -> Value { self.into() }
            fn from_value($v: Value) -> Option<$t> { $from }
            $(
                fn tensors_mut<'a>(&'a mut self, each: &mut impl FnMut(&'a mut Tensor)) {
                    let $own = self;
                    $tensors.for_each(each);
                }
            )?
        }
        impl Ret for $t {
            fn types() -> Vec<SchemaType> { vec![$schema] }
            fn push_returns(self, stack: &mut Stack) { stack.push(self.into()); }
            fn pop_returns(stack: &mut Stack) -> Option<$t> {
                let value = stack.pop()?;
                if stack.is_empty() { <$t as RetValue>::from_value(value) } else { None }
            }
            fn tensors_mut<'a>(&'a mut self, each: &mut impl FnMut(usize, &'a mut Tensor)) {
                RetValue::tensors_mut(self, &mut |t| each(0, t));
            }
        }
    )*};
}

impl sealed::Sealed for Tensor {}
impl sealed::Sealed for String {}
impl sealed::Sealed for Vec<Tensor> {}
impl sealed::Sealed for Vec<i64> {}
impl sealed::Sealed for Option<Tensor> {}

ret_value! {
    Tensor, SchemaType::Tensor, |v| match v { Value::Tensor(t) => Some(t), _ => None },
        |own| std::iter::once(own);
    Option<Tensor>, SchemaType::Tensor.optional(),
        |v| match v { Value::Tensor(t) => Some(Some(t)), Value::None => Some(None), _ => None },
        |own| own.iter_mut();
    Vec<Tensor>, SchemaType::Tensor.list(), |v| match v { Value::TensorList(l) => Some(l), _ => None },
        |own| own.iter_mut();
    Vec<i64>, SchemaType::Int.list(), |v| match v { Value::IntList(l) => Some(l), _ => None };
    String, SchemaType::Str, |v| match v { Value::String(s) => Some(s), _ => None };
    Scalar, SchemaType::Scalar, |v| v.as_scalar();
    bool, SchemaType::Bool, |v| <bool as Arg>::unbox(&v);
    i64, SchemaType::Int, |v| <i64 as Arg>::unbox(&v);
    f64, SchemaType::Float, |v| <f64 as Arg>::unbox(&v);
    DType, SchemaType::ScalarType, |v| <DType as Arg>::unbox(&v);
    Device, SchemaType::Device, |v| <Device as Arg>::unbox(&v);
    QScheme, SchemaType::QScheme, |v| <QScheme as Arg>::unbox(&v);
}

impl Ret for () {
    fn types() -> Vec<SchemaType> {
        Vec::new()
    }

    fn push_returns(self, _stack: &mut Stack) {}

    fn pop_returns(stack: &mut Stack) -> Option<()> {
        stack.is_empty().then_some(())
    }

    fn tensors_mut<'a>(&'a mut self, _each: &mut impl FnMut(usize, &'a mut Tensor)) {}
}

macro_rules! ret_tuple {
    ($($t:ident $v:ident),*) => {
        impl<$($t: RetValue),*> Ret for ($($t,)*) {
            fn types() -> Vec<SchemaType> { vec![$($t::ty()),*] }

            fn push_returns(self, stack: &mut Stack) {
                let ($($v,)*) = self;
                stack.extend([$($v.into_value()),*]);
            }

            fn pop_returns(stack: &mut Stack) -> Option<Self> {
                let mut values = std::mem::take(stack).into_iter();
                let out = ($($t::from_value(values.next()?)?,)*);
                values.next().is_none().then_some(out)
            }

            #[allow(unused_assignments)]
            fn tensors_mut<'a>(&'a mut self, each: &mut impl FnMut(usize, &'a mut Tensor)) {
                let ($($v,)*) = self;
                let mut i = 0;
                $(
                    RetValue::tensors_mut($v, &mut |t| each(i, t));
                    i += 1;
                )*
            }
        }
    };
}
ret_tuple!(A a, B b);
ret_tuple!(A a, B b, C c);
ret_tuple!(A a, B b, C c, D d);
ret_tuple!(A a, B b, C c, D d, E e);
ret_tuple!(A a, B b, C c, D d, E e, F f);
ret_tuple!(A a, B b, C c, D d, E e, F f, G g);
