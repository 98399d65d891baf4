//! Gradients of repeating and rearranging elements; of several statistics at once.

use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dims;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(crate) use crate::ops::aten::{flip, trace_backward};

use super::view::zeros_of;

const ONE: Scalar = Scalar::Int(1);

/// The gradient of repeating: the sum over the repetitions.
pub(crate) fn repeat_backward(grad: &Tensor, repeats: &[i64], sizes: &[i64]) -> Result<Tensor> {
    if repeats.is_empty() {
        return Ok(grad.clone());
    }
    if repeats.contains(&0) || sizes.contains(&0) {
        return zeros_of(grad, sizes);
    }
    let new = repeats.len() - sizes.len();
    let mut grad = grad.clone();
    if new > 0 {
        let leading: Vec<i64> = (0..new as i64).collect();
        grad = aten::sum_dim_int_list(&grad, Some(&leading), false, None)?;
    }
    let (mut pairs, mut repeated) = (Vec::new(), Vec::new());
    for (times, size) in repeats[new..].iter().zip(sizes) {
        if *times != 1 {
            repeated.push(pairs.len() as i64);
            pairs.push(*times);
        }
        pairs.push(*size);
    }
    if repeated.is_empty() {
        return Ok(grad);
    }
    aten::sum_dim_int_list(&aten::reshape(&grad, &pairs)?, Some(&repeated), false, None)
}

pub(crate) fn roll_backward(grad: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    let shifts: Vec<i64> = shifts.iter().rev().map(|s| -s).collect();
    let dims: Vec<i64> = dims.iter().rev().copied().collect();
    aten::roll(grad, &shifts, &dims)
}

pub(crate) fn rot90_backward(grad: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    aten::rot90(grad, -k, dims)
}

/// The gradients of blocks on a diagonal, which may be vectors and numbers: the blocks.
pub(crate) fn block_diag_backward(grad: &Tensor, sizes: &[Vec<i64>]) -> Result<Vec<Tensor>> {
    let (mut row, mut column) = (0, 0);
    let block = |sizes: &Vec<i64>| {
        let (rows, columns) = match sizes[..] {
            [rows, columns] => (rows, columns),
            [columns] => (1, columns),
            _ => (1, 1),
        };
        let part = aten::narrow(grad, 0, row, rows)?;
        let part = aten::narrow(&part, 1, column, columns)?;
        (row, column) = (row + rows, column + columns);
        match sizes.len() {
            2 => Ok(part),
            _ => aten::reshape(&part, sizes),
        }
    };
    sizes.iter().map(block).collect()
}

pub(crate) fn unsafe_masked_index_backward(
    grad: &Tensor,
    sizes: &[i64],
    mask: &Tensor,
    indices: &[Option<Tensor>],
) -> Result<Tensor> {
    aten::_unsafe_masked_index_put_accumulate(&zeros_of(grad, sizes)?, mask, indices, grad)
}

pub(crate) fn unsafe_masked_index(
    grad: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
) -> Result<Tensor> {
    aten::_unsafe_masked_index(grad, mask, indices, Scalar::Int(0))
}

/// A reduction of some dimensions: which, and of how many elements.
struct Reduced<'a> {
    x: &'a Tensor,
    dims: Vec<i64>,
    keepdim: bool,
    count: f64,
}

impl<'a> Reduced<'a> {
    fn new(x: &'a Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Reduced<'a>> {
        let dims = wrap_dims(dims, x.dim())?;
        let count: i64 = dims.iter().filter_map(|d| x.sizes().get(*d)).product();
        let dims = dims.iter().map(|d| *d as i64).collect();
        Ok(Reduced { x, dims, keepdim, count: count as f64 })
    }

    /// With the dimensions that are gone.
    fn restored(&self, grad: &Tensor) -> Result<Tensor> {
        let mut out = grad.clone();
        if !self.keepdim && self.x.dim() > 0 {
            for dim in &self.dims {
                out = aten::unsqueeze(&out, *dim)?;
            }
        }
        Ok(out)
    }

    fn of_mean(&self, grad: &Tensor) -> Result<Tensor> {
        let grad = aten::expand(&self.restored(grad)?, self.x.sizes(), false)?;
        aten::div_scalar(&grad, Scalar::Float(self.count))
    }

    fn of_variance(&self, grad: &Tensor, correction: Option<Scalar>) -> Result<Tensor> {
        let freedom = self.count - correction.unwrap_or(ONE).as_f64();
        let grad = self.restored(grad)?;
        let mean = aten::mean_dim(self.x, Some(&self.dims), true, None)?;
        if freedom <= 0.0 {
            // the variance of one element is 0/0, of less it is a negative number
            let still = aten::eq_tensor(self.x, &mean)?;
            let inf = Scalar::Float(f64::INFINITY);
            let factor = aten::full_like(self.x, inf, None, None, None, None, None)?;
            let factor = aten::masked_fill_scalar(&factor, &still, Scalar::Float(f64::NAN))?;
            return aten::mul_tensor(&factor, &grad);
        }
        let away = aten::sub_tensor(self.x, &mean, ONE)?;
        let grad = aten::mul_scalar(&grad, Scalar::Float(2.0 / freedom))?;
        aten::mul_tensor(&grad, &away)
    }
}

fn both(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    match (a, b) {
        (Some(a), Some(b)) => aten::add_tensor(&a, &b, ONE).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

fn given(grads: &[Option<Tensor>], i: usize) -> Option<&Tensor> {
    grads.get(i).and_then(Option::as_ref)
}

pub(crate) fn var_mean_backward(
    grads: &[Option<Tensor>],
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let reduced = Reduced::new(x, dims, keepdim)?;
    let of_variance = given(grads, 0).map(|g| reduced.of_variance(g, correction)).transpose()?;
    let of_mean = given(grads, 1).map(|g| reduced.of_mean(g)).transpose()?;
    both(of_variance, of_mean)
}

pub(crate) fn std_mean_backward(
    grads: &[Option<Tensor>],
    x: &Tensor,
    std: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Option<Tensor>> {
    let reduced = Reduced::new(x, dims, keepdim)?;
    let of_std = |grad: &Tensor| {
        let twice = aten::mul_scalar(std, Scalar::Int(2))?;
        let grad = aten::div_tensor(grad, &twice)?;
        let zero = aten::eq_scalar(std, Scalar::Int(0))?;
        let grad = aten::masked_fill_scalar(&grad, &zero, Scalar::Int(0))?;
        reduced.of_variance(&grad, correction)
    };
    let of_std = given(grads, 0).map(of_std).transpose()?;
    let of_mean = given(grads, 1).map(|g| reduced.of_mean(g)).transpose()?;
    both(of_std, of_mean)
}
