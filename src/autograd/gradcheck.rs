//! Gradients against differences: is a formula the derivative of what its operator computes?

use super::backward::{GradOptions, grad_with};
use super::context::Context;
use super::error::AutogradError;
use super::forward::{dual_level, make_dual, unpack_dual};
use super::function::Function;
use super::mode::no_grad;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::DType;

/// How [`gradcheck`] compares.
///
/// ```
/// use straightline::autograd::Gradcheck;
/// assert_eq!(Gradcheck::default().eps, 1e-6);
/// ```
#[derive(Clone, Debug)]
pub struct Gradcheck {
    /// By how much each element is moved, in each direction.
    pub eps: f64,
    /// The absolute difference that is allowed.
    pub atol: f64,
    /// The relative one.
    pub rtol: f64,
    /// By how much the gradients of two passes may differ; not at all.
    pub nondet_tol: f64,
    /// Whether passes are made in which no gradient arrives at some outputs, or at any.
    pub check_undefined_grad: bool,
    /// Whether gradients in batches (`is_grads_batched`) are compared with those one by one.
    pub check_batched_grad: bool,
    /// Whether tangents (forward mode) are compared as well.
    pub check_forward_ad: bool,
    /// Whether gradients are.
    pub check_backward_ad: bool,
}

impl Default for Gradcheck {
    fn default() -> Gradcheck {
        Gradcheck {
            eps: 1e-6,
            atol: 1e-5,
            rtol: 1e-3,
            nondet_tol: 0.0,
            check_undefined_grad: true,
            check_batched_grad: false,
            check_forward_ad: false,
            check_backward_ad: true,
        }
    }
}

/// Compares the gradients of `f` at inputs of `f64` or `c128` with central differences, element by
/// element, and checks that a second pass gives the same bits, that gradients of zero give zeros, and
/// that gradients which do not arrive are none of the function's troubles.
///
/// # Errors
///
/// They differ ([`AutogradError::Gradcheck`] shows both Jacobians); no input wants a gradient; one
/// that does overlaps itself; or the function's own errors.
///
/// ```
/// use straightline::{DType, Tensor, autograd::{Gradcheck, gradcheck}};
/// let x = Tensor::from_vec([0.3f64, -1.2], 2)?.requires_grad_(true)?;
/// gradcheck(|x| Ok(vec![x[0].sin()?.mul(&x[0])?]), &[x], &Gradcheck::default())?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn gradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: &Gradcheck,
) -> Result<()> {
    let wanted: Vec<usize> = (0..inputs.len()).filter(|i| inputs[*i].requires_grad()).collect();
    let fail = |what: String| Err(AutogradError::Gradcheck(what).into());
    if wanted.is_empty() {
        return Err(crate::Error::value(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.",
        ));
    }
    for i in &wanted {
        let t = &inputs[*i];
        if t.sizes().iter().zip(t.strides()).any(|(n, s)| *n > 1 && *s == 0) {
            return fail(format!(
                "The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able \
                 to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck."
            ));
        }
    }
    let outputs = f(inputs)?;
    for (o, output) in outputs.iter().enumerate() {
        if !(output.dtype().is_floating() || output.dtype().is_complex()) {
            continue;
        }
        for i in &wanted {
            let numerical = numerical(&f, inputs, *i, o, options.eps)?;
            let close = |a: f64, n: f64| {
                (a.is_nan() && n.is_nan()) || (a - n).abs() <= options.atol + options.rtol * n.abs()
            };
            let agree = |analytical: &[Vec<f64>]| {
                let rows = analytical.iter().zip(&numerical);
                rows.fold(true, |all, (a, n)| all && a.iter().zip(n).all(|(a, n)| close(*a, *n)))
            };
            if options.check_forward_ad {
                let pushed = pushed(&f, inputs, *i, o)?;
                if !agree(&pushed) {
                    return fail(format!(
                        "Jacobian computed with forward mode mismatch for output {o} with respect to input {i},\n\
                         numerical:{numerical:?}\nanalytical:{pushed:?}\n"
                    ));
                }
            }
            if !options.check_backward_ad {
                continue;
            }
            if !output.requires_grad() {
                if numerical.iter().flatten().any(|x| x.abs() > options.atol) {
                    return fail("Numerical gradient for function expected to be zero".into());
                }
                continue;
            }
            let analytical = analytical(output, &inputs[*i])?;
            let again = analytical_again(&f, inputs, *i, o)?;
            if !same(&analytical, &again, options.nondet_tol) {
                return fail(format!(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives \
                     different values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was \
                     {:?}.",
                    options.nondet_tol
                ));
            }
            if !agree(&analytical) {
                return fail(format!(
                    "Jacobian mismatch for output {o} with respect to input {i},\nnumerical:{numerical:?}\nanalytical:{analytical:?}\n"
                ));
            }
        }
    }
    let inputs: Vec<Tensor> = wanted.iter().map(|i| inputs[*i].clone()).collect();
    let outputs: Vec<Tensor> = outputs.into_iter().filter(Tensor::requires_grad).collect();
    if outputs.is_empty() {
        return Ok(());
    }
    zeros_give_zeros(&outputs, &inputs)?;
    if options.check_undefined_grad {
        undefined_gradients(&outputs, &inputs)?;
    }
    if options.check_batched_grad {
        batched_gradients(&outputs, &inputs, options)?;
    }
    Ok(())
}

fn kept(grads: Vec<Option<Tensor>>) -> GradOptions {
    GradOptions {
        grad_outputs: grads,
        retain_graph: Some(true),
        allow_unused: Some(true),
        ..GradOptions::default()
    }
}

/// Whether there is no gradient, or nothing but zeros.
fn is_nothing(g: &Option<Tensor>) -> Result<bool> {
    match g {
        Some(g) => Ok(numbers(g)?.iter().all(|x| *x == 0.0)),
        None => Ok(true),
    }
}

fn zeros_give_zeros(outputs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
    let zeros = |t: &Tensor| aten::zeros_like(t, None, None, None, None, None).map(Some);
    let zeros = no_grad(|| outputs.iter().map(zeros).collect::<Result<_>>())?;
    for g in grad_with(outputs, inputs, &kept(zeros))? {
        if !is_nothing(&g)? {
            return Err(
                AutogradError::Gradcheck("backward not multiplied by grad_output".into()).into()
            );
        }
    }
    Ok(())
}

/// Passes nothing back.
struct Nowhere;

impl Function for Nowhere {
    fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        inputs.iter().map(|t| aten::alias(t)).collect()
    }

    fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None; grads.len()])
    }
}

fn undefined_gradients(outputs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
    let ones = |t: &Tensor| aten::ones_like(t, None, None, None, None, None).map(Some);
    let ones: Vec<Option<Tensor>> = no_grad(|| outputs.iter().map(ones).collect::<Result<_>>())?;
    let pass = |gone: &dyn Fn(usize) -> bool| {
        let of = |(o, t): (usize, &Tensor)| match gone(o) {
            true => Ok(Nowhere.apply(std::slice::from_ref(t))?.remove(0)),
            false => Ok(t.clone()),
        };
        let outputs = outputs.iter().enumerate().map(of).collect::<Result<Vec<_>>>()?;
        grad_with(&outputs, inputs, &kept(ones.clone())).map_err(|e| {
            crate::Error::from(AutogradError::Gradcheck(format!(
                "Expected backward function to handle undefined output grads: {e}"
            )))
        })
    };
    for g in pass(&|_| true)? {
        if !is_nothing(&g)? {
            return Err(AutogradError::Gradcheck(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero.".into(),
            )
            .into());
        }
    }
    if outputs.len() > 1 {
        for o in 0..outputs.len() {
            pass(&|other| other == o)?;
        }
    }
    Ok(())
}

/// Gradients of three cotangents at once, and one by one.
fn batched_gradients(outputs: &[Tensor], inputs: &[Tensor], options: &Gradcheck) -> Result<()> {
    for output in outputs {
        let weights = |k: i64| -> Result<Tensor> {
            let all = (0..output.numel()).map(|n| ((n + 1) as f64 * 0.7 + k as f64).sin());
            Tensor::from_vec(all.collect::<Vec<f64>>(), output.sizes())?.to(output.dtype())
        };
        let weights = no_grad(|| (0..3).map(weights).collect::<Result<Vec<_>>>())?;
        let outputs = std::slice::from_ref(output);
        let together =
            GradOptions { is_grads_batched: true, ..kept(vec![Some(aten::stack(&weights, 0)?)]) };
        let together = grad_with(outputs, inputs, &together)?;
        for (k, w) in weights.into_iter().enumerate() {
            let alone = grad_with(outputs, inputs, &kept(vec![Some(w)]))?;
            for (i, (all, one)) in together.iter().zip(&alone).enumerate() {
                let (Some(all), Some(one)) = (all, one) else { continue };
                let all = numbers(&aten::select_int(all, 0, k as i64)?)?;
                let near = |(a, b): (&f64, &f64)| {
                    (a.is_nan() && b.is_nan())
                        || (a - b).abs() <= options.atol + options.rtol * b.abs()
                };
                let one = numbers(one)?;
                if !all.iter().zip(&one).all(near) {
                    return Err(AutogradError::Gradcheck(format!(
                        "For input {i}, the gradients of a batch differ from those one by one: {all:?} and {one:?}"
                    ))
                    .into());
                }
            }
        }
    }
    Ok(())
}

/// [`gradcheck`] of the gradients: are second derivatives right?
///
/// # Errors
///
/// As [`gradcheck`].
///
/// ```
/// use straightline::{Tensor, autograd::{Gradcheck, gradgradcheck}};
/// let x = Tensor::from_vec([0.3f64, -1.2], 2)?.requires_grad_(true)?;
/// gradgradcheck(|x| Ok(vec![x[0].tanh()?]), &[x], &Gradcheck::default())?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn gradgradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: &Gradcheck,
) -> Result<()> {
    let outputs = f(inputs)?;
    let mut all = inputs.to_vec();
    let mut differentiable = Vec::new();
    for (o, output) in outputs.iter().enumerate() {
        if output.requires_grad() {
            differentiable.push(o);
            let weights = (0..output.numel()).map(|k| (k as f64 * 0.7 + 0.4).sin());
            let weights: Vec<f64> = weights.collect();
            let w = Tensor::from_vec(weights, output.sizes())?.to(output.dtype())?;
            all.push(w.requires_grad_(true)?);
        }
    }
    let count = inputs.len();
    let wanted: Vec<usize> = (0..count).filter(|i| inputs[*i].requires_grad()).collect();
    let first = |all: &[Tensor]| {
        let (inputs, weights) = all.split_at(count);
        let outputs = f(inputs)?;
        let outputs: Vec<Tensor> = differentiable.iter().map(|o| outputs[*o].clone()).collect();
        let options = GradOptions {
            grad_outputs: weights.iter().cloned().map(Some).collect(),
            create_graph: true,
            allow_unused: Some(true),
            ..GradOptions::default()
        };
        let inputs: Vec<Tensor> = wanted.iter().map(|i| inputs[*i].clone()).collect();
        Ok(grad_with(&outputs, &inputs, &options)?.into_iter().flatten().collect())
    };
    gradcheck(first, &all, options)
}

/// The numbers of a tensor, real and imaginary parts one after the other.
fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    let t = t.detach()?;
    let t = match t.dtype().is_complex() {
        true => aten::view_as_real(&t.resolve_conj()?)?,
        false => t,
    };
    t.to(DType::F64)?.contiguous()?.view(-1)?.to_vec::<f64>()
}

/// A tensor like another one, with other numbers: of complex ones the parts.
fn with_numbers(numbers: Vec<f64>, like: &Tensor) -> Result<Tensor> {
    if !like.dtype().is_complex() {
        return Tensor::from_vec(numbers, like.sizes())?.to(like.dtype());
    }
    let mut sizes = like.sizes().to_vec();
    sizes.push(2);
    let pairs = Tensor::from_vec(numbers, &sizes[..])?;
    crate::ops::aten::view_as_complex(&pairs)?.to(like.dtype())
}

/// One row for each number of the input.
fn numerical(
    f: &impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    i: usize,
    o: usize,
    eps: f64,
) -> Result<Vec<Vec<f64>>> {
    let of = &inputs[i];
    let values = numbers(of)?;
    let at = |k: usize, by: f64| -> Result<Vec<f64>> {
        let mut moved = values.clone();
        moved[k] += by;
        let moved = with_numbers(moved, of)?;
        let mut all = inputs.to_vec();
        all[i] = moved.requires_grad_(true)?;
        // the function may ask for gradients itself
        numbers(&f(&all)?[o])
    };
    (0..values.len())
        .map(|k| {
            let (up, down) = (at(k, eps)?, at(k, -eps)?);
            Ok(up.iter().zip(&down).map(|(u, d)| (u - d) / (2.0 * eps)).collect())
        })
        .collect()
}

/// The same by tangents, one for each number of the input.
fn pushed(
    f: &impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    i: usize,
    o: usize,
) -> Result<Vec<Vec<f64>>> {
    let of = &inputs[i];
    let count = numbers(of)?.len();
    let row = |k: usize| {
        let mut one = vec![0f64; count];
        one[k] = 1.0;
        let tangent = with_numbers(one, of)?;
        dual_level(|| {
            let mut all = inputs.to_vec();
            all[i] = make_dual(of, &tangent)?;
            let output = f(&all)?.swap_remove(o);
            match unpack_dual(&output)?.tangent {
                Some(tangent) => numbers(&tangent),
                None => Ok(vec![0.0; numbers(&output)?.len()]),
            }
        })
    };
    (0..count).map(row).collect()
}

/// The same by backward passes, one for each number of the output.
fn analytical(output: &Tensor, input: &Tensor) -> Result<Vec<Vec<f64>>> {
    let parts = if output.dtype().is_complex() { 2 } else { 1 };
    let count = output.numel() as usize * parts;
    let mut columns = Vec::with_capacity(count);
    for k in 0..count {
        let mut one = vec![0f64; count];
        one[k] = 1.0;
        let seed = no_grad(|| with_numbers(one, output))?;
        let options = GradOptions {
            grad_outputs: vec![Some(seed)],
            retain_graph: Some(true),
            allow_unused: Some(true),
            materialize_grads: true,
            ..GradOptions::default()
        };
        let grads = grad_with(std::slice::from_ref(output), std::slice::from_ref(input), &options)?;
        columns.push(match &grads[0] {
            Some(g) => numbers(g)?,
            None => vec![0.0; numbers(input)?.len()],
        });
    }
    let rows = numbers(input)?.len();
    Ok((0..rows).map(|r| columns.iter().map(|c| c[r]).collect()).collect())
}

fn analytical_again(
    f: &impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    i: usize,
    o: usize,
) -> Result<Vec<Vec<f64>>> {
    analytical(&f(inputs)?[o], &inputs[i])
}

/// Whether the numbers of two passes are the same bits, or near enough.
fn same(a: &[Vec<f64>], b: &[Vec<f64>], tolerance: f64) -> bool {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.into_iter().all(|(a, b)| a.to_bits() == b.to_bits() || (a - b).abs() <= tolerance)
}
