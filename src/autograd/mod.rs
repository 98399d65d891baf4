//! Gradients: what calls of operators leave for a backward pass, the pass, and the formulas that it
//! runs.
//!
//! A call with an operand that wants a gradient goes through an autograd kernel. It keeps what the
//! operator's formulas need in a *node*, whose edges lead to the nodes of the operands; the result
//! holds the node. [`Tensor::backward`](crate::Tensor::backward) walks from there to the leaves. Calls without such an
//! operand do not come here at all.
//!
//! | file | what |
//! |---|---|
//! | `rule`, `rules` | what the catalogue says of an operator (`derivatives.yaml`); generated |
//! | `formulas` | what formulas call |
//! | `record` | the autograd kernel of all operators that have a rule |
//! | `register` | which operator gets which kernel |
//! | `by_hand` | operators whose gradients are no formulas: `copy_`, `detach_` ... |
//! | `outside` | operators of other libraries, with a formula of their own or without |
//! | `graph`, `leaf`, `view` | the history of a tensor; leaves; where a gradient goes, views and writes through them |
//! | `saved` | what nodes keep |
//! | `engine`, `validate`, `backward` | the backward pass, whether gradients fit, and the functions that make a pass |
//! | `batches` | what gradients and tangents ask of the transforms, which fill it in |
//! | `grad_fn`, `edge`, `methods` | nodes, places in the graph, and tensors, as users see them |
//! | `forward` | tangents: forward mode |
//! | `captured` | what `compile()` asks of the tape, and the node that a compiled call adds to it |
//! | `hooks`, `multi_hook`, `callbacks`, `mode`, `anomaly`, `checkpoint`, `function`, `context` | what users put in between |
//! | `gradcheck` | gradients against differences |
//!
//! From PyTorch come the rules (`reference` in the tests), from Enzyme and JAX nothing but the
//! habit of testing each formula against differences.

mod anomaly;
mod backward;
mod batches;
mod by_hand;
mod callbacks;
pub(crate) mod captured;
mod checkpoint;
mod context;
mod edge;
mod engine;
mod error;
pub(crate) mod formulas;
mod forward;
mod function;
mod grad_fn;
mod gradcheck;
mod graph;
mod hooks;
mod leaf;
mod methods;
mod mode;
mod multi_hook;
mod outside;
mod record;
mod register;
pub(crate) mod rule;
pub(crate) mod rules;
mod saved;
#[cfg(test)]
mod tests;
mod validate;
mod view;

pub use anomaly::{AnomalyGuard, detect_anomaly};
pub use backward::{BackwardOptions, GradOptions, backward, grad, grad_with};
pub(crate) use batches::{Batches, PassOf, set_batches};
pub use callbacks::queue_callback;
pub use checkpoint::checkpoint;
pub use edge::{GradTarget, GradientEdge, get_gradient_edge};
pub use error::{AutogradError, Made};
/// Dual tensors: forward-mode differentiation, under PyTorch's names.
pub mod forward_ad {
    pub use super::forward::{DualLevel, Unpacked, dual_level, make_dual, unpack_dual};
}
pub use context::{Context, Randomness, VmapInfo, VmapRule};
pub(crate) use forward::{Carrying, enter_jvp, leave_jvp, make_variable, tangent_of};
pub(crate) use function::recorded;
pub(crate) use function::{Above, Applied, Custom, Transformed, set_in_layer};
pub use function::{Function, Outputs};
pub use grad_fn::{GradFn, live_nodes};
pub use gradcheck::{Gradcheck, gradcheck, gradgradcheck};
pub use hooks::{HookHandle, saved_tensors_hooks};
pub(crate) use mode::Recorded;
pub use mode::{
    GradGuard, enable_grad, inference_mode, is_grad_enabled, is_inference_mode, no_grad,
};
pub use multi_hook::{register_any_grad_hook, register_multi_grad_hook};
pub(crate) use register::register;

pub(crate) use validate::fitted;

pub(crate) use crate::dispatch::grad_enabled;
