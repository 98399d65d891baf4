//! Losses over classes: negative log likelihood, cross entropy, multi-class margins.

use crate::error::{Error, ErrorKind, Result};
use crate::ops::aten;
use crate::ops::by_dtype::with_float;
use crate::ops::copy;
use crate::ops::copy::to_aligned;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::KernelError;
use straightline_runtime::cpu::kernels::class_loss::{Incoming, Nll, Reduction};

/// The reduction that a schema's number means.
pub(crate) fn reduction(number: i64) -> Result<Reduction> {
    match number {
        0 => Ok(Reduction::None),
        1 => Ok(Reduction::Mean),
        2 => Ok(Reduction::Sum),
        _ => Err(Error::value(format!(
            "{number} is not a valid value for reduction: 0 (none), 1 (mean) and 2 (sum) are"
        ))),
    }
}

/// The same where PyTorch's kernels look for no reduction and for the mean, and take any other
/// number for the sum.
pub(crate) fn reduction_or_sum(number: i64) -> Reduction {
    reduction(number).unwrap_or(Reduction::Sum)
}

pub(crate) fn out_of_bounds(e: KernelError) -> Error {
    match e {
        KernelError::IndexOutOfRange { index, .. } => {
            Error::index(format!("Target {index} is out of bounds."))
        }
        other => other.into(),
    }
}

/// What the four kernels check alike, and the numbers of classes and of samples side by side.
fn check(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    spatial: bool,
) -> Result<(i64, i64)> {
    let (xs, ts) = (x.sizes(), target.sizes());
    let (classes, inner) = if spatial {
        ensure!(
            ts.len() == 3,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
            ts.len()
        );
        ensure!(
            xs.len() == 4,
            "only batches of spatial inputs supported (4D tensors), but got input of dimension: {}",
            xs.len()
        );
        ensure!(
            xs[0] == ts[0] && xs[2..] == ts[1..],
            "size mismatch (got input: {xs:?} , target: {ts:?}"
        );
        (xs[1], ts[1] * ts[2])
    } else {
        ensure!(!xs.is_empty() && xs.len() <= 2, "input tensor should be 1D or 2D");
        ensure!(ts.len() <= 1, "0D or 1D target tensor expected, multi-target not supported");
        ensure_value!(
            xs.len() != 1 || ts.len() != 1 || ts[0] == 1,
            "For 1D input, 1D target must have size 1, but got target size: {}",
            ts[0]
        );
        ensure_index!(
            xs.len() != 2 || !ts.is_empty(),
            "Dimension specified as 0 but tensor has no dimensions"
        );
        ensure!(
            xs.len() != 2 || ts.first() == Some(&xs[0]),
            "size mismatch (got input: {xs:?}, target: {ts:?})"
        );
        (xs[xs.len() - 1], 1)
    };
    if let Some(w) = weight {
        ensure!(
            w.dim() == 1 && w.numel() == classes,
            "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {:?}",
            w.sizes()
        );
        ensure_dtype!(
            w.dtype() == x.dtype() || !x.dtype().is_floating(),
            "expected scalar type {} but found {}",
            x.dtype(),
            w.dtype()
        );
    }
    ensure_dtype!(
        matches!(target.dtype(), DType::I64 | DType::U8),
        "expected target dtype to be Long or Byte, but got {}",
        target.dtype()
    );
    ensure_not_implemented!(
        x.dtype().is_floating(),
        "\"nll_loss_out_frame\" not implemented for '{}'",
        x.dtype()
    );
    Ok((classes, inner))
}

fn nll_forward(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
    spatial: bool,
) -> Result<(Tensor, Tensor)> {
    let (classes, inner) = check(x, target, weight, spatial)?;
    let red = reduction_or_sum(red);
    let each = red == Reduction::None && x.dim() > 1;
    let sizes: &[i64] = if each { target.sizes() } else { &[] };
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), sizes)?;
    let mut total = Tensor::allocate_contiguous(x.dtype(), x.device(), &[])?;
    let x = to_aligned(x)?;
    let target = to_aligned(&copy::to_dtype(target, DType::I64)?)?;
    let weight = weight.map(to_aligned).transpose()?;
    launch::run(
        [&mut out, &mut total],
        ([&x, &target], weight.as_ref()),
        |[out, total], ([x, target], weight)| {
            with_float!(x.dtype(), "nll_loss_out_frame", T => {
        let (scores, nll, out, total) = (
                x.slice::<T>()?,
                Nll {
                    target: target.slice::<i64>()?,
                    weight: weight.map(|w| w.slice::<T>()).transpose()?,
                    ignore,
                    classes: classes as usize,
                    inner: inner as usize,
                },
                out.slice::<T>()?,
                total.slice::<T>()?,
            );
        let narrow = <T as straightline_runtime::cpu::kernels::real::Real>::narrow;
        total[0] = narrow(0.0);
        if each {
            nll.each(scores, out).map_err(out_of_bounds)
        } else {
            let (loss, sum) = nll.total(scores).map_err(out_of_bounds)?;
            out[0] = narrow(if red == Reduction::Mean { loss / sum } else { loss });
            total[0] = narrow(sum);
            Ok(())
        }
    }; half)
        },
    )?;
    Ok((out, total))
}

pub(crate) fn nll_loss_forward(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
) -> Result<(Tensor, Tensor)> {
    nll_forward(x, target, weight, red, ignore, false)
}

pub(crate) fn nll_loss2d_forward(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
) -> Result<(Tensor, Tensor)> {
    nll_forward(x, target, weight, red, ignore, true)
}

#[allow(clippy::too_many_arguments)] // the schema's own
fn nll_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
    total: &Tensor,
    spatial: bool,
) -> Result<Tensor> {
    let (classes, inner) = check(x, target, weight, spatial)?;
    let red = reduction_or_sum(red);
    let each = red == Reduction::None && x.dim() > 1;
    ensure!(
        total.numel() == 1,
        "expected total_weight to be a single element tensor, got: {:?} ({} elements)",
        total.sizes(),
        total.numel()
    );
    ensure!(
        !each || grad.sizes() == target.sizes(),
        "grad_output must have same dimension as target ({:?}) but got: {:?}",
        target.sizes(),
        grad.sizes()
    );
    ensure!(
        each || grad.dim() <= 1 && grad.numel() == 1,
        "Expected a single element grad_output tensor, but got: {:?}",
        grad.sizes()
    );
    for t in [grad, total] {
        ensure_dtype!(
            t.dtype() == x.dtype(),
            "expected scalar type {} but found {}",
            x.dtype(),
            t.dtype()
        );
    }
    // PyTorch's gradient has the strides of its input, and its kernel wants none but row-major ones
    let strides = layout::preserved_strides(x.sizes(), x.strides());
    ensure!(
        !spatial || layout::is_contiguous(x.sizes(), &strides),
        "grad_input must be contiguous"
    );
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    let (grad, total) = (to_aligned(grad)?, to_aligned(total)?);
    let target = to_aligned(&copy::to_dtype(target, DType::I64)?)?;
    let weight = weight.map(to_aligned).transpose()?;
    launch::run(
        &mut out,
        ([&grad, &target, &total], weight.as_ref()),
        |out, ([grad, target, total], weight)| {
            with_float!(x.dtype(), "nll_loss_backward_out_frame", T => {
        let (grad, nll, total, out) = (
                grad.slice::<T>()?,
                Nll {
                    target: target.slice::<i64>()?,
                    weight: weight.map(|w| w.slice::<T>()).transpose()?,
                    ignore,
                    classes: classes as usize,
                    inner: inner as usize,
                },
                total.slice::<T>()?,
                out.slice::<T>()?,
            );
        use straightline_runtime::cpu::kernels::real::Real;
        let incoming = match red {
            _ if each => Incoming::Each(grad),
            Reduction::Mean => Incoming::All(grad[0].wide() / total[0].wide()),
            _ => Incoming::All(grad[0].wide()),
        };
        nll.backward(incoming, out).map_err(out_of_bounds)
    }; half)
        },
    )?;
    Ok(out)
}

pub(crate) fn nll_loss_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
    total: &Tensor,
) -> Result<Tensor> {
    nll_backward(grad, x, target, weight, red, ignore, total, false)
}

pub(crate) fn nll_loss2d_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
    total: &Tensor,
) -> Result<Tensor> {
    nll_backward(grad, x, target, weight, red, ignore, total, true)
}

// ---- composites: through the dispatcher --------------------------------------------------------

/// Any number of dimensions, the classes in the second.
pub(crate) fn nll_loss_nd(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
) -> Result<Tensor> {
    let (xs, ts) = (x.sizes(), target.sizes());
    ensure_value!(!xs.is_empty(), "Expected 1 or more dimensions (got 0)");
    ensure_value!(
        xs.len() == 1 || ts.first() == Some(&xs[0]),
        "Expected input batch_size ({}) to match target batch_size ({}).",
        xs[0],
        ts.first().copied().unwrap_or(1)
    );
    match xs.len() {
        1 | 2 => aten::nll_loss(x, target, weight, red, ignore),
        4 => aten::nll_loss2d(x, target, weight, red, ignore),
        _ => {
            let (n, c) = (xs[0], xs[1]);
            ensure_shape!(
                ts[1..] == xs[2..],
                "Expected target size {:?}, got {ts:?}",
                [&xs[..1], &xs[2..]].concat()
            );
            let inner: i64 = xs[2..].iter().product();
            let x = aten::reshape(x, &[n, c, 1, inner])?;
            let flat = aten::reshape(target, &[n, 1, inner])?;
            let out = aten::nll_loss2d(&x, &flat, weight, red, ignore)?;
            if red == 0 { aten::view(&out, ts) } else { Ok(out) }
        }
    }
}

fn check_smoothing(smoothing: f64) -> Result<()> {
    if smoothing > 1.0 {
        return Err(Error::runtime(format!(
            "label_smoothing must be between 0.0 and 1.0. Got: {smoothing}"
        )));
    }
    Ok(())
}

/// A weight per class as a factor of a tensor with the classes in its second dimension.
fn class_weights(weight: &Tensor, rank: usize) -> Result<Tensor> {
    if rank <= 1 {
        return Ok(weight.clone());
    }
    let mut sizes = Dims::from_elem(1, rank);
    sizes[1] = weight.numel();
    aten::view(weight, &sizes)
}

/// Cross entropy of logits with class numbers or, where the sizes are those of the logits,
/// probabilities.
pub(crate) fn cross_entropy_loss(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    ignore: i64,
    smoothing: f64,
) -> Result<Tensor> {
    let dim = if x.dim() == 1 { 0 } else { 1 };
    if x.sizes() == target.sizes() {
        if !target.dtype().is_floating() {
            return Err(Error::new(ErrorKind::Runtime(format!(
                "Expected floating point type for target with class probabilities, got {}",
                target.dtype()
            ))));
        }
        ensure!(ignore < 0, "ignore_index is not supported for floating point target");
        return with_probabilities(x, target, weight, red, smoothing, dim);
    }
    let scores = aten::log_softmax_int(x, dim, Some(x.dtype()))?;
    if smoothing <= 0.0 {
        return aten::nll_loss_nd(&scores, target, weight, red, ignore);
    }
    check_smoothing(smoothing)?;
    let nll = aten::nll_loss_nd(&scores, target, weight, red, ignore)?;
    let weighted = match weight {
        Some(w) => aten::mul_tensor(&scores, &class_weights(w, x.dim())?)?,
        None => scores,
    };
    let smooth = aten::neg(&aten::sum_dim_int_list(&weighted, Some(&[dim]), false, None)?)?;
    let ignored = aten::eq_scalar(target, Scalar::Int(ignore))?;
    let smooth = aten::masked_fill_scalar(&smooth, &ignored, Scalar::Float(0.0))?;
    let smooth = match reduction(red)? {
        Reduction::None => smooth,
        Reduction::Sum => aten::sum(&smooth, None)?,
        Reduction::Mean => {
            let count = match weight {
                Some(w) => {
                    let class = aten::masked_fill_scalar(target, &ignored, Scalar::Int(0))?;
                    let flat = aten::reshape(&class, &[-1])?;
                    let each = aten::gather(w, 0, &flat, false)?;
                    let ignored = aten::reshape(&ignored, &[-1])?;
                    let each = aten::masked_fill_scalar(&each, &ignored, Scalar::Float(0.0))?;
                    aten::sum(&each, None)?
                }
                None => aten::sum(&aten::logical_not(&ignored)?, None)?,
            };
            aten::div_tensor(&aten::sum(&smooth, None)?, &count)?
        }
    };
    let classes = x.sizes()[dim as usize];
    aten::add_tensor(
        &aten::mul_scalar(&nll, Scalar::Float(1.0 - smoothing))?,
        &aten::mul_scalar(&smooth, Scalar::Float(smoothing / classes as f64))?,
        Scalar::Int(1),
    )
}

fn with_probabilities(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    red: i64,
    smoothing: f64,
    dim: i64,
) -> Result<Tensor> {
    let classes = x
        .sizes()
        .get(dim as usize)
        .copied()
        .ok_or_else(|| Error::index("Dimension specified as 1 but tensor has no dimensions"))?;
    if let Some(w) = weight
        && (w.dim() != 1 || w.numel() != classes)
    {
        return Err(Error::runtime(format!(
            "cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {:?}",
            w.sizes()
        )));
    }
    let scores = aten::log_softmax_int(x, dim, Some(x.dtype()))?;
    let target = if smoothing > 0.0 {
        check_smoothing(smoothing)?;
        let kept = aten::mul_scalar(target, Scalar::Float(1.0 - smoothing))?;
        aten::add_scalar(&kept, Scalar::Float(smoothing / classes as f64), Scalar::Int(1))?
    } else {
        target.clone()
    };
    let mut terms = aten::mul_tensor(&scores, &target)?;
    if let Some(w) = weight {
        terms = aten::mul_tensor(&terms, &class_weights(w, x.dim())?)?;
    }
    match reduction(red)? {
        Reduction::None => aten::neg(&aten::sum_dim_int_list(&terms, Some(&[dim]), false, None)?),
        Reduction::Sum => aten::neg(&aten::sum(&terms, None)?),
        Reduction::Mean => {
            let sum = aten::neg(&aten::sum(&terms, None)?)?;
            if x.numel() == 0 {
                return aten::full_like(
                    &sum,
                    Scalar::Float(f64::NAN),
                    None,
                    None,
                    None,
                    None,
                    None,
                );
            }
            let samples = x.numel() / classes.max(1);
            aten::div_scalar(&sum, Scalar::Float(samples as f64))
        }
    }
}
