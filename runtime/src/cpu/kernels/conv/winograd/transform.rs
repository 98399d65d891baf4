//! The three transforms of Winograd's algorithm, on vectors of channels.

use super::shape::{Block, CHANNELS, Shape, Taps, Work};
use super::squares::{Column, MOST, Squares};
use crate::cpu::math::simd::{Lane, MAX_LANES, Simd, SimdTask};

/// Turns a square of at most `LANES` rows and columns around: `to[k][i] = from[i][k]`, steps from
/// one row to the next in elements. Rows that are not there count as zeros; of each row of `to`,
/// `write` elements are written.
///
/// # Safety
///
/// `rows` rows of `cols` elements are valid to read, `cols` rows of `write` elements to write.
#[inline(always)]
unsafe fn turn<S: Simd<Elem = f32>>(
    s: &mut S,
    (from, from_step): (*const f32, usize),
    (rows, cols): (usize, usize),
    (to, to_step): (*mut f32, usize),
    write: usize,
) {
    let zero = s.splat(0.0);
    let mut square = [zero; MAX_LANES];
    // SAFETY: the caller's contract.
    unsafe {
        if rows == S::LANES && cols == S::LANES {
            for (i, row) in square.iter_mut().enumerate().take(S::LANES) {
                *row = s.load(from.wrapping_add(i * from_step));
            }
        } else {
            for (i, row) in square.iter_mut().enumerate().take(S::LANES) {
                if i < rows {
                    *row = s.load_partial(from.wrapping_add(i * from_step), cols);
                }
            }
        }
        s.transpose(&mut square);
        if cols == S::LANES && write == S::LANES {
            for (k, row) in square.iter().enumerate().take(S::LANES) {
                s.store(to.wrapping_add(k * to_step), *row);
            }
        } else {
            for (k, row) in square.iter().enumerate().take(S::LANES) {
                if k < cols {
                    s.store_partial(to.wrapping_add(k * to_step), write, *row);
                }
            }
        }
    }
}

/// Pieces of at most `LANES` of `0..n`, as begin and length: where there are enough, the last one
/// is whole and overlaps its neighbour.
#[inline(always)]
fn pieces<S: Simd>(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n.div_ceil(S::LANES)).map(move |i| {
        let begin = (i * S::LANES).min(n.saturating_sub(S::LANES));
        (begin, S::LANES.min(n - begin))
    })
}

/// The inputs of a block of squares: `Bᵀ d B`, place by place, a row of channels for each square.
pub(super) struct Inputs<'a, Q> {
    pub(super) shape: &'a Shape,
    pub(super) block: &'a Block,
    pub(super) work: &'a Work,
    pub(super) input: *const f32,
    /// Room for the planes that the block sees, channels innermost.
    pub(super) planes: *mut f32,
    pub(super) to: *mut f32,
    pub(super) of: Q,
}

impl<'a, Q: Squares> Inputs<'a, Q> {
    /// # Safety
    ///
    /// The pointers are valid for the sizes of the shape and of the work.
    pub(super) unsafe fn run(self) {
        f32::dispatch(self)
    }

    /// Zeros in columns `begin..end` of a row of the planes.
    ///
    /// # Safety
    ///
    /// As [`Inputs::run`].
    #[inline(always)]
    unsafe fn zeros<S: Simd<Elem = f32>>(&self, s: &mut S, y: usize, (begin, end): (usize, usize)) {
        let zero = s.splat(0.0);
        let [_, width] = self.block.sees(Q::OUTPUTS);
        let row = self.planes.wrapping_add((y * width + begin) * CHANNELS);
        for i in (0..(end - begin) * CHANNELS).step_by(S::LANES) {
            // SAFETY: part of a row of the planes.
            unsafe { s.store(row.wrapping_add(i), zero) };
        }
    }

    /// The same task for other squares.
    pub(super) fn by<P: Squares>(self, of: P) -> Inputs<'a, P> {
        let Inputs { shape, block, work, input, planes, to, .. } = self;
        Inputs { shape, block, work, input, planes, to, of }
    }

    /// `Bᵀ d` for column `x` of the squares of a row of them, which begins at `planes`.
    ///
    /// # Safety
    ///
    /// As [`Inputs::run`].
    #[inline(always)]
    unsafe fn column<S: Simd<Elem = f32>>(
        &self,
        s: &mut S,
        planes: *const f32,
        x: usize,
    ) -> Column<S> {
        let [_, width] = self.block.sees(Q::OUTPUTS);
        let (at, step) = (planes.wrapping_add(x * CHANNELS), width * CHANNELS);
        let mut d = [s.splat(0.0); MOST];
        for (i, d) in d.iter_mut().enumerate().take(Q::INPUTS) {
            // SAFETY: the rows of the planes that a square sees.
            *d = unsafe { s.load(at.wrapping_add(i * step)) };
        }
        self.of.seen(s, d)
    }

    /// The elements of some channels of an image that the block sees, with zeros around the image.
    ///
    /// # Safety
    ///
    /// As [`Inputs::run`].
    #[inline(always)]
    unsafe fn fill<S: Simd<Elem = f32>>(&self, s: &mut S, image: usize, channel: usize) {
        let shape = self.shape;
        let [height, width] = self.block.sees(Q::OUTPUTS);
        // what of `0..size`, which begins `start` inside the padded image, is in the image
        let inside = |d: usize, start: usize, size: usize| {
            let begin = shape.padding[d].saturating_sub(start).min(size);
            let end = (shape.input[d] + shape.padding[d]).saturating_sub(start);
            (begin, end.clamp(begin, size))
        };
        let (top, left) = (Q::OUTPUTS * self.block.rows.0, Q::OUTPUTS * self.block.cols.0);
        let (y0, y1) = inside(0, top, height);
        let (x0, x1) = inside(1, left, width);
        let plane = shape.input_plane();
        for y in 0..height {
            // SAFETY: rows and columns of the planes.
            unsafe {
                if y < y0 || y >= y1 || x0 == x1 {
                    self.zeros(s, y, (0, width));
                    continue;
                }
                self.zeros(s, y, (0, x0));
                self.zeros(s, y, (x1, width));
            }
            let row = (top + y - shape.padding[0]) * shape.input[1] + left + x0 - shape.padding[1];
            for part in (0..CHANNELS).step_by(S::LANES) {
                let channel = channel + part;
                let rows = shape.inputs.saturating_sub(channel).min(S::LANES);
                let from = self.input.wrapping_add((image * shape.inputs + channel) * plane + row);
                let to = self.planes.wrapping_add((y * width + x0) * CHANNELS + part);
                for (x, cols) in pieces::<S>(x1 - x0) {
                    let to = (to.wrapping_add(x * CHANNELS), CHANNELS);
                    // SAFETY: a run of the image's rows and of a row of the planes.
                    unsafe { turn(s, (from.wrapping_add(x), plane), (rows, cols), to, S::LANES) };
                }
            }
        }
    }

    /// The squares of one row, of as many channels as a vector has.
    ///
    /// # Safety
    ///
    /// `planes` is where the row's squares begin, `to` where the first of them goes.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // four columns alike
    unsafe fn row<S: Simd<Elem = f32>>(&self, s: &mut S, planes: *const f32, to: *mut f32) {
        let [square, place] = self.work.seen;
        let mut columns = [[s.splat(0.0); MOST]; MOST];
        for (x, column) in columns.iter_mut().enumerate().take(2) {
            // SAFETY: as said.
            *column = unsafe { self.column(s, planes, x) };
        }
        for x in 0..self.block.cols.1 - self.block.cols.0 {
            for k in 2..Q::INPUTS {
                // SAFETY: as above.
                columns[k] = unsafe { self.column(s, planes, Q::OUTPUTS * x + k) };
            }
            let to = to.wrapping_add(x * square);
            for i in 0..Q::INPUTS {
                let mut line = columns[0];
                for k in 0..Q::INPUTS {
                    line[k] = columns[k][i];
                }
                let places = self.of.seen(s, line);
                for (j, v) in places.into_iter().enumerate().take(Q::INPUTS) {
                    // SAFETY: the rows of the transform have room for whole vectors.
                    unsafe { s.store(to.wrapping_add((Q::INPUTS * i + j) * place), v) };
                }
            }
            // squares overlap by two columns
            (columns[0], columns[1]) = (columns[Q::OUTPUTS], columns[Q::OUTPUTS + 1]);
        }
    }
}

impl<Q: Squares> SimdTask<f32> for Inputs<'_, Q> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = f32>>(self, mut s: S) {
        let s = &mut s;
        let rows = self.block.rows.1 - self.block.rows.0;
        let cols = self.block.cols.1 - self.block.cols.0;
        let [_, width] = self.block.sees(Q::OUTPUTS);
        for channel in (0..self.shape.inputs).step_by(CHANNELS) {
            for image in self.block.images.0..self.block.images.1 {
                let first = (image - self.block.images.0) * rows * cols;
                // SAFETY: the contract of `Inputs::run`.
                unsafe {
                    self.fill(s, image, channel);
                    for part in (0..CHANNELS).step_by(S::LANES) {
                        if channel + part >= self.shape.inputs {
                            break;
                        }
                        for y in 0..rows {
                            let above = Q::OUTPUTS * y * width;
                            let planes = self.planes.wrapping_add(above * CHANNELS + part);
                            let at = (first + y * cols) * self.work.seen[0] + channel + part;
                            self.row(s, planes, self.to.wrapping_add(at));
                        }
                    }
                }
            }
        }
    }
}

/// The outputs of a block of squares: `Aᵀ m A` of some channels. Says whether all were finite, for
/// each image.
pub(super) struct Outputs<'a, Q> {
    pub(super) shape: &'a Shape,
    pub(super) block: &'a Block,
    pub(super) work: &'a Work,
    /// The products, place by place, a row of channels for each square.
    pub(super) from: *const f32,
    /// The channel that the rows begin with, and how many of them are outputs.
    pub(super) channels: (usize, usize),
    /// Room for the planes of a block, channels innermost.
    pub(super) planes: *mut f32,
    pub(super) output: *mut f32,
    /// What is done when channels of an image are there, and whether they were finite: image,
    /// channels `begin..end`, finite.
    pub(super) done: &'a dyn Fn(usize, (usize, usize), bool),
    pub(super) of: Q,
}

impl<'a, Q: Squares> Outputs<'a, Q> {
    /// The same task for other squares.
    pub(super) fn by<P: Squares>(self, of: P) -> Outputs<'a, P> {
        let Outputs { shape, block, work, from, channels, planes, output, done, .. } = self;
        Outputs { shape, block, work, from, channels, planes, output, done, of }
    }

    /// # Safety
    ///
    /// The pointers are valid for the sizes of the shape and of the work.
    pub(super) unsafe fn run(self) {
        f32::dispatch(self)
    }

    /// One row of squares, of as many channels as a vector has. Returns zeros where all is finite.
    ///
    /// # Safety
    ///
    /// `from` is the row's first square, `planes` where its outputs go.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // as above
    unsafe fn row<S: Simd<Elem = f32>>(
        &self,
        s: &mut S,
        from: *const f32,
        planes: *mut f32,
        mut spread: S::F,
    ) -> S::F {
        let zero = s.splat(0.0);
        let [square, place] = self.work.sums;
        let cols = self.block.cols.1 - self.block.cols.0;
        for x in 0..cols {
            let from = from.wrapping_add(x * square);
            let mut columns = [[zero; MOST]; MOST];
            for (j, column) in columns.iter_mut().enumerate().take(Q::INPUTS) {
                let mut m = [zero; MOST];
                for (i, m) in m.iter_mut().enumerate().take(Q::INPUTS) {
                    // SAFETY: a place of a square.
                    *m = unsafe { s.load(from.wrapping_add((Q::INPUTS * i + j) * place)) };
                }
                *column = self.of.sums(s, m);
            }
            for i in 0..Q::OUTPUTS {
                let mut line = columns[0];
                for k in 0..Q::INPUTS {
                    line[k] = columns[k][i];
                }
                let y = self.of.sums(s, line);
                for (j, y) in y.into_iter().enumerate().take(Q::OUTPUTS) {
                    let nothing = s.mul(y, zero);
                    spread = s.add(spread, nothing);
                    let to = (i * Q::OUTPUTS * cols + Q::OUTPUTS * x + j) * CHANNELS;
                    // SAFETY: rows of the planes.
                    unsafe { s.store(planes.wrapping_add(to), y) };
                }
            }
        }
        spread
    }

    /// The planes into the output.
    ///
    /// # Safety
    ///
    /// As [`Outputs::run`].
    #[inline(always)]
    unsafe fn store<S: Simd<Elem = f32>>(&self, s: &mut S, image: usize, channel: usize) {
        let shape = self.shape;
        let cols = Q::OUTPUTS * (self.block.cols.1 - self.block.cols.0);
        let (top, left) = (Q::OUTPUTS * self.block.rows.0, Q::OUTPUTS * self.block.cols.0);
        let height = (Q::OUTPUTS * self.block.rows.1).min(shape.output[0]) - top;
        let width = (Q::OUTPUTS * self.block.cols.1).min(shape.output[1]) - left;
        let plane = shape.output_plane();
        let end = self.channels.0 + self.channels.1;
        for y in 0..height {
            for part in (0..CHANNELS).step_by(S::LANES) {
                let channel = channel + part;
                let count = end.saturating_sub(channel).min(S::LANES);
                let from = self.planes.wrapping_add(y * cols * CHANNELS + part);
                let at = (image * shape.outputs + channel) * plane + (top + y) * shape.output[1];
                let to = self.output.wrapping_add(at + left);
                for (x, rows) in pieces::<S>(width) {
                    let from = (from.wrapping_add(x * CHANNELS).cast_const(), CHANNELS);
                    // SAFETY: a run of a row of the planes and of the output's rows.
                    unsafe {
                        turn(s, from, (rows, count), (to.wrapping_add(x), plane), rows);
                    }
                }
            }
        }
    }
}

impl<Q: Squares> SimdTask<f32> for Outputs<'_, Q> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = f32>>(self, mut s: S) {
        let s = &mut s;
        let rows = self.block.rows.1 - self.block.rows.0;
        let cols = self.block.cols.1 - self.block.cols.0;
        for at in (0..self.channels.1).step_by(CHANNELS) {
            for image in self.block.images.0..self.block.images.1 {
                let first = (image - self.block.images.0) * rows * cols;
                let mut spread = s.splat(0.0);
                // SAFETY: the contract of `Outputs::run`.
                unsafe {
                    for part in (0..CHANNELS).step_by(S::LANES) {
                        if at + part >= self.channels.1 {
                            break;
                        }
                        for y in 0..rows {
                            let from = (first + y * cols) * self.work.sums[0] + at + part;
                            let above = Q::OUTPUTS * Q::OUTPUTS * y * cols;
                            let planes = self.planes.wrapping_add(above * CHANNELS + part);
                            spread = self.row(s, self.from.wrapping_add(from), planes, spread);
                        }
                    }
                    self.store(s, image, self.channels.0 + at);
                }
                let nothing = s.ne(spread, spread);
                let channel = self.channels.0 + at;
                let end = (channel + CHANNELS).min(self.channels.0 + self.channels.1);
                (self.done)(image, (channel, end), !s.any(nothing));
            }
        }
    }
}

/// Some panels of the weights: `G g Gᵀ`, in each panel the places, in each the input channels.
pub(super) struct Weights<Q> {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) taps: Taps,
    /// Output channels `begin..end`; those that are not there give zeros.
    pub(super) columns: (usize, usize),
    /// Columns of a panel.
    pub(super) panel: usize,
    /// From one place to the next.
    pub(super) place: usize,
    pub(super) to: *mut f32,
    pub(super) of: Q,
}

/// Taps of a kernel.
const TAPS: usize = 9;

impl<Q: Squares> Weights<Q> {
    /// The same task for other squares.
    pub(super) fn by<P: Squares>(self, of: P) -> Weights<P> {
        let Weights { inputs, outputs, taps, columns, panel, place, to, .. } = self;
        Weights { inputs, outputs, taps, columns, panel, place, to, of }
    }

    /// # Safety
    ///
    /// The weight has the sizes said, `to` room for the columns.
    pub(super) unsafe fn run(self) {
        f32::dispatch(self)
    }
}

impl<Q: Squares> SimdTask<f32> for Weights<Q> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = f32>>(self, mut s: S) {
        let s = &mut s;
        // kernels of several input channels follow one another, or not
        let together = if self.taps.in_step == TAPS { CHANNELS } else { 1 };
        let mut turned = [0f32; CHANNELS * TAPS * MAX_LANES];
        let places = Q::INPUTS * Q::INPUTS;
        for first in (self.columns.0..self.columns.1).step_by(S::LANES) {
            let rows = self.outputs.saturating_sub(first).min(S::LANES);
            let column = first - self.columns.0;
            let to = self
                .to
                .wrapping_add(column / self.panel * places * self.place + column % self.panel);
            for input in (0..self.inputs).step_by(together) {
                let count = together.min(self.inputs - input);
                let from = self
                    .taps
                    .at
                    .wrapping_add(first * self.taps.out_step + input * self.taps.in_step);
                for (k, cols) in pieces::<S>(count * TAPS) {
                    let to = turned[k * S::LANES..].as_mut_ptr();
                    // SAFETY: the taps of these channels, by the contract of `Weights::run`.
                    unsafe {
                        turn(
                            s,
                            (from.wrapping_add(k), self.taps.out_step),
                            (rows, cols),
                            (to, S::LANES),
                            S::LANES,
                        );
                    }
                }
                for (i, g) in turned.chunks_exact(TAPS * S::LANES).take(count).enumerate() {
                    let at = |y: usize, x: usize| {
                        let tap = 3 * y + x;
                        let tap = if self.taps.flipped { TAPS - 1 - tap } else { tap };
                        g[tap * S::LANES..].as_ptr()
                    };
                    let zero = s.splat(0.0);
                    let mut lines = [[zero; 3]; MOST];
                    for x in 0..3 {
                        // SAFETY: three vectors of the taps that were turned around.
                        let g = unsafe { [s.load(at(0, x)), s.load(at(1, x)), s.load(at(2, x))] };
                        let column = self.of.taps(s, g);
                        for (line, v) in lines.iter_mut().zip(column) {
                            line[x] = v;
                        }
                    }
                    for (y, line) in lines.into_iter().enumerate().take(Q::INPUTS) {
                        for (x, v) in self.of.taps(s, line).into_iter().enumerate().take(Q::INPUTS)
                        {
                            let at = (Q::INPUTS * y + x) * self.place + (input + i) * self.panel;
                            // SAFETY: a row of the panel, which vectors do not cross.
                            unsafe { s.store(to.wrapping_add(at), v) };
                        }
                    }
                }
            }
        }
    }
}
