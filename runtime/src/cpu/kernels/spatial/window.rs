//! Which input positions each output position of a pooling operator sees, along one axis.

use std::ops::Range;

/// One output position's window: the taps that lie inside of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// The first input position.
    pub(super) start: usize,
    /// How many positions, `step` apart.
    pub(super) taps: usize,
    /// How many there are when padding counts (dilation 1 only).
    pub(super) padded: usize,
}

/// Windows at equal distances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Regular {
    /// The taps that some window has inside of the input, as far as a walk by taps is worth it: of
    /// a kernel that is much larger than the input most lie outside.
    pub(super) taps: Option<Range<usize>>,
    pub(super) stride: usize,
    pub(super) pad: usize,
}

/// The windows of an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisWindows {
    pub(super) input: usize,
    pub(super) windows: Vec<Window>,
    pub(super) step: usize,
    pub(super) regular: Option<Regular>,
}

impl AxisWindows {
    /// Windows of `kernel` taps, `dilation` apart, that begin at `o * stride - pad`.
    pub fn regular(
        input: usize,
        output: usize,
        kernel: usize,
        stride: usize,
        pad: usize,
        dilation: usize,
    ) -> AxisWindows {
        let window = |o: usize| {
            let begin = (o * stride) as i64 - pad as i64;
            let first = if begin < 0 { (-begin as usize).div_ceil(dilation) } else { 0 };
            // taps at begin + k * dilation < input
            let room = input as i64 - begin;
            let end = if room <= 0 { 0 } else { (room as usize).div_ceil(dilation).min(kernel) };
            let padded_end = (begin + kernel as i64).min((input + pad) as i64);
            Window {
                start: (begin + (first * dilation) as i64) as usize,
                taps: end.saturating_sub(first),
                padded: (padded_end - begin).max(0) as usize,
            }
        };
        let windows: Vec<Window> = (0..output).map(window).collect();
        // from the first tap of the last window that has one, to the last of the first
        let first = pad.saturating_sub(output.saturating_sub(1) * stride) / dilation;
        let end = (input + pad).div_ceil(dilation).min(kernel);
        let work: usize = windows.iter().map(|w| w.taps).sum();
        AxisWindows {
            input,
            windows,
            step: dilation,
            regular: Some(Regular {
                taps: (end.saturating_sub(first) <= work.max(kernel.min(1 << 10)))
                    .then_some(first..end),
                stride,
                pad,
            }),
        }
    }

    /// How to walk the windows tap after tap, all windows at once, where they allow it.
    pub(super) fn by_taps(&self) -> Option<(&Regular, Range<usize>)> {
        let regular = self.regular.as_ref()?;
        Some((regular, regular.taps.clone()?))
    }

    /// Windows that share the input out among `output` positions: from `o * input / output`,
    /// rounded down, to `(o + 1) * input / output`, rounded up.
    pub fn adaptive(input: usize, output: usize) -> AxisWindows {
        let window = |o: usize| {
            let start = o * input / output;
            let end = ((o + 1) * input).div_ceil(output);
            Window { start, taps: end - start, padded: end - start }
        };
        AxisWindows { input, windows: (0..output).map(window).collect(), step: 1, regular: None }
    }

    /// Windows of `kernel` neighbours that begin at `starts`; each has to lie inside of the input.
    pub(super) fn at(input: usize, starts: &[usize], kernel: usize) -> AxisWindows {
        debug_assert!(starts.iter().all(|s| s + kernel <= input));
        AxisWindows {
            input,
            windows: starts
                .iter()
                .map(|&start| Window { start, taps: kernel, padded: kernel })
                .collect(),
            step: 1,
            regular: None,
        }
    }

    /// A missing axis: one position that sees itself.
    pub fn none() -> AxisWindows {
        AxisWindows::regular(1, 1, 1, 1, 0, 1)
    }

    /// The number of output positions.
    pub fn output(&self) -> usize {
        self.windows.len()
    }

    /// The most taps that a window has.
    pub(super) fn most_taps(&self) -> usize {
        self.windows.iter().map(|w| w.taps).max().unwrap_or(0)
    }
}
