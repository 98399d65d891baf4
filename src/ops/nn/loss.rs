//! Losses of elements, their reductions and their backward operators.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{broadcast, check_can_cast, float_of, promote};
use crate::ops::pointwise;
use crate::ops::pointwise::complex_functions;
use crate::ops::pointwise::formula::{self, Call, floats};
use crate::ops::reduce;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use straightline_catalog::{DType, Op, Scalar};
use straightline_passes::formula::Attribute;

/// PyTorch's numbers for the `reduction` argument.
const MEAN: i64 = 1;
const SUM: i64 = 2;

fn reduced(loss: Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        MEAN => reduce::mean(&loss, None),
        SUM => reduce::sum(&loss, None),
        _ => Ok(loss),
    }
}

/// The same through the dispatcher, of losses that are composed of operators.
fn reduced_composite(loss: Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        MEAN => aten::mean(&loss, None),
        SUM => aten::sum(&loss, None),
        _ => Ok(loss),
    }
}

pub(crate) fn mse_loss(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    let elements = formula::run(Op::mse_loss, &[(0, x), (1, target)], &[])?;
    reduced(elements, reduction)
}

pub(crate) fn smooth_l1_loss(
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    if beta.is_nan() || beta < 0.0 {
        return Err(Error::runtime("smooth_l1_loss does not support negative values for beta."));
    }
    let attributes = [("beta", beta.into())];
    let operands = [(0, x), (1, target)];
    reduced(formula::run(Op::smooth_l1_loss, &operands, &attributes)?, reduction)
}

pub(crate) fn huber_loss(
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    if delta.is_nan() || delta <= 0.0 {
        return Err(Error::runtime("huber_loss does not support non-positive values for delta."));
    }
    let attributes = [("delta", delta.into())];
    let loss = formula::run(Op::huber_loss, &[(0, x), (1, target)], &attributes)?;
    // PyTorch computes into a tensor of the input's dtype
    check_can_cast(loss.dtype(), x.dtype())?;
    reduced(crate::ops::copy::to_dtype(&loss, x.dtype())?, reduction)
}

pub(crate) fn soft_margin_loss(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    // PyTorch computes in a tensor of the input's shape and dtype
    let sizes = broadcast(&[x, target])?;
    ensure_shape!(
        sizes.as_slice() == x.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        x.sizes(),
        sizes.as_slice()
    );
    ensure_not_implemented!(
        x.dtype() != DType::Bool,
        "Negation, the `-` operator, on a bool tensor is not supported."
    );
    if promote(&[x, target])?.is_complex() {
        check_can_cast(target.dtype(), x.dtype())?;
        return reduced(complex_functions::soft_margin(x, target)?, reduction);
    }
    if !x.dtype().is_floating() {
        check_can_cast(float_of(x.dtype()), x.dtype())?;
    }
    let loss = formula::run(Op::soft_margin_loss, &[(0, x), (1, target)], &[])?;
    reduced(crate::ops::copy::to_dtype(&loss, x.dtype())?, reduction)
}

/// Both of one dtype and size, as operators want that walk them side by side.
fn check_alike(name: &str, x: &Tensor, others: &[&Tensor]) -> Result<DType> {
    let dtype = floats(name, &[x])?;
    for t in others {
        ensure_dtype!(
            t.dtype() == dtype,
            "{name}: found dtype {} but expected {}",
            t.dtype().torch_name(),
            dtype.torch_name()
        );
    }
    Ok(dtype)
}

/// Probabilities are within 0 and 1.
fn check_probabilities(x: &Tensor) -> Result<()> {
    if !x.storage().has_data() || x.numel() == 0 {
        return Ok(());
    }
    let not_below = pointwise::ge_scalar(x, 0.into())?;
    let not_above = pointwise::le_scalar(x, 1.into())?;
    let within = reduce::all(&pointwise::logical_and(&not_below, &not_above)?)?;
    if within.read_item()?.as_bool() {
        return Ok(());
    }
    Err(Error::runtime(NO_PROBABILITY))
}

pub(crate) const NO_PROBABILITY: &str = "all elements of input should be between 0 and 1";

pub(crate) fn binary_cross_entropy(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let name = "binary_cross_entropy";
    ensure_dtype!(
        target.dtype() == x.dtype(),
        "Found dtype {} but expected {}",
        target.dtype().torch_name(),
        x.dtype().torch_name()
    );
    let dtype = check_alike(name, x, &[target])?;
    check_probabilities(x)?;
    if let Some(w) = weight {
        pointwise::check_inplace_shape(x, w)?;
    }
    let mut operands = vec![(0, x), (1, target)];
    operands.extend(weight.map(|w| (2, w)));
    let call = Call::with_dtype(Op::binary_cross_entropy, &operands, &[], dtype);
    reduced(call.run()?, reduction)
}

/// Fresh memory in the layout of a tensor.
fn empty_as(x: &Tensor, dtype: DType) -> Result<Tensor> {
    pointwise::result(x.sizes().into(), dtype, &[x])
}

/// The number of elements that a loss is the mean of, if it is one: for [`Builder::share`].
///
/// [`Builder::share`]: straightline_passes::formula::Builder::share
fn mean_of(x: &Tensor, reduction: i64) -> Option<(&'static str, Attribute)> {
    (reduction == MEAN).then(|| ("mean_of", x.numel().into()))
}

pub(crate) fn binary_cross_entropy_backward(
    g: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let name = "binary_cross_entropy_backward";
    ensure_dtype!(
        target.dtype() == x.dtype(),
        "Found dtype {} but expected {}",
        x.dtype().torch_name(),
        target.dtype().torch_name()
    );
    let dtype = check_alike(name, x, &[g, target])?;
    let mut operands = vec![(0, g), (1, x), (2, target)];
    operands.extend(weight.map(|w| (3, w)));
    let attributes = mean_of(x, reduction);
    let op = Op::binary_cross_entropy_backward;
    Call::with_dtype(op, &operands, attributes.as_slice(), dtype).run_into(empty_as(x, dtype)?)
}

/// The derivative of a loss by its formula; row-major where it has the input's sizes.
fn backward(
    op: Op,
    operands: [&Tensor; 3],
    attributes: &[(&'static str, Attribute)],
) -> Result<Tensor> {
    let [g, x, target] = operands;
    let operands = [(0, g), (1, x), (2, target)];
    let call = Call::new(op, &operands, attributes)?;
    if broadcast(&[g, x, target])?.as_slice() != x.sizes() {
        return call.run();
    }
    call.run_into(Tensor::allocate_contiguous(call.dtype, x.device(), x.sizes())?)
}

/// The derivatives of losses, with the argument that gives them their shape.
fn backward_as(
    op: Op,
    operands: [&Tensor; 3],
    reduction: i64,
    shape: Option<(&'static str, f64)>,
) -> Result<Tensor> {
    let [g, x, target] = operands;
    check_can_cast(promote(&[g, x, target])?, x.dtype())?;
    let shape = shape.map(|(name, of)| (name, of.into()));
    let attributes: SmallVec<[_; 2]> = mean_of(x, reduction).into_iter().chain(shape).collect();
    crate::ops::copy::to_dtype(&backward(op, operands, &attributes)?, x.dtype())
}

pub(crate) fn mse_loss_backward(
    g: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    backward_as(Op::mse_loss_backward, [g, x, target], reduction, None)
}

pub(crate) fn smooth_l1_loss_backward(
    g: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    let op = Op::smooth_l1_loss_backward;
    backward_as(op, [g, x, target], reduction, Some(("beta", beta)))
}

pub(crate) fn huber_loss_backward(
    g: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    let dtype = floats("huber_loss_backward", &[g, x, target])?;
    if let Some(t) = [g, x, target].into_iter().find(|t| t.dtype() != dtype) {
        return Err(Error::dtype(format!(
            "Found dtype {} but expected {}",
            t.dtype().torch_name(),
            dtype.torch_name()
        )));
    }
    let op = Op::huber_loss_backward;
    backward_as(op, [g, x, target], reduction, Some(("delta", delta)))
}

pub(crate) fn soft_margin_loss_backward(
    g: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    ensure_not_implemented!(
        target.dtype() != DType::Bool,
        "Negation, the `-` operator, on a bool tensor is not supported."
    );
    if promote(&[x, target])?.is_complex() {
        let share = match reduction {
            MEAN => 1.0 / x.numel() as f64,
            _ => 1.0,
        };
        return complex_functions::soft_margin_backward(g, x, target, share.into());
    }
    check_can_cast(float_of(x.dtype()), x.dtype())?;
    let dtype = floats("soft_margin_loss_backward", &[x, target])?;
    let operands = [(0, g), (1, x), (2, target)];
    let attributes = mean_of(x, reduction);
    let op = Op::soft_margin_loss_backward;
    Call::with_dtype(op, &operands, attributes.as_slice(), dtype).run_laid_out(&[target, x, g])
}

fn one() -> Scalar {
    1.into()
}

/// `number - x`.
fn less(number: impl Into<Scalar>, x: &Tensor) -> Result<Tensor> {
    aten::rsub_scalar(x, number.into(), one())
}

pub(crate) fn binary_cross_entropy_with_logits(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let absent = less(1, target)?;
    // computed in place of what the target makes
    pointwise::check_inplace_shape(target, x)?;
    let dtype = target.dtype();
    check_can_cast(crate::ops::common::promote(&[x, target])?, dtype)?;
    let log = aten::log_sigmoid(x)?;
    let absent = aten::mul_tensor(&absent, x)?;
    let mut loss = match pos_weight {
        Some(p) => {
            let factor = aten::sub_scalar(p, 1.into(), one())?;
            let factor = aten::mul_tensor(&factor, target)?;
            let factor = aten::add_scalar(&factor, 1.into(), one())?;
            aten::sub_tensor(&absent, &aten::mul_tensor(&factor, &log)?, one())?
        }
        None => aten::sub_tensor(&absent, &log, one())?,
    };
    loss = aten::to_dtype(&loss, dtype, false, false, None)?;
    if let Some(w) = weight {
        pointwise::check_inplace_shape(&loss, w)?;
        loss = aten::mul_tensor(&loss, w)?;
    }
    reduced_composite(loss, reduction)
}

pub(crate) fn l1_loss(x: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    reduced_composite(aten::abs(&aten::sub_tensor(x, target, one())?)?, reduction)
}

pub(crate) fn kl_div(
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    log_target: bool,
) -> Result<Tensor> {
    for t in [x, target] {
        ensure!(t.dtype().is_floating(), "kl_div: Integral inputs not supported.");
    }
    let loss = if log_target {
        aten::mul_tensor(&aten::exp(target)?, &aten::sub_tensor(target, x, one())?)?
    } else {
        let entropy = aten::xlogy_tensor(target, target)?;
        aten::sub_tensor(&entropy, &aten::mul_tensor(target, x)?, one())?
    };
    reduced_composite(loss, reduction)
}

pub(crate) fn poisson_nll_loss(
    x: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: i64,
) -> Result<Tensor> {
    let mut loss = if log_input {
        aten::sub_tensor(&aten::exp(x)?, &aten::mul_tensor(target, x)?, one())?
    } else {
        let log = aten::log(&aten::add_scalar(x, eps.into(), one())?)?;
        aten::sub_tensor(x, &aten::mul_tensor(target, &log)?, one())?
    };
    if full {
        let stirling = aten::mul_tensor(target, &aten::log(target)?)?;
        let stirling = aten::sub_tensor(&stirling, target, one())?;
        let around = aten::mul_scalar(target, (2.0 * std::f64::consts::PI).into())?;
        let around = aten::mul_scalar(&aten::log(&around)?, 0.5.into())?;
        let stirling = aten::add_tensor(&stirling, &around, one())?;
        let small = aten::le_scalar(target, one())?;
        let stirling = aten::masked_fill_scalar(&stirling, &small, 0.into())?;
        loss = aten::add_tensor(&loss, &stirling, one())?;
    }
    reduced_composite(loss, reduction)
}

/// `x` where the condition holds, else 0.
fn or_zero(condition: &Tensor, x: &Tensor) -> Result<Tensor> {
    let zeros = aten::zeros_like(x, None, None, None, None, None)?;
    aten::where_self(condition, x, &zeros)
}

pub(crate) fn hinge_embedding_loss(
    x: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    let zeros = aten::zeros_like(x, None, None, None, None, None)?;
    // a whole number keeps integers what they are
    let distance = less(whole(margin, x), x)?;
    let distance = aten::clamp_min(&distance, 0.into())?;
    let far = aten::where_self(&aten::ne_scalar(target, one())?, &distance, &zeros)?;
    let near = aten::where_self(&aten::ne_scalar(target, (-1).into())?, x, &zeros)?;
    reduced_composite(aten::add_tensor(&far, &near, one())?, reduction)
}

/// A number as one of the tensor's dtype.
fn whole(number: f64, x: &Tensor) -> Scalar {
    match x.dtype() {
        d if d.is_integral() => Scalar::Int(number as i64),
        _ => number.into(),
    }
}

pub(crate) fn margin_ranking_loss(
    a: &Tensor,
    b: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    let d = aten::sub_tensor(a, b, one())?;
    let d = aten::mul_tensor(&aten::neg(target)?, &d)?;
    let d = aten::add_scalar(&d, margin.into(), one())?;
    reduced_composite(aten::clamp_min(&d, 0.into())?, reduction)
}

pub(crate) fn cosine_embedding_loss(
    a: &Tensor,
    b: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    let rank = target.dim();
    ensure_shape!(rank <= 1, "0D or 1D target tensor expected, multi-target not supported");
    ensure_shape!(
        a.dim() == rank + 1 && b.dim() == rank + 1,
        "{rank}D target tensor expects {}D input tensors, but found inputs with sizes {:?} and {:?}.",
        rank + 1,
        a.sizes(),
        b.sizes()
    );
    let last = [rank as i64];
    let along = |x: &Tensor, y: &Tensor| {
        aten::sum_dim_int_list(&aten::mul_tensor(x, y)?, Some(&last), false, None)
    };
    let product = along(a, b)?;
    let size = |x: &Tensor| aten::add_scalar(&along(x, x)?, 1e-12.into(), one());
    let denominator = aten::sqrt(&aten::mul_tensor(&size(a)?, &size(b)?)?)?;
    let cosine = aten::div_tensor(&product, &denominator)?;
    let together = less(1, &cosine)?;
    let apart = aten::sub_scalar(&cosine, margin.into(), one())?;
    let apart = aten::clamp_min(&apart, 0.into())?;
    let together = or_zero(&aten::eq_scalar(target, one())?, &together)?;
    let apart = or_zero(&aten::eq_scalar(target, (-1).into())?, &apart)?;
    reduced_composite(aten::add_tensor(&together, &apart, one())?, reduction)
}

/// The p-norm of `a - b + eps` along the last dimension.
fn distance(a: &Tensor, b: &Tensor, p: f64, eps: f64) -> Result<Tensor> {
    let d = aten::sub_tensor(a, b, one())?;
    let d = aten::abs(&aten::add_scalar(&d, eps.into(), one())?)?;
    // of halves, the norm is computed in the wider type and rounded once
    let dtype = d.dtype();
    let d = aten::to_dtype(&d, dtype.opmath(), false, false, None)?;
    aten::to_dtype(&norm(&d, p)?, dtype, false, false, None)
}

/// The p-norm of non-negative numbers along the last dimension.
fn norm(d: &Tensor, p: f64) -> Result<Tensor> {
    let last: &[i64] = if d.dim() == 0 { &[] } else { &[-1] };
    if p == f64::INFINITY {
        return aten::amax(d, last, false);
    }
    let sum = |x: &Tensor| aten::sum_dim_int_list(x, Some(last), false, None);
    if p == 0.0 {
        let present = aten::ne_scalar(d, 0.into())?;
        return sum(&aten::to_dtype(&present, d.dtype(), false, false, None)?);
    }
    if p == 1.0 {
        return sum(d);
    }
    if p == 2.0 {
        return aten::sqrt(&sum(&aten::mul_tensor(d, d)?)?);
    }
    let powers = aten::pow_tensor_scalar(d, p.into())?;
    aten::pow_tensor_scalar(&sum(&powers)?, (1.0 / p).into())
}

#[allow(clippy::too_many_arguments, reason = "PyTorch's signature")]
pub(crate) fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: i64,
) -> Result<Tensor> {
    let (a, b, c) = (anchor.dim(), positive.dim(), negative.dim());
    ensure_shape!(
        a == b && b == c,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, \
             but got: anchor {a}D, positive {b}D, and negative {c}D inputs"
    );
    let near = distance(anchor, positive, p, eps)?;
    let mut far = distance(anchor, negative, p, eps)?;
    if swap {
        let other = distance(positive, negative, p, eps)?;
        far = aten::minimum(&far, &other)?;
    }
    let d = aten::sub_tensor(&aten::add_scalar(&near, margin.into(), one())?, &far, one())?;
    reduced_composite(aten::clamp_min(&d, 0.into())?, reduction)
}
