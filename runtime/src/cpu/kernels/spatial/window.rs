//! Which input positions each output position of a pooling operator sees, along one axis.

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Regular {
    pub(super) kernel: usize,
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
            let first = if begin < 0 {
                (-begin as usize).div_ceil(dilation)
            } else {
                0
            };
            // taps at begin + k * dilation < input
            let room = input as i64 - begin;
            let end = if room <= 0 {
                0
            } else {
                (room as usize).div_ceil(dilation).min(kernel)
            };
            let padded_end = (begin + kernel as i64).min((input + pad) as i64);
            Window {
                start: (begin + (first * dilation) as i64) as usize,
                taps: end.saturating_sub(first),
                padded: (padded_end - begin).max(0) as usize,
            }
        };
        AxisWindows {
            input,
            windows: (0..output).map(window).collect(),
            step: dilation,
            regular: Some(Regular {
                kernel,
                stride,
                pad,
            }),
        }
    }

    /// Windows that share the input out among `output` positions: from `o * input / output`, rounded down, to
    /// `(o + 1) * input / output`, rounded up.
    pub fn adaptive(input: usize, output: usize) -> AxisWindows {
        let window = |o: usize| {
            let start = o * input / output;
            let end = ((o + 1) * input).div_ceil(output);
            Window {
                start,
                taps: end - start,
                padded: end - start,
            }
        };
        AxisWindows {
            input,
            windows: (0..output).map(window).collect(),
            step: 1,
            regular: None,
        }
    }

    /// Windows of `kernel` neighbours that begin at `starts`; each has to lie inside of the input.
    pub fn at(input: usize, starts: &[usize], kernel: usize) -> AxisWindows {
        debug_assert!(starts.iter().all(|s| s + kernel <= input));
        AxisWindows {
            input,
            windows: starts
                .iter()
                .map(|&start| Window {
                    start,
                    taps: kernel,
                    padded: kernel,
                })
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

    /// For tap `k` of regular windows: the output positions that have it inside of the input, and the input position
    /// that it would have for output 0.
    pub(super) fn tap_range(&self, r: Regular, k: usize) -> (usize, usize, i64) {
        let offset = (k * self.step) as i64 - r.pad as i64;
        let low = if offset < 0 {
            (-offset as usize).div_ceil(r.stride)
        } else {
            0
        };
        let room = self.input as i64 - offset;
        let high = if room <= 0 {
            0
        } else {
            (room as usize).div_ceil(r.stride).min(self.output())
        };
        (low, high.max(low), offset)
    }
}
