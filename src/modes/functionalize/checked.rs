//! The forms that capture records for operators whose loop forms omit data checks of their kernels,
//! or that are recorded as other calls.

use super::kernels::{checked, require, unless_row_major};
use crate::dispatch::{Kernel, Value, handle_of};
use crate::error::Result;
use crate::ops::aten;
use crate::ops::nn::loss::NO_PROBABILITY;
use crate::ops::random::choice::{NO_WEIGHT, SINGLE, check_sizes};
use crate::tensor::{Generator, Tensor};
use straightline_catalog::{DType, MemoryFormat, Op, Scalar};

/// What capture records of `binary_cross_entropy`, whose formula accepts any number.
pub(crate) fn binary_cross_entropy() -> Kernel {
    checked(|op, args| {
        let Some(x) = args.first().and_then(Value::as_tensor) else {
            return Ok(());
        };
        let within = || {
            let not_below = aten::ge_scalar(x, 0.into())?;
            let not_above = aten::le_scalar(x, 1.into())?;
            aten::all(&aten::logical_and(&not_below, &not_above)?)
        };
        require(op, args, within, NO_PROBABILITY)
    })
}

/// The captured form. The times of the race are drawn in the order of the weights' memory, so
/// weights that are not row-major run it in parts, of which the drawing knows the order.
pub(crate) fn multinomial() -> Kernel {
    unless_row_major(race)
}

fn race(
    weights: &Tensor,
    samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_sizes(weights, samples, replacement)?;
    if replacement && samples > 1 {
        let rows = aten::contiguous(weights, MemoryFormat::Contiguous)?;
        return aten::multinomial(&rows, samples, replacement, generator);
    }
    let op = handle_of(Op::multinomial)?;
    let args = [weights.into(), samples.into(), replacement.into()];
    let finite = || {
        let within = aten::logical_and(
            &aten::ge_scalar(weights, Scalar::Int(0))?,
            &aten::lt_scalar(weights, Scalar::Float(f64::INFINITY))?,
        )?;
        aten::all(&within)
    };
    require(op, &args, finite, SINGLE)?;
    let some = || {
        let totals = aten::sum_dim_int_list(weights, Some(&[-1]), false, Some(DType::F64))?;
        aten::all(&aten::gt_scalar(&totals, Scalar::Int(0))?)
    };
    require(op, &args, some, NO_WEIGHT)?;
    let times = aten::exponential(weights, 1.0, generator)?;
    let speeds = aten::div_tensor(weights, &times)?;
    if samples == 1 {
        return aten::argmax(&speeds, Some(-1), true);
    }
    Ok(aten::topk(&speeds, samples, -1, true, true)?.1)
}
