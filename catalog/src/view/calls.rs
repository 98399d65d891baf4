//! The maps of calls: which view each operator is, from its arguments.

use super::{ViewMap, wrap_dim};
use crate::args::{self, Arguments};
use crate::meta::MetaError;
use crate::{Arg, Dims, Op};

impl ViewMap {
    /// The map of a call, from its arguments. `None` for operators that are not views, and for
    /// those such as `as_strided` that address the storage.
    pub fn of<V>(op: Op, args: &[Arg<V>], sizes: &[i64]) -> Option<Result<ViewMap, MetaError>> {
        /// The call as one of this operator.
        fn call<A: Arguments<()>, V>(args: &[Arg<V>]) -> Option<A> {
            A::read(args, |_| ())
        }
        Some(match op {
            Op::alias | Op::detach | Op::lift_fresh => Ok(ViewMap::Identity),
            Op::t => ViewMap::t(sizes),
            Op::transpose_int => {
                let a: args::transpose_int<()> = call(args)?;
                ViewMap::transpose(sizes, a.dim0, a.dim1)
            }
            Op::permute => {
                let a: args::permute<()> = call(args)?;
                ViewMap::permute(sizes, &a.dims)
            }
            Op::expand => {
                let a: args::expand<()> = call(args)?;
                ViewMap::expand(sizes, &a.size)
            }
            Op::slice_Tensor => {
                let a: args::slice_Tensor<()> = call(args)?;
                ViewMap::slice(sizes, a.dim, a.start, a.end, a.step)
            }
            Op::select_int => {
                let a: args::select_int<()> = call(args)?;
                ViewMap::select(sizes, a.dim, a.index)
            }
            Op::squeeze => ViewMap::squeeze(sizes, None),
            Op::squeeze_dim => {
                let a: args::squeeze_dim<()> = call(args)?;
                ViewMap::squeeze(sizes, Some(&[a.dim]))
            }
            Op::squeeze_dims => {
                let a: args::squeeze_dims<()> = call(args)?;
                ViewMap::squeeze(sizes, Some(&a.dim))
            }
            Op::unsqueeze => {
                let a: args::unsqueeze<()> = call(args)?;
                ViewMap::unsqueeze(sizes, a.dim)
            }
            Op::diagonal => {
                let a: args::diagonal<()> = call(args)?;
                ViewMap::diagonal(sizes, a.offset, a.dim1, a.dim2)
            }
            Op::unfold => {
                let a: args::unfold<()> = call(args)?;
                ViewMap::unfold(sizes, a.dimension, a.size, a.step)
            }
            Op::view => {
                let a: args::view<()> = call(args)?;
                ViewMap::reshape(sizes, &a.size)
            }
            Op::_unsafe_view => {
                let a: args::_unsafe_view<()> = call(args)?;
                ViewMap::reshape(sizes, &a.size)
            }
            Op::reshape => {
                let a: args::reshape<()> = call(args)?;
                ViewMap::reshape(sizes, &a.shape)
            }
            _ => return None,
        })
    }
}

/// The sizes of the parts that `split` cuts a dimension of `n` elements into.
///
/// ```
/// use straightline_catalog::view::split_sizes;
/// assert_eq!(split_sizes(7, 3), [3, 3, 1]);
/// // whoever takes the sizes of such a call refuses it
/// assert_eq!(split_sizes(2, i64::MIN), [i64::MIN; 2]);
/// ```
pub fn split_sizes(n: i64, size: i64) -> Vec<i64> {
    let count = (n as u64).div_ceil(size.max(1) as u64).max(1) as i64;
    (0..count).map(|i| size.min(n.saturating_sub(i.saturating_mul(size)))).collect()
}

/// The sizes of the parts that `chunk` cuts a dimension of `n` elements into: at most so many.
///
/// # Errors
///
/// Fewer than one part, or more than 2^24 of nothing, each of which would become a tensor.
pub fn chunk_sizes(n: i64, chunks: i64) -> Result<Vec<i64>, MetaError> {
    let most = if n == 0 { 1 << 24 } else { i64::MAX };
    if chunks < 1 || chunks > most {
        let expected = "greater than 0, and at most 16777216 where there are no elements";
        return Err(MetaError::Value { op: Op::chunk, name: "chunks", expected, found: chunks });
    }
    match n {
        // nested tensors have dimensions of no one size
        ..0 => Err(MetaError::Sizes(Dims::from_slice(&[n]))),
        0 => Ok(vec![0; chunks as usize]),
        n => Ok(split_sizes(n, (n as u64).div_ceil(chunks as u64) as i64)),
    }
}

/// The maps of an operator that returns several views, from its arguments; `None` for other
/// operators.
pub fn parts_of<V>(
    op: Op,
    args: &[Arg<V>],
    sizes: &[i64],
) -> Option<Result<Vec<ViewMap>, MetaError>> {
    /// How an operator cuts.
    enum Cut {
        Every(i64),
        Lens(Vec<i64>),
        Chunks(i64),
        Single,
    }
    let (dim, cut) = match op {
        Op::split_Tensor => {
            let a = args::split_Tensor::read(args, |_| ())?;
            (a.dim, Cut::Every(a.split_size))
        }
        Op::split_with_sizes => {
            let a = args::split_with_sizes::read(args, |_| ())?;
            (a.dim, Cut::Lens(a.split_sizes))
        }
        Op::chunk => {
            let a = args::chunk::read(args, |_| ())?;
            (a.dim, Cut::Chunks(a.chunks))
        }
        Op::unbind_int => (args::unbind_int::read(args, |_| ())?.dim, Cut::Single),
        _ => return None,
    };
    let dim = match wrap_dim(dim, sizes.len()) {
        Ok(dim) if !sizes.is_empty() => dim,
        Ok(_) => {
            return Some(Err(MetaError::Rank { op, expected: "at least 1", found: 0 }));
        }
        Err(e) => return Some(Err(e)),
    };
    let n = sizes[dim];
    let lens = match cut {
        Cut::Single => {
            let index = |index| ViewMap::Select { dim, index };
            return Some(Ok((0..n).map(index).collect()));
        }
        Cut::Every(size) => split_sizes(n, size),
        Cut::Lens(lens) => lens,
        Cut::Chunks(chunks) => match chunk_sizes(n, chunks) {
            Ok(lens) => lens,
            Err(e) => return Some(Err(e)),
        },
    };
    let all = lens.iter().try_fold(0i64, |sum, len| (*len >= 0).then(|| sum.saturating_add(*len)));
    if all != Some(n) {
        let (name, expected) = ("split_sizes", "the lengths of parts that make up the dimension");
        let found = all.unwrap_or(-1);
        return Some(Err(MetaError::Value { op, name, expected, found }));
    }
    let mut start = 0;
    let slices = lens.into_iter().map(|len| {
        let at = start;
        start += len;
        ViewMap::Slice { dim, start: at, len, step: 1 }
    });
    Some(Ok(slices.collect()))
}
