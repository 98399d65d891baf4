//! cuBLASLt: matrix products with epilogues, computed on the host when their turn comes.
//!
//! Products of `CUBLAS_COMPUTE_32F` are summed in f32, those of TF32 take inputs rounded to ten
//! bits. Results are rounded once, to the type of D; a GPU sums in another order.

mod compute;
mod descriptor;
mod entries;
mod kind;

pub(crate) use compute::Product;
pub(crate) use entries::table;

use crate::code::Code;
use std::ffi::CStr;

/// A `cublasStatus_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Status(pub(crate) i32);

impl Status {
    pub(crate) const NOT_INITIALIZED: Status = Status(1);
    pub(crate) const INVALID_VALUE: Status = Status(7);
    pub(crate) const EXECUTION_FAILED: Status = Status(13);
    pub(crate) const NOT_SUPPORTED: Status = Status(15);

    /// Name and sentence.
    pub(crate) fn text(self) -> (&'static CStr, &'static CStr) {
        match self.0 {
            0 => (c"CUBLAS_STATUS_SUCCESS", c"success"),
            1 => (c"CUBLAS_STATUS_NOT_INITIALIZED", c"the library was not initialized"),
            3 => (c"CUBLAS_STATUS_ALLOC_FAILED", c"the resource allocation failed"),
            7 => (
                c"CUBLAS_STATUS_INVALID_VALUE",
                c"an unsupported value or parameter was passed to the function",
            ),
            8 => (
                c"CUBLAS_STATUS_ARCH_MISMATCH",
                c"the requested functionality is not supported by the device",
            ),
            11 => (c"CUBLAS_STATUS_MAPPING_ERROR", c"an access to GPU memory space failed"),
            13 => (c"CUBLAS_STATUS_EXECUTION_FAILED", c"the GPU program failed to execute"),
            14 => (c"CUBLAS_STATUS_INTERNAL_ERROR", c"an internal operation failed"),
            15 => (c"CUBLAS_STATUS_NOT_SUPPORTED", c"the functionality requested is not supported"),
            16 => (c"CUBLAS_STATUS_LICENSE_ERROR", c"the functionality requires some license"),
            _ => (c"CUBLAS_STATUS_UNKNOWN", c"unknown status"),
        }
    }
}

impl crate::door::Status for Status {
    const SUCCESS: Status = Status(0);
    const PANICKED: Status = Status(14);
}

impl From<Code> for Status {
    fn from(code: Code) -> Status {
        match code {
            Code::SUCCESS => Status(0),
            Code::INVALID_VALUE => Status::INVALID_VALUE,
            Code::NOT_INITIALIZED | Code::INVALID_CONTEXT => Status::NOT_INITIALIZED,
            _ => Status::EXECUTION_FAILED,
        }
    }
}
