//! Functions of one sample as functions of a batch.

use super::error::TransformError;
use super::layer::{self, Kind, Layer};
use super::structure::{Structure, leaves, rebuilt};
use super::wrapper;
use crate::autograd::PassOf;
use crate::autograd::Randomness;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

/// How [`vmap_with`] batches.
///
/// ```
/// use straightline::{Tensor, func::{VmapOptions, vmap_with}, ones};
/// let columns = VmapOptions { in_dims: vec![Some(1)], ..VmapOptions::default() };
/// assert_eq!(vmap_with(|x: &Tensor| x.sum(), &columns)(&ones([2, 3])?)?.sizes(), [3]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VmapOptions {
    /// The dimension of each tensor of the argument that counts the samples, `None` for a tensor
    /// that all samples share. One stands for all tensors, and nothing for 0.
    pub in_dims: Vec<Option<i64>>,
    /// Where the samples are counted in each tensor of the result; `None` for one that does not
    /// depend on the sample. As `in_dims`.
    pub out_dims: Vec<Option<i64>>,
    /// What to do with random operators.
    pub randomness: Randomness,
    /// How many samples are computed at once; all if not said.
    pub chunk_size: Option<i64>,
}

/// A function of one sample as a function of a batch: the argument's tensors have a first dimension
/// that counts the samples, and so have the result's. Operators compute all samples at once.
///
/// # Errors
///
/// There are no tensors, or not equally many samples in all of them; the function branches on elements,
/// draws random numbers (see [`vmap_with`]), or writes a sample into a tensor that all share.
///
/// ```
/// use straightline::{Tensor, func::{grad, vmap}, tensor};
/// let f = |x: &Tensor| x.mul(x)?.sum();
/// let per_sample = vmap(grad(f));
/// let g = per_sample(&tensor([[0.0, 1.0], [2.0, 3.0]])?)?;
/// assert_eq!(g.to_vec2::<f32>()?, [[0.0, 2.0], [4.0, 6.0]]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn vmap<A, R, F>(f: F) -> impl Fn(&A) -> Result<R>
where
    A: Structure,
    R: Structure,
    F: Fn(&A) -> Result<R>,
{
    move |a| mapped(&f, a, &VmapOptions::default())
}

/// [`vmap`] along other dimensions, in chunks, or with random numbers.
///
/// # Errors
///
/// As [`vmap`]; dimensions that do not fit.
///
/// ```
/// use straightline::{Tensor, func::{VmapOptions, vmap_with}, tensor};
/// let options = VmapOptions { in_dims: vec![None, Some(0)], ..VmapOptions::default() };
/// let f = |(w, x): &(Tensor, Tensor)| w.mul(x)?.sum();
/// let y = vmap_with(f, &options)(&(tensor([1.0, 2.0])?, tensor([[1.0, 1.0], [2.0, 2.0]])?))?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn vmap_with<A, R, F>(f: F, options: &VmapOptions) -> impl Fn(&A) -> Result<R> + use<A, R, F>
where
    A: Structure,
    R: Structure,
    F: Fn(&A) -> Result<R>,
{
    let options = options.clone();
    move |a| mapped(&f, a, &options)
}

/// A backward pass for all gradients of a batch, which [`autograd`](crate::autograd) calls.
pub(super) fn passes(grads: &[Option<Tensor>], pass: PassOf<'_>) -> Result<Vec<Option<Tensor>>> {
    vmap(|grads: &Vec<Option<Tensor>>| pass(grads))(&grads.to_vec())
}

fn mapped<A: Structure, R: Structure>(
    f: &impl Fn(&A) -> Result<R>,
    a: &A,
    options: &VmapOptions,
) -> Result<R> {
    let tensors = leaves(a);
    let dims = in_dims(&tensors, &options.in_dims)?;
    let size = samples(&tensors, &dims)?;
    let Some(chunk) = options.chunk_size else {
        return run(f, a, &tensors, &dims, size, options);
    };
    if chunk <= 0 {
        return Err(refused(format!(
            "vmap: chunk_size should be None or greater than 0. (got {chunk})"
        )));
    }
    let mut parts = Vec::new();
    let mut from = 0;
    while from < size {
        let to = (from + chunk).min(size);
        let part = |(t, dim): (&Tensor, &Option<usize>)| match dim {
            Some(d) => aten::slice_tensor(t, *d as i64, Some(from), Some(to), 1),
            None => Ok(t.clone()),
        };
        let tensors: Vec<Tensor> = tensors.iter().zip(&dims).map(part).collect::<Result<_>>()?;
        parts.push(run(f, a, &tensors, &dims, to - from, options)?);
        from = to;
    }
    joined(parts, &options.out_dims)
}

fn refused(message: String) -> crate::Error {
    TransformError::Vmap(message).into()
}

/// The entry for the tensor at a position.
fn entry(dims: &[Option<i64>], at: usize) -> Option<Option<i64>> {
    match dims {
        [] => Some(Some(0)),
        [one] => Some(*one),
        many => many.get(at).copied(),
    }
}

fn in_dims(tensors: &[Tensor], dims: &[Option<i64>]) -> Result<Vec<Option<usize>>> {
    if tensors.is_empty() {
        return Err(refused(
            "vmap(f)(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no \
             inputs. The latter is unsupported."
                .into(),
        ));
    }
    if dims.len() > 1 && dims.len() != tensors.len() {
        return Err(refused(format!(
            "vmap(f, in_dims={dims:?}, ...)(<inputs>): in_dims is not compatible with the structure of inputs. in_dims has \
             {} entries but inputs has {} tensors.",
            dims.len(),
            tensors.len()
        )));
    }
    let each = |(at, t): (usize, &Tensor)| {
        let Some(dim) = entry(dims, at).flatten() else { return Ok(None) };
        let rank = t.dim() as i64;
        if dim < -rank || dim >= rank {
            return Err(refused(format!(
                "vmap(f, in_dims={dim}, ...)(<inputs>): Got in_dim={dim} for some input, but that input is a Tensor of \
                 dimensionality {rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
            )));
        }
        Ok(Some(if dim < 0 { dim + rank } else { dim } as usize))
    };
    tensors.iter().enumerate().map(each).collect()
}

/// How many samples there are.
fn samples(tensors: &[Tensor], dims: &[Option<usize>]) -> Result<i64> {
    let sizes = tensors.iter().zip(dims).filter_map(|(t, d)| d.map(|d| t.sizes()[d]));
    let sizes: Vec<i64> = sizes.collect();
    match sizes.split_first() {
        None => Err(refused(
            "vmap(f, in_dims, ...)(<inputs>): at least one input must be mapped over: all in_dims are None".into(),
        )),
        Some((first, rest)) if rest.iter().all(|s| s == first) => Ok(*first),
        Some(_) => Err(refused(format!(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes:?} for the mapped dimension"
        ))),
    }
}

fn run<A: Structure, R: Structure>(
    f: &impl Fn(&A) -> Result<R>,
    a: &A,
    tensors: &[Tensor],
    dims: &[Option<usize>],
    size: i64,
    options: &VmapOptions,
) -> Result<R> {
    let entered = layer::enter(Kind::Vmap { size, randomness: options.randomness });
    let wrap = |(t, dim): (&Tensor, &Option<usize>)| {
        let outlived = wrapper::outlived(t);
        let t = outlived.as_ref().unwrap_or(t);
        dim.map_or_else(|| t.clone(), |d| wrapper::batched(t, d, &entered.layer))
    };
    let wrapped = rebuilt(a, tensors.iter().zip(dims).map(wrap).collect())?;
    let result = f(&wrapped)?;
    let layer = entered.layer.clone();
    drop(entered);
    let count = leaves(&result).len();
    if options.out_dims.len() > 1 && options.out_dims.len() != count {
        return Err(refused(format!(
            "vmap(f, ..., out_dims={:?}): out_dims is not compatible with the structure of outputs, which has {count} tensors",
            options.out_dims
        )));
    }
    let mut at = 0;
    result.map(&mut |t| {
        let dim = entry(&options.out_dims, at).flatten();
        at += 1;
        unwrap(t, dim, size, &layer)
    })
}

/// A result with its samples along `dim`.
fn unwrap(t: &Tensor, dim: Option<i64>, size: i64, layer: &Layer) -> Result<Tensor> {
    let inside = wrapper::samples_of(t, layer);
    let Some(dim) = dim else {
        return match inside {
            Some(_) => Err(refused(
                "vmap(f, ...): f can not return a BatchedTensor when out_dim is None".into(),
            )),
            None => Ok(t.clone()),
        };
    };
    let rank = t.dim() as i64 + 1;
    if dim < -rank || dim >= rank {
        return Err(refused(format!(
            "vmap(f, ..., out_dims={dim}): Got out_dim={dim} for some output, but that output has {rank} dimensions with the mapped one"
        )));
    }
    let dim = if dim < 0 { dim + rank } else { dim } as usize;
    match inside {
        Some((value, bdim)) => moved(value, bdim, dim),
        None => {
            let mut sizes = t.sizes().to_vec();
            sizes.insert(dim, size);
            aten::expand(&aten::unsqueeze(t, dim as i64)?, &sizes, false)
        }
    }
}

/// The tensor with one of its dimensions elsewhere.
pub(super) fn moved(t: &Tensor, from: usize, to: usize) -> Result<Tensor> {
    if from == to {
        return Ok(t.clone());
    }
    let mut dims: Vec<i64> = (0..t.dim() as i64).collect();
    let dim = dims.remove(from);
    dims.insert(to, dim);
    aten::permute(t, &dims)
}

/// The results of chunks as one.
fn joined<R: Structure>(parts: Vec<R>, dims: &[Option<i64>]) -> Result<R> {
    let all: Vec<Vec<Tensor>> = parts.iter().map(leaves).collect();
    let Some(first) = parts.first() else {
        return Err(refused("vmap: there are no samples to take chunks of".into()));
    };
    let mut at = 0;
    first.map(&mut |t| {
        let dim = entry(dims, at).flatten();
        let pieces: Vec<Tensor> = all.iter().filter_map(|p| p.get(at).cloned()).collect();
        at += 1;
        match dim {
            Some(dim) => aten::cat(&pieces, dim),
            None => Ok(t.clone()),
        }
    })
}
