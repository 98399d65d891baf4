//! The numbers that make the kernel of gathered products one of a convolution's directions.

use super::{Convolution, ConvolutionError, Direction, FOLLOWS, Geometry};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Follow;

/// Rows and columns of a tile.
const TILE: i64 = 64;
/// So many blocks keep a GPU busy.
const ENOUGH: i64 = 256;
/// A part of a sum is at least so long.
const PART: i64 = 256;
/// Groups of no more columns are not computed by tiles.
const FEW: i64 = 4;
/// Coordinates are less than this.
const FAR: i64 = 1 << 28;

/// How results are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Tiles,
    /// A thread for each.
    Points,
    /// A block for each.
    Blocks,
}

/// What of the numbers is in the text of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Structure {
    /// Whether neighbours of the inner dimension are nearer to each other in `a` than those of the rows.
    pub(super) rows_along_inner: bool,
    /// Whether they are in `b`, than those of the columns.
    pub(super) cols_along_inner: bool,
    /// Whether a divisor is not 1.
    pub(super) divides: bool,
    /// Spatial dimensions of more than one position or step; the last one counts always.
    pub(super) dimensions: usize,
    /// Whether all distances within a group fit 32 bits.
    pub(super) near: bool,
}

/// `Gathered` of the kernel, in its order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    groups: i64,
    rows: i64,
    cols: i64,
    inner: i64,
    row_sizes: [i64; 4],
    inner_sizes: [i64; 4],
    row_first_fastest: bool,
    inner_first_fastest: bool,
    row_a: i64,
    inner_a: i64,
    a: [i64; 3],
    base: [i64; 3],
    row_step: [i64; 3],
    inner_step: [i64; 3],
    divisor: [i64; 3],
    limit: [i64; 3],
    inner_b: [i64; 4],
    col_b: i64,
    row_c: [i64; 4],
    col_c: i64,
    group_a: i64,
    group_b: i64,
    group_c: i64,
    splits: i64,
    split: i64,
    vector: [i64; FOLLOWS],
    /// Not of the kernel.
    direction: Direction,
}

fn digits(first: i64, [z, y, x]: [i64; 3]) -> [i64; 4] {
    [first, z, y, x]
}

/// The product, if it has one of 64 bits and nothing is negative.
fn count(sizes: &[i64]) -> Option<i64> {
    sizes.iter().try_fold(1i64, |all, n| if *n < 0 { None } else { all.checked_mul(*n) })
}

/// Whether all positions that are looked at are coordinates of the kernel.
fn fits(g: &Geometry) -> bool {
    let channels = g.groups > 0 && g.channels % g.groups == 0 && g.filters % g.groups == 0;
    let each = (0..3).all(|d| {
        let small = |n: i64| (0..FAR).contains(&n);
        let reach = |n: i64, step: i64| (n - 1).max(0).checked_mul(step).is_some_and(small);
        let sizes = [g.input[d], g.kernel[d], g.output[d]].into_iter().all(small);
        let steps =
            g.stride[d] > 0 && g.dilation[d] > 0 && g.padding[d].unsigned_abs() < FAR as u64;
        sizes && steps && reach(g.output[d], g.stride[d]) && reach(g.kernel[d], g.dilation[d])
    });
    channels && each
}

impl Numbers {
    pub(super) fn of(c: &Convolution) -> Result<Numbers, ConvolutionError> {
        let g = &c.geometry;
        let refused = || ConvolutionError::Geometry { geometry: Box::new(*g) };
        if crate::emit::Numeric::floating(c.dtype).is_none() {
            return Err(ConvolutionError::DType { dtype: c.dtype });
        }
        let vectors: Vec<i64> = (c.bias.iter().chain(c.follow.iter().filter_map(Follow::operand)))
            .map(|v| v.stride)
            .collect();
        if vectors.len() > FOLLOWS {
            return Err(ConvolutionError::Follows { count: vectors.len() });
        }
        if !fits(g) {
            return Err(refused());
        }
        let (channels, filters) = (g.channels / g.groups, g.filters / g.groups);
        let split = |s: [i64; 5]| -> (i64, i64, [i64; 3]) { (s[0], s[1], [s[2], s[3], s[4]]) };
        let (in_n, in_c, in_s) = split(c.input.strides);
        let (w_f, w_c, w_s) = split(c.weight.strides);
        let (out_n, out_f, out_s) = split(c.output.strides);
        let by_group = (channels * in_c, filters * w_f, filters * out_f);
        let before = g.padding.map(|p| -p);
        let mut numbers = match c.direction {
            Direction::Output => Numbers {
                row_sizes: digits(g.batch, g.output),
                inner_sizes: digits(channels, g.kernel),
                cols: filters,
                row_a: in_n,
                inner_a: in_c,
                a: in_s,
                base: before,
                row_step: g.stride,
                inner_step: g.dilation,
                divisor: [1; 3],
                limit: g.input,
                inner_b: digits(w_c, w_s),
                col_b: w_f,
                row_c: digits(out_n, out_s),
                col_c: out_f,
                group_a: by_group.0,
                group_b: by_group.1,
                group_c: by_group.2,
                ..Numbers::none(c.direction)
            },
            Direction::Input => Numbers {
                row_sizes: digits(g.batch, g.input),
                inner_sizes: digits(filters, g.kernel),
                cols: channels,
                row_a: out_n,
                inner_a: out_f,
                a: out_s,
                base: g.padding,
                row_step: [1; 3],
                inner_step: g.dilation.map(|d| -d),
                divisor: g.stride,
                limit: g.output,
                inner_b: digits(w_f, w_s),
                col_b: w_c,
                row_c: digits(in_n, in_s),
                col_c: in_c,
                group_a: by_group.2,
                group_b: by_group.1,
                group_c: by_group.0,
                ..Numbers::none(c.direction)
            },
            Direction::Weight => Numbers {
                row_sizes: digits(channels, g.kernel),
                inner_sizes: digits(g.batch, g.output),
                cols: filters,
                row_a: in_c,
                inner_a: in_n,
                a: in_s,
                base: before,
                row_step: g.dilation,
                inner_step: g.stride,
                divisor: [1; 3],
                limit: g.input,
                inner_b: digits(out_n, out_s),
                col_b: out_f,
                row_c: digits(w_c, w_s),
                col_c: w_f,
                group_a: by_group.0,
                group_b: by_group.2,
                group_c: by_group.1,
                ..Numbers::none(c.direction)
            },
        };
        numbers.groups = g.groups;
        numbers.rows = count(&numbers.row_sizes).ok_or_else(refused)?;
        numbers.inner = count(&numbers.inner_sizes).ok_or_else(refused)?;
        count(&[g.groups, numbers.rows, numbers.cols]).ok_or_else(refused)?;
        // blocks along rows are numbered by 31 bits
        if numbers.rows / TILE >= i64::from(i32::MAX) {
            return Err(refused());
        }
        // the digit whose elements are neighbours changes the fastest
        let steps = |n: &Numbers, by: [i64; 3]| (n.a[2] * by[2]).abs();
        numbers.row_first_fastest = numbers.row_a.abs() < steps(&numbers, numbers.row_step);
        numbers.inner_first_fastest = numbers.inner_a.abs() < steps(&numbers, numbers.inner_step);
        for (to, stride) in numbers.vector.iter_mut().zip(vectors) {
            *to = stride;
        }
        let [x, y, _] = numbers.tiles();
        let busy = x * y.max(1) * numbers.groups;
        let longest = (numbers.inner + PART - 1) / PART;
        let splits = if busy == 0 { 1 } else { (ENOUGH / busy).min(longest).max(1) };
        numbers.split(if numbers.way() == Way::Tiles { splits } else { 1 });
        Ok(numbers)
    }

    fn none(direction: Direction) -> Numbers {
        Numbers {
            groups: 0,
            rows: 0,
            cols: 0,
            inner: 0,
            row_sizes: [0; 4],
            inner_sizes: [0; 4],
            row_first_fastest: false,
            inner_first_fastest: false,
            row_a: 0,
            inner_a: 0,
            a: [0; 3],
            base: [0; 3],
            row_step: [0; 3],
            inner_step: [0; 3],
            divisor: [1; 3],
            limit: [0; 3],
            inner_b: [0; 4],
            col_b: 0,
            row_c: [0; 4],
            col_c: 0,
            group_a: 0,
            group_b: 0,
            group_c: 0,
            splits: 1,
            split: 0,
            vector: [0; FOLLOWS],
            direction,
        }
    }

    /// Splits sums into so many parts.
    pub(super) fn split(&mut self, parts: i64) {
        // whole slices of the inner dimension
        let each = (self.inner + parts - 1) / parts;
        self.split = (each + 15) / 16 * 16;
        self.splits = if parts == 1 || self.split == 0 {
            1
        } else {
            (self.inner + self.split - 1) / self.split
        };
    }

    pub(super) fn splits(&self) -> i64 {
        self.splits
    }

    pub(super) fn results(&self) -> i64 {
        self.groups * self.rows * self.cols
    }

    /// Memory for the parts of sums.
    pub(super) fn parts_bytes(&self, dtype: DType) -> usize {
        match self.splits {
            1 => 0,
            splits => (splits * self.results()) as usize * dtype.opmath().size(),
        }
    }

    pub(super) fn way(&self) -> Way {
        match self.direction {
            _ if self.cols > FEW => Way::Tiles,
            Direction::Weight if self.rows <= TILE => Way::Blocks,
            Direction::Weight => Way::Tiles,
            _ => Way::Points,
        }
    }

    /// Blocks of tiles.
    pub(super) fn tiles(&self) -> [i64; 3] {
        let of = |n: i64| (n + TILE - 1) / TILE;
        [of(self.rows), of(self.cols), self.groups * self.splits]
    }

    pub(super) fn structure(&self) -> Structure {
        Structure {
            rows_along_inner: self.rows_along_inner(),
            cols_along_inner: self.cols_along_inner(),
            divides: self.divisor != [1; 3],
            dimensions: self.dimensions(),
            near: self.is_near(),
        }
    }

    fn rows_along_inner(&self) -> bool {
        let step = |first: bool, a: i64, by: [i64; 3]| match first {
            true => a.abs(),
            false => (self.a[2] * by[2]).abs(),
        };
        step(self.inner_first_fastest, self.inner_a, self.inner_step)
            < step(self.row_first_fastest, self.row_a, self.row_step)
    }

    fn cols_along_inner(&self) -> bool {
        let inner = self.inner_b[if self.inner_first_fastest { 0 } else { 3 }];
        inner.abs() < self.col_b.abs()
    }

    fn dimensions(&self) -> usize {
        let is = |d: usize| {
            let still = self.row_sizes[d + 1] == 1 && self.inner_sizes[d + 1] == 1;
            !(still && self.limit[d] == 1 && self.base[d] == 0)
        };
        (0..2).find(|d| is(*d)).map_or(1, |d| 3 - d)
    }

    fn is_near(&self) -> bool {
        let span = |sizes: &[i64], strides: &[i64]| -> i128 {
            let each = sizes.iter().zip(strides);
            each.map(|(n, s)| i128::from((*n).max(1)) * i128::from(*s).abs()).sum()
        };
        // coordinates are looked at after they have been found to be within the limits, and multiplied before
        let reach = |d: usize| {
            let steps = [self.row_step[d], self.inner_step[d]].map(i64::abs);
            let far = [self.row_sizes[d + 1] * steps[0], self.inner_sizes[d + 1] * steps[1]];
            far[0] + far[1] + self.base[d].abs() + self.limit[d]
        };
        let a = span(&[0, 1, 2].map(reach), &self.a)
            + span(&[self.row_sizes[0], self.inner_sizes[0]], &[self.row_a, self.inner_a]);
        let b = span(&self.inner_sizes, &self.inner_b) + span(&[self.cols], &[self.col_b]);
        let c = span(&self.row_sizes, &self.row_c) + span(&[self.cols], &[self.col_c]);
        [a, b, c].iter().all(|n| *n < i128::from(i32::MAX))
    }

    /// As the kernel reads them.
    pub(super) fn all(&self) -> Vec<i64> {
        let mut all = vec![self.groups, self.rows, self.cols, self.inner];
        all.extend(self.row_sizes);
        all.extend(self.inner_sizes);
        all.extend([self.row_first_fastest, self.inner_first_fastest].map(i64::from));
        all.extend([self.row_a, self.inner_a]);
        for three in [self.a, self.base, self.row_step, self.inner_step, self.divisor, self.limit] {
            all.extend(three);
        }
        all.extend(self.inner_b);
        all.push(self.col_b);
        all.extend(self.row_c);
        all.extend([self.col_c, self.group_a, self.group_b, self.group_c]);
        all.extend([self.splits, self.split]);
        all.extend(self.vector);
        all
    }
}
