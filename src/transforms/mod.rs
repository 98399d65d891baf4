//! Functions of functions: derivatives and batches of a function of tensors, in any order.
//!
//! | | |
//! |---|---|
//! | [`grad`], [`grad_and_value`], [`grad_with_aux`] | the gradient of a function whose result is a number |
//! | [`vjp`], [`vjp_with_aux`] | a function's result, and what gives gradients for a cotangent |
//! | [`jvp`], [`jvp_with`], [`jvp_with_aux`] | a function's result and its directional derivative, in one run |
//! | [`linearize`] | its result, and what gives directional derivatives without running it again |
//! | [`jacrev`], [`jacfwd`], [`hessian`] | matrices of derivatives; [`jacrev_with`], [`jacfwd_with`] in chunks or with random numbers |
//! | [`vmap`], [`vmap_with`] | a function of one sample as a function of a batch |
//! | [`functional_call`](crate::func::functional_call), [`stack_parameters`] | functions of parameters |
//!
//! A transform runs the function once, on wrapped tensors. While it runs it is a *layer* of the
//! thread, and the innermost layer sees each operator call first: a `vmap` computes the batch at
//! once by a rule of the operator, a `grad` records the call, a `jvp` carries tangents on, and both call
//! the operator again for the layer below. So transforms nest, tensors from outside are constants to the inner ones and
//! variables to the outer ones, and below all layers a call is an ordinary one, which autograd may
//! record and [`compile()`](crate::compile()) may capture.
//!
//! ```
//! use straightline::{Tensor, func::{grad, vmap}, tensor};
//! let cube = |x: &Tensor| x.mul(x)?.mul(x);
//! let second = grad(grad(cube));
//! assert_eq!(second(&tensor(2.0)?)?.item::<f32>()?, 12.0);
//! assert_eq!(vmap(second)(&tensor([1.0, 2.0])?)?.to_vec::<f32>()?, [6.0, 12.0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! | file | what |
//! |---|---|
//! | `layer`, `wrapper` | the stack of layers, and the tensors that they hand out |
//! | `front` | the kernels at the keys of the layers |
//! | `batch` | batching rules |
//! | `gradient`, `forward`, `jacobian`, `map` | the transforms |
//! | `function` | functions of the user's with a gradient of their own |
//! | `inside` | where a tangent of a batched tensor belongs |
//! | `structure`, `parameters` | what functions take and give |

mod batch;
mod composite;
mod error;
mod forward;
mod front;
mod function;
mod gradient;
mod inside;
mod jacobian;
mod layer;
mod map;
mod parameters;
mod structure;
#[cfg(test)]
mod tests;
mod wrapper;

pub use crate::autograd::Randomness;
pub use error::TransformError;
pub use forward::{JvpOptions, Linearized, jvp, jvp_with, jvp_with_aux, linearize};
pub(crate) use front::register;
pub use gradient::{Vjp, grad, grad_and_value, grad_with_aux, vjp, vjp_with_aux};
pub use jacobian::{
    JacobianOptions, hessian, jacfwd, jacfwd_with, jacfwd_with_aux, jacrev, jacrev_with,
    jacrev_with_aux,
};
pub use map::{VmapOptions, vmap, vmap_with};
pub use parameters::stack_parameters;
pub use structure::Structure;

use crate::tensor::Tensor;

/// The kinds of the transforms that the thread is in, outermost first, with their levels.
///
/// ```
/// use straightline::{Tensor, func, tensor};
/// let seen = std::cell::RefCell::new(Vec::new());
/// let f = |x: &Tensor| {
///     *seen.borrow_mut() = func::levels();
///     x.mul(x)
/// };
/// func::vmap(func::grad(f))(&tensor([1.0, 2.0])?)?;
/// assert_eq!(*seen.borrow(), [("Vmap", 1), ("Grad", 2)]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn levels() -> Vec<(&'static str, usize)> {
    let name = |kind: layer::Kind| match kind {
        layer::Kind::Vmap { .. } => "Vmap",
        layer::Kind::Grad { .. } => "Grad",
        layer::Kind::Jvp { .. } => "Jvp",
    };
    layer::all().into_iter().map(|(level, kind)| (name(kind), level)).collect()
}

/// Whether a tensor is a batch at a layer: what is asked of it may differ among the samples.
pub(crate) fn is_batched(t: &Tensor) -> bool {
    t.key_set().has(crate::dispatch::DispatchKey::FuncTorchBatched) || {
        let inside = describe(t).map(|(_, inside)| inside);
        inside.is_some_and(|t| is_batched(&t))
    }
}

/// A wrapper's own words and what is inside, for tensors that transforms hand out:
/// `GradTrackingTensor(lvl=1, value=` or `BatchedTensor(lvl=1, bdim=0, value=`.
///
/// ```
/// use straightline::{Tensor, func, tensor};
/// let f = |x: &Tensor| {
///     assert_eq!(func::describe(x).unwrap().0, "GradTrackingTensor(lvl=1, value=");
///     x.mul(x)
/// };
/// func::grad(f)(&tensor(2.0)?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn describe(t: &Tensor) -> Option<(String, Tensor)> {
    wrapper::describe(t).map(|(words, inside)| (words, inside.clone()))
}
