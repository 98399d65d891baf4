//! Sampling images and volumes at the points of a grid, and the gradients of that.
//!
//! A thread computes a point for all channels, or an element of the input's gradient. For that the elements that
//! points are made of are put into order by where they are (a stable sort), so that nothing is added atomically.

use crate::driver::{Argument, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const KERNELS: [&str; 4] = ["sample", "grid_gradient", "places", "input_gradient"];

/// How elements between the input's are made up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Linear in each axis.
    Linear,
    /// The nearest element.
    Nearest,
    /// Cubic in each of two axes.
    Cubic,
}

/// What lies outside of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Padding {
    /// Zeros.
    Zeros,
    /// The elements of the edge.
    Border,
    /// The mirror image.
    Reflection,
}

/// A call. Tensors have no gaps: an input of (batch, channels, ...), a grid of (batch, points, axes, x first),
/// values of (batch, channels, points).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// Of all of them.
    pub dtype: DType,
    /// How many inputs and grids.
    pub batch: i64,
    /// Planes of an input.
    pub channels: i64,
    /// Depth, height and width of the planes; the depth of an image is 1.
    pub input: [i64; 3],
    /// Points of a grid.
    pub points: i64,
    /// 2 or 3 axes.
    pub axes: i64,
    /// How to interpolate.
    pub mode: Mode,
    /// What is outside.
    pub padding: Padding,
    /// Whether -1 and 1 are the middles of the outermost elements, or their outer edges.
    pub aligned: bool,
}

impl Sampling {
    /// Whether there are kernels for it.
    ///
    /// ```
    /// use straightline_cuda::grid::{Mode, Padding, Sampling};
    /// use straightline_passes::ir::DType;
    /// let (mode, padding) = (Mode::Linear, Padding::Zeros);
    /// let input = [1, 4, 4];
    /// let s = Sampling { dtype: DType::F16, batch: 1, channels: 2, input, points: 9, axes: 2, mode, padding, aligned: true };
    /// assert!(s.is_served() && !Sampling { mode: Mode::Cubic, axes: 3, ..s }.is_served());
    /// ```
    pub fn is_served(&self) -> bool {
        let axes = self.axes == 2 || (self.axes == 3 && self.mode != Mode::Cubic);
        axes && self.dtype.is_floating() && elements::head(self.dtype).is_some()
    }

    /// How many elements of the input a point is made of at most.
    pub fn taps(&self) -> i64 {
        match self.mode {
            Mode::Linear => 1 << self.axes,
            Mode::Nearest => 1,
            Mode::Cubic => 16,
        }
    }

    /// Elements of a plane.
    pub fn plane(&self) -> i64 {
        self.input.iter().product()
    }

    fn numbers(&self) -> Vec<i64> {
        let mut all = vec![self.batch, self.channels];
        all.extend(self.input);
        all.extend([self.points, self.axes, self.mode as i64, self.padding as i64]);
        all.push(self.aligned.into());
        all
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        kernel: usize,
        count: i64,
        addresses: &[u64],
        more: &[i64],
    ) -> Result<(), ProgramError> {
        if count == 0 {
            return Ok(());
        }
        let head = elements::head(self.dtype).expect("the dtype is computed with here");
        let text = format!("{head}{}", include_str!("grid.cu"));
        let functions = programs::functions(stream.device(), &text, &KERNELS)?;
        let numbers = self.numbers();
        let mut arguments: Vec<_> = addresses.iter().map(|a| Argument::Pointer(*a)).collect();
        arguments.push(Argument::Numbers(&numbers));
        if !more.is_empty() {
            arguments.push(Argument::Numbers(more));
        }
        // SAFETY: the arguments are the kernel's, and the caller's contract.
        unsafe { functions[kernel].launch(stream, elements::launch(count), &arguments) }?;
        Ok(())
    }
}

/// Queues the values at the points: of `input` and `grid`, to `values`.
///
/// # Safety
///
/// The addresses lead to so many elements, memory of the stream's device until it has come so far; nothing
/// overlaps the results. So below.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`Sampling::is_served`] says no. So below.
pub unsafe fn sample(
    stream: &Stream,
    s: &Sampling,
    [input, grid, values]: [u64; 3],
) -> Result<(), ProgramError> {
    // SAFETY: the caller's contract.
    unsafe { s.launch(stream, 0, s.batch * s.points, &[input, grid, values], &[]) }
}

/// Queues the gradient by the grid: of the values' gradient, `input` and `grid`, to `out`.
///
/// # Safety
///
/// As for [`sample`].
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn grid_gradient(
    stream: &Stream,
    s: &Sampling,
    addresses: [u64; 4],
) -> Result<(), ProgramError> {
    // SAFETY: the caller's contract.
    unsafe { s.launch(stream, 1, s.batch * s.points, &addresses, &[]) }
}

/// Queues where the elements are that the points of `grid` are made of, [`Sampling::taps`] of them for each:
/// `keys` (of `i64`) count all planes of the batch, and are one beyond all where there is none. `weights` are of
/// the call's dtype.
///
/// # Safety
///
/// As for [`sample`].
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn places(
    stream: &Stream,
    s: &Sampling,
    [grid, keys, weights]: [u64; 3],
) -> Result<(), ProgramError> {
    let addresses = [grid, keys, weights];
    // SAFETY: the caller's contract.
    unsafe { s.launch(stream, 2, s.batch * s.points, &addresses, &[s.taps()]) }
}

/// Queues the gradient by the input: of the values' gradient, the weights of [`places`], `order` (which brings the
/// keys of [`places`] into ascending order) and `begins` (where each element's are in that order, and one more), to
/// `out`.
///
/// # Safety
///
/// As for [`sample`].
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn input_gradient(
    stream: &Stream,
    s: &Sampling,
    [grad, weights, order, begins, out]: [u64; 5],
) -> Result<(), ProgramError> {
    let (count, addresses) =
        (s.batch * s.channels * s.plane(), [grad, weights, order, begins, out]);
    // SAFETY: the caller's contract.
    unsafe { s.launch(stream, 3, count, &addresses, &[s.taps()]) }
}
