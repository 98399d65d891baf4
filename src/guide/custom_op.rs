//! An operator of your own.
//!
//! First ask whether you need one. A function that combines existing operators is a function; it is
//! captured, fused and compiled as written. An operator is for what no combination of operators
//! computes well, such as a recurrence or a call into another library.
//!
//! # In one go
//!
//! [`custom_op`](crate::dispatch::custom_op) takes a Rust function and registers everything that an
//! operator needs. The schema is inferred from the function's types. A compiled function also has
//! to know the shape of the result before there is data: that is what the *fake* kernel computes.
//!
//! ```
//! use straightline::dispatch::{custom_op, opcheck};
//! use straightline::{Result, Tensor, assert_close, compile, tensor};
//!
//! /// The running maximum of a vector, decayed.
//! fn envelope(x: &Tensor, decay: f64) -> Result<Tensor> {
//!     let mut peak = 0f32;
//!     let values: Vec<f32> = (x.to_vec::<f32>()?.into_iter())
//!         .map(|v| {
//!             peak = v.abs().max(decay as f32 * peak);
//!             peak
//!         })
//!         .collect();
//!     Tensor::from_slice(&values, x.sizes())
//! }
//!
//! let mut op = custom_op("guide::envelope", envelope).args(["x", "decay"]).register()?;
//! assert_eq!(op.schema().to_string(), "guide::envelope(Tensor x, float decay) -> Tensor");
//! op.register_fake(|x: &Tensor, _decay: f64| x.zeros_like())?;
//!
//! // it is called through the dispatcher, like any operator
//! let typed = op.handle().typed::<(&Tensor, f64), Tensor>()?;
//! let x = tensor([1.0, -4.0, 0.0, 1.0])?;
//! assert_eq!(typed.call((&x, 0.5))?.to_vec::<f32>()?, [1.0, 4.0, 2.0, 1.0]);
//!
//! // in a compiled function, the operators around it are fused, and it is called directly
//! let f = compile(move |x: &Tensor| typed.call((&x.mul(2.0)?, 0.5))?.exp());
//! let eager = f.eager(&x)?;
//! assert_close(&f.call(&x)?, &eager)?;
//! assert!(f.trace(&x)?.to_string().contains("guide::envelope(%"));
//!
//! // does it do what its schema, its fake kernel and its registrations say?
//! let report = opcheck(op.handle(), &[x.into(), 0.5.into()]);
//! assert!(report.is_success(), "{report}");
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! The operator exists as long as the [`CustomOp`](crate::dispatch::CustomOp) does;
//! [`leak`](crate::dispatch::CustomOp::leak) keeps it for good.
//!
//! # Piece by piece
//!
//! [`Library`](crate::dispatch::Library) registers the same things one by one, and lets you write
//! the schema yourself. The language of schemas is PyTorch's: `Tensor(a!)` is written,
//! `Tensor(a)` in the result is a view of the argument with the same letter.
//!
//! ```
//! use straightline::dispatch::{DispatchKey, Library, TypedOp};
//! use straightline::{Result, Tensor, tensor};
//!
//! static HALVE: TypedOp<(&Tensor,), Tensor> = TypedOp::new("guide_pieces::halve", "");
//!
//! fn halve(x: &Tensor) -> Result<Tensor> {
//!     x.div(2.0)
//! }
//!
//! let mut library = Library::new("guide_pieces")?;
//! library.def("halve(Tensor self) -> Tensor")?;
//! // made of other operators, so one kernel serves every backend and capture sees its parts
//! library.impl_at("halve", DispatchKey::CompositeImplicitAutograd, halve)?;
//! assert_eq!(HALVE.call((&tensor([3.0])?,))?.to_vec::<f32>()?, [1.5]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # What the compiler may assume
//!
//! An operator without declared effects is assumed to read something besides its operands:
//! its calls keep their order and are not merged. Say more with
//! [`effects`](crate::dispatch::CustomOpBuilder::effects), or with the tags `pure`, `random`,
//! `effect` and `may_fail` of [`def_with_tags`](crate::dispatch::Library::def_with_tags). In a
//! compiled function an operator from outside works on copies of its operands, since its kernel may
//! keep a tensor that it is given.
