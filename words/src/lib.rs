//! The basic vocabulary of all crates: dtypes, scalars, devices, sizes and strides, operator
//! schemas.
//!
//! The lowest crate: it knows neither graphs nor memory, and the build script of `straightline`
//! reads schemas with it. It is internal to `straightline`, which re-exports what users need.
#![forbid(unsafe_code)]

pub mod arg;
pub mod default_dtype;
pub mod device;
pub mod dtype;
pub mod effects;
pub mod key;
mod key_alias;
#[cfg(test)]
mod key_tests;
pub mod keyset;
pub mod layout;
pub mod promote;
pub mod qscheme;
pub mod scalar;
pub mod schema;
pub mod subgraph;
pub mod tensor_meta;

pub use arg::Arg;
pub use default_dtype::{default_dtype, set_default_dtype};
pub use device::{Device, DeviceType};
pub use dtype::DType;
pub use effects::Effects;
pub use key::{BackendComponent, DispatchKey, ParseKeyError};
pub use keyset::{DispatchKeySet, NUM_RUNTIME_ENTRIES};
pub use layout::{Dims, Layout, MemoryFormat};
pub use qscheme::QScheme;
pub use scalar::Scalar;
pub use schema::{FunctionSchema, OperatorName};
pub use subgraph::Subgraph;
pub use tensor_meta::TensorMeta;
