//! Strides of views.

use super::program::{Def, Program, V};
use crate::ir::Dims;
use crate::ir::view::{Affine, view_strides};

/// A strided view of stored elements.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Strided {
    /// The value that is stored.
    pub(crate) base: V,
    pub(crate) strides: Dims,
    pub(crate) offset: i64,
}

/// Strides and offset of a view given those of its source.
pub(crate) fn compose(map: &[Affine], source: &[i64], rank: usize) -> (Dims, i64) {
    let mut strides = Dims::from_elem(0, rank);
    let mut offset = 0;
    for (at, s) in map.iter().zip(source) {
        offset += at.base * s;
        for (dim, c) in &at.terms {
            strides[*dim] += c * s;
        }
    }
    (strides, offset)
}

/// `v` with its views resolved: a strided view of a value that is not a view; `None` if some view
/// needs a copy. `stored` gives the strides of such a value.
pub(crate) fn resolve(p: &Program, v: V, stored: &dyn Fn(V) -> Dims) -> Option<Strided> {
    match p.def(v) {
        Def::View { src, map } => {
            let s = resolve(p, *src, stored)?;
            let (strides, offset) = compose(map, &s.strides, p.sizes(v).len());
            let offset = offset + s.offset;
            Some(Strided { strides, offset, ..s })
        }
        Def::Reshape(src) => {
            let s = resolve(p, *src, stored)?;
            let strides = view_strides(p.sizes(*src), &s.strides, p.sizes(v))?;
            Some(Strided { strides, ..s })
        }
        _ => Some(Strided { base: v, strides: stored(v), offset: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshaping_strides() {
        for (sizes, strides, target, want) in [
            (&[2, 3][..], &[3, 1][..], &[6][..], Some(&[1][..])),
            (&[2, 3], &[1, 2], &[6], None),
            (&[6], &[2], &[2, 3], Some(&[6, 2])),
            (&[2, 3, 4], &[100, 4, 1], &[2, 12], Some(&[100, 1])),
            (&[2, 3, 4], &[100, 4, 1], &[6, 4], None),
            (&[1, 4], &[77, 2], &[4, 1], Some(&[2, 8])),
            (&[4, 1, 3], &[3, 50, 1], &[12], Some(&[1])),
            (&[4, 3], &[0, 1], &[4, 1, 3], Some(&[0, 3, 1])),
            (&[4, 1], &[2, 9], &[2, 2], Some(&[4, 2])),
            (&[2, 1, 3], &[3, 0, 1], &[2, 3], Some(&[3, 1])),
        ] {
            let got = view_strides(sizes, strides, target);
            let same = match (&got, want) {
                (Some(g), Some(w)) => {
                    g.iter().zip(w).zip(target).all(|((g, w), n)| *n == 1 || g == w)
                }
                (None, None) => true,
                _ => false,
            };
            assert!(same, "{sizes:?} {strides:?} -> {target:?}: {got:?}");
        }
    }
}
