//! Gradients that are too large are made smaller.

use crate::autograd::no_grad;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// Scales all gradients together so that their 2-norm is at most `max_norm`, and returns the norm
/// that they had.
///
/// ```
/// use straightline::{Tensor, nn::Parameter, optim::clip_grad_norm_, tensor};
/// let w = Parameter::new(&Tensor::ones([2])?)?;
/// w.set_grad(Some(&tensor([30.0, 40.0])?))?;
/// assert_eq!(clip_grad_norm_(&[w.tensor().clone()], 5.0)?.item::<f32>()?, 50.0);
/// let clipped = w.grad().unwrap();
/// straightline::assert_close(&clipped, &tensor([3.0, 4.0])?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_norm_(parameters: &[Tensor], max_norm: f64) -> Result<Tensor> {
    clip_grad_norm_with_(parameters, max_norm, 2.0, false)
}

/// [`clip_grad_norm_`] of a norm of any order (infinity is the largest element). A norm that is not
/// finite is an error if that is asked for, which reads data; otherwise the gradients become zero
/// or NaN.
///
/// # Errors
/// See above.
#[track_caller]
pub fn clip_grad_norm_with_(
    parameters: &[Tensor],
    max_norm: f64,
    order: f64,
    error_if_nonfinite: bool,
) -> Result<Tensor> {
    let grads: Vec<Tensor> = parameters.iter().filter_map(Tensor::grad).collect();
    let total = get_total_norm(&grads, order, error_if_nonfinite)?;
    clip_grads_with_norm_(parameters, max_norm, &total)?;
    Ok(total)
}

/// The norm of all tensors together: of gradients, before something is done about them.
///
/// ```
/// use straightline::{optim::get_total_norm, tensor};
/// let grads = [tensor([3.0])?, tensor([0.0, 4.0])?];
/// assert_eq!(get_total_norm(&grads, 2.0, false)?.item::<f32>()?, 5.0);
/// assert_eq!(get_total_norm(&grads, f64::INFINITY, false)?.item::<f32>()?, 4.0);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// The norm is not finite, if that is asked for.
#[track_caller]
pub fn get_total_norm(tensors: &[Tensor], order: f64, error_if_nonfinite: bool) -> Result<Tensor> {
    if tensors.is_empty() {
        return Tensor::literal(0.0);
    }
    no_grad(|| {
        let norm =
            |t: &Tensor| aten::linalg_vector_norm(t, Scalar::Float(order), None, false, None);
        let norms = tensors.iter().map(norm).collect::<Result<Vec<_>>>()?;
        let total = norm(&Tensor::stack(norms, 0)?)?;
        if error_if_nonfinite && !total.isfinite()?.item::<bool>()? {
            return Err(crate::Error::runtime(format!(
                "The total norm of order {order:?} for gradients from `parameters` is non-finite, so it cannot be \
                 clipped. To disable this error and scale the gradients by the non-finite norm anyway, set \
                 `error_if_nonfinite=False`"
            )));
        }
        Ok(total)
    })
}

/// Scales all gradients together so that the norm that they have becomes at most `max_norm`.
///
/// ```
/// use straightline::optim::{clip_grads_with_norm_, get_total_norm};
/// use straightline::{Tensor, nn::Parameter, tensor};
/// let w = Parameter::new(&Tensor::ones([2])?)?;
/// w.set_grad(Some(&tensor([30.0, 40.0])?))?;
/// let total = get_total_norm(&[w.grad().unwrap()], 2.0, false)?;
/// clip_grads_with_norm_(&[w.tensor().clone()], 5.0, &total)?;
/// straightline::assert_close(&w.grad().unwrap(), &tensor([3.0, 4.0])?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn clip_grads_with_norm_(parameters: &[Tensor], max_norm: f64, total: &Tensor) -> Result<()> {
    no_grad(|| {
        // always multiplied, so that nothing depends on data
        let limit = total.full_like(max_norm)?;
        let factor = limit.div(total.add(1e-6)?)?.clamp_max(1.0)?;
        for grad in parameters.iter().filter_map(Tensor::grad) {
            grad.mul_(&factor)?;
        }
        Ok(())
    })
}

/// Clamps each element of all gradients to `-max..=max`.
///
/// ```
/// use straightline::{Tensor, nn::Parameter, optim::clip_grad_value_, tensor};
/// let w = Parameter::new(&Tensor::ones([2])?)?;
/// w.set_grad(Some(&tensor([-7.0, 0.5])?))?;
/// clip_grad_value_(&[w.tensor().clone()], 1.0)?;
/// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [-1.0, 0.5]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_value_(parameters: &[Tensor], max: f64) -> Result<()> {
    no_grad(|| {
        for grad in parameters.iter().filter_map(Tensor::grad) {
            grad.clamp_(-max, max)?;
        }
        Ok(())
    })
}
