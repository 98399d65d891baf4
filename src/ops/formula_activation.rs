//! Activation functions and their backward operators.

use super::common::{check_can_cast, check_fits, float_of, laid_out_like, promote, wrap_dim};
use super::complex_functions;
use super::formula::{Call, floats, numbers};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Scalar};
use straightline_passes::formula::{Attribute, Builder, activation as f, backward, clamp};

/// The type that an operator's numbers must fit: some are kept in the tensor's own, the others in that of the arithmetic.
fn number_dtype(name: &str, dtype: DType) -> DType {
    match name.trim_end_matches('_') {
        "hardtanh"
        | "hardtanh_any"
        | "hardshrink"
        | "hardshrink_backward"
        | "softshrink_backward" => dtype,
        _ => dtype.opmath(),
    }
}

/// Functions of one tensor and numbers, with their in-place forms: `dtypes: name in_place formula(numbers)`.
macro_rules! activations {
    ($($dtypes:ident: $name:ident $inplace:ident $formula:path, ($($number:ident),*);)*) => {$(
        pub(crate) fn $name(x: &Tensor, $($number: Scalar),*) -> Result<Tensor> {
            let dtype = $dtypes(stringify!($name), &[x])?;
            $(check_fits($number, number_dtype(stringify!($name), dtype))?;)*
            let attributes = [$((stringify!($number), Attribute::from($number))),*];
            Call { name: stringify!($name), operands: &[(0, x)], attributes: &attributes, dtype }
                .run($formula)
        }
        #[allow(dead_code, reason = "some have no in-place form in PyTorch")]
        pub(crate) fn $inplace(x: &Tensor, $($number: Scalar),*) -> Result<Tensor> {
            let dtype = $dtypes(stringify!($inplace), &[x])?;
            $(check_fits($number, number_dtype(stringify!($inplace), dtype))?;)*
            let attributes = [$((stringify!($number), Attribute::from($number))),*];
            Call { name: stringify!($inplace), operands: &[(0, x)], attributes: &attributes, dtype }
                .run_inplace($formula)
        }
    )*};
}

/// Backward operators of the gradient, one tensor and numbers.
macro_rules! backwards {
    ($($dtypes:ident: $name:ident $formula:path, ($($number:ident),*);)*) => {$(
        pub(crate) fn $name(grad: &Tensor, x: &Tensor, $($number: Scalar),*) -> Result<Tensor> {
            let dtype = $dtypes(stringify!($name), &[grad, x])?;
            $(check_fits($number, number_dtype(stringify!($name), dtype))?;)*
            let attributes = [$((stringify!($number), Attribute::from($number))),*];
            Call { name: stringify!($name), operands: &[(0, grad), (1, x)], attributes: &attributes, dtype }
                .run($formula)
        }
    )*};
}

activations! {
    floats: elu elu_ f::elu, (alpha, scale, input_scale);
    floats: leaky_relu leaky_relu_ f::leaky_relu, (negative_slope);
    numbers: hardtanh_any hardtanh_any_ clamp::hardtanh, (min_val, max_val);
    floats: hardsigmoid hardsigmoid_ f::hardsigmoid, ();
    floats: hardswish hardswish_ f::hardswish, ();
    floats: mish mish_ f::mish, ();
    numbers: threshold_checked threshold_checked_ f::threshold, (threshold, value);
    floats: celu_checked celu_checked_ f::celu, (alpha);
    floats: hardshrink hardshrink_ f::hardshrink, (lambd);
    floats: softshrink_checked softshrink_checked_ f::softshrink, (lambd);
    floats: softplus softplus_ f::softplus, (beta, threshold);
}

backwards! {
    floats: hardtanh_backward backward::hardtanh, (min_val, max_val);
    floats: hardsigmoid_backward backward::hardsigmoid, ();
    floats: hardswish_backward backward::hardswish, ();
    floats: hardshrink_backward backward::hardshrink, (lambd);
    floats: softshrink_backward backward::softshrink, (lambd);
    floats: softplus_backward backward::softplus, (beta, threshold);
    floats: silu_backward backward::silu, ();
    floats: sigmoid_backward_real backward::sigmoid, ();
    floats: tanh_backward_real backward::tanh, ();
}

pub(crate) fn sigmoid_backward(grad: &Tensor, y: &Tensor) -> Result<Tensor> {
    match promote(&[grad, y])?.is_complex() {
        true => {
            let _given = access::read(&[grad, y])?;
            complex_functions::sigmoid_backward(grad, y)
        }
        false => sigmoid_backward_real(grad, y),
    }
}

pub(crate) fn tanh_backward(grad: &Tensor, y: &Tensor) -> Result<Tensor> {
    match promote(&[grad, y])?.is_complex() {
        true => {
            let _given = access::read(&[grad, y])?;
            complex_functions::tanh_backward(grad, y)
        }
        false => tanh_backward_real(grad, y),
    }
}

pub(crate) fn threshold(x: &Tensor, threshold: Scalar, value: Scalar) -> Result<Tensor> {
    check_fits(threshold, x.dtype())?;
    check_fits(value, x.dtype())?;
    threshold_checked(x, threshold, value)
}

pub(crate) fn threshold_(x: &Tensor, threshold: Scalar, value: Scalar) -> Result<Tensor> {
    check_fits(threshold, x.dtype())?;
    check_fits(value, x.dtype())?;
    // of elements that are one in memory each comes to the same
    threshold_checked_(&access::distinct(x), threshold, value)?;
    Ok(x.clone())
}

pub(crate) fn threshold_backward(g: &Tensor, x: &Tensor, threshold: Scalar) -> Result<Tensor> {
    let name = "threshold_backward";
    let dtype = numbers(name, &[g, x])?;
    check_fits(threshold, dtype)?;
    let call = Call {
        name,
        operands: &[(0, g), (1, x)],
        attributes: &[("threshold", threshold.into())],
        dtype,
    };
    call.run_laid_out(&[x, g], backward::threshold)
}

fn check_alpha(alpha: Scalar) -> Result<()> {
    if alpha.as_f64() == 0.0 {
        return Err(Error::runtime(
            "ZeroDivisionError: alpha cannot be 0 for CELU",
        ));
    }
    Ok(())
}

pub(crate) fn celu(x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_alpha(alpha)?;
    celu_checked(x, alpha)
}

pub(crate) fn celu_(x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_alpha(alpha)?;
    celu_checked_(x, alpha)
}

pub(crate) fn softshrink(x: &Tensor, lambd: Scalar) -> Result<Tensor> {
    let l = lambd.as_f64();
    if l.is_nan() || l < 0.0 || l.is_infinite() {
        return Err(Error::runtime(format!(
            "lambda must be a finite number greater or equal to 0, but found to be {l}."
        )));
    }
    softshrink_checked(x, lambd)
}

pub(crate) fn selu(x: &Tensor) -> Result<Tensor> {
    aten::elu(x, f::SELU_ALPHA.into(), f::SELU_SCALE.into(), 1.0.into())
}

pub(crate) fn selu_(x: &Tensor) -> Result<Tensor> {
    aten::elu_(x, f::SELU_ALPHA.into(), f::SELU_SCALE.into(), 1.0.into())
}

/// The bound of an integer tensor is an integer, as in PyTorch: of `u8` one that is negative is within its bounds then.
fn bound(x: &Tensor, of: Scalar) -> Scalar {
    match x.dtype().is_integral() {
        true => Scalar::Int(of.as_i64()),
        false => of,
    }
}

pub(crate) fn hardtanh(x: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    let bounded = hardtanh_any(x, bound(x, min_val), bound(x, max_val))?;
    Ok(laid_out_like(bounded, x))
}

pub(crate) fn hardtanh_(x: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    hardtanh_any_(x, bound(x, min_val), bound(x, max_val))
}

pub(crate) fn relu6(x: &Tensor) -> Result<Tensor> {
    aten::hardtanh(x, 0.into(), 6.into())
}

pub(crate) fn relu6_(x: &Tensor) -> Result<Tensor> {
    aten::hardtanh_(x, 0.into(), 6.into())
}

pub(crate) fn log_sigmoid(x: &Tensor) -> Result<Tensor> {
    Ok(aten::log_sigmoid_forward(x)?.0)
}

pub(crate) fn log_sigmoid_forward(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let name = "log_sigmoid_forward";
    let dtype = floats(name, &[x])?;
    let call = Call {
        name,
        operands: &[(0, x)],
        attributes: &[],
        dtype,
    };
    // row-major, whatever the operand's layout
    let mut first = Tensor::allocate_contiguous(dtype, x.device(), x.sizes())?;
    let mut second = Tensor::allocate_contiguous(dtype, x.device(), x.sizes())?;
    call.run_pair_into([&mut first, &mut second], f::log_sigmoid_forward)?;
    Ok((first, second))
}

/// In the input's dtype, which what the operands promote to must fit in.
pub(crate) fn mish_backward(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let name = "mish_backward";
    let dtype = floats(name, &[g, x])?;
    check_can_cast(dtype, x.dtype())?;
    let call = Call {
        name,
        operands: &[(0, g), (1, x)],
        attributes: &[],
        dtype,
    };
    let out = call.run(backward::mish)?;
    super::copy::to_dtype(&out, x.dtype())
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
    let call = Call {
        name,
        operands: &[(0, g), (1, x), (2, buffer)],
        attributes: &[],
        dtype,
    };
    call.run(backward::log_sigmoid)
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
    let dtype = floats("elu_backward", &[g, x])?;
    let call = Call {
        name: "elu_backward",
        operands: &[(0, g), (5, x)],
        attributes: &[
            ("alpha", alpha.into()),
            ("scale", scale.into()),
            ("input_scale", input_scale.into()),
            ("is_result", is_result.into()),
        ],
        dtype,
    };
    call.run(backward::elu)
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
    let dtype = floats("leaky_relu_backward", &[g, x])?;
    let call = Call {
        name: "leaky_relu_backward",
        operands: &[(0, g), (1, x)],
        attributes: &[("negative_slope", slope.into())],
        dtype,
    };
    call.run_laid_out(&[x, g], backward::leaky_relu)
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
    let dtype = floats("gelu_backward", &[g, x])?;
    let call = Call {
        name: "gelu_backward",
        operands: &[(0, g), (1, x)],
        attributes: &[("approximate", Attribute::Text(approximate))],
        dtype,
    };
    call.run(backward::gelu)
}

fn same_dtype(name: &str, a: &Tensor, b: &Tensor) -> Result<DType> {
    if a.dtype() != b.dtype() {
        return Err(Error::dtype(format!(
            "{name}: type promoting not supported, got {} and {}",
            a.dtype().torch_name(),
            b.dtype().torch_name()
        )));
    }
    floats(name, &[a])
}

pub(crate) fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    if x.dtype() != weight.dtype() {
        same_dtype("prelu", x, weight)?;
    }
    let n = weight.numel();
    if n != 1 {
        if x.dim() == 0 {
            return Err(Error::shape("prelu: Not allow zero-dim input tensor."));
        }
        let channels = if x.dim() > 1 { x.sizes()[1] } else { 1 };
        if channels != n {
            return Err(Error::shape(format!(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = {n}, and \
                 channel size = {channels}."
            )));
        }
    }
    if weight.dim() > 1 {
        return Err(Error::shape(format!(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
            weight.dim()
        )));
    }
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
    let call = Call {
        name: "_prelu_kernel",
        operands: &[(0, x), (1, weight)],
        attributes: &[],
        dtype,
    };
    Ok(laid_out_like(call.run(f::prelu)?, x))
}

pub(crate) fn prelu_kernel_backward(
    g: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let dtype = same_dtype("_prelu_kernel_backward", x, weight)?;
    found_dtype(g, dtype)?;
    let call = Call {
        name: "_prelu_kernel_backward",
        operands: &[(0, g), (1, x), (2, weight)],
        attributes: &[],
        dtype,
    };
    call.run_pair(&[x, weight, g], backward::prelu)
}

/// The two halves of a tensor along a dimension.
fn halves(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor, usize)> {
    if x.dim() == 0 {
        return Err(Error::shape("glu does not support 0-dimensional tensors"));
    }
    let d = wrap_dim(dim, x.dim())?;
    let n = x.sizes()[d];
    if n % 2 != 0 {
        return Err(Error::shape(format!(
            "Halving dimension must be even, but dimension {d} is size {n}"
        )));
    }
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
    let call = Call {
        name: "glu",
        operands: &[(0, &first), (1, &second)],
        attributes: &[],
        dtype,
    };
    call.run(|b| {
        let (first, second) = (b.operand(0)?, b.operand(1)?);
        f::glu(b, first, second)
    })
}

pub(crate) fn glu_backward(g: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    check_can_cast(float_of(x.dtype()), x.dtype())?;
    let dtype = floats("glu_backward", &[x])?;
    found_dtype(g, dtype)?;
    let (first, second, d) = halves(x, dim)?;
    let out = Tensor::allocate_contiguous(dtype, x.device(), x.sizes())?;
    let (mut d_first, mut d_second) = halves_of(&out, d);
    let call = Call {
        name: "glu_backward",
        operands: &[(0, g), (1, &first), (2, &second)],
        attributes: &[],
        dtype,
    };
    call.run_pair_into([&mut d_first, &mut d_second], |b| {
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
