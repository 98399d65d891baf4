//! A call as a handler sees it: the operator, its arguments as values, and ways to continue.

use super::ModeError;
use super::dispatch_mode::SuspendedMode;
use super::show;
use crate::dispatch::{DispatchKey, DispatchKeySet, OperatorHandle, Value, operator};
use crate::error::Result;
use crate::tensor::Tensor;
use std::fmt;
use straightline_catalog::schema::FunctionSchema;

/// What a handler returns for a call.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It handled the call; these are the operator's returns.
    Returns(Vec<Value>),
    /// It leaves the call to the next candidate.
    NotImplemented,
}

impl From<Vec<Value>> for Outcome {
    fn from(values: Vec<Value>) -> Outcome {
        Outcome::Returns(values)
    }
}

impl From<Tensor> for Outcome {
    fn from(t: Tensor) -> Outcome {
        Outcome::Returns(vec![Value::Tensor(t)])
    }
}

/// One operator call, in the hands of a [`DispatchMode`](super::DispatchMode) or a
/// [`TensorSubclass`](super::TensorSubclass).
///
/// Arguments are in schema order with defaults filled in. `Display` prints the call as it would be
/// written, defaults left out:
///
/// ```
/// use straightline::modes::{from_fn, push_mode};
/// use straightline::{Scalar, Tensor, ops::aten};
/// use std::{cell::RefCell, rc::Rc};
///
/// let seen = Rc::new(RefCell::new(Vec::new()));
/// let log = seen.clone();
/// let guard = push_mode(from_fn(move |call| {
///     log.borrow_mut().push(call.to_string());
///     Ok(call.forward()?.into())
/// }));
/// let x = Tensor::from_vec([1f32, 2.0], 2)?;
/// aten::add_tensor(&x, &x, Scalar::Int(2))?;
/// drop(guard);
/// assert_eq!(*seen.borrow(), ["aten::add.Tensor(f32[2], f32[2], alpha=2)"]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct Call<'a> {
    op: OperatorHandle,
    schema: &'static FunctionSchema,
    args: Vec<Value>,
    mode: Option<&'a SuspendedMode>,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        op: OperatorHandle,
        schema: &'static FunctionSchema,
        args: Vec<Value>,
        mode: Option<&'a SuspendedMode>,
    ) -> Call<'a> {
        Call { op, schema, args, mode }
    }

    /// The operator.
    pub fn op(&self) -> OperatorHandle {
        self.op
    }

    /// Whether this is the operator of that name, `aten::add.Tensor`.
    pub fn is(&self, name: &str) -> bool {
        let own = self.op.name();
        match name.strip_prefix(own.name.as_str()) {
            Some("") => own.overload.is_empty(),
            Some(rest) => rest.strip_prefix('.') == Some(own.overload.as_str()),
            None => false,
        }
    }

    /// The operator's schema.
    pub fn schema(&self) -> &'static FunctionSchema {
        self.schema
    }

    /// The arguments in schema order.
    pub fn args(&self) -> &[Value] {
        &self.args
    }

    /// The arguments, which may be changed before the call continues.
    pub fn args_mut(&mut self) -> &mut [Value] {
        &mut self.args
    }

    /// An argument by its name in the schema.
    pub fn arg(&self, name: &str) -> Option<&Value> {
        self.args.get(self.schema.arg_index(name)?)
    }

    /// Sets an argument by its name in the schema.
    ///
    /// # Errors
    ///
    /// [`ModeError::NoArgument`]. A value of a wrong type is reported when the call continues.
    pub fn set_arg(&mut self, name: &str, value: impl Into<Value>) -> Result<()> {
        let Some(at) = self.schema.arg_index(name) else {
            return Err(ModeError::NoArgument {
                op: self.op.name().to_string(),
                name: name.to_string(),
                known: self.schema.args.iter().map(|a| a.name.clone()).collect(),
            }
            .into());
        };
        self.args[at] = value.into();
        Ok(())
    }

    /// The arguments as the call would be written, PyTorch's `args` and `kwargs`: trailing
    /// positional arguments that are their default and keyword-only ones that are theirs are left
    /// out.
    pub fn written(&self) -> (Vec<&Value>, Vec<(&'static str, &Value)>) {
        let (mut positional, mut keyword) = (Vec::new(), Vec::new());
        let mut kept = 0;
        for (value, arg) in self.args.iter().zip(&self.schema.args) {
            let default = arg.default.as_ref();
            let is_default = default.is_some_and(|d| show::is_default(value, d, &arg.ty));
            if arg.kwarg_only {
                if !is_default {
                    keyword.push((arg.name.as_str(), value));
                }
            } else {
                positional.push(value);
                if !is_default {
                    kept = positional.len();
                }
            }
        }
        positional.truncate(kept);
        (positional, keyword)
    }

    /// Every tensor among the arguments, including those in lists.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.args.iter().flat_map(Value::tensors)
    }

    /// Replaces every tensor among the arguments.
    pub fn map_tensors(&mut self, mut f: impl FnMut(&Tensor) -> Tensor) {
        for value in &mut self.args {
            match value {
                Value::Tensor(t) => *t = f(t),
                Value::TensorList(l) => l.iter_mut().for_each(|t| *t = f(t)),
                Value::OptionalTensorList(l) => l.iter_mut().flatten().for_each(|t| *t = f(t)),
                _ => {}
            }
        }
    }

    /// Calls the operator on these arguments, below this handler: a mode is off the stack while
    /// its handler runs, so the next mode sees the call, then the subclasses, then the kernel.
    ///
    /// In a [`TensorSubclass`](super::TensorSubclass)'s handler the call comes back to the
    /// handler if an argument still is such a wrapper; [`Call::map_tensors`] takes the inner
    /// tensors out.
    pub fn forward(&self) -> Result<Vec<Value>> {
        self.call(self.op, self.args.clone())
    }

    /// Calls another operator on these arguments, which it must take in this order.
    pub fn redirect(&self, op: &str) -> Result<Vec<Value>> {
        self.call(operator(op)?, self.args.clone())
    }

    /// Calls any operator below this handler.
    pub fn call(&self, op: OperatorHandle, args: Vec<Value>) -> Result<Vec<Value>> {
        let mut stack = args;
        op.call_boxed(&mut stack)?;
        Ok(stack)
    }

    /// Runs the body of a composite operator, which calls other operators; `None` if the operator
    /// is not a composite. A mode then sees the inner calls; otherwise it sees them only if
    /// autograd has decomposed the composite already.
    pub fn decompose(&self) -> Option<Result<Vec<Value>>> {
        let composite = DispatchKey::CompositeImplicitAutograd;
        if !self.op.registers(composite) {
            return None;
        }
        let mut stack = self.args.clone();
        let mut body = || self.op.call_boxed_for_key(composite, &mut stack);
        let done = match self.mode {
            Some(mode) => mode.reinstated(body),
            None => body(),
        };
        Some(done.map(|()| stack))
    }

    /// The union of the arguments' dispatch keys.
    pub fn key_set(&self) -> DispatchKeySet {
        self.op.argument_keys(&self.args)
    }
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show::call(self, &mut show::tensor))
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
