//! Interpolation at other sizes: each axis has a table of input positions and weights for each
//! output position.

use super::super::KernelError;
use super::super::nest;
use super::super::operand::{self, In, Out, ask};
use super::gather::AxisMap;
use super::number::{Number, round_to, with_float};
use super::planes::Planes;
use straightline_passes::ir::DType;
use straightline_passes::positions::AxisRatio;

/// How output positions relate to input positions along an axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AxisScale {
    /// The input's size.
    pub input: usize,
    /// The output's size.
    pub output: usize,
    /// The factor that the caller named; used in place of the sizes' ratio.
    pub factor: Option<f64>,
    /// Whether the first and last elements of both lie upon each other.
    pub align_corners: bool,
    /// Whether positions are computed in `f32`.
    pub single: bool,
    /// The dtype that holds weights.
    pub held: DType,
}

impl AxisScale {
    fn ratio(&self) -> AxisRatio {
        AxisRatio {
            input: self.input,
            output: self.output,
            factor: self.factor,
            align_corners: self.align_corners,
            single: self.single,
        }
    }

    fn round(&self, x: f64) -> f64 {
        self.ratio().round(x)
    }

    /// Input positions per output position.
    fn scale(&self) -> f64 {
        self.ratio().scale()
    }

    /// Where output position `o` lies in the input.
    fn source(&self, scale: f64, o: usize) -> f64 {
        self.ratio().source(scale, o)
    }

    fn last(&self) -> usize {
        self.ratio().last()
    }

    /// The input position that nearest-neighbour interpolation copies; `exact` looks from the
    /// middle of a position.
    pub fn nearest(&self, exact: bool) -> Option<AxisMap> {
        AxisMap::new(self.input, self.ratio().nearest(exact))
    }

    /// As [`AxisScale::nearest`], the way the gradient computes it.
    pub fn nearest_backward(&self, exact: bool) -> Option<AxisMap> {
        let here = AxisScale { single: true, ..*self };
        let scale = here.scale();
        let from = |o: usize| {
            if !exact && self.output == self.input {
                return o;
            }
            if !exact && self.output == 2 * self.input {
                return o / 2;
            }
            let at = if exact { o as f64 + 0.5 } else { o as f64 };
            (here.round(at * scale).floor().max(0.0) as usize).min(self.last())
        };
        AxisMap::new(self.input, (0..self.output).map(from).collect())
    }

    /// The position below, which is inside of the input at the upper end, and how far beyond it the
    /// source lies.
    fn below(&self, at: f64) -> (i64, f64) {
        let i = (f64::from((at as f32).floor()) as i64).min(self.last() as i64);
        (i, self.round(at - i as f64).clamp(0.0, 1.0))
    }

    /// Linear interpolation: two neighbours.
    pub fn linear(&self) -> AxisTaps {
        let scale = self.scale();
        let mut taps = AxisTaps::new(self.input);
        for o in 0..self.output {
            if self.input == self.output {
                taps.push([(o, 1.0)]);
                continue;
            }
            let at = self.source(scale, o).max(0.0);
            let (i, t) = self.below(at);
            let i = i.max(0) as usize;
            let next = (i + 1).min(self.last());
            let t = round_to(self.held, t);
            taps.push([(i, round_to(self.held, self.round(1.0 - t))), (next, t)]);
        }
        taps
    }

    /// Cubic interpolation: four neighbours, those outside of the input taken from its edge.
    pub fn cubic(&self) -> AxisTaps {
        const A: f64 = -0.75;
        let r = |x: f64| self.round(x);
        let near = |x: f64| r(r(r(r((A + 2.0) * x) - (A + 3.0)) * x) * x) + 1.0;
        let far = |x: f64| r(r(r(r(r(r(A * x) - 5.0 * A) * x) + 8.0 * A) * x) - 4.0 * A);
        let scale = self.scale();
        let mut taps = AxisTaps::new(self.input);
        for o in 0..self.output {
            let (i, t) = self.below(self.source(scale, o));
            let weights = [far(r(t + 1.0)), r(near(t)), r(near(1.0 - t)), far(r(2.0 - t))];
            taps.push(std::array::from_fn::<_, 4, _>(|k| {
                let at = (i + k as i64 - 1).clamp(0, self.last() as i64);
                (at as usize, round_to(self.held, weights[k]))
            }));
        }
        taps
    }

    /// Interpolation that averages over all input positions which an output position covers.
    pub fn antialiased(&self, filter: Filter) -> AxisTaps {
        let r = |x: f64| self.round(x);
        let scale = self.scale();
        let reach = filter.reach();
        let support = if scale >= 1.0 { r(reach * scale) } else { reach };
        let shrink = if scale >= 1.0 { r(1.0 / scale) } else { 1.0 };
        let mut taps = AxisTaps::new(self.input);
        for o in 0..self.output {
            let center = r(scale * (o as f64 + 0.5));
            let first = (r(r(center - support) + 0.5) as i64).max(0);
            let end = (r(r(center + support) + 0.5) as i64).min(self.input as i64);
            let weight =
                |j: i64| r(filter.weight(r(r(r((j + first) as f64 - center) + 0.5) * shrink)));
            let weights: Vec<f64> = (0..(end - first).max(0)).map(weight).collect();
            let total = weights.iter().fold(0.0, |t, w| r(t + w));
            let share = |w: &f64| if total == 0.0 { *w } else { r(w / total) };
            taps.push(weights.iter().enumerate().map(|(j, w)| (first as usize + j, share(w))));
        }
        taps
    }
}

/// The weight of an input position by its distance, of antialiased interpolation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// A triangle.
    Linear,
    /// Keys' cubic with a = -1/2.
    Cubic,
}

impl Filter {
    fn reach(self) -> f64 {
        match self {
            Filter::Linear => 1.0,
            Filter::Cubic => 2.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let x = x.abs();
        match self {
            Filter::Linear if x < 1.0 => 1.0 - x,
            Filter::Cubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Filter::Cubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            _ => 0.0,
        }
    }
}

/// For each output position of an axis, input positions and their weights.
#[derive(Clone, PartialEq, Debug)]
pub struct AxisTaps {
    input: usize,
    ends: Vec<usize>,
    index: Vec<usize>,
    weight: Vec<f64>,
}

impl AxisTaps {
    fn new(input: usize) -> AxisTaps {
        AxisTaps { input, ends: Vec::new(), index: Vec::new(), weight: Vec::new() }
    }

    /// An axis that stays as it is.
    pub fn identity(n: usize) -> AxisTaps {
        let mut taps = AxisTaps::new(n);
        (0..n).for_each(|i| taps.push([(i, 1.0)]));
        taps
    }

    fn push(&mut self, taps: impl IntoIterator<Item = (usize, f64)>) {
        for (i, w) in taps {
            debug_assert!(i < self.input);
            self.index.push(i);
            self.weight.push(w);
        }
        self.ends.push(self.index.len());
    }

    fn output(&self) -> usize {
        self.ends.len()
    }

    fn is_identity(&self) -> bool {
        self.output() == self.input
            && self.index.len() == self.input
            && self.index.iter().enumerate().all(|(o, i)| o == *i)
            && self.weight.iter().all(|w| *w == 1.0)
    }

    fn taps(&self, o: usize) -> std::ops::Range<usize> {
        let begin = if o == 0 { 0 } else { self.ends[o - 1] };
        begin..self.ends[o]
    }
}

/// An axis' table in the type of the computation.
struct Table<'a, A> {
    axis: &'a AxisTaps,
    weight: Vec<A>,
    identity: bool,
}

impl<'a, A: Number> Table<'a, A> {
    fn new(axis: &'a AxisTaps) -> Table<'a, A> {
        Table {
            axis,
            weight: axis.weight.iter().map(|w| A::of(*w)).collect(),
            identity: axis.is_identity(),
        }
    }

    /// Interpolates the middle one of three dimensions: `from` is `[outer, input, inner]`, `to` has
    /// zeros.
    fn forward(&self, outer: usize, inner: usize, from: &[A], to: &mut [A]) {
        let (n, m) = (self.axis.input, self.axis.output());
        for b in 0..outer {
            let from = &from[b * n * inner..(b + 1) * n * inner];
            let to = &mut to[b * m * inner..(b + 1) * m * inner];
            for o in 0..m {
                let taps = self.axis.taps(o);
                let (index, weight) = (&self.axis.index[taps.clone()], &self.weight[taps]);
                if inner == 1 {
                    let mut sum = A::ZERO;
                    for (i, w) in index.iter().zip(weight) {
                        sum = sum.plus(from[*i].times(*w));
                    }
                    to[o] = sum;
                    continue;
                }
                let to = &mut to[o * inner..(o + 1) * inner];
                for (i, w) in index.iter().zip(weight) {
                    for (y, x) in to.iter_mut().zip(&from[i * inner..(i + 1) * inner]) {
                        *y = y.plus(x.times(*w));
                    }
                }
            }
        }
    }

    /// The gradient of [`Table::forward`]: `from` is `[outer, output, inner]`, `to` has zeros.
    fn backward(&self, outer: usize, inner: usize, from: &[A], to: &mut [A]) {
        let (n, m) = (self.axis.input, self.axis.output());
        for b in 0..outer {
            let from = &from[b * m * inner..(b + 1) * m * inner];
            let to = &mut to[b * n * inner..(b + 1) * n * inner];
            for o in 0..m {
                let taps = self.axis.taps(o);
                let from = &from[o * inner..(o + 1) * inner];
                for (i, w) in self.axis.index[taps.clone()].iter().zip(&self.weight[taps]) {
                    for (x, g) in to[i * inner..(i + 1) * inner].iter_mut().zip(from) {
                        *x = x.plus(g.times(*w));
                    }
                }
            }
        }
    }
}

fn inputs(axes: &[AxisTaps; 3]) -> [usize; 3] {
    axes.each_ref().map(|a| a.input)
}

fn outputs(axes: &[AxisTaps; 3]) -> [usize; 3] {
    axes.each_ref().map(AxisTaps::output)
}

/// Interpolates the planes of `input`, the last axis first.
///
/// # Errors
///
/// Operands that are not as many planes of the axes' sizes, not row-major, or not of one
/// floating-point dtype.
pub fn resample(out: Out<'_>, input: In<'_>, axes: &[AxisTaps; 3]) -> Result<(), KernelError> {
    const NAME: &str = "upsample";
    let p = Planes::new(NAME, out, input, outputs(axes), inputs(axes))?;
    let cost = p.out_len.max(p.input_len) * 6;
    with_float!(NAME, p.dtype(), A => {
        let tables = axes.each_ref().map(Table::<A>::new);
        p.each::<A>(cost, &|_, x, y| {
            let mut sizes = inputs(axes);
            run(&tables, [2, 1, 0], x, y, |table, d, from, to| {
                let (outer, inner) = around(&sizes, d);
                table.forward(outer, inner, from, to);
                sizes[d] = table.axis.output();
            }, |table| (table.axis.input, table.axis.output()));
        })
    })
}

/// The gradient of [`resample`].
///
/// # Errors
///
/// As for [`resample`]: `grad` has the output sizes, `out` the input sizes.
pub fn resample_backward(
    out: Out<'_>,
    grad: In<'_>,
    axes: &[AxisTaps; 3],
) -> Result<(), KernelError> {
    const NAME: &str = "upsample_backward";
    let p = Planes::new(NAME, out, grad, inputs(axes), outputs(axes))?;
    let cost = p.out_len.max(p.input_len) * 6;
    with_float!(NAME, p.dtype(), A => {
        let tables = axes.each_ref().map(Table::<A>::new);
        p.each::<A>(cost, &|_, g, x| {
            let mut sizes = outputs(axes);
            run(&tables, [0, 1, 2], g, x, |table, d, from, to| {
                let (outer, inner) = around(&sizes, d);
                table.backward(outer, inner, from, to);
                sizes[d] = table.axis.input;
            }, |table| (table.axis.output(), table.axis.input));
        })
    })
}

/// How many elements lie before and behind dimension `d`.
fn around(sizes: &[usize; 3], d: usize) -> (usize, usize) {
    (sizes[..d].iter().product(), sizes[d + 1..].iter().product())
}

/// Runs the passes that do something, in order, through buffers of their sizes. `axis` is what a
/// pass makes of an axis: its size before and after.
fn run<'t, A: Number>(
    tables: &'t [Table<'t, A>; 3],
    order: [usize; 3],
    from: &[A],
    to: &mut [A],
    mut pass: impl FnMut(&Table<'t, A>, usize, &[A], &mut [A]),
    axis: impl Fn(&Table<'t, A>) -> (usize, usize),
) {
    let passes: Vec<usize> = order.into_iter().filter(|d| !tables[*d].identity).collect();
    let Some((last, first)) = passes.split_last() else {
        to.copy_from_slice(from);
        return;
    };
    let mut held: Option<Vec<A>> = None;
    for d in first {
        let source = held.as_deref().unwrap_or(from);
        let (before, after) = axis(&tables[*d]);
        let n = source.len() / before.max(1) * after;
        let mut next = vec![A::ZERO; n];
        pass(&tables[*d], *d, source, &mut next);
        held = Some(next);
    }
    pass(&tables[*last], *last, held.as_deref().unwrap_or(from), to);
}

/// Weights of bytes: integers of `bits` binary places, as many as fit.
struct ByteTable<'a> {
    axis: &'a AxisTaps,
    weight: Vec<i32>,
    bits: u32,
}

impl<'a> ByteTable<'a> {
    fn new(axis: &'a AxisTaps) -> ByteTable<'a> {
        let most = axis.weight.iter().copied().fold(0.0, f64::max);
        let fits = |bits: u32| (0.5 + most * f64::from(1u32 << (bits + 1))) < f64::from(1 << 15);
        let bits = (0..22).find(|bits| !fits(*bits)).unwrap_or(22);
        let one = f64::from(1u32 << bits);
        let whole = |w: &f64| (w * one + if *w < 0.0 { -0.5 } else { 0.5 }) as i32;
        ByteTable { axis, weight: axis.weight.iter().map(whole).collect(), bits }
    }

    fn forward(&self, outer: usize, inner: usize, from: &[u8], to: &mut [u8]) {
        let (n, m) = (self.axis.input, self.axis.output());
        for b in 0..outer {
            for o in 0..m {
                for k in 0..inner {
                    let mut sum = if self.bits > 0 { 1i32 << (self.bits - 1) } else { 0 };
                    for t in self.axis.taps(o) {
                        let at = (b * n + self.axis.index[t]) * inner + k;
                        sum += i32::from(from[at]) * self.weight[t];
                    }
                    to[(b * m + o) * inner + k] = (sum >> self.bits).clamp(0, 255) as u8;
                }
            }
        }
    }
}

/// Interpolates bytes in fixed point, rounding after each axis: the last axis, then the one before
/// it. The first axis stays as it is.
///
/// # Errors
///
/// As for [`resample`], but elements are `u8`; a first axis that changes its size.
pub fn resample_bytes(
    out: Out<'_>,
    input: In<'_>,
    axes: &[AxisTaps; 3],
) -> Result<(), KernelError> {
    const NAME: &str = "upsample";
    let keeps = axes[0].input == axes[0].output();
    ask(NAME, keeps, "a first axis that keeps its size")?;
    operand::has_dtype(NAME, &out.raw(), DType::U8)?;
    let p = Planes::new(NAME, out, input, outputs(axes), inputs(axes))?;
    let [rows, columns] = [&axes[1], &axes[2]].map(ByteTable::new);
    let (depth, height, width) = (axes[0].input, axes[1].input, axes[2].output());
    let (to_len, from_len) = (p.out_len, p.input_len);
    let from = p.input.slice::<u8>()?;
    let to = (p.out.slice::<u8>()?, to_len);
    nest::parallel_chunks(p.count, to_len.max(from_len) * 6, to, &|planes, to| {
        let mut between = vec![0u8; depth * height * width];
        for (plane, y) in planes.zip(to.chunks_exact_mut(to_len)) {
            let x = &from[plane * from_len..][..from_len];
            columns.forward(depth * height, 1, x, &mut between);
            rows.forward(depth, width, &between, y);
        }
    });
    Ok(())
}
