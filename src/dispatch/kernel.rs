//! Kernels: a typed function stored erased, with its boxed form; or a boxed function alone.

use super::arg::{Arg, Ret};
use super::around::{Around, Wrapped};
use super::error::DispatchError;
use super::operator::OperatorHandle;
use super::value::{Stack, Value};
use super::whole::Whole;
use crate::error::Result;
use crate::tensor::Tensor;
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// A pointer to a trampoline whose real type only the signature knows.
pub(super) type Erased = unsafe fn();

/// The argument list of a typed operator: a tuple of [`Arg`]s, 0 to 20 of them.
pub trait Args: super::arg::sealed::Sealed {
    /// The arguments with the lifetime of a call.
    type Items<'a>: Copy + 'a;
    /// How many there are.
    const COUNT: usize;

    /// The schema types.
    fn types() -> Vec<SchemaType>;

    /// The dispatch keys of all arguments.
    fn keys(items: &Self::Items<'_>) -> DispatchKeySet;

    /// Pushes the arguments.
    fn push(items: Self::Items<'_>, stack: &mut Stack);

    /// Turns boxed arguments, one each, into the forms that [`Args::unbox`] borrows from.
    #[doc(hidden)]
    fn coerce(values: &mut [Value]);

    /// Borrows the arguments from boxed ones. The error has the position of the first that does
    /// not fit, and the type that belongs there.
    #[doc(hidden)]
    fn unbox(values: &[Value]) -> std::result::Result<Self::Items<'_>, (usize, SchemaType)>;

    /// Passes on the tensors of the arguments, each with the position of its argument.
    #[doc(hidden)]
    fn tensors<'a>(items: Self::Items<'a>, each: &mut impl FnMut(usize, &'a Tensor));

    /// The argument at a position, boxed.
    #[doc(hidden)]
    fn value(items: Self::Items<'_>, at: usize) -> Value;

    /// A trampoline that calls another one, holding what its functor names meanwhile.
    #[doc(hidden)]
    fn whole<R: Ret>() -> Erased;

    /// A trampoline for a functor that wraps the rest of the call.
    #[doc(hidden)]
    fn around<R: Ret, Outer: Around>() -> Erased
    where
        Self: 'static;

    /// Calls a trampoline.
    ///
    /// # Safety
    ///
    /// `f` was made for this argument list and `R`, and `functor` is the functor it was made with,
    /// alive.
    #[doc(hidden)]
    unsafe fn invoke<R>(
        f: Erased,
        functor: *const (),
        keys: DispatchKeySet,
        items: Self::Items<'_>,
    ) -> Result<R>;
}

/// The types of a typed kernel.
#[derive(Clone)]
pub(super) struct Signature {
    pub(super) id: TypeId,
    pub(super) name: &'static str,
    pub(super) args: Vec<SchemaType>,
    pub(super) returns: Vec<SchemaType>,
}

impl Signature {
    pub(super) fn of<A: Args + 'static, R: Ret>() -> Signature {
        Signature {
            id: Signature::id_of::<A, R>(),
            name: std::any::type_name::<fn(A) -> R>(),
            args: A::types(),
            returns: R::types(),
        }
    }

    /// Tells signatures apart up to lifetimes.
    pub(super) fn id_of<A: Args, R: Ret>() -> TypeId {
        TypeId::of::<fn(A::Items<'static>) -> R>()
    }
}

impl fmt::Display for Signature {
    /// The schema inferred from the types: `(Tensor _0, Scalar _1) -> Tensor _0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[SchemaType]| {
            let items: Vec<String> =
                types.iter().enumerate().map(|(i, t)| format!("{t} _{i}")).collect();
            items.join(", ")
        };
        write!(f, "({}) -> ", list(&self.args))?;
        match &self.returns[..] {
            [one] => write!(f, "{one} _0"),
            many => write!(f, "({})", list(many)),
        }
    }
}

/// What every kernel can do: run on a stack.
pub(super) trait BoxedCall: Send + Sync {
    fn call(&self, op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()>;

    /// [`Kernel::whole`] of a typed function; `None` of one on the stack.
    fn whole(self: Arc<Self>, written: u64, stands_alone: bool) -> Option<Kernel>;
}

/// What a trampoline reads: the function itself. Kept alive, and nothing else, by its kernel.
trait Functor: Send + Sync {}
impl<F: Send + Sync> Functor for F {}

/// A typed function, known by its signature alone: boxing is compiled once for all functions that
/// share one.
struct Typed<A, R> {
    f: Erased,
    functor: Box<dyn Functor>,
    types: PhantomData<fn(A) -> R>,
}

impl<A: Args + 'static, R: Ret> BoxedCall for Typed<A, R> {
    fn call(&self, op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        let Some(base) = stack.len().checked_sub(A::COUNT) else {
            return Err(underflow(op, A::COUNT, stack.len()));
        };
        A::coerce(&mut stack[base..]);
        let items = A::unbox(&stack[base..])
            .map_err(|(i, expected)| bad_argument(op, i, expected, &stack[base + i]))?;
        // SAFETY: `Kernel::typed` was given a trampoline for `A` and `R` and its functor.
        let out: R = unsafe { A::invoke(self.f, address(&*self.functor), keys, items) }?;
        stack.truncate(base);
        out.push_returns(stack);
        Ok(())
    }

    fn whole(self: Arc<Self>, written: u64, stands_alone: bool) -> Option<Kernel> {
        let functor = address(&*self.functor);
        let whole = Whole::new(written, stands_alone, self.f, functor, self);
        // SAFETY: a trampoline of these types that reads a `Whole`; `self.f` is one of them, and
        // its functor is kept.
        Some(unsafe { Kernel::typed::<A, R>(A::whole::<R>(), Box::new(whole)) })
    }
}

fn address(functor: &dyn Functor) -> *const () {
    (&raw const *functor).cast()
}

/// A kernel, ready to be registered.
///
/// Any function or closure whose arguments and return are types of the table in
/// [`Arg`] converts into a kernel by [`IntoKernel`]; [`Kernel::boxed`] takes one that works on the
/// stack and fits every operator.
#[derive(Clone)]
pub struct Kernel {
    boxed: Arc<dyn BoxedCall>,
    unboxed: Option<(Erased, *const ())>,
    signature: Option<Signature>,
    fallthrough: bool,
    own: bool,
    only_records: bool,
}

// SAFETY: the pointer is to the functor inside `boxed`, which is `Send + Sync`, and is only ever
// read through.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// A kernel that works on the stack: it takes the operator's arguments off the top and leaves
    /// exactly its returns.
    pub fn boxed(
        f: impl Fn(OperatorHandle, DispatchKeySet, &mut Stack) -> Result<()> + Send + Sync + 'static,
    ) -> Kernel {
        struct Boxed<F>(F);
        impl<F> BoxedCall for Boxed<F>
        where
            F: Fn(OperatorHandle, DispatchKeySet, &mut Stack) -> Result<()> + Send + Sync,
        {
            fn call(
                &self,
                op: OperatorHandle,
                keys: DispatchKeySet,
                stack: &mut Stack,
            ) -> Result<()> {
                (self.0)(op, keys, stack)
            }

            fn whole(self: Arc<Self>, _: u64, _: bool) -> Option<Kernel> {
                None
            }
        }
        Kernel {
            boxed: Arc::new(Boxed(f)),
            unboxed: None,
            signature: None,
            fallthrough: false,
            own: false,
            only_records: false,
        }
    }

    /// A kernel of a typed function.
    ///
    /// # Safety
    ///
    /// `f` is a trampoline for the argument list `A` and the return `R` that reads a functor like
    /// this one.
    unsafe fn typed<A: Args + 'static, R: Ret>(f: Erased, functor: Box<dyn Functor>) -> Kernel {
        let unboxed = Some((f, address(&*functor)));
        Kernel {
            boxed: Arc::new(Typed::<A, R> { f, functor, types: PhantomData }),
            unboxed,
            signature: Some(Signature::of::<A, R>()),
            fallthrough: false,
            own: false,
            only_records: false,
        }
    }

    /// The kernel of an operator that wraps the rest of each call.
    pub(super) fn around<A: Args + 'static, R: Ret, W: Around>(wrapped: Wrapped<W>) -> Kernel {
        // SAFETY: a trampoline of these types that reads a `Wrapped<W>`.
        unsafe { Kernel::typed::<A, R>(A::around::<R, W>(), Box::new(wrapped)) }
    }

    /// The kernel that is skipped: calls mask the key out before they look a kernel up.
    pub fn fallthrough() -> Kernel {
        let mut kernel = Kernel::boxed(|op, keys, _| {
            Err(DispatchError::FallthroughCalled {
                op: op.name().to_string(),
                key: keys.highest_priority_key(),
            }
            .into())
        });
        kernel.fallthrough = true;
        kernel
    }

    /// The kernel of a typed function that is made of several kernels: the operands are held from
    /// the first of them to the last, exclusively at the positions whose bits are set in `written`
    /// (`access::whole`). A boxed kernel has to do that itself. What `stands_alone` comes out as no
    /// view, though the last of them may have been one.
    pub(crate) fn whole(self, written: u64, stands_alone: bool) -> Kernel {
        self.boxed.clone().whole(written, stands_alone).unwrap_or(self)
    }

    /// The kernel for calls that record alone: others pass by its key.
    pub(crate) fn for_recording(mut self) -> Kernel {
        self.only_records = true;
        self
    }

    /// Whether calls that record nothing pass by the kernel.
    pub(super) fn only_records(&self) -> bool {
        self.only_records
    }

    /// Whether this is [`Kernel::fallthrough`].
    pub fn is_fallthrough(&self) -> bool {
        self.fallthrough
    }

    /// Says that the kernel is one of this crate's operators.
    pub(super) fn mark_own(&mut self) {
        self.own = true;
    }

    /// Whether the kernel is one of this crate's operators, which keep no operand and write only
    /// those that the schema names. Kernels from outside cannot claim that.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    pub(super) fn unboxed(&self) -> Option<(Erased, *const ())> {
        self.unboxed
    }

    pub(super) fn signature(&self) -> Option<&Signature> {
        self.signature.as_ref()
    }

    /// Runs the kernel on the arguments on top of the stack, past the dispatcher.
    ///
    /// # Errors
    ///
    /// The kernel's own errors, or arguments of other types than it takes.
    pub fn call_boxed(
        &self,
        op: OperatorHandle,
        keys: DispatchKeySet,
        stack: &mut Stack,
    ) -> Result<()> {
        self.boxed.call(op, keys, stack)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.signature, self.fallthrough) {
            (Some(s), _) => write!(f, "Kernel({s})"),
            (None, true) => f.write_str("Kernel(fallthrough)"),
            (None, false) => f.write_str("Kernel(boxed)"),
        }
    }
}

/// A function that can be a typed kernel: `Fn(A1, A2, ..) -> Result<R>`, optionally with a leading
/// [`DispatchKeySet`] that receives the key set of the call. The marker `M` is inferred.
pub trait IntoKernel<M> {
    /// Erases the function.
    fn into_kernel(self) -> Kernel;
}

impl IntoKernel<Kernel> for Kernel {
    fn into_kernel(self) -> Kernel {
        self
    }
}

/// Marks the functions that want the key set.
#[doc(hidden)]
pub struct WithKeySet<M>(PhantomData<M>);

#[cold]
fn bad_argument(
    op: OperatorHandle,
    position: usize,
    expected: SchemaType,
    found: &Value,
) -> crate::Error {
    let (name, declaration) = match op.schema() {
        Some(s) => (
            s.args.get(position).map_or_else(|| format!("_{position}"), |a| a.name.clone()),
            s.to_string(),
        ),
        None => (format!("_{position}"), "(none)".to_string()),
    };
    DispatchError::Argument {
        op: op.name().to_string(),
        name,
        position,
        expected: expected.to_string(),
        found: found.type_name(),
        declaration,
    }
    .into()
}

#[cold]
fn underflow(op: OperatorHandle, want: usize, have: usize) -> crate::Error {
    DispatchError::StackUnderflow { op: op.name().to_string(), want, have }.into()
}

/// Whether the stack holds as many arguments as the operator takes, with tensors where tensors
/// belong: what the choice of a kernel depends on.
pub(super) fn check_tensors(
    op: OperatorHandle,
    schema: &FunctionSchema,
    stack: &[Value],
) -> Result<()> {
    let want = schema.args.len();
    let Some(base) = stack.len().checked_sub(want) else {
        return Err(underflow(op, want, stack.len()));
    };
    for (i, (arg, value)) in schema.args.iter().zip(&stack[base..]).enumerate() {
        if arg.ty == SchemaType::Tensor && !matches!(value, Value::Tensor(_) | Value::None) {
            return Err(bad_argument(op, i, arg.ty.clone(), value));
        }
    }
    Ok(())
}

macro_rules! arity {
    ($count:literal $($A:ident $a:ident),*) => {
        impl<$($A: Arg),*> super::arg::sealed::Sealed for ($($A,)*) {}

        impl<$($A: Arg),*> Args for ($($A,)*) {
            type Items<'a> = ($($A::Item<'a>,)*);
            const COUNT: usize = $count;

            fn types() -> Vec<SchemaType> {
                vec![$($A::ty()),*]
            }

            #[inline(always)]
            fn keys(items: &Self::Items<'_>) -> DispatchKeySet {
                let ($($a,)*) = items;
                DispatchKeySet::EMPTY $(| $A::keys($a))*
            }

            fn push(items: Self::Items<'_>, stack: &mut Stack) {
                let ($($a,)*) = items;
                stack.reserve($count);
                $(stack.push($A::to_value($a));)*
            }

            #[allow(unused_mut, unused_variables)]
            fn coerce(values: &mut [Value]) {
                let mut slots = values.iter_mut();
                $(slots.next().map(<$A as Arg>::coerce);)*
            }

            #[allow(unused_mut, unused_variables, unused_assignments)]
            fn unbox(
                values: &[Value],
            ) -> std::result::Result<Self::Items<'_>, (usize, SchemaType)> {
                let mut i = 0;
                $(
                    let Some($a) = values.get(i).and_then(<$A as Arg>::unbox) else {
                        return Err((i, $A::ty()));
                    };
                    i += 1;
                )*
                Ok(($($a,)*))
            }

            #[inline(always)]
            #[allow(unused_mut, unused_variables, unused_assignments)]
            fn tensors<'a>(items: Self::Items<'a>, each: &mut impl FnMut(usize, &'a Tensor)) {
                let mut i = 0;
                let ($($a,)*) = items;
                $(
                    <$A as Arg>::tensors($a, &mut |t| each(i, t));
                    i += 1;
                )*
            }

            #[allow(unused_mut, unused_variables, unused_assignments)]
            fn value(items: Self::Items<'_>, at: usize) -> Value {
                let mut i = 0;
                let ($($a,)*) = items;
                $(
                    if i == at {
                        return <$A as Arg>::to_value($a);
                    }
                    i += 1;
                )*
                Value::None
            }

            fn around<R: Ret, Outer: Around>() -> Erased
            where
                Self: 'static,
            {
                #[allow(clippy::too_many_arguments, clippy::extra_unused_lifetimes)]
                unsafe fn trampoline<'a, R: Ret, Outer: Around, $($A: Arg + 'static),*>(
                    functor: *const (),
                    keys: DispatchKeySet,
                    $($a: $A::Item<'a>),*
                ) -> Result<R> {
                    // SAFETY: `Args::invoke` is only given the functor that this trampoline was
                    // made with, which is a live `Wrapped<Outer>`.
                    let wrapped = unsafe { &*functor.cast::<Wrapped<Outer>>() };
                    wrapped.run::<($($A,)*), R>(keys, ($($a,)*))
                }

                let f: unsafe fn(*const (), DispatchKeySet, $(<$A as Arg>::Item<'static>),*) -> Result<R> =
                    trampoline::<R, Outer, $($A),*>;
                // SAFETY: only `Args::invoke` calls it, after turning it back.
                unsafe {
                    std::mem::transmute::<
                        unsafe fn(*const (), DispatchKeySet, $(<$A as Arg>::Item<'static>),*) -> Result<R>,
                        Erased,
                    >(f)
                }
            }

            fn whole<R: Ret>() -> Erased {
                #[allow(clippy::too_many_arguments, clippy::extra_unused_lifetimes)]
                unsafe fn trampoline<'a, R: Ret, $($A: Arg),*>(
                    functor: *const (),
                    keys: DispatchKeySet,
                    $($a: $A::Item<'a>),*
                ) -> Result<R> {
                    // SAFETY: `Args::invoke` is only given the functor that this trampoline was
                    // made with, which is a live `Whole`.
                    let whole = unsafe { &*functor.cast::<Whole>() };
                    // SAFETY: `whole` was made of a trampoline of these types.
                    unsafe { whole.run::<($($A,)*), R>(keys, ($($a,)*)) }
                }

                let f: unsafe fn(*const (), DispatchKeySet, $(<$A as Arg>::Item<'static>),*) -> Result<R> =
                    trampoline::<R, $($A),*>;
                // SAFETY: only `Args::invoke` calls it, after turning it back.
                unsafe {
                    std::mem::transmute::<
                        unsafe fn(*const (), DispatchKeySet, $(<$A as Arg>::Item<'static>),*) -> Result<R>,
                        Erased,
                    >(f)
                }
            }

            #[inline(always)]
            unsafe fn invoke<R>(
                f: Erased,
                functor: *const (),
                keys: DispatchKeySet,
                items: Self::Items<'_>,
            ) -> Result<R> {
                type Trampoline<'a, R, $($A),*> =
                    unsafe fn(*const (), DispatchKeySet, $(<$A as Arg>::Item<'a>),*) -> Result<R>;
                // SAFETY: the caller says that `f` is a trampoline of this type; lifetimes do not
                // change how a function is called.
                let f = unsafe { std::mem::transmute::<Erased, Trampoline<'_, R, $($A),*>>(f) };
                let ($($a,)*) = items;
                // SAFETY: `functor` is the one that `f` was made with.
                unsafe { f(functor, keys, $($a),*) }
            }
        }

        arity!(@kernel $count, fn($($A),*) -> R, (), keys_unused, $($A $a),*);
        arity!(@kernel $count, WithKeySet<fn($($A),*) -> R>, (DispatchKeySet,), keys, $($A $a),*);
    };

    (@kernel $count:literal, $marker:ty, ($($K:ty,)?), $keys:ident, $($A:ident $a:ident),*) => {
        impl<Func, R: Ret, $($A: Arg + 'static),*> IntoKernel<$marker> for Func
        where
            // The first bound lets inference find the argument types, the second says that the
            // function takes them with any lifetime.
            Func: Fn($($K,)? $($A),*) -> Result<R>
                + for<'a> Fn($($K,)? $($A::Item<'a>),*) -> Result<R>
                + Send
                + Sync
                + 'static,
        {
            fn into_kernel(self) -> Kernel {
                // names one of the two `Fn` bounds
                #[inline(always)]
                #[allow(clippy::too_many_arguments)]
                fn run<R, $($A),*>(
                    f: &impl Fn($($K,)? $($A),*) -> Result<R>,
                    _keys: DispatchKeySet,
                    $($a: $A),*
                ) -> Result<R> {
                    f($(<$K>::from(_keys),)? $($a),*)
                }

                #[allow(clippy::too_many_arguments, clippy::extra_unused_lifetimes)]
                unsafe fn trampoline<'a, Func, R: Ret, $($A: Arg),*>(
                    functor: *const (),
                    keys: DispatchKeySet,
                    $($a: $A::Item<'a>),*
                ) -> Result<R>
                where
                    Func: Fn($($K,)? $($A::Item<'a>),*) -> Result<R>,
                {
                    // SAFETY: `Args::invoke` is only given the functor that this trampoline was
                    // made with, which is a live `Func`.
                    let f = unsafe { &*functor.cast::<Func>() };
                    run::<R, $($A::Item<'a>),*>(f, keys, $($a),*)
                }

                let f: unsafe fn(*const (), DispatchKeySet, $($A::Item<'static>),*) -> Result<R> =
                    trampoline::<Func, R, $($A),*>;
                // SAFETY: a trampoline of these types that reads a `Func`; only `Args::invoke`
                // calls it, after turning it back.
                unsafe {
                    let f = std::mem::transmute::<
                        unsafe fn(*const (), DispatchKeySet, $($A::Item<'static>),*) -> Result<R>,
                        Erased,
                    >(f);
                    Kernel::typed::<($($A,)*), R>(f, Box::new(self))
                }
            }
        }
    };
}

arity!(0);
arity!(1 A a);
arity!(2 A a, B b);
arity!(3 A a, B b, C c);
arity!(4 A a, B b, C c, D d);
arity!(5 A a, B b, C c, D d, E e);
arity!(6 A a, B b, C c, D d, E e, F f_);
arity!(7 A a, B b, C c, D d, E e, F f_, G g);
arity!(8 A a, B b, C c, D d, E e, F f_, G g, H h);
arity!(9 A a, B b, C c, D d, E e, F f_, G g, H h, I i_);
arity!(10 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j);
arity!(11 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k);
arity!(12 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l);
arity!(13 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m);
arity!(14 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n);
arity!(15 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o);
arity!(16 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p);
arity!(17 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q);
arity!(18 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q, S s);
arity!(19 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q, S s, T t);
arity!(20 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q, S s, T t, U u);
arity!(21 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q, S s, T t, U u, V v);
arity!(22 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q, S s, T t, U u, V v, W w);
arity!(23 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q, S s, T t, U u, V v, W w, X x);
arity!(30 A a, B b, C c, D d, E e, F f_, G g, H h, I i_, J j, K k, L l, M m, N n, O o, P p, Q q, S s, T t, U u, V v, W w, X x, Y y, Z z, AA aa, BB bb, CC cc, DD dd, EE ee);
