//! `library!`, `library_fragment!` and `library_impl!`: TORCH_LIBRARY and its siblings.
//!
//! Each macro has two forms. As an expression it registers now and returns a [`Library`]; dropping
//! that takes the registrations back. With the word `static` it is an item, and registers for the
//! life of the process when the dispatcher starts, which is at the first operator call, look-up or
//! registration of the process: the operators of a linked crate are available without a call, as
//! those of a TORCH_LIBRARY are. Rust runs nothing before `main`, so the blocks are collected by
//! the linker (crate `inventory`) and run by the dispatcher.
//!
//! A static block that fails has no caller to return its error to. It is logged and kept: looking
//! up an operator of its namespace that is not there, or calling one that lacks a kernel, says what
//! failed ([`DispatchError::StaticRegistration`]); [`registration_errors`] lists them all, and
//! [`init`] starts the dispatcher and returns the first.

use super::dispatcher::dispatcher;
use super::error::{DispatchError, Site};
use super::library::Library;
use crate::error::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use straightline_catalog::key::DispatchKey;

pub use inventory;

/// Definitions run first, then fragments, then kernels; within one kind in the order of the source.
/// Otherwise the linker's order would decide which of two kernels for one key is the newer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// `library!`
    Definition,
    /// `library_fragment!`
    Fragment,
    /// `library_impl!`
    Implementation,
}

/// A block of registrations that waits for the dispatcher to start.
#[derive(Debug)]
pub struct StaticLibrary {
    order: Order,
    namespace: &'static str,
    site: Site,
    run: fn() -> Result<Library>,
}

impl StaticLibrary {
    /// A block, with the place it was written at.
    pub const fn new(
        order: Order,
        namespace: &'static str,
        file: &'static str,
        line: u32,
        run: fn() -> Result<Library>,
    ) -> StaticLibrary {
        StaticLibrary { order, namespace, site: Site { file, line }, run }
    }
}

inventory::collect!(StaticLibrary);

static FAILED: Mutex<Vec<DispatchError>> = Mutex::new(Vec::new());

fn failed() -> MutexGuard<'static, Vec<DispatchError>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the static blocks; called once, by the dispatcher as it starts.
pub(super) fn run_static_libraries() {
    let mut blocks: Vec<&StaticLibrary> = inventory::iter::<StaticLibrary>.into_iter().collect();
    blocks.sort_by_key(|b| (b.order, b.site.file, b.site.line));
    for block in blocks {
        // a panic would poison the dispatcher of the whole process
        let reason = match catch_unwind(AssertUnwindSafe(block.run)) {
            Ok(Ok(library)) => {
                library.leak();
                continue;
            }
            Ok(Err(e)) => e.to_string(),
            Err(panic) => {
                format!("it panicked: {}", straightline_runtime::panic_text(&*panic))
            }
        };
        let error = DispatchError::StaticRegistration {
            namespace: block.namespace.to_string(),
            site: block.site,
            reason,
        };
        tracing::error!("{error}");
        failed().push(error);
    }
}

/// The static blocks of a namespace that failed, fallbacks of all namespaces included.
pub(super) fn failures(namespace: Option<&str>) -> Vec<DispatchError> {
    failed()
        .iter()
        .filter(|e| {
            matches!(e, DispatchError::StaticRegistration { namespace: n, .. }
                if n == "_" || Some(n.as_str()) == namespace)
        })
        .cloned()
        .collect()
}

/// The errors of the static blocks of this process; empty when all is well.
///
/// ```
/// assert!(straightline::dispatch::registration_errors().is_empty());
/// ```
pub fn registration_errors() -> Vec<DispatchError> {
    dispatcher();
    failed().clone()
}

/// Starts the dispatcher: registers the operators of the crate and every static block
/// (`library!(static ..)`). It starts by itself at the first use; call this to choose when the time
/// is spent and when failures are reported.
///
/// # Errors
///
/// A static block failed; the first one's [`DispatchError::StaticRegistration`].
///
/// ```
/// straightline::dispatch::init()?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn init() -> Result<()> {
    match registration_errors().into_iter().next() {
        Some(e) => Err(e.into()),
        None => Ok(()),
    }
}

/// Fills a block; what it registered before an error is taken back as it is dropped.
fn filled(
    library: Result<Library>,
    fill: impl FnOnce(&mut Library) -> Result<()>,
) -> Result<Library> {
    let mut library = library?;
    fill(&mut library)?;
    Ok(library)
}

/// What [`library!`](crate::library!) does.
#[track_caller]
pub fn definition(
    namespace: &str,
    fill: impl FnOnce(&mut Library) -> Result<()>,
) -> Result<Library> {
    filled(Library::new(namespace), fill)
}

/// What [`library_fragment!`](crate::library_fragment!) does.
pub fn fragment(namespace: &str, fill: impl FnOnce(&mut Library) -> Result<()>) -> Result<Library> {
    filled(Library::fragment(namespace), fill)
}

/// What [`library_impl!`](crate::library_impl!) does.
pub fn implementation(
    namespace: &str,
    key: DispatchKey,
    fill: impl FnOnce(&mut Library) -> Result<()>,
) -> Result<Library> {
    filled(Library::implementation(namespace, key), fill)
}

/// Defines the operators of a namespace: TORCH_LIBRARY. There is one such block for each namespace.
///
/// ```
/// use straightline::dispatch::operator;
/// use straightline::{Tensor, library, library_impl};
///
/// fn add_scaled_cpu(a: &Tensor, b: &Tensor, s: f64) -> straightline::Result<Tensor> {
///     Ok((a + b) * s)
/// }
///
/// let defined = library!(myops, |m| {
///     m.def("add_scaled(Tensor a, Tensor b, float s) -> Tensor")?;
///     Ok(())
/// })?;
/// let implemented = library_impl!(myops, CPU, |m| {
///     m.impl_("add_scaled", add_scaled_cpu)?;
///     Ok(())
/// })?;
///
/// let (a, b) = (Tensor::from_vec([1f32, 2.0], 2)?, Tensor::from_vec([10f32, 20.0], 2)?);
/// let add_scaled = operator("myops::add_scaled")?.typed::<(&Tensor, &Tensor, f64), Tensor>()?;
/// assert_eq!(add_scaled.call((&a, &b, 0.5))?.to_vec::<f32>()?, [5.5, 11.0]);
///
/// // the blocks own what they registered
/// drop(implemented);
/// assert!(add_scaled.call((&a, &b, 0.5)).is_err());
/// drop(defined);
/// assert!(operator("myops::add_scaled").is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// With `static` it is an item, the closure captures nothing, and the operators are there from the
/// start of the dispatcher on, also where the block is in a crate that is only linked in. See
/// [`dispatch::registration_errors`](crate::dispatch::registration_errors) for what happens when
/// one fails.
///
/// ```
/// use straightline::dispatch::operator;
/// use straightline::{Tensor, library, library_impl};
///
/// library!(static greetings, |m| {
///     m.def("count(Tensor x) -> int")?;
///     Ok(())
/// });
/// library_impl!(static greetings, CPU, |m| {
///     m.impl_("count", |x: &Tensor| Ok(x.numel()))?;
///     Ok(())
/// });
///
/// let mut stack = vec![Tensor::from_vec([1f32, 2.0], 2)?.into()];
/// operator("greetings::count")?.call_boxed(&mut stack)?;
/// assert_eq!(format!("{stack:?}"), "[Int(2)]");
/// # Ok::<(), straightline::Error>(())
/// ```
#[macro_export]
macro_rules! library {
    (static $namespace:ident, $fill:expr $(,)?) => {
        $crate::static_library!(Definition, $namespace, $crate::library!($namespace, $fill));
    };
    ($namespace:ident, $fill:expr $(,)?) => {
        $crate::dispatch::macros::definition(stringify!($namespace), $fill)
    };
}

/// Defines more operators of a namespace: TORCH_LIBRARY_FRAGMENT. There may be many such blocks.
///
/// ```
/// use straightline::{Tensor, library_fragment};
/// let more = library_fragment!(docs_more, |m| {
///     // schema and kernel at once; the kernel serves all backends
///     m.def_with("half(Tensor x) -> Tensor", |x: &Tensor| x.div(2.0))?;
///     Ok(())
/// })?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[macro_export]
macro_rules! library_fragment {
    (static $namespace:ident, $fill:expr $(,)?) => {
        $crate::static_library!(Fragment, $namespace, $crate::library_fragment!($namespace, $fill));
    };
    ($namespace:ident, $fill:expr $(,)?) => {
        $crate::dispatch::macros::fragment(stringify!($namespace), $fill)
    };
}

/// Registers kernels of one namespace at one dispatch key: TORCH_LIBRARY_IMPL. Namespace `_` is for
/// the fallback of a key, which serves every operator.
///
/// ```
/// use straightline::dispatch::{DispatchKey, DispatchKeySet, Kernel};
/// use straightline::{Tensor, library_impl};
///
/// // what is called while this thread includes the key is counted, and passed on
/// let quiet = library_impl!(_, TESTING_ONLY_GenericMode, |m| {
///     m.fallback(Kernel::boxed(|op, keys, stack| {
///         let below = DispatchKeySet::full_after(DispatchKey::TESTING_ONLY_GenericMode);
///         op.redispatch_boxed(keys & below, stack)
///     }))?;
///     Ok(())
/// })?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[macro_export]
macro_rules! library_impl {
    (static _, $key:ident, $fill:expr $(,)?) => {
        $crate::static_library!(Implementation, _, $crate::library_impl!(_, $key, $fill));
    };
    (static $namespace:ident, $key:ident, $fill:expr $(,)?) => {
        $crate::static_library!(
            Implementation,
            $namespace,
            $crate::library_impl!($namespace, $key, $fill)
        );
    };
    (_, $key:ident, $fill:expr $(,)?) => {
        $crate::dispatch::macros::implementation("_", $crate::dispatch::DispatchKey::$key, $fill)
    };
    ($namespace:ident, $key:ident, $fill:expr $(,)?) => {
        $crate::dispatch::macros::implementation(
            stringify!($namespace),
            $crate::dispatch::DispatchKey::$key,
            $fill,
        )
    };
}

/// Hands a block to the dispatcher's start.
#[doc(hidden)]
#[macro_export]
macro_rules! static_library {
    ($order:ident, $namespace:tt, $run:expr) => {
        const _: () = {
            $crate::dispatch::macros::inventory::submit! {
                $crate::dispatch::macros::StaticLibrary::new(
                    $crate::dispatch::macros::Order::$order,
                    stringify!($namespace),
                    file!(),
                    line!(),
                    || $run,
                )
            }
        };
    };
}
