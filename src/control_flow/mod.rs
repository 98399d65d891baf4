//! Branches and loops over tensors that a compiled function keeps: [`cond`], [`while_loop`], [`scan`] and
//! [`map`] (`torch.cond` and `torch._higher_order_ops`).
//!
//! Rust's own `if` and `for` are decided while a function is captured, so a branch on a tensor's data ends
//! the capture with an error that names the line. These functions are given both branches, or the body of
//! a loop, as functions. Eagerly they call them. While a function is captured they capture each as a
//! graph of its own, and the call becomes one call of the outer graph, which is given these graphs.
//!
//! ```
//! use straightline::control_flow::while_loop;
//! use straightline::{Tensor, compile, tensor};
//! // halves until the sum is at most 1
//! let f = compile(|x: &Tensor| while_loop(|x| x.sum()?.gt(1.0), |x| x.div(2.0), x));
//! assert_eq!(f.call(&tensor([3.0, 5.0])?)?.to_vec::<f32>()?, [0.375, 0.625]);
//! assert_eq!(f.call(&tensor([0.5, 0.25])?)?.to_vec::<f32>()?, [0.5, 0.25]);
//! assert!(f.trace(&tensor([3.0, 5.0])?)?.graph().to_string().contains("higher_order::while_loop"));
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! | file | what |
//! |---|---|
//! | `cond`, `loops` | the functions |
//! | `function` | calls of the functions that they are given, and what these may return |
//! | `call` | the calls as they are captured, and their nodes of the tape |
//! | `gradient` | the gradient of a graph |

mod call;
mod cond;
mod error;
mod function;
mod gradient;
mod loops;

pub use cond::{Predicate, cond};
pub use error::ControlFlowError;
pub use loops::{map, scan, while_loop};
