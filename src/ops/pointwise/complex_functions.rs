//! Functions of complex numbers that are no single kernel: the same operators' forms for real
//! numbers are formulas or kernels of `f64`.

use crate::error::Result;
use crate::ops::pointwise;
use crate::ops::pointwise::complex::conjugated;
use crate::ops::pointwise::zip_with;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::prims::UnaryOp;
use straightline_catalog::{DType, Scalar};
use straightline_runtime::cpu::kernels::complex as kernels;

const ONE: Scalar = Scalar::Int(1);

/// `sin(pi x) / (pi x)`, 1 at 0.
pub(crate) fn sinc(x: &Tensor) -> Result<Tensor> {
    let turned = pointwise::mul_scalar(x, Scalar::Float(std::f64::consts::PI))?;
    let quotient = pointwise::div(&pointwise::elementary(UnaryOp::Sin, &turned)?, &turned)?;
    pointwise::masked_fill(&quotient, &pointwise::eq_scalar(x, Scalar::Int(0))?, ONE)
}

/// `ln(exp(a) + exp(b))`.
pub(crate) fn logaddexp(a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    zip_with(a, b, dtype, |out, [a, b]| Ok(kernels::log_add_exp(out, a, b)?))
}

/// The logarithm of the sum of the exponentials of the elements so far along a dimension.
pub(crate) fn logcumsumexp(x: &Tensor, dim: usize) -> Result<Tensor> {
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    launch::run(&mut out, x, |out, x| Ok(kernels::running_log_add_exp(out, x, dim)?))?;
    Ok(out)
}

/// Only one of them may be complex.
fn times_conjugate(grad: &Tensor, slope: &Tensor) -> Result<Tensor> {
    match slope.dtype().is_complex() {
        true => pointwise::mul(grad, &conjugated(slope)?),
        false => pointwise::mul(grad, slope),
    }
}

/// `grad` times the conjugate of `y (1 - y)`.
pub(crate) fn sigmoid_backward(grad: &Tensor, y: &Tensor) -> Result<Tensor> {
    let slope = pointwise::mul(&pointwise::rsub_scalar(y, ONE, ONE)?, y)?;
    times_conjugate(grad, &slope)
}

/// `grad` times the conjugate of `1 - y^2`.
pub(crate) fn tanh_backward(grad: &Tensor, y: &Tensor) -> Result<Tensor> {
    let slope = pointwise::rsub_scalar(&pointwise::mul(y, y)?, ONE, ONE)?;
    times_conjugate(grad, &slope)
}

/// `exp(-target x)`.
fn margin(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    pointwise::elementary(
        UnaryOp::Exp,
        &pointwise::mul(&pointwise::elementary(UnaryOp::Neg, target)?, x)?,
    )
}

/// `ln(1 + exp(-target x))`.
pub(crate) fn soft_margin(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    pointwise::elementary(UnaryOp::Log1p, &margin(x, target)?)
}

/// The derivative of [`soft_margin`] times `share` of `grad`.
pub(crate) fn soft_margin_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    share: Scalar,
) -> Result<Tensor> {
    let z = margin(x, target)?;
    let slope =
        pointwise::mul_scalar(&pointwise::mul(target, &z)?, Scalar::Float(-share.as_f64()))?;
    let slope = pointwise::div(&slope, &pointwise::add_scalar(&z, ONE, ONE)?)?;
    pointwise::mul(&slope, grad)
}

#[cfg(test)]
mod tests {
    use crate::ops::aten;
    use crate::{DType, Tensor};
    use num_complex::Complex;

    type C = Complex<f64>;

    fn near(got: &Tensor, want: &[C]) {
        for (x, y) in got.to_vec::<C>().unwrap().iter().zip(want) {
            assert!((x - y).l1_norm() < 1e-12, "{x} {y}");
        }
    }

    #[test]
    fn of_numbers_without_an_imaginary_part_they_are_the_real_ones() {
        let x = Tensor::from_vec([-2.0, -0.5, 0.0, 0.25, 3.0], 5).unwrap();
        let g = Tensor::from_vec([1.0, 2.0, -1.0, 0.5, 4.0], 5).unwrap();
        let z = |t: &Tensor| t.to_dtype(DType::C128).unwrap();
        let want = |t: crate::Result<Tensor>| z(&t.unwrap()).to_vec::<C>().unwrap();
        near(&aten::sinc(&z(&x)).unwrap(), &want(aten::sinc(&x)));
        near(&aten::logaddexp(&z(&x), &z(&g)).unwrap(), &want(aten::logaddexp(&x, &g)));
        near(&aten::logcumsumexp(&z(&x), 0).unwrap(), &want(aten::logcumsumexp(&x, 0)));
        near(
            &aten::sigmoid_backward(&z(&g), &z(&x)).unwrap(),
            &want(aten::sigmoid_backward(&g, &x)),
        );
        near(&aten::tanh_backward(&z(&g), &z(&x)).unwrap(), &want(aten::tanh_backward(&g, &x)));
        near(
            &aten::soft_margin_loss(&z(&x), &z(&g), 0).unwrap(),
            &want(aten::soft_margin_loss(&x, &g, 0)),
        );
    }

    #[test]
    fn sums_of_exponentials_of_complex_numbers() {
        let x = [C::new(0.5, 2.0), C::new(-1.0, 0.3), C::new(40.0, -1.0)];
        let exp = |x: C| C::new(x.im.cos(), x.im.sin()) * x.re.exp();
        let t = Tensor::from_vec(x, -1).unwrap();
        let got = aten::exp(&aten::logcumsumexp(&t, 0).unwrap()).unwrap();
        let sums = [exp(x[0]), exp(x[0]) + exp(x[1])];
        near(&got, &sums);
    }
}
