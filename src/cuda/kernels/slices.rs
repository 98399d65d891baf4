//! Slices of which each is kept once.

use super::{Call, Made, compact, contiguous, converted};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use straightline_catalog::{DType, Op, Scalar, args};

/// Numbers of slices, one for each, that are equal where the slices are and ascend as they do. Of columns two by two
/// the numbers are found by a sort, then of two numbers, until one is left.
fn ranks(x: &Tensor) -> Result<Tensor> {
    let (n, mut x) = (x.sizes()[0], dense_ranks(x)?);
    while x.sizes()[1] > 1 {
        let pairs = x.sizes()[1] / 2;
        let of = |first: i64| aten::slice_tensor(&x, 1, Some(first), Some(2 * pairs), 2);
        let both = aten::mul_scalar(&of(0)?, Scalar::Int(n))?;
        let both = dense_ranks(&aten::add_tensor(&both, &of(1)?, Scalar::Int(1))?)?;
        x = match x.sizes()[1] % 2 {
            0 => both,
            _ => aten::cat(&[both, aten::narrow(&x, 1, 2 * pairs, 1)?], 1)?,
        };
    }
    aten::reshape(&x, &[n])
}

/// How many different ones are below each element of its column.
fn dense_ranks(x: &Tensor) -> Result<Tensor> {
    let n = x.sizes()[0];
    let (sorted, order) = aten::sort_stable(x, Some(true), 0, false)?;
    let part = |first: i64| aten::narrow(&sorted, 0, first, n - 1);
    let heads = converted(&aten::ne_tensor(&part(1)?, &part(0)?)?, DType::I64)?;
    let zeros = aten::zeros_like(&aten::narrow(&order, 0, 0, 1)?, None, None, None, None, None)?;
    let above = aten::cumsum(&aten::cat(&[zeros, heads], 0)?, 0, None)?;
    aten::scatter_src(&above, 0, &order, &above)
}

/// `unique_dim` and `unique_dim_consecutive`.
pub(super) fn unique(call: &Call<'_>) -> Made {
    let read = match call.known {
        Op::unique_dim => call.read::<args::unique_dim<Tensor>>().map(|a| (a.self_, a.dim)),
        _ => call.read::<args::unique_dim_consecutive<Tensor>>().map(|a| (a.self_, a.dim)),
    };
    let Some((x, dim)) = read else { return Ok(None) };
    if x.numel() == 0 || x.dim() == 0 || !straightline_cuda::sort::sorts(x.dtype()) {
        return Ok(None);
    }
    let d = crate::ops::common::wrap_dim(dim, x.dim())?;
    let n = x.sizes()[d];
    let mut first: SmallVec<[i64; 6]> = (0..x.dim() as i64).filter(|i| *i != d as i64).collect();
    first.insert(0, d as i64);
    let front = aten::permute(&x, &first)?;
    let rows = aten::reshape(&contiguous(&front)?, &[n, -1])?;
    // a NaN is nobody's equal; pairs of ranks are numbers of 64 bits
    let numbers = match x.dtype().is_floating() {
        true => aten::item(&aten::any(&aten::ne_tensor(&rows, &rows)?)?)?.as_bool(),
        false => false,
    };
    if numbers || n >= 1 << 31 {
        return Ok(None);
    }
    let groups = match call.known {
        Op::unique_dim => ranks(&rows)?,
        _ => {
            let part = |first: i64| aten::narrow(&rows, 0, first, n - 1);
            let differs = aten::any_dim(&aten::ne_tensor(&part(1)?, &part(0)?)?, 1, false)?;
            let zero = aten::zero_(&call.dense(DType::I64, &[1])?)?;
            aten::cumsum(&aten::cat(&[zero, converted(&differs, DType::I64)?], 0)?, 0, None)?
        }
    };
    let count = aten::item(&aten::amax(&groups, &[], false)?)?.as_i64() + 1;
    let (order, begins) = compact::order_by(call, &groups, count)?;
    let at = aten::narrow(&begins, 0, 0, count)?;
    let kept = aten::index_select(&front, 0, &aten::index_select(&order, 0, &at)?)?;
    let mut back: SmallVec<[i64; 6]> = (1..x.dim() as i64).collect();
    back.insert(d, 0);
    let counts = aten::sub_tensor(&aten::narrow(&begins, 0, 1, count)?, &at, Scalar::Int(1))?;
    let made = [aten::permute(&kept, &back)?, groups, counts];
    Ok(Some(made.into_iter().map(Value::Tensor).collect()))
}
