//! Branches and loops.
//!
//! A function that is captured runs once. A Rust `if` or `for` in it is decided then: by sizes, numbers and
//! flags, which guards compare at later calls. What depends on the *elements* of a tensor cannot be decided
//! so, and reading them ends the capture with an error that names the line:
//!
//! ```
//! use straightline::{ErrorKind, Tensor, compile, tensor};
//! let f = compile(|x: &Tensor| if x.sum()?.item::<f32>()? > 0.0 { x.sin() } else { x.cos() });
//! let error = f.call(&tensor([1.0, 2.0])?).unwrap_err();
//! assert!(matches!(error.kind(), ErrorKind::DataDependent { .. }));
//! println!("{error}"); // with the line of `item`
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! [`CompileOptions::eager_fallback`](crate::CompileOptions::eager_fallback) runs such a function eagerly.
//! Where both branches compute one element each, `where` selects without branching. For everything else
//! there are the functions of [`control_flow`](crate::control_flow), which are PyTorch's `torch.cond`,
//! `while_loop`, `scan` and `map`:
//!
//! ```
//! use straightline::control_flow::cond;
//! use straightline::{Tensor, compile, tensor};
//! let scale = tensor([10.0, 100.0])?;
//! let f = compile(move |x: &Tensor| cond(&x.sum()?.gt(0)?, |x| x.mul(&scale), |x| x.neg(), x));
//! assert_eq!(f.call(&tensor([1.0, 2.0])?)?.to_vec::<f32>()?, [10.0, 200.0]);
//! assert_eq!(f.call(&tensor([-1.0, -2.0])?)?.to_vec::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! Eagerly they read the predicate and call the function, and autograd records what it does. While a
//! function is captured both branches run, each as a graph of its own, and the outer graph gets one call
//! that is given these graphs. A replay runs the code of one branch, without entering the dispatcher.
//!
//! ```
//! # use straightline::control_flow::cond;
//! # use straightline::{Tensor, compile, tensor};
//! let f = compile(|x: &Tensor| cond(&x.sum()?.gt(0)?, |x| x.sin(), |x| x.cos(), x));
//! assert_eq!(f.trace(&tensor([1.0, 2.0])?)?.graph().to_string(), "\
//! graph(%x0: f32[2]) {
//!   %0: f32[] = aten::sum(%x0, dtype=none)
//!   %1: bool[] = aten::gt.Scalar(%0, other=0)
//!   %2: f32[2] = higher_order::cond(%1, true_fn=graph(%x0: f32[2]) {
//!     %0: f32[2] = aten::sin(%x0)
//!     return %0
//!   }, false_fn=graph(%x0: f32[2]) {
//!     %0: f32[2] = aten::cos(%x0)
//!     return %0
//!   }, [%x0])
//!   return %2
//! }
//! ");
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # What the functions may do
//!
//! - They take and return trees of tensors ([`TensorTree`](crate::TensorTree)), and may close over tensors,
//!   which become operands of the call.
//! - Both branches return the same structure, with the same dtypes and sizes; the body of a loop returns what
//!   it takes.
//! - What they return is a new tensor: not an operand, nor a view of one. Return a copy
//!   ([`copied`](crate::Tensor::copied)).
//! - They write neither operands nor what they close over, and keep nothing outside. In-place operators on
//!   tensors that they make are fine, and so are random numbers: a replay draws those of the branch that it
//!   takes.
//!
//! What breaks these rules is an error, [`ControlFlowError`](crate::control_flow::ControlFlowError), or that
//! of a function that cannot be captured. Eagerly a branch that is not taken is not looked at.
//!
//! # Loops
//!
//! ```
//! use straightline::control_flow::{map, scan, while_loop};
//! use straightline::{Tensor, compile, tensor};
//! // as often as it takes
//! let root = compile(|a: &Tensor| {
//!     let close = |x: &Tensor| x.mul(x)?.sub(a)?.abs()?.max()?.gt(1e-4);
//!     while_loop(close, |x| x.add(&a.div(x)?)?.mul(0.5), &a.add(1)?)
//! });
//! assert!((root.call(&tensor([9.0])?)?.item::<f32>()? - 3.0).abs() < 1e-3);
//!
//! // for each slice, carrying a state on
//! let decay = compile(|xs: &Tensor| {
//!     let step = |h: &Tensor, x: &Tensor| {
//!         let h = h.mul(0.5)?.add(x)?;
//!         Ok((h.clone(), h.neg()?))
//!     };
//!     scan(step, &tensor(0.0)?, xs, 0, false)
//! });
//! let (last, all) = decay.call(&tensor([1.0, 1.0, 1.0])?)?;
//! assert_eq!(last.item::<f32>()?, 1.75);
//! assert_eq!(all.to_vec::<f32>()?, [-1.0, -1.5, -1.75]);
//!
//! // for each slice by itself
//! let norms = compile(|rows: &Tensor| map(|row, (): &()| row.mul(row)?.sum(), rows, &()));
//! assert_eq!(norms.call(&tensor([[3.0, 4.0], [1.0, 0.0]])?)?.to_vec::<f32>()?, [25.0, 1.0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Gradients
//!
//! In a compiled function `cond`, `scan` and `map` have gradients: that of a branch is a branch of the same
//! predicate, that of a scan is a scan the other way round. They compute again what they need of the forward
//! graph and save what it drew from the random generator. What a branch computes under
//! [`no_grad`](crate::autograd::no_grad) is constant there. A function in which the gradient of a
//! `while_loop` is wanted, of a [`Function`](crate::autograd::Function) with a gradient of its own, or in
//! which a branch registers a hook, runs eagerly, and an event says so.
//!
//! # Batches
//!
//! Within [`vmap`](crate::func::vmap) a predicate that differs among samples runs both branches and selects;
//! a `while_loop` whose condition differs is refused by name. A transform that is itself compiled (`vmap` or
//! `grad` called in the captured function) takes no `cond` with a shared predicate, nor loops.
