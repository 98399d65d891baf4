//! Gradients.
//!
//! A tensor that asks for a gradient is a *leaf*; what is computed from it remembers how.
//! [`backward`](crate::Tensor::backward) of a number walks back and adds to each leaf's
//! [`grad`](crate::Tensor::grad).
//!
//! ```
//! use straightline::{Tensor, autograd::no_grad, tensor};
//!
//! let weight = tensor([[0.5, -1.0], [0.25, 1.5]])?.requires_grad_(true)?;
//! let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
//! let mut losses = Vec::new();
//! for _ in 0..3 {
//!     let loss = x.linear(&weight, None)?.sub(1)?.square()?.mean()?;
//!     loss.backward()?;
//!     losses.push(loss.item::<f32>()?);
//!     let grad = weight.grad().expect("the loss depends on it");
//!     no_grad(|| weight.sub_(&grad.mul(0.05)?))?;
//!     weight.set_grad(None)?;
//! }
//! assert!(losses[2] < losses[0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! [`nn`](crate::nn) has the layers and [`optim`](crate::optim) the rules that replace the last
//! lines.
//!
//! # Without accumulating
//!
//! [`autograd::grad`](crate::autograd::grad) gives gradients and leaves `.grad` alone;
//! [`grad_with`](crate::autograd::grad_with) with `create_graph` gives gradients that can be
//! differentiated again.
//!
//! ```
//! use straightline::autograd::{GradOptions, grad, grad_with};
//! use straightline::tensor;
//!
//! let x = tensor([2.0])?.requires_grad_(true)?;
//! let options = GradOptions { create_graph: true, ..GradOptions::default() };
//! let first = grad_with(&[x.pow(3)?.sum()?], &[x.clone()], &options)?.remove(0).unwrap();
//! let second = grad(&[first.sum()?], &[x])?;
//! assert_eq!(second[0].to_vec::<f32>()?, [12.0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # What is recorded
//!
//! Nothing under [`no_grad`](crate::autograd::no_grad), and nothing of calls whose operands want no
//! gradient: these cost what they cost without this chapter. Writes in place are recorded, through
//! views too; a leaf that wants a gradient must not be written except under `no_grad`. A tensor
//! that a formula needs and that was written meanwhile is an error, which names both calls and their
//! lines.
//!
//! ```
//! use straightline::tensor;
//!
//! let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
//! let y = x.exp()?;
//! y.add_(1)?; // exp's gradient is its result
//! let error = y.sum()?.backward().unwrap_err();
//! assert!(error.to_string().contains("modified by an inplace operation"));
//! assert!(error.to_string().contains("`aten::exp` at"));
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Forward mode
//!
//! A derivative in one direction needs no backward pass: in a
//! [`dual_level`](crate::autograd::forward_ad::dual_level) a tensor may have a tangent, which goes along with
//! the values. It is cheaper where there are fewer inputs than results, and keeps nothing.
//!
//! ```
//! use straightline::{autograd::forward_ad::{dual_level, make_dual, unpack_dual}, tensor};
//!
//! let slope = dual_level(|| {
//!     let x = make_dual(tensor([1.0, 2.0])?, tensor([1.0, 0.0])?)?;
//!     let y = x.mul(&x)?.sum()?;
//!     Ok(unpack_dual(&y)?.tangent.unwrap())
//! })?;
//! assert_eq!(slope.item::<f32>()?, 2.0);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! [`func::jvp`](crate::func::jvp) does so for a function, and nests with `grad` and `vmap`. Tangents are
//! recorded as other values are, and a gradient of dual tensors is dual, so second derivatives come from
//! both modes together: [`hessian`](crate::func::hessian) is forward over reverse. `no_grad` does not
//! stop tangents. An operator that they do not go through is an error that names it; a
//! [`Function`](crate::autograd::Function) has a `jvp` of its own.
//!
//! # In between
//!
//! - [`register_hook`](crate::Tensor::register_hook) sees a tensor's gradient and may replace it;
//!   [`register_post_accumulate_grad_hook`](crate::Tensor::register_post_accumulate_grad_hook) runs
//!   when a leaf's is complete.
//! - [`Function`](crate::autograd::Function) is a function with a gradient of its own;
//!   [`register_autograd`](crate::dispatch::CustomOp::register_autograd) gives one to an operator.
//! - [`checkpoint`](crate::autograd::checkpoint) computes values again instead of keeping them.
//! - [`detect_anomaly`](crate::autograd::detect_anomaly) finds the call whose gradient is not a
//!   number.
//! - [`queue_callback`](crate::autograd::queue_callback) in a hook calls a function when the pass is over.
//! - [`gradcheck`](crate::autograd::gradcheck) compares gradients with differences, and tangents if asked
//!   (`check_forward_ad`).
