//! Functions of functions.
//!
//! The transforms of [`func`](crate::func) take a function of tensors and give another one:
//! [`grad`](crate::func::grad) its gradient, [`vmap`](crate::func::vmap) the same function of a
//! batch. They nest in any order, and what they give can be compiled.
//!
//! ```
//! use straightline::func::{grad, hessian, vmap};
//! use straightline::{Tensor, tensor};
//!
//! let cube = |x: &Tensor| x.pow(3)?.sum();
//! assert_eq!(grad(cube)(&tensor([2.0, 3.0])?)?.to_vec::<f32>()?, [12.0, 27.0]);
//! let second = hessian(cube)(&tensor([2.0, 3.0])?)?;
//! assert_eq!(second.to_vec2::<f32>()?, [[12.0, 0.0], [0.0, 18.0]]);
//! // the gradient of each row
//! let rows = vmap(grad(cube))(&tensor([[1.0, 0.0], [0.0, 2.0]])?)?;
//! assert_eq!(rows.to_vec2::<f32>()?, [[3.0, 0.0], [0.0, 12.0]]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`grad`](crate::func::grad), [`grad_and_value`](crate::func::grad_and_value) | of a number |
//! | [`vjp`](crate::func::vjp), [`jvp`](crate::func::jvp) | along a cotangent, along a tangent |
//! | [`jacrev`](crate::func::jacrev), [`jacfwd`](crate::func::jacfwd), [`hessian`](crate::func::hessian) | whole matrices |
//! | [`vmap`](crate::func::vmap), [`vmap_with`](crate::func::vmap_with) | of a batch, along any dimensions, in chunks, with random numbers |
//!
//! What such a function closes over is constant to the transform, and may itself want a gradient of
//! the tape outside. It may write tensors that it has made, but none from outside; `backward()`
//! does not belong into it.
//!
//! # Functions with a gradient of their own
//!
//! A [`Function`](crate::autograd::Function) has its own gradient at each transform that differentiates,
//! second derivatives included, and so does its `jvp`. To be batched where something outside
//! differentiates it says how, by [`vmap_rule`](crate::autograd::Function::vmap_rule): its parts are batched
//! ([`VmapRule::Generated`](crate::autograd::VmapRule::Generated)), or it writes
//! [`vmap`](crate::autograd::Function::vmap). What it computes with besides constants must be among its
//! inputs: `forward` runs below all transforms, and a variable of theirs that it closes over is an error there.
//!
//! # Modules
//!
//! A module is a function of its input alone. [`functional_call`](crate::func::functional_call)
//! makes it one of its parameters too, which are given by name.
//!
//! ```
//! use straightline::func::{functional_call, grad, vmap};
//! use straightline::nn::{Layer, Linear, Module, Sequential, StateDict, Tanh};
//! use straightline::{Tensor, randn};
//!
//! let net = Sequential::new().add(Linear::new(4, 8)?).add(Tanh).add(Linear::new(8, 1)?);
//! let parameters = net.state_dict()?;
//! let loss = |p: &StateDict, x: &Tensor, y: &Tensor| {
//!     functional_call(&net, p, |net| net.forward(x)?.mse_loss(y))
//! };
//! // how much each sample pulls at each parameter
//! let pull = |(x, y): &(Tensor, Tensor)| grad(|p: &StateDict| loss(p, x, y))(&parameters);
//! let all = vmap(pull)(&(randn([16, 4])?, randn([16, 1])?))?;
//! assert_eq!(all["0.weight"].sizes(), [16, 8, 4]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! [`stack_module_state`](crate::func::stack_module_state) stacks the parameters of several models,
//! and `vmap` over them runs the ensemble at once. `examples/per_sample_gradients.rs` has both, with
//! times.
//!
//! What a batch normalisation writes in training, all samples share, so it refuses to be batched;
//! make it with `track_running_stats: false`
//! ([`BatchNormOptions`](crate::nn::BatchNormOptions)).
