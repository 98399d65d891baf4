//! Activation functions and their backward operators that check more than their row of the table of
//! formulas says.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{check_can_cast, check_fits, float_of, promote, wrap_dim};
use crate::ops::copy::laid_out_like;
use crate::ops::pointwise;
use crate::ops::pointwise::complex_functions;
use crate::ops::pointwise::formula::{self, Call, floats};
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Op, Scalar};
use straightline_passes::formula::{Attribute, Builder, activation as f, backward};

/// `sigmoid_backward` and `tanh_backward`, of real numbers a formula.
macro_rules! of_results {
    ($($name:ident)*) => {$(
        pub(crate) fn $name(grad: &Tensor, y: &Tensor) -> Result<Tensor> {
            if promote(&[grad, y])?.is_complex() {
                let _given = access::read(&[grad, y])?;
                return complex_functions::$name(grad, y);
            }
            formula::run(Op::$name, &[(0, grad), (1, y)], &[])
        }
    )*};
}

of_results!(sigmoid_backward tanh_backward);

/// The numbers of `threshold`, which the tensor's own dtype holds.
fn threshold_numbers(
    x: &Tensor,
    threshold: Scalar,
    value: Scalar,
) -> Result<[(&'static str, Attribute); 2]> {
    check_fits(threshold, x.dtype())?;
    check_fits(value, x.dtype())?;
    Ok([("threshold", threshold.into()), ("value", value.into())])
}

pub(crate) fn threshold(x: &Tensor, threshold: Scalar, value: Scalar) -> Result<Tensor> {
    let numbers = threshold_numbers(x, threshold, value)?;
    formula::run(Op::threshold, &[(0, x)], &numbers)
}

pub(crate) fn threshold_(x: &Tensor, threshold: Scalar, value: Scalar) -> Result<Tensor> {
    let numbers = threshold_numbers(x, threshold, value)?;
    // elements that share memory all get the same value
    formula::run_(Op::threshold, &[(0, &access::distinct(x))], &numbers)?;
    Ok(x.clone())
}

pub(crate) fn threshold_backward(g: &Tensor, x: &Tensor, threshold: Scalar) -> Result<Tensor> {
    let attributes = [("threshold", threshold.into())];
    Call::new(Op::threshold_backward, &[(0, g), (1, x)], &attributes)?.run_laid_out(&[x, g])
}

fn celu_alpha(alpha: Scalar) -> Result<[(&'static str, Attribute); 1]> {
    ensure!(alpha.as_f64() != 0.0, "ZeroDivisionError: alpha cannot be 0 for CELU");
    Ok([("alpha", alpha.into())])
}

pub(crate) fn celu(x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    formula::run(Op::celu, &[(0, x)], &celu_alpha(alpha)?)
}

pub(crate) fn celu_(x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    formula::run_(Op::celu, &[(0, x)], &celu_alpha(alpha)?)
}

pub(crate) fn softshrink(x: &Tensor, lambd: Scalar) -> Result<Tensor> {
    let l = lambd.as_f64();
    if l.is_nan() || l < 0.0 || l.is_infinite() {
        return Err(Error::runtime(format!(
            "lambda must be a finite number greater or equal to 0, but found to be {l}."
        )));
    }
    formula::run(Op::softshrink, &[(0, x)], &[("lambd", lambd.into())])
}

/// The bound of an integer tensor is an integer, as in PyTorch: of `u8` one that is negative is
/// within its bounds then.
fn bound(x: &Tensor, of: Scalar) -> Scalar {
    match x.dtype().is_integral() {
        true => Scalar::Int(of.as_i64()),
        false => of,
    }
}

fn bounds(x: &Tensor, min_val: Scalar, max_val: Scalar) -> [(&'static str, Attribute); 2] {
    [("min_val", bound(x, min_val).into()), ("max_val", bound(x, max_val).into())]
}

pub(crate) fn hardtanh(x: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    let bounded = formula::run(Op::hardtanh, &[(0, x)], &bounds(x, min_val, max_val))?;
    laid_out_like(bounded, x)
}

pub(crate) fn hardtanh_(x: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    formula::run_(Op::hardtanh, &[(0, x)], &bounds(x, min_val, max_val))
}

pub(crate) fn log_sigmoid_forward(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let operands = [(0, x)];
    let dtype = floats("log_sigmoid_forward", &[x])?;
    let call = Call::with_dtype(Op::log_sigmoid_forward, &operands, &[], dtype);
    // row-major, whatever the operand's layout
    let mut first = Tensor::allocate_contiguous(dtype, x.device(), x.sizes())?;
    let mut second = Tensor::allocate_contiguous(dtype, x.device(), x.sizes())?;
    call.run_parts([&mut first, &mut second], f::log_sigmoid_forward)?;
    Ok((first, second))
}

/// In the input's dtype, which what the operands promote to must fit in.
pub(crate) fn mish_backward(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let operands = [(0, g), (1, x)];
    let call = Call::new(Op::mish_backward, &operands, &[])?;
    check_can_cast(call.dtype, x.dtype())?;
    crate::ops::copy::to_dtype(&call.run()?, x.dtype())
}

/// Operands of operators that do not promote.
fn found_dtype(t: &Tensor, dtype: DType) -> Result<()> {
    if t.dtype() == dtype {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "Found dtype {} but expected {}",
        t.dtype().torch_name(),
        dtype.torch_name()
    )))
}

pub(crate) fn log_sigmoid_backward(g: &Tensor, x: &Tensor, buffer: &Tensor) -> Result<Tensor> {
    let name = "log_sigmoid_backward";
    let dtype = same_dtype(name, x, g)?;
    found_dtype(buffer, dtype)?;
    let operands = [(0, g), (1, x), (2, buffer)];
    Call::with_dtype(Op::log_sigmoid_backward, &operands, &[], dtype).run()
}

pub(crate) fn elu_backward(
    g: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    x: &Tensor,
) -> Result<Tensor> {
    if is_result && alpha.as_f64() < 0.0 {
        return Err(Error::value(
            "In-place elu backward calculation is triggered with a negative slope which is not supported. \
             This is caused by calling in-place forward function with a negative slope, please call \
             out-of-place version instead.",
        ));
    }
    let attributes = [
        ("alpha", alpha.into()),
        ("scale", scale.into()),
        ("input_scale", input_scale.into()),
        ("is_result", is_result.into()),
    ];
    formula::run(Op::elu_backward, &[(0, g), (5, x)], &attributes)
}

pub(crate) fn leaky_relu_backward(
    g: &Tensor,
    x: &Tensor,
    slope: Scalar,
    is_result: bool,
) -> Result<Tensor> {
    if is_result && slope.as_f64() < 0.0 {
        return Err(Error::value(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not \
             supported. This is caused by calling in-place forward function with a negative slope, please \
             call out-of-place version instead.",
        ));
    }
    let attributes = [("negative_slope", slope.into())];
    Call::new(Op::leaky_relu_backward, &[(0, g), (1, x)], &attributes)?.run_laid_out(&[x, g])
}

pub(crate) fn gelu_backward(g: &Tensor, x: &Tensor, approximate: &str) -> Result<Tensor> {
    let approximate = match approximate {
        "none" => "none",
        "tanh" => "tanh",
        other => {
            return Err(Error::runtime(format!(
                "approximate argument must be either none or tanh, not `{other}`"
            )));
        }
    };
    let attributes = [("approximate", Attribute::Text(approximate))];
    formula::run(Op::gelu_backward, &[(0, g), (1, x)], &attributes)
}

fn same_dtype(name: &str, a: &Tensor, b: &Tensor) -> Result<DType> {
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "{name}: type promoting not supported, got {} and {}",
        a.dtype().torch_name(),
        b.dtype().torch_name()
    );
    floats(name, &[a])
}

pub(crate) fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    if x.dtype() != weight.dtype() {
        same_dtype("prelu", x, weight)?;
    }
    let n = weight.numel();
    if n != 1 {
        ensure_shape!(x.dim() != 0, "prelu: Not allow zero-dim input tensor.");
        let channels = if x.dim() > 1 { x.sizes()[1] } else { 1 };
        ensure_shape!(
            channels == n,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {n}, and \
                 channel size = {channels}."
        );
    }
    ensure_shape!(
        weight.dim() <= 1,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
        weight.dim()
    );
    if weight.dim() == x.dim() {
        return aten::_prelu_kernel(x, weight);
    }
    let mut sizes = vec![1; x.dim()];
    if x.dim() > 1 {
        sizes[1] = n;
    }
    aten::_prelu_kernel(x, &aten::reshape(weight, &sizes)?)
}

pub(crate) fn prelu_kernel(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let dtype = same_dtype("_prelu_kernel", x, weight)?;
    let operands = [(0, x), (1, weight)];
    let call = Call::with_dtype(Op::_prelu_kernel, &operands, &[], dtype);
    laid_out_like(call.run()?, x)
}

pub(crate) fn prelu_kernel_backward(
    g: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let dtype = same_dtype("_prelu_kernel_backward", x, weight)?;
    found_dtype(g, dtype)?;
    let operands = [(0, g), (1, x), (2, weight)];
    let call = Call::with_dtype(Op::_prelu_kernel_backward, &operands, &[], dtype);
    call.run_pair(&[x, weight, g])
}

/// The two halves of a tensor along a dimension.
fn halves(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor, usize)> {
    ensure_shape!(x.dim() != 0, "glu does not support 0-dimensional tensors");
    let d = wrap_dim(dim, x.dim())?;
    let n = x.sizes()[d];
    ensure_shape!(n % 2 == 0, "Halving dimension must be even, but dimension {d} is size {n}");
    let (first, second) = halves_of(x, d);
    Ok((first, second, d))
}

fn halves_of(x: &Tensor, d: usize) -> (Tensor, Tensor) {
    let mut sizes = straightline_catalog::Dims::from_slice(x.sizes());
    sizes[d] /= 2;
    let strides = straightline_catalog::Dims::from_slice(x.strides());
    let offset = x.storage_offset();
    let second = offset + sizes[d] * strides[d];
    (
        x.with_geometry(sizes.clone(), strides.clone(), offset),
        x.with_geometry(sizes, strides, second),
    )
}

pub(crate) fn glu(x: &Tensor, dim: i64) -> Result<Tensor> {
    let dtype = floats("glu", &[x])?;
    let (first, second, _) = halves(x, dim)?;
    let operands = [(0, &first), (1, &second)];
    let call = Call::with_dtype(Op::glu, &operands, &[], dtype);
    let mut out = pointwise::result(first.sizes().into(), dtype, &[&first, &second])?;
    call.run_parts([&mut out], |b| {
        let (first, second) = (b.operand(0)?, b.operand(1)?);
        Some([f::glu(b, first, second)?])
    })?;
    Ok(out)
}

pub(crate) fn glu_backward(g: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    check_can_cast(float_of(x.dtype()), x.dtype())?;
    let dtype = floats("glu_backward", &[x])?;
    found_dtype(g, dtype)?;
    let (first, second, d) = halves(x, dim)?;
    let out = Tensor::allocate_contiguous(dtype, x.device(), x.sizes())?;
    let (mut d_first, mut d_second) = halves_of(&out, d);
    let operands = [(0, g), (1, &first), (2, &second)];
    let call = Call::with_dtype(Op::glu_backward, &operands, &[], dtype);
    call.run_parts([&mut d_first, &mut d_second], |b| {
        let (g, first, second) = (b.operand(0)?, b.operand(1)?, b.operand(2)?);
        backward::glu(b, g, first, second)
    })?;
    Ok(out)
}

pub(crate) fn rrelu_with_noise_backward(
    g: &Tensor,
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    is_result: bool,
) -> Result<Tensor> {
    let (l, u) = (lower.as_f64(), upper.as_f64());
    if training && u - l > 1e-6 {
        return aten::mul_tensor(noise, g);
    }
    aten::leaky_relu_backward(g, x, ((l + u) / 2.0).into(), is_result)
}
