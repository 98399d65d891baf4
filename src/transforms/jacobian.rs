//! Matrices of derivatives: a derivative for each element, all at once by `vmap`.

use super::error::TransformError;
use super::forward::jvp;
use super::gradient::vjp;
use super::map::{VmapOptions, vmap, vmap_with};
use super::structure::{Structure, leaves, rebuilt};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::aten;
use crate::tensor::Tensor;

/// All tensors of `t`'s shape with a one at one place: `[numel, sizes...]`.
fn basis(t: &Tensor) -> Result<Tensor> {
    let n = t.numel();
    let eye = aten::eye(n, Some(t.dtype()), None, Some(t.device()), None)?;
    aten::reshape(&eye, &joined(&[n], t.sizes()))
}

fn joined(a: &[i64], b: &[i64]) -> Vec<i64> {
    a.iter().chain(b).copied().collect()
}

/// The Jacobian of a function, row by row by reverse mode: for each tensor of the argument the
/// derivatives of the result, `[result sizes..., argument sizes...]`. For functions with fewer
/// results than arguments.
///
/// # Errors
///
/// As [`vjp`].
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
    move |a| {
        let (y, pull) = vjp(&f, a)?;
        let rows = vmap(|v: &Tensor| pull.call(v))(&basis(&y)?)?;
        let mut sizes = leaves(a).into_iter().map(|t| joined(y.sizes(), t.sizes()));
        rows.map(&mut |t| aten::reshape(t, &sizes.next().unwrap_or_default()))
    }
}

/// The Jacobian of a function, column by column by forward mode; as [`jacrev`], for functions with
/// fewer arguments than results. All columns are computed at once, by [`vmap`]; those of a function
/// that writes what depends on its arguments into tensors that do not, one after the other.
///
/// # Errors
///
/// As [`jvp`].
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
    move |a| {
        let primals = leaves(a);
        let mut columns = Vec::new();
        for (i, p) in primals.iter().enumerate() {
            let along = |v: &Tensor| {
                let zeros = |t: &Tensor| aten::zeros_like(t, None, None, None, None, None);
                let each = |(j, t)| if j == i { Ok(v.clone()) } else { zeros(t) };
                let tangents = primals.iter().enumerate().map(each).collect::<Result<_>>()?;
                jvp(&f, a, &rebuilt(a, tangents)?).map(|(_, column)| column)
            };
            let options = VmapOptions { out_dims: vec![Some(-1)], ..VmapOptions::default() };
            let basis = basis(p)?;
            let column = match vmap_with(along, &options)(&basis) {
                Err(e) if writes_where_it_is_not_batched(&e) => {
                    let each = (0..basis.size(0)?).map(|i| along(&basis.select(0, i)?));
                    Tensor::stack(&each.collect::<Result<Vec<_>>>()?, -1)?
                }
                column => column?,
            };
            let out = &column.sizes()[..column.dim() - 1];
            columns.push(aten::reshape(&column, &joined(out, p.sizes()))?);
        }
        rebuilt(a, columns)
    }
}

fn writes_where_it_is_not_batched(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Transform(e) if matches!(**e, TransformError::InPlace { .. }))
}

/// The second derivatives of a function whose result is a number: `[sizes..., sizes...]`. They are
/// the forward derivatives of the gradient; under [`vmap`], where the function writes samples into a
/// tensor whose tangent has none, the gradients of the gradient.
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
    move |x| match jacfwd(jacrev(&number))(x) {
        Err(e) if writes_where_it_is_not_batched(&e) => jacrev(jacrev(&number))(x),
        matrix => matrix,
    }
}
