//! Products of tensors of any rank, made of products of matrices.

use super::{Composer, Made};
use crate::ir::meta::broadcast;
use crate::ir::{Dims, MetaError, Op, args};

/// `torch.matmul`: tensors of one dimension are vectors, leading dimensions broadcast.
///
/// # Errors
///
/// An operand without dimensions; matrices that cannot be multiplied; leading dimensions that do
/// not broadcast.
pub fn matmul<C: Composer>(c: &mut C, a: args::matmul<&C::Value>) -> Made<C> {
    product(c, a.self_, a.other)
}

fn product<C: Composer>(c: &mut C, a: &C::Value, b: &C::Value) -> Made<C> {
    let (of_a, of_b) = (c.sizes(a), c.sizes(b));
    match (of_a.len(), of_b.len()) {
        (0, _) | (_, 0) => {
            let op = Op::matmul;
            Err(MetaError::NoDimensions { op, a: of_a.len(), b: of_b.len() }.into())
        }
        (1, 1) => {
            let (row, column) = (c.unsqueeze(a, 0)?, c.unsqueeze(b, 1)?);
            let product = c.mm(&row, &column)?;
            c.view(&product, &[])
        }
        (2, 2) => c.mm(a, b),
        (1, 2) => {
            let row = c.unsqueeze(a, 0)?;
            let product = c.mm(&row, b)?;
            c.squeeze(&product, &[0])
        }
        (2, 1) => {
            let column = c.unsqueeze(b, 1)?;
            let product = c.mm(a, &column)?;
            c.squeeze(&product, &[1])
        }
        (1, _) => {
            let row = c.unsqueeze(a, 0)?;
            let products = product(c, &row, b)?;
            c.squeeze(&products, &[-2])
        }
        (_, 1) => {
            let column = c.unsqueeze(b, 1)?;
            let products = product(c, a, &column)?;
            c.squeeze(&products, &[-1])
        }
        // a matrix on the right: the leading dimensions become rows
        (_, 2) => {
            let rows = c.reshape(a, &folded(&of_a))?;
            let product = c.mm(&rows, b)?;
            c.unsafe_view(&product, &unfolded(&of_a, of_b[1]))
        }
        _ => batched(c, a, b),
    }
}

/// The sizes with all dimensions but the last as one.
fn folded(sizes: &[i64]) -> [i64; 2] {
    let (last, lead) = sizes.split_last().unwrap_or((&1, &[]));
    [lead.iter().product(), *last]
}

/// The sizes with another last dimension.
fn unfolded(sizes: &[i64], last: i64) -> Dims {
    let lead = &sizes[..sizes.len().saturating_sub(1)];
    lead.iter().copied().chain([last]).collect()
}

fn batched<C: Composer>(c: &mut C, a: &C::Value, b: &C::Value) -> Made<C> {
    let (of_a, of_b) = (c.sizes(a), c.sizes(b));
    let (lead_a, mat_a) = of_a.split_at(of_a.len() - 2);
    let (lead_b, mat_b) = of_b.split_at(of_b.len() - 2);
    let lead = broadcast(lead_a, lead_b)?;
    let batch: i64 = lead.iter().product();
    let with = |mat: &[i64]| -> Dims { lead.iter().chain(mat).copied().collect() };
    let folded = |c: &mut C, x: &C::Value, mat: &[i64]| {
        let x = c.expand(x, &with(mat))?;
        c.reshape(&x, &[batch, mat[0], mat[1]])
    };
    let (a, b) = (folded(c, a, mat_a)?, folded(c, b, mat_b)?);
    let products = c.bmm(&a, &b)?;
    c.unsafe_view(&products, &with(&[mat_a[0], mat_b[1]]))
}

/// `x @ w^T + bias` over the last dimension.
///
/// # Errors
///
/// An input without dimensions; a bias that does not broadcast to the product; those of the product.
pub fn linear<C: Composer>(c: &mut C, a: args::linear<&C::Value>) -> Made<C> {
    let (sizes, of_weight) = (c.sizes(a.input), c.sizes(a.weight));
    if sizes.is_empty() {
        let (op, b) = (Op::linear, of_weight.len());
        return Err(MetaError::NoDimensions { op, a: 0, b }.into());
    }
    let weight = c.t(a.weight)?;
    match a.bias {
        Some(bias) if sizes.len() == 2 => c.addmm(bias, a.input, &weight),
        Some(bias) if sizes.len() > 2 && of_weight.len() == 2 => {
            let rows = c.reshape(a.input, &folded(&sizes))?;
            let y = c.addmm(bias, &rows, &weight)?;
            c.view(&y, &unfolded(&sizes, of_weight[0]))
        }
        Some(bias) => {
            // PyTorch adds in place: the result keeps its dtype and sizes
            let y = c.matmul(a.input, &weight)?;
            let (sizes, of_bias) = (c.sizes(&y), c.sizes(bias));
            let both = broadcast(&sizes, &of_bias)?;
            if both != sizes {
                return Err(MetaError::Enlarged { sizes, broadcast: both }.into());
            }
            let sum = c.add(&y, bias)?;
            c.to(&sum, c.dtype(&y))
        }
        None => c.matmul(a.input, &weight),
    }
}
