//! Convolutions and their gradients, as products whose left factor is gathered (implicit GEMM).
//!
//! All three directions are one kernel with other numbers: rows are positions of what is computed,
//! columns its channels, and what is summed over are the channels and positions of the kernel, or, for the
//! weight's gradient, the batch and the positions of the output. A long sum for few results is split
//! among blocks; the parts lie in a workspace and are added in order, so that the same call gives the same
//! bits.
//!
//! Tiles of halves are computed by tensor cores, with sums in `f32`.
//!
//! Where a kernel reaches beyond the input there are zeros, and zero times NaN is NaN; what an input
//! position does not reach has no part in its gradient, whatever the weight is. Both are as on the CPU.

mod numbers;

use crate::driver::{Argument, DriverError, Function, Launch, Stream};
use crate::emit::Numeric;
use crate::products::{Vector, Workspace};
use crate::programs::{Known, ProgramError};
use numbers::{Numbers, Structure, Way};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{Activation, Follow};

/// Threads of a block.
const THREADS: u32 = 256;
/// Blocks along the second and the third dimension.
const MOST: i64 = 65_535;
/// What may follow a result.
const FOLLOWS: usize = 8;

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

/// Whether convolutions of a dtype are computed here.
///
/// ```
/// use straightline_cuda::convolution::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::F16) && !computes(DType::I64));
/// ```
pub fn computes(dtype: DType) -> bool {
    Numeric::floating(dtype).is_some()
}

/// The workspace with which a convolution is as fast as it can be.
///
/// # Errors
///
/// [`ConvolutionError`].
///
/// ```
/// use straightline_cuda::convolution::{Convolution, Direction, Geometry, Operand, workspace_bytes};
/// use straightline_passes::ir::DType;
/// let geometry = Geometry {
///     batch: 64,
///     channels: 3,
///     filters: 64,
///     groups: 1,
///     input: [1, 32, 32],
///     kernel: [1, 3, 3],
///     output: [1, 32, 32],
///     stride: [1; 3],
///     padding: [0, 1, 1],
///     dilation: [1; 3],
/// };
/// let none = Operand { address: 0, strides: [0; 5] };
/// let of = |direction| Convolution {
///     dtype: DType::F32,
///     direction,
///     geometry,
///     input: none,
///     weight: none,
///     output: none,
///     bias: None,
///     follow: Vec::new(),
/// };
/// assert_eq!(workspace_bytes(&of(Direction::Output))?, 0);
/// // few results of long sums
/// assert!(workspace_bytes(&of(Direction::Weight))? > 0);
/// # Ok::<(), straightline_cuda::convolution::ConvolutionError>(())
/// ```
pub fn workspace_bytes(c: &Convolution) -> Result<usize, ConvolutionError> {
    let numbers = Numbers::of(c)?;
    Ok(numbers.parts_bytes(c.dtype))
}

/// Queues a convolution. With less workspace than [`workspace_bytes`] says, long sums are not split.
///
/// # Safety
///
/// The tensors and the workspace are memory of the stream's device until it has come so far, and nothing
/// overlaps the result, but that a value that is added may be the result itself.
///
/// # Errors
///
/// [`ConvolutionError`].
pub unsafe fn convolve(
    stream: &Stream,
    c: &Convolution,
    workspace: Workspace,
) -> Result<(), ConvolutionError> {
    let mut numbers = Numbers::of(c)?;
    if numbers.results() == 0 {
        return Ok(());
    }
    if numbers.parts_bytes(c.dtype) > workspace.bytes {
        numbers.split(1);
    }
    let (a, b, to) = match c.direction {
        Direction::Output => (c.input, c.weight, c.output),
        Direction::Input => (c.output, c.weight, c.input),
        Direction::Weight => (c.input, c.output, c.weight),
    };
    let [a, b, to] = [a, b, to].map(|o| Argument::Pointer(o.address));
    let parts = Argument::Pointer(workspace.address);
    let follow = (c.bias.iter().chain(c.follow.iter().filter_map(Follow::operand)))
        .map(|v| Argument::Pointer(v.address));
    let all = numbers.all();
    let arguments = |first: &[Argument<'static>]| -> Vec<Argument<'_>> {
        first.iter().copied().chain([Argument::Numbers(&all)]).chain(follow.clone()).collect()
    };
    let cores = stream.device().properties().capability >= 80;
    static KNOWN: Known<Key> = Known::new();
    let key = Key {
        dtype: c.dtype,
        cores,
        bias: c.bias.is_some(),
        follow: c.follow.iter().map(kind).collect(),
        structure: numbers.structure(),
        skips: c.direction == Direction::Input,
    };
    let names = ["tiles", "add_parts", "points", "blocks"];
    let functions = KNOWN.functions(stream.device(), key, &names, || text(c, &numbers, cores))?;
    let [tiles, add_parts, points, blocks] = &*functions else { return Ok(()) };
    let queue = |function: &Function, blocks: [i64; 3], first: &[Argument<'static>]| {
        let [x, y, z] = blocks;
        let blocks = [x.min(i64::from(i32::MAX)), y.min(MOST), z.min(MOST)].map(|n| n as u32);
        let launch = Launch { blocks, threads: [THREADS, 1, 1], shared_bytes: 0 };
        // SAFETY: the arguments are the kernel's, and the caller's contract.
        unsafe { function.launch(stream, launch, &arguments(first)) }
    };
    let each = |count: i64| [count.div_euclid(THREADS.into()) + 1, 1, 1];
    match numbers.way() {
        Way::Points => queue(points, each(numbers.results()), &[a, b, to])?,
        Way::Blocks => queue(blocks, [numbers.results(), 1, 1], &[a, b, to])?,
        Way::Tiles => {
            queue(tiles, numbers.tiles(), &[a, b, to, parts])?;
            if numbers.splits() > 1 {
                queue(add_parts, each(numbers.results()), &[parts, to])?;
            }
        }
    }
    Ok(())
}

/// An operation without what it reads.
fn kind(f: &Follow<Vector>) -> (u8, Activation) {
    match f {
        Follow::Scale(_) => (0, Activation::None),
        Follow::Shift(_) => (1, Activation::None),
        Follow::Add(_) => (2, Activation::None),
        Follow::Activation(a) => (3, *a),
    }
}

/// What a program's text is made of.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    dtype: DType,
    cores: bool,
    bias: bool,
    follow: Vec<(u8, Activation)>,
    structure: Structure,
    skips: bool,
}

/// With `cores`, halves by tensor cores.
fn text(c: &Convolution, numbers: &Numbers, cores: bool) -> Result<String, ConvolutionError> {
    let numeric = Numeric::floating(c.dtype).ok_or(ConvolutionError::DType { dtype: c.dtype })?;
    let mut names: Vec<String> = Vec::new();
    let mut name = || {
        names.push(format!("f{}", names.len()));
        (names.last().cloned().unwrap_or_default(), names.len() - 1)
    };
    let mut after = String::new();
    let mut line = |line: String| after.push_str(&format!("    {line}\n"));
    let of_channel = |(f, i): (String, usize)| format!("widened({f}[channel * p.vector[{i}]])");
    if c.bias.is_some() {
        line(format!("v = v + {};", of_channel(name())));
    }
    for f in &c.follow {
        line("v = rounded(v);".into());
        line(match f {
            Follow::Scale(_) => format!("v = v * {};", of_channel(name())),
            Follow::Shift(_) => format!("v = v + {};", of_channel(name())),
            Follow::Add(_) => format!("v = v + widened({}[at]);", name().0),
            Follow::Activation(a) => format!("v = {};", numeric.activated(*a, "v")),
        });
    }
    let parameters: String = names.iter().map(|n| format!(", const element* {n}")).collect();
    let arguments: String = names.iter().map(|n| format!(", {n}")).collect();
    let Structure { rows_along_inner, cols_along_inner, divides, dimensions, near } =
        numbers.structure();
    let [rows, cols, divides] = [rows_along_inner, cols_along_inner, divides].map(u8::from);
    let halves = match c.dtype {
        DType::F16 if cores => "#define CORES 1\n#define HALVES \"f16\"",
        DType::BF16 if cores => "#define CORES 1\n#define HALVES \"bf16\"",
        _ => "#define CORES 0",
    };
    let skips = u8::from(c.direction == Direction::Input);
    Ok(format!(
        "{}
#define ROWS_ALONG_INNER {rows}
#define COLS_ALONG_INNER {cols}
#define DIVIDES {divides}
#define SKIPS {skips}
#define DIMENSIONS {}
typedef {} offset;
{halves}
#define FOLLOW_PARAMETERS {parameters}
#define FOLLOW_ARGUMENTS {arguments}
{}
__device__ __forceinline__ wide finished(wide v, num channel, num at, const Gathered& p FOLLOW_PARAMETERS) {{
{after}    return v;
}}
",
        numeric.header(),
        dimensions,
        if near { "int" } else { "long long" },
        include_str!("gathered.cu"),
    ))
}

#[cfg(test)]
mod tests;
