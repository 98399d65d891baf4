//! Why there is no product.

use crate::blaslt::BlasError;
use crate::driver::DriverError;
use crate::programs::ProgramError;
use straightline_passes::ir::DType;

/// Why a product is not queued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProductError {
    /// Of a dtype that has none.
    #[error("products of {dtype} are not computed on GPUs")]
    DType {
        /// Which.
        dtype: DType,
    },
    /// Sizes below 0, or more elements than numbers of 64 bits count.
    #[error("a batch of {batch} products of sizes {sizes:?}")]
    Sizes {
        /// How many.
        batch: i64,
        /// Rows, columns, inner.
        sizes: [i64; 3],
    },
    /// The kernel of our own.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// cuBLASLt.
    #[error(transparent)]
    Blas(#[from] BlasError),
}

impl From<DriverError> for ProductError {
    fn from(e: DriverError) -> ProductError {
        ProgramError::from(e).into()
    }
}
