//! Windows at equal distances, walked tap after tap, with all outputs of a row at once.
//!
//! A row of the input is laid out so that the elements that neighbouring outputs see through one
//! tap are neighbours: one line for each remainder of the stride, with padding written out, long
//! enough for whole groups of [`LANES`] outputs. What is then done for a tap is the same for all
//! lanes, loads included, and the compiler makes vectors of it.

use super::number::Number;
use super::window::AxisWindows;

/// Outputs at a time: a few vectors, so that one need not wait for the other.
pub(super) const LANES: usize = 16;

/// A tap of all windows of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    /// Where the lines have the element that the first output sees.
    at: usize,
    /// The position that this element has in the row; negative in the padding.
    pub(super) position: isize,
}

/// Every `stride`-th element of a row.
#[derive(Debug)]
struct Line {
    /// Where the row's elements begin in the lines; padding is around them.
    at: usize,
    /// The first of them in the row.
    from: usize,
    count: usize,
}

/// How the windows of a row are walked.
#[derive(Debug)]
pub(super) struct Taps {
    pub(super) taps: Vec<Tap>,
    pub(super) stride: usize,
    /// The outputs, in whole groups.
    pub(super) outputs: usize,
    lines: Vec<Line>,
    /// The elements of a line.
    len: usize,
}

impl Taps {
    /// `None` for windows that do not allow it, or are so few that most lanes would idle.
    pub(super) fn new(windows: &AxisWindows) -> Option<Taps> {
        let (regular, range) = windows.by_taps()?;
        let (stride, step) = (regular.stride, windows.step);
        if windows.output() < LANES / 4 {
            return None;
        }
        let outputs = windows.output().next_multiple_of(LANES);
        // of the first tap that is walked; it is outside of the input by the first outputs at most
        let pad = regular.pad as isize - (range.start * step) as isize;
        let reach = range.len().saturating_sub(1) * step / stride;
        // taps further apart than the row is long
        if reach > 2 * windows.input + outputs {
            return None;
        }
        let len = outputs + reach;
        let mut lines: Vec<(usize, Line)> = Vec::new();
        let mut taps = Vec::with_capacity(range.len());
        for k in 0..range.len() {
            let (remainder, shift) = (k * step % stride, k * step / stride);
            let found = lines.iter().position(|(r, _)| *r == remainder);
            let line = found.unwrap_or_else(|| {
                // elements `remainder - pad + j * stride` that are in the row
                let begin = remainder as isize - pad;
                let skipped = if begin < 0 { begin.unsigned_abs().div_ceil(stride) } else { 0 };
                let from = (begin + (skipped * stride) as isize) as usize;
                let room = windows.input.saturating_sub(from).div_ceil(stride);
                let count = room.min(len.saturating_sub(skipped));
                lines.push((remainder, Line { at: lines.len() * len + skipped, from, count }));
                lines.len() - 1
            });
            taps.push(Tap { at: line * len + shift, position: (k * step) as isize - pad });
        }
        let lines = lines.into_iter().map(|(_, line)| line).collect();
        Some(Taps { taps, stride, outputs, lines, len })
    }

    /// The elements of all lines.
    pub(super) fn memory(&self) -> usize {
        self.lines.len() * self.len
    }
}

/// The lines of a row.
pub(super) struct Lines<A> {
    data: Vec<A>,
}

impl<A: Number> Lines<A> {
    /// Lines whose padding is `outside`.
    pub(super) fn new(taps: &Taps, outside: A) -> Lines<A> {
        Lines { data: vec![outside; taps.memory()] }
    }

    /// Lays out another row.
    #[inline(always)]
    pub(super) fn fill(&mut self, taps: &Taps, row: &[A]) {
        for line in taps.lines.iter().filter(|line| line.count > 0) {
            let to = &mut self.data[line.at..][..line.count];
            let from = &row[line.from..];
            match taps.stride {
                1 => to.copy_from_slice(&from[..line.count]),
                2 => every::<A, 2>(to, from),
                3 => every::<A, 3>(to, from),
                4 => every::<A, 4>(to, from),
                stride => {
                    for (y, x) in to.iter_mut().zip(from.iter().step_by(stride)) {
                        *y = *x;
                    }
                }
            }
        }
    }

    /// What a group of outputs sees through a tap.
    #[inline(always)]
    pub(super) fn seen(&self, tap: Tap, group: usize) -> [A; LANES] {
        let from = self.data[tap.at + group * LANES..].first_chunk();
        *from.expect("lines are long enough for all groups")
    }
}

/// `to[i] = from[i * S]`, in pieces that the compiler makes vectors of.
#[inline(always)]
fn every<A: Number, const S: usize>(to: &mut [A], from: &[A]) {
    let Some((last, to)) = to.split_last_mut() else { return };
    for (y, x) in to.iter_mut().zip(from.as_chunks::<S>().0) {
        *y = x[0];
    }
    // the row may end before a whole piece
    *last = from[to.len() * S];
}
