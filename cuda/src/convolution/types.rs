//! Convolutions as they are asked for.

use crate::driver::DriverError;
use crate::products::Vector;
use crate::programs::ProgramError;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Follow;

/// Sizes of a convolution. Spatial dimensions are three; those that are not there come first, with sizes
/// and strides of 1 and no padding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Images.
    pub batch: i64,
    /// Channels of the input.
    pub channels: i64,
    /// Channels of the output.
    pub filters: i64,
    /// Groups of both.
    pub groups: i64,
    /// Positions of the input.
    pub input: [i64; 3],
    /// Positions of the kernel.
    pub kernel: [i64; 3],
    /// Positions of the output.
    pub output: [i64; 3],
    /// Input positions from one output position to the next.
    pub stride: [i64; 3],
    /// Zeros before the input.
    pub padding: [i64; 3],
    /// Input positions from one kernel position to the next.
    pub dilation: [i64; 3],
}

/// A tensor on a device: strides, in elements, of the batch and the channels and of three spatial
/// dimensions; of a weight: of the output's and a group's input channels, and of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The first element.
    pub address: u64,
    /// Strides.
    pub strides: [i64; 5],
}

/// Which of the three tensors is computed from the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// The output: a convolution.
    Output,
    /// The input: its gradient, from that of the output; or a transposed convolution.
    Input,
    /// The weight: its gradient, from the input and the gradient of the output.
    Weight,
}

/// A convolution, or a gradient of one.
#[derive(Clone, PartialEq, Debug)]
pub struct Convolution {
    /// Of all tensors.
    pub dtype: DType,
    /// Which is computed.
    pub direction: Direction,
    /// Sizes.
    pub geometry: Geometry,
    /// `[batch, channels, ..]`.
    pub input: Operand,
    /// `[filters, channels / groups, ..]`.
    pub weight: Operand,
    /// `[batch, filters, ..]`.
    pub output: Operand,
    /// Added per channel of the result (of the output or the input).
    pub bias: Option<Vector>,
    /// What is done to each element afterwards, one after the other, each rounded. A value that is added
    /// lies as the result does; its stride is not read.
    pub follow: Vec<Follow<Vector>>,
}

/// Why a convolution is not queued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConvolutionError {
    /// Of a dtype that has none.
    #[error("convolutions of {dtype} are not computed on GPUs")]
    DType {
        /// Which.
        dtype: DType,
    },
    /// Sizes that do not go together, or are too large.
    #[error("no convolution has these sizes: {geometry:?}")]
    Geometry {
        /// The sizes.
        geometry: Box<Geometry>,
    },
    /// More follows a result than kernels have room for.
    #[error("{count} operations follow a convolution, of at most 8")]
    Follows {
        /// How many.
        count: usize,
    },
    /// The kernel.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl From<DriverError> for ConvolutionError {
    fn from(e: DriverError) -> ConvolutionError {
        ProgramError::from(e).into()
    }
}
