//! The vocabulary of programs: dtypes, scalars, devices, sizes, operator schemas and the graph.

pub mod default_dtype;
pub mod device;
pub mod dtype;
pub mod effects;
pub mod graph;
pub mod layout;
pub mod promote;
pub mod qscheme;
pub mod scalar;
pub mod schema;
pub mod text;
pub mod verify;

pub use default_dtype::{default_dtype, set_default_dtype};
pub use device::{Device, DeviceType};
pub use dtype::DType;
pub use layout::{Dims, Layout, MemoryFormat};
pub use qscheme::QScheme;
pub use scalar::Scalar;
pub use schema::{FunctionSchema, OperatorName};
