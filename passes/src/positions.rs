//! Which input position an output position copies: pads that mirror or repeat, nearest-neighbour
//! interpolation.
//!
//! The eager kernels and the scheduler both read these functions, so that they copy the same
//! elements.

/// How a dimension is padded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    /// The mirror image about the first or last element.
    Mirror,
    /// The first or last element.
    Edge,
}

impl Outside {
    /// The position in a dimension of size `n` that position `at` outside (or inside) of it stands
    /// for. A mirror reaches no further than the dimension itself: beyond that the result is
    /// outside of it as well.
    pub fn inside(self, at: i64, n: i64) -> i64 {
        match self {
            Outside::Edge => at.min(n - 1).max(0),
            Outside::Mirror if at < 0 => at.saturating_neg(),
            Outside::Mirror if at >= n => (2 * (n - 1)).saturating_sub(at),
            Outside::Mirror => at,
        }
    }
}

/// How output positions relate to input positions along an axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AxisRatio {
    /// The input's size.
    pub input: usize,
    /// The output's size.
    pub output: usize,
    /// The factor that the caller named; used in place of the sizes' ratio.
    pub factor: Option<f64>,
    /// Whether the first and the last elements of input and output are aligned.
    pub align_corners: bool,
    /// Whether positions are computed in `f32`.
    pub single: bool,
}

impl AxisRatio {
    /// Rounds to `f32` if positions are computed in it: an operation in `f64`, rounded, equals the
    /// one in `f32`.
    pub fn round(&self, x: f64) -> f64 {
        if self.single { f64::from(x as f32) } else { x }
    }

    /// Input positions per output position.
    pub fn scale(&self) -> f64 {
        if self.align_corners {
            if self.output > 1 {
                return self.round((self.input as f64 - 1.0) / (self.output as f64 - 1.0));
            }
            return 0.0;
        }
        match self.factor {
            Some(f) if f > 0.0 => self.round(1.0 / f),
            _ => self.round(self.input as f64 / self.output as f64),
        }
    }

    /// Where output position `o` lies in the input.
    pub fn source(&self, scale: f64, o: usize) -> f64 {
        if self.align_corners {
            self.round(scale * o as f64)
        } else {
            self.round(self.round(scale * (o as f64 + 0.5)) - 0.5)
        }
    }

    /// The last input position.
    pub fn last(&self) -> usize {
        self.input.saturating_sub(1)
    }

    /// The input positions that nearest-neighbour interpolation copies; `exact` measures from the
    /// centre of a position.
    pub fn nearest(&self, exact: bool) -> Vec<usize> {
        let scale = self.scale();
        let from = |o: usize| {
            let at = if exact {
                self.round(self.source(scale, o).max(0.0) + 0.5)
            } else {
                self.round(scale * o as f64)
            };
            // PyTorch takes the floor in f32, whatever the type
            (f64::from((at as f32).floor()).max(0.0) as usize).min(self.last())
        };
        (0..self.output).map(from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_and_edges() {
        let all = |o: Outside| (-2..6).map(|i| o.inside(i, 4)).collect::<Vec<_>>();
        assert_eq!(all(Outside::Mirror), [2, 1, 0, 1, 2, 3, 2, 1]);
        assert_eq!(all(Outside::Edge), [0, 0, 0, 1, 2, 3, 3, 3]);
        assert_eq!(Outside::Edge.inside(i64::MAX, 4), 3);
        assert!(Outside::Mirror.inside(7, 4) < 0);
    }

    #[test]
    fn nearest_neighbours_below_and_from_the_middle() {
        let ratio = |input, output| AxisRatio {
            input,
            output,
            factor: None,
            align_corners: false,
            single: true,
        };
        assert_eq!(ratio(3, 6).nearest(false), [0, 0, 1, 1, 2, 2]);
        assert_eq!(ratio(5, 3).nearest(false), [0, 1, 3]);
        assert_eq!(ratio(5, 3).nearest(true), [0, 2, 4]);
    }
}
