//! # Models from files
//!
//! A model that PyTorch has exported is one file, and needs neither PyTorch nor Python here:
//!
//! ```python
//! exported = torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2, max=64)}})
//! torch.export.save(exported, "model.pt2")
//! ```
//!
//! [`pt2::load`](crate::pt2::load) opens it. A [`Program`](crate::program::Program) prints: its sizes,
//! inputs, weights, and what it calls.
//!
//! ```
//! use straightline::pt2;
//! let program = pt2::load("tests/data/pt2/transformer_encoder.pt2")?;
//! for input in program.inputs() {
//!     println!("{}: {:?}", input.name, input.kind);
//! }
//! // the length of the sequence may be 2 to 64
//! assert_eq!(program.symbols()[0].to_string(), "s98 up to 64");
//! assert!(program.to_string().contains("aten::layer_norm"));
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Running it
//!
//! Eagerly each call of the graph is a call of the dispatcher; compiled they are what is captured.
//! Nothing else differs: both take and give [`Leaf`](crate::program::Leaf)s, which are tensors or, where
//! the model has them, numbers and `None`. Nested arguments (`model({"x": x}, flag=True)`) are one list
//! of leaves, in the order in which PyTorch flattens them.
//!
//! ```
//! use straightline::{CompileOptions, Tensor, assert_close, pt2};
//! let program = pt2::load("tests/data/pt2/transformer_encoder.pt2")?;
//! let f = program.compile(CompileOptions::default());
//! for length in [3, 17, 40] {
//!     let x = Tensor::randn([2, length, 32])?;
//!     let (eager, compiled) = (program.run([&x])?, f.call([&x])?);
//!     assert_close(compiled[0].tensor()?, eager[0].tensor()?)?;
//! }
//! println!("{}", f.explain());
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! A [`CompiledProgram`](crate::program::CompiledProgram) is a [`Compiled`](crate::Compiled) function: its
//! guards, variants, [`explain`](crate::Compiled::explain) and threads are described in
//! [`compile`](super::compile). What a call gives is compared with what the model was exported for when
//! sizes are new, and what does not fit is an error that says so:
//!
//! ```
//! use straightline::program::ProgramError;
//! use straightline::{ErrorKind, Tensor, pt2};
//! let program = pt2::load("tests/data/pt2/transformer_encoder.pt2")?;
//! let e = program.run([&Tensor::randn([2, 70, 32])?]).unwrap_err();
//! let ErrorKind::Program(reason) = e.kind() else { panic!("{e}") };
//! assert!(matches!(&**reason, ProgramError::Range { size: 70, .. }));
//! assert!(e.to_string().contains("was exported for s98 up to 64"));
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! An operator that fails is named with its operands, the node of the graph and, if the file has it, the
//! line of the model ([`Error::source_line`](crate::Error::source_line)).
//!
//! # Weights
//!
//! Weights stay in the file: it is mapped, pages are read when they are needed, and several processes
//! share them. They can be read and not written ([`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly));
//! [`copied`](crate::Tensor::copied) gives one that can. What the program itself writes, the running
//! statistics of a model that was exported in training mode, is copied when it is loaded. **The file
//! must not change while a program of it lives**: replace it by another one (write beside it, rename)
//! rather than in place.
//!
//! ```
//! use straightline::{ErrorKind, pt2};
//! let program = pt2::load("tests/data/pt2/transformer_encoder.pt2")?;
//! let weight = &program.weights()[0];
//! let e = weight.tensor.mul_(2).unwrap_err();
//! assert!(matches!(e.kind(), ErrorKind::ReadOnly { .. }));
//! weight.tensor.copied()?.mul_(2)?;
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Memory of other libraries
//!
//! A caller that has arrays of its own lends them for a call
//! ([`call_external`](crate::Compiled::call_external)): addresses and strides in place of tensors, without
//! a copy or an allocation for each. [`dlpack`](crate::dlpack) takes and gives tensors for good, and
//! [`ExternalMemory`](crate::tensor::ExternalMemory) is what both are made of.
//!
//! # Programs of your own
//!
//! [`ProgramBuilder`](crate::program::ProgramBuilder) makes a program call by call, for graphs that come
//! from elsewhere. That is what the Python package does with the graphs of `torch.compile`.
