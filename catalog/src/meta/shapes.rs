//! The sizes of results: one function for each family of operators.
//!
//! Eager kernels allocate by them, rewrite rules build calls by them, and the verifier holds calls
//! against them ([`Op::shapes`]). They know sizes alone, neither memory nor graphs.

use super::MetaError;
use crate::args::{self, Arguments};
use crate::layout;
use crate::view::{Axes, ViewMap, wrap_dim};
use crate::{Arg, DType, Dims, Kind, Op, TensorMeta};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// What follows for one result of a call from its operands and arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Its sizes.
    pub sizes: Dims,
    /// Its dtype, where the operator gives no other.
    pub dtype: Option<DType>,
}

/// The sizes that operands broadcast to.
///
/// ```
/// use straightline_catalog::meta::broadcast;
/// assert_eq!(broadcast(&[2, 1], &[3]).unwrap()[..], [2, 3]);
/// assert!(broadcast(&[2], &[3]).is_err());
/// ```
///
/// # Errors
///
/// Two sizes of one dimension, counted from the last, that differ and are not 1.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Dims, MetaError> {
    layout::broadcast(a, b)
        .ok_or_else(|| MetaError::Broadcast { a: Dims::from_slice(a), b: Dims::from_slice(b) })
}

/// Dimensions counted from the front and sorted, none twice. No list, or an empty one, means all of
/// them; a tensor without dimensions takes dimension 0 and has nothing to reduce.
///
/// # Errors
///
/// A dimension that is out of range, or named twice; more than 64 dimensions.
pub fn dims(named: Option<&[i64]>, rank: usize) -> Result<Axes, MetaError> {
    // PyTorch keeps a set of dimensions in the bits of a word
    if rank > 64 {
        return Err(MetaError::TooManyDims { rank });
    }
    let Some(named) = named.filter(|d| !d.is_empty()) else {
        return Ok((0..rank).collect());
    };
    let mut out = Axes::new();
    for d in named {
        let dim = wrap_dim(*d, rank)?;
        if out.contains(&dim) {
            return Err(MetaError::DimTwice { dim });
        }
        out.push(dim);
    }
    out.sort_unstable();
    out.retain(|d| *d < rank);
    Ok(out)
}

/// Sizes without these dimensions, or with 1 in their place.
pub fn reduced(sizes: &[i64], dims: &[usize], keepdim: bool) -> Dims {
    let mut out = Dims::new();
    for (i, size) in sizes.iter().enumerate() {
        match dims.contains(&i) {
            false => out.push(*size),
            true if keepdim => out.push(1),
            true => {}
        }
    }
    out
}

/// The product of two matrices, or of two batches of as many matrices: `op` takes `rank`
/// dimensions.
///
/// # Errors
///
/// Operands of another rank; matrices that cannot be multiplied; batches of different sizes.
pub fn product(op: Op, rank: usize, a: &[i64], b: &[i64]) -> Result<Dims, MetaError> {
    for found in [a.len(), b.len()] {
        if found != rank {
            let expected = if rank == 2 { "2" } else { "3" };
            return Err(MetaError::Rank { op, expected, found });
        }
    }
    if a[..rank - 2] != b[..rank - 2] || a[rank - 1] != b[rank - 2] {
        return Err(MetaError::Product { op, a: Dims::from_slice(a), b: Dims::from_slice(b) });
    }
    let mut out = Dims::from_slice(a);
    out[rank - 1] = b[rank - 1];
    Ok(out)
}

/// Whether a concatenation skips an operand: one dimension, and no elements.
pub fn is_skipped_by_cat(sizes: &[i64]) -> bool {
    *sizes == [0]
}

/// The concatenation along a dimension, with that dimension counted from the front.
///
/// # Errors
///
/// Operands without dimensions, or that differ in another dimension; a dimension out of range.
pub fn joined<'s>(
    parts: impl Iterator<Item = &'s [i64]> + Clone,
    dim: i64,
) -> Result<(usize, Dims), MetaError> {
    if parts.clone().any(<[i64]>::is_empty) {
        return Err(MetaError::Rank { op: Op::cat, expected: "at least 1", found: 0 });
    }
    let mut shaped = (parts.enumerate()).filter(|(_, sizes)| !is_skipped_by_cat(sizes));
    let Some((_, first)) = shaped.next() else {
        return Ok((wrap_dim(dim, 1)?, smallvec![0]));
    };
    let dim = wrap_dim(dim, first.len())?;
    let mut out = Dims::from_slice(first);
    for (position, sizes) in shaped {
        let fits = sizes.len() == first.len()
            && (0..first.len()).all(|d| d == dim || sizes[d] == first[d]);
        if !fits {
            return Err(MetaError::Joined {
                dim,
                first: Dims::from_slice(first),
                other: Dims::from_slice(sizes),
                position,
            });
        }
        out[dim] = out[dim].saturating_add(sizes[dim]);
    }
    Ok((dim, out))
}

/// `index_select`: a dimension as long as the index.
///
/// # Errors
///
/// A dimension out of range.
pub fn selected(sizes: &[i64], dim: i64, indices: i64) -> Result<(usize, Dims), MetaError> {
    let dim = wrap_dim(dim, sizes.len())?;
    let mut out = Dims::from_slice(sizes);
    if let Some(size) = out.get_mut(dim) {
        *size = indices;
    }
    Ok((dim, out))
}

/// `embedding`: a row of the matrix `weight` for each index.
///
/// # Errors
///
/// Weights that are no matrix.
pub fn embedded(weight: &[i64], indices: &[i64]) -> Result<Dims, MetaError> {
    let [_, width] = *weight else {
        return Err(MetaError::Rank { op: Op::embedding, expected: "2", found: weight.len() });
    };
    Ok(indices.iter().copied().chain([width]).collect())
}

/// A call with its operands' types.
struct Call<'a, V, M> {
    op: Op,
    args: &'a [Arg<V>],
    meta: M,
}

impl Op {
    /// What follows for the results of a call. `None` of operators whose results are known to their
    /// kernels alone, and of calls without an argument that decides.
    ///
    /// ```
    /// use straightline_catalog::{Arg, DType, Op, TensorMeta};
    /// let types = [TensorMeta::contiguous(DType::F32, &[2, 3]), TensorMeta::contiguous(DType::F32, &[3, 4])];
    /// let shapes = Op::mm.shapes(&[Arg::Tensor(0), Arg::Tensor(1)], |i: &usize| &types[*i]);
    /// assert_eq!(shapes.unwrap().unwrap()[0].sizes[..], [2, 4]);
    /// ```
    ///
    /// # Errors
    ///
    /// Operands or arguments that the operator does not take, inside the option.
    pub fn shapes<'m, V: Clone>(
        self,
        args: &[Arg<V>],
        meta: impl Fn(&V) -> &'m TensorMeta,
    ) -> Option<Result<SmallVec<[Shape; 2]>, MetaError>> {
        let (mut op, mut args) = (self, Cow::Borrowed(args));
        // one that is a call of another operator has the shapes of that
        let call = |op: Op, args: &[Arg<V>]| op.composite()?.call(args, |v| Some(meta(v)));
        while let Some((called, with)) = call(op, &args) {
            (op, args) = (called, Cow::Owned(with));
        }
        let args = &args;
        Call { op, args, meta }.shapes().transpose()
    }
}

type Found<T> = Result<Option<T>, MetaError>;

impl<'m, V, M: Fn(&V) -> &'m TensorMeta> Call<'_, V, M> {
    fn arg(&self, name: &str) -> Option<&Arg<V>> {
        let i = self.op.schema().arg_index(name)?;
        self.args.get(i).filter(|a| !matches!(a, Arg::None))
    }

    /// All arguments, of a call of one operator.
    fn all<A: Arguments<&'m TensorMeta>>(&self) -> Option<A> {
        A::read(self.args, &self.meta)
    }

    /// The tensor at a position of the schema.
    fn tensor(&self, at: usize) -> Option<&'m TensorMeta> {
        match self.args.get(at)? {
            Arg::Tensor(v) => Some((self.meta)(v)),
            _ => None,
        }
    }

    fn keepdim(&self) -> bool {
        self.arg("keepdim").and_then(Arg::as_bool) == Some(true)
    }

    fn shapes(&self) -> Found<SmallVec<[Shape; 2]>> {
        let one = |sizes: Option<Dims>, dtype| {
            sizes.map(|sizes| SmallVec::from_iter([Shape { sizes, dtype }]))
        };
        Ok(match self.op.facts().kind {
            Kind::Pointwise => one(self.pointwise()?, None),
            Kind::Test => one(self.pointwise()?, Some(DType::Bool)),
            Kind::Reduction => one(self.reduction()?, None),
            // they keep u8, as PyTorch does
            Kind::Any if self.tensor(0).is_some_and(|x| x.dtype == DType::U8) => {
                one(self.reduction()?, Some(DType::U8))
            }
            Kind::Any => one(self.reduction()?, Some(DType::Bool)),
            Kind::Arg => one(self.reduction()?, Some(DType::I64)),
            Kind::Reshape | Kind::Movement | Kind::Other => match self.op {
                Op::max_dim => match self.all::<args::max_dim<_>>() {
                    Some(a) => Some(self.extreme(a.self_, a.dim, a.keepdim)?),
                    None => None,
                },
                Op::min_dim => match self.all::<args::min_dim<_>>() {
                    Some(a) => Some(self.extreme(a.self_, a.dim, a.keepdim)?),
                    None => None,
                },
                _ => one(self.other()?, None),
            },
        })
    }

    fn pointwise(&self) -> Found<Dims> {
        let mut sizes: Option<Dims> = None;
        for arg in self.args {
            let Arg::Tensor(v) = arg else { continue };
            let own = &(self.meta)(v).sizes;
            sizes = Some(match sizes {
                Some(all) => broadcast(&all, own)?,
                None => own.clone(),
            });
        }
        Ok(sizes)
    }

    fn reduction(&self) -> Found<Dims> {
        let Some(x) = self.tensor(0) else {
            return Ok(None);
        };
        let named = self.arg("dim").and_then(Arg::as_ints);
        let dims = dims(named.as_deref(), x.sizes.len())?;
        Ok(Some(reduced(&x.sizes, &dims, self.keepdim())))
    }

    /// The extremes along a dimension, and where they are.
    fn extreme(
        &self,
        x: &TensorMeta,
        dim: i64,
        keepdim: bool,
    ) -> Result<SmallVec<[Shape; 2]>, MetaError> {
        let sizes = reduced(&x.sizes, &dims(Some(&[dim]), x.sizes.len())?, keepdim);
        let shape = |dtype| Shape { sizes: sizes.clone(), dtype };
        Ok(smallvec![shape(None), shape(Some(DType::I64))])
    }

    fn other(&self) -> Found<Dims> {
        if let Some(x) = self.tensor(0)
            && let Some(map) = ViewMap::of(self.op, self.args, &x.sizes)
        {
            return Ok(Some(map?.sizes(&x.sizes)));
        }
        let found = match self.op {
            Op::mm => (self.all())
                .map(|a: args::mm<_>| product(self.op, 2, &a.self_.sizes, &a.mat2.sizes)),
            Op::bmm => (self.all())
                .map(|a: args::bmm<_>| product(self.op, 3, &a.self_.sizes, &a.mat2.sizes)),
            Op::addmm => (self.all()).map(|a: args::addmm<&TensorMeta>| {
                let sizes = product(self.op, 2, &a.mat1.sizes, &a.mat2.sizes)?;
                added(&a.self_.sizes, sizes)
            }),
            Op::baddbmm => (self.all()).map(|a: args::baddbmm<&TensorMeta>| {
                let sizes = product(self.op, 3, &a.batch1.sizes, &a.batch2.sizes)?;
                added(&a.self_.sizes, sizes)
            }),
            Op::cat => (self.all()).map(|a: args::cat<&TensorMeta>| {
                Ok(joined(a.tensors.iter().map(|m| &m.sizes[..]), a.dim)?.1)
            }),
            Op::embedding => (self.all())
                .map(|a: args::embedding<&TensorMeta>| embedded(&a.weight.sizes, &a.indices.sizes)),
            Op::gather => {
                (self.all()).map(|a: args::gather<&TensorMeta>| Ok(a.index.sizes.clone()))
            }
            Op::index_select => (self.all()).map(|a: args::index_select<&TensorMeta>| {
                Ok(selected(&a.self_.sizes, a.dim, a.index.numel())?.1)
            }),
            _ => None,
        };
        found.transpose()
    }
}

/// The sizes of a product that something is added to, which must not grow by it.
fn added(addend: &Dims, product: Dims) -> Result<Dims, MetaError> {
    if broadcast(addend, &product)? == product {
        return Ok(product);
    }
    Err(MetaError::Expand {
        from: addend.clone(),
        to: product,
        why: "the sizes of the product do not grow",
    })
}
