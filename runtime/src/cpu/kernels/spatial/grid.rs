//! Sampling images and volumes at the points of a grid.
//!
//! Numbers are held in `f64` and rounded to the tensor's precision after each operation: where a
//! point falls between two positions decides which elements are taken, so that the rounding of its
//! coordinates shows.

use super::super::KernelError;
use super::super::nest::{self, Shared};
use super::super::operand::{self, In, Out, ask};
use super::number::{of_f64, round_to, to_f64};
use super::planes::{product, volume};
use straightline_passes::ir::DType;

const NAME: &str = "grid_sampler";

/// How elements between the input's are made up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GridMode {
    /// Linear in each axis.
    Linear,
    /// The nearest element.
    Nearest,
    /// Cubic in each axis.
    Cubic,
}

/// What lies outside of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The elements of the edge.
    Border,
    /// The mirror image.
    Reflection,
}

/// How to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GridOptions {
    /// How to interpolate.
    pub mode: GridMode,
    /// What is outside.
    pub padding: GridPadding,
    /// Whether -1 and 1 are the middles of the outermost elements, or their outer edges.
    pub align_corners: bool,
}

/// A call, with its sizes.
struct GridShape {
    options: GridOptions,
    batch: usize,
    channels: usize,
    /// 2 or 3.
    spatial: usize,
    /// Depth, height and width of the input; the depth of an image is 1.
    input: [usize; 3],
    /// The elements of one channel of the input.
    plane: usize,
    /// How many points the grid has for each batch item.
    points: usize,
    /// The precision of the tensors.
    dtype: DType,
}

/// One element that takes part in a point's value.
#[derive(Clone, Copy, Default)]
struct Tap {
    index: usize,
    weight: f64,
    /// The weight's derivative by the grid's coordinates, x first.
    slope: [f64; 3],
}

/// The elements of one point.
struct Taps {
    taps: [Tap; 64],
    count: usize,
    /// The coordinates were no numbers.
    poison: bool,
}

impl Taps {
    fn as_slice(&self) -> &[Tap] {
        &self.taps[..self.count]
    }

    fn push(&mut self, tap: Tap) {
        self.taps[self.count] = tap;
        self.count += 1;
    }
}

impl GridShape {
    /// The call on `input`, of sizes `[batch, channels, ..]`, with values at the points of `grid`,
    /// `[batch, .., spatial]`, in a tensor of sizes `values`.
    fn new(
        options: GridOptions,
        values: &[i64],
        input: In<'_>,
        grid: In<'_>,
    ) -> Result<GridShape, KernelError> {
        operand::same_dtype(NAME, &[&input.raw(), &grid.raw()])?;
        let fits = match (input.sizes(), grid.sizes(), values) {
            ([n, c, x @ ..], [m, p @ .., s], [k, d, v @ ..]) => {
                let same = (n, p, c) == (m, v, d) && n == k;
                same && p.len() == x.len() && *s == x.len() as i64 && matches!(s, 2 | 3)
            }
            _ => false,
        };
        ask(NAME, fits, "an input, a grid and values of the same batch")?;
        let spatial = input.sizes().len() - 2;
        let sizes = volume(NAME, input.sizes(), spatial)?;
        Ok(GridShape {
            options,
            batch: values[0] as usize,
            channels: values[1] as usize,
            spatial,
            input: sizes,
            plane: product(NAME, sizes)?,
            points: product(NAME, values[2..].iter().map(|n| *n as usize))?,
            dtype: input.dtype(),
        })
    }

    fn round(&self, x: f64) -> f64 {
        round_to(self.dtype, x)
    }

    /// A coordinate of the grid in elements, and how many elements one unit of the grid is.
    fn unnormalize(&self, x: f64, size: usize) -> (f64, f64) {
        let r = |x| self.round(x);
        let n = size as f64;
        if self.options.align_corners {
            let factor = r((n - 1.0) / 2.0);
            let at = if self.spatial == 2 {
                r(r(x + 1.0) * factor)
            } else {
                r(r(r(x + 1.0) / 2.0) * r(n - 1.0))
            };
            return (at, factor);
        }
        let at = if self.spatial == 2 {
            r(r(r(x + 1.0) * r(n / 2.0)) - 0.5)
        } else {
            r(r(r(r(x + 1.0) * n) - 1.0) / 2.0)
        };
        (at, r(n / 2.0))
    }

    /// A coordinate brought inside of the input as the padding says, and the derivative of that.
    fn inside(&self, x: f64, size: usize) -> (f64, f64) {
        match self.options.padding {
            GridPadding::Zeros => (x, 1.0),
            GridPadding::Border => clip(x, size),
            GridPadding::Reflection => {
                let (x, a) = self.reflect(x, size);
                let (x, b) = clip(x, size);
                (x, a * b)
            }
        }
    }

    fn reflect(&self, x: f64, size: usize) -> (f64, f64) {
        let r = |x| self.round(x);
        let (low, span) =
            if self.options.align_corners { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64) };
        if span <= 0.0 {
            return (0.0, 0.0);
        }
        let from = r(x - low);
        let (mut sign, from) = (if from < 0.0 { -1.0 } else { 1.0 }, from.abs());
        let twice = 2.0 * span;
        let extra = r(from - r(r(from / twice).trunc() * twice));
        let back = r(twice - extra);
        if back < extra {
            sign = -sign;
        }
        (r(extra.min(back) + low), sign)
    }

    /// The position in a plane of whole coordinates, x first, if there is such an element.
    fn index(&self, at: [i64; 3]) -> Option<usize> {
        let [depth, height, width] = self.input.map(|n| n as i64);
        let [x, y, z] = at;
        let inside = (0..width).contains(&x) && (0..height).contains(&y) && (0..depth).contains(&z);
        inside.then(|| ((z * height + y) * width + x) as usize)
    }

    /// The elements that make up the value at a point, x first.
    fn taps(&self, point: &[f64]) -> Taps {
        let mut taps = Taps { taps: [Tap::default(); 64], count: 0, poison: false };
        let r = |x| self.round(x);
        let mut at = [0.0; 3];
        let mut factor = [0.0; 3];
        for (a, x) in point.iter().enumerate() {
            let size = self.input[2 - a];
            let (x, unit) = self.unnormalize(*x, size);
            if self.options.mode == GridMode::Cubic {
                (at[a], factor[a]) = (x, unit);
            } else {
                let (x, slope) = self.inside(x, size);
                (at[a], factor[a]) = (x, slope * unit);
            }
        }
        if self.options.mode == GridMode::Nearest {
            let whole = at.map(|x| if x.is_finite() { x.round_ties_even() as i64 } else { -1 });
            if let Some(index) = self.index(whole) {
                taps.push(Tap { index, weight: 1.0, slope: [0.0; 3] });
            }
            return taps;
        }
        if at.iter().any(|x| !x.is_finite()) {
            taps.poison = true;
            return taps;
        }
        let low = at.map(f64::floor);
        let beyond: [f64; 3] = std::array::from_fn(|a| r(at[a] - low[a]));
        if self.options.mode == GridMode::Cubic {
            let curves = beyond.map(|t| self.cubic(t));
            // an image's third axis is one position
            let deep = if self.spatial == 3 { 4 } else { 1 };
            let weight = |a: usize, k: usize| {
                if a < self.spatial { curves[a].0[k] } else { 1.0 }
            };
            let slope = |a: usize, k: usize| {
                if a < self.spatial { curves[a].1[k] } else { 0.0 }
            };
            let place = |a: usize, k: usize| {
                if a >= self.spatial {
                    return 0;
                }
                let at = low[a] + k as f64 - 1.0;
                self.inside(at, self.input[2 - a]).0 as i64
            };
            for k in 0..deep {
                for j in 0..4 {
                    for i in 0..4 {
                        let at = [place(0, i), place(1, j), place(2, k)];
                        let Some(index) = self.index(at) else {
                            continue;
                        };
                        let (x, y, z) = (weight(0, i), weight(1, j), weight(2, k));
                        taps.push(Tap {
                            index,
                            weight: r(r(x * y) * z),
                            slope: [
                                slope(0, i) * y * z * factor[0],
                                x * slope(1, j) * z * factor[1],
                                x * y * slope(2, k) * factor[2],
                            ],
                        });
                    }
                }
            }
            return taps;
        }
        for corner in 0..1usize << self.spatial {
            let up = |a: usize| corner >> a & 1 == 1;
            let whole = std::array::from_fn(|a| (low[a] as i64).saturating_add(i64::from(up(a))));
            let Some(index) = self.index(whole) else {
                continue;
            };
            let side = |a: usize| {
                if a >= self.spatial {
                    1.0
                } else if up(a) {
                    beyond[a]
                } else if self.spatial == 3 {
                    // PyTorch takes the distance to the upper neighbour of volumes, which rounds
                    // differently
                    r(low[a] + 1.0 - at[a])
                } else {
                    r(1.0 - beyond[a])
                }
            };
            let sides = [side(0), side(1), side(2)];
            let slope = |a: usize| {
                let others: f64 = (0..3).filter(|b| *b != a).map(|b| sides[b]).product();
                if up(a) { others } else { -others }
            };
            taps.push(Tap {
                index,
                weight: r(r(sides[0] * sides[1]) * sides[2]),
                slope: std::array::from_fn(|a| {
                    if a < self.spatial { slope(a) * factor[a] } else { 0.0 }
                }),
            });
        }
        taps
    }

    /// The weights of four neighbours, and their derivatives.
    fn cubic(&self, t: f64) -> ([f64; 4], [f64; 4]) {
        const A: f64 = -0.75;
        let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
        let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
        let near_slope = |x: f64| (3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x;
        let far_slope = |x: f64| (3.0 * A * x - 10.0 * A) * x + 8.0 * A;
        (
            [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)].map(|x| self.round(x)),
            [far_slope(t + 1.0), near_slope(t), -near_slope(1.0 - t), -far_slope(2.0 - t)],
        )
    }
}

/// Clips to the input's elements; NaN becomes 0. The derivative is 0 at and beyond the ends.
fn clip(x: f64, size: usize) -> (f64, f64) {
    let last = size as f64 - 1.0;
    if x > 0.0 { if x >= last { (last, 0.0) } else { (x, 1.0) } } else { (0.0, 0.0) }
}

/// `out[n][c][p]` = the input's channel `c` at point `p` of batch item `n`. `input` is `[batch,
/// channels, ..]`, `grid` is `[batch, .., spatial]`, and `out` has the batch and channels of the
/// one and the points of the other.
///
/// # Errors
///
/// Operands of other sizes, not row-major, or not of one floating-point dtype.
pub fn grid_sample(
    out: Out<'_>,
    [input, grid]: [In<'_>; 2],
    options: GridOptions,
) -> Result<(), KernelError> {
    operand::same_dtype(NAME, &[&out.raw(), &input.raw()])?;
    let shape = &GridShape::new(options, out.sizes(), input, grid)?;
    let (input, grid) = (to_f64(NAME, input)?, to_f64(NAME, grid)?);
    let (points, plane) = (shape.points, shape.plane);
    let mut values = vec![0.0; out.numel()];
    let to = Shared(values.as_mut_ptr().cast());
    let r = |x| shape.round(x);
    let cost = shape.channels.saturating_mul(8).saturating_add(32);
    nest::parallel(shape.batch * points, cost, &|first, last| {
        for item in first..last {
            let (n, p) = (item / points, item % points);
            let at = item * shape.spatial;
            let taps = shape.taps(&grid[at..at + shape.spatial]);
            for c in 0..shape.channels {
                let base = (n * shape.channels + c) * plane;
                let mut sum = 0.0;
                for tap in taps.as_slice() {
                    sum = r(sum + r(input[base + tap.index] * tap.weight));
                }
                if taps.poison {
                    sum = f64::NAN;
                }
                let place = (n * shape.channels + c) * points + p;
                let to = to.at((place * size_of::<f64>()) as isize).cast::<f64>();
                // SAFETY: one of `values`, which are batch x channels x points, that belongs to
                // this point alone.
                unsafe { to.write(sum) };
            }
        }
    });
    of_f64(NAME, out, &values)
}

/// The gradients of [`grid_sample`] by the input and by the grid, in their sizes.
///
/// # Errors
///
/// As for [`grid_sample`], `grad` having the sizes of its result.
pub fn grid_sample_backward(
    [by_input, by_grid]: [Out<'_>; 2],
    [grad, input, grid]: [In<'_>; 3],
    options: GridOptions,
) -> Result<(), KernelError> {
    operand::same_sizes(NAME, &[&by_input.raw(), &input.raw()])?;
    operand::same_sizes(NAME, &[&by_grid.raw(), &grid.raw()])?;
    let all = [by_input.raw(), by_grid.raw(), grad.raw(), input.raw()];
    operand::same_dtype(NAME, &all.each_ref())?;
    let shape = GridShape::new(options, grad.sizes(), input, grid)?;
    let [grad, input, grid] = [to_f64(NAME, grad)?, to_f64(NAME, input)?, to_f64(NAME, grid)?];
    let (points, plane) = (shape.points, shape.plane);
    let mut to_input = vec![0.0; input.len()];
    let mut to_grid = vec![0.0; grid.len()];
    let r = |x| shape.round(x);
    for item in 0..shape.batch * points {
        let (n, p) = (item / points, item % points);
        let at = item * shape.spatial;
        let taps = shape.taps(&grid[at..at + shape.spatial]);
        let mut slopes = [0.0; 3];
        for c in 0..shape.channels {
            let channel = n * shape.channels + c;
            let g = grad[channel * points + p];
            for tap in taps.as_slice() {
                let to = &mut to_input[channel * plane + tap.index];
                *to = r(*to + r(tap.weight * g));
                let x = input[channel * plane + tap.index];
                for (s, slope) in slopes.iter_mut().zip(tap.slope) {
                    *s += x * slope * g;
                }
            }
        }
        for (to, s) in to_grid[at..at + shape.spatial].iter_mut().zip(slopes) {
            *to = if taps.poison { f64::NAN } else { s };
        }
    }
    of_f64(NAME, by_input, &to_input)?;
    of_f64(NAME, by_grid, &to_grid)
}
