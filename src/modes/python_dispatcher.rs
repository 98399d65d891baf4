//! The `PythonDispatcher` key: a thread decides for itself which kernel a key set means.
//!
//! It is the highest key. Each call, and each redispatch, since key sets "after" a key always
//! contain it again, first asks the resolver which kernel to run. So a tracer can put a
//! decomposition in place of a kernel at one key without registering it globally.

use super::depth::Deeper;
use super::stack::{HandlerStack, ModeGuard, sweep};
use crate::dispatch::{
    DispatchKey, DispatchKeySet, ExcludeGuard, Kernel, OperatorHandle, Stack, operator,
};
use crate::error::Result;
use std::cell::Cell;
use std::collections::HashMap;

/// Which kernel a call means.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// Leaves the choice to the next resolver, or to the operator's table at the highest key.
    Default,
    /// The operator's own kernel at this key, an alias key too, or else that key's fallback.
    Key(DispatchKey),
    /// This kernel, given the key set of the call.
    Kernel(Kernel),
}

/// Chooses kernels; see [`enable`].
pub trait Resolver: 'static {
    /// The kernel for an operator and a key set, which does not contain `PythonDispatcher`. What
    /// the resolver itself calls is not intercepted.
    fn resolve(&self, op: OperatorHandle, keys: DispatchKeySet) -> Result<Resolution>;
}

impl<F: Fn(OperatorHandle, DispatchKeySet) -> Result<Resolution> + 'static> Resolver for F {
    fn resolve(&self, op: OperatorHandle, keys: DispatchKeySet) -> Result<Resolution> {
        self(op, keys)
    }
}

/// A resolver that puts decompositions in place of kernels, wherever the call would reach the
/// operator first. The calls of a decomposition are resolved as well, so one that calls its own
/// operator fails with [`TooDeep`](crate::modes::ModeError::TooDeep).
///
/// ```
/// use straightline::modes::python_dispatcher::{Decompositions, enable};
/// use straightline::dispatch::IntoKernel;
/// use straightline::{Result, Tensor};
///
/// let mut table = Decompositions::new();
/// table.add("aten::relu", (|x: &Tensor| x.clamp_min(0.0)).into_kernel())?;
/// let _guard = enable(table);
/// let (y, trace) = straightline::dispatch::capture(|| Tensor::from_vec([-1f32, 2.0], 2)?.relu());
/// assert_eq!(y?.to_vec::<f32>()?, [0.0, 2.0]);
/// assert!(trace.iter().any(|line| line.contains("aten::clamp")));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decompositions {
    table: HashMap<OperatorHandle, Kernel>,
}

impl Decompositions {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the decomposition of an operator, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// There is no such operator.
    pub fn add(&mut self, op: &str, kernel: Kernel) -> Result<&mut Self> {
        self.table.insert(operator(op)?, kernel);
        Ok(self)
    }
}

impl Resolver for Decompositions {
    fn resolve(&self, op: OperatorHandle, _keys: DispatchKeySet) -> Result<Resolution> {
        Ok(match self.table.get(&op) {
            Some(kernel) => Resolution::Kernel(kernel.clone()),
            None => Resolution::Default,
        })
    }
}

thread_local! {
    static RESOLVERS: HandlerStack<dyn Resolver> =
        const { HandlerStack::new(DispatchKeySet::of(&[DispatchKey::PythonDispatcher])) };
}

/// Asks `resolver` about every call and redispatch of this thread while the guard lives. Resolvers
/// nest: the innermost is asked first, and [`Resolution::Default`] leaves the answer to the next.
///
/// ```
/// use straightline::modes::python_dispatcher::{Resolution, enable};
/// use straightline::dispatch::{DispatchKeySet, OperatorHandle};
/// use straightline::{Tensor, ops::aten};
/// use std::{cell::RefCell, rc::Rc};
///
/// let seen = Rc::new(RefCell::new(Vec::new()));
/// let log = seen.clone();
/// let _guard = enable(move |op: OperatorHandle, keys: DispatchKeySet| {
///     log.borrow_mut().push(format!("{} {}", op.name(), keys.highest_priority_key()));
///     Ok(Resolution::Default)
/// });
/// let (x, w) = (Tensor::from_slice(&[1f32; 6], &[2, 3])?, Tensor::from_slice(&[1f32; 12], &[4, 3])?);
/// aten::linear(&x, &w, None)?;
/// assert_eq!(seen.borrow()[0], "aten::linear AutogradCPU");
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn enable(resolver: impl Resolver) -> ModeGuard {
    ModeGuard::push(&RESOLVERS, || sweep(&RESOLVERS), Box::new(resolver))
}

/// Whether a resolver is enabled on this thread.
pub fn is_enabled() -> bool {
    !RESOLVERS.with(HandlerStack::is_empty)
}

fn resolve(op: OperatorHandle, keys: DispatchKeySet) -> Result<Resolution> {
    let _off = ExcludeGuard::new(DispatchKey::PythonDispatcher);
    for entry in RESOLVERS.with(HandlerStack::entries).iter().rev() {
        match entry.item.resolve(op, keys)? {
            Resolution::Default => {}
            resolution => return Ok(resolution),
        }
    }
    Ok(Resolution::Default)
}

fn kernel_at(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let rest = keys.remove(DispatchKey::PythonDispatcher);
    match resolve(op, rest)? {
        Resolution::Default => match op.kernel_for(rest.highest_priority_key()) {
            // not a redispatch with `rest`, so that the kernel's redispatches are intercepted again
            Ok(kernel) => kernel.call_boxed(op, keys, stack),
            Err(_) => op.redispatch_boxed(rest, stack),
        },
        Resolution::Key(key) => op.call_boxed_for_key(key, stack),
        Resolution::Kernel(kernel) => {
            let _deeper = Deeper::enter(&DEPTH, op)?;
            kernel.call_boxed(op, keys, stack)
        }
    }
}

thread_local! {
    /// The nesting depth of kernels that resolvers chose.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The kernel at `PythonDispatcher`.
pub(super) fn kernel() -> Kernel {
    Kernel::boxed(kernel_at)
}
