//! Pools, resampling, padding and columns of windows, and their gradients, for one to three dimensions.
//!
//! A thread computes one element of its result. Gradients are gathered: an element adds up what comes from the
//! results that it was part of, in their order, so that nothing is added atomically.

use crate::driver::{Argument, Launch, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const THREADS: u32 = 256;
const BLOCKS: i64 = 1 << 30;
const KERNELS: [&str; 13] = [
    "max_pool",
    "avg_pool",
    "avg_pool_gradient",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "adaptive_gradient",
    "resample",
    "resample_gradient",
    "reflection_gradient",
    "replication_gradient",
    "fold",
    "antialias",
    "antialias_gradient",
];

/// Planes that follow one another without gaps; fewer than three dimensions have ones in front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planes {
    /// Of the elements.
    pub dtype: DType,
    /// How many: images and channels together.
    pub count: i64,
    /// The sizes of what is pooled or resampled.
    pub input: [i64; 3],
    /// The sizes of the results.
    pub output: [i64; 3],
}

/// Windows of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// Their sizes.
    pub kernel: [i64; 3],
    /// From one to the next.
    pub stride: [i64; 3],
    /// How far they reach over the ends.
    pub pad: [i64; 3],
    /// From an element of a window to the next.
    pub dilation: [i64; 3],
    /// Whether means count what is beyond the ends.
    pub with_pad: bool,
    /// What means divide by, if not by the number of elements.
    pub divisor: Option<i64>,
}

/// How elements become others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// The element to the left.
    Nearest,
    /// The element that the middle lies in.
    NearestExact,
    /// Two of each dimension.
    Linear,
    /// Four of each dimension.
    Cubic,
    /// All that a result covers, by a triangle.
    Antialiased,
    /// All that a result covers, by a cubic.
    CubicAntialiased,
}

impl Interpolation {
    fn is_antialiased(self) -> bool {
        matches!(self, Interpolation::Antialiased | Interpolation::CubicAntialiased)
    }
}

/// A resampling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resampling {
    /// How.
    pub interpolation: Interpolation,
    /// Elements from one result to the next.
    pub scale: [f64; 3],
    /// Whether the first and the last elements lie upon the first and the last results.
    pub aligned: bool,
}

/// Whether a dtype is computed with here.
///
/// ```
/// use straightline_cuda::spatial::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::BF16) && !computes(DType::I32));
/// ```
pub fn computes(dtype: DType) -> bool {
    dtype.is_floating() && elements::head(dtype).is_some()
}

/// What is computed: which tensors there are, and what for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operation {
    /// The largest of each window, and their places in the planes (`i64`, the second result).
    MaxPool(Windows),
    /// The mean of each window.
    AvgPool(Windows),
    /// The gradient of that, from the gradient of the results.
    AvgPoolGradient(Windows),
    /// The largest of equal shares, and their places.
    AdaptiveMaxPool,
    /// Means of equal shares.
    AdaptiveAvgPool,
    /// The gradient of that, from the gradient of the results.
    AdaptiveGradient,
    /// Elements between elements.
    Resample(Resampling),
    /// The gradient of that.
    ResampleGradient(Resampling),
    /// The gradient of padding with a mirror image, so many elements before the first one.
    ReflectionGradient([i64; 3]),
    /// The gradient of padding with the elements of the edges.
    ReplicationGradient([i64; 3]),
    /// An image of the columns that its windows were laid out in, which are `x`: a row for each of a window's
    /// elements, of each plane. [`Planes::input`] is the image, [`Planes::output`] says how many windows there are.
    Fold(Windows),
}

/// Queues an operation. `x` leads to the elements (of a gradient: to the gradient of the results), `results` to
/// the results (the gradient of the elements) and to places, or 0 where there are none.
///
/// # Safety
///
/// The addresses lead to so many elements without gaps, memory of the stream's device until it has come so
/// far; nothing overlaps the results.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`computes`] says no.
pub unsafe fn run(
    stream: &Stream,
    operation: Operation,
    planes: &Planes,
    x: u64,
    results: [u64; 2],
) -> Result<(), ProgramError> {
    let backward = matches!(
        operation,
        Operation::AvgPoolGradient(_)
            | Operation::AdaptiveGradient
            | Operation::ResampleGradient(_)
            | Operation::ReflectionGradient(_)
            | Operation::ReplicationGradient(_)
            | Operation::Fold(_)
    );
    let of = if backward { planes.input } else { planes.output };
    let count = planes.count * of.iter().product::<i64>();
    if count == 0 {
        return Ok(());
    }
    let functions = programs::functions(stream.device(), &text(planes.dtype), &KERNELS)?;
    let mut numbers = vec![planes.count];
    numbers.extend(planes.input);
    numbers.extend(planes.output);
    match operation {
        Operation::MaxPool(w)
        | Operation::AvgPool(w)
        | Operation::AvgPoolGradient(w)
        | Operation::Fold(w) => {
            [w.kernel, w.stride, w.pad, w.dilation].iter().for_each(|all| numbers.extend(all));
            numbers.extend([w.with_pad.into(), w.divisor.unwrap_or(0)]);
        }
        Operation::Resample(r) | Operation::ResampleGradient(r) => {
            numbers.extend(r.scale.map(|s| s.to_bits() as i64));
            numbers.extend([r.interpolation as i64, r.aligned.into()]);
        }
        Operation::ReflectionGradient(pad) | Operation::ReplicationGradient(pad) => {
            numbers.extend(pad);
        }
        _ => {}
    }
    let x = Argument::Pointer(x);
    let [out, found] = results.map(Argument::Pointer);
    let (kernel, mut arguments) = match operation {
        Operation::MaxPool(_) => (0, vec![x, out, found]),
        Operation::AvgPool(_) => (1, vec![x, out]),
        Operation::AvgPoolGradient(_) => (2, vec![x, out]),
        Operation::AdaptiveAvgPool => (3, vec![x, out]),
        Operation::AdaptiveMaxPool => (4, vec![x, out, found]),
        Operation::AdaptiveGradient => (5, vec![x, out]),
        Operation::Resample(r) if r.interpolation.is_antialiased() => (11, vec![x, out]),
        Operation::ResampleGradient(r) if r.interpolation.is_antialiased() => (12, vec![x, out]),
        Operation::Resample(_) => (6, vec![x, out]),
        Operation::ResampleGradient(_) => (7, vec![x, out]),
        Operation::ReflectionGradient(_) => (8, vec![x, out]),
        Operation::ReplicationGradient(_) => (9, vec![x, out]),
        Operation::Fold(_) => (10, vec![x, out]),
    };
    arguments.push(Argument::Numbers(&numbers));
    let blocks = ((count + i64::from(THREADS) - 1) / i64::from(THREADS)).min(BLOCKS) as u32;
    let launch = Launch { blocks: [blocks, 1, 1], threads: [THREADS, 1, 1], shared_bytes: 0 };
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[kernel].launch(stream, launch, &arguments)? };
    Ok(())
}

fn text(dtype: DType) -> String {
    let head = elements::head(dtype).expect("the dtype is computed with here");
    let least = match dtype {
        DType::F64 => "__longlong_as_double(0xfff0000000000000ll)",
        _ => "__int_as_float(0xff800000)",
    };
    format!("{head}#define LEAST {least}\n{}", include_str!("spatial.cu"))
}
