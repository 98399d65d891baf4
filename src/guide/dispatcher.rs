//! The dispatcher.
//!
//! Every operator call goes through the dispatcher, which decides which kernel runs. Its semantics
//! are those of c10, the dispatcher of PyTorch.
//!
//! # A call
//!
//! Each tensor carries a set of *dispatch keys*: its backend (`CPU`, `Meta`, `PrivateUse1` ...) and
//! the features that want to see calls on it (autograd, autocast, tracing ...). The thread adds and
//! removes keys of its own. The dispatcher takes the union over the arguments, picks the highest
//! key and calls the kernel in that slot of the operator's table. A feature's kernel does its work
//! and *redispatches* below itself; eventually a backend's kernel computes.
//!
//! [`capture`](crate::dispatch::capture) records what the dispatcher does:
//!
//! ```
//! use straightline::dispatch::{call_count, capture};
//! use straightline::tensor;
//!
//! let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
//! let before = call_count();
//! let (y, lines) = capture(|| x.linear(&x, None));
//! assert_eq!(y?.sizes(), [2, 2]);
//! // `linear` is a composite: it calls other operators, which are dispatched in turn
//! assert!(lines.iter().any(|l| l.contains("aten::linear")));
//! assert!(lines.iter().any(|l| l.contains("aten::mm") || l.contains("aten::matmul")));
//! assert!(call_count() - before >= 2);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Tables
//!
//! Fixed rules of precedence decide which registration fills a slot: a kernel for the
//! key itself comes first, then composites, then the key's fallback.
//! [`dump_table`](crate::dispatch::dump_table) prints the result with the reason for each slot, as
//! `straightline ops aten::erf --table` does.
//!
//! ```
//! use straightline::dispatch::{dump_table, operator};
//!
//! let op = operator("aten::erf")?;
//! assert_eq!(op.schema().unwrap().to_string(), "aten::erf(Tensor self) -> Tensor");
//! assert!(dump_table(op).lines().any(|l| l.contains("CPU")));
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Registering
//!
//! A [`Library`](crate::dispatch::Library) is the way in, for this crate's operators as well as
//! for yours. It defines operators, registers kernels at keys, and removes all of it when it is
//! dropped. Here an operator of PyTorch's gets another kernel for as long as the library lives:
//!
//! ```
//! use straightline::dispatch::{DispatchKey, Library};
//! use straightline::{Result, Tensor, tensor};
//!
//! fn leaky(x: &Tensor) -> Result<Tensor> {
//!     x.maximum(&x.mul(0.5)?)
//! }
//!
//! let x = tensor([-2.0, 4.0])?;
//! {
//!     let mut library = Library::implementation("aten", DispatchKey::CPU)?;
//!     library.impl_("relu", leaky)?;
//!     assert_eq!(x.relu()?.to_vec::<f32>()?, [-1.0, 4.0]);
//! }
//! assert_eq!(x.relu()?.to_vec::<f32>()?, [0.0, 4.0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! A kernel whose Rust types do not fit the operator's schema is refused at registration, with both
//! signatures in the message.
//!
//! # Intercepting
//!
//! Three tools see calls, from the least to the most intrusive:
//!
//! - an [`Observer`](crate::dispatch::Observer) is told about calls and changes nothing, such as
//!   a profiler;
//! - a [`DispatchMode`](crate::modes::DispatchMode) handles every call of a thread while it is
//!   pushed;
//! - a [`TensorSubclass`](crate::modes::TensorSubclass) handles the calls that meet a tensor of its
//!   kind.
//!
//! A mode that halves the sum of everything:
//!
//! ```
//! use straightline::modes::{Call, DispatchMode, Outcome, push_mode};
//! use straightline::{Result, tensor};
//!
//! struct Half;
//! impl DispatchMode for Half {
//!     fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
//!         let sum = call.is("aten::sum");
//!         let result = call.forward()?;
//!         if sum {
//!             for value in &result {
//!                 for t in value.tensors() {
//!                     t.div_(2.0)?;
//!                 }
//!             }
//!         }
//!         Ok(result.into())
//!     }
//! }
//!
//! let x = tensor([1.0, 2.0, 3.0])?;
//! let guard = push_mode(Half);
//! assert_eq!(x.sum()?.item::<f32>()?, 3.0);
//! drop(guard);
//! assert_eq!(x.sum()?.item::<f32>()?, 6.0);
//! # Ok::<(), straightline::Error>(())
//! ```
