//! Losses of margins, by operators that have loops.

use super::{Call, Kernel, Made, converted};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Op, Scalar, args};

/// PyTorch's numbers of the reductions.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// What an operator is made of.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::multi_margin_loss => forward,
        Op::multi_margin_loss_backward => backward,
        _ => return None,
    })
}

/// How far each class reaches over the margin, as rows of classes.
struct Margins {
    /// 0 where it does not reach, and for the target itself.
    over: Tensor,
    /// Targets as an index along the classes.
    index: Tensor,
    /// A factor for each row.
    weights: Option<Tensor>,
    /// The power, 1 or 2.
    squares: bool,
    classes: i64,
}

fn margins(
    x: &Tensor,
    target: &Tensor,
    [p, margin]: [Scalar; 2],
    weight: Option<&Tensor>,
) -> Result<Option<Margins>> {
    let classes = x.sizes().last().copied().unwrap_or(1);
    let squares = match p.as_f64() {
        1.0 => false,
        2.0 => true,
        _ => return Ok(None),
    };
    let rows = aten::reshape(x, &[-1, classes])?;
    let index = aten::reshape(&converted(target, DType::I64)?, &[-1, 1])?;
    if index.sizes()[0] != rows.sizes()[0] || !super::rows::within(&index, 0, classes)? {
        return Ok(None);
    }
    let of_target = aten::gather(&rows, 1, &index, false)?;
    let over = aten::sub_tensor(&rows, &of_target, Scalar::Int(1))?;
    let over = aten::add_scalar(&over, margin, Scalar::Int(1))?;
    let over = aten::clamp(&over, Some(Scalar::Int(0)), None)?;
    let over = aten::scatter_value(&over, 1, &index, Scalar::Int(0))?;
    let weights = match weight {
        None => None,
        Some(w) => {
            let flat = aten::reshape(&index, &[-1])?;
            Some(aten::reshape(&aten::index_select(w, 0, &flat)?, &[-1, 1])?)
        }
    };
    Ok(Some(Margins { over, index, weights, squares, classes }))
}

fn forward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::multi_margin_loss<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let (Some(wanted), false) = (wanted.first(), a.self_.numel() == 0) else { return Ok(None) };
    let numbers = [a.p, a.margin];
    let Some(m) = margins(&a.self_, &a.target, numbers, a.weight.as_ref())? else {
        return Ok(None);
    };
    let mut loss = if m.squares { aten::mul_tensor(&m.over, &m.over)? } else { m.over };
    if let Some(w) = &m.weights {
        loss = aten::mul_tensor(&loss, w)?;
    }
    let loss = aten::sum_dim_int_list(&loss, Some(&[1]), false, None)?;
    let loss = aten::div_scalar(&loss, Scalar::Int(m.classes))?;
    let loss = match a.reduction {
        NONE => aten::reshape(&loss, &wanted.sizes)?,
        MEAN => aten::mean(&loss, None)?,
        _ => aten::sum(&loss, None)?,
    };
    Ok(Some(vec![call.deliver(loss, wanted)?]))
}

fn backward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::multi_margin_loss_backward<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let (Some(wanted), false) = (wanted.first(), a.self_.numel() == 0) else { return Ok(None) };
    let numbers = [a.p, a.margin];
    let Some(m) = margins(&a.self_, &a.target, numbers, a.weight.as_ref())? else {
        return Ok(None);
    };
    let rows = m.over.sizes()[0];
    let slope = match m.squares {
        true => aten::mul_scalar(&m.over, Scalar::Int(2))?,
        false => converted(&aten::gt_scalar(&m.over, Scalar::Int(0))?, m.over.dtype())?,
    };
    let by = match a.reduction {
        NONE => aten::reshape(&a.grad_output, &[-1, 1])?,
        MEAN => aten::div_scalar(&aten::reshape(&a.grad_output, &[1, 1])?, Scalar::Int(rows))?,
        _ => aten::reshape(&a.grad_output, &[1, 1])?,
    };
    let mut slope = aten::div_scalar(&slope, Scalar::Int(m.classes))?;
    if let Some(w) = &m.weights {
        slope = aten::mul_tensor(&slope, w)?;
    }
    let slope = aten::mul_tensor(&slope, &by)?;
    // what the others gain the target loses
    let lost = aten::neg(&aten::sum_dim_int_list(&slope, Some(&[1]), true, None)?)?;
    let grad = aten::scatter_src(&slope, 1, &m.index, &lost)?;
    Ok(Some(vec![call.deliver(aten::reshape(&grad, &wanted.sizes)?, wanted)?]))
}
