//! Connectionist temporal classification: the loss of sequences whose alignment is not known.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::needs_data;
use crate::ops::copy;
use crate::ops::pointwise::special::unsupported;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Scalar};
use straightline_runtime::cpu::kernels::bins as kernels;

/// A call's sizes, after all checks.
struct Sizes {
    steps: i64,
    batch: i64,
    classes: i64,
    /// Of the parts that a loss adds up from: twice the longest target and one.
    width: i64,
}

fn check(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
) -> Result<Sizes> {
    let refuse = |text: String| Err(Error::runtime(format!("ctc_loss: {text}")));
    let [steps, batch, classes] = *log_probs.sizes() else {
        return refuse(format!(
            "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs'",
            log_probs.dim()
        ));
    };
    ensure!(log_probs.numel() != 0, "log_probs tensor must not be empty");
    ensure!((0..classes).contains(&blank), "blank must be in label range");
    ensure!(input_lengths.len() as i64 == batch, "input_lengths must be of size batch_size");
    ensure!(target_lengths.len() as i64 == batch, "target_lengths must be of size batch_size");
    if !matches!(log_probs.dtype(), DType::F32 | DType::F64) {
        return Err(unsupported("ctc_loss_cpu", log_probs.dtype()));
    }
    if !matches!(targets.dtype(), DType::I64 | DType::I32) {
        return refuse(format!(
            "Expected labels of type int64 or int32, but got {}",
            targets.dtype().torch_name()
        ));
    }
    if let Some(n) = target_lengths.iter().find(|n| **n < 0) {
        return refuse(format!(
            "Expected target_lengths to have value at least 0, but got value {n}"
        ));
    }
    if let Some(n) = input_lengths.iter().find(|n| **n < 0 || **n > steps) {
        return refuse(format!(
            "Expected input_lengths to have value at least 0 and at most {steps}, but got value {n}"
        ));
    }
    let longest = target_lengths.iter().copied().max().unwrap_or(0);
    let total = target_lengths.iter().fold(0i64, |a, b| a.saturating_add(*b));
    match *targets.sizes() {
        [n] if n == total => {}
        [n, m] if n == batch && m >= longest => {}
        _ => {
            return refuse(format!(
                "Expected {total} labels, or {batch} rows of at least {longest}, but got sizes {:?}",
                targets.sizes()
            ));
        }
    }
    let width = longest.saturating_mul(2).saturating_add(1);
    Ok(Sizes { steps, batch, classes, width })
}

/// The labels of each sequence.
fn labels_of(targets: &Tensor, target_lengths: &[i64], classes: usize) -> Result<Vec<Vec<usize>>> {
    let labels = copy::to_dtype(targets, DType::I64)?.to_vec::<i64>()?;
    let mut begin = 0;
    (target_lengths.iter().enumerate())
        .map(|(i, n)| {
            if let [_, columns] = *targets.sizes() {
                begin = i * columns as usize;
            }
            let own = begin..begin + *n as usize;
            begin = own.end;
            let known = |l: &i64| match usize::try_from(*l) {
                Ok(l) if l < classes => Ok(l),
                _ => Err(Error::runtime(format!(
                    "ctc_loss: the label {l} is not within 0..{classes}"
                ))),
            };
            labels[own].iter().map(known).collect()
        })
        .collect()
}

/// A row of steps for each sequence, in the dtype of computation.
fn by_batch(t: &Tensor) -> Result<Tensor> {
    let t = crate::ops::view::transpose(t, 0, 1)?;
    copy::clone_contiguous(&copy::to_dtype(&t, DType::F64)?)
}

/// The negative logarithms of the probabilities, and the parts that they add up from.
pub(crate) fn forward(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    _zero_infinity: bool,
) -> Result<(Tensor, Tensor)> {
    let Sizes { steps, batch, classes, width } =
        check(log_probs, targets, input_lengths, target_lengths, blank)?;
    let device = log_probs.device();
    let mut loss = Tensor::allocate_contiguous(DType::F64, device, &[batch])?;
    let mut alpha = Tensor::allocate_contiguous(DType::F64, device, &[batch, steps, width])?;
    if loss.storage().has_data() {
        copy::fill_(&alpha, Scalar::Float(f64::NEG_INFINITY))?;
        let x = by_batch(log_probs)?;
        let labels = labels_of(targets, target_lengths, classes as usize)?;
        launch::run([&mut loss, &mut alpha], &x, |[loss, alpha], x| {
            let (x, loss, alpha) = (x.slice::<f64>()?, loss.slice::<f64>()?, alpha.slice::<f64>()?);
            let (steps, classes, width) = (steps as usize, classes as usize, width as usize);
            let (row, part) = (steps * classes, steps * width);
            for (i, loss) in loss.iter_mut().enumerate() {
                *loss = kernels::ctc(
                    &x[i * row..(i + 1) * row],
                    classes,
                    input_lengths[i] as usize,
                    &labels[i],
                    blank as usize,
                    &mut alpha[i * part..(i + 1) * part],
                    width,
                );
            }
            Ok::<(), Error>(())
        })?;
    }
    let of_dtype = |t: &Tensor| copy::to_dtype(t, log_probs.dtype());
    Ok((of_dtype(&loss)?, of_dtype(&alpha)?))
}

/// The gradient with respect to the logarithms of probabilities, which are taken for a log-softmax.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn backward(
    grad: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    loss: &Tensor,
    alpha: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let Sizes { steps, batch, classes, width } =
        check(log_probs, targets, input_lengths, target_lengths, blank)?;
    ensure_shape!(
        grad.sizes() == [batch]
            && loss.sizes() == [batch]
            && alpha.sizes() == [batch, steps, width],
        "ctc_loss_backward: gradients of sizes {:?}, losses of {:?} and log_alpha of {:?} do not belong to a batch of {batch} with {steps} steps and {width} parts",
        grad.sizes(),
        loss.sizes(),
        alpha.sizes()
    );
    let mut out = Tensor::allocate_contiguous(DType::F64, grad.device(), &[batch, steps, classes])?;
    if out.storage().has_data() {
        copy::fill_(&out, Scalar::Int(0))?;
        let x = by_batch(log_probs)?;
        let plain = |t: &Tensor| copy::to_contiguous(&copy::to_dtype(t, DType::F64)?);
        let (grad, loss, alpha) = (plain(grad)?, plain(loss)?, plain(alpha)?);
        let labels = labels_of(targets, target_lengths, classes as usize)?;
        launch::run(&mut out, [&x, &grad, &loss, &alpha], |out, ins| {
            let [x, grad, loss, alpha] = ins;
            let (x, grad) = (x.slice::<f64>()?, grad.slice::<f64>()?);
            let (loss, alpha) = (loss.slice::<f64>()?, alpha.slice::<f64>()?);
            let out = out.slice::<f64>()?;
            let (steps, classes, width) = (steps as usize, classes as usize, width as usize);
            let (row, part) = (steps * classes, steps * width);
            for (i, labels) in labels.iter().enumerate() {
                if zero_infinity && loss[i] == f64::INFINITY {
                    continue;
                }
                let taken = input_lengths[i] as usize * classes;
                kernels::ctc_gradient(
                    &x[i * row..(i + 1) * row],
                    classes,
                    labels,
                    blank as usize,
                    &alpha[i * part..(i + 1) * part],
                    width,
                    (loss[i], grad[i]),
                    &mut out[i * row..i * row + taken],
                );
            }
            Ok::<(), Error>(())
        })?;
    }
    let by_step = crate::ops::view::transpose(&out, 0, 1)?;
    copy::to_contiguous(&copy::to_dtype(&by_step, log_probs.dtype())?)
}

/// Lengths out of tensors of integers.
fn lengths(t: &Tensor, name: &str) -> Result<Vec<i64>> {
    ensure!(t.dtype().is_integral(), "{name} must be integral");
    needs_data("_ctc_loss", t)?;
    copy::to_dtype(t, DType::I64)?.to_vec::<i64>()
}

pub(crate) fn forward_tensors(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<(Tensor, Tensor)> {
    let input_lengths = lengths(input_lengths, "input_lengths")?;
    let target_lengths = lengths(target_lengths, "target_lengths")?;
    forward(log_probs, targets, &input_lengths, &target_lengths, blank, zero_infinity)
}

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn backward_tensors(
    grad: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    loss: &Tensor,
    alpha: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let input_lengths = lengths(input_lengths, "input_lengths")?;
    let target_lengths = lengths(target_lengths, "target_lengths")?;
    backward(
        grad,
        log_probs,
        targets,
        &input_lengths,
        &target_lengths,
        loss,
        alpha,
        blank,
        zero_infinity,
    )
}

/// With a batch, which a single sequence is made one of.
fn batched(log_probs: &Tensor) -> Result<(Tensor, bool)> {
    match log_probs.dim() {
        3 => Ok((log_probs.clone(), true)),
        _ => Ok((aten::unsqueeze(log_probs, 1)?, false)),
    }
}

/// Mean of the losses by label, sum, or each; infinite ones are 0 where `zero_infinity`.
fn reduced(
    loss: Tensor,
    target_lengths: &Tensor,
    reduction: i64,
    zero_infinity: bool,
    batched: bool,
) -> Result<Tensor> {
    let loss = match zero_infinity {
        true => {
            let infinite = aten::eq_scalar(&loss, Scalar::Float(f64::INFINITY))?;
            aten::masked_fill_scalar(&loss, &infinite, Scalar::Float(0.0))?
        }
        false => loss,
    };
    match reduction {
        1 => {
            let lengths = aten::to_dtype(target_lengths, loss.dtype(), false, false, None)?;
            let lengths = aten::clamp_min(&lengths, Scalar::Int(1))?;
            aten::mean(&aten::div_tensor(&loss, &lengths)?, None)
        }
        2 => aten::sum(&loss, None),
        _ if batched => Ok(loss),
        _ => aten::squeeze_dim(&loss, 0),
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    reduction: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let (x, many) = batched(log_probs)?;
    let targets = aten::to_dtype(targets, DType::I64, false, false, None)?;
    let (losses, _) =
        aten::_ctc_loss(&x, &targets, input_lengths, target_lengths, blank, zero_infinity)?;
    let lengths = Tensor::from_vec(target_lengths, -1)?;
    reduced(losses, &lengths, reduction, zero_infinity, many)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn loss_tensors(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    blank: i64,
    reduction: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let (x, many) = batched(log_probs)?;
    let targets = aten::to_dtype(targets, DType::I64, false, false, None)?;
    let (losses, _) =
        aten::_ctc_loss_tensor(&x, &targets, input_lengths, target_lengths, blank, zero_infinity)?;
    reduced(losses, target_lengths, reduction, zero_infinity, many)
}
