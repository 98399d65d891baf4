//! The dispatcher: which kernel runs for a call, and in which order the features around it see it.
//!
//! Each call collects the dispatch keys of its tensor arguments and of the thread, takes the
//! highest one, and calls the kernel in that slot of the operator's table. A feature such as
//! autograd or tracing is a kernel at its own key that does its work and redispatches below itself.
//!
//! | file | what |
//! |---|---|
//! | `key`, `alias`, `keyset` | dispatch keys, what alias keys stand for, sets of keys |
//! | `value`, `arg` | boxed values; which Rust type stands for which schema type |
//! | `kernel` | typed functions stored erased, and boxed functions |
//! | `table` | the precedence rules: which kernel fills a slot |
//! | `slots` | the cells and masks that calls read while registrations change them |
//! | `operator` | an operator's table and the handles to call it |
//! | `dispatcher` | the registry of operators and fallbacks |
//! | `library` | the way in: definitions and kernels, taken back on drop |
//! | `macros` | `library!` and its siblings: blocks of registrations, also ones that are there from the start |
//! | `custom_op`, `opcheck` | an operator with everything that belongs to it, registered in one go; whether it does what it declares |
//! | `whole` | kernels of several kernels, which hold their operands from the first to the last |
//! | `listener` | being told of definitions |
//! | `tls`, `trace` | the thread's key sets and its trace |
//! | `record` | observers of calls: what a profiler registers |
//! | `backend`, `cpu_fallback` | names of backends from outside; the operators they lack |
//! | `dump` | registrations and tables as text |
//! | `builtin` | what this crate registers for itself |
//!
//! The semantics are those of c10 in PyTorch 2.15, with one deliberate difference: a table is
//! always recomputed in full, where c10's incremental update can leave stale slots.

mod arg;
pub(crate) mod around;
mod backend;
mod builtin;
mod custom_op;
mod dispatcher;
mod dump;
mod error;
mod kernel;
mod library;
mod listener;
#[doc(hidden)]
pub mod macros;
pub(crate) mod meta;
mod object;
mod operator;
mod record;
mod recursion;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod trace;
pub(crate) mod unread;
mod value;
pub(crate) mod watcher;
mod whole;
mod wrapped_views;

#[cfg(feature = "compile")]
pub use crate::compile::opcheck::{CheckFailure, OpCheckReport, opcheck};
pub use crate::ops::cpu_fallback::{ViewFallback, call_on_cpu, cpu_fallback, cpu_fallback_with};
pub use arg::{Arg, Ret, RetValue};
pub use backend::{RenameBackendError, rename_backend};
pub(crate) use custom_op::set_recorder;
pub use custom_op::{
    AutogradFormula, CustomOp, CustomOpBuilder, CustomOpError, OpContext, custom_op,
};
pub use dispatcher::{
    all_operators, dangling_impls, default_overload, find, find_schema, operator,
};
pub(crate) use dispatcher::{
    ensure_built_in, fallback_epochs, generation, handle_of, overloads, plans_look_again,
};
pub use dump::{dump, dump_registrations, dump_table};
pub use error::{DispatchError, MissingKernel, Site};
pub use kernel::{Args, IntoKernel, Kernel, WithKeySet};
pub use library::Library;
pub use listener::{ListenerGuard, RegistrationEvent, on_registered};
pub use macros::{init, registration_errors};
pub use object::{Object, ScriptClass};
pub(crate) use operator::not_found;
pub use operator::{OperatorHandle, TypedHandle, TypedOp};
pub(crate) use record::record_lazily;
pub use record::{
    DisableRecordGuard, GlobalObserver, Observer, RecordFunction, RecordGuard, RecordScope,
    ThreadObserver, record_function, record_scope, thread_id,
};
pub(crate) use recursion::check_captured;
/// The schema language: [`FunctionSchema`](schema::FunctionSchema) is what a schema string says.
pub use straightline_catalog::schema;
pub use straightline_catalog::{BackendComponent, DispatchKey, ParseKeyError};
pub use straightline_catalog::{DispatchKeySet, NUM_RUNTIME_ENTRIES};
pub use straightline_catalog::{Effects, similar_operators};
pub use table::{Provenance, rule_for};
pub(crate) use tls::{
    AboveAutograd, BelowAutograd, LinePin, Lines, SourceScope, count_levels, forward_enabled,
    grad_enabled, line, set_forward_enabled, set_grad_enabled, source_line,
};
pub use tls::{ExcludeGuard, ForceKeySetGuard, IncludeGuard, TlsKeySets, call_count, set_excluded};
pub use trace::{TRACE_VARIABLE, TraceGuard, capture};
pub use value::{Stack, Value};
pub(crate) use whole::hold_arguments;
pub(crate) use wrapped_views::is_reshape;
pub use wrapped_views::wrapped_views;
