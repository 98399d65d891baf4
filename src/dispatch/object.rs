//! Values of user-defined classes: what a schema calls `__torch__.torch.classes.NAMESPACE.NAME`.

use super::arg::{Arg, Ret, RetValue, sealed};
use super::value::{Stack, Value};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use straightline_catalog::schema::SchemaType;

/// A type whose values operators take and return (c10's custom classes).
///
/// A typed kernel takes `&T` and returns `Arc<T>`; boxed, the value is a [`Value::Object`]. Cloning
/// is for arguments that are boxed, so it should share what is large.
///
/// ```
/// use std::sync::Arc;
/// use straightline::dispatch::{Library, Object, ScriptClass, Value, operator};
///
/// #[derive(Clone)]
/// struct Counter(i64);
/// impl ScriptClass for Counter {
///     const NAMESPACE: &'static str = "docs_object";
///     const NAME: &'static str = "Counter";
/// }
///
/// let mut lib = Library::new("docs_object")?;
/// lib.def("next(__torch__.torch.classes.docs_object.Counter c) -> __torch__.torch.classes.docs_object.Counter")?;
/// lib.impl_("next", |c: &Counter| Ok(Arc::new(Counter(c.0 + 1))))?;
///
/// let mut stack = vec![Value::Object(Object::new(Counter(4)))];
/// operator("docs_object::next")?.call_boxed(&mut stack)?;
/// let Value::Object(o) = &stack[0] else { unreachable!() };
/// assert_eq!(o.get::<Counter>().unwrap().0, 5);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait ScriptClass: Any + Clone + Send + Sync {
    /// The namespace in the schema.
    const NAMESPACE: &'static str;
    /// The name in the schema.
    const NAME: &'static str;
}

/// A shared value of a [`ScriptClass`].
#[derive(Clone)]
pub struct Object(Arc<dyn Instance>);

/// A value that knows its class.
trait Instance: Any + Send + Sync {
    fn class(&self) -> (&'static str, &'static str);
}

impl<T: ScriptClass> Instance for T {
    fn class(&self) -> (&'static str, &'static str) {
        (T::NAMESPACE, T::NAME)
    }
}

impl Object {
    /// Wraps a value.
    pub fn new<T: ScriptClass>(value: T) -> Object {
        Object::shared(Arc::new(value))
    }

    /// Wraps a value that is shared already.
    pub fn shared<T: ScriptClass>(value: Arc<T>) -> Object {
        Object(value)
    }

    /// The value, if it is a `T`.
    pub fn get<T: ScriptClass>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = self.0.class();
        write!(f, "<__torch__.torch.classes.{namespace}.{name}>")
    }
}

fn class<T: ScriptClass>() -> SchemaType {
    SchemaType::Class { namespace: T::NAMESPACE.to_string(), name: T::NAME.to_string() }
}

impl<T: ScriptClass> sealed::Sealed for &T {}
impl<T: ScriptClass> Arg for &T {
    type Item<'a> = &'a T;

    fn ty() -> SchemaType {
        class::<T>()
    }

    fn unbox(value: &Value) -> Option<&T> {
        match value {
            Value::Object(o) => o.get(),
            _ => None,
        }
    }

    fn to_value(item: &T) -> Value {
        Value::Object(Object::new(item.clone()))
    }
}

impl<T: ScriptClass> sealed::Sealed for Arc<T> {}
impl<T: ScriptClass> RetValue for Arc<T> {
    fn ty() -> SchemaType {
        class::<T>()
    }

    fn into_value(self) -> Value {
        Value::Object(Object::shared(self))
    }

    fn from_value(value: Value) -> Option<Arc<T>> {
        match value {
            Value::Object(Object(value)) => {
                let any: Arc<dyn Any + Send + Sync> = value;
                any.downcast().ok()
            }
            _ => None,
        }
    }
}

impl<T: ScriptClass> Ret for Arc<T> {
    fn types() -> Vec<SchemaType> {
        vec![class::<T>()]
    }

    fn push_returns(self, stack: &mut Stack) {
        stack.push(self.into_value());
    }

    fn pop_returns(stack: &mut Stack) -> Option<Arc<T>> {
        let value = stack.pop()?;
        if stack.is_empty() { RetValue::from_value(value) } else { None }
    }

    fn tensors_mut<'a>(&'a mut self, _each: &mut impl FnMut(usize, &'a mut crate::tensor::Tensor)) {
    }
}
