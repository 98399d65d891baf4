//! Margin losses over classes: one class per sample, or several.

use crate::error::{Error, Result};
use crate::ops::by_dtype::{check_kernel, with_float};
use crate::ops::copy::to_aligned;
use crate::ops::nn::class_loss::reduction_or_sum;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Scalar};
use straightline_runtime::cpu::kernels::KernelError;
use straightline_runtime::cpu::kernels::class_loss::{
    Incoming, MultiMargin, Reduction, mark_targets, multilabel_margin, multilabel_margin_backward,
};
use straightline_runtime::cpu::kernels::real::Real;

fn out_of_range(e: KernelError) -> Error {
    match e {
        KernelError::IndexOutOfRange { .. } => Error::runtime("target out of range"),
        other => other.into(),
    }
}

fn same_dtype(x: &Tensor, other: &Tensor) -> Result<()> {
    ensure_dtype!(
        x.dtype() == other.dtype(),
        "expected scalar type {} but found {}",
        x.dtype(),
        other.dtype()
    );
    Ok(())
}

fn is_long(target: &Tensor) -> Result<()> {
    ensure_dtype!(
        target.dtype() == DType::I64,
        "expected scalar type Long but found {}",
        target.dtype()
    );
    Ok(())
}

/// Samples and classes of a matrix, a vector (one sample) or a number.
fn frames(x: &Tensor) -> (i64, i64) {
    match x.sizes() {
        [n, c] => (*n, *c),
        [c] => (1, *c),
        _ => (1, 1),
    }
}

fn check_margin(
    x: &Tensor,
    target: &Tensor,
    p: Scalar,
    weight: Option<&Tensor>,
) -> Result<(i64, i64)> {
    let xs = x.sizes();
    ensure!(
        xs.len() <= 2 && xs.last() != Some(&0),
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {xs:?}"
    );
    let (n, c) = frames(x);
    ensure!(
        target.dim() <= 1 && target.numel() == n,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [{n}], but got {:?}. Input has shape {xs:?}.",
        target.sizes()
    );
    if let Some(w) = weight {
        ensure!(
            w.dim() <= 1 && w.numel() == c,
            "multi_margin_loss: weight tensor should be 1-D tensor with size equal to the number of classes: {c}, but got {:?}",
            w.sizes()
        );
        check_kernel("multi_margin_loss_cpu_kernel", x)?;
        same_dtype(x, w)?;
    }
    ensure!(matches!(p.as_f64(), 1.0 | 2.0), "only p == 1 and p == 2 supported");
    check_kernel("multi_margin_loss_cpu_kernel", x)?;
    is_long(target)?;
    Ok((n, c))
}

pub(crate) fn multi_margin_loss(
    x: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    red: i64,
) -> Result<Tensor> {
    let (n, c) = check_margin(x, target, p, weight)?;
    let red = reduction_or_sum(red);
    let each = red == Reduction::None && target.dim() > 0;
    let sizes: &[i64] = if each { &[n] } else { &[] };
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), sizes)?;
    let (x, target) = (to_aligned(x)?, to_aligned(target)?);
    let weight = weight.map(to_aligned).transpose()?;
    launch::run(&mut out, ([&x, &target], weight.as_ref()), |out, ([x, target], weight)| {
        with_float!(x.dtype(), "multi_margin_loss_cpu_kernel", T => {
            let (x, out, target, weight) = (
                    x.slice::<T>()?,
                    out.slice::<T>()?,
                    target.slice::<i64>()?,
                    weight.map(|w| w.slice::<T>()).transpose()?,
                );
            let loss = MultiMargin {
                target,
                weight,
                squared: p.as_f64() == 2.0,
                margin: margin.as_f64(),
                classes: c as usize,
            };
            let mut sum = 0.0;
            loss.each(x, |i, term| {
                if each {
                    out[i] = T::narrow(term);
                }
                sum += term;
            })
            .map_err(out_of_range)?;
            if !each {
                // the mean of no samples is 0 here
                let count = if red == Reduction::Mean { n.max(1) } else { 1 };
                out[0] = T::narrow(sum / count as f64);
            }
            Ok::<(), Error>(())
        })
    })?;
    Ok(out)
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn multi_margin_loss_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    red: i64,
) -> Result<Tensor> {
    let (n, c) = check_margin(x, target, p, weight)?;
    let red = reduction_or_sum(red);
    same_dtype(x, grad)?;
    let each = red == Reduction::None && grad.dim() > 0;
    if grad.numel() != if each { n } else { 1 } {
        return Err(Error::runtime(format!(
            "multi_margin_loss: inconsistent grad_output of sizes {:?} for {n} samples",
            grad.sizes()
        )));
    }
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    let (grad, x, target) = (to_aligned(grad)?, to_aligned(x)?, to_aligned(target)?);
    let weight = weight.map(to_aligned).transpose()?;
    launch::run(
        &mut out,
        ([&grad, &x, &target], weight.as_ref()),
        |out, ([grad, x, target], weight)| {
            with_float!(x.dtype(), "multi_margin_loss_backward_cpu_kernel", T => {
                let (grad, x, out, target, weight) = (
                        grad.slice::<T>()?,
                        x.slice::<T>()?,
                        out.slice::<T>()?,
                        target.slice::<i64>()?,
                        weight.map(|w| w.slice::<T>()).transpose()?,
                    );
                let loss = MultiMargin {
                    target,
                    weight,
                    squared: p.as_f64() == 2.0,
                    margin: margin.as_f64(),
                    classes: c as usize,
                };
                let incoming = if each {
                    Incoming::Each(grad)
                } else {
                    Incoming::All(grad[0].wide())
                };
                let scale = if red == Reduction::Mean { n as f64 } else { 1.0 };
                loss.backward(x, incoming, scale, out).map_err(out_of_range)
            })
        },
    )?;
    Ok(out)
}

fn check_multilabel(x: &Tensor, target: &Tensor) -> Result<(i64, i64)> {
    let xs = x.sizes();
    ensure!(
        xs.len() <= 2 && xs.last() != Some(&0),
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {xs:?}"
    );
    let fits = match xs {
        [_, _] => target.sizes() == xs,
        _ => target.dim() <= 1 && target.numel() == x.numel(),
    };
    ensure!(fits, "inconsistent target size: {:?} for input of size: {xs:?}", target.sizes());
    check_kernel("multilabel_margin_loss_forward_out_frame", x)?;
    is_long(target)?;
    Ok(frames(x))
}

fn bad_label(e: KernelError) -> Error {
    match e {
        KernelError::IndexOutOfRange { .. } => {
            Error::runtime("argument #2 'target' is out of range")
        }
        other => other.into(),
    }
}

/// The loss, and which classes are targets.
pub(crate) fn multilabel_margin_loss_forward(
    x: &Tensor,
    target: &Tensor,
    red: i64,
) -> Result<(Tensor, Tensor)> {
    let (n, c) = check_multilabel(x, target)?;
    let red = reduction_or_sum(red);
    let each = red == Reduction::None && target.dim() > 1;
    let sizes: &[i64] = if each { &[n] } else { &[] };
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), sizes)?;
    let mut marks = Tensor::allocate_contiguous(x.dtype(), x.device(), target.sizes())?;
    let (x, target) = (to_aligned(x)?, to_aligned(target)?);
    launch::run([&mut out, &mut marks], [&x, &target], |[out, marks], [x, target]| {
        with_float!(x.dtype(), "multilabel_margin_loss_forward_out_frame", T => {
            let (x, target, out, marks) = (
                    x.slice::<T>()?,
                    target.slice::<i64>()?,
                    out.slice::<T>()?,
                    marks.slice::<T>()?,
                );
            ensure!(target.iter().all(|t| *t >= -1), "argument #2 'target' is out of range");
            let c = c as usize;
            let mut sum = 0.0;
            #[allow(clippy::needless_range_loop, reason = "rows of several buffers, and perhaps an element of out")]
            for i in 0..n as usize {
                let row = i * c..(i + 1) * c;
                mark_targets(&target[row.clone()], &mut marks[row.clone()]).map_err(bad_label)?;
                let term = multilabel_margin(&x[row.clone()], &target[row.clone()], &marks[row]);
                if each {
                    out[i] = T::narrow(term);
                }
                sum += term;
            }
            if !each {
                let count = if red == Reduction::Mean { n.max(1) } else { 1 };
                out[0] = T::narrow(sum / count as f64);
            }
            Ok(())
        })
    })?;
    Ok((out, marks))
}

pub(crate) fn multilabel_margin_loss_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    red: i64,
    marks: &Tensor,
) -> Result<Tensor> {
    let (n, c) = check_multilabel(x, target)?;
    let red = reduction_or_sum(red);
    same_dtype(x, grad)?;
    same_dtype(x, marks)?;
    let each = red == Reduction::None && grad.dim() > 0;
    if grad.numel() != if each { n } else { 1 } || marks.numel() != target.numel() {
        return Err(Error::runtime(format!(
            "multilabel_margin_loss: inconsistent sizes {:?} of grad_output or {:?} of is_target",
            grad.sizes(),
            marks.sizes()
        )));
    }
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    let (grad, x, target, marks) =
        (to_aligned(grad)?, to_aligned(x)?, to_aligned(target)?, to_aligned(marks)?);
    launch::run(&mut out, [&grad, &x, &target, &marks], |out, [grad, x, target, marks]| {
        with_float!(x.dtype(), "multilabel_margin_loss_backward_out_frame", T => {
            let (grad, x, target, marks, out) = (
                    grad.slice::<T>()?,
                    x.slice::<T>()?,
                    target.slice::<i64>()?,
                    marks.slice::<T>()?,
                    out.slice::<T>()?,
                );
            let scale = if red == Reduction::Mean { n as f64 } else { 1.0 };
            for i in 0..n as usize {
                let row = i * c as usize..(i + 1) * c as usize;
                let g = grad[if each { i } else { 0 }].wide() / scale;
                multilabel_margin_backward(
                    &x[row.clone()],
                    &target[row.clone()],
                    &marks[row.clone()],
                    g,
                    &mut out[row],
                )
                .map_err(bad_label)?;
            }
            Ok::<(), Error>(())
        })
    })?;
    Ok(out)
}
