//! Handles with the operator's types, for calls without boxing.

use super::OperatorHandle;
use super::entry::OperatorEntry;
use super::record::Record;
use crate::dispatch::arg::Ret;
use crate::dispatch::dispatcher;
use crate::dispatch::error::DispatchError;
use crate::dispatch::kernel::Args;
use crate::dispatch::record::Observation;
use crate::dispatch::recursion;
use crate::dispatch::slots::Standing;
use crate::dispatch::tls;
use crate::dispatch::trace::Entry;
use crate::dispatch::value::{Stack, Value};
use crate::error::Result;
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::OperatorName;

/// An operator with its types: calls go straight to the kernel, without boxing.
///
/// `A` is a tuple of [`Arg`](crate::dispatch::Arg)s with `'static` in place of a lifetime.
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{DispatchKey, Library, operator};
///
/// let mut lib = Library::new("docs_typed")?;
/// lib.def("twice(Tensor x, int n) -> int")?;
/// lib.impl_at("twice", DispatchKey::CPU, |_x: &Tensor, n: i64| Ok(2 * n))?;
/// let twice = operator("docs_typed::twice")?.typed::<(&'static Tensor, i64), i64>()?;
///
/// let x = Tensor::from_slice(&[1f32], &[1])?;
/// assert_eq!(twice.call((&x, 21))?, 42);
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct TypedHandle<A, R> {
    pub(super) entry: &'static OperatorEntry,
    pub(super) types: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for TypedHandle<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for TypedHandle<A, R> {}

impl<A, R> fmt::Debug for TypedHandle<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.entry.name)
    }
}

impl<A: Args + 'static, R: Ret> TypedHandle<A, R> {
    /// The operator with the types that its kernels have.
    pub(in crate::dispatch) fn of(op: OperatorHandle) -> TypedHandle<A, R> {
        TypedHandle { entry: op.0, types: PhantomData }
    }

    /// The operator without its types.
    pub fn handle(self) -> OperatorHandle {
        OperatorHandle(self.entry)
    }

    /// Calls the operator; the key set comes from the tensor arguments and the thread.
    #[inline]
    #[track_caller]
    pub fn call(self, args: A::Items<'_>) -> Result<R> {
        let at = Location::caller();
        match self.call_from(at, args) {
            Ok(r) => Ok(r),
            Err(e) => Err(OperatorHandle(self.entry).named(e, at)),
        }
    }

    /// [`TypedHandle::call`] from a line of user code, which capture remembers.
    #[inline]
    pub(crate) fn call_from(self, at: &'static Location<'static>, args: A::Items<'_>) -> Result<R> {
        let (full, special) = tls::enter(A::keys(&args));
        if special | full.records() {
            return self.call_special(at, full, special, args);
        }
        let keys = self.entry.masked_silent(full);
        let record = self.entry.lookup(keys);
        match record.unboxed {
            // SAFETY: unboxed records in this operator's table have the pinned signature, which
            // is that of this handle, and their functor lives as long as they do.
            Some(f) => unsafe { A::invoke(f, record.functor, keys, args) },
            None => self.call_slow(Some(full), keys, record, args),
        }
    }

    /// Calls the kernel for a given key set: neither the thread's sets nor the operator's masks
    /// apply.
    #[inline]
    pub fn redispatch(self, keys: DispatchKeySet, args: A::Items<'_>) -> Result<R> {
        if tls::enter_redispatch() {
            return self.redispatch_special(keys, args);
        }
        self.run(None, keys, args)
    }

    #[inline]
    #[track_caller]
    fn run(
        self,
        full: Option<DispatchKeySet>,
        keys: DispatchKeySet,
        args: A::Items<'_>,
    ) -> Result<R> {
        let record = self.entry.lookup(keys);
        match record.unboxed {
            // SAFETY: as in `call`.
            Some(f) => unsafe { A::invoke(f, record.functor, keys, args) },
            None => self.call_slow(full, keys, record, args),
        }
    }

    /// A call that records, or one that somebody watches.
    #[inline(never)]
    fn call_special(
        self,
        at: &'static Location<'static>,
        full: DispatchKeySet,
        special: bool,
        args: A::Items<'_>,
    ) -> Result<R> {
        if special {
            return self.call_watched(at, full, args);
        }
        let _line = tls::LineScope::enter(at);
        self.run(Some(full), self.entry.masked(full), args)
    }

    #[cold]
    #[inline(never)]
    fn call_watched(
        self,
        at: &'static Location<'static>,
        full: DispatchKeySet,
        args: A::Items<'_>,
    ) -> Result<R> {
        let _line = tls::watched(at);
        let keys = self.entry.masked(full);
        let _step = recursion::step(self.handle(), keys)?;
        let _scope = self.handle().scope(true, Entry::Call, keys);
        let observation = self.handle().observe(keys, || {
            let mut inputs = Stack::new();
            A::push(args, &mut inputs);
            inputs
        });
        let out = self.run(Some(full), keys, args)?;
        let Some(mut observation) = observation.filter(Observation::wants_outputs) else {
            return Ok(out);
        };
        let mut outputs = Stack::new();
        out.push_returns(&mut outputs);
        observation.set_outputs(outputs.clone());
        Ok(R::pop_returns(&mut outputs).expect("a return unboxes from what it was boxed to"))
    }

    #[cold]
    #[inline(never)]
    fn redispatch_special(self, keys: DispatchKeySet, args: A::Items<'_>) -> Result<R> {
        let _step = recursion::step(self.handle(), keys)?;
        let _scope = self.handle().scope(true, Entry::Redispatch, keys);
        self.run(None, keys, args)
    }

    /// The slot has no unboxed kernel: boxes the arguments. `full` is the key set before masking,
    /// where masking applies.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn call_slow(
        self,
        full: Option<DispatchKeySet>,
        mut keys: DispatchKeySet,
        mut record: &'static Record,
        args: A::Items<'_>,
    ) -> Result<R> {
        if let Some(full) = full {
            if record.standing != Standing::Kernel {
                (keys, record) = self.entry.look_again(full);
            }
            if let Some(f) = record.unboxed {
                // SAFETY: as in `call`.
                return unsafe { A::invoke(f, record.functor, keys, args) };
            }
        }
        self.boxed(args, &mut |op, stack| record.kernel.call_boxed(op, keys, stack))
    }

    /// Runs a function of boxed values on typed arguments.
    #[cold]
    #[inline(never)]
    pub(crate) fn boxed(
        self,
        args: A::Items<'_>,
        run: &mut dyn FnMut(OperatorHandle, &mut Stack) -> Result<()>,
    ) -> Result<R> {
        let mut stack = Stack::new();
        A::push(args, &mut stack);
        let echoes: SmallVec<[(usize, Value); 1]> = match self.entry.definition() {
            Some(d) => d.echoes.iter().map(|(r, a)| (*r, stack[*a].clone())).collect(),
            None => SmallVec::new(),
        };
        run(self.handle(), &mut stack)?;
        // a return that aliases an argument is that argument's tensor
        for (ret, value) in echoes {
            if let Some(slot) = stack.get_mut(ret) {
                *slot = value;
            }
        }
        let got: SmallVec<[&str; 4]> = stack.iter().map(Value::type_name).collect();
        R::pop_returns(&mut stack).ok_or_else(|| {
            let want: Vec<String> = R::types().iter().map(ToString::to_string).collect();
            DispatchError::Returns {
                op: self.entry.name.to_string(),
                want: format!("({})", want.join(", ")),
                got: format!("({})", got.join(", ")),
            }
            .into()
        })
    }
}

/// A typed operator found by name at its first call; meant for a `static`.
pub struct TypedOp<A, R> {
    name: &'static str,
    overload: &'static str,
    entry: AtomicPtr<OperatorEntry>,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> fmt::Debug for TypedOp<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.name, self.overload)
    }
}

impl<A, R> TypedOp<A, R> {
    /// An operator by name and overload.
    pub const fn new(name: &'static str, overload: &'static str) -> Self {
        TypedOp { name, overload, entry: AtomicPtr::new(ptr::null_mut()), types: PhantomData }
    }
}

impl<A: Args + 'static, R: Ret> TypedOp<A, R> {
    /// The operator.
    ///
    /// # Errors
    ///
    /// At the first use: the operator does not exist or has other types.
    #[inline]
    pub fn get(&self) -> Result<TypedHandle<A, R>> {
        let entry = self.entry.load(Ordering::Acquire);
        if entry.is_null() {
            return self.resolve();
        }
        Ok(TypedHandle {
            // SAFETY: not null, so `resolve` stored a leaked entry with these types.
            entry: unsafe { &*entry },
            types: PhantomData,
        })
    }

    #[cold]
    fn resolve(&self) -> Result<TypedHandle<A, R>> {
        let name = OperatorName::new(self.name, self.overload);
        let op = dispatcher::find_or_error(&name)?.typed::<A, R>()?;
        self.entry.store(ptr::from_ref(op.entry).cast_mut(), Ordering::Release);
        Ok(op)
    }

    /// [`TypedHandle::call`].
    #[inline]
    #[track_caller]
    pub fn call(&self, args: A::Items<'_>) -> Result<R> {
        self.get()?.call(args)
    }

    /// [`TypedHandle::call_from`].
    #[inline]
    pub(crate) fn call_from(
        &self,
        at: &'static Location<'static>,
        args: A::Items<'_>,
    ) -> Result<R> {
        self.get()?.call_from(at, args)
    }

    /// [`TypedHandle::redispatch`].
    #[inline]
    pub fn redispatch(&self, keys: DispatchKeySet, args: A::Items<'_>) -> Result<R> {
        self.get()?.redispatch(keys, args)
    }
}
