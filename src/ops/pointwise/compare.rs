//! Whether tensors are equal, or close; distances.

use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::check_devices;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

/// Whether sizes and all elements are equal; NaN equals nothing. Reads data.
pub(crate) fn equal(a: &Tensor, b: &Tensor) -> Result<bool> {
    ensure_device!(
        a.device() == b.device(),
        "Cannot compare two tensors on different devices. Got: {} and {}",
        a.device(),
        b.device()
    );
    if a.sizes() != b.sizes() {
        return Ok(false);
    }
    Ok(aten::item(&aten::all(&aten::eq_tensor(a, b)?)?)?.as_bool())
}

/// `|a - b| <= atol + rtol |b|`, element by element; infinities of one sign are close.
pub(crate) fn isclose(
    a: &Tensor,
    b: &Tensor,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> Result<Tensor> {
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "{} did not match {}",
        a.dtype().torch_name(),
        b.dtype().torch_name()
    );
    for (name, value) in [("rtol", rtol), ("atol", atol)] {
        // NaN is refused too
        let fits = value >= 0.0;
        ensure!(fits, "{name} must be greater than or equal to zero, but got {value}");
    }
    check_devices(&[a, b])?;
    let mut close = aten::eq_tensor(a, b)?;
    let inexact = a.dtype().is_floating() || a.dtype().is_complex();
    if equal_nan && inexact {
        let both = aten::logical_and(&aten::isnan(a)?, &aten::isnan(b)?)?;
        close = aten::logical_or(&close, &both)?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close);
    }
    let float = |t: &Tensor| aten::to_dtype(t, DType::F32, false, false, None);
    let first = match a.dtype() {
        DType::Bool => float(a)?,
        _ => a.clone(),
    };
    let second = match inexact {
        true => b.clone(),
        false => float(b)?,
    };
    let one = Scalar::Int(1);
    let relative = aten::abs(&aten::mul_scalar(&second, Scalar::Float(rtol))?)?;
    let allowed = aten::add_scalar(&relative, Scalar::Float(atol), one)?;
    let actual = aten::abs(&aten::sub_tensor(&first, &second, one)?)?;
    let near = aten::logical_and(&aten::isfinite(&actual)?, &aten::le_tensor(&actual, &allowed)?)?;
    aten::logical_or(&close, &near)
}

/// Whether all elements are [`isclose`]. Reads data.
pub(crate) fn allclose(
    a: &Tensor,
    b: &Tensor,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> Result<bool> {
    let close = aten::isclose(a, b, rtol, atol, equal_nan)?;
    Ok(aten::item(&aten::all(&close)?)?.as_bool())
}
