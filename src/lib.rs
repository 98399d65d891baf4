//! Wrap a tensor function in [`compile()`]. The first call captures what the dispatcher sees; every
//! later call runs straight-line machine code, with dispatch resolved once.
//!
//! ```
#![doc = include_str!("../examples/quickstart.rs")]
//! ```
//!
//! # Where to start
//!
//! - The [`guide`] has a page each on tensors, the dispatcher, compiling, custom operators and
//!   backends.
//! - [`Tensor`] has the operators as methods; [`ops::aten`] has all of them with all their
//!   arguments.
//! - [`compile()`] and [`Compiled`]: what is captured, when it compiles again, and
//!   [`explain`](Compiled::explain), which says why. [`CompileOptions`] sets bounds and fallbacks.
//! - [`TensorTree`]: what compiled functions take and give. Derive it for your own structs.
//! - The stages of a compilation print: [`Traced`] (the graph), [`Lowered`] (loops and memory),
//!   [`Executable`] (machine code).
//! - [`dispatch`]: keys, operators, and [`Library`](dispatch::Library), through which operators of
//!   your own come in.
//! - [`modes`]: handlers that see every operator call, tensors that carry their own, and tensors
//!   without data ([`FakeTensorMode`](modes::FakeTensorMode)).
//! - [`nn`], [`optim`] and [`data`]: networks, optimisers, and what a training loop needs around
//!   them.
//! - [`functionalize`]: a function without in-place operators, eagerly.
//! - [`Error`] names the operator, the operands and your line.
//!
//! # Features
//!
//! `compile` (on by default) is [`compile()`] with all that it needs: egg and Cranelift. Without it
//! the crate has tensors, the dispatcher and the modes, and builds in less than half of the time.
//!
//! # Seeing what happens
//!
//! `STRAIGHTLINE_LOG=debug` lets the command line print log messages (crate `tracing`) to standard
//! error. In the library, [`dispatch::capture`] collects the dispatcher's calls and
//! [`dispatch::dump_table`] prints an operator's table. `ARCHITECTURE.md` in the repository
//! describes how the crates fit together.
#![cfg_attr(
    not(feature = "compile"),
    allow(dead_code, unused_imports, reason = "what only capture needs")
)]

extern crate self as straightline;

#[macro_use]
mod error;

pub mod autograd;
#[cfg(feature = "compile")]
pub mod compile;
#[cfg(feature = "compile")]
pub mod control_flow;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod data;
mod default_dtype;
mod deterministic;
pub mod dispatch;
pub mod files;
pub mod guide;
pub mod methods;
pub mod modes;
pub mod nn;
pub mod ops;
pub mod optim;
mod precision;
#[cfg(feature = "compile")]
pub mod program;
#[cfg(feature = "compile")]
pub mod pt2;
mod sync;
pub mod tensor;
pub mod testing;
mod threads;
#[doc(hidden)]
pub mod transforms;

#[cfg(feature = "compile")]
pub use compile::{
    Arguments, CompileEvent, CompileOptions, Compiled, DynamicSizes, Executable, Explanation,
    Functionalized, GuardMiss, Lowered, TensorFunction, TensorTree, Traced, compile, compile_with,
    functionalize, mark_dynamic,
};
pub use default_dtype::{default_dtype, set_default_dtype};
pub use deterministic::{are_deterministic_algorithms_enabled, use_deterministic_algorithms};
pub use error::{Error, ErrorKind, Operand, Result};
pub use files::{
    load_checkpoint, load_safetensors, load_safetensors_on, load_state_dict, map_safetensors,
    save_safetensors,
};
pub use methods::functions::{
    arange, cat, einsum, empty, empty_like, eye, full, full_like, linspace, logspace, ones,
    ones_like, rand, rand_like, randint, randn, randn_like, randperm, stack, where_, zeros,
    zeros_like,
};
pub use methods::{
    Bounds, ConvOptions, CrossEntropyOptions, Ellipsis, Index, Indices, InterpolateOptions, Item,
    NewAxis, PoolOptions, Reduction, TensorOptions, step,
};
pub use modes::{autocast, profiler};
pub use precision::{MatmulPrecision, float32_matmul_precision, set_float32_matmul_precision};
pub use straightline_catalog::MetaError;
pub use straightline_catalog::{DType, Device, DeviceType, Layout, MemoryFormat, QScheme, Scalar};
pub use straightline_derive::TensorTree;
pub use straightline_passes::ir::graph::Graph;
pub use tensor::dlpack;
pub use tensor::{
    BorrowScope, Busy, BusyReason, Element, Generator, Int, Ints, Literal, Number, OptionalInt,
    OptionalTensors, Other, Progression, Sections, Tensor, Tensors, borrows_wait, manual_seed,
    tensor, try_borrows,
};
pub use testing::assert_close;
pub use threads::{num_threads, set_num_threads};
/// Functions of functions: gradients, Jacobians and batches (`torch.func`).
pub mod func {
    pub use crate::nn::{
        FunctionalOptions, functional_call, functional_call_with, stack_module_state,
    };
    #[doc(inline)]
    pub use crate::transforms::*;
}

/// The README's code, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
