//! `compile()`: capture a function once, replay it as machine code.
//!
//! | file | what |
//! |---|---|
//! | `tree` | what compiled functions take and give |
//! | `arguments` | functions of several arguments, and what they are called with |
//! | `flat` | looking through wrapper tensors |
//! | `functionalized` | `functionalize()`: the graph's calls, one after another |
//! | `function` | `compile()`, and what it guarantees |
//! | `compiled` | the callable |
//! | `inner` | what a compiled function has: the function, variants, events |
//! | `serve` | how a call is served: by a variant, by making one, eagerly |
//! | `make` | making a variant, or one of the rest of a function: capture, compile |
//! | `dependent` | functions in parts, at calls whose results have sizes that depend on data |
//! | `variants` | the list of what serves which calls |
//! | `external` | calls with memory of others: addresses in place of tensors |
//! | `dynamic` | dimensions that are marked as varying |
//! | `capture` | running the function on stand-ins and recording what is dispatched |
//! | `devices` | which device a function runs on; refuses functions on several |
//! | `results` | what the results alias: arguments, closed-over tensors, each other |
//! | `interpret` | making a graph's calls through the dispatcher |
//! | `settle` | tensors that an abandoned capture has left in outside state |
//! | `guards` | what must be true of a call for a variant to serve it |
//! | `surroundings` | guards on closed-over tensors, on what the function asked, on registrations |
//! | `tape` | gradients of captured functions: what becomes of `.grad`, the joint graph |
//! | `training` | functions whose results want gradients: two plans, and a node of the tape |
//! | `stages` | `Traced`, `Lowered`, `Executable`: each stage as an object that prints |
//! | `code` | machine code of the CPU, or programs of a GPU: running either |
//! | `delivery` | which of the plan's buffers are the results, worked out once |
//! | `replay` | calling the plan: borrows, outputs, copy-back |
//! | `failure` | what an error of a replay says |
//! | `bodies` | the graphs that calls of higher order are given, as plans |
//! | `externs` | operators without a loop form, called without the dispatcher |
//! | `on_gpu` | the same of a GPU, and the graphs that calls of higher order are given there |
//! | `options` | options and events |
//! | `explain/` | reports how a function was compiled, and why: data, text, a page with the graph |

mod arguments;
mod bodies;
mod capture;
mod code;
mod compiled;
mod delivery;
mod dependent;
mod devices;
mod dynamic;
pub mod explain;
mod external;
mod externs;
mod failure;
mod flat;
mod function;
mod functionalized;
mod guards;
mod inner;
pub(crate) mod interpret;
mod make;
#[cfg(feature = "cuda")]
mod on_gpu;
pub(crate) mod opcheck;
mod options;
mod replay;
mod results;
mod serve;
mod settle;
mod stages;
mod surroundings;
mod tape;
#[cfg(test)]
mod tests;
mod traced;
mod training;
mod tree;
mod turn;
mod variants;

pub use arguments::{Arguments, TensorFunction};
pub use compiled::Compiled;
pub use dynamic::mark_dynamic;
pub use explain::Explanation;
pub use external::{ExternalInput, RowElement};
pub use function::{compile, compile_with};
pub use functionalized::{Functionalized, functionalize};
pub use guards::GuardMiss;
pub use options::{CompileEvent, CompileOptions, DynamicSizes};
pub use stages::{Executable, Lowered};
pub use traced::Traced;
pub use tree::TensorTree;
