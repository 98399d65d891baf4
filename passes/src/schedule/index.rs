//! Arithmetic on index expressions, and reshaping them.

use super::loops::{Axis, AxisId, Index};

impl Index {
    /// A constant.
    pub fn constant(base: i64) -> Index {
        Index { base, ..Index::default() }
    }

    /// An axis with stride 1.
    pub fn axis(axis: AxisId) -> Index {
        let mut index = Index::default();
        index.terms.push((axis, 1));
        index
    }

    /// Whether the index is the same everywhere.
    pub fn is_constant(&self) -> bool {
        self.terms.is_empty() && self.dynamic.is_empty()
    }

    /// Adds `factor * other`; terms stay sorted by axis, so that equal expressions are equal.
    pub fn add_scaled(&mut self, other: &Index, factor: i64) {
        if factor == 0 {
            return;
        }
        self.base += other.base * factor;
        for (axis, stride) in &other.terms {
            match self.terms.binary_search_by_key(axis, |t| t.0) {
                Ok(i) => self.terms[i].1 += stride * factor,
                Err(i) => self.terms.insert(i, (*axis, stride * factor)),
            }
        }
        self.terms.retain(|t| t.1 != 0);
        for (val, stride) in &other.dynamic {
            match self.dynamic.binary_search_by_key(val, |t| t.0) {
                Ok(i) => self.dynamic[i].1 += stride * factor,
                Err(i) => self.dynamic.insert(i, (*val, stride * factor)),
            }
        }
        self.dynamic.retain(|t| t.1 != 0);
    }

    /// The smallest and largest value of the affine part.
    pub fn range(&self, extent: impl Fn(AxisId) -> i64) -> (i64, i64) {
        let (mut lo, mut hi) = (self.base, self.base);
        for (axis, stride) in &self.terms {
            let reach = stride * (extent(*axis) - 1);
            lo += reach.min(0);
            hi += reach.max(0);
        }
        (lo, hi)
    }
}

/// Why an index could not be split over the dimensions of another shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsplit {
    /// It can be once this axis is split in two, the inner one of this extent.
    SplitAxis { axis: AxisId, inner: i64 },
    /// It cannot.
    Never,
}

/// Writes a row-major position as one index per dimension of `sizes`.
fn delinearize(
    position: &Index,
    sizes: &[i64],
    extent: &dyn Fn(AxisId) -> i64,
) -> Result<Vec<Index>, Unsplit> {
    if !position.dynamic.is_empty() {
        return Err(Unsplit::Never);
    }
    let mut rest = position.clone();
    let mut out = Vec::with_capacity(sizes.len());
    for d in 0..sizes.len() {
        let stride: i64 = sizes[d + 1..].iter().product();
        let mut here = Index::constant(rest.base.div_euclid(stride));
        let mut inner = Index::constant(rest.base.rem_euclid(stride));
        for (axis, c) in &rest.terms {
            if c % stride == 0 {
                here.terms.push((*axis, c / stride));
            } else if *c < 0 || *c > stride {
                return Err(Unsplit::Never);
            } else {
                inner.terms.push((*axis, *c));
            }
        }
        if inner.range(extent).1 >= stride {
            // an axis that runs across the boundary may be cut there
            for (axis, c) in &inner.terms {
                let e = extent(*axis);
                let piece = stride / c;
                if c * (e - 1) >= stride && stride % c == 0 && e % piece == 0 {
                    return Err(Unsplit::SplitAxis { axis: *axis, inner: piece });
                }
            }
            return Err(Unsplit::Never);
        }
        out.push(here);
        rest = inner;
    }
    Ok(out)
}

/// The index in a tensor of `from` sizes of the element at `index` in its reshape to `to` sizes.
pub(crate) fn reshape(
    index: &[Index],
    to: &[i64],
    from: &[i64],
    extent: &dyn Fn(AxisId) -> i64,
) -> Result<Vec<Index>, Unsplit> {
    let mut out = vec![Index::default(); from.len()];
    let (mut i, mut j) = (0, 0);
    // match the shortest runs of dimensions with equal products
    while i < from.len() || j < to.len() {
        let (i0, j0) = (i, j);
        let next = |sizes: &[i64], at: &mut usize| {
            let size = sizes.get(*at).copied();
            *at += 1;
            size.filter(|s| *s > 0)
        };
        let mut a = if i < from.len() { next(from, &mut i) } else { Some(1) };
        let mut b = if j < to.len() { next(to, &mut j) } else { Some(1) };
        while a != b {
            let (Some(x), Some(y)) = (a, b) else {
                return Err(Unsplit::Never);
            };
            if x < y {
                a = next(from, &mut i).map(|n| n * x);
            } else {
                b = next(to, &mut j).map(|n| n * y);
            }
        }
        let mut position = Index::default();
        let mut stride = 1;
        for d in (j0..j).rev() {
            position.add_scaled(&index[d], stride);
            stride *= to[d];
        }
        let real: Vec<usize> = (i0..i).filter(|d| from[*d] != 1).collect();
        match &real[..] {
            [] => {}
            [only] => out[*only] = position,
            _ => {
                let sizes: Vec<i64> = real.iter().map(|d| from[*d]).collect();
                for (d, ix) in real.iter().zip(delinearize(&position, &sizes, extent)?) {
                    out[*d] = ix;
                }
            }
        }
    }
    Ok(out)
}

/// The extent of an axis among `axes`; 1 for an unknown one.
pub(crate) fn extent_in(axes: &[Axis], id: AxisId) -> i64 {
    axes.iter().find(|a| a.id == id).map_or(1, |a| a.extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ix(base: i64, terms: &[(u32, i64)]) -> Index {
        let mut index = Index::constant(base);
        for (a, s) in terms {
            index.add_scaled(&Index::axis(AxisId(*a)), *s);
        }
        index
    }

    #[test]
    fn merging_dimensions_is_affine() {
        let e = |a: AxisId| [2, 3][a.0 as usize];
        let got = reshape(&[ix(0, &[(0, 1)]), ix(0, &[(1, 1)])], &[2, 3], &[6], &e);
        assert_eq!(got, Ok(vec![ix(0, &[(0, 3), (1, 1)])]));
    }

    #[test]
    fn splitting_needs_an_axis_that_fits() {
        let e = |_: AxisId| 6;
        let got = reshape(&[ix(0, &[(0, 1)])], &[6], &[2, 3], &e);
        let axis = AxisId(0);
        assert_eq!(got, Err(Unsplit::SplitAxis { axis, inner: 3 }));
        let e = |a: AxisId| [2, 3][a.0 as usize];
        let got = reshape(&[ix(0, &[(0, 3), (1, 1)])], &[6], &[2, 3], &e);
        assert_eq!(got, Ok(vec![ix(0, &[(0, 1)]), ix(0, &[(1, 1)])]));
        // 1 + i over 0..5 crosses from one row of three into the next
        let e = |_: AxisId| 5;
        let got = reshape(&[ix(1, &[(0, 1)])], &[6], &[2, 3], &e);
        assert_eq!(got, Err(Unsplit::Never));
    }

    #[test]
    fn unrelated_runs_pass_through() {
        let e = |a: AxisId| [4, 2, 3, 5][a.0 as usize];
        let index: Vec<Index> = (0..4).map(|a| Index::axis(AxisId(a))).collect();
        let got = reshape(&index, &[4, 2, 3, 5], &[4, 1, 6, 5], &e);
        let want = vec![ix(0, &[(0, 1)]), ix(0, &[]), ix(0, &[(1, 3), (2, 1)]), ix(0, &[(3, 1)])];
        assert_eq!(got, Ok(want));
    }
}
