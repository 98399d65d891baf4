//! Distances between rows, and their gradients.

use super::{Call, Kernel, Made, contiguous};
use crate::cuda::copy::program;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_catalog::{Op, args};
use straightline_cuda::distance::{Operation, Pairs, computes, run};

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::_cdist_forward => forward,
        Op::_cdist_backward => backward,
        Op::_pdist_forward => forward_among,
        Op::_pdist_backward => backward_among,
        _ => return None,
    })
}

/// An operation on tensors without gaps, for the call's result.
fn computed(call: &Call<'_>, operation: Operation, pairs: &Pairs, operands: &[&Tensor]) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let one = operands.iter().all(|t| t.dtype() == pairs.dtype);
    let Some(wanted) = wanted.first().filter(|_| one && computes(pairs.dtype)) else {
        return Ok(None);
    };
    let out = call.dense(wanted.dtype, &wanted.sizes)?;
    let operands: Vec<Tensor> = operands.iter().map(|t| contiguous(t)).collect::<Result<_>>()?;
    {
        let _held = access::read(&operands.iter().collect::<Vec<_>>())?;
        let all = operands.iter().chain([&out]).map(Tensor::device_address);
        let addresses = all.collect::<Result<Vec<u64>>>()?;
        // SAFETY: the operands are held and the result is fresh, all without gaps and of the pairs' sizes.
        unsafe { run(&call.stream()?, operation, pairs, &addresses) }.map_err(program)?;
    }
    Ok(Some(vec![call.deliver(out, wanted)?]))
}

/// Matrices of one batch of sizes, and what there is of them; `None` for others.
fn matrices(x: &Tensor, y: &Tensor, batch: &[i64], p: f64) -> Result<Option<(Pairs, [Tensor; 2])>> {
    let ([.., rows, width], [.., cols, _]) = (x.sizes(), y.sizes()) else { return Ok(None) };
    let pairs = Pairs {
        dtype: x.dtype(),
        batch: batch.iter().product(),
        rows: *rows,
        cols: *cols,
        width: *width,
        p,
    };
    let wide = |t: &Tensor, rows: i64| aten::expand(t, &[batch, &[rows, *width]].concat(), false);
    Ok(Some((pairs, [wide(x, *rows)?, wide(y, *cols)?])))
}

fn forward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_cdist_forward<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some([batch @ .., _, _]) = wanted.first().map(|m| &m.sizes[..]) else { return Ok(None) };
    let Some((pairs, [x, y])) = matrices(&a.x1, &a.x2, batch, a.p)? else { return Ok(None) };
    computed(call, Operation::Pairs, &pairs, &[&x, &y])
}

fn backward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_cdist_backward<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some([batch @ .., _, width]) = wanted.first().map(|m| &m.sizes[..]) else {
        return Ok(None);
    };
    // a result of nothing has the sizes of the operand
    if *width == 0 || a.grad_output.numel() == 0 {
        return Ok(None);
    }
    let Some((pairs, [x, y])) = matrices(&a.x1, &a.x2, batch, a.p)? else { return Ok(None) };
    let sizes = [batch, &[pairs.rows, pairs.cols]].concat();
    let grad = aten::expand(&a.grad_output, &sizes, false)?;
    let distances = aten::expand(&a.cdist, &sizes, false)?;
    computed(call, Operation::PairsGradient, &pairs, &[&grad, &x, &y, &distances])
}

fn among(x: &Tensor, p: f64) -> Pairs {
    let (rows, width) = match x.sizes() {
        [] => (1, 1),
        [n, rest @ ..] => (*n, rest.iter().product()),
    };
    Pairs { dtype: x.dtype(), batch: 1, rows, cols: rows, width, p }
}

fn forward_among(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_pdist_forward<Tensor>>() else { return Ok(None) };
    computed(call, Operation::Among, &among(&a.self_, a.p), &[&a.self_])
}

fn backward_among(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_pdist_backward<Tensor>>() else { return Ok(None) };
    let operands = [&a.grad_output, &a.self_, &a.pdist];
    computed(call, Operation::AmongGradient, &among(&a.self_, a.p), &operands)
}
