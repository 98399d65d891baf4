//! Compiling.
//!
//! [`compile`](crate::compile()) wraps a function of tensors. The first call runs the function once
//! on stand-ins, which have shapes and no data, and records what the dispatcher sees. The resulting
//! graph is rewritten, fused and turned into machine code. Later calls check that they match the
//! first one and run that code without entering the dispatcher.
//!
//! ```
//! use straightline::dispatch::call_count;
//! use straightline::{Tensor, assert_close, compile, tensor};
//!
//! let weight = tensor([[0.5, -1.0, 2.0], [0.25, 1.5, -0.5]])?;
//! let layer = move |x: &Tensor| (2.0 * x.linear(&weight, None)? + 1.0).softmax(-1);
//!
//! let x = tensor([[1.0, 2.0, 3.0]])?;
//! let eager = layer(&x)?;
//! let fast = compile(layer);
//! assert_close(&fast.call(&x)?, &eager)?; // captures, compiles, runs
//!
//! let before = call_count();
//! let again = fast.call(&x)?; // runs
//! assert_eq!(call_count(), before);
//! assert_close(&again, &eager)?;
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! A compiled function is `Send + Sync`, and its calls may run at the same time on several threads.
//! The tensors that it closes over are read anew at every call, so an update of a weight in place is
//! seen. **Rust values are not**: a counter, a flag or a field that the function reads is read once,
//! when it is captured. What changes from call to call is a tensor. Of the values that the library
//! itself has, the modes of its modules (`train()`, `eval()`) are noticed, and
//! [`training`](super::training) says what of optimisers is.
//!
//! # Guards and variants
//!
//! A compiled function serves the dtypes, sizes and strides that it was captured with. Others make
//! another *variant*, for which the function is captured again. Where its kernels differ from those
//! before in numbers alone, the second variant's code reads these numbers from a table, and further
//! variants run that code with tables of their own: nothing is compiled for them. There are at most
//! [`CompileOptions::max_variants`](crate::CompileOptions::max_variants) with code of their own;
//! beyond that, calls run eagerly, and an event says so. [`explain`](crate::Compiled::explain)
//! prints the guards, the kernels and the reason for every variant; as a page of HTML
//! ([`to_html`](crate::Explanation::to_html)) it also draws the graph, with each operator in the colour
//! of the kernel that it went into.
//!
//! ```
//! use straightline::{Tensor, compile};
//!
//! let f = compile(|x: &Tensor| x.gelu()?.softmax(-1));
//! for length in [30, 45, 64, 77, 100] {
//!     f.call(&Tensor::ones([8, length])?)?;
//! }
//! assert_eq!(f.variants(), 5);
//! assert_eq!(f.codes(), 2); // one for a length of 30, one for every other
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! A dimension of size 1 is a case of its own, since what is alone is repeated without being moved
//! in memory. [`CompileOptions::dynamic`](crate::CompileOptions::dynamic) says what becomes of
//! other sizes.
//!
//! ```
//! use straightline::{CompileEvent, CompileOptions, Tensor, compile_with};
//!
//! let options = CompileOptions { max_variants: 2, ..CompileOptions::default() };
//! let f = compile_with(options, |x: &Tensor| x.relu());
//! for n in [1, 2, 3] {
//!     f.call(&Tensor::ones([n])?)?;
//! }
//! assert_eq!(f.variants(), 2);
//! assert!(matches!(f.events().last(), Some(CompileEvent::VariantLimit { limit: 2, .. })));
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Stages
//!
//! Each stage of a compilation is a value that prints: [`Traced`](crate::Traced) is the graph as it
//! was captured, [`Lowered`](crate::Lowered) the loops and the memory plan,
//! [`Executable`](crate::Executable) the machine code. `straightline dump WORKLOAD --stage loops`
//! prints the same from the command line. The graph's text parses back; `docs/ir.md` in the
//! repository describes it.
//!
//! ```
//! use straightline::{Graph, Tensor, compile, tensor};
//!
//! let f = compile(|x: &Tensor| x.mul(1.0)?.exp());
//! let traced = f.trace(&tensor([1.0, 2.0])?)?;
//! let text = traced.graph().to_string();
//! assert!(text.contains("aten::exp(%"));
//! assert_eq!(Graph::parse(&text).unwrap().to_string(), text);
//!
//! // multiplying by one is gone after rewriting
//! let lowered = traced.lower()?;
//! assert!(!lowered.graph().to_string().contains("aten::mul"));
//! println!("{}", lowered.compile()?);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # What a function may do
//!
//! A captured function may update its arguments and closed-over tensors in place, draw random
//! numbers, make views and return them; a replay does what eager code does, aliasing included. It
//! may not read elements while it is captured, since there are none: `item`, `to_vec` and a branch on
//! data end the capture with an error that names the line. With [`CompileOptions::eager_fallback`](crate::CompileOptions::eager_fallback) such a
//! function runs eagerly instead.
//!
//! ```
//! use straightline::{CompileOptions, ErrorKind, Tensor, compile, compile_with, tensor};
//!
//! fn clipped(x: &Tensor) -> straightline::Result<Tensor> {
//!     if x.max()?.item::<f32>()? > 1.0 { x.div(x.max()?) } else { Ok(x.clone()) }
//! }
//!
//! let x = tensor([1.0, 4.0])?;
//! let refused = compile(clipped).call(&x).unwrap_err();
//! assert!(matches!(refused.kind(), ErrorKind::DataDependent { .. }), "{refused}");
//!
//! let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
//! let f = compile_with(options, clipped);
//! assert_eq!(f.call(&x)?.to_vec::<f32>()?, [0.25, 1.0]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Sizes that depend on data
//!
//! `nonzero`, `masked_select`, `unique`, a mask as index and their like have results whose sizes are
//! known when they have run. What the first of them needs is a variant of its own; what follows is
//! compiled for the sizes that the results have, and for other sizes captured again, most of which run
//! code that is there. So the function may do with these sizes what it likes, branches included.
//!
//! ```
//! use straightline::{Tensor, compile, tensor};
//!
//! let f = compile(|x: &Tensor| {
//!     let positive = x.masked_select(&x.gt(0)?)?;
//!     if positive.numel() == 0 { x.sum() } else { positive.log()?.mean() }
//! });
//! assert_eq!(f.call(&tensor([1.0, -1.0, 1.0])?)?.item::<f32>()?, 0.0);
//! assert_eq!(f.call(&tensor([-1.0, -1.0, -2.0])?)?.item::<f32>()?, -4.0);
//! // the front, and two rests
//! assert_eq!(f.variants(), 3);
//! println!("{}", f.explain());
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! In a branch or a loop of [`control_flow`](crate::control_flow) such operators are refused.
//!
//! # Arguments
//!
//! Arguments and results are [`TensorTree`](crate::TensorTree)s: tensors, tuples, vectors, options,
//! or structs of your own with `#[derive(TensorTree)]`. A function of several arguments is called
//! with a tuple of references: `f.call((&x, &y))`.
