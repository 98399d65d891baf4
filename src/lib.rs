//! straightline
extern crate self as straightline;

pub mod compile;
pub mod dispatch;
mod error;
mod modes;
pub mod ops;
pub mod tensor;

pub use compile::{
    CompileEvent, CompileOptions, Compiled, Executable, Explanation, GuardMiss, Lowered,
    TensorTree, Traced, compile, compile_with,
};
pub use error::{Error, ErrorKind, Operand, Result};
pub use straightline_derive::TensorTree;
pub use straightline_passes::ir::{DType, Device, DeviceType, Layout, MemoryFormat, Scalar};
pub use straightline_runtime::cpu::threads::{num_threads, set_num_threads};
pub use tensor::{Element, Generator, Tensor, load_safetensors, manual_seed, save_safetensors};
