//! Views: which element of the source each element of a view is.
//!
//! [`ViewMap`] is the normal form of a view operator's arguments for a source of given sizes:
//! dimensions are counted from the front, ranges are within bounds, and defaults are filled in.
//! Everything else about a view follows from it: its strides ([`ViewMap::strides`]), the source
//! index for each position ([`ViewMap::source`]), what a write through the view does to the source
//! ([`ViewMap::inverse`]), and the composition of two views ([`ViewMap::then`]).
//!
//! As in tinygrad, views are a handful of movements, not one rule per operator.

use crate::layout::{contiguous_strides, filled, numel};
use crate::meta::MetaError;
use crate::{Dims, Op};
use smallvec::{SmallVec, smallvec};

mod calls;
mod operators;
#[cfg(test)]
mod tests;

pub use calls::{chunk_sizes, parts_of, split_sizes};

/// An index along one dimension of a view's source: affine in the positions along the view's
/// dimensions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Affine {
    /// The index when all positions are 0.
    pub base: i64,
    /// (dimension of the view, coefficient)
    pub terms: SmallVec<[(usize, i64); 1]>,
}

impl Affine {
    /// A constant index.
    pub fn at(base: i64) -> Affine {
        Affine { base, terms: SmallVec::new() }
    }

    /// The position along one dimension of the view.
    pub fn dim(dim: usize) -> Affine {
        Affine { base: 0, terms: smallvec![(dim, 1)] }
    }
}

/// Dimensions.
pub type Axes = SmallVec<[usize; 5]>;

/// A view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ViewMap {
    /// The source itself.
    Identity,
    /// Dimension `i` of the view is dimension `dims[i]` of the source.
    Permute(Axes),
    /// `len` elements of a dimension, beginning at `start`, `step` apart.
    Slice {
        /// The dimension.
        dim: usize,
        /// The first one.
        start: i64,
        /// How many.
        len: i64,
        /// From one to the next.
        step: i64,
    },
    /// A fixed index of a dimension, which is removed.
    Select {
        /// The dimension.
        dim: usize,
        /// The index.
        index: i64,
    },
    /// Expanded to these sizes: dimensions of size 1 are repeated, new ones added in front.
    Expand(Dims),
    /// With a new dimension of size 1 before this one.
    Unsqueeze(usize),
    /// Without these dimensions, which have size 1.
    Squeeze(Axes),
    /// A diagonal of two dimensions, which becomes the last dimension.
    Diagonal {
        /// How far `dim2` is ahead of `dim1`.
        offset: i64,
        /// One dimension.
        dim1: usize,
        /// The other.
        dim2: usize,
    },
    /// Windows along a dimension; the window becomes the last dimension.
    Unfold {
        /// The dimension.
        dim: usize,
        /// Elements in a window.
        size: i64,
        /// From one window to the next.
        step: i64,
    },
    /// The elements in the same order, with other sizes.
    Reshape(Dims),
}

/// How to rebuild the source after a view of it has been given new values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inverse {
    /// The source is the new value.
    Same,
    /// The source is the new value with its dimensions in this order.
    Permute(Axes),
    /// The source is the new value with the source's sizes.
    Reshape,
    /// The source with a slice replaced.
    Slice {
        /// The dimension.
        dim: usize,
        /// The first element.
        start: i64,
        /// One past the last element.
        end: i64,
        /// From one to the next.
        step: i64,
    },
    /// The source with one index of a dimension replaced.
    Select {
        /// The dimension.
        dim: usize,
        /// The index.
        index: i64,
    },
    /// The source with a diagonal replaced.
    Diagonal {
        /// How far `dim2` is ahead of `dim1`.
        offset: i64,
        /// One dimension.
        dim1: usize,
        /// The other.
        dim2: usize,
    },
    /// There is none: windows overlap, and it is not known which was written last.
    None,
}

/// A dimension counted from the front. As in PyTorch, a 0-dim tensor accepts 0 and -1.
///
/// # Errors
///
/// The dimension is out of range.
#[inline]
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize, MetaError> {
    let n = rank.max(1) as i64;
    match dim {
        0.. if dim < n => Ok(dim as usize),
        ..0 if dim >= -n => Ok((dim + n) as usize),
        _ => Err(MetaError::Dim { dim, rank }),
    }
}

/// The first element of Python's slice `start:end:step` of a dimension of `size`, and how many
/// elements the slice has.
#[inline]
pub fn slice_range(size: i64, start: Option<i64>, end: Option<i64>, step: i64) -> (i64, i64) {
    let clip = |x: i64| (if x < 0 { x.saturating_add(size) } else { x }).clamp(0, size);
    let start = clip(start.unwrap_or(0));
    let end = clip(end.unwrap_or(i64::MAX)).max(start);
    (start, ((end - start) as u64).div_ceil(step.max(1) as u64) as i64)
}

/// Sizes with a `-1` replaced by the size that makes the element counts agree.
///
/// # Errors
///
/// The sizes do not give this many elements.
#[inline]
pub fn infer_sizes(sizes: &[i64], numel: i64) -> Result<Dims, MetaError> {
    let mut out = Dims::from_slice(sizes);
    let mut unknown = None;
    let mut known: i64 = 1;
    for (i, s) in sizes.iter().enumerate() {
        match *s {
            -1 if unknown.is_none() => unknown = Some(i),
            -1 => return Err(MetaError::TwoInferred { to: out }),
            s if s < 0 => return Err(MetaError::Sizes(out)),
            s => known = known.saturating_mul(s),
        }
    }
    match unknown {
        Some(_) if known == 0 => return Err(MetaError::Ambiguous { to: out }),
        Some(i) if numel % known == 0 => out[i] = numel / known,
        None if known == numel => {}
        _ => return Err(MetaError::ViewCount { to: out, numel }),
    }
    Ok(out)
}

/// The strides that view `(sizes, strides)` as `target`, which has the same number of elements,
/// without a copy. `None` if there are none.
///
/// ```
/// use straightline_catalog::view::view_strides;
/// assert_eq!(view_strides(&[2, 3, 4], &[12, 4, 1], &[6, 4]).unwrap()[..], [4, 1]);
/// assert_eq!(view_strides(&[4, 3], &[1, 4], &[12]), None);
/// ```
#[inline]
pub fn view_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Option<Dims> {
    if numel(sizes) == 0 {
        return Some(match sizes == target {
            true => Dims::from_slice(strides),
            false => contiguous_strides(target),
        });
    }
    let mut out = filled(1, target.len());
    if sizes.is_empty() {
        return Some(out);
    }
    // Walk from the last dimension, cutting the source into chunks that are contiguous in
    // themselves; each chunk must hold a whole number of target dimensions.
    let mut t = target.len();
    let mut chunk_stride = strides[sizes.len() - 1];
    let mut chunk = 1;
    for d in (0..sizes.len()).rev() {
        chunk *= sizes[d];
        let ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk * chunk_stride);
        if !ends {
            continue;
        }
        let mut taken = 1;
        while t > 0 && (taken < chunk || target[t - 1] == 1) {
            t -= 1;
            out[t] = taken * chunk_stride;
            taken *= target[t];
        }
        if taken != chunk {
            return None;
        }
        if d > 0 {
            chunk = 1;
            chunk_stride = strides[d - 1];
        }
    }
    (t == 0).then_some(out)
}

/// What follows from a map.
impl ViewMap {
    /// The sizes of the view, for a source of these sizes.
    pub fn sizes(&self, source: &[i64]) -> Dims {
        let mut out = Dims::from_slice(source);
        match self {
            ViewMap::Identity => {}
            ViewMap::Permute(dims) => out = dims.iter().map(|d| source[*d]).collect(),
            ViewMap::Slice { dim, len, .. } => out[*dim] = *len,
            ViewMap::Select { dim, .. } => {
                out.remove(*dim);
            }
            ViewMap::Expand(sizes) | ViewMap::Reshape(sizes) => out = sizes.clone(),
            ViewMap::Unsqueeze(dim) => out.insert(*dim, 1),
            ViewMap::Squeeze(dims) => {
                let kept = (0..source.len()).filter(|d| !dims.contains(d));
                out = kept.map(|d| source[d]).collect();
            }
            ViewMap::Diagonal { offset, dim1, dim2 } => {
                let (n, m) = (source[*dim1], source[*dim2]);
                let size = match *offset >= 0 {
                    true => n.min(m.saturating_sub(*offset)),
                    false => n.saturating_add(*offset).min(m),
                };
                let kept = (0..source.len()).filter(|d| d != dim1 && d != dim2);
                out = kept.map(|d| source[d]).collect();
                out.push(size.max(0));
            }
            ViewMap::Unfold { dim, size, step } => {
                if let Some(n) = out.get_mut(*dim) {
                    *n = (*n - size) / step + 1;
                }
                out.push(*size);
            }
        }
        out
    }

    /// The index along dimension `d` of a source of these sizes. `None` for a reshape, which is
    /// only piecewise affine.
    pub fn source(&self, source: &[i64], d: usize) -> Option<Affine> {
        let rank = source.len();
        // how many of some dimensions stand before this one
        let before = |gone: &[usize]| gone.iter().filter(|g| **g < d).count();
        Some(match self {
            ViewMap::Identity => Affine::dim(d),
            ViewMap::Permute(dims) => Affine::dim(dims.iter().position(|p| *p == d)?),
            ViewMap::Slice { dim, start, len, step } if *dim == d => Affine {
                base: *start,
                // a step to no other element may be as wide as numbers go
                terms: match *len > 1 || *step == 1 {
                    true => smallvec![(d, *step)],
                    false => SmallVec::new(),
                },
            },
            ViewMap::Slice { .. } => Affine::dim(d),
            ViewMap::Select { dim, index } if *dim == d => Affine::at(*index),
            ViewMap::Select { dim, .. } => Affine::dim(d - before(&[*dim])),
            ViewMap::Expand(sizes) => {
                let at = d + sizes.len() - rank;
                match source[d] == 1 && sizes[at] != 1 {
                    true => Affine::at(0),
                    false => Affine::dim(at),
                }
            }
            ViewMap::Unsqueeze(dim) => Affine::dim(d + usize::from(*dim <= d)),
            ViewMap::Squeeze(dims) if dims.contains(&d) => Affine::at(0),
            ViewMap::Squeeze(dims) => Affine::dim(d - before(dims)),
            ViewMap::Diagonal { offset, dim1, dim2 } => {
                let last = rank - 2;
                let base = match d {
                    d if d == *dim1 => offset.saturating_neg().max(0),
                    d if d == *dim2 => (*offset).max(0),
                    _ => return Some(Affine::dim(d - before(&[*dim1, *dim2]))),
                };
                Affine { base, terms: smallvec![(last, 1)] }
            }
            ViewMap::Unfold { dim, size, step } if *dim == d => {
                let windows = (source[d] - size) / step + 1;
                let mut terms = SmallVec::new();
                if windows > 1 {
                    terms.push((d, *step));
                }
                terms.push((rank, 1));
                Affine { base: 0, terms }
            }
            ViewMap::Unfold { .. } => Affine::dim(d),
            ViewMap::Reshape(_) => return None,
        })
    }

    /// The sizes, strides and offset of the view, for a source with these sizes, strides and
    /// offset.
    ///
    /// # Errors
    ///
    /// No strides give the elements these sizes; a copy is needed.
    #[inline(always)]
    pub fn strides(
        &self,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<(Dims, Dims, i64), MetaError> {
        // the commonest without detours; the tests hold them against the general way
        match self {
            ViewMap::Identity => {
                return Ok((Dims::from_slice(sizes), Dims::from_slice(strides), offset));
            }
            ViewMap::Permute(dims) => {
                let (mut to, mut out) = (Dims::from_slice(sizes), Dims::from_slice(strides));
                for (i, d) in dims.iter().enumerate() {
                    (to[i], out[i]) = (sizes[*d], strides[*d]);
                }
                return Ok((to, out, offset));
            }
            ViewMap::Select { dim, index } => {
                let (mut to, mut out) = (Dims::from_slice(sizes), Dims::from_slice(strides));
                to.remove(*dim);
                let stride = out.remove(*dim);
                return Ok((to, out, offset + index * stride));
            }
            ViewMap::Slice { dim, start, len, step } => {
                let (mut to, mut out) = (Dims::from_slice(sizes), Dims::from_slice(strides));
                to[*dim] = *len;
                out[*dim] = strides[*dim].saturating_mul(*step);
                return Ok((to, out, offset + start * strides[*dim]));
            }
            ViewMap::Expand(to) => {
                let mut out = filled(0, to.len());
                let lead = to.len() - sizes.len();
                for (i, own) in sizes.iter().enumerate() {
                    if *own == to[lead + i] {
                        out[lead + i] = strides[i];
                    }
                }
                self.free_strides(sizes, strides, to, &mut out);
                return Ok((Dims::from_slice(to), out, offset));
            }
            ViewMap::Unsqueeze(dim) => {
                let (mut to, mut out) = (Dims::from_slice(sizes), Dims::from_slice(strides));
                to.insert(*dim, 1);
                out.insert(*dim, 0);
                self.free_strides(sizes, strides, &to, &mut out);
                return Ok((to, out, offset));
            }
            ViewMap::Reshape(to) => {
                return match view_strides(sizes, strides, to) {
                    Some(seen) => Ok((Dims::from_slice(to), seen, offset)),
                    None => Err(MetaError::Strides {
                        sizes: Dims::from_slice(sizes),
                        strides: Dims::from_slice(strides),
                    }),
                };
            }
            _ => {}
        }
        self.general_strides(sizes, strides, offset)
    }

    /// [`ViewMap::strides`] derived from [`ViewMap::source`], for all maps but reshapes.
    fn general_strides(
        &self,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<(Dims, Dims, i64), MetaError> {
        let to = self.sizes(sizes);
        let mut out = filled(0, to.len());
        let mut at = offset;
        // a diagonal without elements begins where its source does
        let begins = !matches!(self, ViewMap::Diagonal { .. }) || to.last() != Some(&0);
        for (d, stride) in strides.iter().enumerate() {
            let Some(index) = self.source(sizes, d) else {
                continue;
            };
            if begins {
                at += index.base * stride;
            }
            for (dim, step) in &index.terms {
                // of no consequence where it saturates: there is one element then, or none
                out[*dim] = out[*dim].saturating_add(stride.saturating_mul(*step));
            }
        }
        self.free_strides(sizes, strides, &to, &mut out);
        Ok((to, out, at))
    }

    /// Sets the strides that address no second element to the values that PyTorch gives them.
    fn free_strides(&self, sizes: &[i64], strides: &[i64], to: &[i64], out: &mut Dims) {
        match self {
            // a new dimension of size 1 steps over the ones behind it, as if it had been there
            ViewMap::Unsqueeze(dim) => {
                let behind = to.get(dim + 1).zip(out.get(dim + 1).copied());
                out[*dim] = behind.map_or(1, |(n, stride)| n.saturating_mul(stride));
            }
            ViewMap::Expand(_) if !sizes.is_empty() => {
                for i in (0..to.len() - sizes.len()).rev().filter(|i| to[*i] == 1) {
                    out[i] = to[i + 1].saturating_mul(out[i + 1]);
                }
            }
            ViewMap::Slice { dim, len: 0 | 1, step, .. } => {
                out[*dim] = strides[*dim].saturating_mul(*step)
            }
            ViewMap::Unfold { dim, step, .. } => {
                let stride = strides.get(*dim).copied().unwrap_or(1);
                match out.get_mut(*dim).filter(|_| !sizes.is_empty()) {
                    Some(own) => *own = step.saturating_mul(stride),
                    None => out[0] = 1,
                }
            }
            _ => {}
        }
    }

    /// How to rebuild a source of these sizes after the view has been given new values.
    pub fn inverse(&self, sizes: &[i64]) -> Inverse {
        match self {
            ViewMap::Identity => Inverse::Same,
            ViewMap::Permute(dims) => {
                let mut back: Axes = smallvec![0; dims.len()];
                for (to, from) in dims.iter().enumerate() {
                    back[*from] = to;
                }
                Inverse::Permute(back)
            }
            ViewMap::Slice { dim, start, len, step } => Inverse::Slice {
                dim: *dim,
                start: *start,
                // behind the last one, where that can be said
                end: match *len {
                    0 => *start,
                    len => (start + 1).saturating_add((len - 1).saturating_mul(*step)),
                }
                .min(sizes[*dim]),
                step: *step,
            },
            ViewMap::Select { dim, index } => Inverse::Select { dim: *dim, index: *index },
            ViewMap::Diagonal { offset, dim1, dim2 } => {
                Inverse::Diagonal { offset: *offset, dim1: *dim1, dim2: *dim2 }
            }
            // what is written repeats nothing: dimensions of size 1 were added or kept
            ViewMap::Expand(to) if numel(to) == numel(sizes) => Inverse::Reshape,
            ViewMap::Unsqueeze(_) | ViewMap::Squeeze(_) | ViewMap::Reshape(_) => Inverse::Reshape,
            ViewMap::Expand(_) | ViewMap::Unfold { .. } => Inverse::None,
        }
    }

    /// The composition of this view and a view of it; `None` if no single map expresses both.
    #[must_use]
    pub fn then(&self, outer: &ViewMap) -> Option<ViewMap> {
        Some(match (self, outer) {
            (ViewMap::Identity, other) | (other, ViewMap::Identity) => other.clone(),
            (ViewMap::Permute(first), ViewMap::Permute(second)) => {
                ViewMap::Permute(second.iter().map(|d| first[*d]).collect())
            }
            (ViewMap::Expand(_), ViewMap::Expand(sizes)) => ViewMap::Expand(sizes.clone()),
            (ViewMap::Slice { dim: a, .. }, ViewMap::Slice { dim: b, .. }) if a != b => {
                return None;
            }
            (
                ViewMap::Slice { dim, start, step, .. },
                ViewMap::Slice { start: from, len, step: by, .. },
            ) => ViewMap::Slice {
                dim: *dim,
                start: start.checked_add(from.checked_mul(*step)?)?,
                len: *len,
                step: step.checked_mul(*by)?,
            },
            // of elements in the same order, the sizes between do not count
            (
                ViewMap::Reshape(_) | ViewMap::Unsqueeze(_) | ViewMap::Squeeze(_),
                ViewMap::Reshape(sizes),
            ) => ViewMap::Reshape(sizes.clone()),
            _ => return None,
        })
    }

    /// Whether a view of a source of these sizes is the source itself.
    pub fn is_identity(&self, sizes: &[i64]) -> bool {
        match self {
            ViewMap::Identity => true,
            ViewMap::Permute(dims) => dims.iter().enumerate().all(|(i, d)| i == *d),
            ViewMap::Slice { dim, len, step, .. } => *len == sizes[*dim] && *step == 1,
            ViewMap::Expand(to) | ViewMap::Reshape(to) => to[..] == *sizes,
            ViewMap::Squeeze(dims) => dims.is_empty(),
            _ => false,
        }
    }
}
