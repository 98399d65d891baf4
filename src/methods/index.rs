//! Indexing as it is written: `x.i((0..2, 1, ..))`, and assignment through it.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Int, Other, Tensor};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::panic::Location;
use straightline_catalog::DType;

/// One index among those of [`Tensor::i`]; written as a number, a range, a tensor and so on, it
/// becomes one of these.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Index {
    /// The element at a position, counted from the end where negative: the dimension goes away.
    At(i64),
    /// The elements from a position up to another one, every so many: `2..5`, `..-1`, [`step`]`(..,
    /// 2)`.
    Slice {
        /// The first; `None`: the first that is there.
        start: Option<i64>,
        /// The one behind the last; `None`: the one behind all.
        end: Option<i64>,
        /// The distance.
        step: i64,
    },
    /// As many whole dimensions as the other indices leave, [`Ellipsis`].
    Ellipsis,
    /// A new dimension of size 1, [`NewAxis`].
    NewAxis,
    /// The elements at the positions in an integer tensor, or those where a tensor of `bool` is
    /// true.
    Tensor(Tensor),
    /// The elements at these positions.
    Positions(Vec<i64>),
    /// The elements where it says `true`.
    Mask(Vec<bool>),
}

/// As many whole dimensions as the other indices leave: Python's `...` in [`Tensor::i`].
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// A new dimension of size 1: Python's `None` in [`Tensor::i`].
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

/// Every `by`-th element of a range: Python's `start:end:by` in [`Tensor::i`].
///
/// ```
/// use straightline::{step, tensor};
/// let x = tensor([0, 1, 2, 3, 4, 5])?;
/// assert_eq!(x.i(step(1.., 2))?.to_vec::<i64>()?, [1, 3, 5]);
/// assert_eq!(x.i(step(.., 4))?.to_vec::<i64>()?, [0, 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn step(range: impl Bounds, by: i64) -> Index {
    let (start, end) = range.bounds();
    Index::Slice { start, end, step: by }
}

/// A range of Rust's over any integers; negative ones count from the end.
pub trait Bounds {
    /// The first position, and the one behind the last.
    fn bounds(self) -> (Option<i64>, Option<i64>);
}

/// The position behind an end that is included: behind `-1` there is none.
fn behind(end: i64) -> Option<i64> {
    end.checked_add(1).filter(|end| *end != 0)
}

macro_rules! bounds {
    ($($ty:ty: |$r:ident| $bounds:expr;)*) => {$(
        impl<N: Int> Bounds for $ty {
            fn bounds(self) -> (Option<i64>, Option<i64>) {
                let $r = self;
                $bounds
            }
        }

        impl<N: Int> From<$ty> for Index {
            fn from(range: $ty) -> Index {
                step(range, 1)
            }
        }
    )*};
}

bounds! {
    Range<N>: |r| (Some(r.start.to_i64()), Some(r.end.to_i64()));
    RangeFrom<N>: |r| (Some(r.start.to_i64()), None);
    RangeTo<N>: |r| (None, Some(r.end.to_i64()));
    RangeInclusive<N>: |r| (Some(r.start().to_i64()), behind(r.end().to_i64()));
    RangeToInclusive<N>: |r| (None, behind(r.end.to_i64()));
}

impl Bounds for RangeFull {
    fn bounds(self) -> (Option<i64>, Option<i64>) {
        (None, None)
    }
}

macro_rules! indices {
    ($($ty:ty $(, const $n:ident)?: |$v:ident| $index:expr;)*) => {$(
        impl $(<const $n: usize>)? From<$ty> for Index {
            fn from($v: $ty) -> Index {
                $index
            }
        }
    )*};
}

indices! {
    i64: |n| Index::At(n);
    i32: |n| Index::At(n.into());
    usize: |n| Index::At(n.to_i64());
    RangeFull: |r| step(r, 1);
    Ellipsis: |_e| Index::Ellipsis;
    NewAxis: |_n| Index::NewAxis;
    // Python's `None`
    Option<NewAxis>: |_n| Index::NewAxis;
    Tensor: |t| Index::Tensor(t);
    &Tensor: |t| Index::Tensor(t.clone());
    Vec<bool>: |m| Index::Mask(m);
    [bool; N], const N: |m| Index::Mask(m.to_vec());
}

impl<N: Int> From<Vec<N>> for Index {
    fn from(positions: Vec<N>) -> Index {
        positions.as_slice().into()
    }
}

impl<N: Int> From<&[N]> for Index {
    fn from(positions: &[N]) -> Index {
        Index::Positions(positions.iter().map(|n| n.to_i64()).collect())
    }
}

impl<N: Int, const K: usize> From<[N; K]> for Index {
    fn from(positions: [N; K]) -> Index {
        positions.as_slice().into()
    }
}

/// What [`Tensor::i`] takes: one [`Index`] or what becomes one, a tuple of them, or a `Vec` of
/// [`Index`].
#[diagnostic::on_unimplemented(
    message = "a tensor cannot be indexed by `{Self}`",
    label = "indices are integers, ranges, `..`, `Ellipsis`, `NewAxis`, tensors, lists of positions, and tuples of these"
)]
pub trait Indices {
    /// The indices, one by one.
    fn indices(self) -> Vec<Index>;
}

impl<I: Into<Index>> Indices for I {
    fn indices(self) -> Vec<Index> {
        vec![self.into()]
    }
}

impl Indices for Vec<Index> {
    fn indices(self) -> Vec<Index> {
        self
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)*;)*) => {$(
        impl<$($name: Into<Index>),*> Indices for ($($name,)*) {
            fn indices(self) -> Vec<Index> {
                vec![$(self.$index.into()),*]
            }
        }
    )*};
}
tuples! {
    ;
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

/// What indices reach: a view, and the tensors that index it, of which there may be none.
struct Reached {
    view: Tensor,
    tensors: Vec<Option<Tensor>>,
}

impl Index {
    /// How many dimensions of the tensor it takes.
    fn takes(&self) -> usize {
        match self {
            Index::At(_) | Index::Slice { .. } | Index::Positions(_) | Index::Mask(_) => 1,
            Index::Ellipsis | Index::NewAxis => 0,
            Index::Tensor(t) if is_mask(t) => t.dim(),
            Index::Tensor(_) => 1,
        }
    }
}

fn is_mask(t: &Tensor) -> bool {
    matches!(t.dtype(), DType::Bool | DType::U8)
}

impl Tensor {
    /// The part of a tensor that indices name, by PyTorch's rules: `x.i((0..2, 1, ..))` is `x[0:2,
    /// 1, :]`.
    ///
    /// | index | what it takes |
    /// |---|---|
    /// | `1`, `-1` | one element; the dimension goes away |
    /// | `1..3`, `1..`, `..=2`, `..-1`, [`step`]`(0..6, 2)` | a range, the whole dimension for `..` |
    /// | [`Ellipsis`] | as many whole dimensions as the others leave |
    /// | [`NewAxis`], `None` | nothing: a new dimension of size 1 |
    /// | an integer tensor, `[0, 2]`, a `Vec` | the elements at these positions, in the tensor's shape |
    /// | a tensor of `bool`, `[true, false]` | the elements where it is true, of as many dimensions as the mask has |
    ///
    /// Dimensions behind the last index are whole. Several tensors are broadcast against each
    /// other, and their dimensions stand where the first of them was if they are neighbours, and in
    /// front otherwise. Without tensors and lists the result is a view; with them it is a copy,
    /// which [`Tensor::i_put_`] writes through all the same.
    ///
    /// ```
    /// use straightline::{Ellipsis, NewAxis, Tensor, tensor};
    /// let x = Tensor::arange(12)?.reshape([3, 4])?;
    /// assert_eq!(x.i(1)?.to_vec::<i64>()?, [4, 5, 6, 7]);
    /// assert_eq!(x.i((.., -1))?.to_vec::<i64>()?, [3, 7, 11]);
    /// assert_eq!(x.i((0..2, 1..=2))?.to_vec2::<i64>()?, [[1, 2], [5, 6]]);
    /// assert_eq!(x.i((Ellipsis, 0, NewAxis))?.sizes(), [3, 1]);
    /// assert_eq!(x.i(([0, 2], [1, 3]))?.to_vec::<i64>()?, [1, 11]);
    /// assert_eq!(x.i(x.gt(8)?)?.to_vec::<i64>()?, [9, 10, 11]);
    /// assert_eq!(x.i(&tensor([2, 2])?)?.sizes(), [2, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// More indices than dimensions, two [`Ellipsis`], a position that is not there, a step below
    /// 1, a mask that does not have the sizes of what it masks.
    #[doc(alias = "getitem")]
    #[doc(alias = "index")]
    #[track_caller]
    pub fn i(&self, indices: impl Indices) -> Result<Tensor> {
        let Reached { view, tensors } = reach(self, indices.indices())?;
        match tensors.is_empty() {
            true => Ok(view),
            false => aten::index_tensor(&view, &tensors),
        }
    }

    /// Writes a number, or the elements of a tensor that broadcasts, to the part of this tensor
    /// that indices name ([`Tensor::i`]), in place: `x.i_put_((0..2, 1), 0.0)` is `x[0:2, 1] = 0`.
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let x = Tensor::zeros([2, 3])?;
    /// x.i_put_((.., 0), 1.0)?;
    /// x.i_put_((1, 1..), tensor([5.0, 6.0])?)?;
    /// assert_eq!(x.to_vec2::<f32>()?, [[1.0, 0.0, 0.0], [1.0, 5.0, 6.0]]);
    /// x.i_put_(x.gt(4.0)?, -1.0)?;
    /// assert_eq!(x.to_vec2::<f32>()?, [[1.0, 0.0, 0.0], [1.0, -1.0, -1.0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::i`]; a tensor that does not broadcast to the part, or, where tensors index, has
    /// another dtype.
    #[doc(alias = "set")]
    #[doc(alias = "assign")]
    #[doc(alias = "index_put")]
    #[doc(alias = "setitem")]
    #[doc(alias = "slice_assign")]
    #[doc(alias = "slice_set")]
    #[track_caller]
    pub fn i_put_<'a>(&self, indices: impl Indices, value: impl Into<Other<'a>>) -> Result<Tensor> {
        let Reached { view, tensors } = reach(self, indices.indices())?;
        match (value.into(), tensors.is_empty()) {
            (Other::Number(n), true) => aten::fill_scalar_(&view, n)?,
            (Other::Number(n), false) => {
                let value =
                    aten::scalar_tensor(n, Some(view.dtype()), None, Some(view.device()), None)?;
                aten::index_put_(&view, &tensors, &value, false)?
            }
            (value, none) => {
                let value = value.into_tensor()?;
                match none {
                    true => aten::copy_(&view, &without_leading_ones(value, view.dim())?, false)?,
                    false => aten::index_put_(&view, &tensors, &value, false)?,
                }
            }
        };
        Ok(self.clone())
    }
}

/// Leading dimensions of size 1 do not count in an assignment.
#[track_caller]
fn without_leading_ones(value: Tensor, dims: usize) -> Result<Tensor> {
    let more = value.dim().saturating_sub(dims);
    match more > 0 && value.sizes()[..more].iter().all(|s| *s == 1) {
        true => aten::view(&value, &value.sizes()[more..]),
        false => Ok(value),
    }
}

#[track_caller]
fn reach(tensor: &Tensor, indices: Vec<Index>) -> Result<Reached> {
    let at = Location::caller();
    let taken: usize = indices.iter().map(Index::takes).sum();
    if taken > tensor.dim() {
        let message =
            format!("too many indices for tensor of dimension {}: {taken} are given", tensor.dim());
        return Err(Error::index(message).with_location(at));
    }
    let ellipses = indices.iter().filter(|i| matches!(i, Index::Ellipsis));
    if ellipses.count() > 1 {
        let message = "an index can only have a single ellipsis ('...')";
        return Err(Error::index(message).with_location(at));
    }
    let (mut view, mut dim) = (aten::alias(tensor)?, 0);
    // the indexing tensors, and how many dimensions they and the gaps before them cover
    let (mut tensors, mut covered) = (Vec::new(), 0);
    for index in indices {
        let by = match index {
            Index::At(i) => {
                view = aten::select_int(&view, dim, i)?;
                continue;
            }
            Index::Slice { start: None, end: None, step: 1 } => {
                dim += 1;
                continue;
            }
            Index::Slice { start, end, step } => {
                view = aten::slice_tensor(&view, dim, start, end, step)?;
                dim += 1;
                continue;
            }
            Index::Ellipsis => {
                dim += (tensor.dim() - taken) as i64;
                continue;
            }
            Index::NewAxis => {
                view = aten::unsqueeze(&view, dim)?;
                dim += 1;
                continue;
            }
            Index::Tensor(t) if is_mask(&t) && t.dim() == 0 => {
                view = aten::unsqueeze(&view, dim)?;
                aten::unsqueeze(&t, 0)?
            }
            Index::Tensor(t) => t,
            Index::Positions(p) => Tensor::from_vec(p, -1)?.to_device(tensor.device())?,
            Index::Mask(m) => Tensor::from_vec(m, -1)?.to_device(tensor.device())?,
        };
        tensors.extend(std::iter::repeat_n(None, (dim - covered) as usize));
        dim += if is_mask(&by) { by.dim() as i64 } else { 1 };
        covered = dim;
        tensors.push(Some(by));
    }
    Ok(Reached { view, tensors })
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
