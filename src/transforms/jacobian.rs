//! Matrices of derivatives: a derivative for each element, all at once by `vmap`.

use super::error::TransformError;
use super::forward::{JvpOptions, jvp_with_aux};
use super::gradient::vjp_with_aux;
use super::map::{VmapOptions, moved, vmap_with};
use super::structure::{Structure, leaves, rebuilt};
use crate::autograd::Randomness;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

/// All tensors of `t`'s shape with a one at one place, among others: `[count, sizes...]`, of which `t`'s
/// begin at `from`.
fn basis(t: &Tensor, from: i64, count: i64) -> Result<Tensor> {
    let n = t.numel();
    let eye = aten::eye(n, Some(t.dtype()), None, Some(t.device()), None)?;
    let all = match n == count {
        true => eye,
        false => aten::constant_pad_nd(&eye, &[0, 0, from, count - from - n], 0.into())?,
    };
    aten::reshape(&all, &joined(&[count], t.sizes()))
}

fn joined(a: &[i64], b: &[i64]) -> Vec<i64> {
    a.iter().chain(b).copied().collect()
}

/// How [`jacrev_with`] and [`jacfwd_with`] compute.
///
/// ```
/// use straightline::{Tensor, func::{JacobianOptions, jacrev_with}, tensor};
/// let two_rows = JacobianOptions { chunk_size: Some(2), ..JacobianOptions::default() };
/// let j = jacrev_with(|x: &Tensor| x.mul(x), &two_rows)(&tensor([1.0, 2.0, 3.0])?)?;
/// assert_eq!(j.diagonal()?.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct JacobianOptions {
    /// How many rows (or columns) are computed at once; all if not said.
    pub chunk_size: Option<i64>,
    /// What to do with random operators: by columns the function is run for a batch of directions, by
    /// rows its gradient is.
    pub randomness: Randomness,
}

impl JacobianOptions {
    fn vmap(&self) -> VmapOptions {
        VmapOptions {
            randomness: self.randomness,
            chunk_size: self.chunk_size,
            ..VmapOptions::default()
        }
    }
}

/// The Jacobian of a function, row by row by reverse mode: for each tensor of the argument the
/// derivatives of the result, `[result sizes..., argument sizes...]`. For functions with fewer
/// results than arguments.
///
/// # Errors
///
/// As [`vjp`](super::vjp).
///
/// ```
/// use straightline::{Tensor, func::{jacfwd, jacrev}, tensor};
/// let f = |x: &Tensor| x.mul(x);
/// let x = tensor([1.0, 2.0])?;
/// let j = jacrev(f)(&x)?;
/// assert_eq!(j.to_vec2::<f32>()?, [[2.0, 0.0], [0.0, 4.0]]);
/// assert_eq!(jacfwd(f)(&x)?.to_vec2::<f32>()?, j.to_vec2::<f32>()?);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jacrev<A, F>(f: F) -> impl Fn(&A) -> Result<A>
where
    A: Structure,
    F: Fn(&A) -> Result<Tensor>,
{
    jacrev_with(f, &JacobianOptions::default())
}

/// [`jacrev`] with options.
///
/// # Errors
///
/// As [`jacrev`]; a `chunk_size` that is not positive.
///
/// ```
/// use straightline::{Tensor, func::{JacobianOptions, jacrev_with}, tensor};
/// let one = JacobianOptions { chunk_size: Some(1), ..JacobianOptions::default() };
/// assert_eq!(jacrev_with(|x: &Tensor| x.sum(), &one)(&tensor([1.0, 2.0])?)?.sizes(), [2]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jacrev_with<A, F>(f: F, options: &JacobianOptions) -> impl Fn(&A) -> Result<A> + use<A, F>
where
    A: Structure,
    F: Fn(&A) -> Result<Tensor>,
{
    let options = *options;
    move |a| rows(|a| Ok((f(a)?, ())), a, &options).map(|(j, ())| j)
}

/// [`jacrev_with`] of a function that has more results, which are not differentiated: `(Jacobian, the
/// others)`.
///
/// # Errors
///
/// As [`jacrev_with`].
///
/// ```
/// use straightline::{Tensor, func::{JacobianOptions, jacrev_with_aux}, tensor};
/// let f = |x: &Tensor| { let y = x.mul(x)?; Ok((y.clone(), y)) };
/// let (j, y) = jacrev_with_aux(f, &JacobianOptions::default())(&tensor([3.0])?)?;
/// assert_eq!((j.to_vec::<f32>()?, y.to_vec::<f32>()?), (vec![6.0], vec![9.0]));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jacrev_with_aux<A, X, F>(
    f: F,
    options: &JacobianOptions,
) -> impl Fn(&A) -> Result<(A, X)> + use<A, X, F>
where
    A: Structure,
    X: Structure,
    F: Fn(&A) -> Result<(Tensor, X)>,
{
    let options = *options;
    move |a| rows(&f, a, &options)
}

fn rows<A: Structure, X: Structure>(
    f: impl Fn(&A) -> Result<(Tensor, X)>,
    a: &A,
    options: &JacobianOptions,
) -> Result<(A, X)> {
    let (y, pull, aux) = vjp_with_aux(f, a)?;
    let basis = basis(&y, 0, y.numel())?;
    let rows = vmap_with(|v: &Tensor| pull.call(v), &options.vmap())(&basis)?;
    let mut sizes = leaves(a).into_iter().map(|t| joined(y.sizes(), t.sizes()));
    let j = rows.map(&mut |t| aten::reshape(t, &sizes.next().unwrap_or_default()))?;
    Ok((j, aux))
}

/// The Jacobian of a function, column by column by forward mode; as [`jacrev`], for functions with
/// fewer arguments than results. All columns are computed at once, by [`vmap`](super::vmap).
///
/// # Errors
///
/// As [`jvp`](super::jvp).
///
/// ```
/// use straightline::{Tensor, func::jacfwd, tensor};
/// let outer = |x: &Tensor| x.unsqueeze(1)?.mul(x);
/// assert_eq!(jacfwd(outer)(&tensor([1.0, 2.0])?)?.sizes(), [2, 2, 2]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jacfwd<A, F>(f: F) -> impl Fn(&A) -> Result<A>
where
    A: Structure,
    F: Fn(&A) -> Result<Tensor>,
{
    jacfwd_with(f, &JacobianOptions::default())
}

/// [`jacfwd`] with options.
///
/// # Errors
///
/// As [`jacfwd`]; a `chunk_size` that is not positive.
///
/// ```
/// use straightline::{Tensor, func::{JacobianOptions, Randomness, jacfwd_with}, rand, tensor};
/// let noisy = |x: &Tensor| x.mul(rand([2])?);
/// let same = JacobianOptions { randomness: Randomness::Same, ..JacobianOptions::default() };
/// let j = jacfwd_with(noisy, &same)(&tensor([1.0, 2.0])?)?;
/// assert_eq!(j.to_vec2::<f32>()?[0][1], 0.0);
/// assert!(jacfwd_with(noisy, &JacobianOptions::default())(&tensor([1.0, 2.0])?).is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jacfwd_with<A, F>(f: F, options: &JacobianOptions) -> impl Fn(&A) -> Result<A> + use<A, F>
where
    A: Structure,
    F: Fn(&A) -> Result<Tensor>,
{
    let options = *options;
    move |a| columns(|a| Ok((f(a)?, ())), a, &options).map(|(j, ())| j)
}

/// [`jacfwd_with`] of a function that has more results, which are not differentiated: `(Jacobian, the
/// others)`. Of results that differ among the columns, as random ones do, those of the first.
///
/// # Errors
///
/// As [`jacfwd_with`].
///
/// ```
/// use straightline::{Tensor, func::{JacobianOptions, jacfwd_with_aux}, tensor};
/// let f = |x: &Tensor| { let y = x.mul(x)?; Ok((y.clone(), y)) };
/// let (j, y) = jacfwd_with_aux(f, &JacobianOptions::default())(&tensor([3.0])?)?;
/// assert_eq!((j.to_vec::<f32>()?, y.to_vec::<f32>()?), (vec![6.0], vec![9.0]));
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn jacfwd_with_aux<A, X, F>(
    f: F,
    options: &JacobianOptions,
) -> impl Fn(&A) -> Result<(A, X)> + use<A, X, F>
where
    A: Structure,
    X: Structure,
    F: Fn(&A) -> Result<(Tensor, X)>,
{
    let options = *options;
    move |a| columns(&f, a, &options)
}

fn columns<A: Structure, X: Structure>(
    f: impl Fn(&A) -> Result<(Tensor, X)>,
    a: &A,
    options: &JacobianOptions,
) -> Result<(A, X)> {
    let primals = leaves(a);
    let count: i64 = primals.iter().map(Tensor::numel).sum();
    let mut from = 0;
    let mut begin = |t: &Tensor| {
        let basis = basis(t, from, count);
        from += t.numel();
        basis
    };
    let directions = rebuilt(a, primals.iter().map(&mut begin).collect::<Result<_>>()?)?;
    let along = |tangents: &A| {
        let (_, column, aux) = jvp_with_aux(&f, a, tangents, &JvpOptions::default())?;
        Ok((column, aux))
    };
    let (columns, aux) = vmap_with(along, &options.vmap())(&directions)?;
    let columns = moved(&columns, 0, columns.dim() - 1)?;
    let out = &columns.sizes()[..columns.dim() - 1];
    let mut at = 0;
    let each = |t: &Tensor| {
        let n = t.numel();
        let own = match n == count {
            true => columns.clone(),
            false => aten::narrow(&columns, -1, at, n)?,
        };
        at += n;
        aten::reshape(&own, &joined(out, t.sizes()))
    };
    let j = rebuilt(a, primals.iter().map(each).collect::<Result<_>>()?)?;
    Ok((j, aux.map(&mut |t| aten::select_int(t, 0, 0))?))
}

/// The second derivatives of a function whose result is a number: `[sizes..., sizes...]`. They are
/// the forward derivatives of the gradient.
///
/// # Errors
///
/// As [`jacfwd`]; the result has dimensions.
///
/// ```
/// use straightline::{Tensor, func::hessian, tensor};
/// let h = hessian(|x: &Tensor| x.mul(x)?.mul(x)?.sum())(&tensor([1.0, 2.0])?)?;
/// assert_eq!(h.to_vec2::<f32>()?, [[6.0, 0.0], [0.0, 12.0]]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn hessian<F>(f: F) -> impl Fn(&Tensor) -> Result<Tensor>
where
    F: Fn(&Tensor) -> Result<Tensor>,
{
    let number = move |x: &Tensor| {
        let y = f(x)?;
        match y.numel() {
            1 => Ok(y),
            _ => Err(TransformError::NotScalar { api: "hessian", dims: y.dim() }.into()),
        }
    };
    jacfwd(jacrev(number))
}
