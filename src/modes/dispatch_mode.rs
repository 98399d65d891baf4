//! Dispatch modes: handlers that see every operator call of their thread (`__torch_dispatch__`).
//!
//! The order is c10's. A mode works at the `Python` key, below autocast, autograd, views' and
//! versions' bookkeeping and functionalisation, above the backends: composites are already
//! decomposed when it sees them (`linear` arrives as `t` and `addmm`). The innermost mode comes
//! first; while its handler runs it is off the stack, the modes outside it are on, and the keys
//! above `Python` are excluded. Wrapper tensors' own handlers come after all modes.
//!
//! [`push_pre_dispatch_mode`] attaches a mode at the top instead, where composites arrive whole.

use super::call::{Call, Outcome};
use super::depth::Deeper;
use super::stack::{HandlerStack, ModeGuard, Suspended, sweep};
use super::{ModeError, rules, short_type_name, subclass};
use crate::dispatch::{
    DispatchError, DispatchKey, DispatchKeySet, ForceKeySetGuard, Kernel, OperatorHandle, Stack,
    TlsKeySets, Value,
};
use crate::error::Result;
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// A handler of every operator call on a thread.
///
/// It may log a call, change its arguments, put another operator in its place, answer it itself,
/// or pass it on with [`Call::forward`]. [`from_fn`] makes one of a closure. A mode that is shared,
/// to be asked for its results later, is pushed as an `Rc` or `Arc`.
///
/// ```
/// use straightline::modes::{Call, DispatchMode, Outcome, push_mode};
/// use straightline::{Result, Tensor};
///
/// /// Computes sums where the program says products.
/// struct Sums;
///
/// impl DispatchMode for Sums {
///     fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
///         if call.is("aten::mul.Tensor") {
///             let mut args = call.args().to_vec();
///             args.push(1i64.into()); // alpha
///             let add = straightline::dispatch::operator("aten::add.Tensor")?;
///             return Ok(call.call(add, args)?.into());
///         }
///         Ok(call.forward()?.into())
///     }
/// }
///
/// let x = Tensor::from_vec([3f32], 1)?;
/// let guard = push_mode(Sums);
/// assert_eq!((&x * &x).to_vec::<f32>()?, [6.0]);
/// drop(guard);
/// assert_eq!((&x * &x).to_vec::<f32>()?, [9.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait DispatchMode: Any {
    /// Handles a call. [`Outcome::NotImplemented`] leaves it to the wrapper tensors among the
    /// arguments, with this mode back on the stack, so that it sees what they call; if there are
    /// none that is an error ([`ModeError::AllDeclined`]), and for a pre-dispatch mode it lets the
    /// call go on.
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome>;

    /// The name in messages.
    fn name(&self) -> String {
        short_type_name::<Self>()
    }
}

impl<M: DispatchMode> DispatchMode for Rc<M> {
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
        run(&**self, call)
    }

    fn name(&self) -> String {
        M::name(self)
    }
}

impl<M: DispatchMode> DispatchMode for Arc<M> {
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
        run(&**self, call)
    }

    fn name(&self) -> String {
        M::name(self)
    }
}

/// A mode made of a closure; see [`from_fn`].
pub struct FromFn<F>(F);

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}

impl<F: Fn(Call<'_>) -> Result<Outcome> + 'static> DispatchMode for FromFn<F> {
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
        (self.0)(call)
    }

    fn name(&self) -> String {
        "from_fn".into()
    }
}

/// A mode whose handler is a closure.
///
/// ```
/// use straightline::modes::{from_fn, push_mode};
/// use straightline::Tensor;
/// let x = Tensor::from_vec([1f32], 1)?;
/// let _guard = push_mode(from_fn(|call| Ok(call.forward()?.into())));
/// assert_eq!((&x + &x).to_vec::<f32>()?, [2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn from_fn<F: Fn(Call<'_>) -> Result<Outcome> + 'static>(f: F) -> FromFn<F> {
    FromFn(f)
}

/// A mode of any type.
pub(super) trait AnyMode {
    fn run(&self, call: Call<'_>) -> Result<Outcome>;
    fn describe(&self) -> String;
}

impl<M: DispatchMode> AnyMode for M {
    fn run(&self, call: Call<'_>) -> Result<Outcome> {
        run(self, call)
    }

    fn describe(&self) -> String {
        self.name()
    }
}

/// The mode's handler, or the operator's rule for this mode.
fn run<M: DispatchMode>(mode: &M, call: Call<'_>) -> Result<Outcome> {
    match rules::find::<M>(call.op()) {
        Some(rule) => rule(mode, call),
        None => mode.dispatch(call),
    }
}

/// A mode that is off the stack while its handler runs.
pub(super) type SuspendedMode = Suspended<dyn AnyMode>;

thread_local! {
    static MODES: HandlerStack<dyn AnyMode> = const { HandlerStack::new(DispatchKeySet::PYTHON) };
    static PRE_DISPATCH: HandlerStack<dyn AnyMode> =
        const { HandlerStack::new(DispatchKeySet::of(&[DispatchKey::PreDispatch])) };
    /// How many handlers are running on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The key sets of the outermost call under way, before any handler.
    static ON_ENTRY: Cell<Option<TlsKeySets>> = const { Cell::new(None) };
}

/// Puts a mode on this thread's stack until the guard is dropped: from now on it sees every
/// operator call first. See [`DispatchMode`].
pub fn push_mode(mode: impl DispatchMode) -> ModeGuard {
    ModeGuard::push(&MODES, || sweep(&MODES), Box::new(mode))
}

/// Like [`push_mode`], above all other keys: the mode sees calls as the program made them, before
/// autocast, autograd and composites. What a composite calls inside does not come to the mode that
/// forwarded it.
///
/// ```
/// use straightline::modes::{from_fn, push_mode, push_pre_dispatch_mode};
/// use straightline::{Tensor, ops::aten};
/// use std::{cell::RefCell, rc::Rc};
///
/// let seen = Rc::new(RefCell::new(Vec::new()));
/// let log = |level: &'static str| {
///     let seen = seen.clone();
///     from_fn(move |call| {
///         seen.borrow_mut().push(format!("{level} {}", call.op().name()));
///         Ok(call.forward()?.into())
///     })
/// };
/// let (x, w) = (Tensor::from_slice(&[1f32; 6], &[2, 3])?, Tensor::from_slice(&[1f32; 12], &[4, 3])?);
/// let _guards = (push_pre_dispatch_mode(log("pre")), push_mode(log("post")));
/// aten::linear(&x, &w, None)?;
/// assert_eq!(*seen.borrow(), ["pre aten::linear", "post aten::t", "post aten::mm"]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn push_pre_dispatch_mode(mode: impl DispatchMode) -> ModeGuard {
    ModeGuard::push(&PRE_DISPATCH, || sweep(&PRE_DISPATCH), Box::new(mode))
}

/// What on this thread has to see every operator call, so that compiled functions must run eagerly.
pub(crate) fn interception() -> Option<String> {
    let innermost = |s: &HandlerStack<dyn AnyMode>| s.entries().last().map(|e| e.item.describe());
    if let Some(name) = MODES.with(innermost) {
        return Some(format!("dispatch mode `{name}`"));
    }
    if let Some(name) = PRE_DISPATCH.with(innermost) {
        return Some(format!("pre-dispatch mode `{name}`"));
    }
    if super::python_dispatcher::is_enabled() {
        return Some("the PythonDispatcher".into());
    }
    if TlsKeySets::current().included.has(DispatchKey::FuncTorchDynamicLayerFrontMode) {
        return Some("a function transform (`func::grad`, `func::vmap` ...)".into());
    }
    let kernels = DispatchKeySet::ALL_BACKENDS | DispatchKeySet::from(DispatchKey::Dense);
    if !(TlsKeySets::current().excluded & kernels).is_empty() {
        return Some("an `ExcludeGuard` that hides the kernels of backends".into());
    }
    (DEPTH.get() > 0).then(|| "a handler, whose calls stay below the tracer,".into())
}

/// All keys above `Python` except `PythonDispatcher`.
pub(crate) const ABOVE_PYTHON: DispatchKeySet = DispatchKeySet::from_raw(
    DispatchKeySet::FULL.raw()
        & !DispatchKeySet::full_after(DispatchKey::Python).raw()
        & !DispatchKeySet::of(&[DispatchKey::Python]).raw(),
);

/// The state of the thread around handlers; restored when dropped.
struct Handling {
    before: TlsKeySets,
    was_empty: [bool; 2],
    _deeper: Deeper,
}

impl Handling {
    fn begin(op: OperatorHandle) -> Result<Handling> {
        Ok(Handling {
            before: TlsKeySets::current(),
            was_empty: empty(),
            _deeper: Deeper::enter(&DEPTH, op)?,
        })
    }

    /// The key sets that a handler runs under, given which stacks are empty while it does.
    fn inside(&self, exclude: DispatchKeySet) -> ForceKeySetGuard {
        let mut included = self.before.included;
        let [modes, pre_dispatch] = empty();
        if modes {
            included = included - DispatchKeySet::PYTHON;
        }
        if pre_dispatch {
            included = included.remove(DispatchKey::PreDispatch);
        }
        ForceKeySetGuard::new(TlsKeySets { included, excluded: self.before.excluded | exclude })
    }
}

fn empty() -> [bool; 2] {
    [MODES.with(HandlerStack::is_empty), PRE_DISPATCH.with(HandlerStack::is_empty)]
}

impl Drop for Handling {
    fn drop(&mut self) {
        // a handler may have left a mode behind, or removed one
        let [modes, pre_dispatch] = empty();
        if modes != self.was_empty[0] {
            MODES.with(|s| s.include(!modes));
        }
        if pre_dispatch != self.was_empty[1] {
            PRE_DISPATCH.with(|s| s.include(!pre_dispatch));
        }
    }
}

/// Takes the arguments of a call off the stack.
fn take_args(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<Stack> {
    let want = schema.args.len();
    match stack.len().checked_sub(want) {
        Some(base) => Ok(stack.split_off(base)),
        None => Err(DispatchError::StackUnderflow {
            op: op.name().to_string(),
            want,
            have: stack.len(),
        }
        .into()),
    }
}

/// Pushes a handler's returns, if they fit the operator's schema.
fn leave(
    op: OperatorHandle,
    schema: &FunctionSchema,
    values: Vec<Value>,
    stack: &mut Stack,
) -> Result<()> {
    let fits = |(v, want): (&Value, &SchemaType)| match want {
        SchemaType::Tensor => matches!(v, Value::Tensor(_)),
        SchemaType::List(t, _) if **t == SchemaType::Tensor => matches!(v, Value::TensorList(_)),
        _ => true,
    };
    let types = schema.returns.iter().map(|r| &r.ty);
    if schema.varret || (values.len() == types.len() && values.iter().zip(types).all(fits)) {
        stack.extend(values);
        return Ok(());
    }
    let types: Vec<String> = schema.returns.iter().map(|r| r.ty.to_string()).collect();
    let got: Vec<&str> = values.iter().map(Value::type_name).collect();
    Err(DispatchError::Returns {
        op: op.name().to_string(),
        want: format!("({})", types.join(", ")),
        got: format!("({})", got.join(", ")),
    }
    .into())
}

/// The kernel at `Python`: the innermost mode's handler, then those of wrapper tensors.
fn python(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    if handle(op, stack, ABOVE_PYTHON)? {
        return Ok(());
    }
    // the key was included by hand
    op.redispatch_boxed(keys & DispatchKeySet::full_after(DispatchKey::Python), stack)
}

/// Runs handlers while a function is captured. The capture's own keys lie above `Python` and stay
/// active for what handlers call, so a handler sees the tensors and operators that it would see in
/// eager execution, and its calls are recorded in place of the call. Returns `false` if there is no
/// handler for the call.
pub(crate) fn handle_captured(
    op: OperatorHandle,
    keys: DispatchKeySet,
    stack: &mut Stack,
) -> Result<bool> {
    if !keys.has(DispatchKey::Python) {
        return Ok(false);
    }
    const CAPTURE: DispatchKeySet =
        DispatchKeySet::of(&[DispatchKey::Functionalize, DispatchKey::Tracer]);
    handle(op, stack, ABOVE_PYTHON - CAPTURE)
}

fn handle(op: OperatorHandle, stack: &mut Stack, exclude: DispatchKeySet) -> Result<bool> {
    let Some(schema) = op.schema() else {
        return Ok(false);
    };
    let nobody = MODES.with(HandlerStack::is_empty)
        && !stack.iter().flat_map(Value::tensors).any(subclass::is_subclass);
    if nobody {
        return Ok(false);
    }
    let args = take_args(op, schema, stack)?;
    let handling = Handling::begin(op)?;
    let mut declined = Vec::new();
    if let Some(mode) = Suspended::innermost(&MODES) {
        let _keys = handling.inside(exclude);
        let call = Call::new(op, schema, args.clone(), Some(&mode));
        if let Outcome::Returns(values) = mode.item().run(call)? {
            return leave(op, schema, values, stack).map(|()| true);
        }
        declined.push(format!("mode `{}`", mode.item().describe()));
    }
    for handler in subclass::handlers(&args) {
        let _keys = handling.inside(exclude);
        let call = Call::new(op, schema, args.clone(), None);
        if let Outcome::Returns(values) = handler.run(call)? {
            return leave(op, schema, values, stack).map(|()| true);
        }
        declined.push(format!("tensor subclass `{}`", handler.describe()));
    }
    Err(ModeError::AllDeclined { op: op.name().to_string(), handlers: declined }.into())
}

/// The kernel at `PreDispatch`.
fn pre_dispatch(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    if let (Some(schema), false) = (op.schema(), PRE_DISPATCH.with(HandlerStack::is_empty)) {
        let args = take_args(op, schema, stack)?;
        let handling = Handling::begin(op)?;
        if let Some(mode) = Suspended::innermost(&PRE_DISPATCH) {
            let _keys = handling.inside(DispatchKeySet::EMPTY);
            let call = Call::new(op, schema, args.clone(), Some(&mode));
            if let Outcome::Returns(values) = mode.item().run(call)? {
                return leave(op, schema, values, stack);
            }
        }
        stack.extend(args);
    }
    op.redispatch_boxed(keys & DispatchKeySet::full_after(DispatchKey::PreDispatch), stack)
}

/// The kernel at `PythonTLSSnapshot`: remembers the key sets of the outermost call.
fn snapshot(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    struct Restore(Option<TlsKeySets>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ON_ENTRY.set(self.0);
        }
    }
    let known = ON_ENTRY.get();
    let _restore = Restore(known);
    if known.is_none() {
        ON_ENTRY.set(Some(TlsKeySets::current()));
    }
    op.redispatch_boxed(keys & DispatchKeySet::full_after(DispatchKey::PythonTLSSnapshot), stack)
}

/// The kernels of the keys in this file.
pub(super) fn kernels() -> [(DispatchKey, Kernel); 3] {
    [
        (DispatchKey::Python, Kernel::boxed(python)),
        (DispatchKey::PythonTLSSnapshot, Kernel::boxed(snapshot)),
        (DispatchKey::PreDispatch, Kernel::boxed(pre_dispatch)),
    ]
}

/// Calls on this thread see all keys again while it lives; see [`reentrant_dispatch`].
#[must_use = "the keys are restored where the guard is dropped"]
#[derive(Debug)]
pub struct ReentrantGuard {
    _keys: ForceKeySetGuard,
    on_entry: Option<TlsKeySets>,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for ReentrantGuard {
    fn drop(&mut self) {
        ON_ENTRY.set(self.on_entry);
    }
}

/// Inside a handler: restores the key sets of the call that led to it, so that what the handler
/// calls passes through autograd, autocast and functionalisation again, which otherwise lie above
/// it.
///
/// ```
/// use straightline::modes::{from_fn, push_mode, reentrant_dispatch};
/// use straightline::dispatch::{DispatchKey, TlsKeySets};
/// use straightline::Tensor;
///
/// let _guard = push_mode(from_fn(|call| {
///     assert!(TlsKeySets::current().excluded.has(DispatchKey::Functionalize));
///     let _again = reentrant_dispatch()?;
///     assert!(!TlsKeySets::current().excluded.has(DispatchKey::Functionalize));
///     Ok(call.forward()?.into())
/// }));
/// Tensor::from_vec([1f32], 1)?.relu()?;
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// [`ModeError::NotInHandler`].
pub fn reentrant_dispatch() -> Result<ReentrantGuard> {
    let Some(mut keys) = ON_ENTRY.take() else {
        return Err(ModeError::NotInHandler.into());
    };
    let on_entry = Some(keys);
    if MODES.with(HandlerStack::is_empty) {
        keys.included = keys.included - DispatchKeySet::PYTHON;
    }
    Ok(ReentrantGuard { _keys: ForceKeySetGuard::new(keys), on_entry, on_this_thread: PhantomData })
}
