//! Convolutions of floats without columns: the image is padded, and each tap reads it at an offset.
//!
//! Over a padded image whose rows are `pitch` apart, the output position `(y, x)` is number `y *
//! pitch + x`, and tap `(i, j)` of it sees element `(y + i) * pitch + x + j`: its number plus a
//! constant. So all taps of neighbouring positions are runs of elements, positions between the end
//! of an output row and the pitch are computed and dropped, and the product needs no copy of the
//! columns. A stride splits the image into as many *phases*, in each of which it is 1.

use super::Geometry;
use super::columns::Number;
use super::split::{Finish, Shared, each, scratch};
use crate::cpu::kernels::matmul::offsets::{OffsetProduct, Panelled};

/// Where the padded image is and how its rows lie.
struct Image {
    /// The sizes of one phase of one channel.
    sizes: [usize; 3],
    /// The phases that some tap reads, by dimension.
    phases: [Vec<usize>; 3],
}

impl Image {
    fn new(g: &Geometry) -> Image {
        let phases = [0, 1, 2].map(|d| {
            let mut used: Vec<usize> =
                (0..g.kernel[d]).map(|k| k * g.dilation[d] % g.stride[d]).collect();
            used.sort_unstable();
            used.dedup();
            used
        });
        let sizes =
            [0, 1, 2].map(|d| g.output[d] + (g.kernel[d] - 1) * g.dilation[d] / g.stride[d]);
        Image { sizes, phases }
    }

    fn plane(&self) -> usize {
        self.sizes.iter().product()
    }

    fn phase_count(&self) -> usize {
        self.phases.iter().map(Vec::len).product()
    }

    /// Elements of one channel.
    fn channel(&self) -> usize {
        self.plane() * self.phase_count()
    }

    /// Whether the input itself is the image.
    fn is_input(&self, g: &Geometry) -> bool {
        g.padding == [0; 3] && g.stride == [1; 3] && self.sizes == g.input
    }

    /// The number of the position after the last.
    fn end(&self, g: &Geometry) -> usize {
        let [d, h, w] = g.output;
        ((d - 1) * self.sizes[1] + h - 1) * self.sizes[2] + w
    }

    /// Where the taps of `channels` channels read, in the weight's order.
    fn offsets(&self, g: &Geometry, channels: usize) -> Vec<u32> {
        let at = |d: usize, k: usize| {
            let reach = k * g.dilation[d];
            let phase = self.phases[d].iter().position(|p| *p == reach % g.stride[d]).unwrap_or(0);
            (phase, reach / g.stride[d])
        };
        let mut taps = Vec::with_capacity(g.taps());
        for kd in 0..g.kernel[0] {
            for kh in 0..g.kernel[1] {
                for kw in 0..g.kernel[2] {
                    let (d, h, w) = (at(0, kd), at(1, kh), at(2, kw));
                    let phase = (d.0 * self.phases[1].len() + h.0) * self.phases[2].len() + w.0;
                    taps.push(
                        phase * self.plane() + (d.1 * self.sizes[1] + h.1) * self.sizes[2] + w.1,
                    );
                }
            }
        }
        (0..channels)
            .flat_map(|c| taps.iter().map(move |t| (c * self.channel() + t) as u32))
            .collect()
    }

    /// Writes the image of one channel.
    ///
    /// # Safety
    ///
    /// `input` holds the channel's plane, `out` has room for [`Image::channel`] elements.
    unsafe fn fill<T: Copy + Default>(&self, g: &Geometry, input: *const T, out: *mut T) {
        let mut out = out;
        let coordinate = |d: usize, phase: usize, x: usize| {
            (x * g.stride[d] + phase).checked_sub(g.padding[d]).filter(|at| *at < g.input[d])
        };
        let width = self.sizes[2];
        let (stride, pad) = (g.stride[2], g.padding[2]);
        for pd in &self.phases[0] {
            for ph in &self.phases[1] {
                for pw in &self.phases[2] {
                    // the positions of a row that are inside of the input
                    let lo = pad.saturating_sub(*pw).div_ceil(stride).min(width);
                    let hi = (g.input[2] + pad).saturating_sub(*pw).div_ceil(stride);
                    let hi = hi.clamp(lo, width);
                    for d in 0..self.sizes[0] {
                        let depth = coordinate(0, *pd, d);
                        for h in 0..self.sizes[1] {
                            let row = depth.zip(coordinate(1, *ph, h));
                            // SAFETY: one row of the image and, where there is one, of the input.
                            unsafe {
                                match row.filter(|_| lo < hi) {
                                    None => {
                                        for x in 0..width {
                                            *out.add(x) = T::default();
                                        }
                                    }
                                    Some((depth, height)) => {
                                        let row = (depth * g.input[1] + height) * g.input[2];
                                        let from = input.add(row + lo * stride + pw - pad);
                                        for x in 0..lo {
                                            *out.add(x) = T::default();
                                        }
                                        if stride == 1 {
                                            let to = out.add(lo);
                                            std::ptr::copy_nonoverlapping(from, to, hi - lo);
                                        } else if stride == 2 {
                                            // a constant, so that it is done by vectors
                                            for x in 0..hi - lo {
                                                *out.add(lo + x) = *from.add(x * 2);
                                            }
                                        } else {
                                            for x in 0..hi - lo {
                                                *out.add(lo + x) = *from.add(x * stride);
                                            }
                                        }
                                        for x in hi..width {
                                            *out.add(x) = T::default();
                                        }
                                    }
                                }
                                out = out.add(width);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether the way fits: offsets are 32-bit, and the positions that are computed and dropped are
/// few.
pub(super) fn fits(g: &Geometry) -> bool {
    let image = Image::new(g);
    let all = g.group_inputs().saturating_mul(image.channel());
    let kept = g.output_plane();
    kept > 0
        && all < u32::MAX as usize
        && image.end(g) <= kept + kept / 2 + 32
        && (g.group_outputs() >= 4 || g.is_depthwise())
}

/// How the products of a geometry are cut into parts, whatever the number of threads.
struct Cut {
    /// Panels of the positions, and of a part.
    panels: usize,
    width: usize,
    /// Rows of a part: output channels of a group.
    height: usize,
}

impl Cut {
    fn new<T: Panelled>(g: &Geometry, image: &Image) -> Cut {
        let outputs = g.group_outputs();
        let panels = image.end(g).div_ceil(OffsetProduct::<T>::panel());
        // A few panels at a time; where there are few of them, some rows of the weight at a time.
        let width = panels.div_ceil(16).clamp(1, 8);
        let columns = panels.div_ceil(width);
        let height = if columns >= 8 {
            outputs
        } else {
            outputs.div_ceil(8 / columns).next_multiple_of(12).min(outputs)
        };
        Cut { panels, width, height }
    }
}

/// Rows of weights that are packed together.
pub(super) fn height<T: Number + Panelled>(g: &Geometry) -> usize {
    Cut::new::<T>(g, &Image::new(g)).height
}

/// The weight in the order in which the products read it: for each tile of rows, the steps, in each
/// step the rows.
pub(super) fn pack<T: Number + Panelled>(g: &Geometry, weight: &[T], to: &mut [T]) {
    let height = height::<T>(g);
    let k = g.group_inputs() * g.taps();
    for group in 0..g.groups {
        for m0 in (0..g.group_outputs()).step_by(height) {
            let m1 = g.group_outputs().min(m0 + height);
            OffsetProduct::<T>::tiles((m0, m1), |row, end| {
                let tile =
                    (group * g.group_outputs() + row) * k..(group * g.group_outputs() + end) * k;
                let (from, to) = (&weight[tile.clone()], &mut to[tile]);
                for (p, step) in to.chunks_exact_mut(end - row).enumerate() {
                    for (i, to) in step.iter_mut().enumerate() {
                        *to = from[i * k + p];
                    }
                }
            });
        }
    }
}

/// `output = input * weight + bias`, as [`super::convolve`]. The weight may be `packed`. `finish` is
/// called for each run of outputs that has been written.
///
/// # Safety
///
/// As [`super::convolve`].
pub(super) unsafe fn forward<T: Number + Panelled>(
    g: &Geometry,
    input: Shared<T>,
    (weight, packed): (Shared<T>, bool),
    bias: Shared<T>,
    output: Shared<T>,
    finish: Option<Finish<'_>>,
) {
    let image = Image::new(g);
    let (inputs, outputs) = (g.group_inputs(), g.group_outputs());
    let offsets = image.offsets(g, inputs);
    let k = offsets.len();
    let (plane, positions) = (g.input_plane(), g.output_plane());
    let channel = image.channel();
    let n = image.end(g);
    let Cut { panels, width, height } = Cut::new::<T>(g, &image);
    let columns = panels.div_ceil(width);
    let rows = outputs.div_ceil(height);
    let run = |base: Shared<T>, n_image: usize, group: usize, part: usize| {
        let (row, column) = (part / columns, part % columns);
        let m0 = row * height;
        let first = group * outputs;
        let product = OffsetProduct {
            a: weight.at(first * k).cast_const(),
            packed,
            b: base.at(0).cast_const(),
            offsets: &offsets,
            n,
        };
        let target = output.at((n_image * g.out_channels + first) * positions);
        let (pitch, [_, out_height, out_width]) = (image.sizes[2], g.output);
        let store =
            |sums: *const T, sums_row: usize, rows: (usize, usize), cols: (usize, usize)| {
                // the runs of positions that are kept: where they begin in the tile and in the
                // output, and how many
                let mut at = cols.0;
                while at < cols.1 {
                    let (line, x) = (at / pitch, at % pitch);
                    let (d, h) = (line / image.sizes[1], line % image.sizes[1]);
                    let step = (pitch - x).min(cols.1 - at);
                    if x < out_width && h < out_height {
                        let count = step.min(out_width - x);
                        let to = (d * out_height + h) * out_width + x;
                        for r in rows.0..rows.1 {
                            // SAFETY: this run of the tile and of the output's row.
                            unsafe {
                                let from = sums.add((r - rows.0) * sums_row + at - cols.0);
                                let to = target.add(r * positions + to);
                                if bias.0.is_null() {
                                    std::ptr::copy_nonoverlapping(from, to, count);
                                } else {
                                    let b = *bias.at(first + r);
                                    for i in 0..count {
                                        *to.add(i) = (*from.add(i)).plus(b);
                                    }
                                }
                            }
                        }
                    }
                    at += step;
                }
            };
        let panels = (column * width, panels.min((column + 1) * width));
        let m1 = outputs.min(m0 + height);
        // SAFETY: the caller's contract; the image reaches as far as the offsets and positions do.
        unsafe { product.run((m0, m1), panels, &store) };
        let Some(finish) = finish else { return };
        // the outputs before a position
        let before = |at: usize| {
            let (line, x) = (at / pitch, at % pitch);
            let (d, h) = (line / image.sizes[1], line % image.sizes[1]);
            let whole = (d * out_height + h.min(out_height)) * out_width;
            whole + if h < out_height { x.min(out_width) } else { 0 }
        };
        let panel = OffsetProduct::<T>::panel();
        let (begin, end) = (before(panels.0 * panel), before(n.min(panels.1 * panel)));
        for row in m0..m1 {
            finish(n_image, first + row, (begin, end - begin));
        }
    };
    let work = outputs * k * n;
    let parts = rows * columns;
    for n_image in 0..g.batch {
        if image.is_input(g) {
            each(g.groups * parts, work * g.groups, &|i| {
                let group = i / parts;
                let base = input.at((n_image * g.in_channels + group * inputs) * plane);
                run(Shared(base), n_image, group, i % parts);
            });
            continue;
        }
        scratch(g.in_channels * channel, |padded: *mut T| {
            let padded = Shared(padded);
            each(g.in_channels, g.in_channels * channel * 4, &|c| {
                let from = input.at((n_image * g.in_channels + c) * plane);
                // SAFETY: each call writes a channel of its own.
                unsafe { image.fill(g, from.cast_const(), padded.at(c * channel)) };
            });
            each(g.groups * parts, work * g.groups, &|i| {
                let group = i / parts;
                run(Shared(padded.at(group * inputs * channel)), n_image, group, i % parts);
            });
        });
    }
}
