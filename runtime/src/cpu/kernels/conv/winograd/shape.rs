//! The sizes of a convolution by Winograd's algorithm, its blocks of squares and their memory.

use crate::cpu::kernels::conv::Geometry;
use crate::cpu::kernels::matmul::single::PanelProduct;

/// Channels that are transformed together.
pub(super) const CHANNELS: usize = 16;
/// Most places of squares of inputs in a block, over all its squares.
pub(super) const BLOCK_PLACES: usize = 1024;
/// Squares from which those of 4x4 outputs are worth it.
const LEAST_SQUARES: usize = 64;
/// Bytes of transformed weights that a block of squares meets before its outputs are transformed.
pub(super) const CHUNK: usize = 512 << 10;

/// The sizes of a convolution that the algorithm computes: height, then width.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Shape {
    /// Rows and columns of outputs of a square: 2 or 4.
    pub(super) edge: usize,
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) padding: [usize; 2],
}

/// How a weight lies in memory.
#[derive(Clone, Copy)]
pub(in super::super) struct Taps {
    pub(super) at: *const f32,
    /// From one output channel to the next.
    pub(super) out_step: usize,
    /// From one input channel to the next.
    pub(super) in_step: usize,
    /// Whether the taps are in the opposite order.
    pub(super) flipped: bool,
}
// SAFETY: they are read only.
unsafe impl Sync for Taps {}

impl Shape {
    /// The convolution itself, if the algorithm computes it and is worth it; with `fast_math` by
    /// squares of 4x4 outputs, if these are worth it.
    pub(in super::super) fn forward(g: &Geometry, fast_math: bool) -> Option<Shape> {
        let shape = Shape {
            edge: 2,
            batch: g.batch,
            inputs: g.in_channels,
            outputs: g.out_channels,
            input: [g.input[1], g.input[2]],
            output: [g.output[1], g.output[2]],
            padding: [g.padding[1], g.padding[2]],
        };
        let fits = shape.fits(g) && shape.pays();
        let larger = Shape { edge: 4, ..shape };
        fits.then_some(if fast_math && larger.pays_more() { larger } else { shape })
    }

    /// The gradient of the input: a convolution of the gradient of the output with the taps in
    /// opposite order.
    pub(in super::super) fn backward(g: &Geometry) -> Option<Shape> {
        let shape = Shape {
            edge: 2,
            batch: g.batch,
            inputs: g.out_channels,
            outputs: g.in_channels,
            input: [g.output[1], g.output[2]],
            output: [g.input[1], g.input[2]],
            padding: [2usize.checked_sub(g.padding[1])?, 2usize.checked_sub(g.padding[2])?],
        };
        (shape.fits(g) && shape.pays()).then_some(shape)
    }

    pub(super) fn fits(&self, g: &Geometry) -> bool {
        let sizes = |d: usize| {
            self.input[d] + 2 * self.padding[d] == self.output[d] + 2 && self.input[d] > 0
        };
        g.kernel == [1, 3, 3]
            && g.stride == [1; 3]
            && g.dilation[1..] == [1; 2]
            && (g.input[0], g.output[0], g.padding[0], g.groups) == (1, 1, 0, 1)
            && self.padding.iter().all(|p| *p <= 2)
            && sizes(0)
            && sizes(1)
    }

    /// Whether the sum written out takes longer, the weights' transform counted. (Transformed
    /// weights are not a reason to choose: eager code has none, and gives the same bits.)
    pub(super) fn pays(&self) -> bool {
        let positions = self.batch * self.output[0] * self.output[1];
        self.inputs >= 32
            && self.outputs >= 32
            && self.inputs * self.outputs <= 1 << 20
            && self.output.iter().all(|n| *n >= 4)
            && positions >= 48
    }

    /// Whether squares of 4x4 outputs take less time than squares of 2x2, the weights transformed
    /// before. Theirs are 2.25 times as large, and read once for each block of squares.
    fn pays_more(&self) -> bool {
        let squares = self.batch * self.squares().iter().product::<usize>();
        squares >= LEAST_SQUARES
    }

    /// Rows and columns of outputs of a square.
    pub(in super::super) fn edge(&self) -> usize {
        self.edge
    }

    /// Places of a square of inputs.
    pub(super) fn places(&self) -> usize {
        (self.edge + 2) * (self.edge + 2)
    }

    /// The weight of the convolution that [`Shape::forward`] describes.
    pub(in super::super) fn forward_taps(&self, at: *const f32) -> Taps {
        Taps { at, out_step: 9 * self.inputs, in_step: 9, flipped: false }
    }

    /// The weight of the convolution that [`Shape::backward`] describes.
    pub(in super::super) fn backward_taps(&self, at: *const f32) -> Taps {
        Taps { at, out_step: 9, in_step: 9 * self.outputs, flipped: true }
    }

    /// Rows and columns of squares.
    pub(super) fn squares(&self) -> [usize; 2] {
        self.output.map(|n| n.div_ceil(self.edge))
    }

    /// Elements of an input channel.
    pub(super) fn input_plane(&self) -> usize {
        self.input[0] * self.input[1]
    }

    /// Elements of an output channel.
    pub(super) fn output_plane(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Columns of the transformed weights, zeros at the end included.
    pub(super) fn columns(&self) -> usize {
        self.outputs.next_multiple_of(PanelProduct::width().max(CHANNELS))
    }

    /// From one place to the next in a panel of transformed weights. (At a distance of a power of
    /// two, all places would share the same few lines of the first cache.)
    pub(super) fn place(&self) -> usize {
        self.inputs * PanelProduct::width() + CHANNELS
    }

    /// Elements of the transformed weights of some columns.
    pub(super) fn transformed(&self, columns: usize) -> usize {
        self.places() * self.place() * (columns / PanelProduct::width())
    }

    /// Columns of a chunk.
    pub(super) fn chunk(&self) -> usize {
        let least = PanelProduct::width().max(CHANNELS);
        let fit = CHUNK / (self.places() * self.inputs * size_of::<f32>());
        (fit / least * least).clamp(least, 64).min(self.columns())
    }
}

/// A block of squares: some images, rows and columns of squares, each `begin..end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) images: (usize, usize),
    pub(super) rows: (usize, usize),
    pub(super) cols: (usize, usize),
}

impl Block {
    pub(super) fn squares(&self) -> usize {
        let len = |(begin, end): (usize, usize)| end - begin;
        len(self.images) * len(self.rows) * len(self.cols)
    }

    /// Elements of the inputs that the squares of one image see, per channel: rows and columns.
    pub(super) fn sees(&self, edge: usize) -> [usize; 2] {
        [self.rows, self.cols].map(|(begin, end)| edge * (end - begin) + 2)
    }
}

/// The blocks of a shape.
pub(super) struct Blocks {
    pub(super) shape: Shape,
    /// Pieces of the batch, of the rows and of the columns of squares.
    pub(super) pieces: [usize; 3],
}

impl Blocks {
    pub(super) fn new(shape: &Shape) -> Blocks {
        let [rows, cols] = shape.squares();
        let most = BLOCK_PLACES / shape.places();
        let (images, rows_in, cols_in) = if rows * cols <= most {
            (most / (rows * cols), rows, cols)
        } else {
            (1, (most / cols).max(1), cols.min(most))
        };
        let pieces = [shape.batch.div_ceil(images), rows.div_ceil(rows_in), cols.div_ceil(cols_in)];
        Blocks { shape: *shape, pieces }
    }

    pub(super) fn count(&self) -> usize {
        self.pieces.iter().product()
    }

    pub(super) fn at(&self, i: usize) -> Block {
        let [a, b, c] = self.pieces;
        let [rows, cols] = self.shape.squares();
        let piece = |n: usize, at: usize, of: usize| (n * at / of, n * (at + 1) / of);
        Block {
            images: piece(self.shape.batch, i / (b * c), a),
            rows: piece(rows, i / c % b, b),
            cols: piece(cols, i % c, c),
        }
    }
}

/// The memory of one block.
pub(super) struct Work {
    /// Transformed inputs: from one square to the next, from one place to the next.
    pub(super) seen: [usize; 2],
    /// Products, the same.
    pub(super) sums: [usize; 2],
    /// Where in the scratch are: the products, the planes that are turned around, the weights.
    pub(super) at: [usize; 3],
    pub(super) len: usize,
}

impl Work {
    pub(super) fn new(shape: &Shape, block: &Block, chunk: usize, weights: bool) -> Work {
        let squares = block.squares();
        // lines of 64 bytes, at distances that are no power of two
        let row = shape.inputs.next_multiple_of(CHANNELS) + CHANNELS;
        let seen = [row, squares * row + CHANNELS];
        let sums = [chunk, squares * chunk + CHANNELS];
        let [height, width] = block.sees(shape.edge);
        let planes = height * width * CHANNELS;
        let first = shape.places() * seen[1];
        let second = first + shape.places() * sums[1];
        let third = second + planes;
        let len = third + if weights { shape.transformed(chunk) } else { 0 };
        Work { seen, sums, at: [first, second, third], len }
    }
}
