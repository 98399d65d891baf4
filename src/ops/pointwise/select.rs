//! Comparison, `where`, masks, clamping.

use super::binary::{binary, check_inplace_shape, numbers, unary_scalar};
use super::{cast, result, result_with_number, zeros};
use crate::error::{Error, Result};
use crate::ops::common::{
    broadcast, check_can_cast, check_devices, check_fits, promote, promote_scalar, result_strides,
};
use crate::ops::copy;
use crate::tensor::launch;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Scalar};
use straightline_passes::schedule::loops::{BinaryOp, CompareOp};
use straightline_runtime::cpu::kernels::{self, Number};

pub(super) fn compare(op: CompareOp, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_devices(&[a, b])?;
    let dtype = promote(&[a, b])?;
    let sizes = broadcast(&[a, b])?;
    let mut out = result(sizes, DType::Bool, &[a, b])?;
    if out.storage().has_data() {
        let _given = (a.dtype() != b.dtype()).then(|| access::read(&[a, b])).transpose()?;
        let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
        launch::elementwise(&mut out, [&a, &b], |out, [a, b]| {
            Ok(kernels::compare(op, out, a, b)?)
        })?;
    }
    Ok(out)
}

fn compare_scalar(op: CompareOp, a: &Tensor, s: Scalar) -> Result<Tensor> {
    let dtype = promote_scalar(a, s);
    let mut out = result_with_number(a, DType::Bool)?;
    if out.storage().has_data() {
        let a = cast(a, dtype)?;
        let (number, zeros) = (Number::new(s, dtype), zeros(a.dim()));
        launch::run(&mut out, &a, |out, a| {
            let s = number.operand(a.sizes(), &zeros)?;
            Ok(kernels::compare(op, out, a, s)?)
        })?;
    }
    Ok(out)
}

macro_rules! comparisons {
    ($($name:ident $scalar:ident $op:ident),* $(,)?) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            compare(CompareOp::$op, a, b)
        }
        pub(crate) fn $scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
            compare_scalar(CompareOp::$op, a, b)
        }
    )*};
}
comparisons!(eq eq_scalar Eq, ne ne_scalar Ne, lt lt_scalar Lt, le le_scalar Le, gt gt_scalar Gt,
    ge ge_scalar Ge);

pub(crate) fn where_self(cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure_dtype!(
        cond.dtype() == DType::Bool || cond.dtype() == DType::U8,
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        cond.dtype().torch_name()
    );
    check_devices(&[cond, a, b])?;
    let dtype = promote(&[a, b])?;
    let sizes = broadcast(&[cond, a, b])?;
    let mut out = result(sizes, dtype, &[cond, a, b])?;
    if out.storage().has_data() {
        let _given = (a.dtype() != b.dtype() || cond.dtype() != DType::Bool)
            .then(|| access::read(&[cond, a, b]))
            .transpose()?;
        let cond = cast(cond, DType::Bool)?;
        let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
        run_select(&mut out, &cond, &a, &b)?;
    }
    Ok(out)
}

fn run_select(out: &mut Tensor, cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    launch::elementwise(out, [cond, a, b], |out, [cond, a, b]| {
        Ok(kernels::select(out, cond, a, b)?)
    })
}

pub(crate) fn masked_fill(x: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    ensure_dtype!(
        mask.dtype() == DType::Bool,
        "masked_fill only supports boolean masks, but got dtype {}",
        mask.dtype().torch_name()
    );
    check_fits(value, x.dtype())?;
    let sizes = broadcast(&[x, mask])?;
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), &sizes)?;
    if out.storage().has_data() {
        run_select(&mut out, mask, &Tensor::scalar_of(value, x.dtype())?, x)?;
    }
    Ok(out)
}

pub(crate) fn masked_fill_(x: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    crate::ops::index::masked::check_mask(mask, "masked_fill_")?;
    check_inplace_shape(x, mask)?;
    access::check_no_partial_overlap(x, mask)?;
    let _whole = access::whole(&[x], &[mask])?;
    let cells = access::distinct(x);
    if cells.sizes() == x.sizes() {
        return copy::copy_(x, &masked_fill(x, mask, value)?, false);
    }
    // a repeated element is filled where any of its places is
    let mask = crate::ops::view::expand(mask, x.sizes(), true)?;
    let repeated: Vec<i64> =
        (0..x.dim()).filter(|d| cells.sizes()[*d] != x.sizes()[*d]).map(|d| d as i64).collect();
    let mask = crate::ops::reduce::any_dims(&mask, Some(&repeated), true)?;
    copy::copy_(&cells, &masked_fill(&cells, &mask, value)?, false)?;
    Ok(x.clone())
}

fn clamp_dtype(x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<DType> {
    ensure!(
        min.is_some() || max.is_some(),
        "torch.clamp: At least one of 'min' or 'max' must not be None"
    );
    let mut dtype = x.dtype();
    for s in [min, max].into_iter().flatten() {
        dtype = DType::promote(dtype, promote_scalar(x, s));
    }
    if let Some((least, most)) = dtype.integer_bounds() {
        let refused = |name: &str, bound: Scalar| {
            Error::runtime(format!(
                "Clamp {name} value {} is outside the representable range of {}",
                bound.as_i64(),
                dtype.torch_name()
            ))
        };
        if let Some(min) = min.filter(|s| s.as_i64() > most) {
            return Err(refused("min", min));
        }
        if let Some(max) = max.filter(|s| s.as_i64() < least) {
            return Err(refused("max", max));
        }
    }
    // integers saturate instead
    if dtype.is_floating() {
        for bound in [min, max].into_iter().flatten() {
            check_fits(bound, dtype)?;
        }
    }
    numbers(dtype, "clamp")
}

pub(crate) fn clamp(x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let dtype = clamp_dtype(x, min, max)?;
    let mut out = cast(x, dtype)?;
    if let Some(min) = min {
        out = unary_scalar(BinaryOp::Maximum, &out, min.saturate(dtype), dtype)?;
    }
    if let Some(max) = max {
        out = unary_scalar(BinaryOp::Minimum, &out, max.saturate(dtype), dtype)?;
    }
    Ok(out)
}

pub(crate) fn clamp_(x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let dtype = clamp_dtype(x, min, max)?;
    check_can_cast(dtype, x.dtype())?;
    let _whole = access::in_place(x, &[])?;
    copy::copy_(x, &clamp(x, min, max)?, false)
}

pub(crate) fn clamp_tensor(
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let operands: Vec<&Tensor> = [Some(x), min, max].into_iter().flatten().collect();
    ensure!(operands.len() != 1, "torch.clamp: At least one of 'min' or 'max' must not be None");
    let dtype = promote(&operands)?;
    // of one bound only, a maximum or a minimum, which truth values have
    if operands.len() == 3 {
        numbers(dtype, "clamp").or_else(|e| broadcast(&operands).and(Err(e)))?;
    }
    let _given = access::read(&operands)?;
    let sizes = broadcast(&operands)?;
    let mut out = x.clone();
    if let Some(min) = min {
        out = binary(BinaryOp::Maximum, &out, min, dtype)?;
    }
    if let Some(max) = max {
        out = binary(BinaryOp::Minimum, &out, max, dtype)?;
    }
    // dimensions are in the order of all three, not of the first two and then the third
    let strides = result_strides(&sizes, &operands);
    if out.strides() != strides.as_slice() {
        let laid_out = Tensor::allocate(dtype, out.device(), sizes, strides)?;
        return copy::copy_(&laid_out, &out, false);
    }
    Ok(out)
}

pub(crate) fn clamp_min(x: &Tensor, min: Scalar) -> Result<Tensor> {
    clamp(x, Some(min), None)
}

pub(crate) fn clamp_max(x: &Tensor, max: Scalar) -> Result<Tensor> {
    clamp(x, None, Some(max))
}
