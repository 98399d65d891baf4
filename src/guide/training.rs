//! Training with compiled functions.
//!
//! # A whole step
//!
//! A function may run forward, loss, backward pass, clipping and the optimiser's update, and is
//! compiled to one plan, whose calls do not enter the dispatcher. What it writes are the parameters
//! and the optimiser's state, and `.grad` where it leaves one.
//!
//! ```
//! use straightline::nn::{Layer, Linear, Module};
//! use straightline::optim::{AdamW, AdamWOptions, Optimizer, clip_grad_norm_};
//! use straightline::{Tensor, compile};
//!
//! let layer = Linear::new(4, 1)?;
//! let parameters = layer.parameters();
//! let optimizer = AdamW::new(layer.parameters(), AdamWOptions::default().lr(0.1))?;
//! let step = compile(move |x: &Tensor, y: &Tensor| {
//!     optimizer.zero_grad()?;
//!     let loss = layer.forward(x)?.mse_loss(y)?;
//!     loss.backward()?;
//!     clip_grad_norm_(&parameters, 1.0)?;
//!     optimizer.step()?;
//!     Ok(loss)
//! });
//! let (x, y) = (Tensor::randn([8, 4])?, Tensor::randn([8, 1])?);
//! let first = step.call((&x, &y))?.item::<f32>()?;
//! let before = straightline::dispatch::call_count();
//! for _ in 0..20 {
//!     step.call((&x, &y))?;
//! }
//! assert_eq!(straightline::dispatch::call_count(), before);
//! assert!(step.call((&x, &y))?.item::<f32>()? < first);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! What such a function knows of gradients is guarded like the rest: which tensors want one, grad
//! mode, the hooks of leaves, and whether there is a `.grad` where it is read before it is set. A step
//! that does not clear gradients has one variant for the first call, which finds none, and one for
//! the others, which add to those that they find; they may be cleared between calls. The loss that it returns comes out of a backward pass that has been made, so
//! another one from there is the same error as in eager code.
//!
//! Rust values that a function reads, such as a counter or a flag of your own, are read once, when it
//! is captured, and are constants from then on: what changes from call to call is a tensor, which the
//! function closes over or is given. Modes of modules are noticed: after `train()` or `eval()` the
//! next call captures the other variant, if the modules hold it as a [`Mode`](crate::nn::Mode), as
//! the library's do, and so are the hooks of a layer ([`Hooked`](crate::nn::Hooked)).
//!
//! Learning rates, the steps of a [schedule](crate::optim::LrScheduler) and the scale of a
//! [`GradScaler`](crate::optim::GradScaler) are tensors: a plan uses what they are at the call, whoever
//! has set them. So schedules and scalers may be called between steps or in them. A schedule that is
//! a Rust function, and [`ReduceLrOnPlateau`](crate::optim::ReduceLrOnPlateau), stay between them. A
//! scaled step that begins in the function ends there, with `update`.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use straightline::nn::{BatchNorm1d, Layer, Module};
//! use straightline::{Tensor, compile};
//!
//! let norm = Arc::new(Mutex::new(BatchNorm1d::new(3)?));
//! let inside = norm.clone();
//! let f = compile(move |x: &Tensor| inside.lock().unwrap().forward(x));
//! let x = Tensor::randn([8, 3])?;
//! let trained = f.call(&x)?;
//! norm.lock().unwrap().eval();
//! let judged = f.call(&x)?;
//! assert_ne!(trained.to_vec2::<f32>()?, judged.to_vec2::<f32>()?);
//! assert_eq!(f.variants(), 2);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # A function on the tape
//!
//! Where results want gradients and the backward pass comes later, the function becomes two plans.
//! Its backward pass is captured with it, as one graph; that is cut where the fewest bytes have to be
//! kept from the first half for the second, and what is cheap is computed again.
//!
//! ```
//! use straightline::{Tensor, compile, tensor};
//! let f = compile(|x: &Tensor, w: &Tensor| x.mul(w)?.sin());
//! let x = tensor([1.0, 2.0])?;
//! let w = tensor([0.5, 0.25])?.requires_grad_(true)?;
//! let y = f.call((&x, &w))?;
//! assert_eq!(y.grad_fn().unwrap().name(), "CompiledFunctionBackward");
//! y.sum()?.backward()?;
//! let expected = x.mul(&w)?.cos()?.mul(&x)?.to_vec::<f32>()?;
//! assert_eq!(w.grad().unwrap().to_vec::<f32>()?, expected);
//! // the product is not kept
//! let why = f.explain();
//! let names: Vec<&str> = why.variants[0].saved.iter().map(|s| s.name.as_str()).collect();
//! assert_eq!(names, ["x0", "x1"]);
//! println!("{why}");
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! The node behaves as others do: what it keeps of arguments and results must not be written before
//! the backward pass, a second pass needs `retain_graph`, hooks of results and leaves run. Its
//! gradients cannot be differentiated again, which is an error that says so. Under
//! [`no_grad`](crate::autograd::no_grad) another variant serves, which keeps nothing.
//!
//! # What runs eagerly
//!
//! Some functions do with gradients what plans do not: they write values that want gradients into
//! tensors from outside, run a backward pass through an argument that was computed from others,
//! return results that share memory with each other and want gradients, or leave a gradient that can
//! be differentiated in `.grad`. They run eagerly, and
//! [`CompileEvent::EagerFallback`](crate::CompileEvent::EagerFallback) says why.
