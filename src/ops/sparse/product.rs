//! Matrix products, sums, transposes.

use super::convert::merge_dims;
use super::coo::{build, rows_at, sum_equal};
use super::pointwise::{dims, rows_as_coo};
use super::select;
use super::{Coo, coo, coo_to_csr, csr, indices_tensor, with_indices};
use crate::dispatch::Value;
use crate::error::{Error, Result};
use crate::ops::common::{wrap_dim, wrap_dims};
use crate::ops::copy;
use crate::ops::pointwise;
use crate::ops::reduce;
use crate::ops::view;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Op, Scalar};
use straightline_runtime::cpu::kernels::sparse::{self, Rows};

fn check_product(a: &Tensor, b: &Tensor) -> Result<()> {
    for (name, t) in [("self", a), ("mat2", b)] {
        ensure!(t.dim() == 2, "{name} must be a matrix, got {:?}", t.sizes());
        ensure!(
            !t.is_sparse() || coo(t)?.sparse_dim() == 2,
            "{name} has dense dimensions, and a matrix product wants two sparse ones"
        );
    }
    ensure_shape!(
        a.sizes()[1] == b.sizes()[0],
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.sizes()[0],
        a.sizes()[1],
        b.sizes()[0],
        b.sizes()[1]
    );
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        a.dtype(),
        b.dtype()
    );
    Ok(())
}

/// `out += alpha * a @ b`; out is fresh and row-major, a sparse, b dense; sizes and dtypes fit.
fn multiply_into(out: &Tensor, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<()> {
    let run =
        |begin: &[i64], columns: &[i64], order: Option<&[usize]>, values: &Tensor| -> Result<()> {
            launch::run(launch::Written(out), [b, values], |out, [b, values]| {
                let rows = Rows { begin, columns, order, values };
                Ok(sparse::matmul(out, rows, b, alpha)?)
            })
        };
    if a.is_sparse_csr() {
        let c = csr(a)?;
        return with_indices(&c.crow, |crow| {
            with_indices(&c.col, |col| run(crow, col, None, &c.values))
        });
    }
    let c = coo(a)?;
    with_indices(&c.indices, |data| {
        let (of_rows, columns) = data.split_at(c.nnz() as usize);
        let (begin, order) = sparse::by_row(of_rows, a.sizes()[0] as usize)?;
        run(&begin, columns, Some(&order), &c.values)
    })
}

fn is_any_sparse(t: &Tensor) -> bool {
    t.is_sparse() || t.is_sparse_csr()
}

/// Both sparse: every pair of elements that meet, then equal coordinates summed.
fn multiply_sparse(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b) = (super::coalesce_coo(a)?, super::coalesce_coo(b)?);
    let (ca, cb) = (coo(&a)?, coo(&b)?);
    let (m, n) = (a.sizes()[0], b.sizes()[1]);
    let (mut at_a, mut at_b, mut to) = (Vec::new(), Vec::new(), Vec::new());
    with_indices(&ca.indices, |ia| {
        with_indices(&cb.indices, |ib| {
            let (rows_a, cols_a) = ia.split_at(ca.nnz() as usize);
            let (rows_b, cols_b) = ib.split_at(cb.nnz() as usize);
            let (begin, _) = sparse::by_row(rows_b, b.sizes()[0] as usize)?;
            for (e, (i, k)) in rows_a.iter().zip(cols_a).enumerate() {
                let Some([from, until]) = begin.get(*k as usize..*k as usize + 2) else {
                    continue;
                };
                for f in *from..*until {
                    at_a.push(e as i64);
                    at_b.push(f);
                    to.push(i * n + cols_b[f as usize]);
                }
            }
            Ok(())
        })
    })?;
    let products = pointwise::mul(&rows_at(&ca.values, &at_a)?, &rows_at(&cb.values, &at_b)?)?;
    sum_equal(&to, &products, &[m, n], &[m, n])
}

/// The product of two matrices, one of them sparse at least.
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (is_any_sparse(a), is_any_sparse(b)) {
        (true, true) => {
            let out = multiply_sparse(&rows_as_coo(a)?, &rows_as_coo(b)?)?;
            if a.is_sparse_csr() && b.is_sparse_csr() { coo_to_csr(&out, None) } else { Ok(out) }
        }
        (true, false) => {
            let sizes = [a.sizes()[0], b.sizes()[1]];
            let out = super::zeros_dense(a.dtype(), a.device(), &sizes)?;
            multiply_into(&out, a, b, Scalar::Int(1))?;
            Ok(out)
        }
        // (b' a')'
        (false, _) => {
            let bt = t(&rows_as_coo(b)?)?;
            let out = product(&bt, &view::t(a)?)?;
            copy::clone_contiguous(&view::t(&out)?)
        }
    }
}

pub(crate) fn mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_product(a, b)?;
    product(a, b)
}

pub(crate) fn csr_mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    mm(a, b)
}

pub(crate) fn addmm(
    addend: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    check_product(a, b)?;
    ensure_not_implemented!(
        !is_any_sparse(addend) && is_any_sparse(a) && !is_any_sparse(b),
        "addmm with a sparse operand takes (dense, sparse, dense); use `mm` and `add` for other combinations"
    );
    ensure_dtype!(
        addend.dtype() == a.dtype(),
        "expected the addend and m1 to have the same dtype, but got: {} != {}",
        addend.dtype(),
        a.dtype()
    );
    let sizes = [a.sizes()[0], b.sizes()[1]];
    let addend = view::expand(addend, &sizes, true)?;
    // a factor of 0 drops the addend, NaN and all
    let out = if beta.as_f64() == 0.0 {
        super::zeros_dense(a.dtype(), a.device(), &sizes)?
    } else {
        let scaled = pointwise::mul_scalar(&addend, beta.cast(a.dtype()))?;
        copy::clone_contiguous(&scaled)?
    };
    multiply_into(&out, a, b, alpha)?;
    Ok(out)
}

pub(crate) fn sum(t: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    reduce::sum(&coo(t)?.values, dtype)
}

pub(crate) fn csr_sum(t: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    reduce::sum(&csr(t)?.values, dtype)
}

/// Sums over some dimensions: sparse ones merge coordinates, dense ones shrink values. Dense where
/// nothing sparse is left.
pub(crate) fn sum_dim(
    t: &Tensor,
    over: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let over = wrap_dims(over, t.dim())?;
    let c = coo(t)?;
    let sparse_dim = c.sparse_dim();
    let (of_sparse, of_dense): (Vec<usize>, Vec<usize>) =
        over.iter().partition(|d| **d < sparse_dim);
    let shrink = |values: &Tensor| {
        // no dimensions would mean all of them
        let dims: Vec<i64> = of_dense.iter().map(|d| (d - sparse_dim) as i64 + 1).collect();
        if dims.is_empty() {
            let dtype =
                dtype.unwrap_or(if t.dtype().is_floating() { t.dtype() } else { DType::I64 });
            copy::to_dtype(values, dtype)
        } else {
            reduce::sum_dim(values, Some(&dims), keepdim, dtype)
        }
    };
    let values = copy::to_contiguous(&shrink(&c.values)?)?;
    if of_sparse.len() == sparse_dim {
        let out = reduce::sum_dim(&values, Some(&[0]), false, dtype)?;
        if !keepdim {
            return Ok(out);
        }
        let mut sizes = vec![1; sparse_dim];
        sizes.extend(out.sizes());
        return view::view(&copy::to_contiguous(&out)?, &sizes);
    }
    let mut sizes = dims(&t.sizes()[..sparse_dim]);
    sizes.extend_from_slice(&values.sizes()[1..]);
    let shrunk = build(c.indices.clone(), values, &sizes, c.is_coalesced())?;
    if of_sparse.is_empty() {
        return Ok(shrunk);
    }
    merge_dims(&shrunk, &of_sparse, keepdim)
}

fn t(x: &Tensor) -> Result<Tensor> {
    let c = coo(x)?;
    ensure!(
        c.sparse_dim() <= 2 && x.dim() <= 2,
        "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {} sparse, {} dense dimensions",
        c.sparse_dim(),
        x.dim() - c.sparse_dim()
    );
    if x.dim() < 2 { Ok(x.clone()) } else { transpose(x, 0, 1) }
}

fn transpose(x: &Tensor, a: i64, b: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(a, x.dim())?, wrap_dim(b, x.dim())?);
    if a == b {
        return Ok(x.clone());
    }
    let c = coo(x)?;
    let mut sizes = dims(x.sizes());
    sizes.swap(a, b);
    let n = c.sparse_dim();
    match (a < n, b < n) {
        (true, true) => build(swapped(c, a, b)?, c.values.clone(), &sizes, false),
        (false, false) => {
            let values = view::transpose(&c.values, (a - n) as i64 + 1, (b - n) as i64 + 1)?;
            build(c.indices.clone(), values, &sizes, c.is_coalesced())
        }
        _ => Err(Error::runtime(format!(
            "transpose: can't transpose between a sparse and a dense dimension ({a} and {b}, of which the first {n} are sparse)"
        ))),
    }
}

/// Operators that `CompositeExplicitAutograd` serves for all layouts, and that are other than for
/// plain memory here.
pub(crate) fn composite(op: Op, x: &Tensor, rest: &[Value]) -> Option<Result<Tensor>> {
    match (op, rest) {
        (Op::t, []) if x.is_sparse() => Some(t(x)),
        (Op::t, []) if x.is_sparse_csr() => Some(csr_t()),
        (Op::transpose_int, [Value::Int(a), Value::Int(b)]) if x.is_sparse() => {
            Some(transpose(x, *a, *b))
        }
        (Op::select_int, [Value::Int(dim), Value::Int(index)]) if x.is_sparse() => {
            Some(select::select(x, *dim, *index))
        }
        (Op::unsqueeze, [Value::Int(dim)]) if x.is_sparse() => Some(select::unsqueeze(x, *dim)),
        (Op::detach | Op::alias, []) if x.is_sparse() || x.is_sparse_csr() || x.is_quantized() => {
            // there are no views of such tensors, so it is the tensor
            Some(Ok(x.clone()))
        }
        _ => None,
    }
}

/// The index tensor with two rows exchanged.
fn swapped(c: &Coo, a: usize, b: usize) -> Result<Tensor> {
    let nnz = c.nnz() as usize;
    let mut order: Vec<usize> = (0..c.sparse_dim()).collect();
    order.swap(a, b);
    let data: Vec<i64> = with_indices(&c.indices, |data| {
        Ok(order.iter().flat_map(|d| &data[d * nnz..(d + 1) * nnz]).copied().collect())
    })?;
    indices_tensor(&data, c.indices.sizes())
}

fn csr_t() -> Result<Tensor> {
    Err(Error::not_implemented(
        "the transpose of compressed rows is compressed columns, which are not there: transpose the coordinate form, `x.to_sparse()?.t()`",
    ))
}
